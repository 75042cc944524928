package fit

import (
	"slices"

	"github.com/karp-sh/karp/pkg/constraint"
)

// Effective zones that are not the name of one.
const (
	// FlexibleZone: there are several, or any will do.
	FlexibleZone = "flexible"
	// NoZone: what limits the zones excludes them all.
	NoZone = "none"
)

// EffectiveZone returns the zone that pods of a group can only go to, FlexibleZone or NoZone (scheduling rules 28): by their own requirements, their volumes,
// and what spreads them over zones or ties them to other pods.
func (m *Model) EffectiveZone(g *Group) string {
	s := m.Level(g, 0)
	strict, named := s.Strict.Get(constraint.ZoneKey)
	volumes := volumeZones(s)
	ties, tied := m.tiedZones(s)
	if tied && len(ties) == 0 || s.Contradiction == constraint.ZoneKey || s.Volumes == nil {
		return NoZone
	}
	var candidates []string
	switch {
	case named && strict.Operator() == constraint.In:
		candidates = strict.Values()
	case volumes != nil:
		candidates = volumes
	case tied:
		candidates = ties
	default:
		return FlexibleZone
	}
	left := 0
	zone := NoZone
	for _, z := range candidates {
		if named && !strict.Admits(z) || volumes != nil && !slices.Contains(volumes, z) || tied && !slices.Contains(ties, z) {
			continue
		}
		zone = z
		left++
	}
	if left > 1 {
		return FlexibleZone
	}
	return zone
}

// volumeZones lists the zones of all alternatives; nil if one of them leaves the zone open.
func volumeZones(s *Spec) []string {
	var out []string
	for _, alt := range s.Volumes {
		r, ok := alt.Get(constraint.ZoneKey)
		if !ok || r.Operator() != constraint.In {
			return nil
		}
		for _, z := range r.Values() {
			if !slices.Contains(out, z) {
				out = append(out, z)
			}
		}
	}
	return out
}

// tiedZones lists the zones that all the pod's own constraints on zones allow; tied is false if it has none.
func (m *Model) tiedZones(s *Spec) (zones []string, tied bool) {
	for _, t := range s.Topologies {
		if t.Key != constraint.ZoneKey || t.Kind == Inverse {
			continue
		}
		valid := t.valid(s)
		if tied {
			valid = slices.DeleteFunc(valid, func(z string) bool { return !slices.Contains(zones, z) })
		}
		zones, tied = valid, true
	}
	return zones, tied
}

// valid lists the domains that a pod of the spec may go to as things stand.
func (t *Topology) valid(s *Spec) []string {
	var out []string
	bootstrap, _ := t.AffinityOpen(s, t.Counts)
	for _, d := range t.Domains() {
		n := t.Counts[d]
		ok := n == 0
		switch t.Kind {
		case Spread:
			self := 0
			if t.Selects(s.Group) {
				self = 1
			}
			ok = n+self <= t.MaxSkew+t.Floor(s, t.Counts)
		case Affinity:
			ok = n > 0 || bootstrap
		default: // anti-affinity wants an empty domain
		}
		if ok {
			out = append(out, d)
		}
	}
	return out
}
