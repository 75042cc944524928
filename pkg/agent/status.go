package agent

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/karp-sh/karp/pkg/status"
)

// report answers the questions of the status endpoint.
type report struct {
	*shared
	verdicts        *verdicts
	version, region string
}

var (
	_ status.InfoSource  = (*report)(nil)
	_ status.PodVerdicts = (*report)(nil)
	_ status.Leadership  = (*fence)(nil)
)

// StatusInfo describes the agent.
func (r *report) StatusInfo(context.Context) (status.Info, error) {
	return status.Info{
		Meta: status.Meta{ObservedAt: r.clock.Now()}, Version: r.version, EngineVersion: r.version, ClusterName: r.cfg.AWS.ClusterName, Region: r.region,
		FeatureGates: r.cfg.Gates.Map(),
		Settings: status.Settings{
			VMMemoryOverheadPercent: r.cfg.AWS.VMMemoryOverheadPercent, PreferencePolicy: r.cfg.PreferencePolicy, MinValuesPolicy: r.cfg.MinValuesPolicy,
			BatchIdleSeconds: r.cfg.BatchIdleDuration.Seconds(), BatchMaxSeconds: r.cfg.BatchMaxDuration.Seconds(),
			PlacementHints: r.hints, IgnoreDRARequests: r.cfg.IgnoreDRARequests, SchedulerConfig: r.cfg.SchedulerConfig,
			ConsolidationMinimumSaving: r.cfg.ConsolidationMinimumSaving,
		},
		Synced: r.feed.Synced(), Waiting: r.feed.Unsynced(),
	}, nil
}

// PodVerdict is the last decision on a pod.
func (r *report) PodVerdict(_ context.Context, namespace, name string) (status.PodVerdict, error) {
	a, at, decision, ok := r.verdicts.Of(types.NamespacedName{Namespace: namespace, Name: name})
	if !ok {
		return status.PodVerdict{}, fmt.Errorf("no decision on pod %s/%s: it has not asked for a node since the last decision: %w", namespace, name, status.ErrNotFound)
	}
	out := status.PodVerdict{
		Meta: status.Meta{ObservedAt: r.clock.Now()}, Namespace: namespace, Name: name, UID: a.uid, DecidedAt: at, Decision: decision, Node: a.node, Claim: a.claim,
	}
	if seen := r.feed.FirstSeen(a.uid); !seen.IsZero() {
		out.FirstSeen = &seen
	}
	if a.verdict != nil {
		out.Verdict = status.NewVerdict(a.verdict)
	}
	return out, nil
}

// addStatus serves the status endpoint from all replicas; the leader publishes where and how it is reached.
func addStatus(mgr manager.Manager, restConfig *rest.Config, r *report) error {
	if r.cfg.StatusPort == 0 {
		return nil
	}
	clients, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return err
	}
	authority, err := status.NewAuthority(r.clock.Now, status.ServerName, "localhost", "127.0.0.1")
	if err != nil {
		return fmt.Errorf("preparing the status endpoint: %w", err)
	}
	server := &status.Server{
		Info: r, Pods: r, Offerings: r, Leadership: r.fence, Access: status.NewAccess(clients, r.clock.Now), Authority: authority, Log: r.log,
	}
	serve := everywhere(func(ctx context.Context) error {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address(r.cfg.StatusPort))
		if err != nil {
			return fmt.Errorf("opening the status endpoint (set --status-port to another port, or to 0 to go without): %w", err)
		}
		return server.Serve(ctx, listener)
	})
	if err := mgr.Add(serve); err != nil || r.fence.Interface == nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return r.publish(ctx, clients, authority.PEM()) }))
}

// everywhere is a runnable of all replicas, leader or not.
type everywhere func(context.Context) error

// Start runs it.
func (f everywhere) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection is false.
func (f everywhere) NeedLeaderElection() bool { return false }

// publish tells in the Lease how the endpoint is reached. Without it the plugin goes on without the agent, so a failure is only reported.
func (r *report) publish(ctx context.Context, clients kubernetes.Interface, authority []byte) error {
	url := ""
	if r.cfg.PodName == "" {
		url = "https://127.0.0.1:" + strconv.Itoa(r.cfg.StatusPort)
	}
	lease := status.Lease{Namespace: r.cfg.LeaseNamespace(), Name: r.cfg.LeaderElectionName}
	for {
		err := status.Publish(ctx, clients, lease, authority, url)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		r.log.Error("publishing the status endpoint", "error", err)
		if !pause(ctx, retryPeriod*5) {
			return nil
		}
	}
}
