package catalog_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

func in(key string, vs ...string) constraint.Expr {
	return constraint.Expr{Key: key, Operator: constraint.In, Values: vs}
}

// types draws a small catalogue: the key "size" is a number, "gpu" is absent from some types and unknown to others, "tenancy" has several values.
func drawTypes(t *rapid.T) []catalog.InstanceType {
	var out []catalog.InstanceType
	for i := range rapid.IntRange(1, 8).Draw(t, "types") {
		x := catalog.InstanceType{Name: "t" + strconv.Itoa(i), Capacity: units.List{units.CPU: int64(i+1) * 1000}}
		x.Requirements = []constraint.Expr{in(constraint.InstanceTypeKey, x.Name), in("size", strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "size"))), in("tenancy", "default", "dedicated")}
		switch rapid.IntRange(0, 2).Draw(t, "gpu") {
		case 0:
			x.Requirements = append(x.Requirements, in("gpu", rapid.SampledFrom([]string{"1", "4"}).Draw(t, "gpus")))
		case 1:
			x.Requirements = append(x.Requirements, constraint.Expr{Key: "gpu", Operator: constraint.DoesNotExist})
		}
		for _, z := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID).Draw(t, "zones") {
			x.Offerings = append(x.Offerings, catalog.Offering{Zone: z, CapacityType: rapid.SampledFrom([]string{"spot", "on-demand"}).Draw(t, "ct"),
				Price: units.Money(rapid.IntRange(1, 5).Draw(t, "price")), Available: rapid.Bool().Draw(t, "available")})
		}
		out = append(out, x)
	}
	return out
}

// labels returns what offering i and its type say about labels, the simple way.
func labels(c *catalog.Catalog, i int) constraint.Requirements {
	typ, o := c.Offer(i)
	rs := constraint.Parse(c.Types()[typ].Requirements)
	return rs.With(constraint.NewIn(constraint.ZoneKey, o.Zone), constraint.NewIn(constraint.CapacityTypeKey, o.CapacityType))
}

// The index finds what comparing every offering by itself finds, and the funnel counts it.
func TestNarrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := catalog.New(drawTypes(t))
		var exprs []constraint.Expr
		for range rapid.IntRange(0, 3).Draw(t, "requirements") {
			e := constraint.Expr{Key: rapid.SampledFrom([]string{constraint.ZoneKey, constraint.CapacityTypeKey, "size", "gpu", "tenancy", "unknown"}).Draw(t, "key")}
			e.Operator = rapid.SampledFrom([]constraint.Operator{constraint.In, constraint.NotIn, constraint.Exists, constraint.DoesNotExist, constraint.Gt, constraint.Lte}).Draw(t, "op")
			switch e.Operator {
			case constraint.In, constraint.NotIn:
				e.Values = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "spot", "1", "3", "4", "default"}), 1, 3).Draw(t, "values")
			case constraint.Gt, constraint.Lte:
				e.Values = []string{strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "bound"))}
			default: // takes no values
			}
			exprs = append(exprs, e)
		}
		rs := constraint.Parse(exprs)
		var funnel reason.Funnel
		got := c.Narrow(c.All(), rs, &funnel)
		types := map[int]bool{}
		for i := range c.Len() {
			_, conflict := labels(c, i).Conflict(rs)
			if got.Test(uint(i)) == conflict {
				t.Fatalf("offering %d (%v) with %v: in the set %v, conflict %v", i, labels(c, i), rs, got.Test(uint(i)), conflict)
			}
			if typ, _ := c.Offer(i); !conflict {
				types[typ] = true
			}
		}
		if n := len(funnel); n > 0 && (funnel[n-1].Offerings != int(got.Count()) || funnel[n-1].Types != len(types)) {
			t.Fatalf("funnel ends with %+v, want %d offerings of %d types", funnel[n-1], got.Count(), len(types))
		}
	})
}

// Types come by the price of their cheapest offering in the set, then name.
func TestByPrice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := catalog.New(drawTypes(t))
		type entry struct {
			price units.Money
			name  string
		}
		var got []entry
		for typ, offer := range c.ByPrice(c.Available()) {
			_, o := c.Offer(offer)
			got = append(got, entry{o.Price, c.Types()[typ].Name})
			for _, other := range c.Types()[typ].Offerings {
				if other.Available && other.Price < o.Price {
					t.Fatalf("%s has an offering at %d, below %d", c.Types()[typ].Name, other.Price, o.Price)
				}
			}
		}
		if !slices.IsSortedFunc(got, func(a, b entry) int {
			if a.price != b.price {
				return int(a.price - b.price)
			}
			return strings.Compare(a.name, b.name)
		}) {
			t.Fatalf("not in order: %v", got)
		}
		if len(got) != c.CountTypes(c.Available()) {
			t.Fatalf("%d types, counted %d", len(got), c.CountTypes(c.Available()))
		}
	})
}

// Huge pages take memory away; offerings with their own capacity form their own variant (S-154, S-155).
func TestAllocatable(t *testing.T) {
	huge := catalog.InstanceType{Name: "h", Capacity: units.List{units.Memory: 16, "hugepages-2Mi": 4}, Overhead: catalog.Overhead{KubeReserved: units.List{units.Memory: 1}, EvictionThreshold: units.List{units.Memory: 2}},
		Offerings: []catalog.Offering{{Zone: "a"}, {Zone: "c", Capacity: units.List{units.Memory: 14}}}}
	c := catalog.New([]catalog.InstanceType{huge})
	var got []units.List
	for _, v := range c.Variants() {
		got = append(got, v.Allocatable)
	}
	want := []units.List{{units.Memory: 9, "hugepages-2Mi": 4}, {units.Memory: 7, "hugepages-2Mi": 4}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("allocatable by variant (-want +got):\n%s", diff)
	}
	fits := c.Fitting(c.All(), units.List{units.Memory: 8}, nil)
	if !fits.Test(0) || fits.Test(1) {
		t.Errorf("8 bytes fit %v, want only the first offering", fits)
	}
}

// A claim that may become several types is certain only of what they share.
func TestCommon(t *testing.T) {
	typ := func(name string, cpu int64, gpu bool) catalog.InstanceType {
		x := catalog.InstanceType{Name: name, Capacity: units.List{units.CPU: cpu}, Requirements: []constraint.Expr{in(constraint.InstanceTypeKey, name), in(constraint.ArchKey, "amd64")},
			Offerings: []catalog.Offering{{Zone: "a", CapacityType: "spot"}, {Zone: "b", CapacityType: "spot"}}}
		if gpu {
			x.Requirements = append(x.Requirements, in("gpu", "1"))
		} else {
			x.Requirements = append(x.Requirements, constraint.Expr{Key: "gpu", Operator: constraint.DoesNotExist})
		}
		return x
	}
	c := catalog.New([]catalog.InstanceType{typ("s", 2000, false), typ("m", 4000, true), typ("l", 8000, false)})
	got := c.Common(constraint.Of(constraint.NewIn(constraint.InstanceTypeKey, "s", "m")))
	if got.Types != 2 || got.MinAllocatable[units.CPU] != 2000 || got.MaxCapacity[units.CPU] != 4000 {
		t.Errorf("common of s and m: %d types, %v allocatable, %v capacity; want 2, 2000, 4000", got.Types, got.MinAllocatable, got.MaxCapacity)
	}
	tests := []struct {
		expr constraint.Expr
		want bool
	}{
		{in(constraint.ArchKey, "amd64", "arm64"), true},
		{in(constraint.ZoneKey, "a"), false},
		{in(constraint.ZoneKey, "a", "b"), true},
		{in("gpu", "1"), false},
		{constraint.Expr{Key: "gpu", Operator: constraint.NotIn, Values: []string{"4"}}, true},
		{constraint.Expr{Key: "gpu", Operator: constraint.DoesNotExist}, false},
	}
	for _, tt := range tests {
		if ok, known := c.Ensures(got.Offers, constraint.New(tt.expr)); ok != tt.want || !known {
			t.Errorf("ensures %v: %v, known %v, want %v", tt.expr, ok, known, tt.want)
		}
	}
}
