package agent

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	autoscalingv1beta1 "github.com/karp-sh/karp/pkg/apis/autoscaling/v1beta1"
	"github.com/karp-sh/karp/pkg/apis/conditions"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	karpv1alpha1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1alpha1"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

// This file is the only one that writes conditions: the rules decide which, the arithmetic of package conditions how they are stored.

// setClaim writes conditions into a claim.
func setClaim(c *karpv1.NodeClaim, now time.Time, list ...lifecycle.Condition) {
	c.Status.Conditions = set(conditions.NodeClaim(), c.Status.Conditions, conditions.Of(c), now, list)
}

// setPool writes conditions into a pool.
func setPool(p *karpv1.NodePool, now time.Time, list ...lifecycle.Condition) {
	p.Status.Conditions = set(conditions.NodePool(), p.Status.Conditions, conditions.Of(p), now, list)
}

// setOverlay writes the verdict on an overlay into it.
func setOverlay(o *karpv1alpha1.NodeOverlay, now time.Time, c metav1.Condition) {
	o.Status.Conditions = conditions.NodeOverlay().Set(o.Status.Conditions, conditions.Of(o), c, now)
}

// setBuffer writes a condition into a capacity buffer.
func setBuffer(b *autoscalingv1beta1.CapacityBuffer, now time.Time, c metav1.Condition) {
	b.Status.Conditions = conditions.CapacityBuffer().Set(b.Status.Conditions, conditions.Of(b), c, now)
}

func set(kind conditions.Kind, have []metav1.Condition, of conditions.Object, now time.Time, list []lifecycle.Condition) []metav1.Condition {
	have = kind.Init(have, of)
	for _, c := range list {
		have = kind.Set(have, of, metav1.Condition{
			Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		}, now)
	}
	return have
}
