package aws

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// slowest is the share of its rate below which a bucket does not fall.
	slowest = 1.0 / 16
	// recovery is the share of its rate that a bucket regains with every call that is not throttled.
	recovery = 1.0 / 32
	// oneThrottle is the time in which several throttled calls count as one: they were under way together.
	oneThrottle = time.Second
)

// bucket is a token bucket that follows what AWS grants: a throttled call halves its rate, every other call gives back a little of it. Other
// programs in the account draw on the same allowance, so that no fixed rate is right.
type bucket struct {
	*rate.Limiter
	full Rate

	mu        sync.Mutex
	throttled time.Time
}

func newBucket(r Rate) *bucket {
	return &bucket{Limiter: rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst), full: r}
}

// settle learns from the outcome of a call.
func (b *bucket) settle(err error, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	have := float64(b.Limit())
	switch {
	case err != nil && throttled(err):
		if now.Sub(b.throttled) >= oneThrottle {
			b.throttled = now
			b.set(now, max(have/2, b.full.PerSecond*slowest))
		}
	case have < b.full.PerSecond:
		b.set(now, min(have+b.full.PerSecond*recovery, b.full.PerSecond))
	}
}

// set changes the rate, and the size of the bucket with it: a full bucket would hide a lower rate for long.
func (b *bucket) set(now time.Time, perSecond float64) {
	b.SetLimitAt(now, rate.Limit(perSecond))
	b.SetBurstAt(now, max(1, int(float64(b.full.Burst)*perSecond/b.full.PerSecond)))
}
