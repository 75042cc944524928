package pack

import (
	"cmp"
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/units"
)

// mergeWidth is how many of the cheapest claims are tried against each other. Small claims are the ones that packing for price leaves by
// the side; for large ones a merger means another, no better type.
const mergeWidth = 24

// mergeClaims joins claims wherever one costs no more than the two: fewer nodes at the same price (rules 31.1, I5). Only claims of easy pods
// are moved; the claim they move to may hold any.
func (s *state) mergeClaims(easy []*easyGroup) {
	m := &merger{state: s, easy: map[*fit.Group]*easyGroup{}, on: map[*claim][]int{}, bins: map[*fit.Template][]bin{}, known: map[[2]int]pairing{}, left: map[*fit.Template]units.List{}}
	for _, e := range easy {
		m.easy[e.Group] = e
	}
	for i, p := range s.places {
		if p.claim != nil {
			m.on[p.claim] = append(m.on[p.claim], i)
		}
	}
	for n := 0; n < 2*mergeWidth && m.step(); n++ {
	}
	if m.merged {
		// The counts of topologies know the old hosts.
		s.forgetCounts()
	}
}

type merger struct {
	*state
	easy   map[*fit.Group]*easyGroup
	on     map[*claim][]int // indexes of places
	merged bool
	bins   map[*fit.Template][]bin      // all that a template sells
	known  map[[2]int]pairing           // results by claims, until one of them changes
	left   map[*fit.Template]units.List // what limits leave, until a claim changes
}

type pairing struct {
	trial
	ok bool
}

// step makes the merger that saves most; of equal ones that of the cheapest claims.
func (m *merger) step() bool {
	list := m.cheapest()
	var from, to *claim
	var best trial
	saved := units.Money(-1)
	for _, a := range list {
		if !m.movable(a) {
			continue
		}
		for _, b := range list {
			if a == b {
				continue
			}
			if t, ok := m.pair(a, b); ok && a.price+b.price-t.price > saved {
				from, to, best, saved = a, b, t, a.price+b.price-t.price
			}
		}
	}
	if from == nil || m.spent() {
		return false
	}
	to.reqs, to.offers, to.price = best.reqs, m.both(from, to, best.offers), best.price
	to.used.Add(from.used, 1)
	to.pods += from.pods
	to.ports = append(to.ports, from.ports...)
	from.gone, m.merged = true, true
	m.release(from)
	m.hold(to)
	for _, i := range m.on[from] {
		m.places[i].claim = to
	}
	m.on[to] = append(m.on[to], m.on[from]...)
	delete(m.on, from)
	clear(m.left)
	if m.budgets[to.tmpl.Index].limited || m.budgets[from.tmpl.Index].limited {
		clear(m.known) // what limits leave has changed for all
	}
	for key := range m.known {
		if key[0] == to.id || key[1] == to.id || key[0] == from.id || key[1] == from.id {
			delete(m.known, key)
		}
	}
	return true
}

// pair is joined with a memory, and without the work where no type at all is large and cheap enough.
func (m *merger) pair(a, b *claim) (trial, bool) {
	key := [2]int{a.id, b.id}
	have, ok := m.known[key]
	if !ok {
		m.steps++
		if m.conceivable(a, b) {
			have.trial, have.ok = m.joined(a, b)
		}
		m.known[key] = have
	}
	return have.trial, have.ok
}

func (m *merger) conceivable(a, b *claim) bool {
	bins, ok := m.bins[b.tmpl]
	if !ok {
		p := &packing{state: m.state, tmpl: b.tmpl}
		for d := range m.Axis.Len() {
			p.dims = append(p.dims, d)
		}
		bins = p.bins(b.tmpl.Offers)
		m.bins[b.tmpl] = bins
	}
	most := (a.price + b.price).Dollars()
search:
	for i := range bins {
		if bins[i].price > most+tiny {
			return false
		}
		for d, f := range bins[i].free {
			if a.used[d]+b.used[d] > f {
				continue search
			}
		}
		return true
	}
	return false
}

func (m *merger) cheapest() []*claim {
	var list []*claim
	for _, c := range m.claims {
		if !c.gone {
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b *claim) int { return cmp.Compare(a.price, b.price) })
	return list[:min(len(list), mergeWidth)]
}

func (m *merger) movable(c *claim) bool {
	return !slices.ContainsFunc(m.on[c], func(i int) bool { return m.easy[m.places[i].group] == nil })
}

// joined returns what b would be with the pods of a, if it may take them and costs no more than both.
func (m *merger) joined(a, b *claim) (trial, bool) {
	if _, conflict := a.reqs.Conflict(b.reqs); conflict && a.tmpl == b.tmpl {
		return trial{}, false
	}
	counts := map[*fit.Group]int{}
	reqs := b.reqs
	for _, i := range m.on[b] {
		counts[m.places[i].group] += m.places[i].to - m.places[i].from
	}
	for _, i := range m.on[a] {
		p := m.places[i]
		e := m.easy[p.group]
		if counts[p.group] += p.to - p.from; counts[p.group] > e.perNode || !m.opening(e.spec, b.tmpl).ok {
			return trial{}, false
		}
		add := e.in(e.domainOf(a))
		if _, ok := reqs.Compatible(add, constraint.WellKnownOptional); !ok {
			return trial{}, false
		}
		reqs = reqs.And(add)
	}
	t := trial{reqs: reqs, offers: tightened(b.tmpl.Catalog, b.offers, b.reqs, reqs)}
	if m.budgets[b.tmpl.Index].limited && len(b.held)+len(b.gear)+len(b.ports) == 0 { // b lists but the smallest types
		t.offers = unreserved(b.tmpl, tightened(b.tmpl.Catalog, b.tmpl.Offers, b.tmpl.Requirements, reqs))
	}
	return t, m.cheapestFor(a, b, &t)
}

// cheapestFor sets the trial's price to that of the cheapest offering that holds the pods of both claims. With minValues it also narrows the
// offerings, to count what they leave.
func (m *merger) cheapestFor(a, b *claim, t *trial) bool {
	cat := b.tmpl.Catalog
	allowed := m.allowed(a, b)
search:
	for i := range cat.OffersByPrice(t.offers) {
		_, o := cat.Offer(i)
		if o.Price > a.price+b.price {
			return false
		}
		for d, f := range b.tmpl.Free[cat.VariantOf(i)] {
			if a.used[d]+b.used[d] > f {
				continue search
			}
		}
		for k, n := range allowed {
			if cat.Variants()[cat.VariantOf(i)].Capacity[k] > n {
				continue search
			}
		}
		t.price = o.Price
		return len(b.tmpl.MinValues) == 0 || len(b.tmpl.Shortfall(t.reqs, m.both(a, b, t.offers))) == 0
	}
	return false
}

// allowed is the largest type that the pool's limits let the two claims have as one; nil without limits.
func (m *merger) allowed(a, b *claim) units.List {
	if !m.budgets[b.tmpl.Index].limited {
		return nil
	}
	left, ok := m.left[b.tmpl]
	if !ok {
		left = m.remaining(b.tmpl)
		delete(left, units.Nodes)
		m.left[b.tmpl] = left
	}
	out := left.Clone()
	for _, c := range []*claim{a, b} {
		if c.tmpl != b.tmpl {
			continue
		}
		for k := range out {
			out[k] += m.largest(c)[k]
		}
	}
	return out
}

// both returns the offerings that hold the pods of both claims; with limits those of types no larger than the cheapest that the limits allow.
func (m *merger) both(a, b *claim, offers *catalog.Set) *catalog.Set {
	used := slices.Clone(b.used)
	used.Add(a.used, 1)
	out := m.holding(host{tmpl: b.tmpl, used: used}, offers, m.zero, 1)
	allowed := m.allowed(a, b)
	if allowed == nil {
		return out
	}
	for _, v := range b.tmpl.Catalog.Variants() {
		for k, n := range allowed {
			if v.Capacity[k] > n {
				for j := v.First; j < v.End; j++ {
					out.Clear(uint(j))
				}
				break
			}
		}
	}
	few := m.noLarger(b.tmpl, out)
	if len(b.tmpl.Shortfall(b.reqs, few)) > 0 {
		return out
	}
	return few
}

// domainOf is the domain that a claim with pods of the group is in, empty if the group is not spread.
func (e *easyGroup) domainOf(c *claim) string {
	if e.spread == nil {
		return ""
	}
	r, _ := c.reqs.Get(e.spread.Key)
	d, _ := r.Single()
	return d
}
