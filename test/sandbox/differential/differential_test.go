package differential_test

import (
	"context"
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/karp-sh/karp/test/sandbox/differential"
)

var (
	cases = flag.Uint64("cases", 20_000, "number of random cases")
	seed  = flag.Uint64("seed", 1, "seed of the random cases")
	first = flag.Uint64("first", 0, "number of the first case")
	most  = flag.Int("most", 5, "stop after that many unexplained differences")
)

// TestFilters compares karp with kube-scheduler on random cases: go test ./differential -args -cases 100000.
func TestFilters(t *testing.T) {
	ctx := context.Background()
	s, err := differential.NewScheduler(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tally := map[string]int{}
	shown := map[differential.Rule]bool{} // defects of which an example was printed
	failed, accepted, refused := 0, 0, 0
	for i := *first; i < *first+*cases && failed < *most; i++ {
		c := differential.Generate(*seed, i)
		x, err := s.Compare(ctx, c)
		accepted += len(x.Scheduler)
		refused += len(c.Nodes) - len(x.Scheduler)
		switch {
		case err == nil && x.Agree():
			tally["the same"]++
		case err == nil && x.Explained():
			tally[x.Reason()]++
			if r, ok := x.Defect(); ok && !shown[r] {
				shown[r] = true
				report(ctx, t, s, c, i, func(x differential.Comparison) bool { have, ok := x.Defect(); return ok && have == r })
			}
		default:
			failed++
			report(ctx, t, s, c, i, func(x differential.Comparison) bool { return !x.Explained() })
		}
	}
	for _, why := range slices.Sorted(maps.Keys(tally)) {
		t.Logf("%7d %s", tally[why], why)
	}
	t.Logf("kube-scheduler accepted %d nodes and refused %d", accepted, refused)
	if accepted < int(*cases)/10 || refused < int(*cases)/10 {
		t.Error("the cases are too one-sided to tell much")
	}
}

// report prints the case made small; it stays one of the same kind.
func report(ctx context.Context, t *testing.T, s *differential.Scheduler, c *differential.Case, i uint64, kind func(differential.Comparison) bool) {
	small := differential.Shrink(c, func(c *differential.Case) bool {
		x, err := s.Compare(ctx, c)
		return err != nil || kind(x)
	})
	x, err := s.Compare(ctx, small)
	t.Errorf("seed %d, case %d: kube-scheduler accepts %v, under karp's rules (%s) %v; karp accepts %v (error: %v)\n%v", *seed, i, x.Scheduler,
		x.Reason(), x.Expected, x.Karp, err, small)
}
