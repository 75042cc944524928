package pack

import (
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/device"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/units"
)

// state is what changes while pods are placed.
type state struct {
	*fit.Model
	opts Options
	// steps counts attempts.
	steps   int64
	targets []room
	claims  []*claim
	// left is the number of pods of each group that have no place yet; next the index of the first of them.
	left, next []int
	places     []place
	counts     map[int]map[string]int // topology ID -> domain -> pods
	seen       map[int]int            // topology ID -> number of places counted
	undecided  map[int][]place        // topology ID -> places in claims whose domain is not known yet
	budgets    []*budget              // by template
	static     map[*fit.Spec][]bool   // does the target admit the spec, by target
	openings   map[openKey]*opening
	// easyOpenings caches fresh claims for easy groups; zero is an empty vector.
	easyOpenings map[easyKey]*easyOpening
	zero         units.Vector
	forced       map[*fit.Group]bool // groups that must not be packed for price
	// unheld is what planned claims leave of each reservation; deferred are the groups whose next pod waits for one, with the spec that was tried.
	unheld   []int
	deferred map[*fit.Group]*fit.Spec
	grants   map[string]grant // by device claim
}

// room is an existing target with what this decision has put there.
type room struct {
	*fit.Target
	free    units.Vector
	ports   []cluster.HostPort
	volumes map[string]map[string]bool
	gear    [][]device.Result // by site; never changed
}

// place records that pods of a group were put somewhere: pods [from, to) of the group.
type place struct {
	group    *fit.Group
	spec     *fit.Spec
	from, to int
	target   int // index, or -1
	claim    *claim
}

// claim is a planned claim.
type claim struct {
	id   int
	tmpl *fit.Template
	reqs constraint.Requirements
	// offers satisfy requirements and limits and fit the pods; price is that of the cheapest.
	offers    *catalog.Set
	price     units.Money
	used      units.Vector
	ports     []cluster.HostPort
	pods      int
	gone      bool         // its pods were moved elsewhere
	largest   units.List   // cache for limits
	largestOf *catalog.Set // what largest was computed from
	// relaxed tells that a minValues was lowered (rules 14).
	relaxed bool
	refuses map[*fit.Spec]bool // specs that can never join
	held    []int              // reservations; offers are all of them, if there are any
	gear    gear               // devices for resource claims; types that are not among the offers do not count
	// bare are the requests for devices that no type can serve any more: what is taken stays taken.
	bare map[string]bool
	// host is the claim's own domain of the hostname; it never reaches the API.
	host string
}

func newState(m *fit.Model, o Options) *state {
	s := &state{Model: m, opts: o, left: make([]int, len(m.Groups)), next: make([]int, len(m.Groups)),
		counts: map[int]map[string]int{}, seen: map[int]int{}, undecided: map[int][]place{}, static: map[*fit.Spec][]bool{}, openings: map[openKey]*opening{},
		easyOpenings: map[easyKey]*easyOpening{}, zero: make(units.Vector, m.Axis.Len()), forced: map[*fit.Group]bool{},
		deferred: map[*fit.Group]*fit.Spec{}, grants: map[string]grant{}}
	s.countUnheld()
	for _, t := range m.Targets {
		r := room{Target: t, free: slices.Clone(t.Free), ports: t.Ports}
		if t.Volumes != nil {
			r.volumes = map[string]map[string]bool{}
			for d, ids := range t.Volumes {
				for id := range ids {
					fit.Attach(r.volumes, []cluster.Volume{{Driver: d, ID: id}})
				}
			}
		}
		s.targets = append(s.targets, r)
	}
	for i, g := range m.Groups {
		s.left[i] = len(g.Pods)
	}
	s.budgets = s.newBudgets()
	return s
}

// spent reports whether the step budget is used up.
func (s *state) spent() bool { return s.steps >= s.opts.Steps }

// put records n pods of the spec's group on a target or a claim. Topologies count them when they are asked next.
func (s *state) put(spec *fit.Spec, n, target int, c *claim) {
	g := spec.Group
	p := place{group: g, spec: spec, from: s.next[g.Index], to: s.next[g.Index] + n, target: target, claim: c}
	s.next[g.Index] += n
	s.left[g.Index] -= n
	if c != nil {
		c.pods += n
	}
	s.places = append(s.places, p)
}

// tally returns the counts of a topology with everything placed so far. A group may first appear after pods were placed: they count too
// (rules 17.7).
func (s *state) tally(t *fit.Topology) map[string]int {
	if s.counts[t.ID] == nil {
		own := make(map[string]int, len(t.Counts))
		for d, n := range t.Counts {
			own[d] = n
		}
		s.counts[t.ID] = own
	}
	s.observe(t)
	return s.counts[t.ID]
}

// observe counts the places a topology has not seen yet.
func (s *state) observe(t *fit.Topology) {
	counts := s.counts[t.ID]
	waiting := s.undecided[t.ID][:0]
	for _, p := range s.undecided[t.ID] {
		if r, _ := p.claim.reqs.Get(t.Key); !known(r) {
			waiting = append(waiting, p)
			continue
		}
		s.countClaim(t, counts, p.claim, p.to-p.from)
	}
	s.undecided[t.ID] = waiting
	for ; s.seen[t.ID] < len(s.places); s.seen[t.ID]++ {
		p := s.places[s.seen[t.ID]]
		if t.Kind == fit.Inverse && !t.Owns(p.group) || t.Kind != fit.Inverse && !t.Selects(p.group) {
			continue
		}
		n := p.to - p.from
		switch {
		case p.claim != nil:
			if !s.countClaim(t, counts, p.claim, n) {
				s.undecided[t.ID] = append(s.undecided[t.ID], p)
			}
		case t.CountsOn(s.targets[p.target].Target.Target):
			s.countTarget(t, counts, p.target, n)
		}
	}
}

func (s *state) countTarget(t *fit.Topology, counts map[string]int, target, n int) {
	x := s.targets[target].Target.Target
	if d, ok := fit.Domain(x, t.Key); ok {
		counts[d] += n
		return
	}
	if t.Kind == fit.AntiAffinity || t.Kind == fit.Inverse {
		for _, d := range fit.OpenDomains(x, t.Key) {
			counts[d] += n
		}
	}
}

func known(r constraint.Requirement) bool {
	_, single := r.Single()
	return single
}

// countClaim counts pods on a planned claim; it returns false if they must be counted later, once the claim's domain is known.
func (s *state) countClaim(t *fit.Topology, counts map[string]int, c *claim, n int) bool {
	if t.Key == constraint.HostnameKey {
		counts[c.host] += n
		return true
	}
	if t.Kind == fit.Spread && !t.CountsOnClaim(c.reqs, c.tmpl.Pool.Taints) {
		return true
	}
	r, defined := c.reqs.Get(t.Key)
	if v, single := r.Single(); defined && single {
		counts[v] += n
		return true
	}
	if t.Kind != fit.AntiAffinity && t.Kind != fit.Inverse {
		return false
	}
	for _, d := range t.Domains() {
		if !defined || r.Admits(d) {
			counts[d] += n
		}
	}
	return true
}
