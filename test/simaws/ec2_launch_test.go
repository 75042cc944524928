package simaws_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/test/simaws"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

// al2023 is an AL2023 image of an architecture.
func (w *world) al2023(t *testing.T, arch string) string {
	t.Helper()
	v, err := w.cloud.Parameter("/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/" + arch + "/standard/recommended/image_id")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (w *world) subnet(t *testing.T, zone string) string {
	t.Helper()
	list, err := w.cloud.Subnets(nil, []cloud.Filter{{Name: "availability-zone", Values: []string{zone}}})
	if err != nil || len(list) != 1 {
		t.Fatalf("subnet of %s: %v, %v", zone, list, err)
	}
	return list[0].ID
}

func (w *world) nodeGroup(t *testing.T) string {
	t.Helper()
	list, err := w.cloud.SecurityGroups(nil, nil, []cloud.Filter{{Name: "group-name", Values: []string{"*-node"}}})
	if err != nil || len(list) != 1 {
		t.Fatalf("node security group: %v, %v", list, err)
	}
	return list[0].ID
}

// profile makes the instance profile "nodes" with the first role.
func (w *world) profile(t *testing.T) string {
	t.Helper()
	if _, err := w.cloud.CreateProfile("nodes", "/", nil); err != nil {
		t.Fatal(err)
	}
	if err := w.cloud.AddRoleToProfile("nodes", w.cloud.Options().Roles[0]); err != nil {
		t.Fatal(err)
	}
	return "nodes"
}

// templateData is launch template data as an autoscaler writes it.
func (w *world) templateData(t *testing.T, userData string) *types.RequestLaunchTemplateData {
	t.Helper()
	return &types.RequestLaunchTemplateData{
		ImageId:  aws.String(w.al2023(t, "x86_64")),
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(userData))),
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{
			VolumeSize: aws.Int32(20), VolumeType: types.VolumeTypeGp3, Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(true)}}},
		IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("nodes")},
		Monitoring:         &types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(false)},
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{HttpEndpoint: "enabled", HttpTokens: "required", HttpProtocolIpv6: "disabled",
			HttpPutResponseHopLimit: aws.Int32(1), InstanceMetadataTags: "disabled"},
		NetworkInterfaces: []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: aws.Int32(0), Groups: []string{w.nodeGroup(t)}}},
		Placement:         &types.LaunchTemplatePlacementRequest{Tenancy: types.TenancyDefault},
		TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}},
		CapacityReservationSpecification: &types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: types.CapacityReservationPreferenceNone},
	}
}

func (w *world) template(t *testing.T, name, userData string) string {
	t.Helper()
	out := must[*ec2.CreateLaunchTemplateOutput](t)(w.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name, LaunchTemplateData: w.templateData(t, userData),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: []types.Tag{{Key: aws.String("eks:eks-cluster-name"), Value: aws.String("karp")}}}},
	}))
	return *out.LaunchTemplate.LaunchTemplateId
}

func override(typ, subnet string, priority float64) types.FleetLaunchTemplateOverridesRequest {
	return types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(typ), SubnetId: &subnet, Priority: &priority}
}

// fleet is an instant spot or on-demand fleet of a template.
func fleet(template string, market types.DefaultTargetCapacityType, n int32, overrides ...types.FleetLaunchTemplateOverridesRequest) *ec2.CreateFleetInput {
	in := &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &template, Version: aws.String("$Latest")},
			Overrides:                   overrides,
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: &n, DefaultTargetCapacityType: market},
		TagSpecifications: []types.TagSpecification{
			{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: aws.String("karpenter.sh/nodepool"), Value: aws.String("default")}}},
			{ResourceType: types.ResourceTypeVolume, Tags: []types.Tag{{Key: aws.String("v"), Value: aws.String("1")}}},
			{ResourceType: types.ResourceTypeFleet, Tags: []types.Tag{{Key: aws.String("f"), Value: aws.String("1")}}},
		},
	}
	if market == types.DefaultTargetCapacityTypeSpot {
		in.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: types.SpotAllocationStrategyPriceCapacityOptimized}
	} else {
		in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice}
	}
	return in
}

const (
	spot     = types.DefaultTargetCapacityTypeSpot
	onDemand = types.DefaultTargetCapacityTypeOnDemand
)

func (w *world) launch(t *testing.T, in *ec2.CreateFleetInput) *ec2.CreateFleetOutput {
	t.Helper()
	return must[*ec2.CreateFleetOutput](t)(w.ec2.CreateFleet(t.Context(), in))
}

// ids are the instances of a fleet's answer.
func ids(out *ec2.CreateFleetOutput) (all []string) {
	for _, g := range out.Instances {
		all = append(all, g.InstanceIds...)
	}
	return all
}

func (w *world) describe(t *testing.T, id ...string) []types.Instance {
	t.Helper()
	out := must[*ec2.DescribeInstancesOutput](t)(w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: id}))
	var all []types.Instance
	for _, r := range out.Reservations {
		all = append(all, r.Instances...)
	}
	return all
}

func TestLaunchTemplates(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	id := w.template(t, "karpenter.k8s.aws/1", "#!/bin/sh\n")
	create := func(name, userData string, change func(*ec2.CreateLaunchTemplateInput)) error {
		in := &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: w.templateData(t, userData)}
		if change != nil {
			change(in)
		}
		_, err := w.ec2.CreateLaunchTemplate(ctx, in)
		return err
	}
	wantCode(t, create("karpenter.k8s.aws/1", "", nil), "InvalidLaunchTemplateName.AlreadyExistsException")
	wantCode(t, create("no spaces", "", nil), "InvalidLaunchTemplateName.MalformedException")
	wantCode(t, create("dry", "", func(in *ec2.CreateLaunchTemplateInput) { in.DryRun = aws.Bool(true) }), "DryRunOperation")
	err := create("long", strings.Repeat("x", 16385), nil)
	wantCode(t, err, "InvalidUserData.Malformed")
	if !strings.Contains(err.Error(), "User data is limited to 16384 bytes") {
		t.Errorf("message: %v", err)
	}
	if err := create("just-fits", strings.Repeat("x", 16384), nil); err != nil {
		t.Errorf("16384 bytes: %v", err)
	}
	wantCode(t, create("not-base64", "", func(in *ec2.CreateLaunchTemplateInput) { in.LaunchTemplateData.UserData = aws.String("%%%") }), "InvalidUserData.Malformed")

	token := aws.String("token-1")
	repeat := func(in *ec2.CreateLaunchTemplateInput) { in.ClientToken = token }
	if err := create("twice", "a", repeat); err != nil {
		t.Fatal(err)
	}
	if err := create("twice", "a", repeat); err != nil {
		t.Errorf("the same call with the same token: %v", err)
	}
	wantCode(t, create("twice", "b", repeat), "IdempotentParameterMismatch")

	got := must[*ec2.DescribeLaunchTemplatesOutput](t)(w.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{
		Filters: []types.Filter{filter("tag:eks:eks-cluster-name", "karp")}, MaxResults: aws.Int32(200)})).LaunchTemplates
	if len(got) != 1 || *got[0].LaunchTemplateId != id || *got[0].LatestVersionNumber != 1 {
		t.Errorf("templates of the cluster: %+v", got)
	}
	_, err = w.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"karpenter.k8s.aws/1", "none"}})
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")

	versions := must[*ec2.DescribeLaunchTemplateVersionsOutput](t)(w.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: &id, Versions: []string{"$Latest"}})).LaunchTemplateVersions
	data := versions[0].LaunchTemplateData
	if *data.ImageId != w.al2023(t, "x86_64") || data.NetworkInterfaces[0].Groups[0] != w.nodeGroup(t) || *data.BlockDeviceMappings[0].Ebs.VolumeSize != 20 ||
		data.MetadataOptions.HttpTokens != "required" || *data.IamInstanceProfile.Name != "nodes" || len(data.TagSpecifications) != 1 ||
		data.CapacityReservationSpecification.CapacityReservationPreference != "none" {
		t.Errorf("template data: %+v", data)
	}

	must[*ec2.DeleteLaunchTemplateOutput](t)(w.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &id}))
	_, err = w.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &id})
	wantCode(t, err, "InvalidLaunchTemplateId.NotFound")
	_, err = w.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("karpenter.k8s.aws/1")})
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")
}

func TestFleetLaunchesTheCheapestOffering(t *testing.T) {
	w := newWorld(t, cloud.Options{PendingDelay: 5 * time.Second})
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	a, b := w.subnet(t, "us-east-1a"), w.subnet(t, "us-east-1b")
	out := w.launch(t, fleet("nodes", onDemand, 1, override("m5.2xlarge", a, 1), override("m5.large", b, 2), override("m5.xlarge", a, 3)))
	if len(ids(out)) != 1 || len(out.Errors) != 0 {
		t.Fatalf("instances %v, errors %+v", ids(out), out.Errors)
	}
	g := out.Instances[0]
	o := g.LaunchTemplateAndOverrides.Overrides
	if g.InstanceType != "m5.large" || g.Lifecycle != types.InstanceLifecycleOnDemand || *o.AvailabilityZone != "us-east-1b" || *o.ImageId != w.al2023(t, "x86_64") || *o.SubnetId != b || *o.Priority != 2 {
		t.Errorf("group: %+v %+v", g, o)
	}
	i := w.describe(t, ids(out)...)[0]
	tags := map[string]string{}
	for _, tag := range i.Tags {
		tags[*tag.Key] = *tag.Value
	}
	if i.State.Name != types.InstanceStateNamePending || *i.Placement.AvailabilityZone != "us-east-1b" || *i.Placement.AvailabilityZoneId == "" ||
		i.Placement.Tenancy != types.TenancyDefault || *i.SubnetId != b || *i.SecurityGroups[0].GroupId != w.nodeGroup(t) || *i.ImageId != w.al2023(t, "x86_64") ||
		i.InstanceLifecycle != "" || i.SpotInstanceRequestId != nil || tags["karpenter.sh/nodepool"] != "default" || tags["aws:ec2:fleet-id"] != *out.FleetId ||
		!strings.HasSuffix(*i.PrivateDnsName, ".ec2.internal") || !i.LaunchTime.Equal(w.clock.Now()) || *i.NetworkInterfaces[0].InterfaceType != "interface" ||
		i.CapacityReservationSpecification.CapacityReservationPreference != "none" || !strings.HasSuffix(*i.IamInstanceProfile.Arn, "instance-profile/nodes") {
		t.Errorf("instance: %+v", i)
	}
	w.clock.advance(5 * time.Second)
	if i := w.describe(t, ids(out)...)[0]; i.State.Name != types.InstanceStateNameRunning {
		t.Errorf("state after the pending delay: %s", i.State.Name)
	}
}

func TestSpotFleet(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	var overrides []types.FleetLaunchTemplateOverridesRequest
	cheapest, want := int64(1<<62), ""
	for _, z := range []string{"us-east-1a", "us-east-1b", "us-east-1c"} {
		overrides = append(overrides, override("m5.large", w.subnet(t, z), 1))
		if p, ok := w.cloud.SpotPrice("m5.large", z); ok && p < cheapest {
			cheapest, want = p, z
		}
	}
	out := w.launch(t, fleet("nodes", spot, 3, overrides...))
	if len(out.Instances) != 1 || len(ids(out)) != 3 {
		t.Fatalf("groups: %+v", out.Instances)
	}
	for _, i := range w.describe(t, ids(out)...) {
		if i.InstanceLifecycle != types.InstanceLifecycleTypeSpot || i.SpotInstanceRequestId == nil || *i.Placement.AvailabilityZone != want {
			t.Errorf("instance: lifecycle %s, zone %s, want spot in %s", i.InstanceLifecycle, *i.Placement.AvailabilityZone, want)
		}
	}
	// With priorities the order of price does not count.
	in := fleet("nodes", spot, 1, override("m5.4xlarge", w.subnet(t, "us-east-1a"), 1), override("m5.large", w.subnet(t, "us-east-1a"), 2))
	in.SpotOptions.AllocationStrategy = types.SpotAllocationStrategyCapacityOptimizedPrioritized
	if out := w.launch(t, in); out.Instances[0].InstanceType != "m5.4xlarge" {
		t.Errorf("prioritized launch of %s, want m5.4xlarge", out.Instances[0].InstanceType)
	}
}

func TestFleetIsFulfilledInPart(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	a, b := w.subnet(t, "us-east-1a"), w.subnet(t, "us-east-1b")
	if err := w.sim.TakeCapacity(ctx, cloud.CapacityRule{Type: "m5.large", Zone: "us-east-1a", CapacityType: "on-demand", Left: 2}); err != nil {
		t.Fatal(err)
	}
	if err := w.sim.TakeCapacity(ctx, cloud.CapacityRule{Type: "m5.x*", Left: 0, Code: "UnfulfillableCapacity"}); err != nil {
		t.Fatal(err)
	}
	in := fleet("nodes", onDemand, 4, override("m5.large", a, 1), override("m5.xlarge", b, 1))
	out := w.launch(t, in)
	if len(ids(out)) != 2 {
		t.Fatalf("%d instances, want the 2 there is room for", len(ids(out)))
	}
	got := map[string]string{}
	for _, e := range out.Errors {
		got[string(e.LaunchTemplateAndOverrides.Overrides.InstanceType)] = *e.ErrorCode
		if *e.LaunchTemplateAndOverrides.Overrides.AvailabilityZone == "" || e.Lifecycle != types.InstanceLifecycleOnDemand {
			t.Errorf("error without zone or lifecycle: %+v", e)
		}
	}
	if diff := cmp.Diff(map[string]string{"m5.large": "InsufficientInstanceCapacity", "m5.xlarge": "UnfulfillableCapacity"}, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if err := w.sim.GiveCapacity(ctx, "", "", ""); err != nil {
		t.Fatal(err)
	}
	in.ClientToken = nil // the SDK has filled one in
	if out := w.launch(t, in); len(ids(out)) != 4 || len(out.Errors) != 0 {
		t.Errorf("with the capacity back: %d instances, errors %+v", len(ids(out)), out.Errors)
	}
}

func TestFleetErrorsPerOverride(t *testing.T) {
	w := newWorld(t, cloud.Options{OnDemandVCPUQuota: 4, SpotVCPUQuota: 2})
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	a := w.subnet(t, "us-east-1a")
	tests := []struct {
		name   string
		market types.DefaultTargetCapacityType
		pool   types.FleetLaunchTemplateOverridesRequest
		want   string
	}{
		{"unknown type", onDemand, override("m5.giant", a, 1), "InvalidParameterValue"},
		{"unknown subnet", onDemand, override("m5.large", "subnet-00000000000000000", 1), "InvalidSubnetID.NotFound"},
		{"other architecture", onDemand, override("m6g.large", a, 1), "InvalidParameterValue"},
		{"not sold in the zone", onDemand, override("m5.large", w.subnet(t, "us-east-1e"), 1), "InvalidFleetConfiguration"},
		{"on-demand quota", onDemand, override("m5.2xlarge", a, 1), "VcpuLimitExceeded"},
		{"spot quota", spot, override("m5.2xlarge", a, 1), "MaxSpotInstanceCountExceeded"},
		{"no spot of the type", spot, override("u7i-6tb.112xlarge", a, 1), "Unsupported"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "no spot of the type" && !slices.ContainsFunc(w.cloud.Area().ZonesOf("u7i-6tb.112xlarge"), func(z ec2data.Zone) bool { return z.Suffix == "a" }) {
				tt.want = "InvalidFleetConfiguration"
			}
			out := w.launch(t, fleet("nodes", tt.market, 1, tt.pool))
			if len(out.Instances) != 0 || len(out.Errors) != 1 || *out.Errors[0].ErrorCode != tt.want {
				t.Errorf("instances %+v, errors %+v, want code %s", out.Instances, out.Errors, tt.want)
			}
		})
	}
	image := override("m5.large", a, 1)
	image.ImageId = aws.String("ami-00000000000000000")
	if out := w.launch(t, fleet("nodes", onDemand, 1, image)); len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "InvalidAMIID.NotFound" {
		t.Errorf("unknown image: %+v", out.Errors)
	}
}

func TestFleetAsAWhole(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	a := w.subnet(t, "us-east-1a")
	_, err := w.ec2.CreateFleet(ctx, fleet("none", onDemand, 1, override("m5.large", a, 1)))
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")
	w.template(t, "nodes", "#!/bin/sh\n")

	dry := fleet("nodes", onDemand, 1, override("m5.large", a, 1))
	dry.DryRun = aws.Bool(true)
	_, err = w.ec2.CreateFleet(ctx, dry)
	wantCode(t, err, "DryRunOperation")
	if n := len(w.cloud.All()); n != 0 {
		t.Fatalf("a dry run launched %d instances", n)
	}

	// The template names a profile that does not exist yet.
	in := fleet("nodes", onDemand, 2, override("m5.large", a, 1))
	out := w.launch(t, in)
	if len(out.Errors) != 1 || !strings.Contains(*out.Errors[0].ErrorMessage, "Invalid IAM Instance Profile name") {
		t.Errorf("without the profile: %+v", out.Errors)
	}
	w.profile(t)

	in.ClientToken = aws.String("launch-1")
	first, second := w.launch(t, in), w.launch(t, in)
	if diff := cmp.Diff(ids(first), ids(second)); diff != "" || *first.FleetId != *second.FleetId {
		t.Errorf("the same token gave other instances (-first +second):\n%s", diff)
	}
	in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(3)
	_, err = w.ec2.CreateFleet(ctx, in)
	wantCode(t, err, "IdempotentParameterMismatch")
	if n := len(w.cloud.All()); n != 2 {
		t.Errorf("%d instances in all, want 2", n)
	}

	// A fault after the commit: the client sees an error, the instances exist.
	must[int](t)(w.sim.InjectFault(ctx, simaws.Fault{Service: "ec2", Action: "CreateFleet", After: true, Times: 1, Code: "InternalError"}))
	again := fleet("nodes", onDemand, 1, override("m5.large", a, 1))
	again.ClientToken = aws.String("launch-2")
	_, err = w.ec2.CreateFleet(ctx, again)
	wantCode(t, err, "InternalError")
	repeated := w.launch(t, again)
	if n := len(w.cloud.All()); n != 3 || len(ids(repeated)) != 1 {
		t.Errorf("after the repeated call: %d instances in all, want 3; this call %v", n, ids(repeated))
	}
	got := must[*ec2.DescribeInstancesOutput](t)(w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{filter("client-token", "launch-2")}}))
	if len(got.Reservations) != 1 || *got.Reservations[0].Instances[0].ClientToken != "launch-2" {
		t.Errorf("instances of the token: %+v", got.Reservations)
	}
}

func TestSubnetAddressesMoveWithInstances(t *testing.T) {
	w := newWorld(t, cloud.Options{ShutdownDelay: 10 * time.Second})
	ctx := t.Context()
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	a := w.subnet(t, "us-east-1a")
	free := func() int32 {
		t.Helper()
		return *must[*ec2.DescribeSubnetsOutput](t)(w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{a}})).Subnets[0].AvailableIpAddressCount
	}
	before := free()
	out := w.launch(t, fleet("nodes", onDemand, 3, override("m5.large", a, 1)))
	if got := free(); got != before-3 {
		t.Errorf("free after 3 launches: %d, want %d", got, before-3)
	}
	must[*ec2.TerminateInstancesOutput](t)(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids(out)}))
	if got := free(); got != before-3 {
		t.Errorf("free while shutting down: %d, want %d", got, before-3)
	}
	w.clock.advance(10 * time.Second)
	if got := free(); got != before {
		t.Errorf("free after termination: %d, want %d", got, before)
	}
	if err := w.sim.SetFreeAddresses(ctx, a, 1); err != nil {
		t.Fatal(err)
	}
	out = w.launch(t, fleet("nodes", onDemand, 2, override("m5.large", a, 1)))
	if len(ids(out)) != 1 || len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "InsufficientFreeAddressesInSubnet" {
		t.Errorf("with one address: %v, errors %+v", ids(out), out.Errors)
	}
}

func TestTerminateIsAllOrNothing(t *testing.T) {
	w := newWorld(t, cloud.Options{ShutdownDelay: 10 * time.Second})
	ctx := t.Context()
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	id := ids(w.launch(t, fleet("nodes", onDemand, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))))[0]
	terminate := func(ids ...string) ([]types.InstanceStateChange, error) {
		out, err := w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
		if err != nil {
			return nil, err
		}
		return out.TerminatingInstances, nil
	}
	_, err := terminate(id, "i-00000000000000000")
	wantCode(t, err, "InvalidInstanceID.NotFound")
	_, err = terminate("instance")
	wantCode(t, err, "InvalidInstanceID.Malformed")
	if s := w.describe(t, id)[0].State.Name; s != types.InstanceStateNameRunning {
		t.Fatalf("a refused call left the instance %s", s)
	}
	for range 2 { // idempotent
		got := must[[]types.InstanceStateChange](t)(terminate(id))
		if got[0].CurrentState.Name != types.InstanceStateNameShuttingDown {
			t.Errorf("state %s, want shutting-down", got[0].CurrentState.Name)
		}
	}
	w.clock.advance(10 * time.Second)
	if got := w.describe(t, id)[0]; got.State.Name != types.InstanceStateNameTerminated || got.StateReason == nil {
		t.Errorf("after the shutdown delay: %+v", got.State)
	}
	w.clock.advance(time.Hour)
	_, err = w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	wantCode(t, err, "InvalidInstanceID.NotFound")
}

func TestDescribeInstances(t *testing.T) {
	w := newWorld(t, cloud.Options{DescribeDelay: 3 * time.Second})
	ctx := t.Context()
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	all := ids(w.launch(t, fleet("nodes", onDemand, 7, override("m5.large", w.subnet(t, "us-east-1a"), 1))))
	_, err := w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: all[:1]})
	wantCode(t, err, "InvalidInstanceID.NotFound") // not visible yet
	w.clock.advance(3 * time.Second)

	count := func(filters ...types.Filter) int {
		t.Helper()
		pages := ec2.NewDescribeInstancesPaginator(w.ec2, &ec2.DescribeInstancesInput{Filters: filters, MaxResults: aws.Int32(5)})
		seen := map[string]bool{}
		for pages.HasMorePages() {
			for _, r := range must[*ec2.DescribeInstancesOutput](t)(pages.NextPage(ctx)).Reservations {
				for _, i := range r.Instances {
					seen[*i.InstanceId] = true
				}
			}
		}
		return len(seen)
	}
	for _, tt := range []struct {
		filter types.Filter
		want   int
	}{
		{filter("tag-key", "karpenter.sh/nodepool"), 7},
		{filter("tag:karpenter.sh/nodepool", "default"), 7},
		{filter("tag:karpenter.sh/nodepool", "other"), 0},
		{filter("instance-state-name", "pending", "running"), 7},
		{filter("instance-state-name", "terminated"), 0},
		{filter("instance-id", all[2]), 1},
	} {
		if got := count(tt.filter); got != tt.want {
			t.Errorf("filter %s=%v: %d instances, want %d", *tt.filter.Name, tt.filter.Values, got, tt.want)
		}
	}
	_, err = w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: all[:1], MaxResults: aws.Int32(5)})
	wantCode(t, err, "InvalidParameterCombination")
	_, err = w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{all[0], "i-00000000000000000"}})
	wantCode(t, err, "InvalidInstanceID.NotFound")

	must[*ec2.CreateTagsOutput](t)(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: all[:2], Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("n")}}}))
	if got := count(filter("tag:Name", "n")); got != 2 {
		t.Errorf("%d instances named n, want 2", got)
	}
	_, err = w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{"i-00000000000000000"}, Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("n")}}})
	wantCode(t, err, "InvalidInstanceID.NotFound")

	if err := w.sim.Hide(ctx, all[0], time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := count(); got != 6 {
		t.Errorf("%d instances visible with one hidden, want 6", got)
	}
	w.clock.advance(time.Minute)
	if got := count(); got != 7 {
		t.Errorf("%d instances visible after that, want 7", got)
	}
}

func TestRunInstancesDryRun(t *testing.T) {
	w := newWorld(t, cloud.Options{ProfileDelay: 5 * time.Second})
	ctx := t.Context()
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	run := func(change func(*ec2.RunInstancesInput)) error {
		in := &ec2.RunInstancesInput{
			MinCount: aws.Int32(1), MaxCount: aws.Int32(1), DryRun: aws.Bool(true), InstanceType: "m5.large",
			LaunchTemplate:    &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String("nodes"), Version: aws.String("$Latest")},
			NetworkInterfaces: []types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), SubnetId: aws.String(w.subnet(t, "us-east-1a"))}},
			TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}},
		}
		if change != nil {
			change(in)
		}
		_, err := w.ec2.RunInstances(ctx, in)
		return err
	}
	err := run(nil)
	wantCode(t, err, "InvalidParameterValue") // EC2 does not know the profile yet
	if !strings.Contains(err.Error(), "Invalid IAM Instance Profile name") {
		t.Errorf("message: %v", err)
	}
	w.clock.advance(5 * time.Second)
	wantCode(t, run(nil), "DryRunOperation")
	wantCode(t, run(func(in *ec2.RunInstancesInput) { in.DryRun = nil }), "")
	wantCode(t, run(func(in *ec2.RunInstancesInput) { in.LaunchTemplate.LaunchTemplateName = aws.String("none") }), "InvalidLaunchTemplateName.NotFoundException")
	wantCode(t, run(func(in *ec2.RunInstancesInput) {
		in.NetworkInterfaces[0].SubnetId = aws.String(w.subnet(t, "us-east-1e"))
	}), "Unsupported")
	other := w.cloud.AddSecurityGroup("elsewhere", "vpc-0elsewhere", nil)
	wantCode(t, run(func(in *ec2.RunInstancesInput) { in.NetworkInterfaces[0].Groups = []string{other} }), "InvalidParameter")
}

func TestReservedLaunch(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	w.profile(t)
	id := w.cloud.AddReservation(cloud.CapacityReservation{Type: "m5.large", Zone: "us-east-1a", Total: 1})
	data := w.templateData(t, "#!/bin/sh\n")
	data.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{
		CapacityReservationPreference: types.CapacityReservationPreferenceCapacityReservationsOnly,
		CapacityReservationTarget:     &types.CapacityReservationTarget{CapacityReservationId: &id},
	}
	must[*ec2.CreateLaunchTemplateOutput](t)(w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("reserved"), LaunchTemplateData: data}))
	out := w.launch(t, fleet("reserved", onDemand, 2, override("m5.large", w.subnet(t, "us-east-1a"), 1)))
	if len(ids(out)) != 1 || len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "ReservationCapacityExceeded" {
		t.Fatalf("instances %v, errors %+v", ids(out), out.Errors)
	}
	i := w.describe(t, ids(out)...)[0]
	if *i.CapacityReservationId != id || i.CapacityReservationSpecification.CapacityReservationPreference != "capacity-reservations-only" {
		t.Errorf("instance: %+v", i)
	}
	left := func() int32 {
		got := must[*ec2.DescribeCapacityReservationsOutput](t)(w.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}}))
		return *got.CapacityReservations[0].AvailableInstanceCount
	}
	if n := left(); n != 0 {
		t.Errorf("%d left in the reservation, want 0", n)
	}
	must[*ec2.TerminateInstancesOutput](t)(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids(out)}))
	if n := left(); n != 1 {
		t.Errorf("%d left after termination, want 1", n)
	}
}

func TestInterruption(t *testing.T) {
	w := newWorld(t, cloud.Options{Queue: "q"})
	ctx := t.Context()
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	id := ids(w.launch(t, fleet("nodes", spot, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))))[0]
	if err := w.sim.Interrupt(ctx, id, true); err != nil {
		t.Fatal(err)
	}
	if s := w.describe(t, id)[0].State.Name; s != types.InstanceStateNameRunning {
		t.Errorf("state within the notice: %s", s)
	}
	w.clock.advance(2 * time.Minute)
	if s := w.describe(t, id)[0].State.Name; s != types.InstanceStateNameTerminated {
		t.Errorf("state after the notice: %s", s)
	}
	q := sqs.NewFromConfig(w.config)
	out := must[*sqs.ReceiveMessageOutput](t)(q.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: aws.String(w.url + "/123456789012/q"), MaxNumberOfMessages: 10}))
	var kinds []string
	for _, m := range out.Messages {
		for _, part := range []string{`"source":"aws.ec2"`, `"account":"123456789012"`, `"region":"us-east-1"`, id, `"version":"0"`} {
			if !strings.Contains(*m.Body, part) {
				t.Errorf("message without %s: %s", part, *m.Body)
			}
		}
		for _, k := range []string{"Rebalance Recommendation", "Spot Instance Interruption Warning", `"state":"pending"`, `"state":"running"`, `"state":"shutting-down"`, `"state":"terminated"`} {
			if strings.Contains(*m.Body, k) {
				kinds = append(kinds, strings.Trim(k, `"`))
			}
		}
	}
	want := []string{`state":"pending`, `state":"running`, "Rebalance Recommendation", "Spot Instance Interruption Warning", `state":"shutting-down`, `state":"terminated`}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	onDemandID := ids(w.launch(t, fleet("nodes", onDemand, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))))[0]
	if err := w.sim.Interrupt(ctx, onDemandID, false); err == nil {
		t.Error("an on-demand instance was interrupted")
	}
}

func TestInstanceStatus(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	all := ids(w.launch(t, fleet("nodes", onDemand, 3, override("m5.large", w.subnet(t, "us-east-1a"), 1))))
	if err := w.sim.Impair(ctx, all[0], &cloud.Impairment{Instance: true}); err != nil {
		t.Fatal(err)
	}
	if err := w.sim.Impair(ctx, all[1], &cloud.Impairment{EventCode: "instance-retirement", EventAt: w.clock.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	find := func(f types.Filter) []types.InstanceStatus {
		t.Helper()
		return must[*ec2.DescribeInstanceStatusOutput](t)(w.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{Filters: []types.Filter{f}})).InstanceStatuses
	}
	impaired := find(filter("instance-status.status", "impaired"))
	if len(impaired) != 1 || *impaired[0].InstanceId != all[0] || impaired[0].InstanceStatus.Details[0].Status != "failed" || impaired[0].InstanceStatus.Details[0].ImpairedSince == nil {
		t.Errorf("impaired: %+v", impaired)
	}
	if got := find(filter("system-status.status", "impaired")); len(got) != 0 {
		t.Errorf("system impaired: %+v", got)
	}
	events := find(filter("event.code", "instance-reboot", "instance-retirement"))
	if len(events) != 1 || *events[0].InstanceId != all[1] || events[0].Events[0].Code != "instance-retirement" {
		t.Errorf("events: %+v", events)
	}
}

func TestTheSameCallsGiveTheSameAccount(t *testing.T) {
	story := func() string {
		w := newWorld(t, cloud.Options{})
		w.profile(t)
		w.template(t, "nodes", "#!/bin/sh\n")
		out := w.launch(t, fleet("nodes", spot, 5, override("m5.large", w.subnet(t, "us-east-1a"), 1), override("c5.large", w.subnet(t, "us-east-1b"), 1)))
		w.clock.advance(time.Minute)
		var b strings.Builder
		fmt.Fprintln(&b, *out.FleetId)
		for _, i := range w.cloud.All() {
			fmt.Fprintln(&b, i.ID, i.Reservation, i.Type, i.Zone, i.PrivateIP, i.State, i.Interfaces, i.Volumes, i.SpotRequest)
		}
		messages, err := w.cloud.Messages("karp")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			fmt.Fprintln(&b, m.ID, m.Body)
		}
		return b.String()
	}
	if diff := cmp.Diff(story(), story()); diff != "" {
		t.Errorf("two runs differ (-first +second):\n%s", diff)
	}
}
