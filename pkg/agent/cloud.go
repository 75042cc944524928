package agent

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cloud/aws"
	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// overlayFunc corrects instance types for the claims of a pool.
type overlayFunc func(ctx context.Context, pool string, types []catalog.InstanceType) ([]catalog.InstanceType, error)

// newCloud connects to AWS. Overlay may be nil.
func newCloud(ctx context.Context, cfg config.Config, restConfig *rest.Config, reader client.Reader, ca string, o Options, overlay overlayFunc) (*aws.Provider, error) {
	p, err := aws.New(ctx, aws.Options{
		ClusterName: cfg.AWS.ClusterName, Region: cfg.AWS.Region, ClusterEndpoint: cfg.AWS.ClusterEndpoint, ClusterCA: ca,
		ClusterDNS: clusterDNS(ctx, reader), IsolatedVPC: cfg.AWS.IsolatedVPC, EKSControlPlane: cfg.AWS.EKSControlPlane,
		DisableDryRun: cfg.AWS.DisableDryRun, MemoryOverhead: cfg.AWS.VMMemoryOverheadPercent, ReservedENIs: cfg.AWS.ReservedENIs,
		AMIRefresh: cfg.AWS.AMIRefreshInterval, SubnetRefresh: cfg.AWS.SubnetRefreshInterval,
		ReservedCapacity: cfg.Gates.ReservedCapacity, ZonalShift: cfg.AWS.EnableZonalShift, QueueName: cfg.AWS.InterruptionQueue,
		Overlay: overlay, Pools: poolsOf(reader), Observer: observer{o.Metrics}, Version: o.Version, Clock: clock.RealClock{}, Logger: o.Log,
		KubeVersion: func(context.Context) (string, error) {
			major, minor, err := serverVersion(restConfig)
			return fmt.Sprintf("%d.%d", major, minor), err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to AWS: %w", err)
	}
	return p, nil
}

// poolsOf reads the pools that use a class.
func poolsOf(reader client.Reader) func(context.Context, string) ([]karpv1.NodePool, error) {
	return func(ctx context.Context, class string) ([]karpv1.NodePool, error) {
		var list karpv1.NodePoolList
		if err := reader.List(ctx, &list); err != nil {
			return nil, err
		}
		return slices.DeleteFunc(list.Items, func(p karpv1.NodePool) bool {
			ref := p.Spec.Template.Spec.NodeClassRef
			return p.DeletionTimestamp != nil || !managedRef(ref) || ref.Name != class
		}), nil
	}
}

// observer counts what the cloud provider tells.
type observer struct{ *telemetry.Metrics }

var _ aws.Observer = observer{}

// LaunchFailed counts one error in the answer to a launch.
func (o observer) LaunchFailed(zone, zoneID, capacityType, reason string) {
	o.LaunchFailures.WithLabelValues(zone, zoneID, capacityType, reason).Inc()
}

// TerminationFailed counts an instance that could not be terminated.
func (o observer) TerminationFailed(zone, zoneID string) {
	o.TerminationFailures.WithLabelValues(zone, zoneID).Inc()
}

// Batched records how calls were united.
func (o observer) Batched(batcher string, size int, waited time.Duration) {
	o.AWS.BatchSize.WithLabelValues(batcher).Observe(float64(size))
	o.AWS.BatchTime.WithLabelValues(batcher).Observe(waited.Seconds())
}

// UserData keeps the size of a class's user data.
func (o observer) UserData(class string, bytes int) {
	if bytes < 0 {
		o.AWS.UserData.DeleteLabelValues(class)
		return
	}
	o.AWS.UserData.WithLabelValues(class).Set(float64(bytes))
}

// Called counts an attempt of an AWS call.
func (o observer) Called(service, operation, code string, took time.Duration) {
	o.AWS.Calls.WithLabelValues(service, operation, code).Inc()
	o.AWS.CallTime.WithLabelValues(service, operation, code).Observe(took.Seconds())
}

// certificate is the cluster's CA for nodes, base64: the setting, else the one this process trusts.
func certificate(cfg config.Config, restConfig *rest.Config) (string, error) {
	if cfg.AWS.ClusterCABundle != "" {
		return cfg.AWS.ClusterCABundle, nil
	}
	own := rest.CopyConfig(restConfig)
	if err := rest.LoadTLSFiles(own); err != nil {
		return "", fmt.Errorf("reading the cluster's certificate authority: %w", err)
	}
	return base64.StdEncoding.EncodeToString(own.CAData), nil
}

// clusterDNS is the address of service kube-dns; empty if there is none, which leaves the choice to the image.
func clusterDNS(ctx context.Context, reader client.Reader) string {
	var service corev1.Service
	if err := reader.Get(ctx, types.NamespacedName{Namespace: "kube-system", Name: "kube-dns"}, &service); err != nil {
		return ""
	}
	return service.Spec.ClusterIP
}

// refresher runs one refresh of the provider's knowledge again and again.
type refresher struct {
	aws.Refresher
	log *slog.Logger
}

// refreshRetry is how soon a failed refresh is repeated.
const refreshRetry = time.Minute

// NeedLeaderElection tells the manager whether only the leader refreshes.
func (r refresher) NeedLeaderElection() bool { return r.LeaderOnly }

// Start runs until the context ends.
func (r refresher) Start(ctx context.Context) error {
	for {
		wait := r.Every
		if err := r.Refresh(ctx); err != nil && ctx.Err() == nil {
			r.log.Error("refreshing what is known of AWS", "what", r.Name, "error", err)
			wait = min(wait, refreshRetry)
		}
		if !pause(ctx, wait) {
			return nil
		}
	}
}

func addRefreshers(mgr manager.Manager, p *aws.Provider, log *slog.Logger) error {
	for _, r := range p.Refreshers() {
		if err := mgr.Add(refresher{r, log}); err != nil {
			return err
		}
	}
	return addCloudLoops(mgr, p, log)
}
