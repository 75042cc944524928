package sim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/karp-sh/karp/test/fault/sim"
)

// A day of a cluster in which machines come, go, fail to register, lose their instance and hang in drains, in which people interfere, writes
// fail and the agent is killed, ends with cloud, claims and nodes in exact agreement. Invariants are checked after every step.
func TestChurn(t *testing.T) {
	day := 24 * time.Hour
	if testing.Short() {
		day = 2 * time.Hour
	}
	synctest.Test(t, func(t *testing.T) {
		const seed = 20260301
		c, err := sim.NewChurn(seed)
		if err != nil {
			t.Fatal(err)
		}
		run := func(d time.Duration) {
			if err := c.Run(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		run(day)
		if err := c.Calm(); err != nil {
			t.Fatal(err)
		}
		run(2 * time.Hour)
		if err := c.Agreement(); err != nil {
			t.Errorf("I1, I16: two hours after the last fault: %v", err)
		}
		if err := c.Empty(); err != nil {
			t.Fatal(err)
		}
		run(time.Hour)
		if err := c.Left(); err != nil {
			t.Errorf("I18: an hour after the pools were deleted: %v", err)
		}
		t.Logf("churn: hours=%v lives=%d steps=%d machines=%d checks=%d violations=0 seed=%d %v", day.Hours(), c.Lives, c.Steps, c.Cloud.Calls["Launch"], c.Invariants.Checks, seed, c.Counts)
	})
}
