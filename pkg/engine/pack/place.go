package pack

import (
	"strconv"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/units"
)

// sequential places groups by the queue rules (9): each in its turn as far as it goes, round after round until a round brings nothing. It
// handles every kind of constraint.
func (s *state) sequential(groups []*fit.Group) {
	for progress := true; progress; {
		progress = false
		for _, g := range groups {
			if s.left[g.Index] > 0 && g.Refused == "" && s.settle(g) > 0 {
				progress = true
			}
		}
	}
}

// settle places what it can of a group, relaxing it step by step only when every target has refused (rules 9.2, 16).
func (s *state) settle(g *fit.Group) int {
	before := s.left[g.Index]
	for level := 0; s.left[g.Index] > 0 && !s.spent(); level++ {
		delete(s.deferred, g)
		spec := s.Level(g, level)
		if spec == nil {
			break
		}
		n := s.left[g.Index]
		if level > 0 && len(s.Level(g, 0).Topologies) > 0 {
			n = 1 // the next pod starts with all its preferences again
		}
		if s.placeSome(spec, n) > 0 && level > 0 {
			level = -1
		}
		if s.deferred[g] != nil {
			break // a pod that waits for a reservation is not relaxed (rules 15.3)
		}
	}
	return before - s.left[g.Index]
}

// placeSome puts up to n pods of a spec on existing targets, then on planned and new claims.
func (s *state) placeSome(spec *fit.Spec, n int) int {
	placed := s.placeExisting(spec, n)
	for placed < n && !s.spent() {
		k := s.placeClaim(spec, n-placed)
		if k == 0 {
			break
		}
		placed += k
		if len(spec.Topologies) > 0 && placed < n { // a new count elsewhere can open a target
			placed += s.placeExisting(spec, n-placed)
		}
	}
	return placed
}

// placeExisting fills targets in order. Where pods are spread, a round can open targets that refused before.
func (s *state) placeExisting(spec *fit.Spec, n int) int {
	placed := 0
	for again := true; again && placed < n; {
		again = false
		for i := range s.targets {
			k := s.fitTarget(spec, i, n-placed)
			if k == 0 {
				continue
			}
			s.putTarget(spec, i, k)
			placed += k
			again = len(spec.Topologies) > 0
			if placed == n {
				break
			}
		}
	}
	return placed
}

// fitTarget returns how many pods of the spec the target takes now, at most n (rules 10).
func (s *state) fitTarget(spec *fit.Spec, target, n int) int {
	if n = s.roomOn(spec, target, n); n == 0 {
		return 0
	}
	return s.allowance(spec, target, n)
}

// roomOn is fitTarget without topology.
func (s *state) roomOn(spec *fit.Spec, target, n int) int {
	r := &s.targets[target]
	if r.Overdrawn || r.Closed && spec.Group.Moved || !s.admits(spec, target) {
		return 0
	}
	s.steps++
	if n = spec.Group.Request.Times(r.free, n); n == 0 {
		return 0
	}
	shape := spec.Group.Shape
	if len(shape.HostPorts) > 0 {
		if n = 1; fit.PortsCollide(shape.HostPorts, r.ports) {
			return 0
		}
	}
	if r.volumes != nil && !r.Attachable(r.volumes, shape.Volumes) {
		return 0
	}
	if len(spec.Group.Devices.Claims) > 0 {
		if n = 1; !s.devicesFit(spec, target) {
			return 0
		}
	}
	return n
}

// admits caches which targets' labels and taints let a spec in.
func (s *state) admits(spec *fit.Spec, target int) bool {
	mask := s.static[spec]
	if mask == nil {
		mask = make([]bool, len(s.targets))
		for i := range s.targets {
			_, _, mask[i] = s.targets[i].Admits(spec)
		}
		s.static[spec] = mask
	}
	return mask[target]
}

func (s *state) putTarget(spec *fit.Spec, target, n int) {
	r := &s.targets[target]
	r.free.Add(spec.Group.Request, -int64(n))
	shape := spec.Group.Shape
	if len(shape.HostPorts) > 0 {
		r.ports = append(r.ports[:len(r.ports):len(r.ports)], shape.HostPorts...)
	}
	if r.volumes != nil {
		fit.Attach(r.volumes, shape.Volumes)
	}
	if len(spec.Group.Devices.Claims) > 0 {
		s.grantOn(spec, target)
	}
	s.put(spec, n, target, nil)
}

// trial is a way to put n pods on a claim.
type trial struct {
	reqs    constraint.Requirements
	offers  *catalog.Set
	n       int
	price   units.Money // of the claim afterwards
	relaxed bool
	gear    gear // nil if it does not change
	// deferred tells, of a trial that failed, that reservations would have done but none is free.
	deferred bool
}

// dearer reports whether a costs more per pod than b, each beyond what was paid before.
func dearer(a trial, paidA units.Money, b trial, paidB units.Money) bool {
	return int64(a.price-paidA)*int64(b.n) > int64(b.price-paidB)*int64(a.n)
}

// placeClaim puts some pods of the spec where they cost least per pod: on a planned claim, or on a new one of the first template that can host
// them if that is strictly cheaper (rules 9.2, 31.2).
func (s *state) placeClaim(spec *fit.Spec, n int) int {
	var best trial
	var on *claim
	for _, c := range s.claims {
		if c.gone || c.refuses[spec] {
			continue
		}
		t, ok := s.join(spec, c, n)
		if ok && (on == nil || dearer(best, on.price, t, c.price)) {
			best, on = t, c
			if t.price == c.price {
				break
			}
		}
	}
	if on == nil || best.price > on.price {
		if t, tmpl, ok := s.openFirst(spec, n); ok && (on == nil || dearer(best, on.price, t, 0)) {
			best, on = t, s.newClaim(tmpl)
			on.relaxed = t.relaxed
		} else if on == nil && t.deferred {
			s.deferred[spec.Group] = spec
		}
	}
	if on == nil {
		return 0
	}
	s.putClaim(spec, on, best)
	return best.n
}

func (s *state) newClaim(t *fit.Template) *claim {
	c := &claim{id: len(s.claims), tmpl: t, used: make(units.Vector, s.Axis.Len()), refuses: map[*fit.Spec]bool{}}
	c.host = hostOf(c.id)
	s.claims = append(s.claims, c)
	return c
}

// hostOf is a hostname that no node can have.
func hostOf(id int) string { return "claim/" + strconv.Itoa(id) }

func (s *state) putClaim(spec *fit.Spec, c *claim, t trial) {
	c.reqs, c.offers, c.price = t.reqs, t.offers, t.price
	c.used.Add(spec.Group.Request, int64(t.n))
	c.ports = append(c.ports, spec.Group.Shape.HostPorts...)
	if t.gear != nil {
		c.gear = t.gear
		s.grantTo(spec, c)
	}
	s.hold(c)
	s.put(spec, t.n, -1, c)
}

// join tries to add up to n pods to a planned claim (rules 11).
func (s *state) join(spec *fit.Spec, c *claim, n int) (trial, bool) {
	s.steps++
	// The pool has to define the pod's keys: what other pods on the claim ask does not count.
	if !s.opening(spec, c.tmpl).ok {
		c.refuses[spec] = true
		return trial{}, false
	}
	if _, conflict := c.reqs.Conflict(spec.Full); conflict {
		c.refuses[spec] = true
		return trial{}, false
	}
	if len(spec.Group.Shape.HostPorts) > 0 {
		if n = 1; fit.PortsCollide(spec.Group.Shape.HostPorts, c.ports) {
			return trial{}, false
		}
	}
	base := host{tmpl: c.tmpl, reqs: c.reqs.And(spec.Full), offers: c.offers, used: c.used, price: c.price, name: c.host, claim: c, was: c.reqs}
	return s.accommodate(spec, base, n)
}

// openKey identifies what a fresh claim of a template is for a spec, before limits and topology.
type openKey struct {
	spec *fit.Spec
	tmpl *fit.Template
}

type opening struct {
	ok     bool
	reqs   constraint.Requirements
	offers *catalog.Set
}

// opening returns requirements and offerings of a fresh claim for the spec.
func (s *state) opening(spec *fit.Spec, t *fit.Template) *opening {
	key := openKey{spec, t}
	o := s.openings[key]
	if o == nil {
		o = &opening{}
		if o.reqs, _, _, o.ok = t.Open(spec); o.ok {
			o.offers = t.Catalog.Narrow(t.Offers, spec.Full, nil)
		}
		s.openings[key] = o
	}
	return o
}

// openFirst tries the templates in order and returns the first that can host a pod alone (rules 9.2). One that defers the pod ends the search
// (rules 15.3).
func (s *state) openFirst(spec *fit.Spec, n int) (out trial, _ *fit.Template, ok bool) {
	tried := s.Templates
	for i, t := range s.Templates {
		if out, ok = s.open(spec, t, n); ok {
			return out, t, true
		}
		if out.deferred {
			tried = s.Templates[:i]
			break
		}
	}
	for _, t := range tried {
		if s.budgets[t.Index].limited && s.couldOpen(spec, t) && s.squeeze(t) {
			if tr, ok := s.open(spec, t, n); ok {
				return tr, t, true
			}
		}
	}
	return out, nil, false
}

// couldOpen reports whether the template would host the spec if it had no limits.
func (s *state) couldOpen(spec *fit.Spec, t *fit.Template) bool {
	o := s.opening(spec, t)
	if !o.ok {
		return false
	}
	_, ok := s.openWithin(spec, t, o, o.offers, 1)
	return ok
}

func (s *state) open(spec *fit.Spec, t *fit.Template, n int) (trial, bool) {
	s.steps++
	o := s.opening(spec, t)
	if !o.ok || o.offers.None() {
		return trial{}, false
	}
	return s.openWithin(spec, t, o, s.affordable(t, o.offers), n)
}

func (s *state) openWithin(spec *fit.Spec, t *fit.Template, o *opening, offers *catalog.Set, n int) (trial, bool) {
	if len(spec.Group.Shape.HostPorts) > 0 {
		n = 1
	}
	h := host{tmpl: t, reqs: o.reqs, offers: offers, used: make(units.Vector, s.Axis.Len()), name: hostOf(len(s.claims)), was: o.reqs, fresh: true}
	return s.accommodate(spec, h, n)
}

// host is a claim, planned or fresh, as a trial finds it.
type host struct {
	tmpl   *fit.Template
	reqs   constraint.Requirements // with the spec's
	was    constraint.Requirements // those that offers already satisfy
	offers *catalog.Set
	used   units.Vector
	price  units.Money
	name   string
	claim  *claim // nil if fresh
	fresh  bool
}

// accommodate goes through the volume alternatives and the domains that topology leaves, and returns the first combination with an instance
// type that holds at least one more pod (rules 11, 17.4). A failed trial is deferred if one of them was.
func (s *state) accommodate(spec *fit.Spec, h host, n int) (out trial, ok bool) {
	deferred := false
	for _, alt := range spec.Volumes {
		if _, fits := h.reqs.Compatible(alt, constraint.WellKnownOptional); !fits {
			continue
		}
		reqs, on, kit := h.reqs.And(alt), h, outfit{}
		if len(spec.Group.Devices.Claims) > 0 {
			if kit, ok = s.equip(spec, h, reqs); !ok {
				continue
			}
			n, reqs, on.offers = 1, kit.reqs, kit.offers
		}
		if s.choices(spec, on, reqs, n, func(add constraint.Requirements, n int) bool {
			if _, fits := reqs.Compatible(add, constraint.WellKnownOptional); !fits {
				return false
			}
			out, ok = s.size(spec, on, reqs.And(add), n)
			deferred, out.gear = deferred || out.deferred, kit.gear
			return ok
		}) {
			return out, true
		}
	}
	return trial{deferred: deferred}, false
}

// size chooses how many pods to put on the claim: as many as give the lowest price per pod.
func (s *state) size(spec *fit.Spec, h host, reqs constraint.Requirements, n int) (trial, bool) {
	s.steps++
	offers := tightened(h.tmpl.Catalog, h.offers, h.was, reqs)
	if ports := spec.Group.Shape.HostPorts; len(ports) > 0 && h.tmpl.HasDaemonPorts() {
		offers = s.withoutPorts(h.tmpl, offers, ports)
	}
	offers, deferred := s.reserving(spec, h, reqs, offers)
	if deferred {
		return trial{deferred: true}, false
	}
	t := trial{reqs: reqs, n: s.cheapestCount(spec, h, offers, n)}
	if t.n == 0 {
		return t, false
	}
	if len(h.tmpl.MinValues) == 0 {
		t.offers = s.holding(h, offers, spec.Group.Request, t.n)
		return t.priced(h.tmpl)
	}
	return s.sizeWithMinValues(spec, h, offers, t)
}

// priced sets the price of the trial's cheapest offering.
func (t trial) priced(tmpl *fit.Template) (trial, bool) {
	i, ok := tmpl.Catalog.Cheapest(t.offers)
	if ok {
		_, o := tmpl.Catalog.Offer(i)
		t.price = o.Price
	}
	return t, ok
}

// tightened returns the offerings that satisfy what reqs ask beyond was.
func tightened(cat *catalog.Catalog, offers *catalog.Set, was, reqs constraint.Requirements) *catalog.Set {
	out := offers
	for r := range reqs.All() {
		if old, ok := was.Get(r.Key); ok && old.Equal(r) {
			continue
		}
		if s := cat.Satisfying(r); s != nil {
			if out == offers {
				out = offers.Clone()
			}
			out.InPlaceIntersection(s)
		}
	}
	return out
}

// cheapestCount returns the number of pods, at most n, that gives the lowest additional price per pod; of equal ones the largest.
func (s *state) cheapestCount(spec *fit.Spec, h host, offers *catalog.Set, n int) int {
	best, bestCost := 0, units.Money(0)
	for v, i := range h.tmpl.Catalog.VariantsByPrice(offers) {
		k := timesBeside(spec.Group.Request, h.tmpl.Free[v], h.used, n)
		if k <= best {
			continue
		}
		_, o := h.tmpl.Catalog.Offer(i)
		cost := max(0, o.Price-h.price)
		if best == 0 || int64(cost)*int64(best) <= int64(bestCost)*int64(k) {
			best, bestCost = k, cost
		}
		if k == n {
			break
		}
	}
	return best
}

// timesBeside returns how often request fits into free beside used.
func timesBeside(request, free, used units.Vector, limit int) int {
	k := int64(limit)
	for i, n := range request {
		left := free[i] - used[i]
		if left < 0 {
			return 0
		}
		if n > 0 {
			k = min(k, left/n)
		}
	}
	return int(k)
}

// holding returns the offerings whose type holds n more pods.
func (s *state) holding(h host, offers *catalog.Set, request units.Vector, n int) *catalog.Set {
	cat := h.tmpl.Catalog
	variants := cat.Variants()
	out := offers.Clone()
	for i, ok := offers.NextSet(0); ok; {
		v := cat.VariantOf(int(i))
		end := uint(variants[v].End)
		if timesBeside(request, h.tmpl.Free[v], h.used, n) < n {
			for j := i; j < end; j++ {
				out.Clear(j)
			}
		}
		i, ok = offers.NextSet(end)
	}
	return out
}

func (s *state) withoutPorts(t *fit.Template, offers *catalog.Set, ports []cluster.HostPort) *catalog.Set {
	out := offers.Clone()
	for v, variant := range t.Catalog.Variants() {
		if fit.PortsCollide(ports, t.PortsOf(v)) {
			for j := variant.First; j < variant.End; j++ {
				out.Clear(uint(j))
			}
		}
	}
	return out
}

// sizeWithMinValues takes as many pods as leave enough distinct values; when a claim is opened under BestEffort, the wanted numbers are lowered
// to what one pod leaves (rules 14).
func (s *state) sizeWithMinValues(spec *fit.Spec, h host, offers *catalog.Set, t trial) (trial, bool) {
	enough := func(n int) (*catalog.Set, []fit.Shortage) {
		held := s.holding(h, offers, spec.Group.Request, n)
		return held, h.tmpl.Shortfall(t.reqs, held)
	}
	if _, short := enough(1); len(short) > 0 {
		if !h.fresh || !s.Snapshot.Settings.BestEffortMinValues {
			return t, false
		}
		t.reqs, t.relaxed = lowered(t.reqs, short), true
	}
	lo, hi := 1, t.n // lo is enough
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if _, short := enough(mid); len(short) == 0 {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	t.n = lo
	t.offers, _ = enough(lo)
	return t.priced(h.tmpl)
}
