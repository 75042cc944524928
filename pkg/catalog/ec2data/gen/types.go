package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
)

type source struct {
	ID   int
	AsOf string
}

type typesTable struct {
	Sources []source
	Types   map[string]typeRecord
}

type typeRecord struct {
	VCPUs, Cores, TPC int
	MemMiB            int64
	Arch              []string
	CPU               string
	GHz               float64
	Feat              []string
	HV                string
	Flags             []string
	Usage, Boot, Root []string
	Virt              []string
	PG                *[]string
	Net               netRecord
	EBS               ebsRecord
	Disk              *diskRecord
	GPUs              []gpuRecord
	Neuron            []neuronRecord
	Inference         []deviceRecord
	Media             []deviceRecord
	FPGA              []deviceRecord
	Src               int
	Partial           bool
}

type netRecord struct {
	Perf             string
	ENIs, IPv4, IPv6 int
	NoIPv6           bool
	ENA              string
	EFA              int
	SRD, Enc         bool
	DefaultCard      int
	Cards            [][]float64
	TCPIdle          int
	Weightings       []string
}

type ebsRecord struct {
	Opt, NVMe string
	Attach    []any
	Base, Max []float64
	Cards     int
}

type diskRecord struct {
	GB        int64
	NVMe, Enc string
	Disks     [][]any
}

type gpuRecord struct {
	Name, Mfr string
	N         int
	MemMiB    int64
	Part      float64
	Logical   int
	Use       []string
}

type neuronRecord struct {
	Name          string
	N, Cores, Ver int
	MemMiB        int64
}

type deviceRecord struct {
	Name, Mfr string
	N         int
	MemMiB    int64
}

func (r typeRecord) convert(name string, sources []source) (ec2data.Type, error) {
	t := ec2data.Type{
		Name: name, Partial: r.Partial,
		VCPUs: r.VCPUs, Cores: r.Cores, ThreadsPerCore: r.TPC, MemoryMiB: r.MemMiB,
		Architectures: r.Arch, CPUManufacturer: r.CPU, ProcessorFeatures: r.Feat, Hypervisor: r.HV,
		UsageClasses: r.Usage, BootModes: r.Boot,
		RootDeviceTypes:     orDefault(r.Root, "ebs"),
		VirtualizationTypes: orDefault(r.Virt, "hvm"),
		PlacementStrategies: []string{"cluster", "partition", "spread"},
	}
	if r.PG != nil {
		t.PlacementStrategies = *r.PG
	}
	if r.Src < 0 || r.Src >= len(sources) || sources[r.Src].ID != r.Src {
		return t, fmt.Errorf("unknown source %d", r.Src)
	}
	t.AsOf = sources[r.Src].AsOf
	mhz, err := scaled(r.GHz, 1000)
	t.ClockMHz = int(mhz)
	return t, errors.Join(err, setFlags(&t.Flags, r.Flags),
		r.Net.convert(&t.Network), r.EBS.convert(&t.EBS), r.Disk.convert(&t.Disk), r.devices(&t))
}

func orDefault(list []string, def string) []string {
	if list == nil {
		return []string{def}
	}
	return list
}

func setFlags(f *ec2data.Flags, names []string) error {
	known := map[string]*bool{
		"metal": &f.BareMetal, "burst": &f.Burstable, "current": &f.CurrentGeneration, "free": &f.FreeTier,
		"dedicatedHosts": &f.DedicatedHosts, "autoRecovery": &f.AutoRecovery, "hibernation": &f.Hibernation,
		"enclaves": &f.NitroEnclaves, "tpm": &f.NitroTPM, "phc": &f.PrecisionClock, "rebootMigration": &f.RebootMigration,
	}
	for _, n := range names {
		p, ok := known[n]
		if !ok {
			return fmt.Errorf("unknown flag %q", n)
		}
		*p = true
	}
	return nil
}

func (r netRecord) convert(n *ec2data.Network) error {
	*n = ec2data.Network{
		Performance: r.Perf, MaxENIs: r.ENIs, IPv4PerENI: r.IPv4, IPv6PerENI: r.IPv6, IPv6: r.IPv6 > 0 && !r.NoIPv6,
		ENA: r.ENA, MaxEFA: r.EFA, ENAExpress: r.SRD, Encryption: r.Enc, DefaultCard: r.DefaultCard,
		TCPIdleSeconds: r.TCPIdle, Weightings: r.Weightings,
	}
	for _, c := range r.Cards {
		if len(c) < 3 || len(c) == 4 || len(c) > 6 {
			return fmt.Errorf("network card %v", c)
		}
		c = append(c, 0, 0, 0)
		base, err1 := scaled(c[3], 1000)
		peak, err2 := scaled(c[4], 1000)
		if err := errors.Join(err1, err2); err != nil {
			return fmt.Errorf("network card %v: %w", c, err)
		}
		n.Cards = append(n.Cards, ec2data.CardRun{
			FirstIndex: int(c[0]), Count: int(c[1]), MaxENIs: int(c[2]),
			BaselineMbps: int(base), PeakMbps: int(peak), FlexibleENIs: int(c[5]),
		})
	}
	return nil
}

func (r ebsRecord) convert(e *ec2data.EBS) error {
	*e = ec2data.EBS{Optimized: r.Opt, NVMe: r.NVMe, Cards: max(r.Cards, 1)}
	if r.Attach != nil {
		n, ok1 := r.Attach[0].(float64)
		kind, ok2 := r.Attach[1].(string)
		if !ok1 || !ok2 {
			return fmt.Errorf("EBS attachments %v", r.Attach)
		}
		e.MaxAttachments, e.AttachmentType = int(n), kind
	}
	if r.Base == nil {
		return nil
	}
	if r.Max == nil {
		r.Max = r.Base
	}
	var err1, err2 error
	e.Baseline, err1 = rate(r.Base)
	e.Maximum, err2 = rate(r.Max)
	return errors.Join(err1, err2)
}

func rate(v []float64) (ec2data.EBSRate, error) {
	if len(v) != 3 {
		return ec2data.EBSRate{}, fmt.Errorf("EBS rate %v", v)
	}
	// AWS publishes throughputs such as 156.25039999999998: a tenth of a kB is noise.
	return ec2data.EBSRate{Mbps: int(v[0]), IOPS: int(v[1]), ThroughputKBps: int(math.Round(v[2] * 1000))}, nil
}

func (r *diskRecord) convert(p **ec2data.Disk) error {
	if r == nil {
		return nil
	}
	d := &ec2data.Disk{TotalGB: r.GB, NVMe: r.NVMe, Encryption: r.Enc}
	for _, run := range r.Disks {
		n, ok1 := run[0].(float64)
		gb, ok2 := run[1].(float64)
		kind, ok3 := run[2].(string)
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("disks %v", run)
		}
		d.Disks = append(d.Disks, ec2data.DiskRun{Count: int(n), SizeGB: int64(gb), Kind: kind})
	}
	*p = d
	return nil
}

func (r typeRecord) devices(t *ec2data.Type) error {
	for _, g := range r.GPUs {
		part, err := scaled(g.Part, 1000)
		if err != nil {
			return err
		}
		t.GPUs = append(t.GPUs, ec2data.GPU{
			Name: g.Name, Manufacturer: g.Mfr, Count: g.N, MemoryMiB: g.MemMiB,
			PartMilli: int(part), Logical: g.Logical, Workloads: g.Use,
		})
	}
	for _, n := range r.Neuron {
		t.Neuron = append(t.Neuron, ec2data.Neuron{Name: n.Name, Count: n.N, Cores: n.Cores, Version: n.Ver, MemoryMiB: n.MemMiB})
	}
	t.Inference, t.Media, t.FPGAs = accelerators(r.Inference), accelerators(r.Media), accelerators(r.FPGA)
	return nil
}

func accelerators(list []deviceRecord) []ec2data.Accelerator {
	var out []ec2data.Accelerator
	for _, d := range list {
		out = append(out, ec2data.Accelerator{Name: d.Name, Manufacturer: d.Mfr, Count: d.N, MemoryMiB: d.MemMiB})
	}
	return out
}
