package pack

import (
	"math"
	"slices"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
)

// Objection says why a placement does not hold any more.
type Objection struct {
	Code   reason.Code
	Detail string
}

// Replay puts the pods of a plan where it wants them in another model, and returns an objection for each placement on an existing target that
// does not hold there, by UID. Claims are taken as they are: their pods only count for topologies. Placements must name the target by the
// Node's or the claim's name.
func Replay(m *fit.Model, p plan.Plan) map[string]Objection {
	s := newState(m, Options{Steps: math.MaxInt64})
	s.replayClaims(p.Claims)
	out := map[string]Objection{}
	at := map[string]int{}
	for i, t := range s.targets {
		at[t.Name] = i
		if t.Claim != nil {
			at[t.Claim.Name] = i
		}
	}
	type lot struct {
		group  *fit.Group
		target int
	}
	wanted, order := map[lot][]string{}, []lot(nil)
	groups := s.byPod()
	for _, x := range p.Placements {
		name := x.Node
		if name == "" {
			name = x.Claim
		}
		i, ok := at[name]
		if !ok {
			out[x.Pod] = Objection{reason.TargetGone, name}
			continue
		}
		l := lot{groups[x.Pod], i}
		if l.group == nil {
			out[x.Pod] = Objection{Code: reason.NotPending}
			continue
		}
		if wanted[l] == nil {
			order = append(order, l)
		}
		wanted[l] = append(wanted[l], x.Pod)
	}
	for _, l := range order {
		n := s.replay(l.group, l.target, len(wanted[l]))
		for _, uid := range wanted[l][n:] {
			out[uid] = s.objection(l.group, l.target)
		}
		wanted[l] = wanted[l][:n]
	}
	before := newState(m, s.opts)
	for _, l := range order {
		if o := s.conflict(before, l.group, l.target); o != nil {
			for _, uid := range wanted[l] {
				out[uid] = *o
			}
		}
	}
	return out
}

func (s *state) byPod() map[string]*fit.Group {
	out := map[string]*fit.Group{}
	for _, g := range s.Groups {
		for _, pod := range g.Pods {
			out[pod.UID] = g
		}
	}
	return out
}

// replayClaims makes the pods of claims count.
func (s *state) replayClaims(claims []plan.Claim) {
	groups := s.byPod()
	for _, c := range claims {
		for _, t := range s.Templates {
			if t.Pool.Name != c.Pool {
				continue
			}
			on := s.newClaim(t)
			on.reqs = constraint.Parse(c.Requirements)
			for _, uid := range c.Pods {
				if g := groups[uid]; g != nil && s.left[g.Index] > 0 {
					s.put(s.Level(g, 0), 1, -1, on)
				}
			}
		}
	}
}

// replay puts up to n pods of the group on a target, at the first level at which labels, taints and room let some in.
func (s *state) replay(g *fit.Group, target, n int) int {
	if g.Refused != "" {
		return 0
	}
	n = min(n, s.left[g.Index])
	for level := 0; n > 0; level++ {
		spec := s.Level(g, level)
		if spec == nil {
			break
		}
		k := 0
		for k < n {
			more := s.roomOn(spec, target, n-k)
			if more == 0 {
				break
			}
			s.putTarget(spec, target, more)
			k += more
		}
		if k > 0 {
			return k
		}
	}
	return 0
}

// conflict returns the objection of the topologies to a pod of the group on a target, if they object in whatever order the plan's pods come:
// before is the state without the plan, s that with all of it.
func (s *state) conflict(before *state, g *fit.Group, target int) *Objection {
	var out *Objection
	for level := 0; ; level++ {
		spec := s.Level(g, level)
		if spec == nil {
			return out
		}
		i := slices.IndexFunc(spec.Topologies, func(t *fit.Topology) bool { return !s.possible(before, spec, t, target) })
		if i < 0 {
			return nil
		}
		t := spec.Topologies[i]
		out = &Objection{kindCode(t), t.Key}
	}
}

func (s *state) possible(before *state, spec *fit.Spec, t *fit.Topology, target int) bool {
	x := s.targets[target].Target.Target
	d, ok := fit.Domain(x, t.Key)
	switch {
	case t.Kind == fit.Spread:
		self := 0
		if t.Selects(spec.Group) {
			self = 1
		}
		return ok && before.tally(t)[d]+self <= t.MaxSkew+t.Floor(spec, s.tally(t))
	case t.Kind == fit.Affinity && ok && s.tally(t)[d] > 0:
		return true
	}
	return before.allowanceOn(spec, t, target) > 0
}

// objection says what keeps a pod of the group off a target even when all its preferences are given up.
func (s *state) objection(g *fit.Group, target int) Objection {
	r, spec := &s.targets[target], s.Last(g)
	if code, detail, ok := r.Admits(spec); !ok {
		return Objection{code, detail}
	}
	shape := g.Shape
	switch {
	case g.Refused != "":
		return Objection{g.Refused, g.Detail}
	case r.Overdrawn || g.Request.Times(r.free, 1) == 0:
		return Objection{reason.TooBig, r.Name}
	case fit.PortsCollide(shape.HostPorts, r.ports):
		return Objection{reason.HostPortConflict, r.Name}
	case r.volumes != nil && !r.Attachable(r.volumes, shape.Volumes):
		return Objection{reason.TooBig, "attachable volumes"}
	}
	return Objection{reason.TooBig, r.Name}
}

// Requests returns what a claim of the pool requests for the pods of a plan's claim that are left, daemons included; ok is false if the pool
// has no usable template now.
func Requests(m *fit.Model, c plan.Claim) (_ map[string]int64, ok bool) {
	i := 0
	for i < len(m.Templates) && m.Templates[i].Pool.Name != c.Pool {
		i++
	}
	if i == len(m.Templates) {
		return nil, false
	}
	s := &state{Model: m}
	groups, t := s.byPod(), m.Templates[i]
	offers := t.Catalog.Narrow(t.Offers, constraint.Parse(c.Requirements), nil)
	if offers.None() {
		return nil, false
	}
	used := m.Axis.Vector(nil)
	for _, uid := range c.Pods {
		if groups[uid] == nil {
			return nil, false
		}
		used.Add(groups[uid].Request, 1)
	}
	return m.Axis.List(used).Add(t.LeastOverhead(offers)), true
}
