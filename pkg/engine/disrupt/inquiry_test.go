package disrupt_test

import (
	"strings"
	"testing"

	"github.com/karp-sh/karp/pkg/engine/disrupt"
	"github.com/karp-sh/karp/pkg/engine/scenario"
	"github.com/karp-sh/karp/pkg/reason"
)

// Every code with which a node is kept, each in the plainest situation.
func TestWhy(t *testing.T) {
	const p = "pool P: req ct In on-demand\n"
	for _, tt := range []struct {
		lines, why string
		want       reason.Code
	}{
		{p + "n1: f.x {1}; noclaim", "", reason.NotManaged},
		{p + "n1: f.x {1}; held c", "", reason.HeldByCommand},
		{p + "n1: f.x {1}; uninit", "", reason.NotInitialized},
		{p + "n1: f.x {1}; deleting", "", reason.Deleting},
		{p + "n1: f.x {1}; nominated 5s", "", reason.Nominated},
		{p + "n1: f.x {1}; mark true", "", reason.DoNotDisruptNode},
		{p + "n1: f.x {1}@X", "", reason.NoSuchPool},
		{"pool P: nofetch\nn1: f.x {1}", "", reason.CatalogUnknown},
		{p + "n1: f.x {1}\nunknown Pod: forbidden", "", reason.Unreadable},
		{p + "n1: f.x {1}; pods notdisrupt true", "", reason.DoNotDisruptPod},
		{p + "n1: f.x {1}; pods app a\npdb b: sel app=a", "", reason.PDBBlocks},
		{p + "n1: f.x {1}; pods app a\npdb b: sel app=a; allowed 1\npdb c: all; allowed 1", "", reason.MultiplePDBs},
		{"pool P: replicas 1\nn1: f.x {1}", "Underutilized", reason.StaticPool},
		{p + "type f.zz: cpu 8; mem 16Gi; pods 110; price 0.5 0.1\nn1: f.zz {1}", "", reason.TypeUnknown},
		{p + "n1: f.x {1}; nolabel ct", "", reason.LabelMissing},
		{"pool P: never\nn1: f.x {1}", "", reason.ConsolidationOff},
		{p + "n1: f.x {}; buffered 2", "", reason.BufferPods},
		{"pool P: policy WhenEmpty\nn1: f.x {1}", "", reason.PolicyWhenEmpty},
		{"pool P: after 5m\nn1: f.x {1}; event 1m; young", "", reason.TimerRunning},
		{p + "n1: f.x {1}; young", "", reason.NotEvaluatedYet},
		{p + "n1: f.x {1}", "Empty", reason.NotEmpty},
		{p + "n1: f.x {1}", "Drifted", reason.NotDrifted},
		{"pool P: budget 0\nn1: f.x {1}", "", reason.NoBudget},
		{"pool P: budget 1 at @never for 1h\nn1: f.x {1}", "", reason.BudgetMalformed},
		{p + "n1: f.x {1}/z9", "", reason.PriceUnknown},
		{p + "n1: f.x {1}; label own=1; pods sel own=1", "", reason.PodsWouldNotFit},
		{p + "n1: f.s {1}\nn2: f.x {}; uninit", "", reason.UninitializedTarget},
		{p + "n1: f.s {1}", "", reason.NoCheaperReplacement},
		{"pool P: req ct In spot\nn1: f.x {1}/spot", "", reason.SpotToSpotOff},
		{"setting spot-to-spot:\npool P: req ct In spot\nn1: f.x {1}/spot", "", reason.SpotFlexibility},
		{"pool P: req ct In on-demand; policy Balanced\nn1: f.l {0.2,0.2,0.2,0.2,0.2,0.2,0.2,0.2,0.2,0.2,0.2}\nn2: f.2x {7,7}; pods notdisrupt true", "", reason.ScoreTooLow},
		{p + "n1: f.x {1}", "", reason.WillGo},
		{p + "n1: f.x {}", "", reason.WillGo},
		{p + "n1: f.x {1}; drifted 1h\nn2: f.x {1}; drifted 2h", "Drifted", reason.InQueue},
	} {
		k, ok := disrupt.Inquire(snapshot(t, tt.lines), disrupt.Options{}).Why("n1", tt.why)
		if !ok || k.Code != tt.want {
			t.Errorf("%s\nreason %q: code %s (found %v), want %s; gates %+v", tt.lines, tt.why, k.Code, ok, tt.want, k.Gates)
		}
	}
}

// All gates are evaluated, not only the first that is closed.
func TestWhyAllGates(t *testing.T) {
	k, _ := disrupt.Inquire(snapshot(t, "pool P: budget 0; never\nn1: f.x {1}; mark true; pods notdisrupt true"), disrupt.Options{}).Why("n1", "")
	var closed []string
	for _, g := range k.Gates {
		if g.State == reason.GateClosed {
			closed = append(closed, string(g.Code))
		}
	}
	if got, want := strings.Join(closed, " "), "DoNotDisruptNode DoNotDisruptPod ConsolidationOff NoBudget"; !strings.HasPrefix(got, want) {
		t.Errorf("closed gates %s, want %s", got, want)
	}
}

// The last look before a command is recorded.
func TestPreflight(t *testing.T) {
	for _, tt := range []struct {
		name, lines, later string
		want               string
	}{
		{"nothing has changed", "n1: f.x {}\nn2: f.x {}", "", "true n1 n2"},
		{"its own intents do not count against it", "n1: f.x {}\nn2: f.x {}", "n1: f.x {}; held OWN", "true n1 n2"},
		{"another's do", "n1: f.x {}\nn2: f.x {}", "n1: f.x {}; held other", "true n2"},
		{"a pod that must not be disrupted", "n1: f.x {}\nn2: f.x {}", "bound a on n1: notdisrupt true", "true n2"},
		{"unreadable pods", "n1: f.x {}\nn2: f.x {}", "unknown Pod: forbidden", "false"},
		{"the budget is gone", "n1: f.x {}\nn2: f.x {}", "pool P: budget 1", "true n1"},
		{"a replacement goes on as a whole or not at all", "n1: f.x {1}\nn2: f.x {1}", "n1: f.x {1}; mark true", "false n2"},
	} {
		w := scenario.New()
		apply := func(lines string) {
			if err := w.Apply(lines); err != nil {
				t.Fatal(err)
			}
		}
		apply("catalog F:\npool P: req ct In on-demand\n" + tt.lines)
		d := disrupt.Decide(w.Snapshot(), disrupt.Options{})
		if len(d.Commands) == 0 {
			t.Fatalf("%s: no command", tt.name)
		}
		c := d.Commands[0]
		apply(strings.ReplaceAll(tt.later, "OWN", c.ID))
		r := disrupt.Preflight(w.Snapshot(), c)
		got := "false"
		if r.OK {
			got = "true"
		}
		for _, x := range r.Command.Candidates {
			got += " " + x.Node
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s; dropped %+v", tt.name, got, tt.want, r.Dropped)
		}
	}
}

// What moves the stamp of exhausted methods (D-181, D-182, D-102).
func TestStamp(t *testing.T) {
	base := "pool P:\nn1: f.x {1}\nn2: f.x {1}; young\n"
	first := disrupt.Stamp(snapshot(t, base))
	if got := disrupt.Stamp(snapshot(t, base+"at 4m:")); got != first {
		t.Error("the passing of time moves the stamp")
	}
	for _, change := range []string{"bound b on n1: cpu 1", "n2: f.x {1}", "delete n1-p1:", "n3: f.x {}", "delete n2: x", "n1: f.x {1}; deleting"} {
		if got := disrupt.Stamp(snapshot(t, base+change)); got == first {
			t.Errorf("%q does not move the stamp", change)
		}
	}
}
