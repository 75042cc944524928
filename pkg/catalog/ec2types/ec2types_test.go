package ec2types_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

func facts(t *testing.T) *ec2data.Data {
	t.Helper()
	data, err := ec2data.Load()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func settings() ec2types.Settings {
	return ec2types.Settings{Region: "us-west-2", MemoryOverhead: 0.075}
}

func zones() []ec2types.Zone {
	return []ec2types.Zone{{Name: "us-west-2a", ID: "usw2-az1"}, {Name: "us-west-2b", ID: "usw2-az2"}, {Name: "us-west-2c", ID: "usw2-az3"}}
}

// derive returns the type as the class would run it, offered in all of the class's zones at list price.
func derive(t *testing.T, data *ec2data.Data, name string, s ec2types.Settings, c ec2types.Class) catalog.InstanceType {
	t.Helper()
	out, err := ec2types.Derive(input(t, data, name, s, c))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func input(t *testing.T, data *ec2data.Data, name string, s ec2types.Settings, c ec2types.Class) ec2types.Input {
	t.Helper()
	typ, ok := data.Type(name)
	if !ok {
		t.Fatalf("no facts about %s", name)
	}
	prices, _ := data.OnDemand(s.Region)
	if c.Zones == nil {
		c.Zones = zones()
	}
	in := ec2types.Input{Type: typ, Settings: s, Class: &c, Market: ec2types.ListPrices(prices)}
	for _, z := range c.Zones {
		in.Offered = append(in.Offered, z.Name)
	}
	return in
}

// label returns the values of a label, nil when the type lacks it.
func label(t *testing.T, it catalog.InstanceType, key string) []string {
	t.Helper()
	for _, e := range it.Requirements {
		if e.Key != key {
			continue
		}
		if e.Operator == constraint.DoesNotExist {
			return nil
		}
		return e.Values
	}
	t.Fatalf("%s has no requirement for %s", it.Name, key)
	return nil
}

// TestCheckValues holds the published numbers of A-130: what a node of each type was seen to report.
func TestCheckValues(t *testing.T) {
	data := facts(t)
	tests := []struct {
		name                     string
		memory, cpu, allocatable int64 // MiB, millicores, MiB; 0 is not checked
		pods                     int64
		ephemeral                int64 // allocatable, bytes
		resources                units.List
	}{
		{name: "m5.large", memory: 7577, cpu: 1930, allocatable: 6903, pods: 29, ephemeral: 17 * gib, resources: units.List{ec2types.PodENI: 9}},
		{name: "m5.xlarge", memory: 15155, cpu: 3920, allocatable: 14162, pods: 58, resources: units.List{ec2types.PodENI: 18}},
		{name: "t3.large", memory: 7577, cpu: 1930, allocatable: 6837, pods: 35, resources: units.List{ec2types.PodENI: 0}},
		{name: "t3.micro", allocatable: 548, pods: 4},
		{name: "c6g.large", memory: 3729, allocatable: 3055, pods: 29},
		{name: "m6g.xlarge", allocatable: 14103, pods: 58},
		{name: "g4dn.xlarge", allocatable: 14481, pods: 29, resources: units.List{ec2types.PodENI: 39, ec2types.NvidiaGPU: 1}},
		{name: "p5.48xlarge", cpu: 191450, allocatable: 1938410, pods: 100, resources: units.List{ec2types.EFA: 32, ec2types.PodENI: 120}},
		{name: "m5.metal", cpu: 95690, pods: 737},
		{name: "u7in-32tb.224xlarge", cpu: 893690, allocatable: 31033160, pods: 394},
		{name: "trn1.32xlarge", pods: 247, resources: units.List{ec2types.Neuron: 16, ec2types.NeuronCore: 32, ec2types.EFA: 8}},
		{name: "inf2.24xlarge", pods: 737, resources: units.List{ec2types.Neuron: 6, ec2types.NeuronCore: 12}},
		{name: "dl1.24xlarge", resources: units.List{ec2types.Gaudi: 8}},
		{name: "m6idn.32xlarge", pods: 394, resources: units.List{ec2types.EFA: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			it := derive(t, data, tt.name, settings(), ec2types.Class{Family: ec2types.AL2023})
			free := it.Allocatable()
			check := func(what string, got, want int64) {
				if want != 0 && got != want {
					t.Errorf("%s = %d, want %d", what, got, want)
				}
			}
			check("memory", it.Capacity[units.Memory]/mib, tt.memory)
			check("allocatable cpu", free[units.CPU], tt.cpu)
			check("allocatable memory", free[units.Memory]/mib, tt.allocatable)
			check("pods", it.Capacity[units.Pods], tt.pods)
			check("allocatable ephemeral storage", free[units.EphemeralStorage], tt.ephemeral)
			for name, want := range tt.resources {
				if got := it.Capacity[name]; got != want {
					t.Errorf("%s = %d, want %d", name, got, want)
				}
			}
		})
	}
}

func TestMemoryOverhead(t *testing.T) {
	data, s := facts(t), settings()
	s.MemoryOverhead = 0
	for name, want := range map[string]int64{"m5.large": 8192, "c6g.large": 4032} {
		if got := derive(t, data, name, s, ec2types.Class{Family: ec2types.AL2023}).Capacity[units.Memory] / mib; got != want {
			t.Errorf("memory of %s = %dMi, want %dMi", name, got, want)
		}
	}
}

func TestReservedENIs(t *testing.T) { // and the note under the check values
	data := facts(t)
	tests := []struct {
		typ          string
		reserved     int
		family       ec2types.Family
		pods, memory int64
	}{
		{"t3.large", 1, ec2types.AL2023, 24, 640},
		{"t3.large", 1, ec2types.Bottlerocket, 24, 519},
		{"m5.large", 1, ec2types.AL2, 20, 574},
		{"m5.large", 1, ec2types.AL2023, 20, 574},
		{"m5.large", 1, ec2types.Custom, 20, 574},
		{"m5.large", 1, ec2types.Bottlerocket, 20, 475},
		{"m5.large", 1, ec2types.Windows2022, 110, 1465},
		{"m5.large", 3, ec2types.AL2023, 0, 574},
	}
	for _, tt := range tests {
		s := settings()
		s.ReservedENIs = tt.reserved
		it := derive(t, data, tt.typ, s, ec2types.Class{Family: tt.family})
		if it.Capacity[units.Pods] != tt.pods || it.Overhead.KubeReserved[units.Memory] != tt.memory*mib {
			t.Errorf("%s %s with %d reserved: %d pods, %dMi reserved, want %d, %dMi", tt.typ, tt.family, tt.reserved,
				it.Capacity[units.Pods], it.Overhead.KubeReserved[units.Memory]/mib, tt.pods, tt.memory)
		}
	}
}

func TestPods(t *testing.T) {
	data := facts(t)
	ten := int32(10)
	both := ec2types.Kubelet{MaxPods: &ten, PodsPerCore: 4}
	nics := []ec2types.NIC{{}, {Device: 1, EFAOnly: true}, {Card: 1, Device: 1, EFAOnly: true}}
	tests := []struct {
		typ   string
		class ec2types.Class
		want  int64
	}{
		{"m5.large", ec2types.Class{Family: ec2types.AL2023, Kubelet: both}, 8},
		{"m5.xlarge", ec2types.Class{Family: ec2types.AL2023, Kubelet: both}, 10},
		{"m5.large", ec2types.Class{Family: ec2types.Bottlerocket, Kubelet: ec2types.Kubelet{PodsPerCore: 4}}, 29},
		{"p4d.24xlarge", ec2types.Class{Family: ec2types.AL2023, NICs: nics}, 688},
	}
	for _, tt := range tests {
		if got := derive(t, data, tt.typ, settings(), tt.class).Capacity[units.Pods]; got != tt.want {
			t.Errorf("%s %+v: %d pods, want %d", tt.typ, tt.class, got, tt.want)
		}
	}
	p4d := derive(t, data, "p4d.24xlarge", settings(), ec2types.Class{Family: ec2types.AL2023, NICs: nics})
	if p4d.Capacity[ec2types.EFA] != 2 {
		t.Errorf("p4d.24xlarge has %d EFAs, want the 2 listed", p4d.Capacity[ec2types.EFA])
	}
	m5 := derive(t, data, "m5.large", settings(), ec2types.Class{Family: ec2types.AL2023, NICs: nics})
	wantUnavailable(t, m5, ec2types.ReasonIncompatible)
}

func TestKubeletReservations(t *testing.T) {
	data := facts(t)
	tests := []struct {
		name    string
		kubelet ec2types.Kubelet
		want    units.List
	}{
		{"A-135", ec2types.Kubelet{
			KubeReserved:   map[string]string{"cpu": "500m"},
			SystemReserved: map[string]string{"memory": "1Gi", "pid": "100"},
			EvictionHard:   map[string]string{"memory.available": "10%", "nodefs.available": "15%"},
		}, units.List{units.CPU: 1500, units.Memory: 5474929868, units.EphemeralStorage: 16 * gib}},
		{"A-136", ec2types.Kubelet{EvictionHard: map[string]string{"memory.available": "100%"}},
			units.List{units.CPU: 1930, units.Memory: 7003 * mib, units.EphemeralStorage: 17 * gib}},
		{"empty threshold counts as none", ec2types.Kubelet{EvictionHard: map[string]string{"memory.available": ""}},
			units.List{units.CPU: 1930, units.Memory: 6903 * mib, units.EphemeralStorage: 17 * gib}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			it := derive(t, data, "m5.large", settings(), ec2types.Class{Family: ec2types.AL2023, Kubelet: tt.kubelet})
			got := it.Allocatable()
			for name, want := range tt.want {
				if got[name] != want {
					t.Errorf("allocatable %s = %d, want %d", name, got[name], want)
				}
			}
		})
	}
}

func TestUnreadableKubeletSettings(t *testing.T) {
	class := ec2types.Class{Family: ec2types.AL2023, Kubelet: ec2types.Kubelet{
		KubeReserved: map[string]string{"memory": "much"}, EvictionHard: map[string]string{"nodefs.available": "120%"},
	}}
	err := ec2types.Check(&class)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"kubelet.kubeReserved[memory]", `"much"`, "kubelet.evictionHard[nodefs.available]", `"120%"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %s", err, want)
		}
	}
	if _, err := ec2types.Derive(input(t, facts(t), "m5.large", settings(), class)); err == nil {
		t.Error("Derive accepts the settings")
	}
}

func TestEphemeralStorage(t *testing.T) {
	data := facts(t)
	device := func(name string, bytes int64) ec2types.BlockDevice {
		return ec2types.BlockDevice{Name: name, Bytes: bytes}
	}
	root := ec2types.BlockDevice{Name: "/dev/sdb", Bytes: 200 * gib, Root: true}
	tests := []struct {
		name, typ string
		class     ec2types.Class
		want      int64
	}{
		{"A-124", "m5.large", ec2types.Class{Family: ec2types.Bottlerocket}, 20 * gib},
		{"A-126", "m5.large", ec2types.Class{Family: ec2types.AL2023, BlockDevices: []ec2types.BlockDevice{device("/dev/xvdb", 100*gib)}}, 20 * gib},
		{"A-127", "m5.large", ec2types.Class{Family: ec2types.AL2023, BlockDevices: []ec2types.BlockDevice{device("/dev/xvda", 30*gib), root}}, 200 * gib},
		{"A-128 size", "m5.large", ec2types.Class{Family: ec2types.Custom, BlockDevices: []ec2types.BlockDevice{device("/dev/a", 10*gib), device("/dev/b", 50*gib)}}, 50 * gib},
		{"A-128 snapshot", "m5.large", ec2types.Class{Family: ec2types.Custom, BlockDevices: []ec2types.BlockDevice{device("/dev/a", 10*gib), device("/dev/b", 0)}}, 20 * gib},
		{"A-129 disk", "m5d.large", ec2types.Class{Family: ec2types.AL2023, RAID0: true}, 75_000_000_000},
		{"A-129 none", "m5.large", ec2types.Class{Family: ec2types.AL2023, RAID0: true}, 20 * gib},
		{"Windows", "m5.large", ec2types.Class{Family: ec2types.Windows2019}, 50 * gib},
		{"own device", "m5.large", ec2types.Class{Family: ec2types.AL2, BlockDevices: []ec2types.BlockDevice{device("/dev/xvda", 30*gib)}}, 30 * gib},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := derive(t, data, tt.typ, settings(), tt.class).Capacity[units.EphemeralStorage]; got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestLabels(t *testing.T) { // and the label table
	data := facts(t)
	tests := []struct {
		typ  string
		want map[string]string // "-" stands for absent
	}{
		{"m5.large", map[string]string{
			ec2types.LabelInstanceType: "m5.large", ec2types.LabelArch: "amd64", ec2types.LabelOS: "linux", ec2types.LabelWindowsBuild: "-",
			ec2types.LabelRegion: "us-west-2", ec2types.LabelCategory: "m", ec2types.LabelGeneration: "5", ec2types.LabelFamily: "m5",
			ec2types.LabelSize: "large", ec2types.LabelFlex: "false", ec2types.LabelCPU: "2", ec2types.LabelCPUManufacturer: "intel",
			ec2types.LabelCPUClock: "3100", ec2types.LabelMemory: "8192", ec2types.LabelLocalNVMe: "-", ec2types.LabelHypervisor: "nitro",
			ec2types.LabelEncryptionInTransit: "false", ec2types.LabelGPUName: "-", ec2types.LabelAcceleratorName: "-",
			ec2types.LabelReservationID: "-", ec2types.LabelReservationType: "-", ec2types.LabelInterruptible: "-",
			ec2types.LabelPlacementGroup: "-", ec2types.LabelPartition: "-", ec2types.LabelNetworkBandwidth: "750", ec2types.LabelEBSBandwidth: "4750",
		}},
		{"g4dn.xlarge", map[string]string{
			ec2types.LabelGPUName: "t4", ec2types.LabelGPUManufacturer: "nvidia", ec2types.LabelGPUCount: "1", ec2types.LabelGPUMemory: "16384",
			ec2types.LabelLocalNVMe: "125", ec2types.LabelEBSBandwidth: "3500", ec2types.LabelNetworkBandwidth: "5000",
		}},
		{"inf2.xlarge", map[string]string{
			ec2types.LabelAcceleratorName: "inferentia2", ec2types.LabelAcceleratorMaker: "aws", ec2types.LabelAcceleratorCount: "1",
			ec2types.LabelGPUName: "-", ec2types.LabelGPUManufacturer: "-", ec2types.LabelGPUCount: "-", ec2types.LabelGPUMemory: "-",
		}},
		{"dl1.24xlarge", map[string]string{ec2types.LabelGPUName: "gaudi-hl-205", ec2types.LabelGPUManufacturer: "habana"}},
		{"m7i-flex.large", map[string]string{ec2types.LabelCategory: "m", ec2types.LabelGeneration: "7", ec2types.LabelFlex: "true"}},
		{"m5.metal", map[string]string{ec2types.LabelHypervisor: "", ec2types.LabelSize: "metal"}},
		{"u-6tb1.metal", map[string]string{ec2types.LabelCategory: "u", ec2types.LabelGeneration: "1"}},
		{"m6idn.32xlarge", map[string]string{ec2types.LabelLocalNVMe: "7600"}},
		{"t2.micro", map[string]string{ec2types.LabelNetworkBandwidth: "-", ec2types.LabelEBSBandwidth: "-", ec2types.LabelHypervisor: "xen"}},
	}
	for _, tt := range tests {
		t.Run(tt.typ, func(t *testing.T) {
			it := derive(t, data, tt.typ, settings(), ec2types.Class{Family: ec2types.AL2023})
			got := map[string]string{}
			for key := range tt.want {
				got[key] = "-"
				if values := label(t, it, key); values != nil {
					got[key] = strings.Join(values, ",")
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if !slices.IsSortedFunc(it.Requirements, func(a, b constraint.Expr) int { return strings.Compare(a.Key, b.Key) }) {
				t.Error("requirements are not sorted by key")
			}
		})
	}
	it := derive(t, data, "m5.large", settings(), ec2types.Class{Family: ec2types.AL2023})
	wantMulti := map[string][]string{
		ec2types.LabelZone: {"us-west-2a", "us-west-2b", "us-west-2c"}, ec2types.LabelZoneID: {"usw2-az1", "usw2-az2", "usw2-az3"},
		ec2types.LabelCapacityType: {"on-demand", "spot"}, ec2types.LabelTenancy: {"default", "dedicated"},
	}
	for key, want := range wantMulti {
		if diff := cmp.Diff(want, label(t, it, key)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

func TestWindows(t *testing.T) {
	data := facts(t)
	class := ec2types.Class{Family: ec2types.Windows2019}
	m5 := derive(t, data, "m5.large", settings(), class)
	if got := label(t, m5, ec2types.LabelOS); !slices.Equal(got, []string{"windows"}) {
		t.Errorf("os = %v", got)
	}
	if got := label(t, m5, ec2types.LabelWindowsBuild); !slices.Equal(got, []string{"10.0.17763"}) {
		t.Errorf("build = %v", got)
	}
	want := units.List{units.Pods: 110, ec2types.PrivateIPv4: 9}
	for name, amount := range want {
		if m5.Capacity[name] != amount {
			t.Errorf("%s = %d, want %d", name, m5.Capacity[name], amount)
		}
	}
	if got := m5.Overhead.KubeReserved[units.Memory] / mib; got != 1465 {
		t.Errorf("kube-reserved memory = %dMi, want 1465Mi", got)
	}
	c6g := derive(t, data, "c6g.large", settings(), class)
	if got := label(t, c6g, ec2types.LabelOS); got != nil {
		t.Errorf("os of c6g.large = %v, want none", got)
	}
	wantUnavailable(t, c6g, ec2types.ReasonIncompatible)
}

func wantUnavailable(t *testing.T, it catalog.InstanceType, reason string) {
	t.Helper()
	if len(it.Offerings) == 0 {
		t.Fatalf("%s has no offerings", it.Name)
	}
	for _, o := range it.Offerings {
		if o.Available || o.Unavailable.Reason != reason {
			t.Errorf("%s %s %s: available %v, reason %q, want %q", it.Name, o.Zone, o.CapacityType, o.Available, o.Unavailable.Reason, reason)
		}
	}
}

func TestCompatibility(t *testing.T) {
	data := facts(t)
	group := &ec2types.PlacementGroup{ID: "pg-1", Strategy: "cluster"}
	tests := []struct {
		name  string
		class ec2types.Class
		want  map[string]bool
	}{
		{"A-146", ec2types.Class{Family: ec2types.AL2023, NestedVirtualization: true}, map[string]bool{"m8i.large": true, "m5.large": false}},
		{"A-147", ec2types.Class{Family: ec2types.AL2023, ConnectionTracking: true}, map[string]bool{"i3.large": false, "m5.metal": false, "m5.large": true}},
		{"A-148", ec2types.Class{Family: ec2types.AL2023, PlacementGroup: group}, map[string]bool{"t3.large": false, "m5.large": true}},
		{"A-149 AL2023", ec2types.Class{Family: ec2types.AL2023}, map[string]bool{"a1.large": false}},
		{"A-149 Bottlerocket", ec2types.Class{Family: ec2types.Bottlerocket}, map[string]bool{"a1.large": true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, want := range tt.want {
				typ, _ := data.Type(name)
				if why := ec2types.Incompatible(typ, &tt.class); (why == "") != want {
					t.Errorf("%s: %q, want compatible %v", name, why, want)
				}
			}
		})
	}
	it := derive(t, data, "m5.large", settings(), ec2types.Class{Family: ec2types.AL2023, PlacementGroup: group})
	if got := label(t, it, ec2types.LabelPlacementGroup); !slices.Equal(got, []string{"pg-1"}) {
		t.Errorf("placement group label = %v", got)
	}
}

func TestOfferings(t *testing.T) {
	data := facts(t)
	class := ec2types.Class{Family: ec2types.AL2023, Zones: zones(), Reservations: []ec2types.Reservation{
		{ID: "cr-0", InstanceType: "m5.large", Zone: "us-west-2a", Kind: "default"},
		{ID: "cr-1", InstanceType: "m5.large", Zone: "us-west-2a", Kind: "default", Count: 1},
		{ID: "cr-2", InstanceType: "m5.large", Zone: "us-west-2a", Kind: "capacity-block", Count: 1, Expiring: true},
		{ID: "cr-3", InstanceType: "c5.large", Zone: "us-west-2a", Kind: "default", Count: 1},
	}}
	in := input(t, data, "m5.large", settings(), class)
	in.Offered = []string{"us-west-2a", "us-west-2d"}
	in.Market = func(a ec2types.Ask) ec2types.Quote {
		q := ec2types.Quote{Price: 96_000_000, Priced: true, Estimated: a.CapacityType == catalog.Spot}
		if a.CapacityType == catalog.Spot {
			q.Unavailable = &catalog.Unavailability{Reason: "InsufficientInstanceCapacity"}
		}
		return q
	}
	it, err := ec2types.Derive(in)
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Capacity, ID, Reason string
		Available            bool
		Price                units.Money
	}
	var got []row
	for _, o := range it.Offerings {
		if o.Zone != "us-west-2a" || o.ZoneID != "usw2-az1" {
			t.Errorf("offering in zone %s (%s): the type is not offered or the class not present there", o.Zone, o.ZoneID)
		}
		got = append(got, row{o.CapacityType, o.ReservationID, o.Unavailable.Reason, o.Available, o.Price})
	}
	want := []row{
		{"on-demand", "", "", true, 96_000_000},
		{"spot", "", "InsufficientInstanceCapacity", false, 96_000_000},
		{"reserved", "cr-0", ec2types.ReasonReservationFull, false, 10},
		{"reserved", "cr-1", "", true, 10},
		{"reserved", "cr-2", ec2types.ReasonReservationExpiring, false, 10},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("offerings (-want +got):\n%s", diff)
	}
	if got := label(t, it, ec2types.LabelCapacityType); !slices.Equal(got, []string{"on-demand", "reserved", "spot"}) {
		t.Errorf("capacity types = %v", got)
	}
}

func TestPartitions(t *testing.T) {
	data := facts(t)
	class := ec2types.Class{Family: ec2types.AL2023, Zones: zones()[:1], PlacementGroup: &ec2types.PlacementGroup{ID: "pg-1", Strategy: "partition", Partitions: 3}}
	in := input(t, data, "m5.large", settings(), class)
	in.Market = func(a ec2types.Ask) ec2types.Quote {
		q := ec2types.Quote{Price: 1, Priced: true}
		if a.Partition == "2" {
			q.Unavailable = &catalog.Unavailability{Reason: "InsufficientInstanceCapacity"}
		}
		return q
	}
	it, err := ec2types.Derive(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(it.Offerings) != 6 {
		t.Fatalf("%d offerings, want on-demand and spot in 3 partitions", len(it.Offerings))
	}
	for _, o := range it.Offerings {
		if second := o.Requirements[0].Values[0] == "2"; o.Available == second {
			t.Errorf("partition %v available %v", o.Requirements, o.Available)
		}
	}
	if got := label(t, it, ec2types.LabelPartition); !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("partition label = %v", got)
	}
}

func TestObservedMemory(t *testing.T) {
	in := input(t, facts(t), "m5.large", settings(), ec2types.Class{Family: ec2types.AL2023})
	plain, err := ec2types.Derive(in)
	if err != nil {
		t.Fatal(err)
	}
	in.ObservedMemory = 7_600_000 << 10
	seen, err := ec2types.Derive(in)
	if err != nil {
		t.Fatal(err)
	}
	if !seen.Observed || seen.Capacity[units.Memory] != 7_600_000<<10 {
		t.Errorf("observed %v, memory %d", seen.Observed, seen.Capacity[units.Memory])
	}
	if diff := cmp.Diff(plain.Overhead, seen.Overhead); diff != "" {
		t.Errorf("overhead changed:\n%s", diff)
	}
}

func TestQuantities(t *testing.T) {
	good := map[string]int64{
		"1": 1, "1.5Gi": 3 << 29, "100m": 1, "64T": 64_000_000_000_000, "18Ti": 18 << 40, "1e3": 1000, "2E": 2_000_000_000_000_000_000,
		"1Ei": 1 << 60, "0": 0, ".5Ki": 512, "1k": 1000, "-1": -1, "1500u": 1, "5.": 5,
	}
	for text, want := range good {
		if got, err := ec2types.ParseBytes(text); err != nil || got != want {
			t.Errorf("%q = %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "much", "1 Gi", "1KiB", "1/2", "0x10", "1e99", "--1", "99999Ei", "Gi", "1ki", "1iM"} {
		if got, err := ec2types.ParseBytes(text); err == nil {
			t.Errorf("%q = %d, want an error", text, got)
		}
	}
}

func TestOffline(t *testing.T) {
	data := facts(t)
	s := settings()
	s.Region = "us-east-1"
	types, err := ec2types.Offline(data, s, &ec2types.Class{Family: ec2types.AL2023})
	if err != nil {
		t.Fatal(err)
	}
	if len(types) < 800 {
		t.Errorf("%d types, want the catalogue", len(types))
	}
	if !slices.IsSortedFunc(types, func(a, b catalog.InstanceType) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("types are not sorted by name")
	}
	i := slices.IndexFunc(types, func(it catalog.InstanceType) bool { return it.Name == "m5.large" })
	if i < 0 {
		t.Fatal("m5.large is missing")
	}
	for _, o := range types[i].Offerings {
		if o.Price != 96_000_000 || !o.Available || o.PriceUnknown != (o.CapacityType == catalog.Spot) {
			t.Errorf("m5.large %s %s: price %v, unknown %v, available %v", o.Zone, o.CapacityType, o.Price, o.PriceUnknown, o.Available)
		}
	}
	again, err := ec2types.Offline(data, s, &ec2types.Class{Family: ec2types.AL2023})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(types[:50], again[:50]); diff != "" {
		t.Errorf("not deterministic:\n%s", diff)
	}
	s.Region = "mars-1"
	if _, err := ec2types.Offline(data, s, &ec2types.Class{Family: ec2types.AL2023}); err == nil || !strings.Contains(err.Error(), "mars-1") {
		t.Errorf("unknown region: %v", err)
	}
}

func TestFamilyOfAlias(t *testing.T) {
	for alias, want := range map[string]ec2types.Family{"al2023@latest": ec2types.AL2023, "bottlerocket@1.30.0": ec2types.Bottlerocket, "windows2025@latest": ec2types.Windows2025, "AL2@latest": "", "ubuntu@1": ""} {
		if got, ok := ec2types.FamilyOfAlias(alias); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", alias, got, ok)
		}
	}
}
