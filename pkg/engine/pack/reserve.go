package pack

import (
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
)

// reserving decides what reserved offerings mean for a trial (rules 15). A claim that can hold a unit of a reservation is confined to those it
// holds; it holds one of every reservation that is free or already its own and has a type for its pods. Where reservations would do and none is
// free, the trial is deferred: what a claim releases later, or the next pass, decides. In a simulation the other offerings are used instead,
// as they are where minValues want more variety than the reservations have.
func (s *state) reserving(spec *fit.Spec, h host, reqs constraint.Requirements, offers *catalog.Set) (_ *catalog.Set, deferred bool) {
	r := h.tmpl.Reserved
	if r == nil || offers.IntersectionCardinality(r) == 0 {
		return offers, false
	}
	would := s.holding(h, offers.Intersection(r), spec.Group.Request, 1)
	if would.None() || s.tooUniform(h.tmpl, reqs, would) {
		return offers.Difference(r), false
	}
	if held := would.Intersection(s.holdable(h.claim, h.tmpl)); held.Any() && !s.tooUniform(h.tmpl, reqs, held) {
		return held, false
	}
	if s.opts.Fallback {
		return offers.Difference(r), false
	}
	return nil, true
}

func (s *state) tooUniform(t *fit.Template, reqs constraint.Requirements, offers *catalog.Set) bool {
	return len(t.MinValues) > 0 && !s.Snapshot.Settings.BestEffortMinValues && len(t.Shortfall(reqs, offers)) > 0
}

// holdable returns the reserved offerings of a template whose reservation is free or held by the claim, which may be nil.
func (s *state) holdable(c *claim, t *fit.Template) *catalog.Set {
	out := t.Catalog.All().Clone().ClearAll()
	for _, u := range t.Units {
		if s.unheld[u.Reservation] > 0 || c != nil && slices.Contains(c.held, u.Reservation) {
			out.InPlaceUnion(u.Offers)
		}
	}
	return out
}

// hold makes the claim hold a unit of each reservation that its offerings are of, and gives back the others.
func (s *state) hold(c *claim) {
	if len(c.tmpl.Units) == 0 {
		return
	}
	s.release(c)
	for _, u := range c.tmpl.Units {
		if c.offers.IntersectionCardinality(u.Offers) > 0 {
			c.held = append(c.held, u.Reservation)
			s.unheld[u.Reservation]--
		}
	}
}

// release gives back all units of the claim.
func (s *state) release(c *claim) {
	for _, i := range c.held {
		s.unheld[i]++
	}
	c.held = nil // savepoints share the slice
}

// countUnheld counts what planned claims leave of every reservation.
func (s *state) countUnheld() {
	s.unheld = make([]int, len(s.Reservations))
	for i, r := range s.Reservations {
		s.unheld[i] = r.Free
	}
	for _, c := range s.claims {
		for _, i := range c.held {
			s.unheld[i]--
		}
	}
}

// awaits reports whether a reservation decides about the group: the first template that could host one of its pods alone has reserved offerings
// for it. The queue rules place such groups.
func (s *state) awaits(e *easyGroup, domain string) bool {
	if len(s.Reservations) == 0 {
		return false
	}
	for _, t := range s.Templates {
		o := s.easyOpening(e, domain, t)
		if o == nil {
			continue
		}
		if s.awaitsOn(t, o) {
			return true
		}
		if s.affordable(t, o.holds).Any() {
			return false
		}
	}
	return false
}

func (s *state) awaitsOn(t *fit.Template, o *easyOpening) bool {
	if o.reserved == nil || s.affordable(t, o.reserved).None() {
		return false
	}
	return !s.opts.Fallback || s.affordable(t, o.reserved).IntersectionCardinality(s.holdable(nil, t)) > 0
}

// pinned restricts a claim that holds reservations to them (rules 15.5).
func (s *state) pinned(c *claim, reqs constraint.Requirements, offers *catalog.Set) constraint.Requirements {
	var ids []string
	for _, u := range c.tmpl.Units {
		if slices.Contains(c.held, u.Reservation) && offers.IntersectionCardinality(u.Offers) > 0 {
			ids = append(ids, s.Reservations[u.Reservation].ID)
		}
	}
	return withValues(reqs, constraint.ReservationIDKey, ids)
}
