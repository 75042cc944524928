package agent

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// createClaim creates one planned claim. Its name follows from the decision, so a creation whose answer was lost can be repeated: the second
// one finds the first. The reason is why it is made, for the metrics.
func (l *provisioner) createClaim(ctx context.Context, planned *plan.Claim, decision, reason string) (*karpv1.NodeClaim, error) {
	var pool karpv1.NodePool
	if err := l.client.Get(ctx, types.NamespacedName{Name: planned.Pool}, &pool); err != nil {
		return nil, fmt.Errorf("reading pool %s: %w", planned.Pool, err)
	}
	if err := l.withinLimits(ctx, &pool); err != nil {
		return nil, err
	}
	c := newClaim(&pool, planned, decision)
	err := l.client.Create(ctx, c)
	if err != nil && !apierrors.IsAlreadyExists(err) && unclear(err) {
		again := newClaim(&pool, planned, decision)
		if err = l.client.Create(ctx, again); err == nil {
			c = again
		}
	}
	if apierrors.IsAlreadyExists(err) {
		if c, err = l.existing(ctx, c.Name, decision); err == nil && c == nil {
			c = newClaim(&pool, planned, decision)
			c.Name, c.GenerateName = "", pool.Name+"-"
			err = l.client.Create(ctx, c)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("creating claim for pool %s: %w", pool.Name, err)
	}
	l.countCreated(c, reason)
	l.log.Info("created nodeclaim", telemetry.Pool(pool.Name), telemetry.Claim(c.Name), "requests", planned.Requests,
		"instance-types", strings.Join(planned.Types[:min(len(planned.Types), 5)], ", "), "pods", len(planned.Pods))
	return c, nil
}

// unclear reports whether an error leaves open if the write took place.
func unclear(err error) bool {
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsInternalError(err) || apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
}

// existing reads the claim that has the name already: ours if it was made by the same decision, else nil.
func (l *provisioner) existing(ctx context.Context, name, decision string) (*karpv1.NodeClaim, error) {
	var c karpv1.NodeClaim
	if err := l.live.Get(ctx, types.NamespacedName{Name: name}, &c); err != nil {
		return nil, err
	}
	intent, err := lifecycle.ParseIntent(c.Annotations[lifecycle.IntentAnnotation])
	if err != nil || intent == nil || intent.Decision != decision {
		return nil, nil
	}
	if c.DeletionTimestamp != nil {
		return nil, fmt.Errorf("claim %s of this decision is being deleted already", name)
	}
	return &c, nil
}

// withinLimits refuses a claim for a pool that uses more than its limits allow (lifecycle rules 5.1). Equal is allowed.
func (l *provisioner) withinLimits(ctx context.Context, pool *karpv1.NodePool) error {
	if len(pool.Spec.Limits) == 0 {
		return nil
	}
	usage, err := l.usage(ctx, pool.Name)
	if err != nil {
		return err
	}
	limits := kube.Resources(pool.Spec.Limits)
	for _, name := range limits.Names() {
		if usage.Resources[name] > limits[name] {
			return fmt.Errorf("pool %s uses more %s than its limit allows; raise spec.limits or remove nodes", pool.Name, name)
		}
	}
	return nil
}

// newClaim builds the API object of a planned claim (lifecycle rules 5.2, scheduling rules 25).
func newClaim(pool *karpv1.NodePool, p *plan.Claim, decision string) *karpv1.NodeClaim {
	intent := lifecycle.Intent{Kind: lifecycle.IntentPlanned, Decision: decision}
	c := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name:   pool.Name + "-" + suffix(decision),
			Labels: merged(mapOf(p.Labels), map[string]string{lifecycle.PoolLabel: pool.Name, classLabel: p.NodeClass.Name}),
			Annotations: merged(mapOf(p.Annotations), map[string]string{
				karpv1.NodePoolHashAnnotation: pool.Hash(), karpv1.NodePoolHashVersionAnnotation: karpv1.HashVersion,
				lifecycle.IntentAnnotation: intent.String(),
			}),
			OwnerReferences: []metav1.OwnerReference{ownerOf(pool, karpv1.GroupVersion().String(), karpv1.NodePoolKind)},
		},
		Spec: karpv1.NodeClaimSpec{
			Taints: kube.APITaints(p.Taints), StartupTaints: kube.APITaints(p.StartupTaints),
			Requirements: kube.APIRequirements(requirements(p)),
			Resources:    karpv1.ResourceRequirements{Requests: kube.Quantities(p.Requests)},
			NodeClassRef: karpv1.NodeClassRef{Group: p.NodeClass.Group, Kind: p.NodeClass.Kind, Name: p.NodeClass.Name},
		},
	}
	if _, ok := c.Annotations[karpv1.MinValuesRelaxedAnnotation]; !ok {
		c.Annotations[karpv1.MinValuesRelaxedAnnotation] = "false"
	}
	if p.ExpireAfter != "" {
		d := karpv1.DurationOrNever(p.ExpireAfter)
		c.Spec.ExpireAfter = &d
	}
	if p.TerminationGracePeriod != "" {
		d := karpv1.Duration(p.TerminationGracePeriod)
		c.Spec.TerminationGracePeriod = &d
	}
	return c
}

// requirements returns those of the claim with the lists of types and capacity types it may be launched as; minValues of a key stay.
func requirements(p *plan.Claim) []constraint.Expr {
	lists := map[string][]string{corev1.LabelInstanceTypeStable: p.Types, lifecycle.CapacityTypeLabel: p.CapacityTypes}
	minValues := map[string]int{}
	out := make([]constraint.Expr, 0, len(p.Requirements)+len(lists))
	for _, e := range p.Requirements {
		if len(lists[e.Key]) > 0 {
			minValues[e.Key] = max(minValues[e.Key], e.MinValues)
			continue
		}
		out = append(out, e)
	}
	for _, key := range []string{corev1.LabelInstanceTypeStable, lifecycle.CapacityTypeLabel} {
		if len(lists[key]) > 0 {
			out = append(out, constraint.Expr{Key: key, Operator: constraint.In, Values: slices.Clone(lists[key]), MinValues: minValues[key]})
		}
	}
	return out
}

// suffix derives five characters from a decision, of the alphabet the API server uses for generated names.
func suffix(decision string) string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	sum := sha256.Sum256([]byte(decision))
	out := make([]byte, 5)
	for i := range out {
		out[i] = alphabet[int(sum[i])%len(alphabet)]
	}
	return string(out)
}

// mapOf copies a map, so that shared ones stay as they are.
func mapOf(in map[string]string) map[string]string {
	out := make(map[string]string, len(in)+4)
	for k, v := range in {
		out[k] = v
	}
	return out
}

// nominate tells pods where they will go.
func (l *provisioner) nominate(ctx context.Context, pods []string, target string) {
	for _, uid := range pods {
		if pod := l.verdicts.Pod(ctx, uid); pod != nil {
			l.events.Nominated(pod, "pod should schedule on "+target)
		}
	}
}
