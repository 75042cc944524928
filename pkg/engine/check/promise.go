package check

import (
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// contents checks what a claim says about itself: the pool's class and taints, requests that cover its pods, and the offering its price is of.
func (c *checker) contents(x *spot, pool *cluster.Pool, used units.List) {
	cl := x.claim
	if cl.NodeClass != pool.NodeClass || cl.PoolUID != pool.UID || cl.PoolGeneration != pool.Generation {
		c.failf("%s: class, UID or generation are not those of pool %s", x.name, pool.Name)
	}
	if !slices.Equal(cl.Taints, pool.Taints) || !slices.Equal(cl.StartupTaints, pool.StartupTaints) {
		c.failf("%s: taints are not those of pool %s", x.name, pool.Name)
	}
	if !units.Fits(used, cl.Requests) {
		c.failf("%s: requests %v do not cover the pods' %v", x.name, cl.Requests, used)
	}
	if len(cl.Types) > 0 && cl.CheapestType != cl.Types[0] {
		c.failf("%s: cheapest type is %s, not %s", x.name, cl.Types[0], cl.CheapestType)
	}
	if seen := slices.Sorted(slices.Values(cl.Types)); len(slices.Compact(seen)) != len(cl.Types) {
		c.failf("%s: lists a type twice", x.name)
	}
	for _, t := range pool.Catalog.Types() {
		if t.Name != cl.CheapestType {
			continue
		}
		for _, o := range t.Offerings {
			if o.Available && o.Zone == cl.CheapestZone && o.CapacityType == cl.CheapestBuyAs && o.Price == cl.Price {
				return
			}
		}
	}
	c.failf("%s: no offering of %s in %s as %s costs %v", x.name, cl.CheapestType, cl.CheapestZone, cl.CheapestBuyAs, cl.Price)
}

// minValues checks rules 14: the listed types have enough different values, unless the policy lets the claim lower the number.
func (c *checker) minValues(x *spot, pool *cluster.Pool) {
	least := map[string]int{}
	for _, e := range pool.Requirements {
		if !c.s.Settings.BestEffortMinValues {
			least[constraint.Canonical(e.Key)] = max(least[constraint.Canonical(e.Key)], e.MinValues)
		}
	}
	for _, e := range x.claim.Requirements {
		least[constraint.Canonical(e.Key)] = max(least[constraint.Canonical(e.Key)], e.MinValues)
	}
	for key, n := range least {
		values := map[string]bool{}
		own, restricted := x.reqs.Get(key)
		types := pool.Catalog.Types()
		for i := range types {
			r, ok := c.typeReqs(&types[i]).Get(key)
			if !ok || !slices.Contains(x.claim.Types, types[i].Name) {
				continue
			}
			for _, v := range r.Values() {
				values[v] = values[v] || !restricted || own.Admits(v)
			}
		}
		have := 0
		for _, admitted := range values {
			if admitted {
				have++
			}
		}
		if have < n {
			c.failf("%s: types have %d values of %s, minValues is %d", x.name, have, key, n)
		}
	}
}

// preferences checks rules 16 for pods without ties: the heaviest preference of node affinity holds if some pool certainly offers a node for
// which it does, and a taint PreferNoSchedule is accepted only if no pool does without.
func (c *checker) preferences() {
	seen := map[string]bool{}
	for _, x := range c.places {
		for _, pod := range x.fresh {
			if key := x.name + pod.Shape.Key; seen[key] || c.repelled(pod) {
				continue
			} else {
				seen[key] = true
			}
			if tied(plain(pod.Shape)) || len(pod.Shape.Preferred) == 0 && !c.soft(x) {
				continue
			}
			want := pod.Shape
			if len(want.Preferred) > 0 && !c.s.Settings.IgnorePreferences {
				want = preferring(want)
			}
			if len(want.Preferred) == 0 && !c.meets(x, want) && c.anyPoolHosts(want) {
				c.failf("%s: pod %s is not where it prefers to be, or is where a taint says it had better not", x.name, pod.Name)
			}
		}
	}
}

// plain is the shape without preferences of node affinity.
func plain(s *cluster.Shape) *cluster.Shape {
	out := *s
	out.Preferred = nil
	return &out
}

// soft reports whether a spot has a taint that pods had better avoid.
func (c *checker) soft(x *spot) bool {
	taints := []constraint.Taint{}
	if x.target != nil {
		taints = x.target.Taints
	} else if pool := c.pools[x.claim.Pool]; pool != nil {
		taints = pool.Taints
	}
	return slices.ContainsFunc(taints, func(t constraint.Taint) bool { return t.Effect == constraint.PreferNoSchedule })
}

// preferring is the shape with its heaviest preferred term required.
func preferring(s *cluster.Shape) *cluster.Shape {
	best := s.Preferred[0]
	for _, p := range s.Preferred[1:] {
		if p.Weight > best.Weight {
			best = p
		}
	}
	out := *s
	out.Preferred = nil
	terms := s.Required
	if len(terms) == 0 {
		terms = []cluster.NodeTerm{{}}
	}
	out.Required = nil
	for _, t := range terms {
		out.Required = append(out.Required, cluster.NodeTerm{Exprs: append(slices.Clone(t.Exprs), best.Exprs...), MatchFields: t.MatchFields})
	}
	return cluster.NewShape(out)
}

// meets reports whether a spot suits a shape without any taint against it.
func (c *checker) meets(x *spot, s *cluster.Shape) bool {
	if x.target != nil {
		return !repels(x.target.Taints, s) && c.nodeTakes(x.target, s)
	}
	pool := c.pools[x.claim.Pool]
	if pool == nil || pool.Catalog == nil {
		return true // reported elsewhere
	}
	if repels(pool.Taints, s) {
		return false
	}
	types := pool.Catalog.Types()
	for i := range types {
		if slices.Contains(x.claim.Types, types[i].Name) {
			if _, ok := c.typeHolds(x, pool, &types[i], units.List{}, map[*cluster.Shape]bool{s: true}); !ok {
				return false
			}
		}
	}
	return true
}

func repels(taints []constraint.Taint, s *cluster.Shape) bool {
	return slices.ContainsFunc(taints, func(t constraint.Taint) bool { return !constraint.Tolerates(s.Tolerations, t) })
}

// anyPoolHosts reports whether some pool certainly has a node for one pod of the shape.
func (c *checker) anyPoolHosts(s *cluster.Shape) bool {
	return slices.ContainsFunc(c.s.Pools, func(q *cluster.Pool) bool { return unlimited(q) && c.poolHosts(q, s) })
}

// refusals checks I7 for pods without ties: none is refused that some pool certainly has a node for.
func (c *checker) refusals() {
	if c.p.Cut {
		return
	}
	for _, v := range c.p.Verdicts {
		if pod := c.pods[v.Pod]; pod != nil && !v.Ignored && !c.waits(pod, v) && !c.repelled(pod) && c.anyPoolHosts(pod.Shape) {
			c.failf("pod %s is refused (%s) although a pool could host it", pod.Name, v.Code)
		}
	}
}
