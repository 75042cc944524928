package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
)

type typesAPI interface {
	DescribeInstanceTypes(context.Context, *ec2.DescribeInstanceTypesInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error)
	DescribeInstanceTypeOfferings(context.Context, *ec2.DescribeInstanceTypeOfferingsInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypeOfferingsOutput, error)
}

// facts are the types that the region has, and the zones that offer them.
type facts struct {
	api      typesAPI
	embedded *ec2data.Data

	mu         sync.RWMutex
	generation uint64
	types      []ec2data.Type // ascending by name
	zones      map[string][]string
}

// snapshot returns the present facts. They are replaced as a whole, never changed.
func (f *facts) snapshot() (types []ec2data.Type, zones map[string][]string, generation uint64) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.types, f.zones, f.generation
}

// typeOf returns the facts about a type: those the region reports, else the embedded ones.
func (f *facts) typeOf(name string) (*ec2data.Type, bool) {
	types, _, _ := f.snapshot()
	i, ok := slices.BinarySearchFunc(types, name, func(t ec2data.Type, n string) int { return cmp.Compare(t.Name, n) })
	if ok {
		return &types[i], true
	}
	return f.embedded.Type(name)
}

// refresh downloads types and offerings anew. On an error the former ones stay.
func (f *facts) refresh(ctx context.Context) error {
	types, err := f.downloadTypes(ctx)
	if err != nil {
		return fmt.Errorf("describing instance types: %w", err)
	}
	zones, err := f.downloadZones(ctx)
	if err != nil {
		return fmt.Errorf("describing instance type offerings: %w", err)
	}
	if len(types) == 0 || len(zones) == 0 {
		return errors.New("no instance types found: EC2 reports none for this region")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !reflect.DeepEqual(types, f.types) || !reflect.DeepEqual(zones, f.zones) {
		f.types, f.zones = types, zones
		f.generation++
	}
	return nil
}

func (f *facts) downloadTypes(ctx context.Context) ([]ec2data.Type, error) {
	pages := ec2.NewDescribeInstanceTypesPaginator(f.api, &ec2.DescribeInstanceTypesInput{
		MaxResults: new(int32(100)),
		Filters: []et.Filter{
			filter("supported-virtualization-type", "hvm"), filter("processor-info.supported-architecture", "x86_64", "arm64"),
		},
	})
	var out []ec2data.Type
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for i := range page.InstanceTypes {
			if t := f.convert(&page.InstanceTypes[i]); ec2types.Usable(&t) {
				out = append(out, t)
			}
		}
	}
	slices.SortFunc(out, func(a, b ec2data.Type) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func (f *facts) downloadZones(ctx context.Context) (map[string][]string, error) {
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(f.api, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: et.LocationTypeAvailabilityZone, MaxResults: new(int32(1000)),
	})
	out := map[string][]string{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range page.InstanceTypeOfferings {
			out[string(o.InstanceType)] = append(out[string(o.InstanceType)], val(o.Location))
		}
	}
	for name := range out {
		slices.Sort(out[name])
		out[name] = slices.Compact(out[name])
	}
	return out, nil
}

// convert takes from EC2 what it reports and from the embedded tables what no API tells: branch interfaces and baseline bandwidth.
func (f *facts) convert(in *et.InstanceTypeInfo) ec2data.Type {
	t := ec2data.Type{
		Name:                string(in.InstanceType),
		Hypervisor:          string(in.Hypervisor),
		UsageClasses:        texts(in.SupportedUsageClasses),
		VirtualizationTypes: texts(in.SupportedVirtualizationTypes),
		BootModes:           texts(in.SupportedBootModes),
		RootDeviceTypes:     texts(in.SupportedRootDeviceTypes),
		Flags: ec2data.Flags{
			BareMetal: val(in.BareMetal), Burstable: val(in.BurstablePerformanceSupported), CurrentGeneration: val(in.CurrentGeneration),
			FreeTier: val(in.FreeTierEligible), DedicatedHosts: val(in.DedicatedHostsSupported),
		},
	}
	if in.VCpuInfo != nil {
		t.VCPUs, t.Cores, t.ThreadsPerCore = num(in.VCpuInfo.DefaultVCpus), num(in.VCpuInfo.DefaultCores), num(in.VCpuInfo.DefaultThreadsPerCore)
	}
	if in.MemoryInfo != nil {
		t.MemoryMiB = val(in.MemoryInfo.SizeInMiB)
	}
	if p := in.ProcessorInfo; p != nil {
		t.Architectures, t.ProcessorFeatures = texts(p.SupportedArchitectures), texts(p.SupportedFeatures)
		t.CPUManufacturer, t.ClockMHz = val(p.Manufacturer), int(math.Round(val(p.SustainedClockSpeedInGhz)*1000))
	}
	if in.PlacementGroupInfo != nil {
		t.PlacementStrategies = texts(in.PlacementGroupInfo.SupportedStrategies)
	}
	convertNetwork(&t, in.NetworkInfo)
	convertStorage(&t, in)
	convertDevices(&t, in)
	if known, ok := f.embedded.Type(t.Name); ok {
		t.VPC, t.BandwidthMbps, t.BandwidthKnown = known.VPC, known.BandwidthMbps, known.BandwidthKnown
	}
	return t
}

func convertNetwork(t *ec2data.Type, in *et.NetworkInfo) {
	if in == nil {
		return
	}
	n := &t.Network
	n.Performance, n.ENA = val(in.NetworkPerformance), string(in.EnaSupport)
	n.MaxENIs, n.IPv4PerENI, n.IPv6PerENI = num(in.MaximumNetworkInterfaces), num(in.Ipv4AddressesPerInterface), num(in.Ipv6AddressesPerInterface)
	n.IPv6, n.Encryption, n.DefaultCard = val(in.Ipv6Supported), val(in.EncryptionInTransitSupported), num(in.DefaultNetworkCardIndex)
	if val(in.EfaSupported) && in.EfaInfo != nil {
		n.MaxEFA = num(in.EfaInfo.MaximumEfaInterfaces)
	}
	for _, c := range in.NetworkCards {
		n.Cards = append(n.Cards, ec2data.CardRun{FirstIndex: num(c.NetworkCardIndex), Count: 1, MaxENIs: num(c.MaximumNetworkInterfaces)})
	}
	slices.SortFunc(n.Cards, func(a, b ec2data.CardRun) int { return cmp.Compare(a.FirstIndex, b.FirstIndex) })
}

func convertStorage(t *ec2data.Type, in *et.InstanceTypeInfo) {
	if e := in.EbsInfo; e != nil {
		t.EBS.Optimized = string(e.EbsOptimizedSupport)
		if o := e.EbsOptimizedInfo; o != nil {
			t.EBS.Baseline.Mbps, t.EBS.Maximum.Mbps = num(o.BaselineBandwidthInMbps), num(o.MaximumBandwidthInMbps)
		}
	}
	if s := in.InstanceStorageInfo; s != nil {
		t.Disk = &ec2data.Disk{TotalGB: val(s.TotalSizeInGB), NVMe: string(s.NvmeSupport)}
	}
}

func convertDevices(t *ec2data.Type, in *et.InstanceTypeInfo) {
	if in.GpuInfo != nil {
		for _, g := range in.GpuInfo.Gpus {
			gpu := ec2data.GPU{Name: val(g.Name), Manufacturer: val(g.Manufacturer), Count: num(g.Count)}
			if g.MemoryInfo != nil {
				gpu.MemoryMiB = int64(num(g.MemoryInfo.SizeInMiB))
			}
			t.GPUs = append(t.GPUs, gpu)
		}
	}
	if in.NeuronInfo != nil {
		for _, d := range in.NeuronInfo.NeuronDevices {
			device := ec2data.Neuron{Name: val(d.Name), Count: num(d.Count)}
			if d.CoreInfo != nil {
				device.Cores = num(d.CoreInfo.Count)
			}
			t.Neuron = append(t.Neuron, device)
		}
	}
	if in.InferenceAcceleratorInfo != nil {
		for _, d := range in.InferenceAcceleratorInfo.Accelerators {
			t.Inference = append(t.Inference, ec2data.Accelerator{Name: val(d.Name), Manufacturer: val(d.Manufacturer), Count: num(d.Count)})
		}
	}
}

// val returns what a pointer of the SDK points to, or the zero value.
func val[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func num(p *int32) int { return int(val(p)) }

func texts[S ~string](in []S) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		out = append(out, string(s))
	}
	return out
}

func filter(name string, values ...string) et.Filter { return et.Filter{Name: &name, Values: values} }
