package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/bits-and-blooms/bitset"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// Set is a set of offerings: bit i stands for offering i of the catalog. Sets that a Catalog returns are shared unless said otherwise and
// must not be changed.
type Set = bitset.BitSet

// Catalog is the indexed form of a list of instance types. It is immutable and safe for concurrent use.
type Catalog struct {
	types    []InstanceType
	offers   []entry
	variants []Variant
	columns  map[string]*column
	all      *Set
	sellable *Set
	byPrice  []int32 // offerings by price, type name, position
	digest   string
}

// entry is one offering in the universe.
type entry struct {
	typ, variant int32
	*Offering
}

// Variant is a type with one allocatable: offerings that override capacity or overhead form variants of their own, all others of a type
// share one.
type Variant struct {
	// Type is the index of the instance type.
	Type                  int
	Capacity, Allocatable units.List
	// First and End bound the offerings of the variant: First <= i < End.
	First, End int
}

// column is the index of one label key.
type column struct {
	// open are the offerings that do not define the key, absent those that define its absence.
	open, absent *Set
	values       map[string]*Set
	names        []string // keys of values, ascending
	ints         []intValue
	// multi tells that an offering can have several values.
	multi bool
}

// intValue is a value that is an integer; a column keeps them in ascending order.
type intValue struct {
	n   int64
	set *Set
}

// New indexes the types. It keeps the slice, which must not change afterwards.
func New(types []InstanceType) *Catalog {
	c := &Catalog{types: types, columns: map[string]*column{}}
	for i := range types {
		c.number(i)
	}
	n := uint(len(c.offers))
	c.all = bitset.New(n)
	c.all.FlipRange(0, n)
	c.sellable = bitset.New(n)
	for i, o := range c.offers {
		c.sellable.SetTo(uint(i), o.Available)
	}
	for _, v := range c.variants {
		c.label(v)
	}
	for _, col := range c.columns {
		col.finish()
	}
	c.order()
	c.sum()
	return c
}

// number gives the offerings of a type their place in the universe, variant by variant.
func (c *Catalog) number(typ int) {
	t := &c.types[typ]
	byDifference := map[string][]*Offering{}
	for i := range t.Offerings {
		o := &t.Offerings[i]
		key := ""
		if len(o.Capacity)+len(o.Overhead) > 0 {
			key = fmt.Sprint(o.Capacity, o.Overhead) // fmt prints maps in key order
		}
		byDifference[key] = append(byDifference[key], o)
	}
	for _, key := range slices.Sorted(maps.Keys(byDifference)) {
		group := byDifference[key]
		v := Variant{Type: typ, First: len(c.offers), End: len(c.offers) + len(group), Capacity: t.Capacity}
		if key == "" {
			v.Allocatable = t.Allocatable()
		} else {
			v.Capacity = replaced(t.Capacity, group[0].Capacity)
			v.Allocatable = allocatable(v.Capacity, replaced(t.Overhead.Total(), group[0].Overhead))
		}
		for _, o := range group {
			c.offers = append(c.offers, entry{typ: int32(typ), variant: int32(len(c.variants)), Offering: o})
		}
		c.variants = append(c.variants, v)
	}
}

func replaced(base, by units.List) units.List {
	out := base.Clone()
	if out == nil {
		out = units.List{}
	}
	maps.Copy(out, by)
	return out
}

// label enters a variant's offerings into the columns. What an offering says itself goes before what its type lists; a key that some offerings
// of a type define for themselves, such as the reservation's ID, is absent from the others.
func (c *Catalog) label(v Variant) {
	t := &c.types[v.Type]
	for _, e := range t.Requirements {
		switch key := constraint.Canonical(e.Key); key {
		case constraint.ZoneKey, constraint.ZoneIDKey, constraint.CapacityTypeKey:
		default:
			if t.leavesToOfferings(key) {
				e = constraint.Expr{Key: e.Key, Operator: constraint.DoesNotExist}
			}
			c.column(key).add(e, uint(v.First), uint(v.End))
		}
	}
	for i := v.First; i < v.End; i++ {
		o, at := c.offers[i].Offering, uint(i)
		c.column(constraint.ZoneKey).add(in(o.Zone), at, at+1)
		c.column(constraint.CapacityTypeKey).add(in(o.CapacityType), at, at+1)
		if o.ZoneID != "" {
			c.column(constraint.ZoneIDKey).add(in(o.ZoneID), at, at+1)
		}
		for _, e := range o.Requirements {
			col := c.column(constraint.Canonical(e.Key))
			col.remove(at)
			col.add(e, at, at+1)
		}
	}
}

// leavesToOfferings reports whether an offering of the type defines the key for itself.
func (t *InstanceType) leavesToOfferings(key string) bool {
	for i := range t.Offerings {
		for _, e := range t.Offerings[i].Requirements {
			if constraint.Canonical(e.Key) == key {
				return true
			}
		}
	}
	return false
}

func in(v string) constraint.Expr {
	return constraint.Expr{Operator: constraint.In, Values: []string{v}}
}

func (c *Catalog) column(key string) *column {
	col := c.columns[key]
	if col == nil {
		n := uint(len(c.offers))
		col = &column{open: c.all.Clone(), absent: bitset.New(n), values: map[string]*Set{}}
		c.columns[key] = col
	}
	return col
}

func (k *column) add(e constraint.Expr, from, to uint) {
	for i := from; i < to; i++ {
		k.open.Clear(i)
	}
	if e.Operator != constraint.In || len(e.Values) == 0 {
		k.absent.FlipRange(from, to)
		return
	}
	k.multi = k.multi || len(e.Values) > 1
	for _, v := range e.Values {
		s := k.values[v]
		if s == nil {
			s = bitset.New(k.open.Len())
			k.values[v] = s
		}
		for i := from; i < to; i++ {
			s.Set(i)
		}
	}
}

func (k *column) remove(at uint) {
	k.absent.Clear(at)
	k.open.Set(at)
	for _, s := range k.values {
		s.Clear(at)
	}
}

// finish sorts the names and adds to every value the offerings that leave the key open: they are in conflict with nothing.
func (k *column) finish() {
	k.names = slices.Sorted(maps.Keys(k.values))
	for _, name := range k.names {
		s := k.values[name]
		if k.open.Any() {
			s.InPlaceUnion(k.open)
		}
		if n, err := strconv.ParseInt(name, 10, 64); err == nil {
			k.ints = append(k.ints, intValue{n, s})
		}
	}
	slices.SortFunc(k.ints, func(a, b intValue) int { return cmp.Compare(a.n, b.n) })
}

func (c *Catalog) order() {
	c.byPrice = make([]int32, len(c.offers))
	for i := range c.byPrice {
		c.byPrice[i] = int32(i)
	}
	slices.SortFunc(c.byPrice, func(a, b int32) int {
		x, y := c.offers[a], c.offers[b]
		return cmp.Or(cmp.Compare(x.Price, y.Price), cmp.Compare(c.types[x.typ].Name, c.types[y.typ].Name), cmp.Compare(x.Zone, y.Zone), cmp.Compare(a, b))
	})
}

// sum computes the digest of everything a decision can depend on.
func (c *Catalog) sum() {
	h := fnv.New128a()
	b := make([]byte, 0, 4096)
	list := func(l units.List) {
		for _, k := range l.Names() {
			b = strconv.AppendInt(append(append(b, k...), 0), l[k], 36)
		}
		b = append(b, 1)
	}
	exprs := func(es []constraint.Expr) {
		for _, e := range es {
			b = append(append(append(append(b, e.Key...), 0), e.Operator...), 0)
			for _, v := range e.Values {
				b = append(append(b, v...), 0)
			}
		}
		b = append(b, 1)
	}
	for _, v := range c.variants {
		t := c.types[v.Type]
		b = append(append(b[:0], t.Name...), 0)
		list(v.Capacity)
		list(v.Allocatable)
		exprs(t.Requirements)
		for _, p := range t.Devices {
			x, _ := json.Marshal(p) // plain data: this cannot fail
			b = append(b, x...)
		}
		if t.PriceOverlay || t.CapacityOverlay {
			b = strconv.AppendBool(strconv.AppendBool(b, t.PriceOverlay), t.CapacityOverlay)
		}
		for i := v.First; i < v.End; i++ {
			o := c.offers[i]
			for _, s := range []string{o.Zone, o.ZoneID, o.CapacityType, o.ReservationID} {
				b = append(append(b, s...), 0)
			}
			exprs(o.Requirements)
			b = strconv.AppendInt(b, int64(o.ReservationCount), 36)
			b = strconv.AppendInt(append(b, 0), int64(o.Price), 36)
			b = strconv.AppendBool(append(b, 0), o.Available)
		}
		_, _ = h.Write(b) // a hash never fails
	}
	c.digest = fmt.Sprintf("%x", h.Sum(nil))
}

// Types returns the instance types in the order given to New.
func (c *Catalog) Types() []InstanceType { return c.types }

// Variants returns the types by allocatable; most types have one variant.
func (c *Catalog) Variants() []Variant { return c.variants }

// Digest identifies the content.
func (c *Catalog) Digest() string { return c.digest }

// Len is the number of offerings in the universe.
func (c *Catalog) Len() int { return len(c.offers) }

// Offer returns offering i and the index of its type.
func (c *Catalog) Offer(i int) (typ int, o *Offering) {
	return int(c.offers[i].typ), c.offers[i].Offering
}

// VariantOf returns the index of the variant that offering i belongs to.
func (c *Catalog) VariantOf(i int) int { return int(c.offers[i].variant) }

// All returns the set of all offerings.
func (c *Catalog) All() *Set { return c.all }

// Available returns the set of the offerings that can be bought at the moment.
func (c *Catalog) Available() *Set { return c.sellable }

// Keys returns the label keys that types or offerings define, ascending.
func (c *Catalog) Keys() []string { return slices.Sorted(maps.Keys(c.columns)) }

// Values returns the values that offerings in the set list for a key, ascending.
func (c *Catalog) Values(key string, in *Set) []string {
	col := c.columns[key]
	if col == nil {
		return nil
	}
	var out []string
	for _, name := range col.names {
		s := col.values[name]
		if n := s.IntersectionCardinality(in); n > 0 && (col.open.None() || n > col.open.IntersectionCardinality(in)) {
			out = append(out, name)
		}
	}
	return out
}

// Satisfying returns the offerings that are not in conflict with a requirement (scheduling rules 6.3, rule 2); nil stands for all of
// them.
func (c *Catalog) Satisfying(r constraint.Requirement) *Set {
	col := c.columns[r.Key]
	if col == nil {
		return nil
	}
	switch r.Operator() {
	case constraint.DoesNotExist:
		return col.open.Union(col.absent)
	case constraint.In:
		return col.anyOf(r.Values())
	default: // the rest is asked of each value, below
	}
	out := col.admitted(r)
	if r.AdmitsAbsent() {
		out.InPlaceUnion(col.absent)
	}
	return out
}

func (k *column) anyOf(values []string) *Set {
	if len(values) == 1 {
		if s := k.values[values[0]]; s != nil {
			return s
		}
	}
	out := k.open.Clone()
	for _, v := range values {
		if s := k.values[v]; s != nil {
			out.InPlaceUnion(s)
		}
	}
	return out
}

// admitted collects the values a deny requirement admits: by the sorted integers if it has bounds.
func (k *column) admitted(r constraint.Requirement) *Set {
	out := k.open.Clone()
	lo, hi, bounded := r.Bounds()
	if !bounded {
		for _, name := range k.names {
			if r.Admits(name) {
				out.InPlaceUnion(k.values[name])
			}
		}
		return out
	}
	from, _ := slices.BinarySearchFunc(k.ints, lo, func(v intValue, n int64) int { return cmp.Compare(v.n, n) })
	for _, v := range k.ints[from:] {
		if v.n > hi {
			break
		}
		if r.Admits(strconv.FormatInt(v.n, 10)) {
			out.InPlaceUnion(v.set)
		}
	}
	return out
}

// Narrow returns the offerings of from that are in conflict with none of the requirements; the result is the caller's. With a funnel it
// appends what was left after each key.
func (c *Catalog) Narrow(from *Set, rs constraint.Requirements, f *reason.Funnel) *Set {
	out := from.Clone()
	for r := range rs.All() {
		s := c.Satisfying(r)
		if s == nil {
			continue
		}
		out.InPlaceIntersection(s)
		if f != nil {
			*f = append(*f, c.Count(out, reason.LabelConflict, r.Key))
		}
	}
	return out
}

// Count describes a set for a funnel.
func (c *Catalog) Count(s *Set, code reason.Code, detail string) reason.Count {
	return reason.Count{Code: code, Detail: detail, Types: c.CountTypes(s), Offerings: int(s.Count())}
}

// CountTypes returns how many types have an offering in the set.
func (c *Catalog) CountTypes(s *Set) int {
	n, last := 0, int32(-1)
	for i, ok := s.NextSet(0); ok; i, ok = s.NextSet(i) {
		if t := c.offers[i].typ; t != last {
			n, last = n+1, t
		}
		i = uint(c.variants[c.offers[i].variant].End)
	}
	return n
}

// ByPrice yields the types that have an offering in the set, each with its cheapest one, by price and then name (scheduling rules 12.3).
func (c *Catalog) ByPrice(s *Set) iter.Seq2[int, int] {
	return func(yield func(typ, offer int) bool) {
		seen := bitset.New(uint(len(c.types)))
		for _, i := range c.byPrice {
			if t := uint(c.offers[i].typ); s.Test(uint(i)) && !seen.Test(t) {
				seen.Set(t)
				if !yield(int(t), int(i)) {
					return
				}
			}
		}
	}
}

// VariantsByPrice yields the variants that have an offering in the set, each with its cheapest one, by price and then name of the type.
func (c *Catalog) VariantsByPrice(s *Set) iter.Seq2[int, int] {
	return func(yield func(variant, offer int) bool) {
		seen := bitset.New(uint(len(c.variants)))
		for _, i := range c.byPrice {
			if v := uint(c.offers[i].variant); s.Test(uint(i)) && !seen.Test(v) {
				seen.Set(v)
				if !yield(int(v), int(i)) {
					return
				}
			}
		}
	}
}

// OffersByPrice yields the offerings of the set by price, then name of the type and zone.
func (c *Catalog) OffersByPrice(s *Set) iter.Seq[int] {
	return func(yield func(offer int) bool) {
		for _, i := range c.byPrice {
			if s.Test(uint(i)) && !yield(int(i)) {
				return
			}
		}
	}
}

// Cheapest returns the offering of the set with the lowest price (ties: type name, zone).
func (c *Catalog) Cheapest(s *Set) (offer int, ok bool) {
	for _, i := range c.byPrice {
		if s.Test(uint(i)) {
			return int(i), true
		}
	}
	return 0, false
}

// Fitting returns the offerings of from whose variant has the requested amounts free beyond its overhead (per variant, nil for none);
// the result is the caller's.
func (c *Catalog) Fitting(from *Set, request units.List, overhead func(variant int) units.List) *Set {
	out := from.Clone()
	for i, v := range c.variants {
		free := v.Allocatable
		if overhead != nil {
			if o := overhead(i); len(o) > 0 {
				free = free.Sub(o)
			}
		}
		if !units.Fits(request, free) {
			for j := v.First; j < v.End; j++ {
				out.Clear(uint(j))
			}
		}
	}
	return out
}

// Ensures reports whether every offering of the set satisfies the requirement for certain: all values it lists for the key are admitted,
// and one that lists none satisfies it by absence. known is false if the catalog does not know the key.
func (c *Catalog) Ensures(s *Set, r constraint.Requirement) (ok, known bool) {
	col := c.columns[r.Key]
	if col == nil {
		return false, false
	}
	if !r.AdmitsAbsent() && (s.IntersectionCardinality(col.open) > 0 || s.IntersectionCardinality(col.absent) > 0) {
		return false, true
	}
	for _, v := range c.Values(r.Key, s) {
		if !r.Admits(v) {
			return false, true
		}
	}
	return true, true
}

// Common is what all types in a set of offerings have in common.
type Common struct {
	Offers *Set
	Types  int
	// MinAllocatable and MaxCapacity are element-wise over the types; a resource that a type lacks counts as 0.
	MinAllocatable, MaxCapacity units.List
}

// Common describes the types that satisfy the requirements, whether they can be bought at the moment or not.
func (c *Catalog) Common(rs constraint.Requirements) Common {
	out := Common{Offers: c.Narrow(c.all, rs, nil)}
	out.Types = c.CountTypes(out.Offers)
	for _, v := range c.variants {
		if i, ok := out.Offers.NextSet(uint(v.First)); !ok || i >= uint(v.End) {
			continue
		}
		if out.MaxCapacity == nil {
			out.MinAllocatable, out.MaxCapacity = v.Allocatable.Clone(), v.Capacity.Clone()
			continue
		}
		for k, n := range out.MinAllocatable {
			out.MinAllocatable[k] = min(n, v.Allocatable[k])
		}
		out.MaxCapacity = out.MaxCapacity.Max(v.Capacity)
	}
	return out
}
