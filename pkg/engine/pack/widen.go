package pack

import (
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/units"
)

// A claim of a pool with limits is flexible when it lists as many types as EC2 wants for spot, and keeps getting more until it lists as many as
// a launch request takes (AWS specification: 15 and 60).
const (
	flexible  = 15
	plentiful = 60
)

// widen shares out what the limits of pools leave beside the planned claims. Each claim counts with the largest type it lists (rules 13), so a
// claim is opened with types no larger than its cheapest or, by the queue rules, with all that the limits leave then. Where one is not flexible, all of
// the pool are cut down to the former. Then they may list larger ones in turn, those with the fewest types first, as long as the sum stays within the
// limits (31.2).
func (s *state) widen() {
	for _, t := range s.Templates {
		if !s.budgets[t.Index].limited {
			continue
		}
		w := s.newWidening(t)
		if w.lacks(flexible) {
			s.squeeze(t)
		}
		for k, name := range w.keys {
			w.left[k] = s.remaining(t)[name]
		}
		for _, x := range w.shares {
			x.open(w, s.largest(x.claim))
		}
		for _, target := range []int{flexible, plentiful} {
			for w.step(target) {
				s.steps++
			}
		}
	}
}

func (w *widening) lacks(types int) bool {
	return slices.ContainsFunc(w.shares, func(x *share) bool { return x.types < types })
}

// widening shares out the rest of one pool's limits.
type widening struct {
	tmpl   *fit.Template
	keys   []string  // limited resources
	sizes  [][]int64 // of them, by variant
	left   []int64
	shares []*share
}

// share is a claim with what it could list if there were no limits.
type share struct {
	*claim
	all    *catalog.Set
	types  int
	size   []int64 // the largest it lists
	larger []int   // variants it does not list, by price
	stuck  bool
}

func (s *state) newWidening(t *fit.Template) *widening {
	w := &widening{tmpl: t}
	for _, k := range s.budgets[t.Index].remaining.Names() {
		if k != units.Nodes {
			w.keys = append(w.keys, k)
		}
	}
	w.left = make([]int64, len(w.keys))
	for _, v := range t.Catalog.Variants() {
		size := make([]int64, len(w.keys))
		for k, name := range w.keys {
			size[k] = v.Capacity[name]
		}
		w.sizes = append(w.sizes, size)
	}
	for _, c := range s.claims {
		// Those on reservations stay as they are, as do those whose devices or host ports decide about types.
		if c.tmpl != t || c.gone || len(c.held)+len(c.gear) > 0 || len(c.ports) > 0 && t.HasDaemonPorts() {
			continue
		}
		x := &share{claim: c, types: t.Catalog.CountTypes(c.offers)}
		x.all = unreserved(t, tightened(t.Catalog, t.Offers, t.Requirements, c.reqs))
		x.all = s.holding(host{tmpl: t, used: c.used}, x.all, s.zero, 1)
		w.shares = append(w.shares, x)
	}
	return w
}

func unreserved(t *fit.Template, offers *catalog.Set) *catalog.Set {
	if t.Reserved == nil {
		return offers
	}
	return offers.Difference(t.Reserved)
}

// open starts with what the claim lists now.
func (x *share) open(w *widening, largest units.List) {
	x.types = w.tmpl.Catalog.CountTypes(x.offers)
	for _, name := range w.keys {
		x.size = append(x.size, largest[name])
	}
	for v, i := range w.tmpl.Catalog.VariantsByPrice(x.all) {
		if !x.offers.Test(uint(i)) {
			x.larger = append(x.larger, v)
		}
	}
}

// step lets the claim with the fewest types, below the target, list the next larger ones; it returns false when there is none.
func (w *widening) step(target int) bool {
	var x *share
	for _, y := range w.shares {
		if !y.stuck && y.types < target && (x == nil || y.types < x.types) {
			x = y
		}
	}
	if x == nil {
		return false
	}
	v := w.next(x)
	if v < 0 {
		x.stuck = true
		return true
	}
	for k, n := range w.sizes[v] {
		if more := n - x.size[k]; more > 0 {
			x.size[k], w.left[k] = n, w.left[k]-more
		}
	}
	offers := x.offers.Clone()
	x.larger = slices.DeleteFunc(x.larger, func(v int) bool {
		if w.larger(x, v) {
			return false
		}
		variant := w.tmpl.Catalog.Variants()[v]
		for i, ok := x.all.NextSet(uint(variant.First)); ok && i < uint(variant.End); i, ok = x.all.NextSet(i + 1) {
			offers.Set(i)
		}
		return true
	})
	x.offers, x.types = offers, w.tmpl.Catalog.CountTypes(offers)
	return true
}

// next returns the variant for which the claim's largest type grows least, by the part it takes of what the limits leave; of equal ones the
// cheapest; -1 if none stays within.
func (w *widening) next(x *share) int {
	best, least := -1, 0.0
	for _, v := range x.larger {
		cost, fits := 0.0, true
		for k, n := range w.sizes[v] {
			if more := n - x.size[k]; more > 0 {
				fits = fits && more <= w.left[k]
				cost = max(cost, float64(more)/float64(max(w.left[k], 1)))
			}
		}
		if fits && (best < 0 || cost < least) {
			best, least = v, cost
		}
	}
	return best
}

// larger reports whether the variant is larger than what the claim lists in some limited resource.
func (w *widening) larger(x *share, v int) bool {
	for k, n := range w.sizes[v] {
		if n > x.size[k] {
			return true
		}
	}
	return false
}
