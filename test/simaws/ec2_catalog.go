package simaws

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

type describeTypesInput struct {
	dry
	filtering
	paging
	Names      []string `q:"InstanceType"`
	Everywhere bool     `q:"IncludeUnsupportedInRegion"`
}

func (s *ec2Service) describeInstanceTypes(_ *call, in *describeTypesInput) (any, *cloud.Error) {
	if len(in.Names) > 100 {
		return nil, apiError("InvalidParameterValue", "The list of instance types may have at most 100 entries.")
	}
	if err := notPagedByID(in.paging, in.Names, "instanceTypes"); err != nil {
		return nil, err
	}
	all, err := s.cloud.Types(given(in.Names), in.filters(), in.Everywhere)
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{5, 100, 100, false}, func(t *ec2data.Type) string { return t.Name })
	if err != nil {
		return nil, err
	}
	var out struct {
		Types []typeXML `xml:"instanceTypeSet>item"`
		Next  string    `xml:"nextToken,omitempty"`
	}
	out.Next = next
	for _, t := range part {
		out.Types = append(out.Types, describeType(t, len(s.cloud.Area().ZonesOf(t.Name)) > 0))
	}
	return out, nil
}

type typeXML struct {
	Name         string           `xml:"instanceType"`
	Current      bool             `xml:"currentGeneration"`
	FreeTier     bool             `xml:"freeTierEligible"`
	Usage        []string         `xml:"supportedUsageClasses>item"`
	Root         []string         `xml:"supportedRootDeviceTypes>item"`
	Virt         []string         `xml:"supportedVirtualizationTypes>item"`
	BareMetal    bool             `xml:"bareMetal"`
	Hypervisor   string           `xml:"hypervisor,omitempty"`
	Processor    processorXML     `xml:"processorInfo"`
	VCPU         vcpuXML          `xml:"vCpuInfo"`
	Memory       mibXML           `xml:"memoryInfo"`
	HasDisk      bool             `xml:"instanceStorageSupported"`
	Disk         *diskXML         `xml:"instanceStorageInfo"`
	EBS          ebsXML           `xml:"ebsInfo"`
	Network      networkXML       `xml:"networkInfo"`
	GPU          *gpuInfoXML      `xml:"gpuInfo"`
	FPGA         *fpgaXML         `xml:"fpgaInfo"`
	Placement    []string         `xml:"placementGroupInfo>supportedStrategies>item"`
	Inference    *acceleratorsXML `xml:"inferenceAcceleratorInfo"`
	Media        *mediaXML        `xml:"mediaAcceleratorInfo"`
	Neuron       *neuronXML       `xml:"neuronInfo"`
	Hibernation  bool             `xml:"hibernationSupported"`
	Burstable    bool             `xml:"burstablePerformanceSupported"`
	Hosts        bool             `xml:"dedicatedHostsSupported"`
	AutoRecovery bool             `xml:"autoRecoverySupported"`
	Boot         []string         `xml:"supportedBootModes>item"`
	Enclaves     string           `xml:"nitroEnclavesSupport"`
	TPM          string           `xml:"nitroTpmSupport"`
	PHC          string           `xml:"phcSupport"`
	Reboot       string           `xml:"rebootMigrationSupport"`
	InRegion     bool             `xml:"supportedInRegion"`
}

type mibXML struct {
	MiB int64 `xml:"sizeInMiB"`
}

type processorXML struct {
	Architectures []string `xml:"supportedArchitectures>item"`
	GHz           string   `xml:"sustainedClockSpeedInGhz,omitempty"`
	Features      []string `xml:"supportedFeatures>item,omitempty"`
	Manufacturer  string   `xml:"manufacturer,omitempty"`
}

type vcpuXML struct {
	VCPUs   int `xml:"defaultVCpus"`
	Cores   int `xml:"defaultCores"`
	Threads int `xml:"defaultThreadsPerCore"`
}

type diskXML struct {
	GB         int64        `xml:"totalSizeInGB"`
	Disks      []diskRunXML `xml:"disks>item"`
	NVMe       string       `xml:"nvmeSupport"`
	Encryption string       `xml:"encryptionSupport"`
}

type diskRunXML struct {
	GB    int64  `xml:"sizeInGB"`
	Count int    `xml:"count"`
	Type  string `xml:"type"`
}

type ebsXML struct {
	Optimized  string      `xml:"ebsOptimizedSupport"`
	Encryption string      `xml:"encryptionSupport"`
	NVMe       string      `xml:"nvmeSupport"`
	Rates      *ebsRateXML `xml:"ebsOptimizedInfo"`
	Max        int         `xml:"maximumEbsAttachments"`
	Limit      string      `xml:"attachmentLimitType,omitempty"`
}

type ebsRateXML struct {
	BaseMbps int    `xml:"baselineBandwidthInMbps"`
	BaseMBps string `xml:"baselineThroughputInMBps"`
	BaseIOPS int    `xml:"baselineIops"`
	MaxMbps  int    `xml:"maximumBandwidthInMbps"`
	MaxMBps  string `xml:"maximumThroughputInMBps"`
	MaxIOPS  int    `xml:"maximumIops"`
}

type networkXML struct {
	Performance string    `xml:"networkPerformance"`
	ENIs        int       `xml:"maximumNetworkInterfaces"`
	CardCount   int       `xml:"maximumNetworkCards"`
	DefaultCard int       `xml:"defaultNetworkCardIndex"`
	Cards       []cardXML `xml:"networkCards>item"`
	IPv4        int       `xml:"ipv4AddressesPerInterface"`
	IPv6        int       `xml:"ipv6AddressesPerInterface"`
	HasIPv6     bool      `xml:"ipv6Supported"`
	ENA         string    `xml:"enaSupport"`
	HasEFA      bool      `xml:"efaSupported"`
	EFA         *efaXML   `xml:"efaInfo"`
	Encryption  bool      `xml:"encryptionInTransitSupported"`
	SRD         bool      `xml:"enaSrdSupported"`
	Weightings  []string  `xml:"bandwidthWeightings>item,omitempty"`
}

type efaXML struct {
	Max int `xml:"maximumEfaInterfaces"`
}

type cardXML struct {
	Index       int    `xml:"networkCardIndex"`
	Performance string `xml:"networkPerformance"`
	ENIs        int    `xml:"maximumNetworkInterfaces"`
	Baseline    string `xml:"baselineBandwidthInGbps"`
	Peak        string `xml:"peakBandwidthInGbps"`
}

type gpuInfoXML struct {
	GPUs  []gpuXML `xml:"gpus>item"`
	Total int64    `xml:"totalGpuMemoryInMiB"`
}

type gpuXML struct {
	Name         string   `xml:"name"`
	Manufacturer string   `xml:"manufacturer"`
	Count        int      `xml:"count"`
	Memory       mibXML   `xml:"memoryInfo"`
	Partition    string   `xml:"gpuPartitionSize,omitempty"`
	Logical      int      `xml:"logicalGpuCount,omitempty"`
	Workloads    []string `xml:"workloadSet>item,omitempty"`
}

type neuronXML struct {
	Devices []neuronDeviceXML `xml:"neuronDevices>item"`
	Total   int64             `xml:"totalNeuronDeviceMemoryInMiB"`
}

type neuronDeviceXML struct {
	Name    string `xml:"name"`
	Count   int    `xml:"count"`
	Cores   int    `xml:"coreInfo>count"`
	Version int    `xml:"coreInfo>version"`
	Memory  mibXML `xml:"memoryInfo"`
}

type acceleratorXML struct {
	Name         string `xml:"name"`
	Manufacturer string `xml:"manufacturer"`
	Count        int    `xml:"count"`
	Memory       mibXML `xml:"memoryInfo"`
}

type acceleratorsXML struct {
	Devices []acceleratorXML `xml:"accelerators>member"`
	Total   int64            `xml:"totalInferenceMemoryInMiB"`
}

type mediaXML struct {
	Devices []acceleratorXML `xml:"accelerators>item"`
	Total   int64            `xml:"totalMediaMemoryInMiB"`
}

type fpgaXML struct {
	Devices []acceleratorXML `xml:"fpgas>item"`
	Total   int64            `xml:"totalFpgaMemoryInMiB"`
}

// milli writes thousandths as a decimal number.
func milli(n int) string { return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64) }

func supported(b bool) string {
	if b {
		return "supported"
	}
	return "unsupported"
}

func describeType(t *ec2data.Type, inRegion bool) typeXML {
	x := typeXML{
		Name: t.Name, Current: t.Flags.CurrentGeneration, FreeTier: t.Flags.FreeTier, Usage: t.UsageClasses, Root: t.RootDeviceTypes,
		Virt: t.VirtualizationTypes, BareMetal: t.Flags.BareMetal, Hypervisor: t.Hypervisor,
		Processor: processorXML{Architectures: t.Architectures, Features: t.ProcessorFeatures, Manufacturer: t.CPUManufacturer},
		VCPU:      vcpuXML{t.VCPUs, t.Cores, t.ThreadsPerCore}, Memory: mibXML{t.MemoryMiB}, HasDisk: t.Disk != nil,
		EBS: describeEBS(&t.EBS), Network: describeNetwork(&t.Network), Placement: t.PlacementStrategies,
		Hibernation: t.Flags.Hibernation, Burstable: t.Flags.Burstable, Hosts: t.Flags.DedicatedHosts, AutoRecovery: t.Flags.AutoRecovery,
		Boot: t.BootModes, Enclaves: supported(t.Flags.NitroEnclaves), TPM: supported(t.Flags.NitroTPM),
		PHC: supported(t.Flags.PrecisionClock), Reboot: supported(t.Flags.RebootMigration), InRegion: inRegion,
	}
	if t.ClockMHz > 0 {
		x.Processor.GHz = milli(t.ClockMHz)
	}
	if d := t.Disk; d != nil {
		x.Disk = &diskXML{GB: d.TotalGB, NVMe: d.NVMe, Encryption: d.Encryption}
		for _, r := range d.Disks {
			x.Disk.Disks = append(x.Disk.Disks, diskRunXML{r.SizeGB, r.Count, r.Kind})
		}
	}
	describeDevices(t, &x)
	return x
}

func describeEBS(e *ec2data.EBS) ebsXML {
	x := ebsXML{Optimized: e.Optimized, Encryption: "supported", NVMe: e.NVMe, Max: e.MaxAttachments, Limit: e.AttachmentType}
	if e.Baseline.Mbps > 0 {
		x.Rates = &ebsRateXML{
			e.Baseline.Mbps, milli(e.Baseline.ThroughputKBps), e.Baseline.IOPS, e.Maximum.Mbps, milli(e.Maximum.ThroughputKBps), e.Maximum.IOPS,
		}
	}
	return x
}

func describeNetwork(n *ec2data.Network) networkXML {
	x := networkXML{
		Performance: n.Performance, ENIs: n.MaxENIs, DefaultCard: n.DefaultCard, IPv4: n.IPv4PerENI, IPv6: n.IPv6PerENI,
		HasIPv6: n.IPv6, ENA: n.ENA, HasEFA: n.MaxEFA > 0, Encryption: n.Encryption, SRD: n.ENAExpress, Weightings: n.Weightings,
	}
	if n.MaxEFA > 0 {
		x.EFA = &efaXML{n.MaxEFA}
	}
	for _, r := range n.Cards {
		for i := range r.Count {
			x.Cards = append(x.Cards, cardXML{r.FirstIndex + i, n.Performance, r.MaxENIs, milli(r.BaselineMbps), milli(r.PeakMbps)})
		}
		x.CardCount += r.Count
	}
	return x
}

func describeDevices(t *ec2data.Type, x *typeXML) {
	if len(t.GPUs) > 0 {
		x.GPU = &gpuInfoXML{}
	}
	for _, g := range t.GPUs {
		d := gpuXML{Name: g.Name, Manufacturer: g.Manufacturer, Count: g.Count, Memory: mibXML{g.MemoryMiB}, Logical: g.Logical, Workloads: g.Workloads}
		if g.PartMilli > 0 {
			d.Partition = milli(g.PartMilli)
		}
		x.GPU.GPUs = append(x.GPU.GPUs, d)
		x.GPU.Total += int64(max(g.Count, g.Logical)) * g.MemoryMiB
	}
	if len(t.Neuron) > 0 {
		x.Neuron = &neuronXML{}
	}
	for _, n := range t.Neuron {
		x.Neuron.Devices = append(x.Neuron.Devices, neuronDeviceXML{n.Name, n.Count, n.Cores, n.Version, mibXML{n.MemoryMiB}})
		x.Neuron.Total += int64(n.Count) * n.MemoryMiB
	}
	if devices, total := describeAccelerators(t.Inference); total > 0 {
		x.Inference = &acceleratorsXML{devices, total}
	}
	if devices, total := describeAccelerators(t.Media); total > 0 {
		x.Media = &mediaXML{devices, total}
	}
	if devices, total := describeAccelerators(t.FPGAs); total > 0 {
		x.FPGA = &fpgaXML{devices, total}
	}
}

func describeAccelerators(list []ec2data.Accelerator) (out []acceleratorXML, total int64) {
	for _, a := range list {
		out = append(out, acceleratorXML{a.Name, a.Manufacturer, a.Count, mibXML{a.MemoryMiB}})
		total += int64(a.Count) * a.MemoryMiB
	}
	return out, total
}

type describeOfferingsInput struct {
	dry
	filtering
	paging
	LocationType string `q:"LocationType"`
}

type offeringXML struct {
	Type     string `xml:"instanceType"`
	Kind     string `xml:"locationType"`
	Location string `xml:"location"`
}

func (s *ec2Service) describeInstanceTypeOfferings(_ *call, in *describeOfferingsInput) (any, *cloud.Error) {
	kind := in.LocationType
	switch kind {
	case "":
		kind = "region"
	case "region", "availability-zone", "availability-zone-id":
	case "outpost":
		return nil, apiError("UnsupportedOperation", "simaws has no outposts")
	default:
		return nil, apiError("InvalidParameterValue", "Value ("+kind+") for parameter locationType is invalid.")
	}
	all, err := s.cloud.Offerings(kind, in.filters())
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{5, 1000, 1000, false}, func(o cloud.Offering) string { return o.Type + " " + o.Location })
	if err != nil {
		return nil, err
	}
	var out struct {
		Offerings []offeringXML `xml:"instanceTypeOfferingSet>item"`
		Next      string        `xml:"nextToken,omitempty"`
	}
	out.Next = next
	for _, o := range part {
		out.Offerings = append(out.Offerings, offeringXML{o.Type, kind, o.Location})
	}
	return out, nil
}

type describeSpotPricesInput struct {
	dry
	filtering
	paging
	Types    []string  `q:"InstanceType"`
	Products []string  `q:"ProductDescription"`
	Zone     string    `q:"AvailabilityZone"`
	ZoneID   string    `q:"AvailabilityZoneId"`
	Start    time.Time `q:"StartTime"`
	End      time.Time `q:"EndTime"`
}

type spotPriceXML struct {
	Type    string `xml:"instanceType"`
	Product string `xml:"productDescription"`
	Price   string `xml:"spotPrice"`
	At      string `xml:"timestamp"`
	Zone    string `xml:"availabilityZone"`
	ZoneID  string `xml:"availabilityZoneId"`
}

// describeSpotPriceHistory knows current prices only: whatever the period, it
// answers as for StartTime now.
func (s *ec2Service) describeSpotPriceHistory(_ *call, in *describeSpotPricesInput) (any, *cloud.Error) {
	filters := in.filters()
	if in.Zone != "" {
		filters = append(filters, cloud.Filter{Name: "availability-zone", Values: []string{in.Zone}})
	}
	if in.ZoneID != "" {
		filters = append(filters, cloud.Filter{Name: "availability-zone-id", Values: []string{in.ZoneID}})
	}
	all, err := s.cloud.SpotPrices(given(in.Types), filters)
	if err != nil {
		return nil, err
	}
	wanted := func(p string) bool { return p == cloud.SpotProduct || p == cloud.SpotProduct+" (Amazon VPC)" }
	if len(in.Products) > 0 && !slices.ContainsFunc(in.Products, wanted) {
		all = nil
	}
	limits := pageLimits{1, 1000, 1000, true}
	part, next, err := page(all, in.paging, limits, func(r cloud.SpotPriceRecord) string { return r.Type + " " + r.Zone })
	if err != nil {
		return nil, err
	}
	var out struct {
		Prices []spotPriceXML `xml:"spotPriceHistorySet>item"`
		Next   string         `xml:"nextToken"`
	}
	out.Next = next
	for _, r := range part {
		out.Prices = append(out.Prices, spotPriceXML{r.Type, cloud.SpotProduct, dollars(r.Nanos), timestamp(r.At), r.Zone, r.ZoneID})
	}
	return out, nil
}

// dollars writes nanos as EC2 writes spot prices: six decimals.
func dollars(nanos int64) string { return fmt.Sprintf("%d.%06d", nanos/1e9, nanos%1e9/1000) }
