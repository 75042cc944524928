package aws_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/cloud/aws"
	"github.com/karp-sh/karp/test/simaws"
	simcloud "github.com/karp-sh/karp/test/simaws/cloud"
)

// pool is a NodePool of class nc with the requirements.
func pool(requirements ...karpv1.Requirement) karpv1.NodePool {
	var p karpv1.NodePool
	p.Name = "np"
	p.Spec.Template.Spec.Requirements = requirements
	return p
}

// TestValidationSample: what a validation tries depends on the pools of the class.
func TestValidationSample(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name            string
		pools           []karpv1.NodePool
		alias           string
		types           []string
		tenancy, images string
	}{
		{"A-095 no pool", nil, "al2023@latest", []string{"m5.large", "m6g.large"}, "default", ""},
		{"A-094 dedicated", []karpv1.NodePool{pool(in(ec2types.LabelTenancy, "dedicated"))}, "al2023@latest", nil, "dedicated", ""},
		{"A-096 only a GPU type", []karpv1.NodePool{pool(in(corev1.LabelInstanceTypeStable, "g4dn.xlarge"))}, "al2023@latest", []string{"g4dn.xlarge"}, "default", "nvidia"},
		{"a standard type before", []karpv1.NodePool{pool(in(corev1.LabelInstanceTypeStable, "g4dn.xlarge", "c5.large"))}, "al2023@latest", []string{"c5.large"}, "default", ""},
		{"Windows", []karpv1.NodePool{pool(in(corev1.LabelArchStable, "arm64"))}, "windows2022@latest", []string{"m5.large"}, "default", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.Provider = w.start(t, func(o *aws.Options) {
				o.Pools = func(context.Context, string) ([]karpv1.NodePool, error) { return tt.pools, nil }
			})
			class := nodeClass()
			class.Spec.AMISelectorTerms[0].Alias = tt.alias
			before := w.mark()
			if err := w.observe(t, class); err != nil {
				t.Fatal(err)
			}
			fleets, templates := w.sim.Calls(before, "ec2", "CreateFleet"), w.sim.Calls(before, "ec2", "CreateLaunchTemplate")
			if len(fleets) != 1 || fleets[0].Params["DryRun"] != "true" || len(templates) > 1 {
				t.Fatalf("calls %v", fleets)
			}
			got := fleets[0].Params["LaunchTemplateConfigs.1.Overrides.1.InstanceType"]
			if len(tt.types) > 0 && !contains(tt.types, got) {
				t.Errorf("tried %s, want one of %v", got, tt.types)
			}
			if len(templates) == 1 && templates[0].Params["LaunchTemplateData.Placement.Tenancy"] != tt.tenancy {
				t.Errorf("tenancy %q, want %q", templates[0].Params["LaunchTemplateData.Placement.Tenancy"], tt.tenancy)
			}
			for _, a := range class.Status.AMIs {
				if len(templates) == 1 && a.ID == templates[0].Params["LaunchTemplateData.ImageId"] && !strings.Contains(a.Name, tt.images) {
					t.Errorf("A-096: image %s", a.Name)
				}
			}
		})
	}
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// TestServiceRangeUnknown: A-097.
func TestServiceRangeUnknown(t *testing.T) {
	w := newWorld(t)
	w.Provider = w.start(t, func(o *aws.Options) { o.ClusterEndpoint, o.ClusterCA = "https://demo.example", "Y2E=" })
	fault := w.sim.InjectFault(simaws.Fault{Service: "eks", Action: "DescribeCluster", Code: "AccessDeniedException", Status: 403})
	class := nodeClass()
	if err := w.observe(t, class); err == nil {
		t.Error("A-097: no error")
	}
	wantCondition(t, class, awsv1.ConditionValidationSucceeded, metav1.ConditionFalse, awsv1.ReasonClusterCIDRResolutionFailed)
	w.sim.ClearFaults(fault)
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, class, awsv1.ConditionValidationSucceeded, metav1.ConditionTrue, "")
	w.Provider = w.start(t, func(o *aws.Options) { o.ClusterEndpoint, o.ClusterCA = "https://demo.example", "Y2E=" })
	w.sim.InjectFault(simaws.Fault{Service: "eks", Action: "DescribeCluster", Code: "ServerException", Status: 500})
	if err := w.observe(t, class); err == nil {
		t.Error("A-097: no error of a server's failure")
	}
	wantCondition(t, class, awsv1.ConditionValidationSucceeded, metav1.ConditionTrue, "")
}

// TestPriceRefreshers.
func TestPriceRefreshers(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*aws.Options){
		"A-157": func(o *aws.Options) { o.Region = "us-gov-west-1" },
		"A-158": func(o *aws.Options) { o.IsolatedVPC = true },
	} {
		p := w.start(t, change)
		var names []string
		for _, r := range p.Refreshers() {
			names = append(names, r.Name)
		}
		if contains(names, "on-demand prices") || !contains(names, "spot prices") {
			t.Errorf("%s: refreshers %v", name, names)
		}
	}
}

// TestSameLaunches: five equal launches are five calls with five tokens, since no claim waits for another.
func TestSameLaunches(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	w.sim.Cloud().TakeCapacity(simcloud.CapacityRule{Type: "m5.large", Zone: "", CapacityType: "on-demand", Left: 3})
	before := w.mark()
	ids := make([]string, 5)
	errs := make([]error, 5)
	requests := make([]*cloud.Request, 5)
	for i := range requests {
		requests[i] = w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, i+1)
	}
	var group sync.WaitGroup
	for i := range requests {
		group.Go(func() {
			got, err := w.Launch(t.Context(), requests[i])
			if errs[i] = err; err == nil {
				ids[i] = got.ID
			}
		})
	}
	group.Wait()
	seen, tokens := map[string]bool{}, map[string]bool{}
	short := 0
	for i := range ids {
		if _, ok := errors.AsType[*cloud.NoCapacity](errs[i]); ok {
			short++
			continue
		}
		if errs[i] != nil || seen[ids[i]] {
			t.Errorf("launch %d: %q, %v", i, ids[i], errs[i])
		}
		seen[ids[i]] = true
	}
	for _, c := range w.sim.Calls(before, "ec2", "CreateFleet") {
		tokens[c.Params["ClientToken"]] = true
		if c.Params["TargetCapacitySpecification.TotalTargetCapacity"] != "1" {
			t.Errorf("A-212: %v", c.Params)
		}
	}
	if len(tokens) != 5 {
		t.Errorf("A-212: %d tokens", len(tokens))
	}
	if len(seen)+short != 5 || len(w.sim.Cloud().All()) != len(seen) {
		t.Errorf("A-214: %d instances for %d launches, %d without capacity", len(w.sim.Cloud().All()), len(seen), short)
	}
}

// failures records what the provider reports.
type failures struct {
	aws.Observer
	mu   sync.Mutex
	list []string
}

func (f *failures) LaunchFailed(zone, zoneID, capacityType, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, strings.Join([]string{zone, zoneID, capacityType, reason}, " "))
}
func (*failures) TerminationFailed(_, _ string)          {}
func (*failures) Batched(string, int, time.Duration)     {}
func (*failures) UserData(string, int)                   {}
func (*failures) Called(_, _, _ string, _ time.Duration) {}

// TestFailuresAreCounted: A-222.
func TestFailuresAreCounted(t *testing.T) {
	w := newWorld(t)
	var seen failures
	w.Provider = w.start(t, func(o *aws.Options) { o.Observer = &seen })
	class := w.readyClass(t)
	claim := order([]string{"on-demand"}, "m5.large")
	claim.Spec.Requirements = append(claim.Spec.Requirements, in(corev1.LabelTopologyZone, "us-west-2a"))
	w.sim.Cloud().TakeCapacity(simcloud.CapacityRule{Type: "m5.large", Zone: "us-west-2a", CapacityType: "on-demand", Code: "VcpuLimitExceeded"})
	_, err := w.Launch(t.Context(), w.resolve(t, claim, class, 1))
	if _, ok := errors.AsType[*cloud.NoCapacity](err); !ok {
		t.Errorf("A-222: %v", err)
	}
	want := []string{"us-west-2a " + zoneOf(class, "us-west-2a").ZoneID + " on-demand VCPULimitExceeded"}
	if diff := cmp.Diff(want, seen.list); diff != "" {
		t.Errorf("A-222 (-want +got):\n%s", diff)
	}
}

// TestHoldsAfterFailure: a launch that was refused gives its addresses back, and those of other zones after a success.
func TestHoldsAfterFailure(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	before := map[string]int{}
	for _, s := range class.Status.Subnets {
		before[s.ID] = aws.AddressesLeft(w.Provider, s.ID)
	}
	r := w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1)
	for id, n := range before {
		if got := aws.AddressesLeft(w.Provider, id); got != n-29 {
			t.Errorf("while launching, %s has %d addresses, want %d", id, got, n-29)
		}
	}
	w.sim.InjectFault(simaws.Fault{Service: "ec2", Action: "CreateFleet", Times: 1, Code: "UnauthorizedOperation", Status: 403})
	if _, err := w.Launch(t.Context(), r); err == nil {
		t.Fatal("no error")
	}
	for id, n := range before {
		if got := aws.AddressesLeft(w.Provider, id); got != n {
			t.Errorf("A-191: %s has %d addresses, want %d", id, got, n)
		}
	}
	i := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 2))
	for id, n := range before {
		if id == i.SubnetID {
			n -= 29
		}
		if got := aws.AddressesLeft(w.Provider, id); got != n {
			t.Errorf("A-189: %s has %d addresses, want %d", id, got, n)
		}
	}
}

// TestEnclaves: A-206. TestIsolatedMetadata: A-204.
func TestEnclaves(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	claim := order([]string{"on-demand"}, "m5.large")
	if got := templateOf(t, w, claim, class)["EnclaveOptions.Enabled"]; got != "false" {
		t.Errorf("A-206: enclaves are %q without a request", got)
	}
	claim.Labels = map[string]string{"other": "template"}
	claim.Spec.Resources.Requests["eks.amazonaws.com/nip-slots"] = resource.MustParse("1")
	if in := aws.EnclaveOf(w.Provider, class, claim); !in {
		t.Error("A-206: enclaves are off although slots are requested")
	}
}

func TestIsolatedMetadata(t *testing.T) {
	for region, want := range map[string]string{"us-iso-east-1": "", "us-isof-south-1": "", "us-west-2": "disabled"} {
		if got := aws.MetadataIPv6(region); got != want {
			t.Errorf("A-204: %s: %q, want %q", region, got, want)
		}
	}
}

// TestReservationOfGoneInstance: A-229; A-230.
func TestReservationOfGoneInstance(t *testing.T) {
	w, class, ids := reservedWorld(t, simcloud.CapacityReservation{Type: "m5.large", Zone: "us-west-2a", Total: 2})
	free := func() int {
		t.Helper()
		list, err := w.InstanceTypes(t.Context(), class)
		if err != nil {
			t.Fatal(err)
		}
		return offering(t, list, "m5.large", "us-west-2a", "reserved").ReservationCount
	}
	i := w.launch(t, w.resolve(t, order([]string{"reserved"}, "m5.large"), class, 1))
	if free() != 1 {
		t.Fatalf("A-224: %d free in %v", free(), ids)
	}
	if got, err := w.Get(t.Context(), i.ID); err != nil || got.ReservationID != ids[0] {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := w.sim.Cloud().Kill(i.ID, "test"); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	err := w.Terminate(t.Context(), i.ID)
	if _, ok := errors.AsType[*cloud.NotFound](err); !ok || free() != 2 {
		t.Errorf("A-229: %v, %d free, want 2", err, free())
	}
}

// TestExpiringBlocks: A-265.
func TestExpiringBlocks(t *testing.T) {
	w := newWorld(t)
	w.Provider = w.start(t, func(o *aws.Options) { o.ReservedCapacity = true })
	var ids []string
	for _, d := range []time.Duration{39 * time.Minute, 41 * time.Minute} {
		ids = append(ids, w.sim.Cloud().AddReservation(simcloud.CapacityReservation{Type: "p5.48xlarge", Zone: "us-west-2a", Total: 1, Kind: "capacity-block", EndAt: start().Add(d)}))
	}
	got, err := w.ExpiringBlocks(t.Context(), append(ids, ids[0], "cr-0123456789abcdef0"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(ids[:1], got); diff != "" {
		t.Errorf("A-265 (-want +got):\n%s", diff)
	}
}

// TestUnhealthyUnauthorized: A-254.
func TestUnhealthyUnauthorized(t *testing.T) {
	w := newWorld(t)
	before := w.mark()
	if found, err := w.Unhealthy(t.Context()); err != nil || len(found) != 0 || w.count(before, "DescribeInstanceStatus") != 3 {
		t.Errorf("%v, %v, %d calls", found, err, w.count(before, "DescribeInstanceStatus"))
	}
	w.sim.InjectFault(simaws.Fault{Service: "ec2", Action: "DescribeInstanceStatus", Code: "UnauthorizedOperation", Status: 403})
	_, err := w.Unhealthy(t.Context())
	if _, ok := errors.AsType[*cloud.Unauthorized](err); !ok {
		t.Errorf("A-254: %v", err)
	}
}
