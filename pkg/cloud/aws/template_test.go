package aws_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// templateOf resolves the claim and returns the parameters of the launch template that is made, those of its data without their prefix.
func templateOf(t *testing.T, w *world, c *karpv1.NodeClaim, class *awsv1.EC2NodeClass) map[string]string {
	t.Helper()
	before := w.mark()
	w.resolve(t, c, class, 1)
	calls := w.sim.Calls(before, "ec2", "CreateLaunchTemplate")
	if len(calls) != 1 {
		t.Fatalf("%d launch templates made, want 1", len(calls))
	}
	// The template's own parameters win over the request's of the same name: both have tag specifications.
	out := maps.Clone(calls[0].Params)
	for k, v := range calls[0].Params {
		if own, ok := strings.CutPrefix(k, "LaunchTemplateData."); ok {
			out[own] = v
		}
	}
	return out
}

func wantParams(t *testing.T, name string, got map[string]string, prefix string, want map[string]string) {
	t.Helper()
	part := map[string]string{}
	for k, v := range got {
		if rest, ok := strings.CutPrefix(k, prefix); ok {
			part[rest] = v
		}
	}
	if diff := cmp.Diff(want, part); diff != "" {
		t.Errorf("%s: %s (-want +got):\n%s", name, prefix, diff)
	}
}

func TestTemplateInterfaces(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	class.Status.SecurityGroups = class.Status.SecurityGroups[:1]
	sg := class.Status.SecurityGroups[0].ID
	onDemand := []string{"on-demand"}
	plain := map[string]string{"1.DeviceIndex": "0", "1.SecurityGroupId.1": sg}

	efa := order(onDemand, "p4d.24xlarge")
	efa.Spec.Resources.Requests[ec2types.EFA] = resource.MustParse("1")
	wantParams(t, "A-200", templateOf(t, w, efa, class), "NetworkInterface.", map[string]string{
		"1.DeviceIndex": "0", "1.NetworkCardIndex": "0", "1.InterfaceType": "efa", "1.SecurityGroupId.1": sg,
		"2.DeviceIndex": "1", "2.NetworkCardIndex": "1", "2.InterfaceType": "efa", "2.SecurityGroupId.1": sg,
		"3.DeviceIndex": "1", "3.NetworkCardIndex": "2", "3.InterfaceType": "efa", "3.SecurityGroupId.1": sg,
		"4.DeviceIndex": "1", "4.NetworkCardIndex": "3", "4.InterfaceType": "efa", "4.SecurityGroupId.1": sg,
	})
	if got := w.launch(t, w.resolve(t, efa, class, 2)); got.Capacity[ec2types.EFA] != 4 {
		t.Errorf("A-200: capacity %v", got.Capacity)
	}
	wantParams(t, "A-201", templateOf(t, w, order(onDemand, "p4d.24xlarge"), class), "NetworkInterface.", plain)
	if got := w.launch(t, w.resolve(t, order(onDemand, "p4d.24xlarge"), class, 3)); got.Capacity[ec2types.EFA] != 0 {
		t.Errorf("A-201: capacity %v", got.Capacity)
	}

	listed := class.DeepCopy()
	listed.Spec.NetworkInterfaces = []awsv1.NetworkInterface{
		{InterfaceType: awsv1.InterfaceTypeInterface}, {DeviceIndex: 1, InterfaceType: awsv1.InterfaceTypeEFAOnly}, {NetworkCardIndex: 1, DeviceIndex: 1, InterfaceType: awsv1.InterfaceTypeEFAOnly},
	}
	listed.Spec.IPPrefixCount, listed.Spec.AssociatePublicIPAddress = new(int32(2)), new(true)
	listed.Spec.ConnectionTracking = &awsv1.ConnectionTracking{UDPTimeout: new(int32(30))}
	wantParams(t, "A-202", templateOf(t, w, order(onDemand, "p4d.24xlarge"), listed), "NetworkInterface.", map[string]string{
		"1.DeviceIndex": "0", "1.NetworkCardIndex": "0", "1.InterfaceType": "interface", "1.SecurityGroupId.1": sg, "1.Ipv4PrefixCount": "2",
		"1.AssociatePublicIpAddress": "true", "1.ConnectionTrackingSpecification.UdpTimeout": "30",
		"2.DeviceIndex": "1", "2.NetworkCardIndex": "0", "2.InterfaceType": "efa-only", "2.SecurityGroupId.1": sg,
		"3.DeviceIndex": "1", "3.NetworkCardIndex": "1", "3.InterfaceType": "efa-only", "3.SecurityGroupId.1": sg,
	})

	w.Provider = w.start(t, func(o *aws.Options) { o.ClusterDNS = "fd00::a" })
	six := class.DeepCopy()
	six.Spec.IPPrefixCount = new(int32(1))
	wantParams(t, "A-203", templateOf(t, w, order(onDemand, "m5.large"), six), "NetworkInterface.", map[string]string{
		"1.DeviceIndex": "0", "1.SecurityGroupId.1": sg, "1.Ipv6PrefixCount": "1", "1.PrimaryIpv6": "true", "1.Ipv6AddressCount": "1",
	})
}

func TestTemplateContent(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	got := templateOf(t, w, order([]string{"spot"}, "m5.large"), class)
	for key, want := range map[string]string{
		"TagSpecification.1.ResourceType": "network-interface", "TagSpecification.2.ResourceType": "spot-instances-request", "TagSpecification.3.ResourceType": "",
		"IamInstanceProfile.Name": class.Status.InstanceProfile, "Monitoring.Enabled": "false", "EnclaveOptions.Enabled": "false", "Placement.Tenancy": "default",
		"MetadataOptions.HttpEndpoint": "enabled", "MetadataOptions.HttpProtocolIpv6": "disabled", "MetadataOptions.HttpPutResponseHopLimit": "1",
		"MetadataOptions.HttpTokens": "required", "MetadataOptions.InstanceMetadataTags": "disabled",
		"BlockDeviceMapping.1.DeviceName": "/dev/xvda", "BlockDeviceMapping.1.Ebs.VolumeSize": "20", "SecurityGroupId.1": "",
		"CapacityReservationSpecification.CapacityReservationPreference": "",
	} {
		if got[key] != want {
			t.Errorf("A-197: %s is %q, want %q", key, got[key], want)
		}
	}
	if !strings.HasPrefix(got["LaunchTemplateName"], "karpenter.k8s.aws/") || strings.Trim(got["LaunchTemplateName"], "karpent.8sw/012345679") != "" {
		t.Errorf("A-192: name %q", got["LaunchTemplateName"])
	}
	enclave := order([]string{"on-demand"}, "m5.large")
	enclave.Spec.Requirements = append(enclave.Spec.Requirements, in(ec2types.LabelTenancy, "dedicated"))
	got = templateOf(t, w, enclave, class)
	if got["Placement.Tenancy"] != "dedicated" || got["TagSpecification.2.ResourceType"] != "" {
		t.Errorf("A-186, A-197: %q, %q", got["Placement.Tenancy"], got["TagSpecification.2.ResourceType"])
	}
}

func TestLaunchTemplateRace(t *testing.T) { // A-207, AX15
	w := newWorld(t)
	class := w.readyClass(t)
	w.sim.InjectFault(simaws.Fault{Service: "ec2", Action: "CreateLaunchTemplate", After: true, Times: 1, Code: "InvalidLaunchTemplateName.AlreadyExistsException", Status: 400})
	w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1))
}

func TestFleetOptions(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	class.Spec.Context = new("ctx1")
	spot := order([]string{"spot"}, "m5.large")
	fleet := func(c *karpv1.NodeClaim, attempt int) (strategy, context string) {
		t.Helper()
		in, err := aws.FleetOf(w.resolve(t, c, class, attempt))
		if err != nil {
			t.Fatal(err)
		}
		if in.Context != nil {
			context = *in.Context
		}
		return string(in.SpotOptions.AllocationStrategy), context
	}
	if s, c := fleet(spot, 1); s != "price-capacity-optimized" || c != "ctx1" {
		t.Errorf("%s, context %q", s, c)
	}
	spot.Annotations = map[string]string{karpv1.PriceOverlayAppliedAnnotation: "true", karpv1.MinValuesRelaxedAnnotation: "true"}
	if s, c := fleet(spot, 2); s != "capacity-optimized-prioritized" || c != "" {
		t.Errorf("with annotations: %s, context %q", s, c)
	}
}

func TestPlacementGroups(t *testing.T) {
	w := newWorld(t)
	spread := w.sim.Cloud().AddPlacementGroup(simcloud.PlacementGroup{Name: "spread", Strategy: "spread"})
	w.sim.Cloud().AddPlacementGroup(simcloud.PlacementGroup{Name: "parts", Strategy: "partition", Partitions: 7})
	class := nodeClass()
	class.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: "nobody"}
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, class, awsv1.ConditionPlacementGroupReady, metav1.ConditionFalse, awsv1.ReasonPlacementGroupNotFound)
	class.Spec.PlacementGroupSelector, class.Generation = &awsv1.PlacementGroupSelector{Name: "spread"}, 2
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, class, karpv1.ConditionReady, metav1.ConditionTrue, "")
	w.sim.Cloud().TakeCapacity(simcloud.CapacityRule{
		Zone: "us-west-2a", Message: "You've reached the limit of instances in this spread placement group. You can launch up to 7 instances.",
	})
	c := order([]string{"on-demand"}, "m5.large", "c5.large")
	c.Spec.Requirements = append(c.Spec.Requirements, in("topology.kubernetes.io/zone", "us-west-2a"))
	if _, err := w.Launch(t.Context(), w.resolve(t, c, class, 1)); err == nil {
		t.Fatal("launched although the group is full")
	}
	list, err := w.InstanceTypes(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"m5.large", "c5.large"} {
		if offering(t, list, name, "us-west-2a", "on-demand").Available || !offering(t, list, name, "us-west-2b", "on-demand").Available || !offering(t, list, name, "us-west-2a", "spot").Available {
			t.Errorf("A-169: %s has the wrong offerings", name)
		}
	}
	plain := nodeClass()
	plain.Name, plain.UID = "plain", "U2"
	if err := w.observe(t, plain); err != nil {
		t.Fatal(err)
	}
	if list, err = w.InstanceTypes(t.Context(), plain); err != nil || !offering(t, list, "m5.large", "us-west-2a", "on-demand").Available {
		t.Errorf("A-166, A-169: a class without the group is affected, %v", err)
	}
	w.sim.Cloud().GiveCapacity("", "", "")
	got := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "r5.large"), class, 2))
	if got.Labels[ec2types.LabelPlacementGroup] != spread {
		t.Errorf("placement group label %q", got.Labels[ec2types.LabelPlacementGroup])
	}

	class.Spec.PlacementGroupSelector, class.Generation = &awsv1.PlacementGroupSelector{Name: "parts"}, 3
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	c = order([]string{"on-demand"}, "r5.large")
	c.Spec.Requirements = append(c.Spec.Requirements, in(ec2types.LabelPartition, "6", "2"))
	data := templateOf(t, w, c, class)
	got = w.launch(t, w.resolve(t, c, class, 3))
	if data["Placement.PartitionNumber"] != "2" || got.Labels[ec2types.LabelPartition] != "2" {
		t.Errorf("A-205: template %q, label %q, want the smallest of the claim's in both", data["Placement.PartitionNumber"], got.Labels[ec2types.LabelPartition])
	}

	w.clock.SetTime(start().Add(2 * time.Minute))
	w.sim.InjectFault(simaws.Fault{Service: "ec2", Action: "DescribePlacementGroups", Code: "InternalError", Status: 500})
	if err := w.observe(t, class); err == nil {
		t.Error("A-082: no error")
	}
	wantCondition(t, class, awsv1.ConditionPlacementGroupReady, metav1.ConditionFalse, awsv1.ReasonPlacementGroupResolutionFailed)
}

func TestImageRelease(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	old := class.Status.DeepCopy().AMIs
	w.sim.Cloud().ReleaseAL2023(start().Add(time.Hour))
	w.clock.SetTime(start().Add(2 * time.Hour))
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(old, class.Status.AMIs); diff != "" {
		t.Errorf("A-061: images changed before they were deprecated:\n%s", diff)
	}
	for _, a := range old {
		if err := w.sim.Cloud().DeprecateImage(a.ID, start().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range w.Refreshers() {
		if r.Name == "image parameters" {
			if err := r.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.clock.SetTime(start().Add(2*time.Hour + 2*time.Minute))
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	for _, a := range class.Status.AMIs {
		if a.Deprecated {
			t.Errorf("A-062: %s is deprecated and still used", a.ID)
		}
	}
}

func TestCollectProfiles(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	first := class.Status.InstanceProfile
	class.Spec.Role, class.Generation = "r2", 2
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	present := map[string]bool{class.Status.InstanceProfile: true}
	left := func() int { return len(w.sim.Cloud().Profiles("/karpenter/us-west-2/demo/")) }
	collect := func(keep map[string]bool, want int, name string) {
		t.Helper()
		if err := w.CollectProfiles(t.Context(), keep); err != nil {
			t.Fatal(err)
		}
		if got := left(); got != want {
			t.Errorf("%s: %d profiles left, want %d", name, got, want)
		}
	}
	collect(present, 2, "younger than an hour")
	w.clock.SetTime(start().Add(2 * time.Hour))
	collect(map[string]bool{class.Status.InstanceProfile: true, first: true}, 2, "named by a claim")
	collect(present, 1, "unused")
	isolated := w.start(t, func(o *aws.Options) { o.IsolatedVPC = true })
	before := w.mark()
	if err := isolated.CollectProfiles(t.Context(), nil); err != nil || len(w.sim.Calls(before, "iam", "")) != 0 {
		t.Errorf("A-073: IAM was called, %v", err)
	}
	if done, err := isolated.Release(t.Context(), class); err != nil || !done || len(w.sim.Calls(before, "iam", "")) != 0 {
		t.Errorf("A-101: %v, %v", done, err)
	}
}

func TestReleaseRefused(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	w.sim.InjectFault(simaws.Fault{Service: "ec2", Action: "DeleteLaunchTemplate", Code: "UnauthorizedOperation", Status: 403})
	if done, err := w.Release(t.Context(), class); err == nil || done {
		t.Errorf("done %v, %v", done, err)
	}
	w.sim.ClearFaults(0)
	if done, err := w.Release(t.Context(), class); err != nil || !done {
		t.Errorf("second try: done %v, %v", done, err)
	}
}

func TestNoPermissionToLaunch(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	r := w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1)
	for code, want := range map[string]string{"UnauthorizedOperation": karpv1.ReasonUnauthorized, "InvalidParameter": karpv1.ReasonSecurityGroupSubnetVPCMismatch} {
		w.sim.InjectFault(simaws.Fault{Service: "ec2", Action: "CreateFleet", Code: code, Message: "security groups and subnets belong to different networks", Status: 400})
		_, err := w.Launch(t.Context(), r)
		if failed, ok := errors.AsType[*cloud.CreateFailed](err); !ok || failed.Reason != want {
			t.Errorf("%s: %v, want %s", code, err, want)
		}
		w.sim.ClearFaults(0)
	}
	if n := len(w.sim.Cloud().All()); n != 0 {
		t.Errorf("%d instances", n)
	}
}
