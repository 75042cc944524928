package agent_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/karp-sh/karp/pkg/agent"
	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/status"
	"github.com/karp-sh/karp/pkg/units"
)

// shelf sells m5.large to every class and c5.large to class b.
type shelf struct {
	cloud.Provider
	cloud.Classes
}

func (shelf) Generation() uint64 { return 1 }

func (shelf) InstanceTypes(_ context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	out := []catalog.InstanceType{{Name: "m5.large", Offerings: []catalog.Offering{
		{Zone: "z", CapacityType: "spot", Price: units.FromDollars(0.038), Available: true},
		{Zone: "z", CapacityType: "on-demand", Price: units.FromDollars(0.096), Unavailable: catalog.Unavailability{Reason: "InsufficientInstanceCapacity", Until: start().Add(time.Minute)}},
	}}}
	if class.Name == "b" {
		out = append(out, catalog.InstanceType{Name: "c5.large", Offerings: []catalog.Offering{{Zone: "z", CapacityType: "spot", PriceUnknown: true, Available: true}}})
	}
	return out, nil
}

func TestOfferings(t *testing.T) {
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	a, b := &awsv1.EC2NodeClass{}, &awsv1.EC2NodeClass{}
	a.Name, b.Name = "a", "b"
	p := &karpv1.NodePool{}
	p.Name = "web"
	p.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassRef{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: "a"}
	offerings := agent.OfferingsOf(fake.NewClientBuilder().WithScheme(scheme).WithObjects(a, b, p).Build(), shelf{}, clocktesting.NewFakePassiveClock(start()))
	until := start().Add(time.Minute)
	m5 := []status.Offering{
		{Type: "m5.large", Zone: "z", CapacityType: "on-demand", Price: "0.096", Reason: "InsufficientInstanceCapacity", Until: &until},
		{Type: "m5.large", Zone: "z", CapacityType: "spot", Price: "0.038", Available: true},
	}
	for pool, want := range map[string][]status.Offering{
		"":    append([]status.Offering{{Type: "c5.large", Zone: "z", CapacityType: "spot", Available: true}}, m5...),
		"web": m5,
	} {
		got, err := offerings(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Items); diff != "" || !got.ObservedAt.Equal(start()) {
			t.Errorf("pool %q at %s (-want +got):\n%s", pool, got.ObservedAt, diff)
		}
	}
	if _, err := offerings(t.Context(), "none"); !errors.Is(err, status.ErrNotFound) {
		t.Errorf("unknown pool: %v", err)
	}
}
