package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

func TestOpen(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, test := range []struct {
		name  string
		given lifecycle.Opening
		open  bool
		after time.Duration
	}{
		{"not ready", lifecycle.Opening{Daemons: true}, false, 0},
		{"startup taints", lifecycle.Opening{Ready: ago(20 * time.Second)}, false, 40 * time.Second},
		{"startup taints that something on the node removes", lifecycle.Opening{Ready: ago(lifecycle.StartupPatience)}, true, time.Second},
		{"daemons are missing", lifecycle.Opening{Ready: ago(time.Hour), Clear: ago(9 * time.Second), Daemons: true}, false, 250 * time.Millisecond},
		{"daemons do not come", lifecycle.Opening{Ready: ago(time.Hour), Clear: ago(lifecycle.DaemonPatience), Daemons: true}, true, 250 * time.Millisecond},
		{"all there", lifecycle.Opening{Ready: now, Clear: now}, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.given.Now = now
			if open, after := lifecycle.Open(test.given); open != test.open || after != test.after {
				t.Errorf("Open(%+v) = %t, %s; want %t, %s", test.given, open, after, test.open, test.after)
			}
		})
	}
}

// A closed node's cordon passes by; somebody else's stays.
func TestLasting(t *testing.T) {
	cordon := constraint.Taint{Key: lifecycle.UnschedulableTaint, Effect: constraint.NoSchedule}
	own := constraint.Taint{Key: "team", Value: "a", Effect: constraint.NoSchedule}
	startup := constraint.Taint{Key: "agent", Effect: constraint.NoExecute}
	c := &lifecycle.Claim{StartupTaints: []constraint.Taint{startup}}
	n := &lifecycle.Node{Taints: []constraint.Taint{cordon, own, startup, {Key: "node.kubernetes.io/not-ready", Effect: constraint.NoSchedule}}}
	if diff := cmp.Diff([]constraint.Taint{cordon, own}, lifecycle.Lasting(c, n)); diff != "" {
		t.Errorf("cordoned by somebody (-want +got):\n%s", diff)
	}
	n.Annotations = map[string]string{lifecycle.OpeningAnnotation: "true"}
	if diff := cmp.Diff([]constraint.Taint{own}, lifecycle.Lasting(c, n)); diff != "" {
		t.Errorf("closed (-want +got):\n%s", diff)
	}
}
