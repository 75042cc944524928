package ec2data

import (
	"sort"
	"strings"
)

// DefaultRegion is the region whose price list stands in for regions without
// one of their own.
const DefaultRegion = "us-east-1"

// Data is everything the file holds.
type Data struct {
	// Types are all known instance types sorted by name, partial ones included.
	Types []Type
	// Regions are sorted by name.
	Regions []Region
	// PriceLists are sorted by region.
	PriceLists []PriceList
	// AsOf tells how old each table is.
	AsOf AsOf
}

// AsOf are the dates (YYYY-MM-DD) of the tables. Price lists carry their own.
type AsOf struct {
	Types     string
	Offerings string
	VPCLimits string
	Bandwidth string
}

// Type describes one instance type as DescribeInstanceTypes does.
type Type struct {
	Name string
	// AsOf is the date of the archive the record comes from; older than
	// AsOf.Types for types that AWS no longer returns.
	AsOf string
	// Partial marks a record that lacks what scheduling needs. Such a type is
	// never offered.
	Partial bool

	VCPUs          int
	Cores          int
	ThreadsPerCore int
	MemoryMiB      int64
	// Architectures in AWS spelling (x86_64, arm64, i386, ...); the first decides.
	Architectures   []string
	CPUManufacturer string
	// ClockMHz is the sustained clock speed, 0 when AWS does not publish it.
	ClockMHz int
	// ProcessorFeatures are nested-virtualization and amd-sev-snp.
	ProcessorFeatures []string
	// Hypervisor is nitro or xen, empty on bare metal.
	Hypervisor string

	Flags Flags

	UsageClasses        []string // on-demand, spot, capacity-block
	BootModes           []string // uefi, legacy-bios
	RootDeviceTypes     []string // ebs, instance-store
	VirtualizationTypes []string // hvm, paravirtual
	PlacementStrategies []string // cluster, partition, spread

	Network Network
	VPC     VPC
	// BandwidthMbps is the published baseline; it counts only if BandwidthKnown.
	BandwidthMbps  int
	BandwidthKnown bool

	EBS  EBS
	Disk *Disk // nil without instance store

	GPUs      []GPU
	Neuron    []Neuron
	Inference []Accelerator
	Media     []Accelerator
	FPGAs     []Accelerator
}

// Family is the part of the name before the dot.
func (t *Type) Family() string {
	family, _, _ := strings.Cut(t.Name, ".")
	return family
}

// Size is the part of the name after the dot.
func (t *Type) Size() string {
	_, size, _ := strings.Cut(t.Name, ".")
	return size
}

// Flags are the yes-or-no properties of a type.
type Flags struct {
	BareMetal         bool
	Burstable         bool
	CurrentGeneration bool
	FreeTier          bool
	DedicatedHosts    bool
	AutoRecovery      bool
	Hibernation       bool
	NitroEnclaves     bool
	NitroTPM          bool
	PrecisionClock    bool // PTP hardware clock
	RebootMigration   bool
}

// Network is what a type can do on the network.
type Network struct {
	// Performance is AWS's wording, e.g. "Up to 12.5 Gigabit".
	Performance string
	// MaxENIs is the number of network interfaces over all cards.
	MaxENIs     int
	IPv4PerENI  int // primary address included
	IPv6PerENI  int
	IPv6        bool
	ENA         string // required, supported, unsupported
	MaxEFA      int    // 0: EFA unsupported
	ENAExpress  bool   // also called SRD
	Encryption  bool   // encryption in transit between instances
	DefaultCard int    // index of the default network card
	// Cards is run-length encoded, ascending by FirstIndex.
	Cards []CardRun
	// TCPIdleSeconds is the default idle timeout of an established connection.
	TCPIdleSeconds int
	// Weightings are the bandwidth weightings supported.
	Weightings []string
}

// CardRun is a run of Count equal network cards.
type CardRun struct {
	FirstIndex   int
	Count        int
	MaxENIs      int // per card
	BaselineMbps int
	PeakMbps     int
	FlexibleENIs int // additional flexible interfaces
}

// Card returns the run that holds the card with this index.
func (n *Network) Card(index int) (CardRun, bool) {
	for _, r := range n.Cards {
		if index >= r.FirstIndex && index < r.FirstIndex+r.Count {
			return r, true
		}
	}
	return CardRun{}, false
}

// DefaultCardENIs is the number of interfaces on the default card.
func (n *Network) DefaultCardENIs() int {
	r, ok := n.Card(n.DefaultCard)
	if !ok {
		return n.MaxENIs
	}
	return r.MaxENIs
}

// VPC holds the limits of the VPC resource controller.
type VPC struct {
	// Known is false for types the published table lacks; they have neither
	// branch interfaces nor Windows IPv4 addresses.
	Known bool
	// Trunking tells whether branch interfaces (security groups for pods) work.
	Trunking bool
	// BranchENIs is the pod-eni capacity when Trunking is true.
	BranchENIs int
}

// EBS is what a type can do with EBS volumes.
type EBS struct {
	Optimized      string // default, supported, unsupported
	NVMe           string // required, supported, unsupported
	MaxAttachments int
	AttachmentType string // shared: network interfaces count too; dedicated: not
	Baseline       EBSRate
	Maximum        EBSRate
	Cards          int // 1 unless AWS says more
}

// EBSRate is a performance level; the zero value means not published.
type EBSRate struct {
	Mbps           int
	IOPS           int
	ThroughputKBps int // 1000 bytes per second
}

// Disk is the instance store of a type.
type Disk struct {
	TotalGB    int64 // 10^9 bytes
	NVMe       string
	Encryption string
	Disks      []DiskRun
}

// DiskRun is Count equal disks.
type DiskRun struct {
	Count  int
	SizeGB int64
	Kind   string // ssd, hdd
}

// GPU is one kind of GPU in a type.
type GPU struct {
	Name         string
	Manufacturer string
	// Count is what AWS reports; 0 for types with a fraction of a GPU.
	Count     int
	MemoryMiB int64 // per GPU
	// PartMilli is the share of one physical GPU in thousandths, 0 for whole GPUs.
	PartMilli int
	// Logical is the number of logical GPUs when it differs from Count, else 0.
	Logical   int
	Workloads []string
}

// Neuron is one kind of AWS Neuron device in a type.
type Neuron struct {
	Name      string
	Count     int
	Cores     int // per device
	Version   int
	MemoryMiB int64 // per device
}

// Accelerator is an inference, media or FPGA device.
type Accelerator struct {
	Name         string
	Manufacturer string
	Count        int
	MemoryMiB    int64 // per device
}

// Type returns the type with this name.
func (d *Data) Type(name string) (*Type, bool) {
	i := sort.Search(len(d.Types), func(i int) bool { return d.Types[i].Name >= name })
	if i == len(d.Types) || d.Types[i].Name != name {
		return nil, false
	}
	return &d.Types[i], true
}

// Region returns the region with this name.
func (d *Data) Region(name string) (*Region, bool) {
	i := sort.Search(len(d.Regions), func(i int) bool { return d.Regions[i].Name >= name })
	if i == len(d.Regions) || d.Regions[i].Name != name {
		return nil, false
	}
	return &d.Regions[i], true
}

// Region tells which zones a region has and which types each offers.
type Region struct {
	Name string
	// Zones are sorted by suffix.
	Zones []Zone
	// Offers are sorted by type name; partial types never appear.
	Offers []Offer
}

// Zone is one availability zone. The mapping of names to ids is that of one
// account: real accounts differ.
type Zone struct {
	Name   string // us-east-1a
	Suffix string // a
	ID     string // use1-az4
}

// Offer says in which zones a type is offered.
type Offer struct {
	Type string
	// Zones are zone suffixes, one letter each, ascending: "abd".
	Zones string
}

// ZonesOf returns the zones of the region that offer a type, by suffix.
func (r *Region) ZonesOf(typ string) []Zone {
	i := sort.Search(len(r.Offers), func(i int) bool { return r.Offers[i].Type >= typ })
	if i == len(r.Offers) || r.Offers[i].Type != typ {
		return nil
	}
	zones := make([]Zone, 0, len(r.Offers[i].Zones))
	for _, z := range r.Zones {
		if strings.Contains(r.Offers[i].Zones, z.Suffix) {
			zones = append(zones, z)
		}
	}
	return zones
}

// PriceList is the static on-demand list of a region: Linux, no pre-installed
// software, shared tenancy (bare metal: dedicated).
type PriceList struct {
	Region   string
	Currency string // USD, or CNY in China: never mix them
	AsOf     string // YYYY-MM-DD
	// Prices are sorted by type name.
	Prices []Price
}

// Price is the price of one type.
type Price struct {
	Type string
	// NanosPerHour is in billionths of the list's currency unit per hour.
	NanosPerHour int64
}

// Price returns the price of a type in nanos per hour.
func (l *PriceList) Price(typ string) (int64, bool) {
	i := sort.Search(len(l.Prices), func(i int) bool { return l.Prices[i].Type >= typ })
	if i == len(l.Prices) || l.Prices[i].Type != typ {
		return 0, false
	}
	return l.Prices[i].NanosPerHour, true
}

// OnDemand returns the price list of a region, or that of [DefaultRegion] when
// the region has none; own tells which.
func (d *Data) OnDemand(region string) (list *PriceList, own bool) {
	var fallback *PriceList
	for i := range d.PriceLists {
		switch d.PriceLists[i].Region {
		case region:
			return &d.PriceLists[i], true
		case DefaultRegion:
			fallback = &d.PriceLists[i]
		}
	}
	return fallback, false
}
