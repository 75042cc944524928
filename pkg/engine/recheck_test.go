package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/scenario"
	"github.com/karp-sh/karp/pkg/reason"
)

func TestRecheck(t *testing.T) {
	const base = "pool np: req fam In t; limit cpu 12\nnode n:\npod a: cpu 4\npod b: cpu 5"
	tests := []struct {
		name, change string
		claims       int
		placements   int
		dropped      []engine.Dropped
	}{
		{"nothing changed", "", 1, 1, nil},
		{"the pool's template changed (S-403)", "pool np: req fam In t; limit cpu 12; label x=y", 1, 1, nil},
		{"the placed pod is gone", "delete a:", 1, 0, []engine.Dropped{{Claim: -1, Pod: "a", Code: reason.NotPending}}},
		{"the claim's pod got a place", "bound b on elsewhere: cpu 3", 0, 1, []engine.Dropped{{Claim: -1, Pod: "b", Code: reason.NotPending}, {Claim: 0, Code: reason.NotPending}}},
		{"the node is leaving", "node n: marked", 1, 0, []engine.Dropped{{Claim: -1, Pod: "a", Code: reason.TargetGone, Detail: "n"}}},
		{"the node got a taint", "node n: taint x=y:NoSchedule", 1, 0, []engine.Dropped{{Claim: -1, Pod: "a", Code: reason.TaintNotTolerated, Detail: "x=y:NoSchedule"}}},
		{"the node is taken", "bound other on n: cpu 3", 1, 0, []engine.Dropped{{Claim: -1, Pod: "a", Code: reason.TooBig, Detail: "n"}}},
		{"the pool is deleted", "pool np: deleting", 0, 1, []engine.Dropped{{Claim: 0, Code: reason.NodePoolDeleting, Detail: "np"}}},
		{"usage has grown (S-171)", "node m: type t.medium", 0, 1, []engine.Dropped{{Claim: 0, Code: reason.LimitReached, Detail: "cpu"}}},
		{"nothing is sold any more", "offer *: gone\npool np: req fam In t", 0, 1, []engine.Dropped{{Claim: 0, Code: reason.OfferingUnavailable}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := scenario.New()
			if err := w.Apply(base); err != nil {
				t.Fatal(err)
			}
			p := engine.Decide(w.Snapshot(), engine.Policy{})
			if len(p.Claims) != 1 || len(p.Placements) != 1 {
				t.Fatalf("plan has %d claims and %d placements, want one each:\n%s", len(p.Claims), len(p.Placements), scenario.Render(w.Snapshot(), p, scenario.Show{}))
			}
			if err := w.Apply(tt.change); err != nil {
				t.Fatal(err)
			}
			got, dropped := engine.Recheck(w.Snapshot(), p)
			if len(got.Claims) != tt.claims || len(got.Placements) != tt.placements {
				t.Errorf("%d claims and %d placements are left, want %d and %d", len(got.Claims), len(got.Placements), tt.claims, tt.placements)
			}
			if diff := cmp.Diff(tt.dropped, dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
		})
	}
}

// A budget of steps ends the search; what was decided until then stands, and the plan says so.
func TestCut(t *testing.T) {
	w := scenario.New()
	if err := w.Apply("pool np:\npod A x20: cpu 1; port 80/TCP"); err != nil {
		t.Fatal(err)
	}
	s := w.Snapshot()
	p := engine.Decide(s, engine.Policy{Steps: 40})
	if !p.Cut || len(p.Claims) == 0 || len(p.Claims) == 20 {
		t.Fatalf("cut %v with %d claims, want a cut in the middle of 20", p.Cut, len(p.Claims))
	}
	for _, v := range p.Verdicts {
		if v.Code != reason.Cut {
			t.Errorf("pod %s is judged %s, want %s", v.Pod, v.Code, reason.Cut)
		}
	}
	if n := len(p.Verdicts) + len(p.Claims); n != 20 {
		t.Errorf("%d pods are accounted for, want 20", n)
	}
}
