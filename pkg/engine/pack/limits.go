package pack

import (
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/units"
)

// budget is what a pool's limits leave for new claims (rules 13).
type budget struct {
	limited   bool
	remaining units.List // limits minus existing targets; planned claims are not subtracted
}

func (s *state) newBudgets() []*budget {
	used := map[string]units.List{}
	for _, t := range s.Targets {
		if t.Pool == "" {
			continue
		}
		if used[t.Pool] == nil {
			used[t.Pool] = units.List{}
		}
		for k, v := range t.Capacity {
			used[t.Pool][k] += v
		}
	}
	out := make([]*budget, len(s.Templates))
	for i, t := range s.Templates {
		b := &budget{limited: len(t.Pool.Limits) > 0, remaining: units.List{}}
		for k, v := range t.Pool.Limits {
			b.remaining[k] = v - used[t.Pool.Name][k]
		}
		out[i] = b
	}
	return out
}

// remaining is what limits leave beside the claims planned so far, each at the largest type it lists.
func (s *state) remaining(t *fit.Template) units.List {
	out := s.budgets[t.Index].remaining.Clone()
	for _, c := range s.claims {
		if c.tmpl != t || c.gone {
			continue
		}
		largest := s.largest(c)
		for k := range out {
			if k == units.Nodes {
				out[k]--
			} else {
				out[k] -= largest[k]
			}
		}
	}
	return out
}

// largest is the element-wise maximum capacity over the claim's types.
func (s *state) largest(c *claim) units.List {
	if c.largest == nil || c.largestOf != c.offers {
		c.largest, c.largestOf = largestOf(c.tmpl.Catalog, c.offers), c.offers
	}
	return c.largest
}

func largestOf(cat *catalog.Catalog, offers *catalog.Set) units.List {
	out := units.List{}
	for _, v := range cat.Variants() {
		if i, ok := offers.NextSet(uint(v.First)); ok && i < uint(v.End) {
			out = grow(out, v.Capacity)
		}
	}
	return out
}

func grow(l, m units.List) units.List {
	for k, v := range m {
		if v > l[k] {
			l[k] = v
		}
	}
	return l
}

// affordable returns the offerings of from whose type stays within the limits; the result is from itself if there are none.
func (s *state) affordable(t *fit.Template, from *catalog.Set) *catalog.Set {
	if !s.budgets[t.Index].limited {
		return from
	}
	left := s.remaining(t)
	out := from.Clone()
	if n, ok := left[units.Nodes]; ok && n <= 0 {
		return out.ClearAll()
	}
	for _, v := range t.Catalog.Variants() {
		for k, n := range left {
			if k != units.Nodes && v.Capacity[k] > n {
				for i := v.First; i < v.End; i++ {
					out.Clear(uint(i))
				}
				break
			}
		}
	}
	return out
}

// squeeze takes from the planned claims of a pool the types larger than the cheapest of each, so that more claims stay within the limits. It
// reports whether that freed anything.
func (s *state) squeeze(t *fit.Template) bool {
	freed := false
	for _, c := range s.claims {
		if c.tmpl != t || c.gone {
			continue
		}
		out := s.noLarger(t, c.offers)
		if out.Count() < c.offers.Count() && len(t.Shortfall(c.reqs, out)) == 0 {
			c.offers, freed = out, true
			s.hold(c)
		}
	}
	return freed
}

// noLarger returns the offerings of the types that are no larger than the cheapest in any limited resource.
func (s *state) noLarger(t *fit.Template, offers *catalog.Set) *catalog.Set {
	i, ok := t.Catalog.Cheapest(offers)
	if !ok {
		return offers
	}
	most := t.Catalog.Variants()[t.Catalog.VariantOf(i)].Capacity
	out := offers.Clone()
	for _, v := range t.Catalog.Variants() {
		for k := range s.budgets[t.Index].remaining {
			if v.Capacity[k] > most[k] {
				for j := v.First; j < v.End; j++ {
					out.Clear(uint(j))
				}
				break
			}
		}
	}
	return out
}
