package engine

import (
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// Dropped is a part of a plan that a newer snapshot has made wrong.
type Dropped struct {
	// Claim is the index of the dropped claim in the plan that was checked, -1 if a placement or only a pod of a claim was dropped.
	Claim int
	// Pod is the UID of a pod that was dropped, empty for a claim as a whole.
	Pod    string
	Code   reason.Code
	Detail string
}

// Recheck returns the part of a plan that still holds in a newer snapshot, and what was dropped and why. A claim keeps the template it was
// decided with, even if its pool has changed since (S-403); it is dropped when no pod needs it any more, when its pool may not have claims, when
// nothing it lists can be bought, or when limits leave no room for it beside what exists by now (S-171).
func Recheck(s *cluster.Snapshot, p plan.Plan) (plan.Plan, []Dropped) {
	r := &rechecker{s: s, needy: needyPods(s), left: map[string]units.List{}}
	out := p
	out.Claims, out.Placements = nil, nil
	for i, c := range p.Claims {
		if c, ok := r.claim(i, c); ok {
			out.Claims = append(out.Claims, c)
		}
	}
	out.Placements = r.placements(p.Placements)
	return out, r.dropped
}

type rechecker struct {
	s       *cluster.Snapshot
	needy   map[string]*cluster.Pod
	left    map[string]units.List // what limits leave, by pool
	dropped []Dropped
}

// needyPods are the pods that still have no place of their own.
func needyPods(s *cluster.Snapshot) map[string]*cluster.Pod {
	out := map[string]*cluster.Pod{}
	for _, g := range s.Unbound() {
		for _, pod := range g.Pods {
			if _, ok := fit.Provisionable(pod); ok {
				out[pod.UID] = pod
			}
		}
	}
	for _, t := range s.Targets() {
		for _, g := range t.Residents {
			for _, pod := range g.Pods {
				if t.Leaving && fit.Displaced(pod, s.At) {
					out[pod.UID] = pod
				}
			}
		}
	}
	return out
}

func (r *rechecker) drop(d Dropped) { r.dropped = append(r.dropped, d) }

func (r *rechecker) claim(i int, c plan.Claim) (plan.Claim, bool) {
	kept := make([]string, 0, len(c.Pods))
	for _, uid := range c.Pods {
		if r.needy[uid] == nil {
			r.drop(Dropped{Claim: -1, Pod: uid, Code: reason.NotPending})
			continue
		}
		kept = append(kept, uid)
	}
	c.Pods = kept
	if code, detail := r.objection(c); code != "" {
		r.drop(Dropped{Claim: i, Code: code, Detail: detail})
		return c, false
	}
	return c, true
}

// objection says why a claim must not be created now.
func (r *rechecker) objection(c plan.Claim) (reason.Code, string) {
	if len(c.Pods) == 0 {
		return reason.NotPending, ""
	}
	pool := r.s.Pool(c.Pool)
	switch {
	case pool == nil || pool.UID != c.PoolUID:
		return reason.NoNodePools, c.Pool
	case pool.Deleting:
		return reason.NodePoolDeleting, c.Pool
	case !pool.Ready:
		return reason.NodePoolNotReady, pool.NotReady.Reason
	case pool.Replicas != nil:
		return reason.NodePoolStaticOnly, c.Pool
	case pool.Catalog == nil:
		return reason.CatalogUnknown, pool.CatalogProblem
	}
	cat := pool.Catalog
	if cat.Narrow(cat.Available(), constraint.Parse(c.Requirements), nil).None() {
		return reason.OfferingUnavailable, ""
	}
	return r.charge(pool, c)
}

// charge counts the claim against its pool's limits, at the largest of its types.
func (r *rechecker) charge(pool *cluster.Pool, c plan.Claim) (reason.Code, string) {
	if len(pool.Limits) == 0 {
		return "", ""
	}
	left := r.left[pool.Name]
	if left == nil {
		left = pool.Limits.Clone()
		for _, t := range r.s.Targets() {
			if t.Pool == pool.Name && !t.Leaving {
				left = left.Sub(t.Capacity)
			}
		}
	}
	most := units.List{units.Nodes: 1}
	for _, t := range pool.Catalog.Types() {
		if slices.Contains(c.Types, t.Name) {
			most = most.Max(t.Capacity)
		}
	}
	for _, k := range pool.Limits.Names() {
		if most[k] > left[k] {
			r.left[pool.Name] = left
			return reason.LimitReached, k
		}
	}
	r.left[pool.Name] = left.Sub(most)
	return "", ""
}

// placements keeps those whose pod is still waiting and whose target still takes it.
func (r *rechecker) placements(ps []plan.Placement) []plan.Placement {
	targets := map[string]*cluster.Target{}
	free := map[string]units.List{}
	for _, t := range r.s.Targets() {
		if !t.Leaving {
			targets[t.Name] = t
			free[t.Name] = t.Allocatable.Sub(t.Used)
		}
	}
	var out []plan.Placement
	for _, p := range ps {
		name := p.Node
		if name == "" {
			name = p.Claim
		}
		pod, t := r.needy[p.Pod], targets[name]
		if t == nil {
			t = byClaim(r.s, p.Claim)
		}
		switch {
		case pod == nil:
			r.drop(Dropped{Claim: -1, Pod: p.Pod, Code: reason.NotPending})
			continue
		case t == nil:
			r.drop(Dropped{Claim: -1, Pod: p.Pod, Code: reason.TargetGone, Detail: name})
			continue
		}
		if x, bad := constraint.UntoleratedHard(t.Taints, pod.Shape.Tolerations); bad {
			r.drop(Dropped{Claim: -1, Pod: p.Pod, Code: reason.TaintNotTolerated, Detail: fit.TaintString(x)})
			continue
		}
		if !units.Fits(pod.Shape.Requests, free[t.Name]) {
			r.drop(Dropped{Claim: -1, Pod: p.Pod, Code: reason.TooBig, Detail: name})
			continue
		}
		free[t.Name] = free[t.Name].Sub(pod.Shape.Requests)
		if t.Node != nil {
			p.Node = t.Node.Name // a claim may have got its Node in the meantime
		}
		out = append(out, p)
	}
	return out
}

// byClaim finds the target that a claim has become.
func byClaim(s *cluster.Snapshot, claim string) *cluster.Target {
	for _, t := range s.Targets() {
		if claim != "" && t.Claim != nil && t.Claim.Name == claim && !t.Leaving {
			return t
		}
	}
	return nil
}
