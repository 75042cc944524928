package conditions_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karp-sh/karp/pkg/apis/conditions"
	v1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

// TestInvariants writes conditions at random and checks after each write what must always hold.
func TestInvariants(t *testing.T) {
	claim := conditions.NodeClaim()
	types := append(claim.Dependents(), v1.ConditionDrifted, v1.ConditionConsolidatable, v1.ConditionDrained)
	statuses := []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var list []metav1.Condition
		o := object(1)
		for second := range 60 {
			if random.IntN(8) == 0 {
				o.Generation++
			}
			o.Deleting = o.Deleting || random.IntN(100) == 0
			written := metav1.Condition{Type: types[random.IntN(len(types))], Status: statuses[random.IntN(len(statuses))], Reason: "X"}
			before := list
			if written.Type == v1.ConditionConsolidatable && random.IntN(2) == 0 {
				list, _ = claim.Clear(list, o, written.Type, after(second))
			} else {
				list = claim.Set(list, o, written, after(second))
			}
			if problem := broken(claim, before, list, o, written); problem != "" {
				t.Fatalf("seed %d, second %d, writing %s=%s: %s\nbefore:\n%safter:\n%s", seed, second, written.Type, written.Status, problem, show(before), show(list))
			}
		}
	}
}

// broken names the first invariant that does not hold.
func broken(k conditions.Kind, before, now []metav1.Condition, o conditions.Object, written metav1.Condition) string {
	if now[len(now)-1].Type != v1.ConditionReady {
		return "Ready is not the last"
	}
	if !slices.IsSortedFunc(now[:len(now)-1], func(a, b metav1.Condition) int { return a.LastTransitionTime.Compare(b.LastTransitionTime.Time) }) {
		return "not in the order of transitions"
	}
	ready := true
	for _, dependent := range k.Dependents() {
		if _, ok := conditions.Find(now, dependent); !ok {
			return dependent + " is missing"
		}
		ready = ready && conditions.IsCurrentlyTrue(now, dependent, o.Generation)
	}
	if !conditions.Equal(before, now) && conditions.IsTrue(now, v1.ConditionReady) != ready {
		return "Ready is not the conjunction"
	}
	for _, c := range now {
		old, ok := conditions.Find(before, c.Type)
		if ok && old.Status == c.Status && !old.LastTransitionTime.Equal(&c.LastTransitionTime) {
			return c.Type + " moved without a transition"
		}
		if ok && old != c && c.Type != written.Type && c.Type != v1.ConditionReady && !o.Deleting {
			return c.Type + " was changed by a write of " + written.Type
		}
	}
	return ""
}
