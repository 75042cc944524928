package agent

import (
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/plan"
)

// stand returns the plan that was made before in the place of one that wants claims, if it still serves all pods that have a place in the new one.
//
// Pods wait for their nodes for a while, and ask again meanwhile. Packing them anew onto what is on its way does not find the tight packing that
// these nodes were bought for, or finds another one that leaves pods over: each time it would buy a node for them that nobody needs.
func stand(s *cluster.Snapshot, before []plan.Placement, p plan.Plan) plan.Plan {
	if len(p.Claims) == 0 || len(before) == 0 {
		return p
	}
	placed := map[string]bool{}
	for _, x := range p.Placements {
		placed[x.Pod] = true
	}
	for i := range p.Claims {
		for _, uid := range p.Claims[i].Pods {
			placed[uid] = true
		}
	}
	before = slices.DeleteFunc(slices.Clone(before), func(x plan.Placement) bool { return !placed[x.Pod] })
	if len(before) < len(placed) {
		return p // there are new pods
	}
	old := p
	old.Claims, old.Placements = nil, before
	kept, dropped := engine.Recheck(s, old)
	if len(dropped) > 0 {
		return p
	}
	return kept
}
