package pack

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
)

// item is what the packer counts: the pods of an easy group that go to one domain.
type item struct {
	*easyGroup
	domain string
	open   *easyOpening
	custom string // requirements on labels that the catalogue does not know
}

// packing fills new claims of one template for price: column generation over items, then rounding (see README).
type packing struct {
	*state
	tmpl    *fit.Template
	items   []*item
	demand  []int32
	dims    []int // resources that some item asks for
	markets []market
	weights [][]float64
	sack    *knapsack
	columns []column // found so far
	lp      master
	known   map[string]trial // what items ask together, by their numbers
	// values are what a pod of each item is worth, by the first relaxation; nearly is the part of a column from which on it is bought whole.
	values []float64
	nearly float64
}

// filling is a column to buy a number of times.
type filling struct {
	column
	copies int
}

// packEasy places easy groups: on existing targets, then on claims bought for price, template by template in their order.
func (s *state) packEasy(easy []*easyGroup) {
	if len(easy) == 0 {
		return
	}
	if len(s.targets) > 0 {
		s.fillExisting(easy, s.worth(easy))
	}
	s.fillPlanned(easy)
	s.buy(easy)
	s.mergeClaims(easy)
}

// buy opens claims for price, template by template in their order. What a template's limits or minValues refuse goes to the next one.
func (s *state) buy(easy []*easyGroup) {
	for range len(s.Templates) {
		buckets := s.buckets(easy)
		placed := 0
		for i, t := range s.Templates {
			if len(buckets[i]) > 0 {
				placed += s.packTemplate(t, buckets[i])
			}
		}
		if placed == 0 {
			return
		}
	}
}

// worth is what a pod of each easy group costs on a new node, and what the resources do.
type worth struct {
	value []float64
	rate  []float64
}

func (s *state) worth(easy []*easyGroup) worth {
	w := worth{value: make([]float64, len(easy)), rate: make([]float64, s.Axis.Len())}
	at := map[*fit.Group]int{}
	for i, e := range easy {
		at[e.Group] = i
	}
	buckets := s.buckets(easy)
	for i, t := range s.Templates {
		if len(buckets[i]) == 0 {
			continue
		}
		p := s.newPacking(t, buckets[i])
		duals := p.worths()
		for j, x := range p.items {
			w.value[at[x.Group]] = math.Max(w.value[at[x.Group]], duals[j])
		}
		for k, d := range p.dims {
			w.rate[d] = math.Max(w.rate[d], p.sack.rate[k])
		}
	}
	return w
}

// worths is what one more pod of each item costs.
func (p *packing) worths() []float64 {
	if !p.opts.Quick {
		return p.prices()
	}
	p.rates()
	out := make([]float64, len(p.items))
	for i := range p.items {
		for r := range p.dims {
			out[i] += float64(p.sack.rate[r] * float64(p.sack.size[i*len(p.dims)+r]))
		}
	}
	return out
}

// fillPlanned puts easy pods into planned claims where that costs nothing more.
func (s *state) fillPlanned(easy []*easyGroup) {
	for _, c := range s.claims {
		for _, e := range easy {
			if s.left[e.Index] == 0 || e.spread != nil || s.spent() || c.refuses[e.spec] {
				continue
			}
			for {
				t, ok := s.join(e.spec, c, s.left[e.Index])
				if !ok || t.price > c.price {
					break
				}
				s.putClaim(e.spec, c, t)
				if s.left[e.Index] == 0 {
					break
				}
			}
		}
	}
}

// buckets sorts what is left by the first template that can host it.
func (s *state) buckets(easy []*easyGroup) [][]*item {
	out := make([][]*item, len(s.Templates))
	add := func(e *easyGroup, domain string) {
		if t := s.firstTemplate(e, domain); t != nil {
			out[t.Index] = append(out[t.Index], &item{easyGroup: e, domain: domain, open: s.easyOpening(e, domain, t)})
		}
	}
	for _, e := range easy {
		switch {
		case s.left[e.Index] == 0:
		case e.spread == nil:
			add(e, "")
		default:
			for _, d := range sortedDomains(e.quota) {
				add(e, d)
			}
		}
	}
	return out
}

func sortedDomains(quota map[string]int) []string {
	var out []string
	for d, n := range quota {
		if n > 0 {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return out
}

// wanted is how many pods of the item have no place yet.
func (s *state) wanted(x *item) int {
	if x.spread == nil {
		return s.left[x.Index]
	}
	return min(x.quota[x.domain], s.left[x.Index])
}

func (s *state) packTemplate(t *fit.Template, items []*item) int {
	p := s.newPacking(t, items)
	placed := 0
	for _, f := range p.solve() {
		for range f.copies {
			k := p.openFilling(&f.column)
			if k == 0 {
				break
			}
			placed += k
		}
	}
	return placed
}

func (s *state) newPacking(t *fit.Template, items []*item) *packing {
	p := &packing{state: s, tmpl: t, items: items, demand: make([]int32, len(items)), nearly: 0.7}
	used := make([]bool, s.Axis.Len())
	for i, x := range items {
		p.demand[i] = int32(s.wanted(x))
		x.custom = p.customOf(x)
		for d, n := range x.Request {
			used[d] = used[d] || n > 0
		}
	}
	for d, ok := range used {
		if ok {
			p.dims = append(p.dims, d)
		}
	}
	size, caps := make([]int64, 0, len(items)*len(p.dims)), make([]int32, len(items))
	for i, x := range items {
		for _, d := range p.dims {
			size = append(size, x.Request[d])
		}
		caps[i] = min(p.demand[i], int32(min(x.perNode, math.MaxInt32)))
	}
	p.sack = newKnapsack(size, len(p.dims), caps)
	p.findMarkets()
	p.weigh()
	return p
}

// customOf spells the requirements of an item on labels that are not the catalogue's: only items with equal ones may share a claim.
func (p *packing) customOf(x *item) string {
	out := ""
	for r := range x.open.reqs.All() {
		if old, ok := p.tmpl.Requirements.Get(r.Key); ok && old.Equal(r) {
			continue
		}
		if p.tmpl.Catalog.Satisfying(r) == nil {
			out += r.String() + ";"
		}
	}
	return out
}

// maxMarkets bounds how many combinations of restrictions are looked at; the rest of the combinations can still meet on a claim later.
const maxMarkets = 48

// findMarkets collects the distinct sets of offerings that items may use, and their pairwise intersections.
func (p *packing) findMarkets() {
	type candidate struct {
		offers *catalog.Set
		custom string
	}
	var list []candidate
	seen := map[string]bool{}
	add := func(offers *catalog.Set, custom string) {
		key := custom + "|" + setKey(offers)
		if !seen[key] && offers.Any() && len(list) < maxMarkets {
			seen[key] = true
			list = append(list, candidate{offers, custom})
		}
	}
	for _, x := range p.items {
		add(x.open.offers, x.custom)
	}
	for i, n := 0, len(list); i < n; i++ {
		for j := i + 1; j < n; j++ {
			if a, b := list[i], list[j]; a.custom == "" || b.custom == "" || a.custom == b.custom {
				add(a.offers.Intersection(b.offers), cmp.Or(a.custom, b.custom))
			}
		}
	}
	for _, c := range list {
		m := market{bins: p.bins(p.affordable(p.tmpl, c.offers))}
		for i, x := range p.items {
			if (x.custom == "" || x.custom == c.custom) && x.open.offers.IsSuperSet(c.offers) {
				m.items = append(m.items, int32(i))
			}
		}
		if len(m.bins) > 0 && len(m.items) > 0 {
			p.markets = append(p.markets, m)
		}
	}
}

func setKey(s *catalog.Set) string {
	b := make([]byte, 0, len(s.Words())*8)
	for _, w := range s.Words() {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return string(b)
}

// bins returns the types of a set of offerings, without those for which another is no smaller and no dearer.
func (p *packing) bins(offers *catalog.Set) []bin {
	var out []bin
next:
	for v, i := range p.tmpl.Catalog.VariantsByPrice(offers) {
		free := make([]int64, len(p.dims))
		for k, d := range p.dims {
			free[k] = p.tmpl.Free[v][d]
			if free[k] < 0 {
				continue next
			}
		}
		_, o := p.tmpl.Catalog.Offer(i)
		price := max(o.Price, 1).Dollars()
		for j := len(out) - 1; j >= 0; j-- {
			if atLeast(out[j].free, free) {
				continue next
			}
			if out[j].price == price && atLeast(free, out[j].free) {
				out = slices.Delete(out, j, j+1)
			}
		}
		out = append(out, bin{variant: v, free: free, price: price})
	}
	return out
}

func atLeast(a, b []int64) bool {
	for i := range a {
		if a[i] < b[i] {
			return false
		}
	}
	return true
}

// weigh chooses by which measures of size items are sorted: the shapes of the extreme and the middle bins, and each of the first resources
// alone.
func (p *packing) weigh() {
	var all []bin
	for _, m := range p.markets {
		all = append(all, m.bins...)
	}
	if len(all) == 0 {
		return
	}
	ratio := func(b bin) float64 {
		if len(b.free) < 2 || b.free[0] == 0 {
			return 0
		}
		return float64(b.free[1]) / float64(b.free[0])
	}
	slices.SortStableFunc(all, func(a, b bin) int { return cmp.Compare(ratio(a), ratio(b)) })
	for _, b := range []bin{all[len(all)/2], all[0], all[len(all)-1]} {
		p.weights = append(p.weights, inverseOf(b.free))
	}
	for d := range min(2, len(p.dims)) {
		w := make([]float64, len(p.dims))
		w[d] = inverseOf(all[len(all)/2].free)[d]
		p.weights = append(p.weights, w)
	}
}

func inverseOf(free []int64) []float64 {
	w := make([]float64, len(free))
	for d, f := range free {
		if f > 0 {
			w[d] = 1 / float64(f)
		}
	}
	return w
}

// together returns what items ask of a claim and the offerings that all of them may use. Many claims hold the same items.
func (p *packing) together(items []int32) (constraint.Requirements, *catalog.Set) {
	key := make([]byte, 0, 4*len(items))
	for _, i := range items {
		key = binary.LittleEndian.AppendUint32(key, uint32(i))
	}
	if t, ok := p.known[string(key)]; ok {
		return t.reqs, t.offers
	}
	first := p.items[items[0]].open
	t := trial{reqs: first.reqs, offers: first.offers}
	for _, i := range items[1:] {
		t.reqs = t.reqs.And(p.items[i].open.reqs)
		if !p.items[i].open.offers.IsSuperSet(t.offers) {
			t.offers = t.offers.Intersection(p.items[i].open.offers)
		}
	}
	if p.known == nil {
		p.known = map[string]trial{}
	}
	p.known[string(key)] = t
	return t.reqs, t.offers
}

// openFilling opens a claim for a column as far as demand, limits and minValues let it; it returns the number of pods placed.
func (p *packing) openFilling(c *column) int {
	p.steps++
	h := host{tmpl: p.tmpl, used: make([]int64, p.Axis.Len())}
	t := trial{}
	t.reqs, t.offers = p.together(c.items)
	for k, i := range c.items {
		x := p.items[i]
		if int(c.counts[k]) > p.wanted(x) {
			return 0
		}
		h.used.Add(x.Request, int64(c.counts[k]))
	}
	t.offers = p.holding(h, p.affordable(p.tmpl, t.offers), p.zero, 1)
	t, ok := t.priced(p.tmpl)
	if !ok || len(p.tmpl.MinValues) > 0 && len(p.tmpl.Shortfall(t.reqs, t.offers)) > 0 {
		return 0
	}
	if p.budgets[p.tmpl.Index].limited {
		// What it may list beyond that is decided when all claims are known, see widen.
		if few := p.noLarger(p.tmpl, t.offers); len(p.tmpl.Shortfall(t.reqs, few)) == 0 {
			t.offers = few
		}
	}
	on := p.newClaim(p.tmpl)
	on.reqs, on.offers, on.price, on.used = t.reqs, t.offers, t.price, h.used
	n := 0
	for k, i := range c.items {
		x := p.items[i]
		p.put(x.spec, int(c.counts[k]), -1, on)
		x.took(x.domain, int(c.counts[k]))
		n += int(c.counts[k])
	}
	return n
}
