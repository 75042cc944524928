package agent

import (
	"context"
	"errors"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// This file says what of the loops is counted. A counter goes up only after the call it describes has succeeded (lifecycle rules 26).

// label values of objects.
func poolLabel(o client.Object) string { return o.GetLabels()[lifecycle.PoolLabel] }
func zoneLabel(o client.Object) string { return o.GetLabels()[corev1.LabelTopologyZone] }
func typeLabel(o client.Object) string { return o.GetLabels()[lifecycle.CapacityTypeLabel] }

// countCreated counts a claim that was created.
func (s *shared) countCreated(c *karpv1.NodeClaim, reason string) {
	s.metrics.ClaimsCreated.WithLabelValues(reason, poolLabel(c), c.Annotations[karpv1.MinValuesRelaxedAnnotation]).Inc()
}

// countDisrupted counts a claim that the agent has deleted, and the pods that will have to move.
func (s *shared) countDisrupted(ctx context.Context, c *karpv1.NodeClaim, reason string) {
	policy, mode := "", terminationMode(c)
	if reason == "empty" || reason == "underutilized" {
		policy = lifecycle.SnakeCase(s.consolidationPolicy(ctx, poolLabel(c)))
	}
	if interruption(reason) {
		mode = ""
	}
	values := []string{reason, poolLabel(c), typeLabel(c), policy, mode}
	s.metrics.ClaimsDisrupted.WithLabelValues(values...).Inc()
	if c.Status.NodeName == "" || interruption(reason) {
		return
	}
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.MatchingFields{podsByNode: c.Status.NodeName}); err != nil {
		return
	}
	for i := range pods.Items {
		if p := podOf(&pods.Items[i], nil); !p.Daemon && !p.Mirror && !p.Terminal && !p.Terminating() {
			s.metrics.PodsDisrupted.WithLabelValues(values...).Inc()
		}
	}
}

// interruption reports whether a reason is a kind of news from the cloud.
func interruption(reason string) bool {
	switch cloud.Interruption(reason) {
	case cloud.SpotInterrupted, cloud.RebalanceRecommendation, cloud.InstanceStopped, cloud.InstanceTerminated, cloud.CapacityReservationInterrupted,
		cloud.ScheduledChange, cloud.InstanceStatus, cloud.SystemStatus, cloud.EventStatus:
		return true
	default:
		return false
	}
}

func (s *shared) consolidationPolicy(ctx context.Context, pool string) string {
	var p karpv1.NodePool
	if pool == "" || s.client.Get(ctx, client.ObjectKey{Name: pool}, &p) != nil {
		return ""
	}
	return string(p.Spec.Disruption.ConsolidationPolicy)
}

// terminationMode tells how long pods may hold up the end of a claim (L-329).
func terminationMode(c *karpv1.NodeClaim) string {
	switch d := c.Spec.TerminationGracePeriod; {
	case d == nil:
		return "graceful"
	case d.Value() == 0:
		return "forceful"
	default:
		return "eventual"
	}
}

// countClaimEnd counts a claim whose finalizer was removed.
func (s *shared) countClaimEnd(c *karpv1.NodeClaim) {
	s.metrics.ClaimsTerminated.WithLabelValues(poolLabel(c), typeLabel(c), zoneLabel(c)).Inc()
	s.metrics.ClaimTermination.WithLabelValues(poolLabel(c)).Observe(s.since(deletedAt(c)))
}

// countInstanceEnd counts an instance that is gone.
func (s *shared) countInstanceEnd(c *karpv1.NodeClaim) {
	if cond := findCondition(c.Status.Conditions, lifecycle.InstanceTerminating); cond != nil {
		s.metrics.InstanceTermination.WithLabelValues(poolLabel(c)).Observe(s.since(cond.LastTransitionTime.Time))
	}
}

// countNodeEnd counts a node whose finalizer was removed.
func (s *shared) countNodeEnd(n *corev1.Node) {
	s.metrics.NodesTerminated.WithLabelValues(poolLabel(n), zoneLabel(n)).Inc()
	s.metrics.NodeTermination.WithLabelValues(poolLabel(n)).Observe(s.since(deletedAt(n)))
	s.metrics.NodeLifetime.WithLabelValues(poolLabel(n)).Observe(s.since(n.CreationTimestamp.Time))
}

func (s *shared) since(t time.Time) float64 { return s.clock.Since(t).Seconds() }

// countEviction counts the answer to an eviction.
func (s *shared) countEviction(err error) {
	code := 200
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		code = int(status.Status().Code)
	case err != nil:
		return
	}
	s.metrics.EvictionRequests.WithLabelValues(strconv.Itoa(code)).Inc()
}

// measured is a cloud whose calls are measured.
type measured struct {
	Cloud
	metrics  *telemetry.Metrics
	provider string
}

// measure notes one call; use it deferred with the call's error.
func (m measured) measure(controller, method string, begun time.Time, err *error) {
	m.metrics.CloudDuration.WithLabelValues(controller, method, m.provider).Observe(time.Since(begun).Seconds())
	if *err != nil {
		m.metrics.CloudErrors.WithLabelValues(controller, method, m.provider, errorName(*err)).Inc()
	}
}

// errorName names the kind of a cloud error as Karpenter's dashboards know it (L-318, L-319).
func errorName(err error) string {
	var noCapacity *cloud.NoCapacity
	var notReady *cloud.ClassNotReady
	var notFound *cloud.NotFound
	switch {
	case errors.As(err, &noCapacity):
		return "InsufficientCapacityError"
	case errors.As(err, &notReady):
		return "NodeClassNotReadyError"
	case errors.As(err, &notFound):
		return "NodeClaimNotFoundError"
	default:
		return ""
	}
}

// Resolve implements cloud.Provider. It is the first half of Create, which counts once: here if it ends here.
func (m measured) Resolve(ctx context.Context, c *karpv1.NodeClaim, class *awsv1.EC2NodeClass, id cloud.Identity) (*cloud.Request, error) {
	begun := time.Now()
	r, err := m.Cloud.Resolve(ctx, c, class, id)
	if err != nil {
		m.measure("nodeclaim.lifecycle", "Create", begun, &err)
	}
	return r, err
}

// Launch implements cloud.Provider.
func (m measured) Launch(ctx context.Context, r *cloud.Request) (i *cloud.Instance, err error) {
	defer m.measure("nodeclaim.lifecycle", "Create", time.Now(), &err)
	return m.Cloud.Launch(ctx, r)
}

// Terminate implements cloud.Provider.
func (m measured) Terminate(ctx context.Context, id string) (err error) {
	defer m.measure("nodeclaim.lifecycle", "Delete", time.Now(), &err)
	return m.Cloud.Terminate(ctx, id)
}

// Get implements cloud.Provider.
func (m measured) Get(ctx context.Context, id string) (i *cloud.Instance, err error) {
	defer m.measure("node.termination", "Get", time.Now(), &err)
	return m.Cloud.Get(ctx, id)
}

// List implements cloud.Provider.
func (m measured) List(ctx context.Context) (l cloud.Listing, err error) {
	defer m.measure("instance.garbagecollection", "List", time.Now(), &err)
	return m.Cloud.List(ctx)
}

// measuredDrifts measures the question for drift.
type measuredDrifts struct {
	cloud.Drifts
	metrics  *telemetry.Metrics
	provider string
}

// Drift implements cloud.Drifts.
func (m measuredDrifts) Drift(ctx context.Context, c *karpv1.NodeClaim, class *awsv1.EC2NodeClass) (why cloud.DriftReason, err error) {
	defer measured{metrics: m.metrics, provider: m.provider}.measure("nodeclaim.disruption", "IsDrifted", time.Now(), &err)
	return m.Drifts.Drift(ctx, c, class)
}
