// Package agent runs the loops that keep a cluster's nodes: classes and pools, provisioning, the life of claims, termination, garbage
// collection.
//
// Every loop observes, decides by a pure function, rechecks, records what it is about to do, and acts. What is decided lives in packages
// engine and lifecycle; a file here holds one loop, and this one wires them. Nothing is remembered that a restart could not find again: claims
// carry their intents, and the API server arbitrates every write by the preconditions it carries.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// Options are what Run is given beside the configuration.
type Options struct {
	// Log receives one line per decision and one per effect.
	Log *slog.Logger
	// Metrics to count with; nil counts for nobody.
	Metrics *telemetry.Metrics
	// Version of the program.
	Version string
	// Rest is the connection to the API server; nil takes it from the configuration's kubeconfig, else from inside the cluster.
	Rest *rest.Config
}

// shutdownTimeout is how long running reconciliations may take after the context ended (lifecycle rules 24).
const shutdownTimeout = 30 * time.Second

// Run runs the agent until the context ends (then it returns nil, with the lease released) or the lease is lost, which is an error.
func Run(ctx context.Context, cfg config.Config, o Options) error {
	if o.Metrics == nil {
		var err error
		if o.Metrics, err = telemetry.NewMetrics(prometheus.NewRegistry(), o.Version, ""); err != nil {
			return err
		}
	}
	restConfig := o.Rest
	if restConfig == nil {
		var err error
		if restConfig, err = connect(cfg); err != nil {
			return err
		}
	}
	restConfig.QPS, restConfig.Burst = float32(cfg.KubeClientQPS), cfg.KubeClientBurst
	restConfig.UserAgent = "karp-agent/" + o.Version
	scheme, err := kube.NewScheme()
	if err != nil {
		return err
	}
	direct, err := client.New(restConfig, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("connecting to the API server: %w", err)
	}
	major, minor, err := serverVersion(restConfig)
	if err != nil {
		return err
	}
	uid, err := clusterUID(ctx, direct)
	if err != nil {
		return err
	}
	ca, err := certificate(cfg, restConfig)
	if err != nil {
		return err
	}
	// Launches see the overlays that decisions see; the feed needs the cloud, and the cloud the feed.
	var feed *kube.Feed
	var overlay overlayFunc
	if cfg.Gates.NodeOverlay {
		overlay = func(ctx context.Context, pool string, types []catalog.InstanceType) ([]catalog.InstanceType, error) {
			return feed.Overlay(ctx, pool, types)
		}
	}
	provider, err := newCloud(ctx, cfg, restConfig, direct, ca, o, overlay)
	if err != nil {
		return err
	}
	hints := cfg.Hints(major, minor)
	feed = kube.NewFeed(cfg.Settings(hints), kube.FromCloud(provider), time.Now)
	fence, err := newLease(cfg, restConfig, clock.RealClock{})
	if err != nil {
		return err
	}
	mgr, err := newManager(cfg, restConfig, scheme, feed, fence)
	if err != nil {
		return err
	}
	s := &shared{
		cfg: cfg, client: mgr.GetClient(), live: mgr.GetAPIReader(), cloud: measured{provider, o.Metrics, "aws"},
		drifts: measuredDrifts{provider, o.Metrics, "aws"}, news: provider, feed: feed, clock: clock.RealClock{}, log: o.Log, metrics: o.Metrics,
		events: newEvents(mgr.GetEventRecorderFor(eventSource), clock.RealClock{}), //nolint:staticcheck // the events of core/v1 are what the roles allow
		fence:  fence, awaited: newAwaited(), clusterUID: uid,
		classHash: func(c *awsv1.EC2NodeClass) string { return c.Hash(ca) }, hints: hints,
	}
	if err := errors.Join(Index(ctx, mgr.GetFieldIndexer()), feed.Register(ctx, mgr.GetCache())); err != nil {
		return err
	}
	loops := newLoops(s)
	info := &report{shared: s, verdicts: loops.known, version: o.Version, region: provider.Region()}
	if err := errors.Join(wire(mgr, loops), probes(mgr), addRefreshers(mgr, provider, o.Log), addStatus(mgr, restConfig, info)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// connect finds the API server.
func connect(cfg config.Config) (*rest.Config, error) {
	if cfg.Kubeconfig == "" && cfg.KubeContext == "" {
		if c, err := rest.InClusterConfig(); err == nil {
			return c, nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = cfg.Kubeconfig
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: cfg.KubeContext}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the API server (set --kubeconfig outside a cluster): %w", err)
	}
	return c, nil
}

// newLease makes the leader election's lock. It has a client of its own, so that the loops cannot starve its renewals.
func newLease(cfg config.Config, restConfig *rest.Config, c clock.PassiveClock) (*fence, error) {
	if cfg.DisableLeaderElection {
		return newFence(nil, c), nil
	}
	own := rest.CopyConfig(restConfig)
	own.QPS, own.Burst, own.Timeout, own.RateLimiter = 10, 20, renewDeadline/2, nil
	clients, err := kubernetes.NewForConfig(own)
	if err != nil {
		return nil, fmt.Errorf("connecting for leader election: %w", err)
	}
	name := cfg.PodName
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("naming this process for leader election: %w", err)
		}
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, cfg.LeaseNamespace(), cfg.LeaderElectionName,
		clients.CoreV1(), clients.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name + "_" + string(uuid.NewUUID())})
	if err != nil {
		return nil, fmt.Errorf("preparing leader election: %w", err)
	}
	return newFence(lock, c), nil
}

func newManager(cfg config.Config, restConfig *rest.Config, scheme *runtime.Scheme, feed *kube.Feed, f *fence) (manager.Manager, error) {
	lease, renew, retry, shutdown := leaseDuration, renewDeadline, retryPeriod, shutdownTimeout
	o := manager.Options{
		Scheme: scheme, LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry, GracefulShutdownTimeout: &shutdown,
		LeaderElectionReleaseOnCancel: true, Metrics: metricsOptions(cfg), HealthProbeBindAddress: address(cfg.HealthProbePort),
		Cache: cache.Options{DefaultTransform: kube.Transform, DefaultWatchErrorHandler: feed.WatchErrorHandler()},
	}
	if f.Interface != nil {
		o.LeaderElection, o.LeaderElectionResourceLockInterface = true, f
		o.LeaderElectionID, o.LeaderElectionNamespace = cfg.LeaderElectionName, cfg.LeaseNamespace()
	}
	mgr, err := manager.New(restConfig, o)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return mgr, nil
}

// Index lets a cache find objects by what links them (lifecycle rules 3). The loops need it.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	add := func(obj client.Object, field string, value func(client.Object) string) error {
		return indexer.IndexField(ctx, obj, field, func(o client.Object) []string {
			if v := value(o); v != "" {
				return []string{v}
			}
			return nil
		})
	}
	return errors.Join(
		add(&corev1.Pod{}, podsByNode, func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }),
		add(&corev1.Node{}, nodesByProvider, func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID }),
		add(&karpv1.NodeClaim{}, claimsByProvider, func(o client.Object) string { return o.(*karpv1.NodeClaim).Status.ProviderID }),
		add(&karpv1.NodeClaim{}, claimsByClass, func(o client.Object) string { return o.(*karpv1.NodeClaim).Spec.NodeClassRef.Name }),
		add(&karpv1.NodePool{}, claimsByClass, func(o client.Object) string { return o.(*karpv1.NodePool).Spec.Template.Spec.NodeClassRef.Name }),
		add(&storagev1.VolumeAttachment{}, attachmentsByNode, func(o client.Object) string { return o.(*storagev1.VolumeAttachment).Spec.NodeName }),
	)
}

// clusterUID identifies the cluster: the UID of namespace kube-system.
func clusterUID(ctx context.Context, r client.Reader) (string, error) {
	var ns corev1.Namespace
	if err := r.Get(ctx, types.NamespacedName{Name: "kube-system"}, &ns); err != nil {
		return "", fmt.Errorf("reading namespace kube-system, whose UID identifies the cluster: %w", err)
	}
	return string(ns.UID), nil
}

// verifyToken tells whether a launch token is derived from this cluster and the launch ID.
func verifyToken(clusterUID string) func(launchID, token string) bool {
	return func(launchID, token string) bool {
		uid, attempt, ok := splitLaunch(launchID)
		return ok && cloud.Identity{ClusterUID: clusterUID, ClaimUID: uid, Attempt: attempt}.Token() == token
	}
}
