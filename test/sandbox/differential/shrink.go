package differential

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Shrink takes away from the case what it does not need to fail, piece by piece until nothing more can go. The case itself is not changed.
func Shrink(c *Case, fails func(*Case) bool) *Case {
	for again := true; again; {
		again = false
		for i := 0; ; i++ {
			smaller := c.Clone()
			if !without(smaller, i) {
				break
			}
			if fails(smaller) {
				c, again = smaller, true
				i--
			}
		}
	}
	return c
}

// without takes the piece with the number away; false if there is none.
func without(c *Case, i int) bool {
	for _, p := range pieces(c) {
		if i < p.n {
			p.cut(i)
			return true
		}
		i -= p.n
	}
	return false
}

// piece is n parts of a case of which any can be cut.
type piece struct {
	n   int
	cut func(i int)
}

func pieces(c *Case) []piece {
	out := []piece{
		{len(c.Nodes), func(i int) {
			name := c.Nodes[i].Name
			c.Bound = slices.DeleteFunc(c.Bound, func(p *corev1.Pod) bool { return p.Spec.NodeName == name })
			c.Nodes = slices.Delete(c.Nodes, i, i+1)
		}},
		part(&c.Bound),
		flag(c.SoftPool, func() { c.SoftPool = false }),
	}
	for _, v := range c.Volumes.PVs {
		out = append(out, flag(v.Spec.NodeAffinity != nil, func() { v.Spec.NodeAffinity = nil }))
		if a := v.Spec.NodeAffinity; a != nil && len(a.Required.NodeSelectorTerms) > 1 {
			out = append(out, part(&a.Required.NodeSelectorTerms))
		}
	}
	out = append(out, podPieces(c.Pod)...)
	for _, p := range c.Bound {
		out = append(out, podPieces(p)...)
	}
	for _, n := range c.Nodes {
		out = append(out, entries(n.Labels), part(&n.Spec.Taints), flag(n.Spec.Unschedulable, func() { n.Spec.Unschedulable = false }))
	}
	return slices.DeleteFunc(out, func(p piece) bool { return p.n == 0 })
}

func part[T any](list *[]T) piece {
	return piece{len(*list), func(i int) { *list = slices.Delete(*list, i, i+1) }}
}

// flag is a piece that is there only while on, so that it is not cut for ever.
func flag(on bool, cut func()) piece {
	if !on {
		return piece{}
	}
	return piece{1, func(int) { cut() }}
}

func entries[K ~string, V any](m map[K]V) piece {
	keys := slices.Sorted(maps.Keys(m))
	return piece{len(keys), func(i int) { delete(m, keys[i]) }}
}

func podPieces(p *corev1.Pod) []piece {
	s := &p.Spec
	out := []piece{
		part(&s.Tolerations), part(&s.TopologySpreadConstraints), entries(s.NodeSelector), entries(p.Labels), part(&s.InitContainers),
		entries(s.Overhead), part(&p.Status.ContainerStatuses), part(&s.Volumes),
	}
	if len(s.Containers) > 1 {
		out = append(out, part(&s.Containers))
	}
	if s.Resources != nil {
		out = append(out, piece{1, func(int) { s.Resources = nil }})
	}
	for _, list := range [][]corev1.Container{s.Containers, s.InitContainers} {
		for i := range list {
			out = append(out, entries(list[i].Resources.Requests), part(&list[i].Ports))
		}
	}
	for i := range s.TopologySpreadConstraints {
		c := &s.TopologySpreadConstraints[i]
		out = append(out, flag(c.MinDomains != nil, func() { c.MinDomains = nil }), part(&c.MatchLabelKeys),
			flag(c.NodeAffinityPolicy != nil, func() { c.NodeAffinityPolicy = nil }), flag(c.NodeTaintsPolicy != nil, func() { c.NodeTaintsPolicy = nil }))
	}
	if s.Affinity != nil {
		out = append(out, affinityPieces(s.Affinity)...)
	}
	return out
}

func affinityPieces(a *corev1.Affinity) []piece {
	var out []piece
	if x := a.PodAffinity; x != nil {
		out = append(out, part(&x.RequiredDuringSchedulingIgnoredDuringExecution), part(&x.PreferredDuringSchedulingIgnoredDuringExecution))
	}
	if x := a.PodAntiAffinity; x != nil {
		out = append(out, part(&x.RequiredDuringSchedulingIgnoredDuringExecution), part(&x.PreferredDuringSchedulingIgnoredDuringExecution))
	}
	if x := a.NodeAffinity; x != nil {
		out = append(out, part(&x.PreferredDuringSchedulingIgnoredDuringExecution))
		r := x.RequiredDuringSchedulingIgnoredDuringExecution
		if r == nil {
			return out
		}
		if len(r.NodeSelectorTerms) > 1 {
			out = append(out, part(&r.NodeSelectorTerms))
		} else {
			out = append(out, piece{1, func(int) { x.RequiredDuringSchedulingIgnoredDuringExecution = nil }})
		}
		for i := range r.NodeSelectorTerms {
			if t := &r.NodeSelectorTerms[i]; len(t.MatchExpressions) > 1 {
				out = append(out, part(&t.MatchExpressions))
			}
		}
	}
	return out
}
