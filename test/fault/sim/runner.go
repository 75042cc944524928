package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/test/fault/simkube"
)

// Runner is the manager of a world's process: it steps loops when something has changed or a wait is over, in an order that its seed decides,
// and with a cache that lags.
type Runner struct {
	*World
	// Lag is the most events that the cache may be behind when a loop is stepped.
	Lag int
	// After is called after every step.
	After func(what string) error

	random  *rand.Rand
	due     map[item]time.Time
	fails   map[item]int
	singles map[string]time.Time
	pods    map[lifecycle.PodKey]podRetry
	Steps   int
}

// item is one object for one loop.
type item struct {
	loop string
	name types.NamespacedName
}

type podRetry struct {
	at    time.Time
	fails int
}

// NewRunner makes a runner for the world's present process and all that follow.
func NewRunner(w *World, seed uint64) *Runner {
	r := &Runner{World: w, random: rand.New(rand.NewPCG(seed, 1))}
	r.reset()
	return r
}

// reset forgets what a process had in mind, and takes the events of the present one.
func (r *Runner) reset() {
	r.due, r.fails, r.singles, r.pods = map[item]time.Time{}, map[item]int{}, map[string]time.Time{}, map[lifecycle.PodKey]podRetry{}
	r.Seen = func(e simkube.Event) {
		for name, c := range r.loops {
			for _, o := range c.Wakes(context.Background(), e.Old, e.New) {
				r.wake(item{name, o})
			}
		}
	}
}

// wake makes an item due, unless it is in back-off.
func (r *Runner) wake(i item) {
	if at, ok := r.due[i]; !ok || at.After(time.Now()) && r.fails[i] == 0 {
		r.due[i] = time.Now()
	}
}

// Restart ends the process and starts another.
func (r *Runner) Restart() error {
	if err := r.Start(); err != nil {
		return err
	}
	r.reset()
	return nil
}

// Settle steps everything that is due now, and what that makes due, up to a number of steps.
func (r *Runner) Settle(ctx context.Context, most int) error {
	for range most {
		if r.API.Dead() {
			if err := r.Restart(); err != nil {
				return err
			}
		}
		r.deliver()
		did, err := r.one(ctx)
		if err != nil {
			return err
		}
		if !did {
			if r.API.Lag() == 0 {
				return nil
			}
			r.Sync()
		}
	}
	return nil
}

// deliver shows the cache some of what it has not seen.
func (r *Runner) deliver() {
	if lag := r.API.Lag(); lag > 0 {
		keep := 0
		if r.Lag > 0 {
			keep = r.random.IntN(r.Lag + 1)
		}
		r.API.Deliver(max(lag-keep, 1))
	}
}

// one makes one step of something that is due.
func (r *Runner) one(ctx context.Context) (bool, error) {
	now := time.Now()
	type choice struct {
		what string
		step func()
	}
	var choices []choice
	for i, at := range r.due {
		if !at.After(now) {
			choices = append(choices, choice{i.loop + " " + i.name.String(), func() { r.reconcile(ctx, i) }})
		}
	}
	for name, s := range r.single {
		if !r.singles[name].After(now) {
			choices = append(choices, choice{name, func() {
				stop := r.Pump()
				after, _ := s.Step(ctx)
				stop()
				r.singles[name] = time.Now().Add(max(after, time.Second))
			}})
		}
	}
	for _, key := range r.Loops.Evicting() {
		if !r.pods[key].at.After(now) {
			choices = append(choices, choice{"evict " + key.Name, func() { r.evict(ctx, key) }})
		}
	}
	if len(choices) == 0 {
		return false, nil
	}
	slices.SortFunc(choices, func(a, b choice) int { return cmp.Compare(a.what, b.what) })
	c := choices[r.random.IntN(len(choices))]
	c.step()
	r.Steps++
	if len(r.Trace) > 4000 {
		r.Trace = append([]string(nil), r.Trace[2000:]...)
	}
	if r.After != nil {
		if err := r.After(c.what); err != nil {
			return true, fmt.Errorf("at %s after %s: %w\nlast writes: %s", time.Now().Format("15:04:05"), c.what, err, strings.Join(r.Trace[max(0, len(r.Trace)-40):], "; "))
		}
	}
	return true, nil
}

// reconcile makes a step of a loop on an object and puts it off by its result.
func (r *Runner) reconcile(ctx context.Context, i item) {
	delete(r.due, i)
	c := r.loops[i.loop]
	result, err := c.Reconcile(ctx, i.name)
	switch {
	case err != nil:
		first, most := c.Backoff()
		r.fails[i]++
		r.due[i] = time.Now().Add(min(first<<min(r.fails[i]-1, 20), most))
	case result.RequeueAfter > 0:
		delete(r.fails, i)
		if _, woken := r.due[i]; !woken {
			r.due[i] = time.Now().Add(result.RequeueAfter)
		}
	default:
		delete(r.fails, i)
	}
}

// evict makes an attempt at a pod of the eviction queue: 100 ms doubling to 10 s between attempts.
func (r *Runner) evict(ctx context.Context, key lifecycle.PodKey) {
	if !r.Loops.Evict(ctx, key) {
		delete(r.pods, key)
		return
	}
	p := r.pods[key]
	p.at = time.Now().Add(min(100*time.Millisecond<<min(p.fails, 10), 10*time.Second))
	p.fails++
	r.pods[key] = p
}
