package simaws_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/test/simaws"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

func TestRegionsAndZones(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	regions := must[*ec2.DescribeRegionsOutput](t)(w.ec2.DescribeRegions(ctx, &ec2.DescribeRegionsInput{RegionNames: []string{"us-east-1"}}))
	if len(regions.Regions) != 1 || *regions.Regions[0].RegionName != "us-east-1" {
		t.Errorf("regions: %+v", regions.Regions)
	}
	_, err := w.ec2.DescribeRegions(ctx, &ec2.DescribeRegionsInput{RegionNames: []string{"moon-1"}})
	wantCode(t, err, "InvalidParameterValue")
	zones := must[*ec2.DescribeAvailabilityZonesOutput](t)(w.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{
		Filters: []types.Filter{filter("zone-name", "us-east-1a")}}))
	if len(zones.AvailabilityZones) != 1 || !strings.HasPrefix(*zones.AvailabilityZones[0].ZoneId, "use1-az") {
		t.Errorf("zones: %+v", zones.AvailabilityZones)
	}
}

func TestSubnets(t *testing.T) {
	w := newWorld(t, cloud.Options{ClusterName: "blue"})
	ctx := t.Context()
	find := func(filters ...types.Filter) []types.Subnet {
		t.Helper()
		return must[*ec2.DescribeSubnetsOutput](t)(w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{Filters: filters, MaxResults: aws.Int32(500)})).Subnets
	}
	all := find(filter("tag:karpenter.sh/discovery", "blue"))
	if len(all) != 6 {
		t.Fatalf("%d subnets tagged for discovery, want one in each of 6 zones", len(all))
	}
	if n := *all[0].AvailableIpAddressCount; n != 8187 {
		t.Errorf("free addresses of a /19: %d, want 8187", n)
	}
	if *all[0].AvailabilityZoneId == "" || !strings.Contains(*all[0].SubnetArn, *all[0].SubnetId) {
		t.Errorf("subnet lacks zone id or ARN: %+v", all[0])
	}
	for _, tt := range []struct {
		filter types.Filter
		want   int
	}{
		{filter("tag-key", "karpenter.sh/*"), 6},
		{filter("tag:Name", "blue-private-us-east-1?"), 6},
		{filter("tag:Name", "blue-private-us-east-1a", "blue-private-us-east-1b"), 2},
		{filter("tag:Name", "red*"), 0},
		{filter("subnet-id", *all[0].SubnetId), 1},
		{filter("availability-zone", "us-east-1c"), 1},
	} {
		if got := find(tt.filter); len(got) != tt.want {
			t.Errorf("filter %s=%v: %d subnets, want %d", *tt.filter.Name, tt.filter.Values, len(got), tt.want)
		}
	}
	pages := ec2.NewDescribeSubnetsPaginator(w.ec2, &ec2.DescribeSubnetsInput{MaxResults: aws.Int32(5)})
	var sizes []int
	for pages.HasMorePages() {
		sizes = append(sizes, len(must[*ec2.DescribeSubnetsOutput](t)(pages.NextPage(ctx)).Subnets))
	}
	if diff := cmp.Diff([]int{5, 1}, sizes); diff != "" {
		t.Errorf("page sizes (-want +got):\n%s", diff)
	}
	_, err := w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{*all[0].SubnetId}, MaxResults: aws.Int32(5)})
	wantCode(t, err, "InvalidParameterCombination")
	if err := w.sim.SetFreeAddresses(ctx, *all[0].SubnetId, 3); err != nil {
		t.Fatal(err)
	}
	if got := find(filter("subnet-id", *all[0].SubnetId)); *got[0].AvailableIpAddressCount != 3 {
		t.Errorf("free addresses after setting 3: %d", *got[0].AvailableIpAddressCount)
	}
}

func TestSecurityGroups(t *testing.T) {
	w := newWorld(t, cloud.Options{ClusterName: "blue"})
	ctx := t.Context()
	got := must[*ec2.DescribeSecurityGroupsOutput](t)(w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{filter("group-name", "blue-*")}, MaxResults: aws.Int32(500)})).SecurityGroups
	if len(got) != 2 || *got[0].GroupName != "blue-node" || *got[1].GroupName != "blue-cluster" || len(got[0].Tags) == 0 {
		t.Fatalf("groups named blue-*: %+v", got)
	}
	_, err := w.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{"sg-00000000000000000"}})
	wantCode(t, err, "InvalidGroup.NotFound")
}

func TestImages(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	find := func(in ec2.DescribeImagesInput) []types.Image {
		t.Helper()
		return must[*ec2.DescribeImagesOutput](t)(w.ec2.DescribeImages(ctx, &in)).Images
	}
	named := filter("name", "amazon-eks-node-al2023-x86_64-standard-1.37-*")
	al := find(ec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: []types.Filter{named, filter("state", "available")}})
	if len(al) != 2 || al[0].Architecture != types.ArchitectureValuesX8664 || *al[0].CreationDate >= *al[1].CreationDate {
		t.Fatalf("AL2023 images: %+v", al)
	}
	own := w.cloud.AddImage(cloud.Image{Name: "mine", Tags: cloud.Tags{"team": "a"}})
	if got := find(ec2.DescribeImagesInput{Owners: []string{"self"}, Filters: []types.Filter{filter("tag:team", "a")}}); len(got) != 1 || *got[0].ImageId != own {
		t.Errorf("own image by tag: %+v", got)
	}
	if err := w.cloud.DeprecateImage(*al[0].ImageId, w.clock.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := find(ec2.DescribeImagesInput{Filters: []types.Filter{named}}); len(got) != 1 {
		t.Errorf("without IncludeDeprecated: %d images, want 1", len(got))
	}
	if got := find(ec2.DescribeImagesInput{Filters: []types.Filter{named}, IncludeDeprecated: aws.Bool(true)}); len(got) != 2 || got[0].DeprecationTime == nil {
		t.Errorf("with IncludeDeprecated: %+v", got)
	}
	for id, want := range map[string]string{"ami-00000000000000000": "InvalidAMIID.NotFound", "image-1": "InvalidAMIID.Malformed"} {
		_, err := w.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
		wantCode(t, err, want)
	}
}

func TestInstanceTypes(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	pages := ec2.NewDescribeInstanceTypesPaginator(w.ec2, &ec2.DescribeInstanceTypesInput{
		MaxResults: aws.Int32(100),
		Filters:    []types.Filter{filter("supported-virtualization-type", "hvm"), filter("processor-info.supported-architecture", "x86_64", "arm64")},
	})
	all := map[string]types.InstanceTypeInfo{}
	n := 0
	for pages.HasMorePages() {
		for _, info := range must[*ec2.DescribeInstanceTypesOutput](t)(pages.NextPage(ctx)).InstanceTypes {
			all[string(info.InstanceType)] = info
			n++
		}
	}
	if n != len(all) || n < 1000 {
		t.Fatalf("%d types, %d distinct; want above 1000, each once", n, len(all))
	}
	if _, ok := all["mac2.metal"]; ok {
		t.Error("the architecture filter let mac2.metal pass")
	}
	m5 := all["m5.large"]
	if *m5.VCpuInfo.DefaultVCpus != 2 || *m5.MemoryInfo.SizeInMiB != 8192 || *m5.NetworkInfo.MaximumNetworkInterfaces != 3 ||
		*m5.NetworkInfo.Ipv4AddressesPerInterface != 10 || m5.Hypervisor != types.InstanceTypeHypervisorNitro || *m5.ProcessorInfo.SustainedClockSpeedInGhz != 3.1 {
		t.Errorf("m5.large: %+v", m5)
	}
	if m5.EbsInfo.EbsOptimizedInfo == nil || *m5.EbsInfo.EbsOptimizedInfo.BaselineThroughputInMBps != 81.25 {
		t.Errorf("EBS of m5.large: %+v", m5.EbsInfo.EbsOptimizedInfo)
	}
	p5 := all["p5.48xlarge"]
	if len(p5.NetworkInfo.NetworkCards) != 32 || *p5.NetworkInfo.EfaInfo.MaximumEfaInterfaces != 32 || *p5.GpuInfo.Gpus[0].Count != 8 ||
		*p5.GpuInfo.Gpus[0].Name != "H100" || *p5.InstanceStorageInfo.TotalSizeInGB != 30400 {
		t.Errorf("p5.48xlarge: %+v", p5)
	}
	inf := all["inf2.xlarge"]
	if len(inf.InferenceAcceleratorInfo.Accelerators) != 1 || *inf.NeuronInfo.NeuronDevices[0].CoreInfo.Count != 2 {
		t.Errorf("inf2.xlarge: %+v %+v", inf.InferenceAcceleratorInfo, inf.NeuronInfo)
	}
	_, err := w.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{DryRun: aws.Bool(true)})
	wantCode(t, err, "DryRunOperation")
	_, err = w.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(101)})
	wantCode(t, err, "InvalidParameterValue")
	_, err = w.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m5.giant"}})
	wantCode(t, err, "InvalidInstanceType")
}

func TestOfferings(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(w.ec2, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: types.LocationTypeAvailabilityZone, MaxResults: aws.Int32(1000)})
	seen := map[string]bool{}
	for pages.HasMorePages() {
		for _, o := range must[*ec2.DescribeInstanceTypeOfferingsOutput](t)(pages.NextPage(ctx)).InstanceTypeOfferings {
			seen[string(o.InstanceType)+" "+*o.Location] = true
		}
	}
	if len(seen) < 4000 || !seen["m5.large us-east-1a"] {
		t.Errorf("%d offerings, m5.large in us-east-1a: %v", len(seen), seen["m5.large us-east-1a"])
	}
	region := must[*ec2.DescribeInstanceTypeOfferingsOutput](t)(w.ec2.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{
		Filters: []types.Filter{filter("instance-type", "m5.*arge")}}))
	if len(region.InstanceTypeOfferings) < 2 || *region.InstanceTypeOfferings[0].Location != "us-east-1" {
		t.Errorf("offerings of the region: %+v", region.InstanceTypeOfferings)
	}
}

func TestSpotPrices(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	price := func() string {
		t.Helper()
		out := must[*ec2.DescribeSpotPriceHistoryOutput](t)(w.ec2.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{
			StartTime: aws.Time(w.clock.Now()), ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"},
			InstanceTypes: []types.InstanceType{"m5.large"}, AvailabilityZone: aws.String("us-east-1a"), MaxResults: aws.Int32(2000)}))
		if len(out.SpotPriceHistory) != 1 || out.SpotPriceHistory[0].Timestamp == nil {
			t.Fatalf("records: %+v", out.SpotPriceHistory)
		}
		return *out.SpotPriceHistory[0].SpotPrice
	}
	first := price()
	if first < "0.028800" || first > "0.043200" {
		t.Errorf("spot price of m5.large %s, want 30 to 45 %% of 0.096", first)
	}
	if again := newWorld(t, cloud.Options{}); true {
		got, _ := again.cloud.SpotPrice("m5.large", "us-east-1a")
		if want, _ := w.cloud.SpotPrice("m5.large", "us-east-1a"); got != want {
			t.Errorf("another account has the spot price %d, not %d", got, want)
		}
	}
	if err := w.sim.MovePrice(ctx, simaws.PriceMove{Type: "m5.large", Zone: "us-east-1a", NanosPerHour: 12_300_000}); err != nil {
		t.Fatal(err)
	}
	if got := price(); got != "0.012300" {
		t.Errorf("moved price %s, want 0.012300", got)
	}
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(w.ec2, &ec2.DescribeSpotPriceHistoryInput{MaxResults: aws.Int32(2000)})
	n := 0
	for pages.HasMorePages() {
		n += len(must[*ec2.DescribeSpotPriceHistoryOutput](t)(pages.NextPage(ctx)).SpotPriceHistory)
	}
	if n < 4000 {
		t.Errorf("%d spot prices in all, want above 4000", n)
	}
}

func TestReservationsAndPlacementGroups(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	id := w.cloud.AddReservation(cloud.CapacityReservation{Type: "m5.large", Zone: "us-east-1a", Total: 3, Tags: cloud.Tags{"use": "karp"}})
	got := must[*ec2.DescribeCapacityReservationsOutput](t)(w.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{
		Filters: []types.Filter{filter("state", "active"), filter("tag:use", "karp")}, MaxResults: aws.Int32(1000)})).CapacityReservations
	if len(got) != 1 || *got[0].CapacityReservationId != id || *got[0].AvailableInstanceCount != 3 || got[0].InstanceMatchCriteria != "targeted" {
		t.Errorf("reservations: %+v", got)
	}
	_, err := w.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}, MaxResults: aws.Int32(10)})
	wantCode(t, err, "InvalidParameterCombination")
	_, err = w.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{"cr-00000000000000000"}})
	wantCode(t, err, "InvalidCapacityReservationId.NotFound")

	w.cloud.AddPlacementGroup(cloud.PlacementGroup{Name: "racks", Strategy: "partition", Partitions: 3})
	groups := must[*ec2.DescribePlacementGroupsOutput](t)(w.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{
		GroupNames: []string{"racks"}, Filters: []types.Filter{filter("state", "available")}})).PlacementGroups
	if len(groups) != 1 || *groups[0].PartitionCount != 3 || groups[0].Strategy != types.PlacementStrategyPartition {
		t.Errorf("placement groups: %+v", groups)
	}
	_, err = w.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{GroupNames: []string{"none"}})
	wantCode(t, err, "InvalidPlacementGroup.Unknown")
}
