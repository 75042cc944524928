package check

import (
	"fmt"
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// domains returns the values of a key that a spot can have; single tells that there is just one and it is certain. A nil slice without single
// means that it has none.
func (c *checker) domains(x *spot, key string) (vs []string, single bool) {
	key = constraint.Canonical(key)
	if key == constraint.HostnameKey {
		if x.target != nil {
			return []string{x.target.Host}, true
		}
		return []string{x.name}, true
	}
	if x.target != nil {
		if v, ok := x.target.Labels[key]; ok {
			return []string{v}, true
		}
		if !x.target.Pending {
			return nil, false
		}
		r, ok := x.target.Requirements.Get(key)
		if v, one := r.Single(); ok && one {
			return []string{v}, true
		}
		return nil, false
	}
	r, ok := x.reqs.Get(key)
	if v, one := r.Single(); ok && one {
		return []string{v}, true
	}
	pool := c.pools[x.claim.Pool]
	if pool == nil || pool.Catalog == nil {
		return nil, false
	}
	for _, v := range pool.Catalog.Values(key, pool.Catalog.Narrow(pool.Catalog.Available(), x.reqs, nil)) {
		if !ok || r.Admits(v) {
			vs = append(vs, v)
		}
	}
	return vs, len(vs) == 1
}

func (c *checker) topology() {
	c.keepApart()
	done := map[*cluster.Shape]map[string]bool{}
	for _, x := range c.places {
		for _, pod := range x.fresh {
			c.together(x, pod)
			app := ""
			for k, v := range pod.Labels {
				app = max(app, k+"="+v)
			}
			where := x.name + "/" + app
			if done[pod.Shape] == nil {
				done[pod.Shape] = map[string]bool{}
			}
			if !done[pod.Shape][where] {
				done[pod.Shape][where] = true
				c.spread(x, pod)
			}
		}
	}
}

// covers reports whether a term of owner selects other.
func (c *checker) covers(owner *cluster.Pod, t cluster.PodTerm, other *cluster.Pod) bool {
	if !t.Selector.Matches(other.Labels) {
		return false
	}
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		return owner.Namespace == other.Namespace
	}
	return slices.Contains(t.Namespaces, other.Namespace) || t.NamespaceSelector.Matches(c.s.Namespaces[other.Namespace])
}

// keepApart checks required anti-affinity between every two pods of which at least one is new.
func (c *checker) keepApart() {
	type at struct {
		x     *spot
		pod   *cluster.Pod
		fresh bool
	}
	var all, owners []at
	for _, x := range c.places {
		for _, pod := range x.fresh {
			all = append(all, at{x, pod, true})
		}
		for _, pod := range x.old {
			all = append(all, at{x, pod, false})
		}
	}
	for _, a := range all {
		if len(a.pod.Shape.AntiAffinity.Required) > 0 {
			owners = append(owners, a)
		}
	}
	for _, o := range owners {
		for _, t := range o.pod.Shape.AntiAffinity.Required {
			mine, _ := c.domains(o.x, t.TopologyKey)
			for _, a := range all {
				if a.pod == o.pod || !a.fresh && !o.fresh || a.x != o.x && t.TopologyKey == constraint.HostnameKey || !c.covers(o.pod, t, a.pod) {
					continue
				}
				if !a.fresh && !a.pod.Deleted.IsZero() {
					continue // a terminating pod does not count for new ones
				}
				theirs, _ := c.domains(a.x, t.TopologyKey)
				if slices.ContainsFunc(mine, func(d string) bool { return slices.Contains(theirs, d) }) {
					c.failf("%s: %s must be apart from %s on %s by %s", o.x.name, o.pod.Name, a.pod.Name, a.x.name, t.TopologyKey)
				}
			}
		}
	}
}

// together checks required affinity: a match in the same domain, or a pod that matches itself.
func (c *checker) together(x *spot, pod *cluster.Pod) {
	for _, t := range pod.Shape.PodAffinity.Required {
		mine, single := c.domains(x, t.TopologyKey)
		found := false
		for _, y := range c.places {
			theirs, ok := c.domains(y, t.TopologyKey)
			if !ok || !single && len(mine) == 0 || len(theirs) != 1 || !slices.Contains(mine, theirs[0]) {
				continue
			}
			for _, other := range append(slices.Clone(y.fresh), y.old...) {
				found = found || other != pod && c.covers(pod, t, other)
			}
		}
		if !found && !c.covers(pod, t, pod) {
			c.failf("%s: %s has no pod it wants to be with by %s", x.name, pod.Name, t.TopologyKey)
		}
	}
}

// spread checks hard spread constraints after everything was placed.
func (c *checker) spread(x *spot, pod *cluster.Pod) {
	for _, s := range pod.Shape.Spread {
		if !s.Hard {
			continue
		}
		d, single := c.domains(x, s.Key)
		if !single {
			c.failf("%s: %s is spread by %s but its domain is open", x.name, pod.Name, s.Key)
			continue
		}
		if !slices.ContainsFunc(c.strictTerms(pod.Shape), func(strict constraint.Requirements) bool { return c.skewHolds(pod, s, d[0], strict) }) {
			c.failf("%s: %s breaks its spread by %s in %s", x.name, pod.Name, s.Key, d[0])
		}
	}
}

func (c *checker) strictTerms(s *cluster.Shape) []constraint.Requirements {
	base := constraint.FromLabels(s.NodeSelector)
	if len(s.Required) == 0 {
		return []constraint.Requirements{base}
	}
	var out []constraint.Requirements
	for _, t := range s.Required {
		out = append(out, base.And(constraint.Parse(t.Exprs)))
	}
	return out
}

func (c *checker) skewHolds(pod *cluster.Pod, s cluster.Spread, domain string, strict constraint.Requirements) bool {
	key := constraint.Canonical(s.Key)
	selects := func(other *cluster.Pod) bool {
		if other.Namespace != pod.Namespace || !s.Selector.Matches(other.Labels) {
			return false
		}
		for _, k := range s.MatchLabelKeys {
			if v, ok := pod.Labels[k]; ok && other.Labels[k] != v {
				return false
			}
		}
		return true
	}
	// The rule holds at the moment a pod is placed. Pods of other shapes that count too may come before or after; so the domain is judged by
	// what is certainly there, pods of this shape and those bound before, and the floor by everything. For a pod that does not count itself the
	// rule is about the domain as it is, for another about the domain with it.
	all := c.countsOf(pod, s, "all", selects)
	own := c.countsOf(pod, s, "own", func(other *cluster.Pod) bool {
		return selects(other) && (c.placed[other.UID] == nil || other.Shape == pod.Shape)
	})
	return own[domain]-c.floor(key, s, pod.Shape, strict, all) <= int(s.MaxSkew)
}

// countsOf counts the selected pods by domain once everything is placed; pods of a shape with equal labels share the result.
func (c *checker) countsOf(pod *cluster.Pod, s cluster.Spread, kind string, selects func(*cluster.Pod) bool) map[string]int {
	key := constraint.Canonical(s.Key)
	id := fmt.Sprintf("%s/%s/%s/%v/%v", kind, pod.Shape.Key, key, s, pod.Labels)
	if s.Selector != nil {
		id += fmt.Sprint(*s.Selector)
	}
	if have, ok := c.counts[id]; ok {
		return have
	}
	out := map[string]int{}
	for _, y := range c.places {
		d, single := c.domains(y, key)
		if !single || y.target != nil && !c.nodeCounts(y.target, pod.Shape, s) || y.claim != nil && !c.claimCounts(y, pod.Shape, s) {
			continue
		}
		for _, other := range y.fresh {
			if selects(other) {
				out[d[0]]++
			}
		}
		for _, other := range y.old {
			if selects(other) && other.Deleted.IsZero() && y.target.Node != nil {
				out[d[0]]++
			}
		}
	}
	if c.counts == nil {
		c.counts = map[string]map[string]int{}
	}
	c.counts[id] = out
	return out
}

func (c *checker) claimCounts(x *spot, shape *cluster.Shape, s cluster.Spread) bool {
	if pool := c.pools[x.claim.Pool]; s.HonorTaints && pool != nil {
		for _, t := range pool.Taints {
			if !constraint.Tolerates(shape.Tolerations, t) {
				return false
			}
		}
	}
	return !s.HonorAffinity || slices.ContainsFunc(c.strictTerms(shape), func(r constraint.Requirements) bool {
		_, ok := x.reqs.Compatible(r, constraint.Strict)
		return ok
	})
}

func (c *checker) nodeCounts(t *cluster.Target, shape *cluster.Shape, s cluster.Spread) bool {
	if s.HonorTaints && t.Node != nil {
		for _, x := range t.Node.Taints {
			if !constraint.Tolerates(shape.Tolerations, x) {
				return false
			}
		}
	}
	return !s.HonorAffinity || slices.ContainsFunc(c.strictTerms(shape), func(r constraint.Requirements) bool { _, ok := r.Match(t.Labels); return ok })
}

// floor is the lowest count over the domains open to the pod.
func (c *checker) floor(key string, s cluster.Spread, shape *cluster.Shape, strict constraint.Requirements, counts map[string]int) int {
	if key == constraint.HostnameKey {
		return 0
	}
	universe := map[string]bool{}
	for _, p := range c.s.Pools {
		if p.Catalog == nil || !p.Ready || p.Deleting || p.Replicas != nil {
			continue
		}
		if s.HonorTaints && slices.ContainsFunc(p.Taints, func(t constraint.Taint) bool { return !constraint.Tolerates(shape.Tolerations, t) }) {
			continue
		}
		own := constraint.Parse(p.Requirements).And(constraint.FromLabels(p.Labels))
		r, ok := own.Get(key)
		for _, v := range append(p.Catalog.Values(key, p.Catalog.Narrow(p.Catalog.All(), own, nil)), r.Values()...) {
			if !ok || r.Admits(v) {
				universe[v] = true
			}
		}
	}
	for _, t := range c.s.Targets() {
		if v, ok := t.Labels[key]; ok && !t.Leaving && t.Node != nil && c.nodeCounts(t, shape, s) {
			universe[v] = true
		}
	}
	low, n := -1, int32(0)
	for d := range universe {
		if r, ok := strict.Get(key); ok && !r.Admits(d) {
			continue
		}
		n++
		if low < 0 || counts[d] < low {
			low = counts[d]
		}
	}
	if low < 0 || n < s.MinDomain {
		return 0
	}
	return low
}
