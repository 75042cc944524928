package cloud_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
)

// TestToken pins the derivation: a change would make a new agent launch twice what an old one has launched.
func TestToken(t *testing.T) {
	id := cloud.Identity{ClusterUID: "cluster", ClaimUID: "claim", Attempt: 1}
	// base32(sha256("cluster|claim|1"))
	const want = "NDVD7YMQHKZ74PN2B7NZJEH6RCZCXMA2J6ZTMU56U2A7N4GAM6MQ"
	if got := id.Token(); got != want {
		t.Errorf("token %s, want %s", got, want)
	}
	if got := id.LaunchID(); got != "claim/1" {
		t.Errorf("launch id %s", got)
	}
	seen := map[string]cloud.Identity{}
	for _, other := range []cloud.Identity{id, {"cluster", "claim", 2}, {"cluster", "claim2", 1}, {"cluster2", "claim", 1}} {
		token := other.Token()
		if len(token) > 64 {
			t.Errorf("%+v: token of %d characters", other, len(token))
		}
		if prior, ok := seen[token]; ok {
			t.Errorf("%+v and %+v share a token", prior, other)
		}
		seen[token] = other
	}
}

func TestTypesOf(t *testing.T) {
	size, bare := awsv1.VolumeSize("100G"), awsv1.VolumeSize("Ti")
	name := "/dev/xvda"
	policy, nested := awsv1.InstanceStoreRAID0, awsv1.NestedVirtualizationEnabled
	four := int32(4)
	class := &awsv1.EC2NodeClass{
		Spec: awsv1.EC2NodeClassSpec{
			AMISelectorTerms:    []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			InstanceStorePolicy: &policy,
			CPUOptions:          &awsv1.CPUOptions{NestedVirtualization: &nested},
			Kubelet:             &awsv1.KubeletConfiguration{PodsPerCore: &four, EvictionHard: map[string]string{"memory.available": "5%"}},
			BlockDeviceMappings: []awsv1.BlockDeviceMapping{
				{DeviceName: &name, RootVolume: true, EBS: &awsv1.BlockDevice{VolumeSize: &size}},
				{EBS: &awsv1.BlockDevice{VolumeSize: &bare}},
				{DeviceName: &name},
			},
			NetworkInterfaces: []awsv1.NetworkInterface{{InterfaceType: awsv1.InterfaceTypeInterface}, {DeviceIndex: 1, InterfaceType: awsv1.InterfaceTypeEFAOnly}},
		},
		Status: awsv1.EC2NodeClassStatus{Subnets: []awsv1.Subnet{
			{ID: "subnet-2", Zone: "us-west-2b", ZoneID: "usw2-az2"}, {ID: "subnet-1", Zone: "us-west-2a"}, {ID: "subnet-3", Zone: "us-west-2a", ZoneID: "usw2-az1"},
		}},
	}
	want := ec2types.Class{
		Family: ec2types.AL2023, RAID0: true, NestedVirtualization: true,
		Kubelet:      ec2types.Kubelet{PodsPerCore: 4, EvictionHard: map[string]string{"memory.available": "5%"}},
		BlockDevices: []ec2types.BlockDevice{{Name: name, Bytes: 100_000_000_000, Root: true}, {}},
		NICs:         []ec2types.NIC{{}, {Device: 1, EFAOnly: true}},
		Zones:        []ec2types.Zone{{Name: "us-west-2a", ID: "usw2-az1"}, {Name: "us-west-2b", ID: "usw2-az2"}},
	}
	if diff := cmp.Diff(want, cloud.TypesOf(class)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFamily(t *testing.T) {
	custom := awsv1.Custom
	tests := []struct {
		spec awsv1.EC2NodeClassSpec
		want ec2types.Family
	}{
		{awsv1.EC2NodeClassSpec{}, ec2types.Custom},
		{awsv1.EC2NodeClassSpec{AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "bottlerocket@latest"}}}, ec2types.Bottlerocket},
		{awsv1.EC2NodeClassSpec{AMIFamily: &custom, AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}}, ec2types.Custom},
	}
	for _, tt := range tests {
		if got := cloud.Family(&tt.spec); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.spec.AMISelectorTerms, got, tt.want)
		}
	}
}

// TestQuantitiesAgree compares the small parser of the pure layer with that of Kubernetes. Left out are negative numbers and bare units,
// which no field of a class can hold or mean, and numbers out of range, which Kubernetes cuts and we refuse.
func TestQuantitiesAgree(t *testing.T) {
	for _, number := range []string{"0", "1", "100", "1.5", "0.001", ".5", "7.", "1234", "+3", "1e3", "2E2", "5e-1", "x", "1..2", "1e", "--1", "0x1", "1_0"} {
		for _, suffix := range []string{"", "n", "u", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi", "K", "ki", "B", " Gi", "%"} {
			text := number + suffix
			want, wantErr := resource.ParseQuantity(text)
			got, err := ec2types.ParseBytes(text)
			if (err != nil) != (wantErr != nil) {
				t.Errorf("%q: %v, Kubernetes says %v", text, err, wantErr)
				continue
			}
			if err == nil && got != want.Value() {
				t.Errorf("%q = %d, Kubernetes says %s", text, got, fmt.Sprint(want.Value()))
			}
		}
	}
}

// FuzzQuantities: what both parsers read they read alike.
func FuzzQuantities(f *testing.F) {
	for _, seed := range []string{"1Gi", "100m", "0.5", "1e3", "1E", "5%", "", ".", "1.5Ti", "9223372036854775807", "1e18", "1n", "+1", "0x1", "1_0", "Ki", "1KiKi"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ec2types.ParseBytes(text)
		want, wantErr := resource.ParseQuantity(text)
		if err != nil || wantErr != nil || want.Sign() < 0 || want.CmpInt64(math.MaxInt64) >= 0 {
			return
		}
		if got != want.Value() {
			t.Errorf("%q = %d, Kubernetes says %d", text, got, want.Value())
		}
	})
}

func TestHashDrift(t *testing.T) {
	claim, class := &karpv1.NodeClaim{}, &awsv1.EC2NodeClass{}
	set := func(m *map[string]string, hash, version string) {
		*m = map[string]string{awsv1.HashAnnotation: hash, awsv1.HashVersionAnnotation: version}
	}
	for _, tt := range []struct {
		hash, version string
		want          bool
	}{{"1", "v", false}, {"2", "v", true}, {"2", "w", false}, {"", "v", false}, {"2", "", false}} {
		set(&class.Annotations, "1", "v")
		set(&claim.Annotations, tt.hash, tt.version)
		if got := cloud.HashDrift(claim, class); got != tt.want {
			t.Errorf("claim of hash %q version %q: drifted %v, want %v", tt.hash, tt.version, got, tt.want)
		}
	}
}

func TestSameSet(t *testing.T) {
	for _, tt := range []struct {
		a, b []string
		want bool
	}{{nil, nil, true}, {[]string{"a", "b"}, []string{"b", "a", "a"}, true}, {[]string{"a"}, []string{"a", "b"}, false}, {nil, []string{"a"}, false}} {
		if got := cloud.SameSet(tt.a, tt.b); got != tt.want {
			t.Errorf("%v and %v: %v", tt.a, tt.b, got)
		}
	}
}

func TestSpotRoleMissing(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {&cloud.NoCapacity{Detail: "x"}, false}, {&cloud.NoCapacity{SpotRole: true}, true},
		{&cloud.CreateFailed{Reason: karpv1.ReasonSpotSLRCreationFailed, Err: errors.New("x")}, true},
		{fmt.Errorf("launching: %w", &cloud.CreateFailed{Reason: karpv1.ReasonUnauthorized, Err: errors.New("x")}), false},
	} {
		if got := cloud.SpotRoleMissing(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}
