package explain_test

import (
	"testing"

	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/engine/scenario"
	"github.com/karp-sh/karp/pkg/reason"
)

// A pod that waits for a reservation is told so, with what would help at once.
func TestReservationFull(t *testing.T) {
	w := scenario.New()
	if err := w.Apply(`catalog RES
		pool np: req type In t.small
		pool other:
		node n: unlaunched; pool other; type t.small; requests cpu 2; req type In t.small; req ct In reserved; req resv In cr-s
		pod a: cpu 1500m; sel nodepool=np`); err != nil {
		t.Fatal(err)
	}
	s := w.Snapshot()
	a := explain.WhyPending(s, engine.Policy{}, explain.Facts{}, explain.Question{Pod: s.Pods[0]})
	if a.Code != reason.ReservationFull || a.Layer != reason.Offering || a.Nearest != "np" {
		t.Errorf("%s in layer %v, nearest %q; want %s, %v, np", a.Code, a.Layer, a.Nearest, reason.ReservationFull, reason.Offering)
	}
	if len(a.Fixes) == 0 || !a.Fixes[0].Verified {
		t.Errorf("fixes %+v, want a verified one", a.Fixes)
	}
}
