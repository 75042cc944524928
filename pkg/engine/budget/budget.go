package budget

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// Reasons of voluntary disruption, as budgets name them.
const (
	Empty         = "Empty"
	Drifted       = "Drifted"
	Underutilized = "Underutilized"
)

// Reasons returns all of them in the order in which they are tried.
func Reasons() []string { return []string{Empty, Drifted, Underutilized} }

// Unlimited is what a pool allows that no budget restrains.
const Unlimited = math.MaxInt32

// Rule is one budget, parsed.
type Rule struct {
	// Index is its place in the pool's list.
	Index int

	count   int
	percent bool
	reasons []string // nil: all

	scheduled bool
	schedule  Schedule
	duration  time.Duration
}

// Parse reads a budget as it is written.
func Parse(b cluster.Budget) (Rule, error) {
	r := Rule{reasons: b.Reasons}
	var err error
	if r.count, r.percent, err = parseNodes(b.Nodes); err != nil {
		return Rule{}, err
	}
	if (b.Schedule == "") != (b.Duration == "") {
		return Rule{}, fmt.Errorf("schedule and duration must be given together")
	}
	if b.Schedule == "" {
		return r, nil
	}
	r.scheduled = true
	if r.schedule, err = ParseSchedule(b.Schedule); err != nil {
		return Rule{}, err
	}
	r.duration, err = parseDuration(b.Duration)
	return r, err
}

// parseNodes reads "3" or "10%".
func parseNodes(text string) (n int, percent bool, err error) {
	digits, percent := strings.CutSuffix(text, "%")
	bad := digits == "" || strings.Trim(digits, "0123456789") != "" || percent && len(digits) > 3
	if !bad {
		n, err = strconv.Atoi(digits)
		if err != nil { // more than fits
			n = Unlimited
		}
	}
	if bad || percent && n > 100 {
		return 0, false, fmt.Errorf("nodes %q: want a number, or a percentage up to 100%%", text)
	}
	return min(n, Unlimited), percent, nil
}

// parseDuration reads hours and minutes: 8h, 30m, 1h30m, each also with 0s behind.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	body := strings.TrimSuffix(text, "0s")
	if err != nil || strings.Trim(body, "0123456789hm") != "" || !strings.HasSuffix(body, "h") && !strings.HasSuffix(body, "m") {
		return 0, fmt.Errorf("duration %q: want hours and minutes such as 8h or 1h30m", text)
	}
	return d, nil
}

// Applies reports whether the budget is about a reason.
func (r *Rule) Applies(reason string) bool {
	return r.reasons == nil || slices.Contains(r.reasons, reason)
}

// Active reports whether the budget applies at an instant: always without a schedule, else from a hit until its duration has passed.
func (r *Rule) Active(at time.Time) bool {
	if !r.scheduled {
		return true
	}
	hit, ok := r.schedule.Next(at.Add(-r.duration))
	return ok && !hit.After(at)
}

// Value is how many of n nodes an active budget lets go.
func (r *Rule) Value(n int) int {
	if r.percent {
		return (n*r.count + 99) / 100
	}
	return r.count
}

// Change returns when the budget will next begin or cease to apply; ok is false if it never does before the limit.
func (r *Rule) Change(at, limit time.Time) (_ time.Time, ok bool) {
	if !r.scheduled {
		return time.Time{}, false
	}
	if !r.Active(at) {
		hit, ok := r.schedule.Next(at)
		return hit, ok && !hit.After(limit)
	}
	for !at.After(limit) {
		end := r.lastHit(at).Add(r.duration)
		if !r.Active(end) {
			return end, !end.After(limit)
		}
		at = end
	}
	return time.Time{}, false
}

// lastHit is the latest hit not after an instant at which the budget is active.
func (r *Rule) lastHit(at time.Time) time.Time {
	hit, _ := r.schedule.Next(at.Add(-r.duration))
	for {
		next, ok := r.schedule.Next(hit)
		if !ok || next.After(at) {
			return hit
		}
		hit = next
	}
}

// Pool is the budgets of one pool.
type Pool struct {
	Rules []Rule
	// Problem is what is wrong with a malformed budget; nil if all are well.
	Problem error
}

// Of parses the budgets of a pool.
func Of(p *cluster.Pool) Pool {
	var out Pool
	for i, b := range p.Disruption.Budgets {
		r, err := Parse(b)
		if err != nil {
			return Pool{Problem: fmt.Errorf("budget %d of nodepool %s: %w", i, p.Name, err)}
		}
		r.Index = i
		out.Rules = append(out.Rules, r)
	}
	return out
}

// Allowed returns how many of n nodes may be disrupted for a reason at an instant, those already disrupted included, and the index of the budget
// that says so: -1 if none does, because nothing restrains the pool or a budget is malformed.
func (p *Pool) Allowed(reason string, n int, at time.Time) (allowed, by int) {
	if p.Problem != nil {
		return 0, -1
	}
	allowed, by = Unlimited, -1
	for i := range p.Rules {
		r := &p.Rules[i]
		if !r.Applies(reason) || !r.Active(at) {
			continue
		}
		if v := r.Value(n); v < allowed {
			allowed, by = v, r.Index
		}
	}
	return allowed, by
}

// Step is what a pool allows from an instant on.
type Step struct {
	At      time.Time
	Allowed int
	// By is the index of the budget that decides, -1 if none does.
	By int
}

// Timeline returns what the pool allows for a reason from an instant until another: one step at the beginning and one at each change.
func (p *Pool) Timeline(reason string, n int, from, until time.Time) []Step {
	allowed, by := p.Allowed(reason, n, from)
	out := []Step{{from, allowed, by}}
	for at, ok := p.change(reason, from, until); ok; at, ok = p.change(reason, at, until) {
		allowed, by = p.Allowed(reason, n, at)
		if last := out[len(out)-1]; allowed != last.Allowed || by != last.By {
			out = append(out, Step{at, allowed, by})
		}
	}
	return out
}

// change is when the first budget on the reason begins or ceases to apply.
func (p *Pool) change(reason string, at, limit time.Time) (first time.Time, ok bool) {
	for i := range p.Rules {
		r := &p.Rules[i]
		if !r.Applies(reason) {
			continue
		}
		if t, changes := r.Change(at, limit); changes && (!ok || t.Before(first)) {
			first, ok = t, true
		}
	}
	return first, ok
}

// outlook and lookups bound how far Opening looks ahead.
const (
	outlook = 366 * 24 * time.Hour
	lookups = 5000
)

// Opening returns when the pool will first allow more than used of n nodes to be disrupted for a reason: at itself if it does now. ok is false if
// it does not within a year, or not within several thousand changes of its budgets.
func (p *Pool) Opening(reason string, n, used int, at time.Time) (_ time.Time, ok bool) {
	limit, left := at.Add(outlook), lookups
	for t, more := at, true; more && left > 0; t, more = p.change(reason, t, limit) {
		left--
		if allowed, _ := p.Allowed(reason, n, t); allowed > used {
			return t, true
		}
	}
	return time.Time{}, false
}

// Usage is the nodes of a pool as budgets count them.
type Usage struct {
	// Nodes are managed, initialized and not yet terminating; Disrupting are those of them that are leaving for any cause, held by a command, or
	// not Ready.
	Nodes, Disrupting int
}

// Remaining is how many more nodes may go.
func (u Usage) Remaining(allowed int) int { return max(allowed-u.Disrupting, 0) }

// Count returns the usage of every pool that has nodes, by name.
func Count(s *cluster.Snapshot) map[string]Usage { return CountWithout(s, "") }

// CountWithout is Count for a command that may be recorded already: the nodes it holds do not count as disrupted by it.
func CountWithout(s *cluster.Snapshot, command string) map[string]Usage {
	out := map[string]Usage{}
	for _, t := range s.Targets() {
		if t.Claim == nil || t.Node == nil || !t.Initialized || t.Claim.Terminating {
			continue
		}
		pool, ok := t.Labels[constraint.NodePoolKey]
		if !ok {
			continue
		}
		u := out[pool]
		u.Nodes++
		if t.Leaving || t.Claim.Command != "" && t.Claim.Command != command || !t.Node.Ready {
			u.Disrupting++
		}
		out[pool] = u
	}
	return out
}
