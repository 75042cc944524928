package aws_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/apis/conditions"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/cloud/aws"
	simcloud "github.com/karp-sh/karp/test/simaws/cloud"
)

// reservedWorld is the fixture with the gate ReservedCapacity on, the reservations given, and a class that selects them all by tag.
func reservedWorld(t *testing.T, list ...simcloud.CapacityReservation) (*world, *awsv1.EC2NodeClass, []string) {
	t.Helper()
	w := newWorld(t)
	w.Provider = w.start(t, func(o *aws.Options) { o.ReservedCapacity = true })
	var ids []string
	for _, r := range list {
		r.Tags = simcloud.Tags{"team": "x"}
		ids = append(ids, w.sim.Cloud().AddReservation(r))
	}
	class := nodeClass()
	class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: map[string]string{"team": "x"}}, {ID: "cr-0123456789abcdef0"}}
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, class, awsv1.ConditionCapacityReservationsReady, metav1.ConditionTrue, "")
	return w, class, ids
}

func TestReservationStatus(t *testing.T) {
	block := simcloud.CapacityReservation{Type: "p5.48xlarge", Zone: "us-west-2a", Total: 1, Kind: "capacity-block"}
	later := func(d time.Duration) simcloud.CapacityReservation {
		b := block
		b.EndAt = start().Add(d)
		return b
	}
	ending := simcloud.CapacityReservation{Type: "m5.large", Zone: "us-west-2a", Total: 1, EndAt: start().Add(10 * time.Minute)}
	w, class, ids := reservedWorld(t, later(41*time.Minute), later(40*time.Minute), ending)
	want := map[string]awsv1.ReservationState{ids[0]: awsv1.ReservationActive, ids[1]: awsv1.ReservationExpiring, ids[2]: awsv1.ReservationActive}
	if len(class.Status.CapacityReservations) != len(want) {
		t.Errorf("A-075: %+v", class.Status.CapacityReservations)
	}
	for _, r := range class.Status.CapacityReservations {
		if r.State != want[r.ID] {
			t.Errorf("A-076, A-077: %s is %s, want %s", r.ID, r.State, want[r.ID])
		}
	}
	calls := w.sim.Calls(0, "ec2", "DescribeCapacityReservations")
	if len(calls) != 2 || calls[1].Params["MaxResults"] != "" || calls[1].Params["CapacityReservationId.1"] != "cr-0123456789abcdef0" || calls[0].Params["MaxResults"] != "1000" {
		t.Errorf("A-074: calls %+v", calls)
	}
	w.Provider = w.start(t, nil)
	before, plain := w.mark(), nodeClass()
	plain.Spec.CapacityReservationSelectorTerms = class.Spec.CapacityReservationSelectorTerms
	if err := w.observe(t, plain); err != nil {
		t.Fatal(err)
	}
	if _, ok := conditions.Find(plain.Status.Conditions, awsv1.ConditionCapacityReservationsReady); ok || w.count(before, "DescribeCapacityReservations") != 0 {
		t.Error("A-079: reservations are looked at although the gate is off")
	}
}

func TestReservedLaunch(t *testing.T) {
	m5 := func(zone string, n int) simcloud.CapacityReservation {
		return simcloud.CapacityReservation{Type: "m5.large", Zone: zone, Total: n}
	}
	w, class, ids := reservedWorld(t, m5("us-west-2a", 2), m5("us-west-2a", 5), m5("us-west-2b", 1))
	c := order([]string{"reserved", "on-demand"}, "m5.large", "c5.large")
	before := w.mark()
	r := w.resolve(t, c, class, 1)
	templates := w.sim.Calls(before, "ec2", "CreateLaunchTemplate")
	targets := map[string]bool{}
	for _, call := range templates {
		if p := call.Params["LaunchTemplateData.CapacityReservationSpecification.CapacityReservationPreference"]; p != "capacity-reservations-only" {
			t.Errorf("A-198: preference %q", p)
		}
		targets[call.Params["LaunchTemplateData.CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"]] = true
	}
	if r.CapacityType != "reserved" || len(templates) != 2 || !targets[ids[1]] || !targets[ids[2]] {
		t.Errorf("A-183: %s, reservations %v, want %s and %s", r.CapacityType, targets, ids[1], ids[2])
	}
	got := w.launch(t, r)
	id := got.Labels[ec2types.LabelReservationID]
	if got.CapacityType != "reserved" || !targets[id] || got.Labels[ec2types.LabelReservationType] != "default" || got.Labels[ec2types.LabelInterruptible] != "false" {
		t.Errorf("A-224: %s, labels %v", got.CapacityType, got.Labels)
	}
	if again := w.launch(t, r); again.ID != got.ID {
		t.Errorf("repetition gave %s", again.ID)
	}
	list, err := w.InstanceTypes(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	left, before2 := 0, 0
	for _, it := range list {
		for _, o := range it.Offerings {
			if o.ReservationID == id {
				left = o.ReservationCount
				before2 = map[string]int{ids[1]: 5, ids[2]: 1}[id]
			}
		}
	}
	if left != before2-1 {
		t.Errorf("A-080, A-224: %d of %d left, want one less, counted once", left, before2)
	}
	seen, err := w.Get(t.Context(), got.ID)
	if err != nil || seen.CapacityType != "reserved" || seen.Labels[ec2types.LabelReservationID] != id {
		t.Errorf("the instance reads as %+v, %v", seen, err)
	}
	onDemand := w.mark()
	w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 2)
	for _, call := range w.sim.Calls(onDemand, "ec2", "CreateLaunchTemplate") {
		if p := call.Params["LaunchTemplateData.CapacityReservationSpecification.CapacityReservationPreference"]; p != "none" {
			t.Errorf("A-198: preference of an on-demand launch %q", p)
		}
	}
}

func TestReservationFull(t *testing.T) {
	w, class, _ := reservedWorld(t, simcloud.CapacityReservation{Type: "m5.large", Zone: "us-west-2a", Total: 1})
	c := order([]string{"reserved"}, "m5.large")
	first, second := w.resolve(t, c, class, 1), w.resolve(t, c, class, 2)
	w.launch(t, first)
	_, err := w.Launch(t.Context(), second)
	if full, ok := errors.AsType[*cloud.NoCapacity](err); !ok || !strings.Contains(full.Detail, "ReservationCapacityExceeded") {
		t.Fatalf("error %v, want no capacity", err)
	}
	list, err := w.InstanceTypes(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	if o := offering(t, list, "m5.large", "us-west-2a", "reserved"); o.Available || o.Unavailable.Reason != ec2types.ReasonReservationFull {
		t.Errorf("reserved offering %+v", o)
	}
	if !offering(t, list, "m5.large", "us-west-2a", "on-demand").Available {
		t.Error("A-221: the on-demand offering is marked too")
	}
	if _, err := w.Resolve(t.Context(), c, class, identity(3)); err == nil {
		t.Error("resolved although the reservation is full")
	}
}

func TestReservationKinds(t *testing.T) {
	end := start().Add(24 * time.Hour)
	block := func(typ string) simcloud.CapacityReservation {
		return simcloud.CapacityReservation{Type: typ, Zone: "us-west-2a", Total: 2, Kind: "capacity-block", EndAt: end}
	}
	plain := simcloud.CapacityReservation{Type: "m5.large", Zone: "us-west-2a", Total: 2}
	interruptible := plain
	interruptible.Interruptible = true
	tests := []struct {
		name           string
		reservations   []simcloud.CapacityReservation
		typ            string
		target, market string
		options        string // the parameter that must be there
	}{
		{"A-184", []simcloud.CapacityReservation{block("p5.48xlarge"), plain}, "m5.large", "on-demand", "", "OnDemandOptions.AllocationStrategy"},
		{"A-185", []simcloud.CapacityReservation{block("p5.48xlarge"), block("p4d.24xlarge")}, "p4d.24xlarge", "capacity-block", "capacity-block", ""},
		{"A-210", []simcloud.CapacityReservation{interruptible}, "m5.large", "reserved-capacity", "interruptible-capacity-reservation", "ReservedCapacityOptions.ReservationType.1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, class, _ := reservedWorld(t, tt.reservations...)
			c := order([]string{"reserved"}, "m5.large")
			c.Spec.Requirements = []karpv1.Requirement{in(karpv1.CapacityTypeLabel, "reserved")}
			before := w.mark()
			r := w.resolve(t, c, class, 1)
			call, err := aws.FleetOf(r)
			if err != nil {
				t.Fatal(err)
			}
			if len(call.LaunchTemplateConfigs) != 1 || len(call.LaunchTemplateConfigs[0].Overrides) != 1 || string(call.LaunchTemplateConfigs[0].Overrides[0].InstanceType) != tt.typ {
				t.Errorf("overrides %+v, want %s alone", call.LaunchTemplateConfigs, tt.typ)
			}
			if got := string(call.TargetCapacitySpecification.DefaultTargetCapacityType); got != tt.target {
				t.Errorf("target %s, want %s", got, tt.target)
			}
			if (call.OnDemandOptions != nil) != strings.HasPrefix(tt.options, "OnDemand") || (call.ReservedCapacityOptions != nil) != strings.HasPrefix(tt.options, "Reserved") {
				t.Errorf("options %+v, %+v", call.OnDemandOptions, call.ReservedCapacityOptions)
			}
			for _, lt := range w.sim.Calls(before, "ec2", "CreateLaunchTemplate") {
				if got := lt.Params["LaunchTemplateData.InstanceMarketOptions.MarketType"]; got != tt.market {
					t.Errorf("market type %q, want %q", got, tt.market)
				}
			}
			launched := w.launch(t, r)
			if launched.Type != tt.typ || launched.CapacityType != "reserved" || launched.Labels[corev1.LabelInstanceTypeStable] != tt.typ {
				t.Errorf("launched %+v", launched)
			}
			if seen, err := w.Get(t.Context(), launched.ID); err != nil || seen.Labels[ec2types.LabelInterruptible] != launched.Labels[ec2types.LabelInterruptible] ||
				seen.Labels[ec2types.LabelReservationType] != launched.Labels[ec2types.LabelReservationType] {
				t.Errorf("EC2 describes %v (%s), the launch gave %v, %v", seen.Labels, seen.CapacityType, launched.Labels, err)
			}
		})
	}
}
