package disrupt

import (
	"cmp"
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

// option is an instance type that a new node may be launched as, with what it costs.
type option struct {
	typ  int
	name string
	// cheapest is the lowest price of its offerings that can be had and fit the claim; worst is the highest of those that a launch would choose
	// from: reserved ones before spot, spot before on-demand (rules 14.2).
	cheapest, worst units.Money
	spot, onDemand  bool
}

// offersOf are the offerings a claim can be launched as at the moment.
func offersOf(cat *catalog.Catalog, c *plan.Claim) *catalog.Set {
	return cat.Narrow(cat.Available(), constraint.Parse(c.Requirements), nil)
}

// optionsOf lists the types of a claim by price.
func optionsOf(cat *catalog.Catalog, c *plan.Claim) []option {
	return optionsIn(cat, offersOf(cat, c))
}

func optionsIn(cat *catalog.Catalog, offers *catalog.Set) []option {
	var out []option
	at := map[int]int{}
	rank := map[string]int{catalog.Reserved: 3, catalog.Spot: 2, catalog.OnDemand: 1}
	best := map[int]int{}
	for i, ok := offers.NextSet(0); ok; i, ok = offers.NextSet(i + 1) {
		typ, o := cat.Offer(int(i))
		j, seen := at[typ]
		if !seen {
			j = len(out)
			at[typ] = j
			out = append(out, option{typ: typ, name: cat.Types()[typ].Name, cheapest: o.Price})
		}
		x := &out[j]
		x.cheapest = min(x.cheapest, o.Price)
		x.spot = x.spot || o.CapacityType == catalog.Spot
		x.onDemand = x.onDemand || o.CapacityType == catalog.OnDemand
		switch r := rank[o.CapacityType]; {
		case r > best[typ]:
			best[typ], x.worst = r, o.Price
		case r == best[typ]:
			x.worst = max(x.worst, o.Price)
		}
	}
	slices.SortFunc(out, func(a, b option) int { return cmp.Or(cmp.Compare(a.cheapest, b.cheapest), cmp.Compare(a.name, b.name)) })
	return out
}

// admits reports whether the claim's requirements allow a capacity type.
func admits(c *plan.Claim, capacityType string) bool {
	for _, e := range c.Requirements {
		if e.Key == constraint.CapacityTypeKey {
			return constraint.New(e).Admits(capacityType)
		}
	}
	return true
}

// restrict limits a claim to types and, if it is not empty, to a capacity type. It returns false if the number of distinct values that the claim
// wants of a key is not reached any more (minValues, rules 14.2).
func restrict(cat *catalog.Catalog, c *plan.Claim, options []option, capacityType string) bool {
	c.Types = make([]string, len(options))
	for i, o := range options {
		c.Types[i] = o.name
	}
	c.Requirements = slices.Clone(c.Requirements)
	pin := func(key string, values []string) {
		i := slices.IndexFunc(c.Requirements, func(e constraint.Expr) bool { return e.Key == key })
		e := constraint.Expr{Key: key, Operator: constraint.In, Values: values}
		if i < 0 {
			c.Requirements = append(c.Requirements, e)
			return
		}
		e.MinValues = c.Requirements[i].MinValues
		c.Requirements[i] = e
	}
	pin(constraint.InstanceTypeKey, slices.Sorted(slices.Values(c.Types)))
	if capacityType != "" {
		pin(constraint.CapacityTypeKey, []string{capacityType})
		c.CapacityTypes = []string{capacityType}
	}
	offers := offersOf(cat, c)
	i, ok := cat.Cheapest(offers)
	if !ok {
		return false
	}
	typ, o := cat.Offer(i)
	c.Price, c.CheapestType, c.CheapestZone, c.CheapestBuyAs = o.Price, cat.Types()[typ].Name, o.Zone, o.CapacityType
	return varied(cat, c, options)
}

// varied reports whether the types offer as many values as the claim wants.
func varied(cat *catalog.Catalog, c *plan.Claim, options []option) bool {
	var whole *catalog.Set
	for _, e := range c.Requirements {
		if e.MinValues == 0 {
			continue
		}
		if whole == nil {
			whole = allOf(cat, options)
		}
		r, have := constraint.New(e), 0
		for _, x := range cat.Values(e.Key, whole) {
			if r.Admits(x) {
				have++
			}
		}
		if have < e.MinValues {
			return false
		}
	}
	return true
}

// allOf returns all offerings of the types.
func allOf(cat *catalog.Catalog, options []option) *catalog.Set {
	in := map[int]bool{}
	for _, o := range options {
		in[o.typ] = true
	}
	out := bitset.New(uint(cat.Len()))
	for _, x := range cat.Variants() {
		for i := x.First; in[x.Type] && i < x.End; i++ {
			out.Set(uint(i))
		}
	}
	return out
}
