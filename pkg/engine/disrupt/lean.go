package disrupt

import (
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/units"
)

// lean returns the snapshot without the targets that cannot matter for a simulation of the set, so that it costs what the targets cost that could
// take a pod: in a large cluster these are few. Left out are targets that take no moved pods and those too full for the smallest of them. Where pods
// look at other pods, wait for a place or must leave anyway, or pools have limits, every target may matter, and the snapshot stays whole.
func (s *search) lean(set []*node, closed []string) *cluster.Snapshot {
	whole := s.s
	if !s.separable || slices.ContainsFunc(set, tied) {
		return whole
	}
	least := [2]int64{-1, -1}
	for _, n := range set {
		for _, p := range n.moving {
			for i, k := range []string{units.CPU, units.Memory} {
				if q := p.Shape.Requests[k]; least[i] < 0 || q < least[i] {
					least[i] = q
				}
			}
		}
	}
	r := cluster.Rearrangement{Gone: make(map[string]bool, len(closed))}
	for _, name := range closed {
		r.Gone[name] = true
	}
	for _, t := range whole.Targets() {
		if room := left(t); room[units.CPU] < least[0] || room[units.Memory] < least[1] {
			r.Gone[t.Name] = true
		}
		if r.Gone[t.Name] && slices.ContainsFunc(t.Residents, func(g *cluster.Group) bool { return len(g.Shape.AntiAffinity.Required) > 0 }) {
			delete(r.Gone, t.Name) // others look at its pods
		}
	}
	for _, n := range set {
		delete(r.Gone, n.Name)
	}
	return whole.Rearrange(r)
}

// tied tells that a pod of the node looks at other pods.
func tied(n *node) bool {
	return slices.ContainsFunc(n.moving, func(p *cluster.Pod) bool {
		x := p.Shape
		return len(x.Spread)+len(x.PodAffinity.Required)+len(x.PodAffinity.Preferred)+len(x.AntiAffinity.Required)+len(x.AntiAffinity.Preferred) > 0
	})
}

// separable tells that a simulation concerns the moved pods alone.
func separable(s *cluster.Snapshot) bool {
	if len(s.Unbound()) > 0 || slices.ContainsFunc(s.Pools, func(p *cluster.Pool) bool { return len(p.Limits) > 0 }) {
		return false
	}
	return !slices.ContainsFunc(s.Targets(), func(t *cluster.Target) bool { return t.Leaving || t.Pending })
}
