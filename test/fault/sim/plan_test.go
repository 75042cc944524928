package sim_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/karp-sh/karp/test/fault/sim"
	"github.com/karp-sh/karp/test/fault/simkube"
)

// Every kind of fault at every site of a write, at its first and its last occurrence: the end is that of
// the life without fault, with as many machines launched, and no invariant breaks on the way (I1, I2, I2b, I4, I5, I10, I12, I13, I15, I16, I18; R12).
func TestPlans(t *testing.T) {
	run := func(t *testing.T, p sim.Plan) (out sim.Outcome, err error) {
		synctest.Test(t, func(t *testing.T) { out, err = sim.RunPlan(t.Context(), p) })
		return out, err
	}
	free, err := run(t, sim.Plan{})
	if err != nil {
		t.Fatal(err)
	}
	faults := []simkube.Fault{
		simkube.CrashBefore, simkube.CrashAfter, sim.Overlap, simkube.Lost, simkube.Dropped, simkube.Conflict, simkube.Internal, simkube.Throttled,
	}
	if testing.Short() {
		faults = faults[:3]
	}
	plans, checks, reached, violations := 0, 0, map[string]bool{}, 0
	for _, site := range slices.Sorted(maps.Keys(free.Writes)) {
		for _, fault := range faults {
			for _, nth := range slices.Compact([]int{1, free.Writes[site]}) {
				p := sim.Plan{Site: site, Nth: nth, Fault: fault}
				out, err := run(t, p)
				plans++
				checks += out.Checks
				reached[site] = reached[site] || out.Reached
				if err != nil {
					violations++
					t.Error(err)
				}
				if !out.Reached {
					t.Errorf("%v: never reached", p)
				}
				if out.Machines != free.Machines {
					t.Errorf("I2b: %v: %d machines were launched, without the fault %d", p, out.Machines, free.Machines)
				}
			}
		}
	}
	t.Logf("faults: workloads=1 plans=%d sites=%d/%d invariants=11 checks=%d violations=%d seed=1", plans, len(reached), len(free.Writes), checks, violations)
}
