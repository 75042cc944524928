package lifecycle

import (
	"cmp"
	"slices"
	"time"
)

// StaticNode is one active claim of a static pool, as far as scaling down asks (lifecycle rules 21.4).
type StaticNode struct {
	Claim string
	// Launched tells that the claim has a provider ID.
	Launched bool
	// Empty tells that the node is absent, or runs only DaemonSet pods without active do-not-disrupt.
	Empty bool
	// Protected tells that an active do-not-disrupt pod runs there.
	Protected bool
	// EvictionCost is the sum over the pods; see EvictionCost.
	EvictionCost float64
	// Created and ExpireAfter (0: never) give the lifetime that remains.
	Created     time.Time
	ExpireAfter time.Duration
}

// EvictionCost of one pod from its deletion cost annotation and priority: 1 + cost/2^27 + priority/2^25, within -10 and 10.
func EvictionCost(deletionCost float64, priority int32) float64 {
	return min(max(1+deletionCost/(1<<27)+float64(priority)/(1<<25), -10), 10)
}

// LifetimeRemaining is the fraction of a claim's life that is left: 1 without expiry, 0 once expired.
func LifetimeRemaining(created time.Time, expireAfter time.Duration, now time.Time) float64 {
	if expireAfter <= 0 {
		return 1
	}
	left := created.Add(expireAfter).Sub(now)
	return min(max(float64(left)/float64(expireAfter), 0), 1)
}

// ScaleDown returns the claims that leave when a static pool shrinks by excess, in the order in which they are chosen: not launched, empty, then by
// ascending eviction cost times remaining lifetime, those with a protected pod last (lifecycle rules 21.4). Ties go by name.
func ScaleDown(nodes []StaticNode, excess int, now time.Time) []StaticNode {
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(a, b StaticNode) int {
		return cmp.Or(cmp.Compare(a.tier(), b.tier()), cmp.Compare(a.moveCost(now), b.moveCost(now)), cmp.Compare(a.Claim, b.Claim))
	})
	return sorted[:min(max(excess, 0), len(sorted))]
}

func (n StaticNode) tier() int {
	switch {
	case !n.Launched:
		return 0
	case n.Empty:
		return 1
	case !n.Protected:
		return 2
	}
	return 3
}

func (n StaticNode) moveCost(now time.Time) float64 {
	if n.tier() < 2 {
		return 0
	}
	return n.EvictionCost * LifetimeRemaining(n.Created, n.ExpireAfter, now)
}
