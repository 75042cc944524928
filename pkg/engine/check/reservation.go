package check

import (
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
)

// reservations checks I3: a claim that may be bought as reserved is pinned to that and to reservations, and no reservation is promised to more
// claims, planned or not launched yet, than it has instances.
func (c *checker) reservations() {
	promised := c.unlaunched()
	for i, cl := range c.p.Claims {
		if !slices.Contains(cl.CapacityTypes, catalog.Reserved) {
			continue
		}
		ids := valuesOf(cl.Requirements, constraint.ReservationIDKey)
		if !c.s.Settings.ReservedCapacity || len(cl.CapacityTypes) > 1 || len(ids) == 0 {
			c.failf("claim %d: may be bought as %v, with reservations %v", i, cl.CapacityTypes, ids)
		}
		for _, id := range ids {
			if promised[id]++; promised[id] > c.reported(id) {
				c.failf("claim %d: reservation %s has %d instances and is promised to %d claims", i, id, c.reported(id), promised[id])
			}
		}
	}
}

// unlaunched counts the claims of earlier passes that may still take an instance of each reservation.
func (c *checker) unlaunched() map[string]int {
	out := map[string]int{}
	for _, t := range c.s.Targets() {
		if t.Claim != nil && !t.Claim.Launched {
			for _, id := range valuesOf(t.Claim.Requirements, constraint.ReservationIDKey) {
				out[id]++
			}
		}
	}
	return out
}

func valuesOf(es []constraint.Expr, key string) []string {
	for _, e := range es {
		if e.Key == key && e.Operator == constraint.In {
			return e.Values
		}
	}
	return nil
}

// reported is the lowest count of a reservation.
func (c *checker) reported(id string) int {
	least := -1
	for _, pool := range c.s.Pools {
		if pool.Catalog == nil {
			continue
		}
		for _, t := range pool.Catalog.Types() {
			for _, o := range t.Offerings {
				if o.ReservationID == id && (least < 0 || o.ReservationCount < least) {
					least = o.ReservationCount
				}
			}
		}
	}
	return max(least, 0)
}

// waits reports whether a verdict rightly has a pod wait: something sells a reservation of which no instance is left beside the plan's claims.
func (c *checker) waits(pod *cluster.Pod, v plan.Verdict) bool {
	full := func(f plan.PoolFinding) bool { return f.Code == reason.ReservationFull }
	if v.Code != reason.ReservationFull && !slices.ContainsFunc(v.Pools, full) {
		return false
	}
	taken := c.unlaunched()
	for _, cl := range c.p.Claims {
		for _, id := range valuesOf(cl.Requirements, constraint.ReservationIDKey) {
			taken[id]++
		}
	}
	for _, q := range c.s.Pools {
		if q.Catalog == nil || !q.Ready {
			continue
		}
		for _, t := range q.Catalog.Types() {
			for _, o := range t.Offerings {
				if o.CapacityType == catalog.Reserved && o.Available && taken[o.ReservationID] >= c.reported(o.ReservationID) {
					return true
				}
			}
		}
	}
	c.failf("pod %s waits for a reservation, but none is used up", pod.Name)
	return false
}
