package fit

import (
	"cmp"
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// Spec is what a group asks for at one step of relaxation (rules 16). Level 0 is the pod as written (under the preference policy); each further
// level has dropped one more thing.
type Spec struct {
	Group *Group
	Level int
	// Dropped describes what this level gave up beyond the one before.
	Dropped string
	// Strict is node selector and first remaining required term; Full also the heaviest remaining preferred term (rules 6.6).
	Strict, Full constraint.Requirements
	// Contradiction is the key on which the pod contradicts itself, so that nothing can satisfy it; empty if there is none. The requirements alone do
	// not tell, because an empty In is the same as DoesNotExist in them.
	Contradiction string
	Tolerations   []constraint.Toleration
	// Volumes are the alternatives of the pod's volumes, tried in order: one empty alternative if it has no volumes, none if its volumes exclude each
	// other (rules 19.2).
	Volumes []constraint.Requirements
	// Topologies are the groups that restrict the pod: owned constraints and the anti-affinity of others that select it.
	Topologies []*Topology

	terms    []cluster.NodeTerm
	spread   []cluster.Spread
	affinity []cluster.PodTerm
	anti     []cluster.PodTerm
}

// draft is the part of a pod that relaxation takes from.
type draft struct {
	terms  []cluster.NodeTerm
	paff   []cluster.WeightedPodTerm
	panti  []cluster.WeightedPodTerm
	pref   []cluster.PreferredTerm
	spread []cluster.Spread
	prefer bool // tolerate PreferNoSchedule
}

// Level returns the spec of a group at a level of relaxation, or nil beyond the last.
func (m *Model) Level(g *Group, level int) *Spec {
	levels := m.levels[g.Index]
	for len(levels) <= level {
		if len(levels) == 0 {
			levels = append(levels, m.newSpec(g, 0, "", m.draftOf(g.Shape)))
			m.drafts[g.Index] = m.draftOf(g.Shape)
		} else {
			d, what := m.relax(m.drafts[g.Index], g)
			if what == "" {
				m.levels[g.Index] = levels
				return nil
			}
			m.drafts[g.Index] = d
			levels = append(levels, m.newSpec(g, len(levels), what, d))
		}
		m.levels[g.Index] = levels
	}
	return levels[level]
}

// Last returns the fully relaxed spec of a group.
func (m *Model) Last(g *Group) *Spec {
	last := m.Level(g, 0)
	for l := 1; ; l++ {
		s := m.Level(g, l)
		if s == nil {
			return last
		}
		last = s
	}
}

func (m *Model) draftOf(s *cluster.Shape) draft {
	d := draft{terms: s.Required, spread: s.Spread}
	if m.Snapshot.Settings.IgnorePreferences {
		d.spread = slices.DeleteFunc(slices.Clone(s.Spread), func(c cluster.Spread) bool { return !c.Hard })
		return d
	}
	d.paff, d.panti, d.pref = s.PodAffinity.Preferred, s.AntiAffinity.Preferred, s.Preferred
	return d
}

// relax drops the next thing; what is empty when nothing is left.
func (m *Model) relax(d draft, g *Group) (next draft, what string) {
	switch {
	case len(d.terms) > 1:
		d.terms = d.terms[1:]
		return d, "required node affinity term"
	case len(d.paff) > 0:
		d.paff = withoutHeaviest(d.paff, func(t cluster.WeightedPodTerm) int32 { return t.Weight })
		return d, "preferred pod affinity"
	case len(d.panti) > 0:
		d.panti = withoutHeaviest(d.panti, func(t cluster.WeightedPodTerm) int32 { return t.Weight })
		return d, "preferred pod anti-affinity"
	case len(d.pref) > 0:
		d.pref = withoutHeaviest(d.pref, func(t cluster.PreferredTerm) int32 { return t.Weight })
		return d, "preferred node affinity"
	}
	if i := slices.IndexFunc(d.spread, func(c cluster.Spread) bool { return !c.Hard }); i >= 0 {
		// The last constraint takes the place of the dropped one, which fixes the order of three as 1, 3, 2.
		last := len(d.spread) - 1
		d.spread = slices.Clone(d.spread)
		d.spread[i] = d.spread[last]
		d.spread = d.spread[:last]
		return d, "topology spread"
	}
	blanket := constraint.Toleration{Operator: "Exists", Effect: constraint.PreferNoSchedule}
	if !d.prefer && m.softTaints && !slices.Contains(g.Shape.Tolerations, blanket) {
		d.prefer = true
		return d, "PreferNoSchedule taints"
	}
	return d, ""
}

func heaviest[T any](ts []T, weight func(T) int32) int {
	best := 0
	for i := range ts {
		if weight(ts[i]) > weight(ts[best]) {
			best = i
		}
	}
	return best
}

func withoutHeaviest[T any](ts []T, weight func(T) int32) []T {
	i := heaviest(ts, weight)
	return slices.Delete(slices.Clone(ts), i, i+1)
}

func (m *Model) newSpec(g *Group, level int, what string, d draft) *Spec {
	s := &Spec{Group: g, Level: level, Dropped: what, terms: d.terms, spread: d.spread, Tolerations: g.Shape.Tolerations}
	s.Strict = constraint.FromLabels(g.Shape.NodeSelector)
	if len(d.terms) > 0 {
		s.Strict = s.narrow(s.Strict, d.terms[0].Exprs)
	}
	s.Full = s.Strict
	if len(d.pref) > 0 {
		s.Full = s.narrow(s.Full, d.pref[heaviest(d.pref, func(t cluster.PreferredTerm) int32 { return t.Weight })].Exprs)
	}
	if d.prefer {
		s.Tolerations = append(slices.Clone(s.Tolerations), constraint.Toleration{Operator: "Exists", Effect: constraint.PreferNoSchedule})
	}
	s.affinity, s.anti = podTerms(g.Shape.PodAffinity.Required, d.paff), podTerms(g.Shape.AntiAffinity.Required, d.panti)
	s.Volumes = volumeAlternatives(g.Shape.Volumes)
	s.Topologies = m.topologiesOf(s)
	return s
}

// narrow adds expressions one by one and notes a contradiction.
func (s *Spec) narrow(rs constraint.Requirements, exprs []constraint.Expr) constraint.Requirements {
	for _, e := range exprs {
		add := constraint.Of(constraint.New(e))
		if key, conflict := rs.Conflict(add); conflict && s.Contradiction == "" {
			s.Contradiction = key
		}
		rs = rs.And(add)
	}
	return rs
}

func podTerms(required []cluster.PodTerm, preferred []cluster.WeightedPodTerm) []cluster.PodTerm {
	out := slices.Clip(required)
	for _, t := range preferred {
		out = append(out, t.Term)
	}
	return out
}

// volumeAlternatives is the cross product over the volumes, without combinations that conflict; none is left if all do (rules 19.2).
func volumeAlternatives(vs []cluster.Volume) []constraint.Requirements {
	out := []constraint.Requirements{{}}
	for _, v := range vs {
		if len(v.Alternatives) == 0 {
			continue
		}
		var next []constraint.Requirements
		for _, base := range out {
			for _, alt := range v.Alternatives {
				s := Spec{}
				if both := s.narrow(base, alt); s.Contradiction == "" {
					next = append(next, both)
				}
			}
		}
		out = next
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}
