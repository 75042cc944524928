package differential_test

import (
	"context"
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/karp-sh/karp/test/sandbox/differential"
)

var (
	cases = flag.Uint64("cases", 20_000, "number of random cases")
	seed  = flag.Uint64("seed", 1, "seed of the random cases")
	first = flag.Uint64("first", 0, "number of the first case")
	most  = flag.Int("most", 5, "stop after that many unexplained differences")
)

// TestFilters compares karp with kube-scheduler on random cases. A longer run: go test ./differential -v -args -cases 100000.
func TestFilters(t *testing.T) {
	ctx := context.Background()
	s, err := differential.NewScheduler(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tally, bold := map[string]int{}, map[string]int{}
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
			if x.Bold() {
				bold[x.Reason()]++
			}
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
		t.Logf("%7d %s (karp accepts more in %d)", tally[why], why, bold[why])
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

// TestModelWithoutRules makes sure that what explains differences starts from the scheduler's own answer.
func TestModelWithoutRules(t *testing.T) {
	ctx := context.Background()
	s, err := differential.NewScheduler(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(1000) {
		c := differential.Generate(*seed, i)
		want, err := s.Filter(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Model(ctx, c, 0)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("case %d (-filter +model):\n%s", i, diff)
		}
	}
}

// TestGenerate makes sure that a number stands for one case.
func TestGenerate(t *testing.T) {
	for i := range uint64(50) {
		if diff := cmp.Diff(differential.Generate(7, i).String(), differential.Generate(7, i).String()); diff != "" {
			t.Fatalf("case %d differs between two runs:\n%s", i, diff)
		}
	}
	if differential.Generate(7, 1).String() == differential.Generate(8, 1).String() {
		t.Error("the seed makes no difference")
	}
}

// TestShrink makes sure that what matters stays and the rest goes.
func TestShrink(t *testing.T) {
	spreads := func(c *differential.Case) bool {
		return slices.ContainsFunc(c.Pod.Spec.TopologySpreadConstraints, func(x corev1.TopologySpreadConstraint) bool {
			return x.WhenUnsatisfiable == corev1.DoNotSchedule
		}) && len(c.Nodes) > 1
	}
	tried := 0
	for i := range uint64(100) {
		c := differential.Generate(*seed, i)
		if !spreads(c) {
			continue
		}
		tried++
		before := c.String()
		small := differential.Shrink(c, spreads)
		if len(small.Nodes) != 2 || len(small.Pod.Spec.TopologySpreadConstraints) != 1 || len(small.Bound) != 0 || len(small.Pod.Spec.Tolerations) != 0 {
			t.Errorf("case %d is not small:\n%v", i, small)
		}
		if c.String() != before {
			t.Errorf("case %d was changed", i)
		}
	}
	if tried == 0 {
		t.Fatal("no case has a spread constraint")
	}
}
