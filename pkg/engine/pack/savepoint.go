package pack

import (
	"maps"
	"slices"
)

// savepoint is what has to be put back to undo placements: everything of a state that placing changes, none of what it caches.
type savepoint struct {
	places     int
	claims     []claim
	left, next []int
	rooms      []room
	grants     map[string]grant
}

// save remembers the placements so far.
func (s *state) save() savepoint {
	p := savepoint{places: len(s.places), left: slices.Clone(s.left), next: slices.Clone(s.next), rooms: make([]room, len(s.targets)),
		grants: maps.Clone(s.grants)}
	for _, c := range s.claims {
		p.claims = append(p.claims, copyOf(c))
	}
	for i, r := range s.targets {
		r.free = slices.Clone(r.free)
		r.ports = slices.Clip(r.ports)
		if r.volumes != nil {
			own := make(map[string]map[string]bool, len(r.volumes))
			for d, ids := range r.volumes {
				own[d] = maps.Clone(ids)
			}
			r.volumes = own
		}
		p.rooms[i] = r
	}
	return p
}

func copyOf(c *claim) claim {
	out := *c
	out.used, out.ports, out.refuses = slices.Clone(c.used), slices.Clone(c.ports), maps.Clone(c.refuses)
	out.bare = maps.Clone(c.bare)
	return out
}

// restore takes back what was placed since the savepoint, which it uses up.
func (s *state) restore(p savepoint) {
	s.places = s.places[:p.places]
	s.claims = s.claims[:len(p.claims)]
	for i := range p.claims {
		*s.claims[i] = p.claims[i]
	}
	s.left, s.next, s.targets, s.grants = p.left, p.next, p.rooms, p.grants
	s.countUnheld()
	s.forgetCounts()
}

// forgetCounts makes topologies count all placements anew.
func (s *state) forgetCounts() {
	s.counts, s.seen, s.undecided = map[int]map[string]int{}, map[int]int{}, map[int][]place{}
}
