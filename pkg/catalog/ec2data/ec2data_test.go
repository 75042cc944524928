package ec2data_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
)

func load(t testing.TB) *ec2data.Data {
	t.Helper()
	d, err := ec2data.Load()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEncodeGivesTheEmbeddedPayloadBack(t *testing.T) {
	file, err := ec2data.Encode(load(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ec2data.Payload(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := ec2data.Payload(ec2data.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("re-encoding the embedded data gives %d bytes that differ from the %d embedded", len(got), len(want))
	}
	if size := len(ec2data.Embedded()); size > 200<<10 {
		t.Errorf("embedded file has %d bytes, want at most 200 KiB", size)
	}
}

func TestLoadIsDeterministicAndFresh(t *testing.T) {
	a, b := load(t), load(t)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Fatalf("two loads differ (-first +second):\n%s", diff)
	}
	a.Types[0].Name = "changed"
	if b.Types[0].Name == "changed" {
		t.Error("two loads share memory")
	}
}

func TestCounts(t *testing.T) {
	d := load(t)
	partial, bandwidth, limits, offers := 0, 0, 0, 0
	for _, typ := range d.Types {
		if typ.Partial {
			partial++
		}
		if typ.BandwidthKnown {
			bandwidth++
		}
		if typ.VPC.Known {
			limits++
		}
	}
	for _, r := range d.Regions {
		for _, o := range r.Offers {
			offers += len(o.Zones)
		}
	}
	prices := map[string]int{}
	for _, l := range d.PriceLists {
		prices[l.Region+" "+l.Currency] = len(l.Prices)
	}
	got := []int{len(d.Types), partial, bandwidth, limits, len(d.Regions), offers}
	if diff := cmp.Diff([]int{1435, 40, 1350, 1401, 30, 62306}, got); diff != "" {
		t.Errorf("types, partial, bandwidth, limits, regions, offers (-want +got):\n%s", diff)
	}
	want := map[string]int{"us-east-1 USD": 1367, "us-gov-west-1 USD": 770, "us-gov-east-1 USD": 549, "cn-north-1 CNY": 316}
	if diff := cmp.Diff(want, prices); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
}

func TestListsAreSorted(t *testing.T) {
	d := load(t)
	byName := func(a, b ec2data.Type) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(d.Types, byName) {
		t.Error("types are not sorted")
	}
	for _, r := range d.Regions {
		if !slices.IsSortedFunc(r.Offers, func(a, b ec2data.Offer) int { return strings.Compare(a.Type, b.Type) }) {
			t.Errorf("offers of %s are not sorted", r.Name)
		}
		for _, o := range r.Offers {
			if typ, ok := d.Type(o.Type); !ok || typ.Partial {
				t.Errorf("%s offers %s: known %v, partial types must not be offered", r.Name, o.Type, ok)
			}
		}
	}
}

// Values the EC2 documentation states, as raw facts.
func TestKnownTypes(t *testing.T) {
	d := load(t)
	type facts struct {
		VCPUs, MemoryMiB, CardENIs, IPv4, Branch, EFA, GPUs, Neuron int
		Trunking                                                    bool
		Hypervisor                                                  string
		DiskGB                                                      int64
	}
	tests := map[string]facts{
		"m5.large":            {VCPUs: 2, MemoryMiB: 8192, CardENIs: 3, IPv4: 10, Branch: 9, Trunking: true, Hypervisor: "nitro"},
		"m5.xlarge":           {VCPUs: 4, MemoryMiB: 16384, CardENIs: 4, IPv4: 15, Branch: 18, Trunking: true, Hypervisor: "nitro"},
		"t3.large":            {VCPUs: 2, MemoryMiB: 8192, CardENIs: 3, IPv4: 12, Hypervisor: "nitro"},
		"c6g.large":           {VCPUs: 2, MemoryMiB: 4096, CardENIs: 3, IPv4: 10, Branch: 9, Trunking: true, Hypervisor: "nitro"},
		"g4dn.xlarge":         {VCPUs: 4, MemoryMiB: 16384, CardENIs: 3, IPv4: 10, Branch: 39, Trunking: true, Hypervisor: "nitro", GPUs: 1, DiskGB: 125},
		"p5.48xlarge":         {VCPUs: 192, MemoryMiB: 2097152, CardENIs: 2, IPv4: 50, Branch: 120, Trunking: true, EFA: 32, Hypervisor: "nitro", GPUs: 8, DiskGB: 30400},
		"m5.metal":            {VCPUs: 96, MemoryMiB: 393216, CardENIs: 15, IPv4: 50, Branch: 120, Trunking: true},
		"inf2.24xlarge":       {VCPUs: 96, MemoryMiB: 393216, CardENIs: 15, IPv4: 50, Branch: 107, Trunking: true, Neuron: 6, Hypervisor: "nitro"},
		"u7in-32tb.224xlarge": {VCPUs: 896, MemoryMiB: 33554432, CardENIs: 8, IPv4: 50, Branch: 106, Trunking: true, EFA: 2, Hypervisor: "nitro"},
		"m6idn.32xlarge":      {VCPUs: 128, MemoryMiB: 524288, CardENIs: 8, IPv4: 50, Branch: 106, Trunking: true, EFA: 2, Hypervisor: "nitro", DiskGB: 7600},
	}
	for name, want := range tests {
		typ, ok := d.Type(name)
		if !ok {
			t.Errorf("%s is unknown", name)
			continue
		}
		got := facts{
			VCPUs: typ.VCPUs, MemoryMiB: int(typ.MemoryMiB), CardENIs: typ.Network.DefaultCardENIs(), IPv4: typ.Network.IPv4PerENI,
			Branch: typ.VPC.BranchENIs, Trunking: typ.VPC.Trunking, EFA: typ.Network.MaxEFA, Hypervisor: typ.Hypervisor,
		}
		for _, g := range typ.GPUs {
			got.GPUs += g.Count
		}
		for _, n := range typ.Neuron {
			got.Neuron += n.Count
		}
		if typ.Disk != nil {
			got.DiskGB = typ.Disk.TotalGB
		}
		if !got.Trunking {
			got.Branch = 0
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPrices(t *testing.T) {
	d := load(t)
	for typ, want := range map[string]int64{"m5.large": 96_000_000, "m5.xlarge": 192_000_000, "c6a.large": 76_500_000} {
		list, own := d.OnDemand("us-east-1")
		if got, ok := list.Price(typ); !ok || got != want || !own {
			t.Errorf("price of %s = %d, %v (own %v), want %d", typ, got, ok, own, want)
		}
	}
	if list, own := d.OnDemand("eu-west-1"); own || list.Region != "us-east-1" {
		t.Errorf("eu-west-1 uses the list of %s, own %v; want the fallback us-east-1", list.Region, own)
	}
	if list, own := d.OnDemand("cn-north-1"); !own || list.Currency != "CNY" {
		t.Errorf("cn-north-1: own %v, currency %s; want its own list in CNY", own, list.Currency)
	}
}

func TestZonesOf(t *testing.T) {
	r, ok := load(t).Region("us-east-1")
	if !ok {
		t.Fatal("no us-east-1")
	}
	zones := r.ZonesOf("m5.large")
	if len(zones) < 5 || zones[0].Name != "us-east-1a" || !strings.HasPrefix(zones[0].ID, "use1-az") {
		t.Errorf("zones of m5.large: %v", zones)
	}
	if zones := r.ZonesOf("c7g-flex.large"); zones != nil {
		t.Errorf("partial type c7g-flex.large is offered in %v", zones)
	}
}

func TestDecodeRefusesDamage(t *testing.T) {
	file := ec2data.Embedded()
	flipped := ec2data.Embedded()
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string][]byte{
		"empty": nil, "other file": []byte("PK\x03\x04"), "cut": file[:len(file)/2], "flipped bit": flipped,
	} {
		if _, err := ec2data.Decode(bad); err == nil {
			t.Errorf("%s: decoded without an error", name)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		load(b)
	}
}
