package lifecycle_test

import (
	"testing"
	"time"

	"github.com/karp-sh/karp/pkg/lifecycle"
)

func TestReplicas(t *testing.T) {
	limit := func(n int64) *int64 { return &n }
	for _, test := range []struct {
		name    string
		r       lifecycle.Replicas
		create  int64
		limited bool
		excess  int64
	}{
		{"L-257 none exist", lifecycle.Replicas{Want: 3}, 3, false, 0},
		{"L-258 one active", lifecycle.Replicas{Want: 3, Active: 1}, 2, false, 0},
		{"L-259 all there", lifecycle.Replicas{Want: 3, Active: 3}, 0, false, 0},
		{"L-260 limit", lifecycle.Replicas{Want: 5, Limit: limit(3)}, 3, true, 0},
		{"L-260 limit reached", lifecycle.Replicas{Want: 5, Active: 3, Limit: limit(3)}, 0, true, 0},
		{"L-261 a deleting node counts", lifecycle.Replicas{Want: 3, Active: 2, Deleting: 1, Limit: limit(3)}, 0, true, 0},
		{"L-261 it is gone", lifecycle.Replicas{Want: 3, Active: 2, Limit: limit(3)}, 1, false, 0},
		{"L-268 no limit", lifecycle.Replicas{Want: 2, Active: 1, Deleting: 1}, 1, false, 0},
		{"L-269 pending counts", lifecycle.Replicas{Want: 3, Active: 2, PendingDisruption: 1}, 0, false, 0},
		{"L-270", lifecycle.Replicas{Want: 3, Active: 1, PendingDisruption: 1}, 1, false, 0},
		{"L-273 too many", lifecycle.Replicas{Want: 1, Active: 3}, 0, false, 2},
		{"L-279 pending is not picked", lifecycle.Replicas{Want: 2, Active: 2, PendingDisruption: 1}, 0, false, 0},
		{"L-280 none wanted", lifecycle.Replicas{Active: 2}, 0, false, 2},
		{"limit below what exists", lifecycle.Replicas{Want: 5, Active: 4, Limit: limit(3)}, 0, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			create, limited := test.r.Missing()
			if create != test.create || limited != test.limited || test.r.Excess() != test.excess {
				t.Errorf("%+v: create %d, limited %v, excess %d; want %d, %v, %d", test.r, create, limited, test.r.Excess(), test.create, test.limited, test.excess)
			}
		})
	}
}

func TestCountReplicas(t *testing.T) {
	list := []lifecycle.Claim{
		*claim(), *claim(launched), *claim(deleting), *claim(launched, deleting),
		*claim(launched, func(c *lifecycle.Claim) { c.Name = "drifted" }),
	}
	got := lifecycle.CountReplicas(list, map[string]bool{"drifted": true})
	if got.Active != 3 || got.Deleting != 1 || got.PendingDisruption != 1 {
		t.Errorf("got %+v, want 3 active (one deleting but never launched), 1 deleting, 1 pending", got)
	}
}

// L-271: 5 s, 10 s, 20 s ... at most 180 s; an edit of the pool or a success ends it.
func TestLaunchBackoff(t *testing.T) {
	var b lifecycle.LaunchBackoff
	if got := b.Left(1, epoch()); got != 0 {
		t.Errorf("no failure: wait %v", got)
	}
	for i, want := range []time.Duration{5, 10, 20, 40, 80, 160, 180, 180} {
		b.Failed(epoch())
		if got := b.Left(1, epoch()); got != want*time.Second {
			t.Errorf("failure %d: wait %v, want %v", i+1, got, want*time.Second)
		}
	}
	if got := b.Left(1, at(179*time.Second)); got != time.Second {
		t.Errorf("later: wait %v, want 1s", got)
	}
	if got := b.Left(2, epoch()); got != 0 {
		t.Errorf("edited: wait %v", got)
	}
	b.Failed(epoch())
	b.Succeeded()
	if got := b.Left(2, epoch()); got != 0 {
		t.Errorf("after a success: wait %v", got)
	}
}
