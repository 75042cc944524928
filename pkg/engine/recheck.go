package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/engine/pack"
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
// nothing it lists can be bought, when limits leave no room for it beside what exists by now (S-171), or when the reservations it is pinned to
// are used up. Of a claim that has lost pods the requests are computed anew. A placement has to hold in all respects: labels, taints,
// resources, ports, volumes and topology, with the claims that are left counted.
func Recheck(s *cluster.Snapshot, p plan.Plan) (plan.Plan, []Dropped) {
	r := &rechecker{s: s, needy: needyPods(s), left: map[string]units.List{}, unheld: map[string]int{}}
	for _, x := range fit.Reservations(s) {
		r.unheld[x.ID] = x.Free
	}
	out := p
	out.Claims, out.Placements = nil, nil
	for i, c := range p.Claims {
		if c, ok := r.claim(i, c); ok {
			out.Claims = append(out.Claims, c)
		}
	}
	out.Placements = r.placements(out, p.Placements)
	return out, r.dropped
}

type rechecker struct {
	s       *cluster.Snapshot
	needy   map[string]*cluster.Pod
	left    map[string]units.List // what limits leave, by pool
	unheld  map[string]int        // free instances, by reservation
	ready   *fit.Model            // see model
	dropped []Dropped
}

// model is the snapshot made ready, on demand.
func (r *rechecker) model() *fit.Model {
	if r.ready == nil {
		r.ready = fit.New(r.s)
	}
	return r.ready
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
	lost := len(kept) < len(c.Pods)
	c.Pods = kept
	if code, detail := r.objection(c); code != "" {
		r.drop(Dropped{Claim: i, Code: code, Detail: detail})
		return c, false
	}
	if lost {
		if list, ok := pack.Requests(r.model(), c); ok {
			c.Requests = list
		}
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
	if code, detail := r.charge(pool, c); code != "" {
		return code, detail
	}
	return r.take(c)
}

// take counts a pinned claim against its reservations: one instance of each, as it may get any of them.
func (r *rechecker) take(c plan.Claim) (reason.Code, string) {
	i := slices.IndexFunc(c.Requirements, func(e constraint.Expr) bool { return e.Key == constraint.ReservationIDKey })
	if i < 0 || !slices.Contains(c.CapacityTypes, catalog.Reserved) {
		return "", ""
	}
	ids := c.Requirements[i].Values
	if !slices.ContainsFunc(ids, func(id string) bool { return r.unheld[id] > 0 }) {
		return reason.ReservationFull, strings.Join(ids, ",")
	}
	for _, id := range ids {
		r.unheld[id]--
	}
	return "", ""
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

// placements keeps those whose pod is still waiting and whose target still takes it beside the others.
func (r *rechecker) placements(p plan.Plan, ps []plan.Placement) []plan.Placement {
	targets := map[string]*cluster.Target{}
	for _, t := range r.s.Targets() {
		if t.Leaving {
			continue
		}
		targets[t.Name] = t
		if t.Claim != nil {
			targets[t.Claim.Name] = t
		}
	}
	for _, x := range ps {
		name := cmp.Or(x.Node, x.Claim)
		t := targets[name]
		switch {
		case r.needy[x.Pod] == nil:
			r.drop(Dropped{Claim: -1, Pod: x.Pod, Code: reason.NotPending})
			continue
		case t == nil:
			r.drop(Dropped{Claim: -1, Pod: x.Pod, Code: reason.TargetGone, Detail: name})
			continue
		case t.Node != nil:
			x.Node = t.Node.Name // a claim may have got its Node in the meantime
		}
		p.Placements = append(p.Placements, x)
	}
	if len(p.Placements) == 0 {
		return nil
	}
	objections := pack.Replay(r.model(), p)
	return slices.DeleteFunc(p.Placements, func(x plan.Placement) bool {
		o, bad := objections[x.Pod]
		if bad {
			r.drop(Dropped{Claim: -1, Pod: x.Pod, Code: o.Code, Detail: o.Detail})
		}
		return bad
	})
}
