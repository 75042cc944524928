package pack

import (
	"cmp"
	"math"
	"slices"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
)

// allowance returns how many pods of the spec the topologies let onto a target now, at most n.
func (s *state) allowance(spec *fit.Spec, target, n int) int {
	for _, t := range spec.Topologies {
		if n == 0 {
			return 0
		}
		n = min(n, s.allowanceOn(spec, t, target))
	}
	return n
}

func (s *state) allowanceOn(spec *fit.Spec, t *fit.Topology, target int) int {
	counts := s.tally(t)
	x := s.targets[target].Target.Target
	d, ok := fit.Domain(x, t.Key)
	switch t.Kind {
	case fit.Spread:
		if !ok {
			return 0
		}
		return room4spread(spec, t, counts, d)
	case fit.Affinity:
		if !ok {
			return 0
		}
		if counts[d] > 0 {
			return math.MaxInt32
		}
		if bootstrap, _ := t.AffinityOpen(spec, counts); bootstrap {
			return math.MaxInt32
		}
		return 0
	default: // anti-affinity, below
	}
	if !ok {
		for _, d := range fit.OpenDomains(x, t.Key) {
			if counts[d] > 0 {
				return 0
			}
		}
		return apart(spec, t)
	}
	if counts[d] > 0 {
		return 0
	}
	return apart(spec, t)
}

// apart is how many pods of the spec an empty domain can take at once: one if they keep each other away.
func apart(spec *fit.Spec, t *fit.Topology) int {
	if t.Kind == fit.AntiAffinity && t.Selects(spec.Group) || t.Kind == fit.Inverse && t.Owns(spec.Group) {
		return 1
	}
	return math.MaxInt32
}

// room4spread is how many pods a spread constraint lets into a domain before another domain must catch up.
func room4spread(spec *fit.Spec, t *fit.Topology, counts map[string]int, d string) int {
	k := t.MaxSkew + t.Floor(spec, counts) - counts[d]
	switch {
	case t.Selects(spec.Group):
		return max(k, 0)
	case k >= 0:
		return math.MaxInt32
	}
	return 0
}

// domainSet is what the topologies allow for one key of a claim.
type domainSet struct {
	key    string
	values []string
	cost   map[string]int // lower first
	allow  map[string]int // pods
	pick   bool           // one of them has to be chosen
}

// choices calls try with each way to satisfy the spec's topologies on a claim with these requirements, best first, until it returns true. A way
// is a set of requirements to add and the number of pods (at most n) it holds for. It returns false if no way was accepted.
func (s *state) choices(spec *fit.Spec, h host, reqs constraint.Requirements, n int, try func(add constraint.Requirements, n int) bool) bool {
	if len(spec.Topologies) == 0 {
		return try(constraint.Requirements{}, n)
	}
	var sets []*domainSet
	for _, t := range spec.Topologies {
		if t.Key == constraint.HostnameKey {
			n = min(n, s.onHost(spec, t, h.name))
		} else if set := s.domainsFor(spec, t, reqs, h.claim, n); set != nil {
			sets = merge(sets, set)
		}
		if n == 0 {
			return false
		}
	}
	slices.SortFunc(sets, func(a, b *domainSet) int { return cmp.Compare(a.key, b.key) })
	return descend(sets, constraint.Requirements{}, n, try)
}

// onHost is the number of pods allowed on the claim as a node of its own.
func (s *state) onHost(spec *fit.Spec, t *fit.Topology, host string) int {
	counts := s.tally(t)
	switch t.Kind {
	case fit.Spread:
		return room4spread(spec, t, counts, host)
	case fit.Affinity:
		if counts[host] > 0 {
			return math.MaxInt32
		}
		if bootstrap, _ := t.AffinityOpen(spec, counts); bootstrap {
			return math.MaxInt32
		}
		return 0
	default: // anti-affinity, below
	}
	if counts[host] > 0 {
		return 0
	}
	return apart(spec, t)
}

// domainsFor returns the domains a topology allows on a claim with these requirements; nil stands for no restriction. The claim is nil for a
// fresh one; pods it holds already come along into the domain that is chosen for it.
func (s *state) domainsFor(spec *fit.Spec, t *fit.Topology, reqs constraint.Requirements, c *claim, n int) *domainSet {
	counts := s.tally(t)
	along := 0
	for _, p := range s.undecided[t.ID] {
		if p.claim == c {
			along += p.to - p.from
		}
	}
	r, defined := reqs.Get(t.Key)
	set := &domainSet{key: t.Key, cost: map[string]int{}, allow: map[string]int{}}
	add := func(d string, k int) {
		if k > 0 && (!defined || r.Admits(d)) {
			set.values = append(set.values, d)
			set.allow[d] = min(k, n)
			set.cost[d] = counts[d]
		}
	}
	switch t.Kind {
	case fit.Spread:
		set.pick = true
		for _, d := range t.Domains() {
			if k := room4spread(spec, t, counts, d); k > along || along == 0 {
				add(d, k-along)
			}
		}
	case fit.Affinity:
		bootstrap, _ := t.AffinityOpen(spec, counts)
		set.pick = bootstrap
		for _, d := range t.Domains() {
			if bootstrap || counts[d] > 0 {
				add(d, math.MaxInt32)
			}
		}
	default:
		if !defined && !constraint.WellKnown(t.Key) {
			return nil // the node will not carry the label, so nobody shares its domain
		}
		for _, d := range t.Domains() {
			if counts[d] == 0 {
				add(d, apart(spec, t))
			}
		}
	}
	return set
}

// merge intersects the set with another on the same key.
func merge(sets []*domainSet, x *domainSet) []*domainSet {
	for _, s := range sets {
		if s.key != x.key {
			continue
		}
		s.pick = s.pick || x.pick
		s.values = slices.DeleteFunc(s.values, func(d string) bool { return x.allow[d] == 0 })
		for _, d := range s.values {
			s.cost[d] += x.cost[d]
			s.allow[d] = min(s.allow[d], x.allow[d])
		}
		return sets
	}
	return append(sets, x)
}

// descend fixes one key after the other. Where a domain must be picked, the one with the lowest count comes first, ties by name.
func descend(sets []*domainSet, add constraint.Requirements, n int, try func(constraint.Requirements, int) bool) bool {
	if len(sets) == 0 {
		return try(add, n)
	}
	s := sets[0]
	if len(s.values) == 0 {
		return false
	}
	if !s.pick {
		k := 0
		for _, d := range s.values {
			k = max(k, s.allow[d])
		}
		return descend(sets[1:], add.With(constraint.NewIn(s.key, s.values...)), min(n, k), try)
	}
	order := slices.SortedFunc(slices.Values(s.values), func(a, b string) int { return cmp.Or(cmp.Compare(s.cost[a], s.cost[b]), cmp.Compare(a, b)) })
	for _, d := range order {
		if descend(sets[1:], add.With(constraint.NewIn(s.key, d)), min(n, s.allow[d]), try) {
			return true
		}
	}
	return false
}
