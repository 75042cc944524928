package disrupt

import (
	"math"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

// scoreThreshold is 1/k with k = 2: a move of a Balanced pool has to save at least half the share of the pool's price that it disrupts of its pods
// (rules 15).
const scoreThreshold = 0.5

// totals of a pool: what its nodes cost an hour, and what disrupting all of them would.
type totals struct {
	price      units.Money
	disruption float64
}

// poolTotals computes the totals of all pools that have candidates.
func (v *survey) poolTotals() map[string]totals {
	candidates := map[string]units.Money{}
	out := map[string]totals{}
	for _, n := range v.nodes {
		if _, ok := n.candidate(false); ok {
			candidates[n.pool.Name] += n.price
		}
	}
	for _, n := range v.nodes {
		if n.pool == nil {
			continue
		}
		if _, ok := candidates[n.pool.Name]; !ok {
			continue
		}
		t := out[n.pool.Name]
		t.price += n.price
		cost := n.cost
		if _, ok := n.candidate(false); !ok {
			cost = residentCost(n)
		}
		t.disruption += cost
		out[n.pool.Name] = t
	}
	for name, sum := range candidates {
		if t := out[name]; t.price <= 0 {
			t.price = sum
			out[name] = t
		}
	}
	return out
}

// residentCost is the disruption cost of a node that is no candidate (rules 6.2).
func residentCost(n *node) float64 {
	sum := 1.0
	for _, g := range n.Residents {
		for _, p := range g.Pods {
			if !daemon(p) {
				sum += max(0, EvictionCost(p))
			}
		}
	}
	return sum
}

// judge scores a move for every Balanced pool among its sources; the move is approved if all of them approve (rules 15).
func (d *decision) judge(set []*node, saving units.Money) (scores []plan.Score, approved bool) {
	if len(set) == 0 {
		return nil, false
	}
	if d.totals == nil {
		d.totals = d.poolTotals()
	}
	approved = true
	all := units.Money(0)
	prices, costs := map[string]units.Money{}, map[string]float64{}
	var order []string
	for _, n := range set {
		if _, ok := costs[n.pool.Name]; !ok {
			order = append(order, n.pool.Name)
		}
		all += n.price
		prices[n.pool.Name] += n.price
		costs[n.pool.Name] += n.cost
	}
	for _, name := range order {
		if policyOf(d.pools[name]) != cluster.Balanced {
			continue
		}
		part := saving.Dollars()
		if len(order) > 1 && all > 0 {
			part *= prices[name].Dollars() / all.Dollars()
		}
		s := d.score(name, part, costs[name])
		approved = approved && s.Approved
		scores = append(scores, s)
	}
	return scores, approved
}

func (d *decision) score(pool string, saving, disruption float64) plan.Score {
	s := plan.Score{Pool: pool}
	t, ok := d.totals[pool]
	if !ok || t.price <= 0 || t.disruption <= 0 {
		return s
	}
	s.Saving, s.Disruption = saving/t.price.Dollars(), disruption/t.disruption
	switch {
	case s.Saving <= 0:
	case s.Disruption == 0:
		s.Infinite, s.Approved = true, true
	default:
		s.Value = s.Saving / s.Disruption
		// Prices and shares are quotients of decimals: a hair below the threshold is at it.
		s.Approved = s.Value >= scoreThreshold-1e-9 && !math.IsNaN(s.Value)
	}
	return s
}

// hopeless tells that a node of a Balanced pool would not be approved even if it were deleted for nothing (rules 15, pre-filter).
func (d *decision) hopeless(n *node) bool {
	if policyOf(n.pool) != cluster.Balanced {
		return false
	}
	if d.totals == nil {
		d.totals = d.poolTotals()
	}
	if t, ok := d.totals[n.pool.Name]; !ok || t.price <= 0 {
		return false
	}
	return !d.score(n.pool.Name, n.price.Dollars(), n.cost).Approved
}
