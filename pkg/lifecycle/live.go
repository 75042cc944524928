package lifecycle

import "time"

// Liveness is the outcome of one look at the timers of a claim (lifecycle rules 10).
type Liveness struct {
	// Delete gives the claim up for that reason; empty keeps it.
	Delete string
	// Cause is the reason and message for the pool's registration health.
	Cause Condition
	// After is when the next timer ends; zero means that none runs.
	After time.Duration
}

// Live decides whether a claim took too long to launch or to register (L-078 to L-085).
func Live(c *Claim, now time.Time) Liveness {
	if c.Is(Registered, True) {
		return Liveness{}
	}
	kind, limit, reason := Registered, RegistrationTimeout, ReasonRegistrationTimeout
	if !c.Is(Launched, True) {
		kind, limit, reason = Launched, LaunchTimeout, ReasonLaunchTimeout
	}
	cond := c.condition(kind)
	if left := limit - now.Sub(cond.Since); left > 0 {
		return Liveness{After: left}
	}
	cause := Condition{Type: "NodeRegistrationHealthy", Status: False, Reason: "RegistrationFailed"}
	if kind == Launched {
		cause.Reason, cause.Message = cond.Reason, cond.Message
	}
	return Liveness{Delete: reason, Cause: cause}
}

// Expire decides whether a claim has reached the end of its life; after is the time left, zero if it never ends (L-109 to L-113).
func Expire(c *Claim, now time.Time) (expired bool, after time.Duration) {
	if c.ExpireAfter == nil || c.Deleting() {
		return false, 0
	}
	if left := c.Created.Add(*c.ExpireAfter).Sub(now); left > 0 {
		return false, left
	}
	return true, 0
}
