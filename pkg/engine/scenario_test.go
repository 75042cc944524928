package engine_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/check"
	"github.com/karp-sh/karp/pkg/engine/scenario"
	"github.com/karp-sh/karp/pkg/plan"
)

// TestScenarios runs the conversations in testdata, one file a section of the scheduling specification. Every pass is made twice (S-423). The commands:
//
//	pass        one decision for the cluster described
//	each        the same for every line after "--", alone, added to the lines before it
//	settle      the claims of the last pass run with their pods; then more lines and another pass
//	launch      the claims of the last pass come up without pods; then as settle
//	again       more lines on top of the last pass, and another pass
//
// With simulate a pass is one of disruption's. Every plan is also verified by package check and decided twice.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "scenarios"), func(t *testing.T, path string) {
		var last *run
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			show := scenario.Show{Requests: d.HasArg("requests"), Labels: d.HasArg("labels"), Price: d.HasArg("price"), Template: d.HasArg("template"),
				Count: d.HasArg("count")}
			switch d.Cmd {
			case "pass":
				last = start(t, d, d.Input)
				return last.pass(t, d, show)
			case "each":
				return each(t, d, show)
			case "settle", "launch":
				if err := last.world.Launch(last.snapshot, last.plan, d.Cmd == "settle"); err != nil {
					d.Fatalf(t, "launching: %v", err)
				}
				fallthrough
			case "again":
				if err := last.world.Apply(d.Input); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return last.pass(t, d, show)
			}
			d.Fatalf(t, "command %q does not exist", d.Cmd)
			return ""
		})
	})
}

type run struct {
	world    *scenario.World
	snapshot *cluster.Snapshot
	plan     plan.Plan
}

func start(t *testing.T, d *datadriven.TestData, text string) *run {
	w := scenario.New()
	if err := w.Apply(text); err != nil {
		d.Fatalf(t, "%v", err)
	}
	return &run{world: w}
}

func (r *run) pass(t *testing.T, d *datadriven.TestData, show scenario.Show) string {
	r.snapshot = r.world.Snapshot()
	policy := engine.Policy{Fallback: d.HasArg("simulate"), Moved: argument(d, "moved"), Closed: argument(d, "closed")}
	r.plan = engine.Decide(r.snapshot, policy)
	if diff := cmp.Diff(r.plan, engine.Decide(r.world.Snapshot(), policy)); diff != "" {
		t.Errorf("%s: deciding twice (-first +second):\n%s\ninput:\n%s", d.Pos, diff, d.Input)
	}
	for _, problem := range check.Plan(r.snapshot, r.plan) {
		if slices.ContainsFunc(policy.Closed, func(n string) bool { return strings.HasSuffix(problem, "would fit on "+n) }) {
			continue // the checker does not know that the node is closed
		}
		t.Errorf("%s: plan is wrong: %s\ninput:\n%s", d.Pos, problem, d.Input)
	}
	r.world.Hold(r.snapshot, r.plan)
	out := scenario.Render(r.snapshot, r.plan, show)
	if d.HasArg("overlays") {
		for _, v := range r.world.Overlays().Verdicts {
			out += strings.TrimSpace(fmt.Sprintf("overlay %s: %s %s", v.Name, v.Reason, v.Message)) + "\n"
		}
	}
	return out
}

// argument returns the values of an argument such as moved=(n1,n2).
func argument(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func each(t *testing.T, d *datadriven.TestData, show scenario.Show) string {
	base, variants, ok := strings.Cut(d.Input, "--\n")
	if !ok {
		d.Fatalf(t, "no line with --")
	}
	var out strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(variants), "\n") {
		r := start(t, d, base+strings.ReplaceAll(line, "&&", "\n"))
		fmt.Fprintf(&out, "%s\n", line)
		for l := range strings.Lines(r.pass(t, d, show)) {
			out.WriteString("  " + l)
		}
	}
	return out.String()
}
