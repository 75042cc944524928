// Package pack decides which pods go where: onto existing targets, and into new claims of the best price for what they hold.
//
// Pods that only ask for resources, labels, an even spread or a node of their own are packed together for price (see price.go); those with
// other ties to each other are placed one group after the other by the queue rules of the scheduling specification (9). Both keep the
// invariants of section 31 of that specification.
package pack

import (
	"cmp"
	"slices"

	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
)

// Options of a run.
type Options struct {
	// Steps is the budget, Fallback the way to treat reservations; see engine.Policy.
	Steps    int64
	Fallback bool
	// Quick values pods by what they ask for alone when existing targets are filled, without the linear program over them: for simulations, of which
	// there are many.
	Quick bool
}

// Run places the batch of the model and returns the plan, without its digest.
func Run(m *fit.Model, o Options) plan.Plan {
	s := newState(m, o)
	if m.Candidates {
		s.hinted()
		s.run()
		s.widen()
	}
	p := plan.Plan{Verdicts: m.Ignored, Pools: m.Pools}
	s.emit(&p)
	s.placements(&p)
	s.verdicts(&p)
	p.Steps, p.Cut = s.steps, s.spent()
	return p
}

// run places real pods and then, in the room they leave, the virtual ones of capacity buffers (rules 24.3).
func (s *state) run() {
	real, virtual := s.Groups, []*fit.Group(nil)
	if i := slices.IndexFunc(s.Groups, (*fit.Group).Virtual); i >= 0 {
		real, virtual = s.Groups[:i], s.Groups[i:]
	}
	s.place(real)
	if len(virtual) > 0 {
		s.place(virtual)
	}
}

// place places hard groups first: they have the fewest places to go. Easy groups that are spread get their shares as a whole; where limits left a
// group with shares that no longer keep the spread, everything is taken back and the group is placed by the queue rules instead.
func (s *state) place(groups []*fit.Group) {
	for again := true; again; {
		before := s.save()
		easy, hard := s.split(groups)
		s.sequential(hard)
		s.packEasy(easy)
		again = false
		for _, e := range easy {
			if s.uneven(e) {
				s.forced[e.Group] = true
				again = true
			}
		}
		if again = again && !s.spent(); again {
			s.restore(before)
		}
	}
	// What the packer could not place for limits, minValues or the lack of room may still go somewhere by itself.
	s.sequential(groups)
}

// hinted keeps pods where an earlier plan has put them, as long as they fit there (rules 2.1).
func (s *state) hinted() {
	byName := map[string]int{}
	for i, t := range s.targets {
		byName[t.Name] = i
	}
	for _, g := range s.Groups {
		if g.Refused != "" {
			continue
		}
		// Pods are taken in order, so hinted ones come first.
		slices.SortStableFunc(g.Pods, func(a, b podRef) int { return cmp.Compare(hintRank(a), hintRank(b)) })
		for _, p := range g.Pods {
			i, ok := byName[p.Nominated]
			if hintRank(p) != 0 || !ok || s.fitTarget(s.Level(g, 0), i, 1) == 0 {
				break
			}
			s.putTarget(s.Level(g, 0), i, 1)
		}
	}
}

// placements lists the pods on existing targets.
func (s *state) placements(p *plan.Plan) {
	for _, x := range s.places {
		if x.claim != nil {
			continue
		}
		t := s.targets[x.target]
		to := plan.Placement{}
		if t.Node != nil {
			to.Node = t.Node.Name
		}
		if t.Claim != nil {
			to.Claim = t.Claim.Name
		}
		for _, pod := range x.group.Pods[x.from:x.to] {
			to.Pod = pod.UID
			p.Placements = append(p.Placements, to)
		}
	}
	slices.SortFunc(p.Placements, func(a, b plan.Placement) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.Pod, b.Pod))
	})
}

// verdicts explains the pods that are left, group by group.
func (s *state) verdicts(p *plan.Plan) {
	for _, g := range s.Groups {
		if s.left[g.Index] == 0 {
			continue
		}
		v := s.verdict(g)
		for _, pod := range g.Pods[s.next[g.Index]:] {
			v.Pod = pod.UID
			p.Verdicts = append(p.Verdicts, v)
		}
	}
	slices.SortStableFunc(p.Verdicts, func(a, b plan.Verdict) int { return cmp.Compare(a.Pod, b.Pod) })
}

func (s *state) verdict(g *fit.Group) plan.Verdict {
	switch {
	case g.Refused != "":
		return plan.Verdict{Layer: reason.Request, Code: g.Refused, Detail: g.Detail}
	case s.spent():
		return plan.Verdict{Code: reason.Cut}
	}
	v := plan.Verdict{Layer: reason.NodePool, Code: reason.NoNodePools}
	spec, deferred := s.deferred[g]
	if !deferred {
		spec = s.Last(g)
	}
	findings := make(map[string]plan.PoolFinding, len(s.Templates))
	waits := ""
	for _, t := range s.Templates {
		f := plan.PoolFinding{Pool: t.Pool.Name, Layer: reason.NodePool, Code: reason.ReservationFull, Detail: waits}
		if waits == "" {
			f = s.finding(spec, t)
		}
		if deferred && waits == "" && f.Code == reason.ReservationFull {
			waits = "pool " + t.Pool.Name
		}
		findings[t.Pool.Name] = f
	}
	for _, x := range s.Pools {
		findings[x.Pool] = plan.PoolFinding{Pool: x.Pool, Layer: poolLayer(x.Code), Code: x.Code, Detail: x.Detail}
	}
	for _, name := range s.poolOrder() {
		f := findings[name]
		v.Pools = append(v.Pools, f)
		if v.Code == reason.NoNodePools || f.Layer > v.Layer {
			v.Layer, v.Code, v.Detail = f.Layer, f.Code, f.Detail
		}
	}
	if deferred { // it waits for a reservation, which is no reason for an event (rules 15.3)
		v.Layer, v.Code, v.Silent = reason.Offering, reason.ReservationFull, true
	}
	return v
}

func poolLayer(c reason.Code) reason.Layer {
	switch c {
	case reason.LabelConflict:
		return reason.Constraints
	case reason.MinValuesUnsatisfied:
		return reason.InstanceType
	case reason.OfferingUnavailable:
		return reason.Offering
	default:
		return reason.NodePool
	}
}

func (s *state) poolOrder() []string {
	pools := slices.Clone(s.Snapshot.Pools)
	slices.SortFunc(pools, func(a, b poolRef) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Name, a.Name))
	})
	out := make([]string, len(pools))
	for i, p := range pools {
		out[i] = p.Name
	}
	return out
}
