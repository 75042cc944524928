package lifecycle

import "time"

// Window collects triggers into batches (scheduling rules 1.2): it opens with the first trigger and closes when no new UID came for the
// idle time, or after the maximal time. The zero value with its durations set is ready.
type Window struct {
	Idle, Max time.Duration

	seen         map[string]bool
	opened, last time.Time
}

// Trigger notes a wish for a pass. A UID that is known already does not extend the window.
func (w *Window) Trigger(uid string, now time.Time) {
	if w.seen == nil {
		w.seen, w.opened, w.last = map[string]bool{}, now, now
	}
	if !w.seen[uid] {
		w.seen[uid], w.last = true, now
	}
}

// Open reports whether a trigger is pending.
func (w *Window) Open() bool { return w.seen != nil }

// Left returns the time until the window closes; zero or less means that it is due. It is only valid while the window is open.
func (w *Window) Left(now time.Time) time.Duration {
	return min(w.last.Add(w.Idle).Sub(now), w.opened.Add(w.Max).Sub(now))
}

// Close ends the window and returns how many UIDs it saw.
func (w *Window) Close() int {
	n := len(w.seen)
	w.seen = nil
	return n
}
