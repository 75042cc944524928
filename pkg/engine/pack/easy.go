package pack

import (
	"cmp"
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
)

// easyGroup is a group whose pods have no ties to other pods that packing for price could break: they ask for resources and labels, for at
// most so many on a node, and for an even spread over the domains of one key.
type easyGroup struct {
	*fit.Group
	// spec is that of the first level at which a fresh claim can host a pod; existing targets are tried at every level up to it.
	spec *fit.Spec
	// perNode is the most pods of the group that a new node may hold.
	perNode int
	// spread is the constraint over domains, nil if there is none; quota is what is still to be placed in each domain.
	spread *fit.Topology
	quota  map[string]int
	reqs   constraint.Requirements // what the pods add to a claim: full requirements and volumes
	plain  map[int]*fit.Spec       // specs without the spread, by level
}

const unlimited = 1 << 30

// split tells the groups that can be packed for price from those that must be placed by the queue rules.
func (s *state) split(groups []*fit.Group) (easy []*easyGroup, hard []*fit.Group) {
	if s.Snapshot.Settings.BestEffortMinValues && slices.ContainsFunc(s.Templates, func(t *fit.Template) bool { return len(t.MinValues) > 0 }) {
		return nil, groups // each claim may lower what the next one must keep
	}
	ties := s.ties()
	for _, g := range groups {
		if s.left[g.Index] == 0 || g.Refused != "" {
			continue
		}
		if e := s.easy(g, ties); e != nil {
			easy = append(easy, e)
		} else {
			hard = append(hard, g)
		}
	}
	return easy, hard
}

// ties marks the topologies that join different groups of the batch: those that select a group which does not own them, or that several own.
func (s *state) ties() map[*fit.Topology]bool {
	owner := map[*fit.Topology]*fit.Group{}
	tied := map[*fit.Topology]bool{}
	for _, g := range s.Groups {
		if len(s.Level(g, 0).Topologies) == 0 && len(g.Shape.Spread) == 0 {
			continue
		}
		for l := 0; ; l++ {
			spec := s.Level(g, l)
			if spec == nil {
				break
			}
			for _, t := range spec.Topologies {
				if t.Kind == fit.Inverse {
					continue
				}
				if o, ok := owner[t]; ok && o != g {
					tied[t] = true
				}
				owner[t] = g
			}
		}
	}
	for t, o := range owner {
		for _, g := range s.Groups {
			if g != o && t.Selects(g) {
				tied[t] = true
				break
			}
		}
	}
	return tied
}

// easy returns the group in its easy form, or nil.
func (s *state) easy(g *fit.Group, ties map[*fit.Topology]bool) *easyGroup {
	if len(g.Shape.HostPorts)+len(g.Devices.Claims) > 0 || s.forced[g] {
		return nil
	}
	for t := range ties {
		if t.Selects(g) {
			return nil
		}
	}
	for level := 0; ; level++ {
		spec := s.Level(g, level)
		if spec == nil {
			return nil
		}
		if len(spec.Volumes) != 1 {
			return nil
		}
		e := &easyGroup{Group: g, spec: spec, perNode: unlimited, reqs: spec.Full.And(spec.Volumes[0])}
		for _, t := range spec.Topologies {
			if ties[t] || !e.takes(s, t) {
				return nil
			}
		}
		if s.awaits(e, "") {
			return nil
		}
		if s.firstTemplate(e, "") == nil {
			continue
		}
		if e.spread != nil && !s.shareOut(e) {
			return nil
		}
		return e
	}
}

// takes adds a topology to the group's easy form; it returns false if there is no place for it there.
func (e *easyGroup) takes(s *state, t *fit.Topology) bool {
	self := t.Selects(e.Group)
	switch {
	case t.Kind == fit.Affinity:
		return false
	case t.Kind == fit.Inverse:
		for _, g := range s.Groups {
			if g != e.Group && t.Owns(g) {
				return false
			}
		}
		if t.Key != constraint.HostnameKey {
			return false
		}
		if t.Owns(e.Group) {
			e.perNode = 1
		}
		return true
	case t.Key == constraint.HostnameKey && t.Kind == fit.AntiAffinity:
		if self {
			e.perNode = 1
		}
		return true
	case t.Key == constraint.HostnameKey:
		if self {
			e.perNode = min(e.perNode, t.MaxSkew)
		}
		return true
	case t.Kind == fit.AntiAffinity, e.spread != nil, !self:
		return false
	}
	e.spread = t
	return true
}

// shareOut decides how many pods go into each domain: always the next one where there are fewest, as the spread rule allows. Every domain must be
// able to get new nodes, so that the shares can be reached.
func (s *state) shareOut(e *easyGroup) bool {
	counts := s.tally(e.spread)
	strict, restricted := e.spec.Strict.Get(e.spread.Key)
	var domains []string
	for _, d := range e.spread.Domains() {
		if restricted && !strict.Admits(d) {
			continue
		}
		if s.firstTemplate(e, d) == nil {
			return false
		}
		domains = append(domains, d)
	}
	if len(domains) == 0 || len(domains) < e.spread.MinDomain {
		return false
	}
	have := make([]int, len(domains))
	for i, d := range domains {
		have[i] = counts[d]
	}
	e.quota = map[string]int{}
	for range s.left[e.Index] {
		low := 0
		for i := range have {
			if have[i] < have[low] {
				low = i
			}
		}
		have[low]++
		e.quota[domains[low]]++
	}
	return true
}

// uneven reports whether pods of the group were left over in a way that breaks its spread.
func (s *state) uneven(e *easyGroup) bool {
	if e.spread == nil || s.left[e.Index] == 0 {
		return false
	}
	counts := s.tally(e.spread)
	floor := e.spread.Floor(e.spec, counts)
	for _, d := range e.spread.Domains() {
		if counts[d]-floor > e.spread.MaxSkew {
			return true
		}
	}
	return false
}

// in returns what a pod of the group asks of a claim in a domain; the empty domain stands for no spread.
func (e *easyGroup) in(domain string) constraint.Requirements {
	if domain == "" {
		return e.reqs
	}
	return e.reqs.With(constraint.NewIn(e.spread.Key, domain))
}

// firstTemplate returns the first template that can host a pod alone in the domain, within limits, and minValues; nil where a reservation
// decides.
func (s *state) firstTemplate(e *easyGroup, domain string) *fit.Template {
	for _, t := range s.Templates {
		o := s.easyOpening(e, domain, t)
		if o == nil {
			continue
		}
		if s.awaitsOn(t, o) {
			return nil
		}
		if s.affordable(t, o.holds).Any() {
			return t
		}
	}
	return nil
}

// easyKey identifies a fresh claim for an easy group.
type easyKey struct {
	group  *fit.Group
	domain string
	tmpl   *fit.Template
}

// easyOpening is a fresh claim of a template for a group in a domain.
type easyOpening struct {
	reqs constraint.Requirements
	// offers satisfy the requirements and are not reserved, holds are those of them whose type holds one pod; reserved are the reserved
	// offerings that do, nil if there are none.
	offers, holds, reserved *catalog.Set
}

func (s *state) easyOpening(e *easyGroup, domain string, t *fit.Template) *easyOpening {
	key := easyKey{e.Group, domain, t}
	if o, ok := s.easyOpenings[key]; ok {
		return o
	}
	o := s.computeOpening(e, domain, t)
	s.easyOpenings[key] = o
	return o
}

func (s *state) computeOpening(e *easyGroup, domain string, t *fit.Template) *easyOpening {
	s.steps++
	if _, _, _, ok := t.Open(e.spec); !ok {
		return nil
	}
	add := e.in(domain)
	if _, ok := t.Requirements.Compatible(add, constraint.WellKnownOptional); !ok {
		return nil
	}
	o := &easyOpening{reqs: t.Requirements.And(add)}
	o.offers = tightened(t.Catalog, t.Offers, t.Requirements, o.reqs)
	enough := func(holds *catalog.Set) bool {
		return holds.Any() && (len(t.MinValues) == 0 || len(t.Shortfall(o.reqs, holds)) == 0)
	}
	if t.Reserved != nil {
		if r := s.holding(host{tmpl: t, used: s.zero}, o.offers.Intersection(t.Reserved), e.Request, 1); enough(r) {
			o.reserved = r
		}
		o.offers = o.offers.Difference(t.Reserved)
	}
	o.holds = s.holding(host{tmpl: t, used: s.zero}, o.offers, e.Request, 1)
	if !enough(o.holds) {
		if o.reserved == nil {
			return nil
		}
		o.holds = o.holds.ClearAll()
	}
	return o
}

// fillExisting puts easy pods on existing targets, on each the mix that would cost most on a new node. No pod is left that still fits on a target
// (rules 31.1, I5).
func (s *state) fillExisting(easy []*easyGroup, w worth) {
	sack := s.sackFor(easy, w)
	for i := range s.targets {
		r := &s.targets[i]
		if r.Overdrawn || s.spent() {
			continue
		}
		s.fillBest(easy, sack, i)
		for _, e := range byDensity(s, easy, w.value, r) {
			for level := 0; level <= e.spec.Level && s.left[e.Index] > 0; level++ {
				s.fillOne(e, s.Level(e.Group, level), i, s.left[e.Index])
			}
		}
	}
}

func (s *state) sackFor(easy []*easyGroup, w worth) *knapsack {
	d := s.Axis.Len()
	size := make([]int64, 0, len(easy)*d)
	for _, e := range easy {
		size = append(size, e.Request...)
	}
	sack := newKnapsack(size, d, make([]int32, len(easy)))
	sack.value = w.value
	copy(sack.rate, w.rate)
	sack.setBulk()
	return sack
}

// fillBest packs one target with the most valuable mix of groups that it takes at level 0.
func (s *state) fillBest(easy []*easyGroup, sack *knapsack, target int) {
	r := &s.targets[target]
	m := market{}
	for i, e := range easy {
		if s.left[e.Index] == 0 {
			continue
		}
		spec, n, _, ok := s.onTarget(e, s.Level(e.Group, 0), target)
		if !ok {
			continue
		}
		if sack.cap[i] = int32(s.fitTarget(spec, target, min(n, s.left[e.Index]))); sack.cap[i] > 0 {
			m.items = append(m.items, int32(i))
		}
	}
	if len(m.items) == 0 {
		return
	}
	b := bin{free: slices.Clone(r.free)}
	sack.prepare(&m, [][]float64{inverseOf(b.free), sack.rate})
	v := sack.fill(&b)
	v = sack.balance(&b, v, 1)
	v = sack.balance(&b, v, 3)
	sack.polish(&b, v)
	for _, i := range m.items {
		if sack.best[i] > 0 {
			s.fillOne(easy[i], s.Level(easy[i].Group, 0), target, int(sack.best[i]))
		}
	}
}

// onTarget returns the spec to try on a target, the most pods the shares of a spread leave there, and the domain.
func (s *state) onTarget(e *easyGroup, spec *fit.Spec, target int) (_ *fit.Spec, n int, domain string, ok bool) {
	if e.spread == nil || !slices.Contains(spec.Topologies, e.spread) {
		return spec, unlimited, "", true
	}
	if domain, ok = fit.Domain(s.targets[target].Target.Target, e.spread.Key); !ok {
		return nil, 0, "", false
	}
	return e.withoutSpread(spec), e.quota[domain], domain, true
}

func (s *state) fillOne(e *easyGroup, spec *fit.Spec, target, n int) {
	spec, share, domain, ok := s.onTarget(e, spec, target)
	if n = min(n, share); !ok || n == 0 {
		return
	}
	if k := s.fitTarget(spec, target, n); k > 0 {
		s.putTarget(spec, target, k)
		e.took(domain, k)
	}
}

// took takes placed pods off the share of their domain.
func (e *easyGroup) took(domain string, n int) {
	if e.spread == nil {
		return
	}
	if domain != "" {
		e.quota[domain] -= n
		return
	}
	for _, d := range e.spread.Domains() { // placed at a level where the spread was not asked for
		k := min(n, e.quota[d])
		e.quota[d] -= k
		n -= k
	}
}

// withoutSpread is the spec without the constraint that the shares already keep.
func (e *easyGroup) withoutSpread(spec *fit.Spec) *fit.Spec {
	if have := e.plain[spec.Level]; have != nil {
		return have
	}
	out := *spec
	out.Topologies = slices.DeleteFunc(slices.Clone(spec.Topologies), func(t *fit.Topology) bool { return t == e.spread })
	if e.plain == nil {
		e.plain = map[int]*fit.Spec{}
	}
	e.plain[spec.Level] = &out
	return &out
}

// byDensity orders groups by value per share of what the target has free, best first.
func byDensity(s *state, easy []*easyGroup, value []float64, r *room) []*easyGroup {
	type scored struct {
		e     *easyGroup
		score float64
	}
	var list []scored
	for i, e := range easy {
		if s.left[e.Index] == 0 {
			continue
		}
		share, fits := 0.0, true
		for d, n := range e.Request {
			if n > r.free[d] {
				fits = false
				break
			}
			if n > 0 {
				share += float64(n) / float64(r.free[d])
			}
		}
		if fits {
			list = append(list, scored{e, value[i] / share})
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	out := make([]*easyGroup, len(list))
	for i := range list {
		out[i] = list[i].e
	}
	return out
}
