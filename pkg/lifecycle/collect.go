package lifecycle

import (
	"maps"
	"slices"
	"time"
)

// Numbers of garbage collection (lifecycle rules 18, reliability rule 5).
const (
	// CollectConfirm is the least time between the two complete listings that a removal rests on.
	CollectConfirm = time.Minute
	// CollectShield is the age below which an instance without a claim is left alone.
	CollectShield = 30 * time.Second
	// BreakerWindow is the time over which removals are counted.
	BreakerWindow = 10 * time.Minute

	breakerFloor   = 3
	breakerPercent = 5
)

// Suspects remembers what was found missing, and since when. The zero value is ready. It is not safe for concurrent use.
type Suspects struct{ since map[string]time.Time }

// Observe takes the keys found missing in one complete listing and returns those that were missing in a listing at least CollectConfirm
// earlier too, ascending. A key that is not missing any more is forgotten. Never call it for an incomplete listing.
func (s *Suspects) Observe(missing []string, now time.Time) []string {
	next := make(map[string]time.Time, len(missing))
	var confirmed []string
	for _, key := range missing {
		first, known := s.since[key]
		if !known {
			first = now
		}
		next[key] = first
		if known && now.Sub(first) >= CollectConfirm {
			confirmed = append(confirmed, key)
		}
	}
	s.since = next
	slices.Sort(confirmed)
	return slices.Compact(confirmed)
}

// Breaker limits how much garbage collection may remove: at most max(3, 5 % of what there is) in BreakerWindow. The zero value is ready.
type Breaker struct{ removed []time.Time }

// Left returns how many removals are allowed now with total objects managed.
func (b *Breaker) Left(total int, now time.Time) int {
	b.removed = slices.DeleteFunc(b.removed, func(at time.Time) bool { return now.Sub(at) >= BreakerWindow })
	return max(max(breakerFloor, total*breakerPercent/100)-len(b.removed), 0)
}

// Spend notes one removal.
func (b *Breaker) Spend(now time.Time) { b.removed = append(b.removed, now) }

// MissingClaims returns the UIDs of claims whose instance the complete listing does not show: registered, not being deleted, and without a
// node that is Ready. Live are the provider IDs of listed instances that are not on their way out. Nodes are by provider ID; unreadable
// names the provider IDs whose nodes could not be looked up (LX10).
func MissingClaims(claims []Claim, live map[string]bool, nodes map[string][]Node, unreadable map[string]bool) []string {
	var out []string
	for i := range claims {
		c := &claims[i]
		if !c.Is(Registered, True) || c.Deleting() || c.ProviderID == "" || live[c.ProviderID] || unreadable[c.ProviderID] {
			continue
		}
		if at := nodes[c.ProviderID]; len(at) == 1 && at[0].Ready == True {
			continue
		}
		out = append(out, c.UID)
	}
	slices.Sort(out)
	return out
}

// Orphan is an instance as garbage collection sees it.
type Orphan struct {
	ID, ProviderID string
	Launched       time.Time
	Gone           bool
	// LaunchID and Token are its identity tags, Foreign tells that it carries the full set of Karpenter's tags and none of ours.
	LaunchID, Token string
	Foreign         bool
}

// Orphans sorts instances that no claim refers to: those that may be removed once confirmed, and those whose launch token does not verify,
// which are only reported (LX21). Verify tells whether a token is derived from our cluster and the launch ID.
func Orphans(instances []Orphan, claimed map[string]bool, verify func(launchID, token string) bool, now time.Time) (remove, report []string) {
	for _, o := range instances {
		if o.Gone || claimed[o.ProviderID] || now.Sub(o.Launched) <= CollectShield {
			continue
		}
		switch {
		case o.Foreign || (o.Token != "" && verify(o.LaunchID, o.Token)):
			remove = append(remove, o.ID)
		default:
			report = append(report, o.ID)
		}
	}
	slices.Sort(remove)
	slices.Sort(report)
	return remove, report
}

// Known returns the keys under suspicion, ascending, for the status endpoint.
func (s *Suspects) Known() []string { return slices.Sorted(maps.Keys(s.since)) }
