package conditions_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/apis/conditions"
	v1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

var created = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func object(generation int64) conditions.Object {
	return conditions.Object{Generation: generation, Created: created}
}

// after is a moment some seconds after the creation.
func after(seconds int) time.Time { return created.Add(time.Duration(seconds) * time.Second) }

// show writes a list as "Type=Status/Reason@seconds g<generation>" lines, with the message where there is one.
func show(list []metav1.Condition) string {
	var b strings.Builder
	for _, c := range list {
		b.WriteString(c.Type + "=" + string(c.Status) + "/" + c.Reason)
		fmt.Fprintf(&b, "@%.0fs g%d", c.LastTransitionTime.Sub(created).Seconds(), c.ObservedGeneration)
		if c.Message != "" {
			b.WriteString(" " + c.Message)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestSteps(t *testing.T) {
	claim := conditions.NodeClaim()
	type step func(list []metav1.Condition) []metav1.Condition
	set := func(generation int64, c metav1.Condition, seconds int) step {
		return func(list []metav1.Condition) []metav1.Condition {
			return claim.Set(list, object(generation), c, after(seconds))
		}
	}
	allTrue := []step{
		set(1, conditions.True(v1.ConditionLaunched), 10),
		set(1, conditions.True(v1.ConditionRegistered), 20),
		set(1, conditions.True(v1.ConditionInitialized), 30),
	}
	tests := map[string]struct {
		steps []step
		want  string
	}{
		"first touch": {
			steps: []step{func(l []metav1.Condition) []metav1.Condition { return claim.Init(l, object(1)) }},
			want: `Launched=Unknown/AwaitingReconciliation@0s g1 object is awaiting reconciliation
Registered=Unknown/AwaitingReconciliation@0s g1 object is awaiting reconciliation
Initialized=Unknown/AwaitingReconciliation@0s g1 object is awaiting reconciliation
Ready=Unknown/AwaitingReconciliation@0s g1 object is awaiting reconciliation
`},
		"an Unknown with a reason keeps the time of creation": {
			steps: []step{set(1, conditions.Unknown(v1.ConditionLaunched, v1.ReasonLaunchFailed, "no"), 40)},
			want: `Launched=Unknown/LaunchFailed@0s g1 no
Registered=Unknown/AwaitingReconciliation@0s g1 object is awaiting reconciliation
Initialized=Unknown/AwaitingReconciliation@0s g1 object is awaiting reconciliation
Ready=Unknown/ReconcilingDependents@0s g1 Launched=Unknown, Registered=Unknown, Initialized=Unknown
`},
		"a transition moves the condition behind older ones": {
			steps: allTrue[:1],
			want: `Registered=Unknown/AwaitingReconciliation@0s g1 object is awaiting reconciliation
Initialized=Unknown/AwaitingReconciliation@0s g1 object is awaiting reconciliation
Launched=True/Launched@10s g1
Ready=Unknown/ReconcilingDependents@0s g1 Registered=Unknown, Initialized=Unknown
`},
		"all true": {
			steps: allTrue,
			want: `Launched=True/Launched@10s g1
Registered=True/Registered@20s g1
Initialized=True/Initialized@30s g1
Ready=True/Ready@30s g1
`},
		"False wins over Unknown": {
			steps: append(slices.Clone(allTrue[:1]), set(1, conditions.False(v1.ConditionRegistered, v1.ReasonMultipleNodesFound, "two"), 25)),
			want: `Initialized=Unknown/AwaitingReconciliation@0s g1 object is awaiting reconciliation
Launched=True/Launched@10s g1
Registered=False/MultipleNodesFound@25s g1 two
Ready=False/UnhealthyDependents@25s g1 Registered=False, Initialized=Unknown
`},
		"a False of an older generation is not a failure": {
			steps: append(slices.Clone(allTrue[:1]),
				set(1, conditions.False(v1.ConditionRegistered, v1.ReasonMultipleNodesFound, "two"), 25),
				set(2, conditions.True(v1.ConditionLaunched), 50)),
			want: `Initialized=Unknown/AwaitingReconciliation@0s g1 object is awaiting reconciliation
Launched=True/Launched@10s g2
Registered=False/MultipleNodesFound@25s g1 two
Ready=Unknown/ReconcilingDependents@50s g2 Registered=False, Initialized=Unknown
`},
		"a new generation makes Ready Unknown until all were decided again, stale ones show as True": {
			steps: append(slices.Clone(allTrue), set(2, conditions.True(v1.ConditionLaunched), 50)),
			want: `Launched=True/Launched@10s g2
Registered=True/Registered@20s g1
Initialized=True/Initialized@30s g1
Ready=Unknown/ReconcilingDependents@50s g2 Initialized=True, Registered=True
`},
		"an informational condition starts now and recomputes Ready": {
			steps: append(slices.Clone(allTrue), set(2, conditions.TrueBecause(v1.ConditionDrifted, v1.ReasonAMIDrift, "AMIDrift"), 60)),
			want: `Launched=True/Launched@10s g1
Registered=True/Registered@20s g1
Initialized=True/Initialized@30s g1
Drifted=True/AMIDrift@60s g2 AMIDrift
Ready=Unknown/ReconcilingDependents@60s g2 Initialized=True, Registered=True, Launched=True
`},
		"reason and message change without a transition": {
			steps: append(slices.Clone(allTrue),
				set(1, conditions.TrueBecause(v1.ConditionDrifted, v1.ReasonAMIDrift, "AMIDrift"), 60),
				set(1, conditions.TrueBecause(v1.ConditionDrifted, v1.ReasonSubnetDrift, "SubnetDrift"), 70)),
			want: `Launched=True/Launched@10s g1
Registered=True/Registered@20s g1
Initialized=True/Initialized@30s g1
Drifted=True/SubnetDrift@60s g1 SubnetDrift
Ready=True/Ready@30s g1
`},
		"the roll-up cannot be set": {
			steps: append(slices.Clone(allTrue), set(1, conditions.False(v1.ConditionReady, "Mine", ""), 60)),
			want: `Launched=True/Launched@10s g1
Registered=True/Registered@20s g1
Initialized=True/Initialized@30s g1
Ready=True/Ready@30s g1
`},
		"while deleting, every write carries all to the generation": {
			steps: append(slices.Clone(allTrue), func(l []metav1.Condition) []metav1.Condition {
				o := conditions.Object{Generation: 2, Created: created, Deleting: true}
				return claim.Set(l, o, conditions.Unknown(v1.ConditionDrained, v1.ReasonDraining, "Draining"), after(90))
			}),
			want: `Launched=True/Launched@10s g2
Registered=True/Registered@20s g2
Initialized=True/Initialized@30s g2
Drained=Unknown/Draining@90s g2 Draining
Ready=True/Ready@30s g2
`},
		"clearing an informational condition": {
			steps: append(slices.Clone(allTrue), set(1, conditions.True(v1.ConditionConsolidatable), 60), func(l []metav1.Condition) []metav1.Condition {
				out, err := claim.Clear(l, object(1), v1.ConditionConsolidatable, after(70))
				if err != nil {
					t.Error(err)
				}
				return out
			}),
			want: `Launched=True/Launched@10s g1
Registered=True/Registered@20s g1
Initialized=True/Initialized@30s g1
Ready=True/Ready@30s g1
`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var list []metav1.Condition
			for _, s := range tt.steps {
				before := slices.Clone(list)
				next := s(list)
				if diff := cmp.Diff(before, list); diff != "" {
					t.Errorf("the stored list was changed in place (-before +after):\n%s", diff)
				}
				list = next
			}
			if diff := cmp.Diff(tt.want, show(list)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEqualWrite(t *testing.T) {
	pool := conditions.NodePool()
	first := pool.Set(nil, object(3), conditions.True(v1.ConditionNodeClassReady), after(5).Add(400*time.Millisecond))
	again := pool.Set(first, object(3), conditions.True(v1.ConditionNodeClassReady), after(99))
	if !conditions.Equal(first, again) {
		t.Errorf("repeating a decision asks for a write:\n%s\n%s", show(first), show(again))
	}
	moved := pool.Set(first, object(4), conditions.True(v1.ConditionNodeClassReady), after(99))
	if conditions.Equal(first, moved) {
		t.Errorf("a decision for a new generation asks for no write:\n%s", show(moved))
	}
	if got := first[len(first)-2].LastTransitionTime.Nanosecond(); got != 0 {
		t.Errorf("transition time has %d ns, which the API does not store", got)
	}
}

func TestClearRefusesDependents(t *testing.T) {
	for _, conditionType := range []string{v1.ConditionLaunched, v1.ConditionReady} {
		if _, err := conditions.NodeClaim().Clear(nil, object(1), conditionType, after(1)); !errors.Is(err, conditions.ErrDependent) {
			t.Errorf("clearing %s: %v, want ErrDependent", conditionType, err)
		}
	}
}

func TestKinds(t *testing.T) {
	tests := map[string]struct {
		kind conditions.Kind
		want []string
	}{
		"NodePool":    {conditions.NodePool(), []string{"ValidationSucceeded", "NodeClassReady", "Ready"}},
		"NodeClaim":   {conditions.NodeClaim(), []string{"Launched", "Registered", "Initialized", "Ready"}},
		"NodeOverlay": {conditions.NodeOverlay(), []string{"ValidationSucceeded", "Ready"}},
		"EC2NodeClass": {conditions.EC2NodeClass(false), []string{"AMIsReady", "SubnetsReady", "SecurityGroupsReady", "InstanceProfileReady",
			"PlacementGroupReady", "ValidationSucceeded", "Ready"}},
		"EC2NodeClass with ReservedCapacity": {conditions.EC2NodeClass(true), []string{"AMIsReady", "SubnetsReady", "SecurityGroupsReady",
			"InstanceProfileReady", "PlacementGroupReady", "CapacityReservationsReady", "ValidationSucceeded", "Ready"}},
		"CapacityBuffer": {conditions.CapacityBuffer(), nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range tt.kind.Init(nil, object(1)) {
				got = append(got, c.Type)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("conditions at first touch (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBufferHasNoRollUp(t *testing.T) {
	list := conditions.CapacityBuffer().Set(nil, object(1), conditions.TrueBecause("ReadyForProvisioning", "Resolved", ""), after(3))
	if diff := cmp.Diff("ReadyForProvisioning=True/Resolved@3s g1\n", show(list)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestCurrency(t *testing.T) {
	list := conditions.NodePool().Set(nil, object(1), conditions.True(v1.ConditionNodeClassReady), after(1))
	if !conditions.IsTrue(list, v1.ConditionNodeClassReady) || conditions.IsTrue(list, v1.ConditionReady) || conditions.IsTrue(nil, "X") {
		t.Errorf("IsTrue is wrong for %s", show(list))
	}
	if !conditions.IsCurrentlyTrue(list, v1.ConditionNodeClassReady, 1) || conditions.IsCurrentlyTrue(list, v1.ConditionNodeClassReady, 2) {
		t.Errorf("IsCurrentlyTrue is wrong for %s", show(list))
	}
}

func TestOf(t *testing.T) {
	class := &awsv1.EC2NodeClass{}
	class.Generation, class.CreationTimestamp = 7, metav1.NewTime(created)
	if diff := cmp.Diff(conditions.Object{Generation: 7, Created: created}, conditions.Of(class)); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	class.DeletionTimestamp = &metav1.Time{Time: created}
	if !conditions.Of(class).Deleting {
		t.Error("a deletion timestamp does not count as deleting")
	}
}

func TestTruncate(t *testing.T) {
	short, long := strings.Repeat("é", 299), strings.Repeat("é", 300)
	if got := conditions.Truncate(short); got != short {
		t.Errorf("299 characters became %d", len([]rune(got)))
	}
	if got := conditions.Truncate(long); got != long+"..." {
		t.Errorf("300 characters became %q", got)
	}
}
