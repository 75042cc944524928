package lifecycle

import "time"

// Intervals of static pools (lifecycle rules 1.2, 21.3).
const (
	StaticInterval        = time.Minute
	StaticLimitedInterval = 30 * time.Second

	launchBackoffFirst = 5 * time.Second
	launchBackoffMost  = 3 * time.Minute
)

// Replicas is what a static pool wants and has.
type Replicas struct {
	Want int64
	// Active claims count as capacity, PendingDisruption are being replaced by drift, Deleting are on their way out with an instance.
	Active, PendingDisruption, Deleting int64
	// Limit is limits.nodes, nil if there is none.
	Limit *int64
}

// CountReplicas sorts the pool's claims (lifecycle rules 21.2). A deleting claim that was never launched stays active until it is gone.
// Pending names the claims that a drift command replaces.
func CountReplicas(claims []Claim, pending map[string]bool) Replicas {
	var r Replicas
	for i := range claims {
		switch c := &claims[i]; {
		case c.Deleting() && c.ProviderID != "":
			r.Deleting++
		case pending[c.Name]:
			r.PendingDisruption++
		default:
			r.Active++
		}
	}
	return r
}

// Missing returns how many claims to create, and whether the pool's node limit stops some of them (L-257 to L-270).
func (r Replicas) Missing() (create int64, limited bool) {
	want := r.Want - r.Active - r.PendingDisruption
	if want <= 0 {
		return 0, false
	}
	if r.Limit == nil {
		return want, false
	}
	room := max(*r.Limit-r.Active-r.PendingDisruption-r.Deleting, 0)
	return min(want, room), room < want
}

// Excess returns how many active claims to delete (L-273 to L-281).
func (r Replicas) Excess() int64 { return max(r.Active-r.Want, 0) }

// LaunchBackoff delays new claims of a static pool whose launches fail one after the other (LX9). The zero value is ready.
type LaunchBackoff struct {
	streak     int
	last       time.Time
	generation int64
}

// Failed notes that a claim of the pool was given up because it could not be launched.
func (b *LaunchBackoff) Failed(now time.Time) { b.streak, b.last = b.streak+1, now }

// Succeeded ends the streak.
func (b *LaunchBackoff) Succeeded() { b.streak = 0 }

// Left returns how long to wait before creating again: 5 s doubling to 3 min. Another generation of the pool ends the streak (L-271).
func (b *LaunchBackoff) Left(generation int64, now time.Time) time.Duration {
	if generation != b.generation {
		b.streak, b.generation = 0, generation
	}
	if b.streak == 0 {
		return 0
	}
	wait := launchBackoffMost
	if b.streak <= 6 { // 5 s doubled five times is 160 s, once more is above the most
		wait = launchBackoffFirst << (b.streak - 1)
	}
	return max(b.last.Add(wait).Sub(now), 0)
}
