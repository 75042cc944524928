package lifecycle_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/units"
)

// L-217, L-219, LX17: two listings at least a minute apart.
func TestSuspects(t *testing.T) {
	var s lifecycle.Suspects
	steps := []struct {
		now     time.Duration
		missing []string
		want    []string
	}{
		{0, []string{"a", "b"}, nil},
		{59 * time.Second, []string{"a", "b"}, nil},
		{60 * time.Second, []string{"a"}, []string{"a"}},
		// b was back in between, so its time starts anew.
		{120 * time.Second, []string{"a", "b"}, []string{"a"}},
		{179 * time.Second, []string{"b"}, nil},
		{180 * time.Second, []string{"b"}, []string{"b"}},
	}
	for _, step := range steps {
		if d := cmp.Diff(step.want, s.Observe(step.missing, at(step.now))); d != "" {
			t.Errorf("at %v with %v missing (-want +got):\n%s", step.now, step.missing, d)
		}
	}
}

func TestBreaker(t *testing.T) {
	var b lifecycle.Breaker
	if got := b.Left(10, epoch()); got != 3 {
		t.Errorf("10 objects: %d allowed, want 3", got)
	}
	if got := b.Left(200, epoch()); got != 10 {
		t.Errorf("200 objects: %d allowed, want 10", got)
	}
	for range 3 {
		b.Spend(epoch())
	}
	if got := b.Left(10, at(9*time.Minute)); got != 0 {
		t.Errorf("within the window: %d allowed, want 0", got)
	}
	if got := b.Left(10, at(10*time.Minute)); got != 3 {
		t.Errorf("after the window: %d allowed, want 3", got)
	}
}

func TestMissingClaims(t *testing.T) {
	id := "fake:///z1/i-1"
	notReady := node(func(n *lifecycle.Node) { n.Ready = lifecycle.Unknown })
	for _, test := range []struct {
		name       string
		claim      *lifecycle.Claim
		live       bool
		nodes      []lifecycle.Node
		unreadable bool
		missing    bool
	}{
		{"L-217 node not ready", claim(registered), false, []lifecycle.Node{notReady}, false, true},
		{"L-218 node ready", claim(registered), false, []lifecycle.Node{node()}, false, false},
		{"L-219 no node", claim(registered), false, nil, false, true},
		{"L-220 not registered", claim(launched), false, nil, false, false},
		{"L-221 instance on its way out", claim(registered), false, []lifecycle.Node{notReady}, false, true},
		{"L-223 deleting", claim(registered, deleting), false, nil, false, false},
		{"L-224 node lookup failed", claim(registered), false, nil, true, false},
		{"instance listed", claim(registered), true, nil, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := lifecycle.MissingClaims([]lifecycle.Claim{*test.claim}, map[string]bool{id: test.live},
				map[string][]lifecycle.Node{id: test.nodes}, map[string]bool{id: test.unreadable})
			if (len(got) == 1) != test.missing {
				t.Errorf("got %v, want missing %v", got, test.missing)
			}
		})
	}
}

func TestOrphans(t *testing.T) {
	verify := func(launchID, token string) bool { return token == "ok:"+launchID }
	now := at(time.Minute)
	old := now.Add(-31 * time.Second)
	for _, test := range []struct {
		name   string
		orphan lifecycle.Orphan
		want   string
	}{
		{"L-225 31 s old", lifecycle.Orphan{LaunchID: "u/1", Token: "ok:u/1", Launched: old}, "remove"},
		{"L-226 20 s old", lifecycle.Orphan{LaunchID: "u/1", Token: "ok:u/1", Launched: now.Add(-20 * time.Second)}, "keep"},
		{"L-227 claimed", lifecycle.Orphan{ProviderID: "claimed", LaunchID: "u/1", Token: "ok:u/1", Launched: old}, "keep"},
		{"L-228 token does not verify", lifecycle.Orphan{LaunchID: "u/1", Token: "forged", Launched: old}, "report"},
		{"L-228 left by Karpenter", lifecycle.Orphan{Foreign: true, Launched: old}, "remove"},
		{"on its way out", lifecycle.Orphan{Gone: true, LaunchID: "u/1", Token: "ok:u/1", Launched: old}, "keep"},
	} {
		t.Run(test.name, func(t *testing.T) {
			remove, report := lifecycle.Orphans([]lifecycle.Orphan{test.orphan}, map[string]bool{"claimed": true}, verify, now)
			got := strings.Repeat("remove", len(remove)) + strings.Repeat("report", len(report))
			if got == "" {
				got = "keep"
			}
			if got != test.want {
				t.Errorf("%+v: got %s, want %s", test.orphan, got, test.want)
			}
		})
	}
}

// S-053 and following: idle 1 s, max 10 s.
func TestWindow(t *testing.T) {
	w := lifecycle.Window{Idle: time.Second, Max: 10 * time.Second}
	if w.Open() {
		t.Fatal("open without trigger")
	}
	w.Trigger("a", at(0))
	w.Trigger("a", at(900*time.Millisecond))
	if got := w.Left(at(900 * time.Millisecond)); got != 100*time.Millisecond {
		t.Errorf("a known UID extended the window: %v left", got)
	}
	for i := range 20 {
		w.Trigger("p"+strconv.Itoa(i), at(time.Duration(i)*time.Second/2))
	}
	if got := w.Left(at(9500 * time.Millisecond)); got != 500*time.Millisecond {
		t.Errorf("the window must close 10 s after it opened: %v left", got)
	}
	if got := w.Close(); got != 21 {
		t.Errorf("%d UIDs, want 21", got)
	}
	if w.Open() {
		t.Error("open after close")
	}
}

func TestRing(t *testing.T) {
	const f, s = false, true
	for _, test := range []struct {
		name   string
		before []bool
		next   bool
		want   lifecycle.Status
	}{
		{"L-087 one failure", nil, f, "True"}, {"L-088 two failures", []bool{f}, f, "False"}, {"L-090 F F S", []bool{f, f}, s, "False"},
		{"L-090 F F S S", []bool{f, f, s}, s, "False"}, {"L-090 F S S S", []bool{f, f, s, s}, s, "True"}, {"L-091 one success", nil, s, "True"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r lifecycle.Ring
			for _, outcome := range test.before {
				r.Record(outcome)
			}
			if got := r.With(test.next); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	var r lifecycle.Ring
	r.Seed(lifecycle.False)
	if got := r.With(true); got != lifecycle.False {
		t.Errorf("L-097: %s after one success", got)
	}
	r.Reset()
	r.Seed(lifecycle.True)
	if got := r.With(false); got != lifecycle.True {
		t.Errorf("L-098: %s after one failure", got)
	}
}

func TestClassReady(t *testing.T) {
	ready := func(status lifecycle.Status, reason string) lifecycle.Class {
		return lifecycle.Class{Found: true, HasReady: true, Ready: lifecycle.Condition{Status: status, Reason: reason}}
	}
	for _, test := range []struct {
		name  string
		class lifecycle.Class
		want  string
	}{
		{"L-247 missing", lifecycle.Class{}, "False/NodeClassNotFound"},
		{"L-248 deleting", lifecycle.Class{Found: true, Deleting: true}, "False/NodeClassTerminating"},
		{"L-249 no condition", lifecycle.Class{Found: true}, "False/NodeClassReadinessUnknown"},
		{"L-249 unknown", ready("Unknown", "x"), "False/NodeClassReadinessUnknown"},
		{"L-250 ready", ready("True", "Ready"), "True/NodeClassReady"},
		{"not ready", ready("False", "UnhealthyDependents"), "False/UnhealthyDependents"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := lifecycle.ClassReady(test.class)
			if text := string(got.Status) + "/" + got.Reason; text != test.want {
				t.Errorf("got %s, want %s", text, test.want)
			}
		})
	}
}

func TestCountPool(t *testing.T) {
	capacity := func(c *lifecycle.Claim) { c.Capacity = units.List{"cpu": 4000} }
	initialized := node(func(n *lifecycle.Node) {
		n.Labels[lifecycle.InitializedLabel], n.Capacity = "true", units.List{"cpu": 3000}
	})
	joining := node(func(n *lifecycle.Node) { n.Capacity = units.List{"cpu": 0, "memory": 7} })
	for _, test := range []struct {
		name   string
		claims []lifecycle.Claim
		nodes  []lifecycle.Node
		cpu    int64
		count  int64
	}{
		{"L-241 nothing", nil, nil, 0, 0},
		{"L-243 launched", []lifecycle.Claim{*claim(launched, capacity)}, nil, 4000, 1},
		{"L-244 initialized", []lifecycle.Claim{*claim(registered, capacity)}, []lifecycle.Node{initialized}, 3000, 1},
		{"joining, gaps are filled from the claim", []lifecycle.Claim{*claim(registered, capacity)}, []lifecycle.Node{joining}, 4000, 1},
		{"L-245 not launched", []lifecycle.Claim{*claim(capacity)}, nil, 0, 0},
		{"L-246 one is going", []lifecycle.Claim{*claim(launched, capacity), *claim(launched, capacity, deleting)}, nil, 4000, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := lifecycle.CountPool("np", test.claims, map[string][]lifecycle.Node{"fake:///z1/i-1": test.nodes})
			if got.Nodes != test.count || got.Resources["cpu"] != test.cpu || got.Resources["nodes"] != test.count {
				t.Errorf("got %+v, want %d nodes with cpu %d", got, test.count, test.cpu)
			}
			for _, name := range []string{"cpu", "memory", "pods", "ephemeral-storage", "nodes"} {
				if _, ok := got.Resources[name]; !ok {
					t.Errorf("L-241: %s is missing in %v", name, got.Resources)
				}
			}
		})
	}
}
