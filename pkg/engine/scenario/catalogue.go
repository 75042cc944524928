package scenario

import (
	"strconv"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

type typeSpec struct {
	name, arch, fam, gen string
	od, spot             float64
	extra                units.List
	zones                []string
}

// CAT is the fixture catalogue of the scheduling specification: eight types in three zones, on-demand and spot.
func CAT() []catalog.InstanceType {
	spec := func(name, arch, gen string, cpu, gib, pods int64, od, spot float64) typeSpec {
		return typeSpec{name: name, arch: arch, gen: gen, od: od, spot: spot,
			extra: units.List{units.CPU: cpu * 1000, units.Memory: gib << 30, units.Pods: pods}}
	}
	with := func(t typeSpec, resource string, n int64) typeSpec {
		t.extra[resource] = n
		return t
	}
	specs := []typeSpec{
		spec("t.small", "amd64", "3", 2, 4, 10, 0.10, 0.04),
		spec("t.medium", "amd64", "3", 4, 8, 20, 0.20, 0.08),
		spec("t.large", "amd64", "3", 8, 16, 40, 0.40, 0.16),
		spec("t.xlarge", "amd64", "3", 16, 32, 60, 0.80, 0.32),
		spec("a.medium", "arm64", "4", 4, 8, 20, 0.17, 0.07),
		with(spec("g.large", "amd64", "5", 8, 32, 40, 1.00, 0.40), "nvidia.com/gpu", 1),
		with(spec("g.xlarge", "amd64", "5", 16, 64, 60, 3.60, 1.40), "nvidia.com/gpu", 4),
		with(with(spec("n.large", "amd64", "1", 8, 32, 40, 0.90, 0.36), "aws.amazon.com/neuron", 2), "aws.amazon.com/neuroncore", 4),
	}
	out := make([]catalog.InstanceType, len(specs))
	for i, s := range specs {
		out[i] = s.build()
	}
	return out
}

// RES is CAT with capacity reservations: one instance of t.small in z-a (cr-s) and one of t.medium (cr-m), and no other offering has a
// reservation.
func RES() []catalog.InstanceType {
	return reserve(CAT(), "z-a", map[string]string{"t.small": "cr-s", "t.medium": "cr-m"})
}

// reserve adds a reservation of one instance to the types that have an ID.
func reserve(out []catalog.InstanceType, zone string, ids map[string]string) []catalog.InstanceType {
	for i := range out {
		t := &out[i]
		id := ids[t.Name]
		if id == "" {
			t.Requirements = append(t.Requirements, constraint.Expr{Key: constraint.ReservationIDKey, Operator: constraint.DoesNotExist})
			continue
		}
		t.Requirements = append(t.Requirements, constraint.Expr{Key: constraint.ReservationIDKey, Operator: constraint.In, Values: []string{id}})
		for j := range t.Requirements {
			if r := &t.Requirements[j]; r.Key == constraint.CapacityTypeKey {
				r.Values = append(r.Values, catalog.Reserved)
			}
		}
		t.Offerings = append(t.Offerings, reservedOffering(zone, id, 1, t.Offerings[0].Price/10_000_000))
	}
	return out
}

func reservedOffering(zone, id string, count int, price units.Money) catalog.Offering {
	return catalog.Offering{Zone: zone, CapacityType: catalog.Reserved, ReservationID: id, ReservationCount: count, Price: price, Available: count > 0,
		Requirements: []constraint.Expr{{Key: constraint.ReservationIDKey, Operator: constraint.In, Values: []string{id}}}}
}

func (s typeSpec) build() catalog.InstanceType {
	zones := s.zones
	if zones == nil {
		zones = []string{"z-a", "z-b", "z-c"}
	}
	fam, size, _ := strings.Cut(s.name, ".")
	if s.fam != "" {
		fam = s.fam
	}
	t := catalog.InstanceType{Name: s.name, Capacity: s.extra}
	set := func(key string, values ...string) {
		t.Requirements = append(t.Requirements, constraint.Expr{Key: Key(key), Operator: constraint.In, Values: values})
	}
	set("type", s.name)
	set("arch", s.arch)
	set("os", "linux")
	set("zone", zones...)
	set("region", "r-1")
	set("ct", catalog.OnDemand, catalog.Spot)
	set("cpuL", strconv.FormatInt(s.extra[units.CPU]/1000, 10))
	set("memL", strconv.FormatInt(s.extra[units.Memory]>>20, 10))
	set("fam", fam)
	set("size", size)
	set("gen", s.gen)
	if n := s.extra["nvidia.com/gpu"]; n > 0 {
		set("gpuC", strconv.FormatInt(n, 10))
	} else {
		t.Requirements = append(t.Requirements, constraint.Expr{Key: Key("gpuC"), Operator: constraint.DoesNotExist})
	}
	for _, z := range zones {
		t.Offerings = append(t.Offerings,
			catalog.Offering{Zone: z, CapacityType: catalog.OnDemand, Price: units.FromDollars(s.od), Available: true},
			catalog.Offering{Zone: z, CapacityType: catalog.Spot, Price: units.FromDollars(s.spot), Available: true})
	}
	return t
}
