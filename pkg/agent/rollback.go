package agent

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/apis/conditions"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// rollback takes back what a process that ended has left of disruptions it had not promised yet: the taint on nodes that nobody deletes, and the
// claim's condition DisruptionReason (lifecycle rules 24, L-308). It has to run before a new leader begins to disrupt: what is tainted after it
// has looked is not touched, because its writes carry the version that was read.
func (s *shared) rollback(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := s.live.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	var claims karpv1.NodeClaimList
	if err := s.live.List(ctx, &claims); err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	promised := map[string]bool{}
	var errs []error
	for _, c := range managedClaims(claims.Items) {
		if c.DeletionTimestamp != nil || disrupting(&c) {
			promised[c.Status.ProviderID] = true
			continue
		}
		errs = append(errs, s.undisrupt(ctx, &c))
	}
	delete(promised, "")
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if managedNode(n) && n.DeletionTimestamp == nil && !promised[n.Spec.ProviderID] {
			errs = append(errs, s.untaint(ctx, n))
		}
	}
	return errors.Join(errs...)
}

// disrupting reports whether a running command has promised to remove the claim's node.
func disrupting(c *karpv1.NodeClaim) bool {
	intent, err := lifecycle.ParseIntent(c.Annotations[lifecycle.IntentAnnotation])
	// What cannot be read may be a promise.
	return err != nil || intent != nil && intent.Kind == lifecycle.IntentDisrupt && intent.Outcome == lifecycle.OutcomeUnknown
}

// undisrupt removes the condition that says why a claim is being disrupted.
func (s *shared) undisrupt(ctx context.Context, c *karpv1.NodeClaim) error {
	if findCondition(c.Status.Conditions, lifecycle.DisruptionReason) == nil {
		return nil
	}
	base := c.DeepCopy()
	var err error
	if c.Status.Conditions, err = conditions.NodeClaim().Clear(c.Status.Conditions, conditions.Of(c), lifecycle.DisruptionReason, s.clock.Now()); err != nil {
		return err
	}
	return client.IgnoreNotFound(s.patchStatus(ctx, c, base))
}

// untaint removes the disrupted taint, whatever its effect.
func (s *shared) untaint(ctx context.Context, n *corev1.Node) error {
	v := nodeOf(n)
	change := lifecycle.NodeChange{RemoveTaints: lifecycle.Disrupted(&v)}
	base := n.DeepCopy()
	if !applyChange(n, change, nil) {
		return nil
	}
	if err := client.IgnoreNotFound(s.patch(ctx, n, base)); err != nil {
		return fmt.Errorf("removing the disrupted taint of node %s: %w", n.Name, err)
	}
	s.log.Info("removed the taint of a disruption that was not begun", telemetry.Node(n.Name))
	return nil
}
