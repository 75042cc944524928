package simaws_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/test/simaws"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

// What a template says is what DescribeInstances and its kin tell.
func TestLaunchIsEchoed(t *testing.T) {
	w := newWorld(t, cloud.Options{ServiceCIDR: "fd30:1c53:5f8a::/108", Region: "us-west-2", Zones: []string{"a", "b"}, LocalZones: []string{"us-west-2-lax-1a"}})
	ctx := t.Context()
	w.profile(t)
	group := w.cloud.AddPlacementGroup(cloud.PlacementGroup{Name: "parts", Strategy: "partition", Partitions: 3})
	data := w.templateData(t, "#!/bin/sh\n")
	data.Monitoring = &types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(true)}
	data.CpuOptions = &types.LaunchTemplateCpuOptionsRequest{CoreCount: aws.Int32(1), ThreadsPerCore: aws.Int32(1)}
	data.Placement = &types.LaunchTemplatePlacementRequest{GroupId: &group, PartitionNumber: aws.Int32(2)}
	data.BlockDeviceMappings[0].Ebs.Iops, data.BlockDeviceMappings[0].Ebs.Throughput = aws.Int32(4000), aws.Int32(200)
	data.NetworkInterfaces = []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{
		DeviceIndex: aws.Int32(0), Groups: []string{w.nodeGroup(t)}, Ipv6AddressCount: aws.Int32(1), PrimaryIpv6: aws.Bool(true), Ipv6PrefixCount: aws.Int32(1),
		AssociatePublicIpAddress: aws.Bool(true), ConnectionTrackingSpecification: &types.ConnectionTrackingSpecificationRequest{TcpEstablishedTimeout: aws.Int32(100)},
	}}
	data.TagSpecifications = append(data.TagSpecifications, types.LaunchTemplateTagSpecificationRequest{
		ResourceType: types.ResourceTypeSpotInstancesRequest, Tags: []types.Tag{{Key: aws.String("s"), Value: aws.String("1")}}})
	must[*ec2.CreateLaunchTemplateOutput](t)(w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("echo"), LaunchTemplateData: data}))
	id := ids(w.launch(t, fleet("echo", spot, 1, override("m5.large", w.subnet(t, "us-west-2a"), 1))))[0]
	i := w.describe(t, id)[0]
	n := i.NetworkInterfaces[0]
	type echo struct {
		Monitoring                        types.MonitoringState
		Cores, Threads, Partition, Tokens any
		Group, Public                     bool
		IPv6, Prefixes                    int
		Primary                           bool
		Tracking                          int32
		Spot                              bool
	}
	got := echo{i.Monitoring.State, *i.CpuOptions.CoreCount, *i.CpuOptions.ThreadsPerCore, *i.Placement.PartitionNumber, i.MetadataOptions.HttpTokens,
		*i.Placement.GroupName == "parts", i.PublicIpAddress != nil, len(n.Ipv6Addresses), len(n.Ipv6Prefixes), *n.Ipv6Addresses[0].IsPrimaryIpv6,
		*n.ConnectionTrackingConfiguration.TcpEstablishedTimeout, i.InstanceLifecycle == types.InstanceLifecycleTypeSpot}
	want := echo{types.MonitoringStateEnabled, int32(1), int32(1), int32(2), types.HttpTokensStateRequired, true, true, 1, 1, true, 100, true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(*i.Ipv6Address, "2600:1f00:aa:100:") {
		t.Errorf("IPv6 address %s is not of the subnet", *i.Ipv6Address)
	}
	v := must[*ec2.DescribeVolumesOutput](t)(w.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{
		Filters: []types.Filter{filter("attachment.instance-id", id)}})).Volumes[0]
	if *v.Size != 20 || *v.Iops != 4000 || *v.Throughput != 200 || !*v.Encrypted || v.VolumeType != types.VolumeTypeGp3 || *v.Tags[0].Key != "v" {
		t.Errorf("volume: %+v", v)
	}
	sir := must[*ec2.DescribeSpotInstanceRequestsOutput](t)(w.ec2.DescribeSpotInstanceRequests(ctx, &ec2.DescribeSpotInstanceRequestsInput{
		SpotInstanceRequestIds: []string{*i.SpotInstanceRequestId}})).SpotInstanceRequests[0]
	if *sir.InstanceId != id || len(sir.Tags) != 1 || *sir.Tags[0].Key != "s" || sir.State != types.SpotInstanceStateActive {
		t.Errorf("spot request: %+v", sir)
	}
	eni := must[*ec2.DescribeNetworkInterfacesOutput](t)(w.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{
		NetworkInterfaceIds: []string{*n.NetworkInterfaceId}})).NetworkInterfaces[0]
	if *eni.Attachment.InstanceId != id || len(eni.TagSet) != 1 || *eni.TagSet[0].Key != "a" {
		t.Errorf("interface: %+v", eni)
	}
	attribute := must[*ec2.DescribeInstanceAttributeOutput](t)(w.ec2.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{
		InstanceId: &id, Attribute: types.InstanceAttributeNameUserData}))
	if raw, err := base64.StdEncoding.DecodeString(*attribute.UserData.Value); err != nil || string(raw) != "#!/bin/sh\n" {
		t.Errorf("user data %q, %v", raw, err)
	}
	zones := must[*ec2.DescribeAvailabilityZonesOutput](t)(w.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{
		Filters: []types.Filter{filter("zone-type", "local-zone")}})).AvailabilityZones
	if len(zones) != 1 || *zones[0].ZoneId != "usw2-lax-1-az1" && *zones[0].ZoneId != "usw2-lax1-az1" {
		t.Errorf("local zones: %+v", zones)
	}
	w.template(t, "local", "#!/bin/sh\n")
	local := ids(w.launch(t, fleet("local", onDemand, 1, override("m5.large", w.subnet(t, "us-west-2-lax-1a"), 1))))
	if len(local) != 1 {
		t.Errorf("no launch in the local zone")
	}
}

func TestStopAndStart(t *testing.T) {
	w := newWorld(t, cloud.Options{ShutdownDelay: time.Second, StatusDelay: time.Minute})
	ctx := t.Context()
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	id := ids(w.launch(t, fleet("nodes", onDemand, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))))[0]
	status := func() types.SummaryStatus {
		t.Helper()
		out := must[*ec2.DescribeInstanceStatusOutput](t)(w.ec2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{InstanceIds: []string{id}, IncludeAllInstances: aws.Bool(true)}))
		return out.InstanceStatuses[0].InstanceStatus.Status
	}
	if got := status(); got != types.SummaryStatusInitializing {
		t.Errorf("status of a fresh instance: %s", got)
	}
	w.clock.advance(time.Minute)
	if got := status(); got != types.SummaryStatusOk {
		t.Errorf("status later: %s", got)
	}
	stopped := must[*ec2.StopInstancesOutput](t)(w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}})).StoppingInstances[0]
	if stopped.CurrentState.Name != types.InstanceStateNameStopping || stopped.PreviousState.Name != types.InstanceStateNameRunning {
		t.Errorf("stopping: %+v", stopped)
	}
	w.clock.advance(time.Second)
	if got := w.describe(t, id)[0].State; got.Name != types.InstanceStateNameStopped || *got.Code != 80 {
		t.Errorf("stopped: %+v", got)
	}
	must[*ec2.StartInstancesOutput](t)(w.ec2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}}))
	if got := w.describe(t, id)[0].State.Name; got != types.InstanceStateNameRunning {
		t.Errorf("started: %s", got)
	}
	on := ids(w.launch(t, fleet("nodes", spot, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))))[0]
	_, err := w.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{on}})
	wantCode(t, err, "UnsupportedOperation")
	var states []string
	for _, e := range w.events(t) {
		if e.DetailType == "EC2 Instance State-change Notification" && e.Detail["instance-id"] == id {
			states = append(states, e.Detail["state"])
		}
	}
	if diff := cmp.Diff([]string{"pending", "running", "stopping", "stopped", "pending", "running"}, states); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

type event struct {
	Version    string            `json:"version"`
	DetailType string            `json:"detail-type"`
	Source     string            `json:"source"`
	Account    string            `json:"account"`
	Region     string            `json:"region"`
	Time       time.Time         `json:"time"`
	Resources  []string          `json:"resources"`
	Detail     map[string]string `json:"detail"`
}

func (w *world) events(t *testing.T) (out []event) {
	t.Helper()
	list, err := w.cloud.Messages(w.cloud.Options().Queue)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		var e event
		if err := json.Unmarshal([]byte(m.Body), &e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func TestReservationsOpenEndAndInterruptible(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	w.profile(t)
	data := w.templateData(t, "#!/bin/sh\n")
	data.CapacityReservationSpecification = nil // preference open
	must[*ec2.CreateLaunchTemplateOutput](t)(w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("open"), LaunchTemplateData: data}))
	made := must[*ec2.CreateCapacityReservationOutput](t)(w.ec2.CreateCapacityReservation(ctx, &ec2.CreateCapacityReservationInput{
		InstanceType: aws.String("m5.large"), InstancePlatform: types.CapacityReservationInstancePlatformLinuxUnix, AvailabilityZone: aws.String("us-east-1a"),
		InstanceCount: aws.Int32(2), EndDateType: types.EndDateTypeLimited, EndDate: aws.Time(w.clock.Now().Add(time.Hour)),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeCapacityReservation, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}},
	})).CapacityReservation
	find := func() types.CapacityReservation {
		t.Helper()
		return must[*ec2.DescribeCapacityReservationsOutput](t)(w.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{
			CapacityReservationIds: []string{*made.CapacityReservationId}})).CapacityReservations[0]
	}
	if r := find(); r.InstanceMatchCriteria != types.InstanceMatchCriteriaOpen || *r.AvailableInstanceCount != 2 || len(r.Tags) != 1 {
		t.Errorf("reservation: %+v", r)
	}
	// Capacity is gone, but the account has its own; a launch falls into it.
	w.cloud.TakeCapacity(cloud.CapacityRule{Type: "m5.large", Zone: "us-east-1a"})
	out := w.launch(t, fleet("open", onDemand, 3, override("m5.large", w.subnet(t, "us-east-1a"), 1)))
	if len(ids(out)) != 2 || len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "InsufficientInstanceCapacity" {
		t.Fatalf("launch of 3 with 2 reserved: %+v", out)
	}
	if r := find(); *r.AvailableInstanceCount != 0 {
		t.Errorf("available %d after both were used", *r.AvailableInstanceCount)
	}
	must[*ec2.TerminateInstancesOutput](t)(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids(out)[:1]}))
	if r := find(); *r.AvailableInstanceCount != 1 {
		t.Errorf("available %d after one ended", *r.AvailableInstanceCount)
	}
	if i := w.describe(t, ids(out)[1])[0]; aws.ToString(i.CapacityReservationId) != *made.CapacityReservationId {
		t.Errorf("the instance runs in reservation %q", aws.ToString(i.CapacityReservationId))
	}
	w.clock.advance(time.Hour)
	if r := find(); r.State != types.CapacityReservationStateExpired {
		t.Errorf("state %s after its end", r.State)
	}
	if i := w.describe(t, ids(out)[1])[0]; i.CapacityReservationId != nil || i.State.Name != types.InstanceStateNameRunning {
		t.Errorf("an instance of an ended reservation: %+v", i.CapacityReservationId)
	}
	_, err := w.ec2.CancelCapacityReservation(ctx, &ec2.CancelCapacityReservationInput{CapacityReservationId: made.CapacityReservationId})
	wantCode(t, err, "InvalidCapacityReservationState")
}

func TestInterruptibleAndBlockReservations(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	w.profile(t)
	source := w.cloud.AddReservation(cloud.CapacityReservation{Type: "m5.large", Zone: "us-east-1a", Total: 3})
	must[*ec2.CreateInterruptibleCapacityReservationAllocationOutput](t)(w.ec2.CreateInterruptibleCapacityReservationAllocation(ctx,
		&ec2.CreateInterruptibleCapacityReservationAllocationInput{CapacityReservationId: &source, InstanceCount: aws.Int32(2)}))
	r := must[*ec2.DescribeCapacityReservationsOutput](t)(w.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{source}})).CapacityReservations[0]
	part := *r.InterruptibleCapacityAllocation.InterruptibleCapacityReservationId
	block := w.cloud.AddReservation(cloud.CapacityReservation{Type: "m5.large", Zone: "us-east-1a", Total: 1, Kind: "capacity-block", EndAt: w.clock.Now().Add(2 * time.Hour)})
	template := func(name, id string, market types.MarketType) {
		t.Helper()
		data := w.templateData(t, "#!/bin/sh\n")
		data.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: market}
		data.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationPreference: "capacity-reservations-only", CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: &id}}
		must[*ec2.CreateLaunchTemplateOutput](t)(w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: data}))
	}
	template("part", part, "interruptible-capacity-reservation")
	template("block", block, "capacity-block")
	in := fleet("part", "reserved-capacity", 2, override("m5.large", w.subnet(t, "us-east-1a"), 1))
	in.OnDemandOptions, in.ReservedCapacityOptions = nil, &types.ReservedCapacityOptionsRequest{ReservationTypes: []types.FleetReservationType{"interruptible-capacity-reservation"}}
	inPart := ids(w.launch(t, in))
	in = fleet("block", "capacity-block", 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))
	in.OnDemandOptions = nil
	inBlock := ids(w.launch(t, in))
	if len(inPart) != 2 || len(inBlock) != 1 {
		t.Fatalf("launched %v and %v", inPart, inBlock)
	}
	must[*ec2.UpdateInterruptibleCapacityReservationAllocationOutput](t)(w.ec2.UpdateInterruptibleCapacityReservationAllocation(ctx,
		&ec2.UpdateInterruptibleCapacityReservationAllocationInput{CapacityReservationId: &source, TargetInstanceCount: aws.Int32(1)}))
	warned := ""
	for _, e := range w.events(t) {
		if e.DetailType == "EC2 Capacity Reservation Instance Interruption Warning" {
			warned = e.Detail["instance-id"]
		}
	}
	w.clock.advance(2 * time.Minute)
	if warned == "" || w.describe(t, warned)[0].State.Name != types.InstanceStateNameTerminated {
		t.Errorf("no instance was warned (%q) and taken back after two minutes", warned)
	}
	r = must[*ec2.DescribeCapacityReservationsOutput](t)(w.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{source}})).CapacityReservations[0]
	if *r.TotalInstanceCount != 2 || *r.AvailableInstanceCount != 2 {
		t.Errorf("the source has %d of %d", *r.AvailableInstanceCount, *r.TotalInstanceCount)
	}
	w.clock.advance(88 * time.Minute) // 30 minutes before the block's end
	if got := w.describe(t, inBlock[0])[0].State.Name; got != types.InstanceStateNameTerminated {
		t.Errorf("the instance of the block is %s half an hour before its end", got)
	}
}

func TestImagesCopiedAndDeprecated(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	source := w.al2023(t, "arm64")
	id := *must[*ec2.CopyImageOutput](t)(w.ec2.CopyImage(ctx, &ec2.CopyImageInput{Name: aws.String("mine"), SourceImageId: &source, SourceRegion: aws.String("us-east-1")})).ImageId
	mine := func() types.Image {
		t.Helper()
		return must[*ec2.DescribeImagesOutput](t)(w.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{"self"}})).Images[0]
	}
	if i := mine(); *i.ImageId != id || i.Architecture != types.ArchitectureValuesArm64 || *i.SourceImageId != source || i.DeprecationTime != nil {
		t.Errorf("copy: %+v", i)
	}
	must[*ec2.EnableImageDeprecationOutput](t)(w.ec2.EnableImageDeprecation(ctx, &ec2.EnableImageDeprecationInput{ImageId: &id, DeprecateAt: aws.Time(w.clock.Now())}))
	if i := mine(); i.DeprecationTime == nil {
		t.Error("the copy is not deprecated")
	}
	_, err := w.ec2.EnableImageDeprecation(ctx, &ec2.EnableImageDeprecationInput{ImageId: &source, DeprecateAt: aws.Time(w.clock.Now())})
	wantCode(t, err, "AuthFailure")
	must[*ec2.DeregisterImageOutput](t)(w.ec2.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: &id}))
	_, err = w.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
	wantCode(t, err, "InvalidAMIID.NotFound")

	// Two minors, two releases, every variant; older ones are found by path.
	c := ssm.NewFromConfig(w.config)
	var names []string
	pages := ssm.NewGetParametersByPathPaginator(c, &ssm.GetParametersByPathInput{Path: aws.String("/aws/service/eks/optimized-ami/1.36/amazon-linux-2023"), Recursive: aws.Bool(true)})
	for pages.HasMorePages() {
		for _, p := range must[*ssm.GetParametersByPathOutput](t)(pages.NextPage(ctx)).Parameters {
			names = append(names, *p.Name)
		}
	}
	if len(names) != 15 { // 5 variants, of each two releases and the recommended one
		t.Errorf("%d parameters of the older minor: %v", len(names), names)
	}
}

func TestNetworkChanges(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	subnet := w.subnet(t, "us-east-1a")
	must[*ec2.ModifySubnetAttributeOutput](t)(w.ec2.ModifySubnetAttribute(ctx, &ec2.ModifySubnetAttributeInput{SubnetId: &subnet, MapPublicIpOnLaunch: &types.AttributeBooleanValue{Value: aws.Bool(true)}}))
	s := must[*ec2.DescribeSubnetsOutput](t)(w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})).Subnets[0]
	if !*s.MapPublicIpOnLaunch {
		t.Error("the subnet gives no public addresses")
	}
	g := must[*ec2.CreateSecurityGroupOutput](t)(w.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: aws.String("extra"), Description: aws.String("x"), VpcId: s.VpcId,
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSecurityGroup, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}}}))
	must[*ec2.CreateTagsOutput](t)(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{*g.GroupId, subnet}, Tags: []types.Tag{{Key: aws.String("c"), Value: aws.String("d")}}}))
	found := must[*ec2.DescribeTagsOutput](t)(w.ec2.DescribeTags(ctx, &ec2.DescribeTagsInput{Filters: []types.Filter{filter("key", "c"), filter("resource-type", "security-group")}})).Tags
	if len(found) != 1 || *found[0].ResourceId != *g.GroupId {
		t.Errorf("tags: %+v", found)
	}
	must[*ec2.DeleteSecurityGroupOutput](t)(w.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: g.GroupId}))
	_, err := w.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: g.GroupId})
	wantCode(t, err, "InvalidGroup.NotFound")
	p := must[*ec2.CreatePlacementGroupOutput](t)(w.ec2.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: aws.String("p"), Strategy: types.PlacementStrategyPartition, PartitionCount: aws.Int32(3)}))
	if *p.PlacementGroup.PartitionCount != 3 || p.PlacementGroup.State != types.PlacementGroupStateAvailable {
		t.Errorf("placement group: %+v", p.PlacementGroup)
	}
	_, err = w.ec2.CreatePlacementGroup(ctx, &ec2.CreatePlacementGroupInput{GroupName: aws.String("p"), Strategy: types.PlacementStrategyCluster})
	wantCode(t, err, "InvalidPlacementGroup.Duplicate")
	must[*ec2.DeletePlacementGroupOutput](t)(w.ec2.DeletePlacementGroup(ctx, &ec2.DeletePlacementGroupInput{GroupName: aws.String("p")}))
}

func TestEventualConsistencyOfTemplates(t *testing.T) {
	w := newWorld(t, cloud.Options{TemplateDelay: time.Second})
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	in := fleet("nodes", onDemand, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))
	_, err := w.ec2.CreateFleet(t.Context(), in)
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")
	w.clock.advance(time.Second)
	w.launch(t, in)
}

func TestSettableBuckets(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	on := true
	if err := w.sim.Change(ctx, simaws.Settings{Throttling: &on}); err != nil {
		t.Fatal(err)
	}
	if err := w.sim.SetBuckets(ctx, simaws.Bucket{Name: "subnets", Service: "ec2", Actions: []string{"DescribeSubnets"}, Refill: 1, Burst: 1},
		simaws.Bucket{Name: "parameters", Service: "ssm", Actions: []string{"*"}, Refill: 1, Burst: 1}); err != nil {
		t.Fatal(err)
	}
	c := ssm.NewFromConfig(w.config)
	for i, want := range []string{"", "RequestLimitExceeded"} {
		_, err := w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
		if got := code(err); got != want {
			t.Errorf("call %d: %q, want %q", i, got, want)
		}
	}
	for i, want := range []string{"ParameterNotFound", "ThrottlingException"} {
		_, err := c.GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/none")})
		if got := code(err); got != want {
			t.Errorf("parameter %d: %q, want %q", i, got, want)
		}
	}
	_, err := w.ec2.DescribeRegions(ctx, &ec2.DescribeRegionsInput{})
	wantCode(t, err, "")
}

// fis sends a request of the fault injection service.
func (w *world) fis(t *testing.T, method, path, body string, out any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20261201/us-east-1/fis/aws4_request, SignedHeaders=host, Signature=0")
	resp, err := w.config.HTTPClient.(*http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatalf("%s %s: %s: %v", method, path, raw, err)
	}
	return resp.StatusCode
}

func TestExperimentInterruptsSpot(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	id := ids(w.launch(t, fleet("nodes", spot, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))))[0]
	template := `{"clientToken":"t","description":"x","roleArn":"arn:aws:iam::123456789012:role/fis","stopConditions":[{"source":"none"}],
		"targets":{"T":{"resourceType":"aws:ec2:spot-instance","resourceArns":["arn:aws:ec2:us-east-1:123456789012:instance/` + id + `"],"selectionMode":"ALL"}},
		"actions":{"A":{"actionId":"aws:ec2:send-spot-instance-interruptions","parameters":{"durationBeforeInterruption":"PT3M"},"targets":{"SpotInstances":"T"}}}}`
	var made struct {
		ExperimentTemplate struct{ ID string }
	}
	if code := w.fis(t, "POST", "/experimentTemplates", template, &made); code != 200 || !strings.HasPrefix(made.ExperimentTemplate.ID, "EXT") {
		t.Fatalf("template: %d, %+v", code, made)
	}
	var started struct {
		Experiment struct {
			ID    string
			State struct{ Status, Reason string }
		}
	}
	w.fis(t, "POST", "/experiments", `{"clientToken":"e","experimentTemplateId":"`+made.ExperimentTemplate.ID+`"}`, &started)
	if started.Experiment.State.Status != "running" {
		t.Fatalf("experiment: %+v", started)
	}
	kinds := func() (out []string) {
		w.describe(t, id)
		for _, e := range w.events(t) {
			if e.DetailType != "EC2 Instance State-change Notification" {
				out = append(out, e.DetailType+" "+e.Time.Format("15:04"))
			}
		}
		return out
	}
	w.clock.advance(time.Minute)
	if diff := cmp.Diff([]string{"EC2 Instance Rebalance Recommendation 12:00", "EC2 Spot Instance Interruption Warning 12:01"}, kinds()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	w.clock.advance(2 * time.Minute)
	if got := w.describe(t, id)[0].State.Name; got != types.InstanceStateNameTerminated {
		t.Errorf("the instance is %s after the experiment", got)
	}
	w.fis(t, "GET", "/experiments/"+started.Experiment.ID, "", &started)
	if started.Experiment.State.Status != "completed" {
		t.Errorf("experiment: %+v", started)
	}
	w.fis(t, "POST", "/experiments", `{"clientToken":"f","experimentTemplateId":"`+made.ExperimentTemplate.ID+`"}`, &started)
	if started.Experiment.State.Status != "failed" {
		t.Errorf("experiment without targets: %+v", started)
	}
	var refusal struct {
		Message string `json:"message"`
	}
	if code := w.fis(t, "DELETE", "/experimentTemplates/EXTnone", "", &refusal); code != 404 {
		t.Errorf("unknown template: %d %+v", code, refusal)
	}
}

func TestLaunchesThatCannotBe(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	w.profile(t)
	eni := func(n *types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest) func(*types.RequestLaunchTemplateData) {
		n.DeviceIndex, n.Groups = aws.Int32(0), []string{w.nodeGroup(t)}
		return func(d *types.RequestLaunchTemplateData) {
			d.NetworkInterfaces = []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{*n}
		}
	}
	volume := func(change func(*types.LaunchTemplateEbsBlockDeviceRequest)) func(*types.RequestLaunchTemplateData) {
		return func(d *types.RequestLaunchTemplateData) { change(d.BlockDeviceMappings[0].Ebs) }
	}
	for name, tt := range map[string]struct {
		change func(*types.RequestLaunchTemplateData)
		want   string
	}{
		"EFA":              {eni(&types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{InterfaceType: aws.String("efa")}), "InvalidParameterCombination"},
		"network card":     {eni(&types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{NetworkCardIndex: aws.Int32(1)}), "InvalidParameterValue"},
		"too many slices":  {eni(&types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{Ipv4PrefixCount: aws.Int32(10)}), "PrivateIpAddressLimitExceeded"},
		"IPv6":             {eni(&types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{Ipv6AddressCount: aws.Int32(1)}), "InvalidParameterValue"},
		"small root":       {volume(func(v *types.LaunchTemplateEbsBlockDeviceRequest) { v.VolumeSize = aws.Int32(4) }), "InvalidBlockDeviceMapping"},
		"IOPS of gp2":      {volume(func(v *types.LaunchTemplateEbsBlockDeviceRequest) { v.VolumeType, v.Iops = "gp2", aws.Int32(3000) }), "InvalidParameterCombination"},
		"few IOPS":         {volume(func(v *types.LaunchTemplateEbsBlockDeviceRequest) { v.Iops = aws.Int32(100) }), "InvalidParameterValue"},
		"throughput ratio": {volume(func(v *types.LaunchTemplateEbsBlockDeviceRequest) { v.Throughput = aws.Int32(1000) }), "InvalidParameterValue"},
		"io1 without IOPS": {volume(func(v *types.LaunchTemplateEbsBlockDeviceRequest) { v.VolumeType = "io1" }), "MissingParameter"},
		"cores": {func(d *types.RequestLaunchTemplateData) {
			d.CpuOptions = &types.LaunchTemplateCpuOptionsRequest{CoreCount: aws.Int32(2), ThreadsPerCore: aws.Int32(1)}
		}, "InvalidParameterValue"},
	} {
		data := w.templateData(t, "#!/bin/sh\n")
		tt.change(data)
		template := strings.ReplaceAll(name, " ", "-")
		must[*ec2.CreateLaunchTemplateOutput](t)(w.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("lt-" + template), LaunchTemplateData: data}))
		out := w.launch(t, fleet("lt-"+template, onDemand, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1)))
		if len(out.Errors) != 1 || *out.Errors[0].ErrorCode != tt.want {
			t.Errorf("%s: want %s, got %+v", name, tt.want, out)
		}
	}
}

// The answers are those of AWS' documentation, but for ids and times.
func TestDocumentedShapes(t *testing.T) {
	w := newWorld(t, cloud.Options{ShutdownDelay: time.Minute})
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	id := ids(w.launch(t, fleet("nodes", onDemand, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))))[0]
	const head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
	v := "&Version=2016-11-15"
	for _, tt := range []struct{ service, form, want string }{
		{"ec2", "Action=CreateTags&ResourceId.1=" + id + "&Tag.1.Key=a&Tag.1.Value=b" + v,
			`<CreateTagsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>ID</requestId><return>true</return></CreateTagsResponse>`},
		{"ec2", "Action=TerminateInstances&InstanceId.1=" + id + v,
			`<TerminateInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>ID</requestId><instancesSet><item><instanceId>` + id +
				`</instanceId><currentState><code>32</code><name>shutting-down</name></currentState><previousState><code>16</code><name>running</name></previousState></item></instancesSet></TerminateInstancesResponse>`},
		{"ec2", "Action=DescribeInstances&InstanceId.1=i-00000000000000000" + v,
			`<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code><Message>The instance ID &#39;i-00000000000000000&#39; does not exist</Message></Error></Errors><RequestID>ID</RequestID></Response>`},
		{"iam", "Action=GetInstanceProfile&InstanceProfileName=none&Version=2010-05-08",
			`<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><Error><Type>Sender</Type><Code>NoSuchEntity</Code><Message>Instance Profile none cannot be found.</Message></Error><RequestId>ID</RequestId></ErrorResponse>`},
		{"sts", "Action=GetCallerIdentity&Version=2011-06-15",
			`<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/simaws</Arn><UserId>AIDASIMAWS</UserId><Account>123456789012</Account></GetCallerIdentityResult><ResponseMetadata><RequestId>ID</RequestId></ResponseMetadata></GetCallerIdentityResponse>`},
	} {
		_, body := w.raw(t, tt.service, tt.form)
		got := requestID.ReplaceAllString(strings.TrimPrefix(body, head), ">ID<")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.form, diff)
		}
	}
}

var requestID = regexp.MustCompile(`>00000000-0000-4000-8000-\d{12}<`)

// The images are those AWS publishes for a version: AL2 up to 1.32, Windows
// Server 2025 from 1.35 on.
func TestPublishedImages(t *testing.T) {
	for k, want := range map[string]map[string]bool{
		"1.32": {"al2": true, "2025": false}, "1.33": {"al2": false, "2025": false}, "1.35": {"al2": false, "2025": true},
	} {
		w := newWorld(t, cloud.Options{KubernetesVersion: k, OlderVersions: -1})
		for name, parameter := range map[string]string{
			"al2":          "/aws/service/eks/optimized-ami/" + k + "/amazon-linux-2-gpu/recommended/image_id",
			"2025":         "/aws/service/ami-windows-latest/Windows_Server-2025-English-Core-EKS_Optimized-" + k + "/image_id",
			"al2023":       "/aws/service/eks/optimized-ami/" + k + "/amazon-linux-2023/x86_64/neuron/recommended/image_id",
			"old":          "/aws/service/eks/optimized-ami/" + k + "/amazon-linux-2023/arm64/nvidia/amazon-eks-node-al2023-arm64-nvidia-" + k + "-v20261020/image_id",
			"bottlerocket": "/aws/service/bottlerocket/aws-k8s-" + k + "-nvidia/arm64/latest/image_id",
			"2019":         "/aws/service/ami-windows-latest/Windows_Server-2019-English-Core-EKS_Optimized-" + k + "/image_id",
		} {
			expected, special := want[name]
			_, err := w.cloud.Parameter(parameter)
			if (err == nil) != (expected || !special) {
				t.Errorf("%s, %s: %v", k, parameter, err)
			}
		}
	}
}
