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

// What a node must be, beyond having room, is looked at again.
func TestRecheckPlacements(t *testing.T) {
	for _, tt := range []struct {
		name, pod, change string
		want              engine.Dropped
	}{
		{"label", "pod a: sel tier=gold", "node n: zone z-a", engine.Dropped{Code: reason.LabelUnknown, Detail: "tier"}},
		{"host port", "pod a: port 80/TCP", "bound x on n: port 80/TCP", engine.Dropped{Code: reason.HostPortConflict, Detail: "n"}},
		{"attached volumes", "pod a: vol v driver ebs.csi.aws.com", "bound x on n: vol w driver ebs.csi.aws.com", engine.Dropped{Code: reason.TooBig, Detail: "attachable volumes"}},
		{"zone of a volume", "pod a: vol v req zone In z-a", "node n: zone z-b", engine.Dropped{Code: reason.VolumeZoneConflict}},
		{"anti-affinity of its own", "pod a: anti host app=db", "bound x on n: app db", engine.Dropped{Code: reason.AffinityUnsatisfiable, Detail: "kubernetes.io/hostname"}},
		{"anti-affinity of another", "pod a: app web", "bound x on n: anti host app=web", engine.Dropped{Code: reason.AffinityUnsatisfiable, Detail: "kubernetes.io/hostname"}},
		{"spread", "pod a: app web; tsc zone 1", "bound x on n: app web", engine.Dropped{Code: reason.SpreadUnsatisfiable, Detail: "topology.kubernetes.io/zone"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := scenario.New()
			if err := w.Apply("pool np:\nnode n: label tier=gold; zone z-a; attach 1\n" + tt.pod); err != nil {
				t.Fatal(err)
			}
			p := engine.Decide(w.Snapshot(), engine.Policy{})
			if err := w.Apply(tt.change); err != nil {
				t.Fatal(err)
			}
			tt.want.Claim, tt.want.Pod = -1, "a"
			got, dropped := engine.Recheck(w.Snapshot(), p)
			if diff := cmp.Diff([]engine.Dropped{tt.want}, dropped); len(p.Placements) != 1 || len(got.Placements) != 0 || diff != "" {
				t.Errorf("%d placements of %d are left; dropped (-want +got):\n%s", len(got.Placements), len(p.Placements), diff)
			}
		})
	}
}

// A claim that has lost a pod asks for less.
func TestRecheckRequests(t *testing.T) {
	w := scenario.New()
	if err := w.Apply("pool np:\ndaemon ds: cpu 100m\npod a: cpu 1\npod b: cpu 2"); err != nil {
		t.Fatal(err)
	}
	p := engine.Decide(w.Snapshot(), engine.Policy{})
	if err := w.Apply("delete b:"); err != nil {
		t.Fatal(err)
	}
	got, _ := engine.Recheck(w.Snapshot(), p)
	if len(p.Claims) != 1 || len(got.Claims) != 1 || p.Claims[0].Requests["cpu"] != 3100 || got.Claims[0].Requests["cpu"] != 1100 || got.Claims[0].Requests["pods"] != 2 {
		t.Errorf("claims %+v, then %+v; want cpu 3100m for two pods and then 1100m for one, daemon included", p.Claims, got.Claims)
	}
}

// Claims are dropped when others have taken the reservations they are pinned to.
func TestRecheckReservations(t *testing.T) {
	w := scenario.New()
	if err := w.Apply("catalog RES\npool np: req type In t.small\npod a: cpu 1500m"); err != nil {
		t.Fatal(err)
	}
	p := engine.Decide(w.Snapshot(), engine.Policy{})
	if err := w.Apply("node other: unlaunched; type t.small; requests cpu 2; req ct In reserved; req resv In cr-s"); err != nil {
		t.Fatal(err)
	}
	_, dropped := engine.Recheck(w.Snapshot(), p)
	if diff := cmp.Diff([]engine.Dropped{{Claim: 0, Code: reason.ReservationFull, Detail: "cr-s"}}, dropped); len(p.Claims) != 1 || diff != "" {
		t.Errorf("%d claims were planned; dropped (-want +got):\n%s", len(p.Claims), diff)
	}
}

// S-419: a budget of steps ends the search; what was decided until then stands, and the plan says so.
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
