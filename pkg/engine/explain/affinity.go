package explain

import (
	"maps"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/reason"
)

// mostKeepers is how many pods are named that keep another one away.
const mostKeepers = 3

// affinity shows the first term about other pods that stops the pool's offerings, those that stop all of them before others.
func (c *poolCase) affinity(inside []*candidate) *reason.AffinityState {
	var found *miss
	for _, x := range inside {
		for _, m := range x.misses {
			if m.code == reason.AffinityUnsatisfiable && (found == nil || !everywhere(inside, found.id) && everywhere(inside, m.id)) {
				found = m
			}
		}
	}
	if found == nil {
		return nil
	}
	kind, _, _ := strings.Cut(found.id, "/")
	out := &reason.AffinityState{Kind: kind, Key: found.key, Selector: found.change.To}
	counts := map[string]int{}
	switch kind {
	case "affinity":
		maps.Copy(counts, c.q.affinities[slices.IndexFunc(c.q.affinities, at(found.change.Index))].counts)
	case "anti":
		maps.Copy(counts, c.q.antis[slices.IndexFunc(c.q.antis, at(found.change.Index))].counts)
	default:
		out.Keepers = c.q.keepers(found.key)
		for d := range c.q.repels[found.key] {
			counts[d] = 1
		}
	}
	out.Domains = c.termDomains(inside, found.key, counts)
	return out
}

func at(index int) func(*podTermView) bool {
	return func(v *podTermView) bool { return v.index == index }
}

// termDomains are the domains that have such pods, that nodes are in, or that the pool can launch in.
func (c *poolCase) termDomains(inside []*candidate, key string, counts map[string]int) []reason.DomainState {
	open, room := map[string]bool{}, map[string]bool{}
	for _, x := range inside {
		domains, _ := c.reach(x.typ, x.offer, key)
		for _, d := range domains {
			open[d] = true
			counts[d] += 0
		}
	}
	for _, t := range c.q.s.Targets() {
		if d, has := t.Labels[key]; has && t.Node != nil {
			counts[d] += 0
			room[d] = room[d] || !t.Leaving && c.q.hasRoom(t)
		}
	}
	var out []reason.DomainState
	for _, d := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, reason.DomainState{Domain: d, Count: counts[d], PoolAllows: open[d], RoomOnNodes: room[d]})
	}
	return out
}

// keepers are pods whose required anti-affinity over the key keeps this pod away.
func (q *inquiry) keepers(key string) []reason.Object {
	var out []reason.Object
	for _, t := range q.s.Targets() {
		if t.Node == nil {
			continue
		}
		for _, g := range t.Residents {
			keeps := slices.ContainsFunc(g.Shape.AntiAffinity.Required, func(term cluster.PodTerm) bool {
				return term.TopologyKey == key && q.inScope(term, g.Shape.Namespace, q.shape.Namespace) && term.Selector.Matches(q.pod.Labels)
			})
			if keeps && len(out) < mostKeepers {
				out = append(out, objectOf(g.Pods[0]))
			}
		}
	}
	return out
}

// spellSelector writes a label selector as kubectl does.
func spellSelector(s *cluster.Selector) string {
	if s == nil {
		return ""
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		parts = append(parts, k+"="+s.MatchLabels[k])
	}
	for _, e := range s.Exprs {
		text := e.Key + " " + string(e.Operator)
		if len(e.Values) > 0 {
			text += " (" + strings.Join(e.Values, ",") + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ",")
}
