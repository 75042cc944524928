package agent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// repair is the loop node.health (gate NodeRepair): it replaces nodes that have been ill for too long, unless so many are ill that something
// else must be wrong (lifecycle rules 16).
type repair struct {
	*shared
	policies []lifecycle.RepairPolicy
}

// repairBlockedWindow is how often a node is told that its repair is blocked.
const repairBlockedWindow = 15 * time.Minute

// Step looks at one node.
func (l *repair) Step(ctx context.Context, n *corev1.Node) (reconcile.Result, error) {
	if !managedNode(n) {
		return reconcile.Result{}, nil
	}
	list, err := l.claimsWith(ctx, n.Spec.ProviderID)
	if err != nil || len(list) != 1 {
		return reconcile.Result{}, err
	}
	c, v, now := &list[0], nodeOf(n), l.clock.Now()
	if l.awaited.Stale(c) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	due, policy, ill := lifecycle.Ill(&v, l.policies)
	switch {
	case !ill:
		return reconcile.Result{}, nil
	case now.Before(due):
		return reconcile.Result{RequeueAfter: due.Sub(now)}, nil
	}
	ok, err := l.allowed(ctx, c)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !ok {
		l.events.WarnEvery(repairBlockedWindow, n, "NodeRepairBlocked", "more than 20% of the nodes are unhealthy, so none is repaired")
		return reconcile.Result{RequeueAfter: lifecycle.RepairBlocked}, nil
	}
	return reconcile.Result{}, l.replace(ctx, n, c, policy, now)
}

// allowed asks how many nodes are ill: of the claim's pool, or of the cluster for a claim without one.
func (l *repair) allowed(ctx context.Context, c *karpv1.NodeClaim) (bool, error) {
	var nodes corev1.NodeList
	var options []client.ListOption
	if pool, ok := c.Labels[lifecycle.PoolLabel]; ok {
		options = append(options, client.MatchingLabels{lifecycle.PoolLabel: pool})
	}
	if err := l.client.List(ctx, &nodes, options...); err != nil {
		return false, fmt.Errorf("listing nodes: %w", err)
	}
	ill := 0
	for i := range nodes.Items {
		v := nodeOf(&nodes.Items[i])
		if _, _, yes := lifecycle.Ill(&v, l.policies); yes {
			ill++
		}
	}
	return lifecycle.RepairAllowed(ill, len(nodes.Items)), nil
}

// replace gives the claim a deadline that has come, which ends its drain by force, and deletes it.
func (l *repair) replace(ctx context.Context, n *corev1.Node, c *karpv1.NodeClaim, policy lifecycle.RepairPolicy, now time.Time) error {
	v := claimOf(c)
	if deadline, write := lifecycle.RepairDeadline(&v, now); write {
		base := c.DeepCopy()
		c.Annotations = annotate(c.Annotations, lifecycle.DeadlineAnnotation, deadline)
		if err := l.patch(ctx, c, base); err != nil {
			return err
		}
	}
	if c.DeletionTimestamp != nil {
		return nil
	}
	removed, err := l.remove(ctx, c)
	if err != nil {
		return fmt.Errorf("deleting claim %s of unhealthy node %s: %w", c.Name, n.Name, err)
	}
	if removed {
		l.log.Info("deleting unhealthy node", telemetry.Node(n.Name), telemetry.Claim(c.Name), "condition", policy.Condition, "status", policy.Status)
		l.countDisrupted(ctx, c, lifecycle.ReasonUnhealthy)
		l.metrics.ClaimsUnhealthy.WithLabelValues(lifecycle.SnakeCase(policy.Condition), poolLabel(c), typeLabel(c), c.Status.ImageID).Inc()
	}
	return nil
}

// repairRows are the controllers of the gate NodeRepair.
func repairRows(s *shared) []row {
	if !s.cfg.Gates.NodeRepair {
		return nil
	}
	empty := func() *corev1.Node { return &corev1.Node{} }
	return []row{{
		name: "node.health", kind: empty(), step: loop(s, empty, (&repair{s, lifecycle.RepairPolicies()}).Step), only: conditionsChanged(),
		workers: scale(s.cfg.CPURequests, 10, 1000), from: 100 * time.Millisecond, to: time.Minute,
	}}
}

// conditionsChanged lets pass nodes whose conditions differ in type, status or transition time.
func conditionsChanged() predicate.Predicate {
	of := func(o client.Object) map[corev1.NodeConditionType]corev1.NodeCondition {
		out := map[corev1.NodeConditionType]corev1.NodeCondition{}
		for _, c := range o.(*corev1.Node).Status.Conditions {
			out[c.Type] = corev1.NodeCondition{Status: c.Status, LastTransitionTime: c.LastTransitionTime}
		}
		return out
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !apiequality.Semantic.DeepEqual(of(e.ObjectOld), of(e.ObjectNew))
	}}
}
