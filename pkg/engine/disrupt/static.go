package disrupt

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

const (
	zoneKey           = constraint.ZoneKey
	capacityTypeKey   = constraint.CapacityTypeKey
	relaxedAnnotation = "karpenter.sh/nodeclaim-min-values-relaxed"
)

// staticDrift replaces drifted nodes of static pools one for one, each by its own command, as far as budget and limit of the pool go (rules 20).
func (d *decision) staticDrift(eligible []*node) {
	byPool := map[string][]*node{}
	for _, n := range eligible {
		byPool[n.pool.Name] = append(byPool[n.pool.Name], n)
	}
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		pool, drifted := d.pools[name], byPool[name]
		slices.SortFunc(drifted, func(a, b *node) int {
			return cmp.Or(a.Claim.Drift.Since.Compare(b.Claim.Drift.Since), cmp.Compare(a.Claim.Name, b.Claim.Name))
		})
		staying, all := d.replicas(name)
		if int64(staying) > *pool.Replicas {
			continue // scaling down comes first
		}
		room := math.MaxInt32
		if limit, ok := pool.Limits[units.Nodes]; ok {
			room = max(int(limit)-all, 0)
		}
		for _, n := range drifted[:min(len(drifted), room, d.remaining(name, plan.StaticDrift.Reason()))] {
			d.out.Commands = append(d.out.Commands, plan.Command{Method: plan.StaticDrift, Candidates: []plan.Candidate{d.asCandidate(n)},
				Replacements: []plan.Claim{FromTemplate(pool)}, Price: n.price})
		}
	}
}

// replicas counts the claims of a pool: those that are not leaving, a running command's candidates included until their replacement exists, and
// all.
func (d *decision) replicas(pool string) (staying, all int) {
	for _, c := range d.s.Claims {
		if c.Pool != pool {
			continue
		}
		all++
		if c.Deleted.IsZero() && !c.Terminating && !c.Marked {
			staying++
		}
	}
	return staying, all
}

// FromTemplate is a claim straight from a pool's template, for no particular pods (rules 20).
func FromTemplate(p *cluster.Pool) plan.Claim {
	labels := map[string]string{}
	maps.Copy(labels, p.Labels)
	labels[constraint.NodePoolKey] = p.Name
	if p.NodeClass.Kind != "" {
		labels[p.NodeClass.Group+"/"+strings.ToLower(p.NodeClass.Kind)] = p.NodeClass.Name
	}
	reqs := constraint.Parse(p.Requirements).And(constraint.FromLabels(labels))
	for r := range reqs.All() {
		if constraint.WellKnown(r.Key) || labels[r.Key] != "" {
			continue
		}
		if v, ok := r.Sample(); ok {
			labels[r.Key] = v
		}
	}
	annotations := map[string]string{}
	maps.Copy(annotations, p.Annotations)
	annotations[hashAnnotation], annotations[hashVersionAnnotation], annotations[relaxedAnnotation] = p.Hash, p.HashVersion, "false"
	return plan.Claim{Pool: p.Name, PoolUID: p.UID, PoolGeneration: p.Generation, NodeClass: p.NodeClass, Labels: labels, Annotations: annotations,
		Requirements: reqs.Exprs(), Taints: p.Taints, StartupTaints: p.StartupTaints, ExpireAfter: p.ExpireAfter,
		TerminationGracePeriod: p.TerminationGracePeriod}
}

func priceOfClaims(claims []plan.Claim) units.Money {
	sum := units.Money(0)
	for i := range claims {
		sum += claims[i].Price
	}
	return sum
}
