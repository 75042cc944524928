package aws_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	clocktesting "k8s.io/utils/clock/testing"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/cloud/aws"
	"github.com/karp-sh/karp/pkg/units"
)

// ignoreDocument lets cmp look at the SDK's structs, whose only unexported field is empty.
var ignoreDocument = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".noSmithyDocumentSerde" }, cmp.Ignore())

func start() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func TestMarks(t *testing.T) {
	const ice = "InsufficientInstanceCapacity"
	clock := clocktesting.NewFakePassiveClock(start())
	m := aws.NewMarks(clock)
	at := func(d time.Duration) { clock.SetTime(start().Add(d)) }
	check := func(scenario string, u *catalog.Unavailability, want bool) {
		t.Helper()
		if (u != nil) != want {
			t.Errorf("%s: %+v, want unavailable %v", scenario, u, want)
		}
	}
	m.Offering("spot", "m5.large", "us-west-2a", "", "")
	u := m.Find("spot", "m5.large", "us-west-2a", "", "")
	if diff := cmp.Diff(&catalog.Unavailability{Reason: ice, Until: start().Add(3 * time.Minute)}, u); diff != "" {
		t.Errorf("A-160 (-want +got):\n%s", diff)
	}
	check("A-160 on-demand", m.Find("on-demand", "m5.large", "us-west-2a", "", ""), false)
	check("A-160 other zone", m.Find("spot", "m5.large", "us-west-2b", "", ""), false)
	check("A-167 a class with a group", m.Find("spot", "m5.large", "us-west-2a", "pg-1", ""), true)
	before := m.Sequence()
	at(2*time.Minute + 59*time.Second)
	check("A-161 at 2:59", m.Find("spot", "m5.large", "us-west-2a", "", ""), true)
	if m.Sequence() != before {
		t.Error("the sequence moved although nothing happened")
	}
	at(3 * time.Minute)
	check("A-161 at 3:00", m.Find("spot", "m5.large", "us-west-2a", "", ""), false)
	if m.Sequence() == before {
		t.Error("A-161: the end of a mark does not show in the sequence")
	}

	m.Offering("on-demand", "m5.large", "us-west-2a", "", "")
	at(5 * time.Minute)
	m.Offering("on-demand", "m5.large", "us-west-2a", "", "")
	at(7 * time.Minute)
	check("A-162 marked again", m.Find("on-demand", "m5.large", "us-west-2a", "", ""), true)

	m.Offering("on-demand", "c5.large", "us-west-2a", "pg-1", "")
	check("A-166 with the group", m.Find("on-demand", "c5.large", "us-west-2a", "pg-1", ""), true)
	check("A-166 without", m.Find("on-demand", "c5.large", "us-west-2a", "", ""), false)

	m.Offering("on-demand", "r5.large", "us-west-2a", "pg-2", "2")
	for _, p := range []string{"1", "2", "3"} {
		check("A-168 partition "+p, m.Find("on-demand", "r5.large", "us-west-2a", "pg-2", p), p == "2")
	}

	m.Subnet("subnet-a")
	check("A-164 one subnet", m.Find("on-demand", "t3.large", "us-west-2a", "", "", "subnet-a"), true)
	check("A-164 second subnet", m.Find("on-demand", "t3.large", "us-west-2a", "", "", "subnet-a", "subnet-a2"), false)

	m.CapacityType("spot")
	check("A-165", m.Find("spot", "t3.large", "us-west-2c", "", "", "subnet-c"), true)
	check("A-165 on-demand", m.Find("on-demand", "t3.large", "us-west-2c", "", "", "subnet-c"), false)
}

func TestLaunchReason(t *testing.T) {
	tests := []struct{ code, message, want string }{
		{"AuthFailure.ServiceLinkedRoleCreationNotPermitted", "", karpv1.ReasonSpotSLRCreationFailed},
		{"UnauthorizedOperation", "with an explicit deny in a permissions boundary", karpv1.ReasonUnauthorized},
		{"AccessDenied", "", karpv1.ReasonUnauthorized},
		{"AuthFailure", "Not authorized for images: [ami-1]", karpv1.ReasonAMIAuthorizationFailure},
		{"InvalidParameter", "security group and subnet belong to different networks.", karpv1.ReasonSecurityGroupSubnetVPCMismatch},
		{"InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid", karpv1.ReasonInstanceProfileNameInvalid},
		{"InvalidLaunchTemplateId.NotFound", "", karpv1.ReasonLaunchTemplateNotFound},
		{"InvalidUserData.Malformed", "User data is limited to 16384 bytes", karpv1.ReasonUserDataSizeLimitExceeded},
		{"InvalidAMIID.Malformed", "", karpv1.ReasonInvalidAMIID},
		{"InvalidAMIID.NotFound", "", karpv1.ReasonAMINotFound},
		{"RequestLimitExceeded", "", karpv1.ReasonRequestLimitExceeded},
		{"InternalError", "", karpv1.ReasonInternalError},
		{"InvalidParameterCombination", "The specified instance type is not eligible for Free Tier.", karpv1.ReasonFreeTierIneligible},
		{"MaxFleetCountExceeded", "", karpv1.ReasonFleetQuotaExceeded},
		{"PendingVerification", "", karpv1.ReasonAccountPendingVerification},
		{"MaxSpotInstanceCountExceeded", "", karpv1.ReasonSpotQuotaExceeded},
		{"VcpuLimitExceeded", "", karpv1.ReasonVCPULimitExceeded},
		{"InsufficientFreeAddressesInSubnet", "", karpv1.ReasonInsufficientFreeAddressesInSubnet},
		{"SomethingElse", "", karpv1.ReasonLaunchFailed},
	}
	for _, tt := range tests {
		if got := aws.LaunchReason(tt.code, tt.message); got != tt.want {
			t.Errorf("%s: %s = %s, want %s", tt.code, tt.message, got, tt.want)
		}
	}
}

func TestLaunchErrorKinds(t *testing.T) {
	refusal := func(code string, fault smithy.ErrorFault) error {
		return fmt.Errorf("operation error: %w", &smithy.GenericAPIError{Code: code, Message: "m", Fault: fault})
	}
	tests := []struct {
		name   string
		err    error
		reason string // "" is an unknown outcome
	}{
		{"A-219", refusal("UnauthorizedOperation", smithy.FaultClient), karpv1.ReasonUnauthorized},
		{"throttled", refusal("RequestLimitExceeded", smithy.FaultServer), karpv1.ReasonRequestLimitExceeded},
		{"token reused", refusal("IdempotentParameterMismatch", smithy.FaultClient), cloud.ReasonIdempotentParameterMismatch},
		{"server fault", refusal("InternalError", smithy.FaultServer), ""},
		{"timeout", context.DeadlineExceeded, ""},
		{"connection", errors.New("connection reset by peer"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := aws.LaunchError(tt.err)
			created, isCreate := errors.AsType[*cloud.CreateFailed](err)
			_, unknown := errors.AsType[*cloud.UnknownOutcome](err)
			if tt.reason == "" != unknown || isCreate && created.Reason != tt.reason || isCreate == unknown {
				t.Errorf("%v became %#v", tt.err, err)
			}
			if !errors.Is(err, tt.err) {
				t.Error("the cause is lost")
			}
		})
	}
}

func fleetErrors(codes ...string) []et.CreateFleetError {
	var out []et.CreateFleetError
	for i, c := range codes {
		out = append(out, et.CreateFleetError{ErrorCode: &c, ErrorMessage: new("message"), LaunchTemplateAndOverrides: &et.LaunchTemplateAndOverridesResponse{
			Overrides: &et.FleetLaunchTemplateOverrides{InstanceType: "m5.large", AvailabilityZone: new("us-west-2" + string(rune('a'+i)))},
		}})
	}
	return out
}

func TestFleetErrors(t *testing.T) {
	tests := []struct {
		name, reason, detail string
		codes                []string
	}{
		{"A-215", "", "InsufficientInstanceCapacity m5.large in us-west-2a; MaxSpotInstanceCountExceeded m5.large in us-west-2b", []string{"InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded"}},
		{"A-216", karpv1.ReasonUnauthorized, "", []string{"InsufficientInstanceCapacity", "UnauthorizedOperation"}},
		{"A-217", karpv1.ReasonLaunchFailed, "", nil},
		{"A-222", "", "VcpuLimitExceeded m5.large in us-west-2a", []string{"VcpuLimitExceeded"}},
		{"spot role", "", "AuthFailure.ServiceLinkedRoleCreationNotPermitted m5.large in us-west-2a", []string{"AuthFailure.ServiceLinkedRoleCreationNotPermitted"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := aws.FleetError(fleetErrors(tt.codes...))
			if full, ok := errors.AsType[*cloud.NoCapacity](err); ok != (tt.reason == "") || ok && (full.Detail != tt.detail || full.SpotRole != (tt.name == "spot role")) {
				t.Errorf("%#v, want no capacity %q", err, tt.detail)
			}
			if failed, ok := errors.AsType[*cloud.CreateFailed](err); ok && failed.Reason != tt.reason {
				t.Errorf("reason %s, want %s", failed.Reason, tt.reason)
			}
		})
	}
	if err := aws.FleetError([]et.CreateFleetError{{ErrorCode: new("InsufficientInstanceCapacity")}}); err == nil {
		t.Error("an error without overrides is no error") // it must not crash either
	}
}

// region derives types as a class with the zones us-west-2a to c runs them, at list prices; spot prices as given by "type zone".
func region(t *testing.T, spot map[string]float64, names ...string) []catalog.InstanceType {
	t.Helper()
	data, err := loadFacts()
	if err != nil {
		t.Fatal(err)
	}
	list, _ := data.OnDemand("us-west-2")
	market := func(a ec2types.Ask) ec2types.Quote {
		if a.CapacityType == catalog.Spot {
			p, ok := spot[a.Type+" "+strings.TrimPrefix(a.Zone, "us-west-")]
			return ec2types.Quote{Price: units.FromDollars(p), Priced: ok}
		}
		return ec2types.ListPrices(list)(a)
	}
	class := &ec2types.Class{Family: ec2types.AL2023, Zones: []ec2types.Zone{{Name: "us-west-2a", ID: "usw2-az1"}, {Name: "us-west-2b", ID: "usw2-az2"}, {Name: "us-west-2c", ID: "usw2-az3"}}}
	var inputs []ec2types.Input
	for i := range data.Types {
		if typ := &data.Types[i]; ec2types.Usable(typ) && (len(names) == 0 || slices.Contains(names, typ.Name)) {
			inputs = append(inputs, ec2types.Input{Type: typ, Settings: ec2types.Settings{Region: "us-west-2", MemoryOverhead: 0.075}, Class: class,
				Offered: []string{"us-west-2a", "us-west-2b", "us-west-2c"}, Market: market})
		}
	}
	out, err := ec2types.All(inputs)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func claim(requirements ...karpv1.Requirement) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{Spec: karpv1.NodeClaimSpec{Requirements: requirements}}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi"), corev1.ResourcePods: resource.MustParse("3")}
	return c
}

func in(key string, values ...string) karpv1.Requirement {
	return karpv1.Requirement{Key: key, Operator: karpv1.In, Values: values}
}

func TestFilters(t *testing.T) {
	onDemand, both := in(karpv1.CapacityTypeLabel, "on-demand"), in(karpv1.CapacityTypeLabel, "spot", "on-demand")
	three := in(corev1.LabelInstanceTypeStable, "g4dn.xlarge", "m5.large", "m5.metal")
	three.MinValues = new(3)
	tests := []struct {
		name     string
		types    []string
		spot     map[string]float64
		claim    *karpv1.NodeClaim
		capacity string
		want     []string
	}{
		{"A-175", []string{"m5.large", "m5.metal", "g4dn.xlarge"}, nil, claim(onDemand), "on-demand", []string{"m5.large"}},
		{"A-176", []string{"m5.metal", "g4dn.xlarge"}, nil, claim(onDemand), "on-demand", []string{"g4dn.xlarge", "m5.metal"}},
		{"A-177", []string{"m5.large", "m5.metal", "g4dn.xlarge"}, nil, claim(onDemand, three), "on-demand", []string{"m5.large", "g4dn.xlarge", "m5.metal"}},
		{"A-178", []string{"m5.large", "c5.large"}, map[string]float64{"m5.large 2a": 0.09, "m5.large 2b": 0.04}, claim(both), "spot", []string{"m5.large"}},
		{"A-179", []string{"m5.large", "c5.large", "t3.large"}, nil, claim(both), "on-demand", []string{"t3.large", "c5.large", "m5.large"}},
		{"A-180", []string{"m5.large"}, nil, claim(in(karpv1.CapacityTypeLabel, "spot")), "", nil},
		{"alias of the zone", []string{"m5.large"}, nil, claim(in("topology.ebs.csi.aws.com/zone", "us-west-2z")), "", nil},
		{"labels of the claim's own", []string{"m5.large"}, nil, claim(onDemand, in("team", "a")), "on-demand", []string{"m5.large"}},
		{"generation above", []string{"m5.large", "m7i.large"}, nil, claim(onDemand, karpv1.Requirement{Key: ec2types.LabelGeneration, Operator: karpv1.Gt, Values: []string{"5"}}), "on-demand", []string{"m7i.large"}},
		{"no such GPU", []string{"m5.large", "g4dn.xlarge"}, nil, claim(onDemand, karpv1.Requirement{Key: ec2types.LabelGPUCount, Operator: karpv1.Exists}), "on-demand", []string{"g4dn.xlarge"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			capacity, _, names, zones, err := aws.Pick(region(t, tt.spot, tt.types...), tt.claim)
			if full, ok := errors.AsType[*cloud.NoCapacity](err); ok != (tt.want == nil) {
				t.Fatalf("error %v, types %v, want %v", err, names, tt.want)
			} else if ok && !strings.Contains(full.Detail, "unavailable") {
				t.Errorf("detail %q does not explain", full.Detail)
			}
			if capacity != tt.capacity {
				t.Errorf("capacity type %q, want %q", capacity, tt.capacity)
			}
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("types (-want +got):\n%s", diff)
			}
			if tt.name == "A-178" && !slices.Equal(zones["m5.large"], []string{"us-west-2b"}) {
				t.Errorf("zones %v, want us-west-2b alone", zones["m5.large"])
			}
		})
	}
}

func TestFilterTruncates(t *testing.T) {
	all := region(t, nil)
	c := claim(in(karpv1.CapacityTypeLabel, "on-demand"))
	_, _, names, _, err := aws.Pick(all, c)
	if err != nil || len(names) != 60 {
		t.Fatalf("%d types, %v; want 60", len(names), err)
	}
	many := karpv1.Requirement{Key: ec2types.LabelFamily, Operator: karpv1.Exists, MinValues: new(50)}
	c = claim(in(karpv1.CapacityTypeLabel, "on-demand"), many)
	_, _, _, _, err = aws.Pick(all, c)
	if full, ok := errors.AsType[*cloud.NoCapacity](err); !ok || !strings.Contains(full.Detail, ec2types.LabelFamily) {
		t.Errorf("error %v, want no capacity that names the key", err)
	}
	c.Annotations = map[string]string{karpv1.MinValuesRelaxedAnnotation: "true"}
	if _, _, names, _, err = aws.Pick(all, c); err != nil || len(names) != 60 {
		t.Errorf("relaxed: %d types, %v", len(names), err)
	}
}

func TestTenancy(t *testing.T) {
	types := region(t, nil, "m5.large")
	for want, reqs := range map[string][]karpv1.Requirement{
		"default": {in(ec2types.LabelTenancy, "default", "dedicated")}, "dedicated": {in(ec2types.LabelTenancy, "dedicated")},
	} {
		if _, got, _, _, err := aws.Pick(types, claim(reqs...)); err != nil || got != want {
			t.Errorf("%v: %q, %v", reqs, got, err)
		}
	}
	if _, got, _, _, err := aws.Pick(types, claim()); err != nil || got != "default" {
		t.Errorf("without requirement: %q, %v", got, err)
	}
}

func TestSubnetChoice(t *testing.T) {
	list := []awsv1.Subnet{{ID: "subnet-a", Zone: "2a"}, {ID: "subnet-a2", Zone: "2a"}, {ID: "subnet-b", Zone: "2b"}}
	s := aws.NewSubnets(clocktesting.NewFakePassiveClock(start()))
	s.Report(map[string]int{"subnet-a": 10, "subnet-a2": 100, "subnet-b": 100})
	if got, _ := s.Take(list, nil); got["2a"] != "subnet-a2" {
		t.Errorf("A-187: %v", got)
	}
	s.Report(map[string]int{"subnet-a": 100, "subnet-a2": 90, "subnet-b": 100})
	pods := map[string]int{"2a": 29, "2b": 29}
	first, holds := s.Take(list, pods)
	s.GiveBack(holds, "subnet-a")
	if first["2a"] != "subnet-a" || s.Left("subnet-a") != 71 || s.Left("subnet-b") != 100 {
		t.Errorf("A-189: %v, left %d and %d", first, s.Left("subnet-a"), s.Left("subnet-b"))
	}
	second, holds := s.Take(list, pods)
	if second["2a"] != "subnet-a2" {
		t.Errorf("A-188: %v", second)
	}
	s.Report(map[string]int{"subnet-a": 80, "subnet-a2": 60, "subnet-b": 70})
	s.GiveBack(holds, "")
	if s.Left("subnet-a") != 80 || s.Left("subnet-a2") != 60 || s.Left("subnet-b") != 70 {
		t.Errorf("A-190: a fresh count must stand: %d %d %d", s.Left("subnet-a"), s.Left("subnet-a2"), s.Left("subnet-b"))
	}
}

func names(filters [][]et.Filter) []string {
	var out []string
	for _, q := range filters {
		var parts []string
		for _, f := range q {
			parts = append(parts, *f.Name+"="+strings.Join(f.Values, ","))
		}
		out = append(out, strings.Join(parts, " "))
	}
	return out
}

func TestSelectorQueries(t *testing.T) {
	got := names(aws.SubnetFilters([]awsv1.SubnetSelectorTerm{
		{ID: "subnet-a"}, {ID: "subnet-c", Tags: map[string]string{"ignored": "x"}}, {Tags: map[string]string{"team": "x"}}, {Tags: map[string]string{"team": "*", "env": "demo"}},
	}))
	if diff := cmp.Diff([]string{"subnet-id=subnet-a,subnet-c", "tag:team=x", "tag:env=demo tag-key=team"}, got); diff != "" {
		t.Errorf("subnets (-want +got):\n%s", diff)
	}
	got = names(aws.GroupFilters([]awsv1.SecurityGroupSelectorTerm{{Name: "demo-*"}, {ID: "sg-9"}, {ID: "sg-8", Name: "ignored"}, {Tags: map[string]string{"a": "b"}}}))
	if diff := cmp.Diff([]string{"group-id=sg-9,sg-8", "group-name=demo-*", "tag:a=b"}, got); diff != "" {
		t.Errorf("security groups (-want +got):\n%s", diff)
	}
}

func TestAliases(t *testing.T) {
	const eks, bottlerocket = "/aws/service/eks/optimized-ami/", "/aws/service/bottlerocket/aws-k8s-1.32"
	tests := []struct {
		name, alias, kube string
		want              []string
	}{
		{"A-041", "al2023@latest", "1.32", []string{
			eks + "1.32/amazon-linux-2023/x86_64/standard/recommended/image_id", eks + "1.32/amazon-linux-2023/x86_64/nvidia/recommended/image_id",
			eks + "1.32/amazon-linux-2023/x86_64/neuron/recommended/image_id", eks + "1.32/amazon-linux-2023/arm64/standard/recommended/image_id",
			eks + "1.32/amazon-linux-2023/arm64/nvidia/recommended/image_id",
		}},
		{"A-044", "al2@v20240703", "1.30", []string{
			eks + "1.30/amazon-linux-2/amazon-eks-node-1.30-v20240703/image_id", eks + "1.30/amazon-linux-2-arm64/amazon-eks-arm64-node-1.30-v20240703/image_id",
			eks + "1.30/amazon-linux-2-gpu/amazon-eks-gpu-node-1.30-v20240703/image_id",
		}},
		{"A-045", "bottlerocket@v1.30.0", "1.32", []string{
			bottlerocket + "/x86_64/1.30.0/image_id", bottlerocket + "/arm64/1.30.0/image_id", bottlerocket + "-nvidia/x86_64/1.30.0/image_id", bottlerocket + "-nvidia/arm64/1.30.0/image_id",
		}},
		{"A-046", "windows2022@latest", "1.32", []string{"/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.32/image_id"}},
		{"A-047", "al2@latest", "1.33", nil},
		{"A-048", "windows2025@latest", "1.34", nil},
		{"A-048 next", "windows2025@latest", "1.35", []string{"/aws/service/ami-windows-latest/Windows_Server-2025-English-Core-EKS_Optimized-1.35/image_id"}},
		{"AX19", "al2023@a@b", "1.32", nil},
	}
	for _, tt := range tests {
		got, err := aws.AliasParameters(tt.alias, tt.kube)
		if (err != nil) != (tt.want == nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	got, err := aws.AliasParameters("al2023@v20240703", "1.32")
	if err != nil || !slices.Contains(got, eks+"1.32/amazon-linux-2023/x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.32-v20240703/image_id") {
		t.Errorf("A-042: %v, %v", got, err)
	}
}

func TestChooseImages(t *testing.T) { // AX12
	img := func(id, name, arch, created, deprecated string) et.Image {
		return et.Image{ImageId: &id, Name: &name, Architecture: et.ArchitectureValues(arch), CreationDate: &created, DeprecationTime: &deprecated}
	}
	const jan, jun, sep, past = "2024-01-01T00:00:00.000Z", "2024-06-01T00:00:00.000Z", "2024-09-01T00:00:00.000Z", "2026-02-28T00:00:00.000Z"
	tests := []struct {
		name string
		in   []et.Image
		want []string
	}{
		{"A-055", []et.Image{img("i1", "", "x86_64", jan, ""), img("i2", "", "x86_64", jun, ""), img("i3", "", "x86_64", sep, past)}, []string{"i2"}},
		{"A-056", []et.Image{img("i1", "", "x86_64", jan, past), img("i3", "", "x86_64", sep, past)}, []string{"i3"}},
		{"A-057", []et.Image{img("i1", "b", "x86_64", jan, ""), img("i2", "a", "x86_64", jan, "")}, []string{"i1"}},
		{"A-058", []et.Image{img("i1", "", "i386", jan, "")}, nil},
		{"AX12", []et.Image{img("i1", "", "arm64", "when?", "never"), img("i2", "", "arm64", jan, "")}, []string{"i2"}},
		{"order", []et.Image{img("i1", "", "arm64", jan, ""), img("i2", "", "x86_64", jun, "")}, []string{"i2", "i1"}},
	}
	for _, tt := range tests {
		var got []string
		for _, a := range aws.ChooseImages(clocktesting.NewFakePassiveClock(start()), tt.in) {
			got = append(got, a.ID)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestPrices(t *testing.T) {
	data, err := loadFacts()
	if err != nil {
		t.Fatal(err)
	}
	p := aws.NewPrices("us-west-2", data)
	price := func(q ec2types.Quote) string { return fmt.Sprint(q.Price.Decimal(), " ", q.Priced, " ", q.Estimated) }
	check := func(name, ct, zone, want string) {
		t.Helper()
		if got := price(p.Quote("m5.large", ct, zone)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	check("A-151", "on-demand", "2a", "0.096 true false")
	check("A-151 spot", "spot", "2a", "0.096 true true")
	record := func(zone, price string, at time.Time) et.SpotPrice {
		return et.SpotPrice{InstanceType: "m5.large", AvailabilityZone: &zone, SpotPrice: &price, Timestamp: &at}
	}
	p.Spot(record("2a", "0.035", start()), record("2a", "0.5", start().Add(-time.Hour)), record("2c", "dear", start()), et.SpotPrice{InstanceType: "m5.large", SpotPrice: new("1")})
	check("A-152, AX13", "spot", "2a", "0.035 true false")
	check("A-152 2b", "spot", "2b", "0 false false")
	p.Spot(record("2b", "0.04", start()))
	check("A-153 2a", "spot", "2a", "0.035 true false")
	check("A-153 2b", "spot", "2b", "0.04 true false")
	for region, want := range map[string]string{"eu-west-1": "eu-central-1", "ap-northeast-1": "ap-south-1", "cn-north-1": "cn-northwest-1", "us-west-2": "us-east-1"} {
		if got := aws.PricingRegion(region); got != want {
			t.Errorf("A-156: %s is served in %s, want %s", region, got, want)
		}
	}
}

func TestProduct(t *testing.T) {
	entry := func(name, unit, price string) string {
		return fmt.Sprintf(`{"product":{"attributes":{"instanceType":%q}},"terms":{"OnDemand":{"x":{"priceDimensions":{"y":{"pricePerUnit":{%q:%q}}}}}}}`, name, unit, price)
	}
	tests := []struct {
		text  string
		china bool
		price units.Money
		ok    bool
	}{
		{entry("m5.large", "USD", "0.1000000000"), false, 100_000_000, true},
		{entry("c5.large", "USD", "0"), false, 0, false},
		{entry("", "USD", "1"), false, 0, false},
		{entry("m5.large", "USD", "cheap"), false, 0, false},
		{entry("m5.large", "USD", "1"), true, 0, false},
		{entry("m5.large", "CNY", "1"), true, 1_000_000_000, true},
		{"{", false, 0, false},
	}
	for _, tt := range tests {
		if _, price, ok := aws.Product(tt.text, tt.china); price != tt.price || ok != tt.ok {
			t.Errorf("%s: %v %v, want %v %v", tt.text, price, ok, tt.price, tt.ok)
		}
	}
}

func TestImageForType(t *testing.T) {
	ami := func(id, arch string, more ...corev1.NodeSelectorRequirement) awsv1.AMI {
		return awsv1.AMI{ID: id, Requirements: append([]corev1.NodeSelectorRequirement{{Key: "kubernetes.io/arch", Operator: "In", Values: []string{arch}}}, more...)}
	}
	gpu := corev1.NodeSelectorRequirement{Key: ec2types.LabelGPUCount, Operator: "Exists"}
	neuron := corev1.NodeSelectorRequirement{Key: ec2types.LabelAcceleratorCount, Operator: "Exists"}
	none := []corev1.NodeSelectorRequirement{{Key: ec2types.LabelAcceleratorCount, Operator: "DoesNotExist"}, {Key: ec2types.LabelGPUCount, Operator: "DoesNotExist"}}
	status := []awsv1.AMI{ami("ami-xn", "amd64", gpu), ami("ami-xu", "amd64", neuron), ami("ami-x", "amd64", none...), ami("ami-a", "arm64", none...), ami("ami-an", "arm64", gpu)}
	want := map[string]string{"g4dn.xlarge": "ami-xn", "inf2.xlarge": "ami-xu", "m5.large": "ami-x", "c6g.large": "ami-a", "g5g.xlarge": "ami-an"}
	got := map[string]string{}
	for _, it := range region(t, nil, "g4dn.xlarge", "inf2.xlarge", "m5.large", "c6g.large", "g5g.xlarge") {
		got[it.Name] = aws.ImageFor(status, &it)
		if it.Name == "g4dn.xlarge" && aws.ImageFor([]awsv1.AMI{ami("ami-1", "amd64")}, &it) != "ami-1" {
			t.Error("A-060: an image without variant fits every type of its architecture")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRequestSizeAndRepetition(t *testing.T) {
	var types []string
	for _, it := range region(t, nil)[:60] {
		types = append(types, it.Name)
	}
	id := cloud.Identity{ClusterUID: "5f8a3c1e-0000-4000-8000-000000000001", ClaimUID: "5f8a3c1e-0000-4000-8000-000000000002", Attempt: 3}
	r, err := aws.WidestRequest(id, ec2types.Class{Family: ec2types.AL2023}, types)
	if err != nil {
		t.Fatal(err)
	}
	if limit := 20 << 10; len(r.Payload) > limit {
		t.Errorf("the recorded request takes %d bytes, more than %d", len(r.Payload), limit)
	}
	if r.Token != id.Token() || r.LaunchID != id.LaunchID() || r.Digest == "" {
		t.Errorf("request %s %s %s", r.Token, r.LaunchID, r.Digest)
	}
	first, err := aws.FleetOf(r)
	if err != nil {
		t.Fatal(err)
	}
	copied := *r
	copied.Payload = slices.Clone(r.Payload)
	second, err := aws.FleetOf(&copied)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second, cmpopts.IgnoreUnexported(), ignoreDocument); diff != "" {
		t.Errorf("the repeated call differs:\n%s", diff)
	}
	n := 0
	for _, c := range first.LaunchTemplateConfigs {
		n += len(c.Overrides)
	}
	if n != 360 {
		t.Errorf("%d overrides, want 60 types in 6 zones", n)
	}
	if p := first.LaunchTemplateConfigs[0].Overrides[1].Priority; *p != 0.1234577 {
		t.Errorf("priority %v, want the price of the second zone", *p)
	}
	copied.Payload = []byte(`{"v":99}`)
	if _, err := aws.FleetOf(&copied); err == nil || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("a form from the future: %v", err)
	}
}
