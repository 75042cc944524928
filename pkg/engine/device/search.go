package device

import (
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// Site is a place where devices are looked for.
type Site struct {
	// Node is the name of an existing Node; Satisfies tells whether its labels satisfy requirements. For a claim that is to be launched Satisfies
	// is nil, and Requirements are what is known of it.
	Node         string
	Satisfies    func(constraint.Requirements) bool
	Requirements constraint.Requirements
	// Type identifies the instance type and its catalogue, Template are the devices that its nodes will have: of an initialized Node none, for it
	// has published them.
	Type     string
	Template []catalog.DevicePool
	// Alone leaves out devices that other nodes reach too.
	Alone bool
	// Used is what has been taken by others; nil maps are fine.
	Used []Usage
}

// Result is a device for a request.
type Result struct {
	// Claim is the claim's key, Request the name of the request, with /way for one of several ways.
	Claim, Request       string
	Driver, Pool, Device string
	// Template tells that the device comes with the node, Node that it is one of an existing Node: neither can be used from elsewhere.
	Template bool
	Node     string
	Admin    bool
	Consumed map[string]int64

	needs constraint.Requirements
}

// Local reports whether the device can be used from one node only.
func (r Result) Local() bool { return r.Template || r.Node != "" }

// Needs returns what the devices of a claim demand of every node from which they are used.
func Needs(results []Result, claim string) constraint.Requirements {
	var out constraint.Requirements
	for _, r := range results {
		if r.Claim == claim {
			out = out.And(r.needs)
		}
	}
	return out
}

// Search finds devices for claims that have none. It returns the results and what the devices demand of a claim that is to be launched; ok is false if there
// is no solution, or none was found before the budget of steps, which it uses up, had run out.
func (v *Inventory) Search(site Site, claims []*cluster.DeviceClaim, budget *int) (results []Result, needs constraint.Requirements, ok bool) {
	s := &search{Inventory: v, site: site, claims: claims, budget: budget, own: Usage{}, steps: []step{{reqs: site.Requirements}}}
	s.all = slices.Clone(v.pinned[site.Node])
	if !site.Alone {
		s.all = append(s.all, v.shared...)
	}
	s.all = append(s.all, v.template(site.Type, site.Template)...)
	if !s.claim(0) {
		return nil, needs, false
	}
	return s.results, s.steps[len(s.steps)-1].needs, true
}

// Reaches reports whether devices with this reach can be used at a site, and what that demands of the node.
func (s Site) Reaches(r cluster.Reach) (needs constraint.Requirements, ok bool) {
	if r.Node != "" {
		return needs, r.Node == s.Node
	}
	if len(r.Terms) == 0 {
		return needs, true
	}
	for _, t := range r.Terms {
		reqs := constraint.Parse(t.Exprs)
		switch {
		case t.Nodes != nil && !slices.Contains(t.Nodes, s.Node):
		case s.Satisfies != nil:
			if s.Satisfies(reqs) {
				return reqs, true
			}
		default:
			if _, fits := s.Requirements.Compatible(reqs, constraint.WellKnownOptional); fits {
				return reqs, true
			}
		}
	}
	return needs, false
}

// search is the state of a depth-first search. What was chosen so far is a stack: results, with the requirements after each.
type search struct {
	*Inventory
	site    Site
	claims  []*cluster.DeviceClaim
	all     []*candidate
	budget  *int
	own     Usage
	results []Result
	chosen  []*candidate
	steps   []step
}

type step struct{ reqs, needs constraint.Requirements }

func (s *search) claim(i int) bool {
	if i == len(s.claims) {
		return true
	}
	return s.request(i, 0, len(s.results))
}

// request serves the requests of claim i from number r on; first is where the claim's results begin.
func (s *search) request(i, r, first int) bool {
	c := s.claims[i]
	if r == len(c.Requests) {
		return s.claim(i + 1)
	}
	q := c.Requests[r]
	for _, w := range q.Ways {
		a := ask{claim: c, way: w, name: q.Name, first: first, next: func() bool { return s.request(i, r+1, first) }}
		if w.Name != "" {
			a.name += "/" + w.Name
		}
		for _, x := range s.all {
			if s.selects(x, slices.Concat(s.classes[w.Class].Selectors, w.Selectors), w.Tolerations) {
				a.from = append(a.from, x)
			}
		}
		if w.All && s.every(a) || !w.All && s.some(a, 0, w.Count) {
			return true
		}
	}
	return false
}

// ask is one way to serve a request, with the devices that match it.
type ask struct {
	claim *cluster.DeviceClaim
	way   cluster.DeviceWay
	name  string
	first int
	from  []*candidate
	next  func() bool
}

// some takes n of the devices, from number i on.
func (s *search) some(a ask, i int, n int64) bool {
	if n == 0 {
		return a.next()
	}
	for ; i < len(a.from); i++ {
		x := a.from[i]
		if x.pool.broken || !s.take(a, x) {
			continue
		}
		after := i + 1
		if x.Shared {
			after = i
		}
		if s.some(a, after, n-1) {
			return true
		}
		s.giveBack()
	}
	return false
}

// every takes all devices that can be used here; there must be one, and none that is not known or is taken.
func (s *search) every(a ask) bool {
	before := len(s.results)
	for _, x := range s.all {
		if _, reached := s.here().Reaches(x.reach); reached && x.pool.broken {
			return false
		}
	}
	for _, x := range a.from {
		if _, reached := s.here().Reaches(x.reach); reached && !s.take(a, x) {
			s.backTo(before)
			return false
		}
	}
	if len(s.results) > before && a.next() {
		return true
	}
	s.backTo(before)
	return false
}

func (s *search) backTo(n int) {
	for len(s.results) > n {
		s.giveBack()
	}
}

// here is the site as the devices chosen so far leave it.
func (s *search) here() Site {
	out := s.site
	out.Requirements = s.steps[len(s.steps)-1].reqs
	return out
}

// take puts a device on the stack if it can be used here, has enough left and matches those chosen before.
func (s *search) take(a ask, x *candidate) bool {
	if *s.budget--; *s.budget < 0 || len(s.results)-a.first >= mostDevices {
		return false
	}
	needs, ok := s.here().Reaches(x.reach)
	if !ok || !s.matches(a, x) {
		return false
	}
	consumed, ok := share(x.Device, x.pool.driver, a.way.Capacity)
	if !ok || !a.way.Admin && !s.available(x, consumed) {
		return false
	}
	r := Result{Claim: a.claim.Key(), Request: a.name, Driver: x.pool.driver, Pool: x.pool.name, Device: x.Name, Template: x.template,
		Node: x.node(), Admin: a.way.Admin, Consumed: consumed, needs: needs}
	if !r.Admin {
		s.own.add(x.id(), consumed)
	}
	last := s.steps[len(s.steps)-1]
	s.results, s.chosen = append(s.results, r), append(s.chosen, x)
	s.steps = append(s.steps, step{last.reqs.And(needs), last.needs.And(needs)})
	return true
}

// node is the only node that reaches the device, empty if there are several or the device comes with the node.
func (c *candidate) node() string {
	if c.reach.Node != "" {
		return c.reach.Node
	}
	if len(c.reach.Terms) == 1 && len(c.reach.Terms[0].Nodes) == 1 {
		return c.reach.Terms[0].Nodes[0]
	}
	return ""
}

func (s *search) giveBack() {
	n := len(s.results) - 1
	s.results, s.chosen, s.steps = s.results[:n], s.chosen[:n], s.steps[:n+1]
	s.own = Usage{}
	s.own.Take(s.results)
}

// matches reports whether the device has the attributes in common that the claim wants (rules 22.4).
func (s *search) matches(a ask, x *candidate) bool {
	for _, m := range a.claim.Match {
		if !concerns(m, a.name) {
			continue
		}
		for i := a.first; i < len(s.results); i++ {
			if concerns(m, s.results[i].Request) && !alike(s.chosen[i].Device, x.Device, m.Attribute) {
				return false
			}
		}
		if !alike(x.Device, x.Device, m.Attribute) {
			return false // it lacks the attribute
		}
	}
	return true
}
