package agent_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/agent"
	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/telemetry"
	"github.com/karp-sh/karp/pkg/units"
)

// lists answers lists, and reads of classes, from memory.
type lists struct {
	client.Reader
	pools   []karpv1.NodePool
	classes []awsv1.EC2NodeClass
	claims  []karpv1.NodeClaim
	nodes   []corev1.Node
	fail    error
}

func (l *lists) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if l.fail != nil {
		return l.fail
	}
	switch into := into.(type) {
	case *karpv1.NodePoolList:
		into.Items = l.pools
	case *awsv1.EC2NodeClassList:
		into.Items = l.classes
	case *karpv1.NodeClaimList:
		into.Items = l.claims
	case *corev1.NodeList:
		into.Items = l.nodes
	default:
		return fmt.Errorf("no %s here", reflect.TypeOf(into))
	}
	return nil
}

func (l *lists) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for i := range l.classes {
		if l.classes[i].Name == key.Name {
			l.classes[i].DeepCopyInto(into.(*awsv1.EC2NodeClass))
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "ec2nodeclasses"}, key.Name)
}

func classRef(name string) karpv1.NodeClassRef {
	return karpv1.NodeClassRef{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: name}
}

// TestCollectProfiles: what a class or a claim names is kept, and nothing is collected when either cannot be read.
func TestCollectProfiles(t *testing.T) {
	world := &lists{classes: make([]awsv1.EC2NodeClass, 1), claims: make([]karpv1.NodeClaim, 1)}
	world.classes[0].Status.InstanceProfile = "new"
	world.claims[0].Annotations = map[string]string{awsv1.InstanceProfileAnnotation: "old"}
	var kept map[string]bool
	collect := func(_ context.Context, keep map[string]bool) error {
		kept = keep
		return nil
	}
	if err := agent.CollectProfiles(t.Context(), world, collect); err != nil || !kept["new"] || !kept["old"] || kept["other"] {
		t.Errorf("kept %v, %v", kept, err)
	}
	kept, world.fail = nil, errors.New("no answer")
	if err := agent.CollectProfiles(t.Context(), world, collect); err == nil || kept != nil {
		t.Errorf("collected although nothing could be read: %v, %v", kept, err)
	}
}

// TestLearnMemory: each registered node of a claim tells its memory, with type, image and class.
func TestLearnMemory(t *testing.T) {
	node := func(id, memory string) corev1.Node {
		var n corev1.Node
		n.Spec.ProviderID = id
		n.Labels = map[string]string{corev1.LabelInstanceTypeStable: "m5.large"}
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		return n
	}
	world := &lists{classes: make([]awsv1.EC2NodeClass, 1), claims: make([]karpv1.NodeClaim, 2), nodes: []corev1.Node{node("aws:///a/i-1", "7600000Ki"), node("aws:///a/i-9", "1Gi"), node("", "2Gi")}}
	world.classes[0].Name = "nc"
	world.claims[0].Spec.NodeClassRef, world.claims[0].Status.ProviderID, world.claims[0].Status.ImageID = classRef("nc"), "aws:///a/i-1", "ami-1"
	world.claims[1].Spec.NodeClassRef = classRef("nc") // not launched yet
	var got []string
	err := agent.LearnMemory(t.Context(), world, func(_ context.Context, c *awsv1.EC2NodeClass, typ, image string, bytes int64) {
		got = append(got, fmt.Sprintf("%s %s %s %d", c.Name, typ, image, bytes))
	})
	if diff := cmp.Diff([]string{fmt.Sprintf("nc m5.large ami-1 %d", 7600000<<10)}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestShiftEvents: pools that use the zone are told once when a shift begins and when it ends.
func TestShiftEvents(t *testing.T) {
	world := &lists{classes: make([]awsv1.EC2NodeClass, 1), pools: make([]karpv1.NodePool, 3)}
	world.classes[0].Name = "nc"
	world.classes[0].Status.Subnets = []awsv1.Subnet{{ID: "s-1", Zone: "us-west-2a", ZoneID: "usw2-az1"}, {ID: "s-2", Zone: "us-west-2b", ZoneID: "usw2-az2"}}
	for i, name := range []string{"np", "elsewhere", "foreign"} {
		world.pools[i].Name, world.pools[i].UID = name, "uid-"+world.pools[i].UID
		world.pools[i].Spec.Template.Spec.NodeClassRef = classRef("nc")
	}
	world.pools[1].Spec.Template.Spec.Requirements = []karpv1.Requirement{{Key: corev1.LabelTopologyZone, Operator: "In", Values: []string{"us-west-2b"}}}
	world.pools[2].Spec.Template.Spec.NodeClassRef = classRef("other")
	recorder := record.NewFakeRecorder(10)
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	var shifted []string
	run := agent.ShiftEvents(world, agent.NewEvents(recorder, clock), func() []string { return shifted })
	step := func(want ...string) {
		t.Helper()
		if err := run(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got []string
		for len(recorder.Events) > 0 {
			got = append(got, <-recorder.Events)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
	step()
	shifted = []string{"usw2-az1"}
	world.fail = errors.New("no answer")
	if err := run(t.Context()); err == nil {
		t.Error("no error")
	}
	world.fail = nil
	step("Warning ZonalShiftActive traffic was shifted away from zone us-west-2a: nothing is launched there")
	step()
	shifted = nil
	step("Normal ZonalShiftCleared the zonal shift away from zone us-west-2a has ended")
}

// TestOfferingGauges: the gauges follow what the classes offer; a class that cannot be listed does not hold up the other.
func TestOfferingGauges(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := telemetry.NewMetrics(registry, "test", "")
	if err != nil {
		t.Fatal(err)
	}
	world := &lists{classes: make([]awsv1.EC2NodeClass, 2), pools: make([]karpv1.NodePool, 3)}
	for i, name := range []string{"bad", "nc"} {
		world.classes[i].Name = name
		world.pools[i].Spec.Template.Spec.NodeClassRef = classRef(name)
	}
	world.pools[2].Spec.Template.Spec.NodeClassRef = classRef("gone")
	list := []catalog.InstanceType{{
		Name: "m5.large", Capacity: units.List{units.CPU: 2000}, MemoryRaw: 8 << 30,
		Offerings: []catalog.Offering{
			{Zone: "a", CapacityType: catalog.OnDemand, Price: units.FromDollars(0.096), Available: true}, {Zone: "a", CapacityType: catalog.Spot, Price: units.FromDollars(0.03)},
		},
	}}
	run := agent.OfferingGauges(world, func(_ context.Context, c *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
		if c.Name == "bad" {
			return nil, errors.New("no subnets")
		}
		return list, nil
	}, metrics.AWS)
	series := func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				name, ok := strings.CutPrefix(f.GetName(), "karpenter_cloudprovider_instance_type_offering_")
				if !ok {
					continue
				}
				for _, l := range m.GetLabel() {
					name += " " + l.GetValue()
				}
				out[name] = m.GetGauge().GetValue()
			}
		}
		return out
	}
	if err := run(t.Context()); err == nil {
		t.Error("the class that cannot be listed is not told")
	}
	want := map[string]float64{
		"available on-demand m5.large a": 1, "price_estimate on-demand m5.large a": 0.096, "available spot m5.large a": 0, "price_estimate spot m5.large a": 0.03,
		"available reserved m5.large a": 0, "price_estimate reserved m5.large a": 0,
	}
	if diff := cmp.Diff(want, series()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	list = nil
	_ = run(t.Context())
	if diff := cmp.Diff(map[string]float64{}, series()); diff != "" {
		t.Errorf("series of what is not sold any more (-want +got):\n%s", diff)
	}
}
