package ec2data

import (
	"bytes"
	"cmp"
	"compress/flate"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

//go:embed ec2data.bin
var embedded []byte

// magic starts the file; the digit is the layout version.
const magic = "karp-ec2data-1\n"

// maxPayload bounds what a damaged file can make us allocate.
const maxPayload = 16 << 20

// Load decodes the embedded facts.
func Load() (*Data, error) { return Decode(embedded) }

// Embedded returns a copy of the embedded file, for integrity checks.
func Embedded() []byte { return bytes.Clone(embedded) }

// Decode reads a file written by Encode.
func Decode(file []byte) (*Data, error) {
	payload, err := Payload(file)
	if err != nil {
		return nil, err
	}
	c := &coder{in: payload}
	c.table()
	d := new(Data)
	c.data(d)
	if c.err == nil && len(c.in) != 0 {
		c.err = fmt.Errorf("%d bytes left over", len(c.in))
	}
	if c.err != nil {
		return nil, fmt.Errorf("decoding EC2 data: %w", c.err)
	}
	return d, nil
}

// Encode writes the file: magic, checksum, then the compressed payload. The
// payload depends on d alone; its compression may differ between Go releases,
// which is why checks compare payloads.
func Encode(d *Data) ([]byte, error) {
	c := &coder{writing: true, index: map[string]int{}}
	c.data(d)
	if c.err != nil {
		return nil, fmt.Errorf("encoding EC2 data: %w", c.err)
	}
	payload := binary.AppendUvarint(nil, uint64(len(c.strings)))
	for _, s := range c.strings {
		payload = binary.AppendUvarint(payload, uint64(len(s)))
		payload = append(payload, s...)
	}
	payload = append(payload, c.out...)

	var file bytes.Buffer
	file.WriteString(magic)
	file.Write(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(payload)))
	w, err := flate.NewWriter(&file, flate.BestCompression)
	if err != nil {
		return nil, fmt.Errorf("encoding EC2 data: %w", err)
	}
	_, err = w.Write(payload)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("encoding EC2 data: %w", err)
	}
	return file.Bytes(), nil
}

// Payload returns the checked, uncompressed payload of a file.
func Payload(file []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(file, []byte(magic))
	if !ok || len(rest) < 4 {
		return nil, fmt.Errorf("reading EC2 data: not a %q file", magic[:len(magic)-1])
	}
	payload, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(rest[4:])), maxPayload))
	if err != nil {
		return nil, fmt.Errorf("reading EC2 data: %w", err)
	}
	if got, want := crc32.ChecksumIEEE(payload), binary.BigEndian.Uint32(rest); got != want {
		return nil, fmt.Errorf("reading EC2 data: checksum %08x, want %08x", got, want)
	}
	return payload, nil
}

// A coder walks the structure once for both directions, so that reading and
// writing cannot disagree. Integers are zigzag varints; strings are indexes
// into a table ordered by first use, which precedes the body.
type coder struct {
	writing bool
	err     error

	out   []byte
	index map[string]int

	in      []byte
	strings []string
}

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

func (c *coder) uvarint() uint64 {
	v, n := binary.Uvarint(c.in)
	if n <= 0 {
		c.fail("truncated number")
		c.in = nil
		return 0
	}
	c.in = c.in[n:]
	return v
}

// table reads the string table.
func (c *coder) table() {
	n := c.uvarint()
	if n > uint64(len(c.in)) {
		c.fail("string table of %d entries in %d bytes", n, len(c.in))
		return
	}
	c.strings = make([]string, 0, n)
	for range n {
		size := c.uvarint()
		if size > uint64(len(c.in)) {
			c.fail("truncated string")
			return
		}
		c.strings = append(c.strings, string(c.in[:size]))
		c.in = c.in[size:]
	}
}

func (c *coder) int64(p *int64) {
	if c.writing {
		c.out = binary.AppendVarint(c.out, *p)
		return
	}
	u := c.uvarint()
	*p = int64(u>>1) ^ -int64(u&1)
}

func (c *coder) int(p *int) {
	v := int64(*p)
	c.int64(&v)
	*p = int(v)
}

func (c *coder) bool(p *bool) {
	v := 0
	if *p {
		v = 1
	}
	c.int(&v)
	*p = v != 0
}

func (c *coder) string(p *string) {
	if c.writing {
		i, ok := c.index[*p]
		if !ok {
			i = len(c.strings)
			c.index[*p] = i
			c.strings = append(c.strings, *p)
		}
		c.int(&i)
		return
	}
	i := 0
	c.int(&i)
	if i < 0 || i >= len(c.strings) {
		c.fail("string %d of %d", i, len(c.strings))
		return
	}
	*p = c.strings[i]
}

// list codes the length of a list and then each element.
func list[T any](c *coder, p *[]T, elem func(*T)) {
	n := len(*p)
	c.int(&n)
	if !c.writing {
		// Every element takes a byte at least.
		if n < 0 || n > len(c.in) {
			c.fail("list of %d in %d bytes", n, len(c.in))
			return
		}
		if n > 0 {
			*p = make([]T, n)
		}
	}
	for i := range *p {
		if c.err != nil {
			return
		}
		elem(&(*p)[i])
	}
}

func (c *coder) stringList(p *[]string) { list(c, p, c.string) }

func (c *coder) data(d *Data) {
	c.string(&d.AsOf.Types)
	c.string(&d.AsOf.Offerings)
	c.string(&d.AsOf.VPCLimits)
	c.string(&d.AsOf.Bandwidth)
	list(c, &d.Types, c.typ)
	list(c, &d.Regions, func(r *Region) { c.region(d.Types, r) })
	list(c, &d.PriceLists, func(l *PriceList) { c.prices(d.Types, l) })
}

func (c *coder) typ(t *Type) {
	c.string(&t.Name)
	c.string(&t.AsOf)
	c.bool(&t.Partial)
	c.int(&t.VCPUs)
	c.int(&t.Cores)
	c.int(&t.ThreadsPerCore)
	c.int64(&t.MemoryMiB)
	c.stringList(&t.Architectures)
	c.string(&t.CPUManufacturer)
	c.int(&t.ClockMHz)
	c.stringList(&t.ProcessorFeatures)
	c.string(&t.Hypervisor)
	c.flags(&t.Flags)
	c.stringList(&t.UsageClasses)
	c.stringList(&t.BootModes)
	c.stringList(&t.RootDeviceTypes)
	c.stringList(&t.VirtualizationTypes)
	c.stringList(&t.PlacementStrategies)
	c.network(&t.Network)
	c.bool(&t.VPC.Known)
	c.bool(&t.VPC.Trunking)
	c.int(&t.VPC.BranchENIs)
	c.int(&t.BandwidthMbps)
	c.bool(&t.BandwidthKnown)
	c.ebs(&t.EBS)
	c.disk(&t.Disk)
	list(c, &t.GPUs, c.gpu)
	list(c, &t.Neuron, c.neuron)
	list(c, &t.Inference, c.accelerator)
	list(c, &t.Media, c.accelerator)
	list(c, &t.FPGAs, c.accelerator)
}

func (f *Flags) all() []*bool {
	return []*bool{
		&f.BareMetal, &f.Burstable, &f.CurrentGeneration, &f.FreeTier, &f.DedicatedHosts, &f.AutoRecovery,
		&f.Hibernation, &f.NitroEnclaves, &f.NitroTPM, &f.PrecisionClock, &f.RebootMigration,
	}
}

// flags codes the flags as the bits of one number.
func (c *coder) flags(f *Flags) {
	bits := 0
	for i, p := range f.all() {
		if *p {
			bits |= 1 << i
		}
	}
	c.int(&bits)
	for i, p := range f.all() {
		*p = bits&(1<<i) != 0
	}
}

func (c *coder) network(n *Network) {
	c.string(&n.Performance)
	c.int(&n.MaxENIs)
	c.int(&n.IPv4PerENI)
	c.int(&n.IPv6PerENI)
	c.bool(&n.IPv6)
	c.string(&n.ENA)
	c.int(&n.MaxEFA)
	c.bool(&n.ENAExpress)
	c.bool(&n.Encryption)
	c.int(&n.DefaultCard)
	list(c, &n.Cards, func(r *CardRun) {
		c.int(&r.FirstIndex)
		c.int(&r.Count)
		c.int(&r.MaxENIs)
		c.int(&r.BaselineMbps)
		c.int(&r.PeakMbps)
		c.int(&r.FlexibleENIs)
	})
	c.int(&n.TCPIdleSeconds)
	c.stringList(&n.Weightings)
}

func (c *coder) ebs(e *EBS) {
	c.string(&e.Optimized)
	c.string(&e.NVMe)
	c.int(&e.MaxAttachments)
	c.string(&e.AttachmentType)
	for _, r := range []*EBSRate{&e.Baseline, &e.Maximum} {
		c.int(&r.Mbps)
		c.int(&r.IOPS)
		c.int(&r.ThroughputKBps)
	}
	c.int(&e.Cards)
}

func (c *coder) disk(p **Disk) {
	has := *p != nil
	c.bool(&has)
	if !has {
		return
	}
	if !c.writing {
		*p = new(Disk)
	}
	d := *p
	c.int64(&d.TotalGB)
	c.string(&d.NVMe)
	c.string(&d.Encryption)
	list(c, &d.Disks, func(r *DiskRun) {
		c.int(&r.Count)
		c.int64(&r.SizeGB)
		c.string(&r.Kind)
	})
}

func (c *coder) gpu(g *GPU) {
	c.string(&g.Name)
	c.string(&g.Manufacturer)
	c.int(&g.Count)
	c.int64(&g.MemoryMiB)
	c.int(&g.PartMilli)
	c.int(&g.Logical)
	c.stringList(&g.Workloads)
}

func (c *coder) neuron(n *Neuron) {
	c.string(&n.Name)
	c.int(&n.Count)
	c.int(&n.Cores)
	c.int(&n.Version)
	c.int64(&n.MemoryMiB)
}

func (c *coder) accelerator(a *Accelerator) {
	c.string(&a.Name)
	c.string(&a.Manufacturer)
	c.int(&a.Count)
	c.int64(&a.MemoryMiB)
}

func (c *coder) region(types []Type, r *Region) {
	c.string(&r.Name)
	list(c, &r.Zones, func(z *Zone) {
		c.string(&z.Suffix)
		c.string(&z.ID)
		z.Name = r.Name + z.Suffix
	})
	last := 0
	list(c, &r.Offers, func(o *Offer) {
		c.typeRef(types, &last, &o.Type)
		c.string(&o.Zones)
	})
}

func (c *coder) prices(types []Type, l *PriceList) {
	c.string(&l.Region)
	c.string(&l.Currency)
	c.string(&l.AsOf)
	last := 0
	list(c, &l.Prices, func(p *Price) {
		c.typeRef(types, &last, &p.Type)
		c.int64(&p.NanosPerHour)
	})
}

// typeRef codes a type name as the distance of its index from the previous one.
func (c *coder) typeRef(types []Type, last *int, name *string) {
	delta := 0
	if c.writing {
		i, ok := slices.BinarySearchFunc(types, *name, func(t Type, name string) int {
			return cmp.Compare(t.Name, name)
		})
		if !ok {
			c.fail("unknown type %q", *name)
			return
		}
		delta = i - *last
	}
	c.int(&delta)
	*last += delta
	if *last < 0 || *last >= len(types) {
		c.fail("type %d of %d", *last, len(types))
		return
	}
	*name = types[*last].Name
}
