package lifecycle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/units"
)

var ignoreSince = cmpopts.IgnoreFields(lifecycle.Condition{}, "Since")

// epoch is T, the creation time of what is tested.
func epoch() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func at(d time.Duration) time.Time { return epoch().Add(d) }

// conditions builds a condition map from "Type=Status" or "Type=Status/Reason", all since T.
func conditions(list ...string) map[string]lifecycle.Condition {
	out := map[string]lifecycle.Condition{}
	for _, text := range list {
		kind, rest, _ := strings.Cut(text, "=")
		status, reason, _ := strings.Cut(rest, "/")
		out[kind] = lifecycle.Condition{Type: kind, Status: lifecycle.Status(status), Reason: reason, Since: epoch()}
	}
	return out
}

// show writes conditions as "Type=Status/Reason".
func show(list []lifecycle.Condition) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.Type+"="+string(c.Status)+"/"+c.Reason)
	}
	return out
}

func claim(edit ...func(*lifecycle.Claim)) *lifecycle.Claim {
	c := &lifecycle.Claim{
		Name: "nc", UID: "uid-nc", Pool: "np", Created: epoch(), Finalized: true,
		Labels: map[string]string{lifecycle.PoolLabel: "np"}, Annotations: map[string]string{},
	}
	for _, e := range edit {
		e(c)
	}
	return c
}

func launched(c *lifecycle.Claim) {
	c.ProviderID, c.Conditions = "fake:///z1/i-1", conditions("Launched=True/Launched")
}

func registered(c *lifecycle.Claim) {
	launched(c)
	c.NodeName, c.Conditions = "n1", conditions("Launched=True/Launched", "Registered=True/Registered")
}

func deleting(c *lifecycle.Claim) { c.Deleted = at(time.Hour) }

func TestLaunch(t *testing.T) {
	created := lifecycle.Outcome{
		Kind: lifecycle.Created, ProviderID: "fake:///z1/i-1",
		Labels: map[string]string{"zone": "z1", "type": "m1"}, Annotations: map[string]string{"by": "provider"},
	}
	long := strings.Repeat("x", 500)
	for _, test := range []struct {
		name    string
		claim   *lifecycle.Claim
		outcome lifecycle.Outcome
		want    lifecycle.LaunchStep
	}{{
		"L-012 success", claim(), created, lifecycle.LaunchStep{
			Conditions: []lifecycle.Condition{{Type: "Launched", Status: "True", Reason: "Launched"}}, Outcome: lifecycle.OutcomeDone,
			Labels:      map[string]string{"zone": "z1", "type": "m1", lifecycle.PoolLabel: "np"},
			Annotations: map[string]string{"by": "provider"},
		},
	}, {
		"L-013 labels of the claim win, annotations of the provider win", claim(func(c *lifecycle.Claim) {
			c.Labels["zone"], c.Annotations["by"] = "zX", "claim"
		}), created, lifecycle.LaunchStep{
			Conditions: []lifecycle.Condition{{Type: "Launched", Status: "True", Reason: "Launched"}}, Outcome: lifecycle.OutcomeDone,
			Labels:      map[string]string{"zone": "zX", "type": "m1", lifecycle.PoolLabel: "np"},
			Annotations: map[string]string{"by": "provider"},
		},
	}, {
		"L-017 insufficient capacity", claim(), lifecycle.Outcome{Kind: lifecycle.NoCapacity, Message: "no m1"},
		lifecycle.LaunchStep{Delete: "insufficient_capacity", Outcome: lifecycle.OutcomeFailed},
	}, {
		"L-019 class not ready", claim(), lifecycle.Outcome{Kind: lifecycle.ClassNotReady},
		lifecycle.LaunchStep{Delete: "nodeclass_not_ready", Outcome: lifecycle.OutcomeFailed},
	}, {
		"L-020 create error", claim(), lifecycle.Outcome{Kind: lifecycle.Failed, Reason: "AMINotFound", Message: "x"},
		lifecycle.LaunchStep{
			Conditions: []lifecycle.Condition{{Type: "Launched", Status: "Unknown", Reason: "AMINotFound", Message: "x"}},
			Retry:      true, Outcome: lifecycle.OutcomeFailed,
		},
	}, {
		"L-021 other error leaves the outcome open", claim(), lifecycle.Outcome{Kind: lifecycle.OpenOutcome, Message: "boom"},
		lifecycle.LaunchStep{
			Conditions: []lifecycle.Condition{{Type: "Launched", Status: "Unknown", Reason: "LaunchFailed", Message: "boom"}},
			Retry:      true, Outcome: lifecycle.OutcomeUnknown,
		},
	}, {
		"L-022 long error", claim(), lifecycle.Outcome{Kind: lifecycle.Failed, Message: long},
		lifecycle.LaunchStep{
			Conditions: []lifecycle.Condition{{Type: "Launched", Status: "Unknown", Reason: "LaunchFailed", Message: long[:300] + "..."}},
			Retry:      true, Outcome: lifecycle.OutcomeFailed,
		},
	}, {
		"L-036 another instance", claim(registered, func(c *lifecycle.Claim) { c.ProviderID = "fake:///z1/i-0" }), created,
		lifecycle.LaunchStep{
			Conditions: []lifecycle.Condition{
				{Type: "Launched", Status: "True", Reason: "Launched"},
				{Type: "Registered", Status: "Unknown", Reason: "AwaitingReconciliation", Message: "object is awaiting reconciliation"},
				{Type: "Initialized", Status: "Unknown", Reason: "AwaitingReconciliation", Message: "object is awaiting reconciliation"},
			},
			ClearNode: true, Outcome: lifecycle.OutcomeDone,
			Labels:      map[string]string{"zone": "z1", "type": "m1", lifecycle.PoolLabel: "np"},
			Annotations: map[string]string{"by": "provider"},
		},
	}} {
		t.Run(test.name, func(t *testing.T) {
			got := lifecycle.Launch(test.claim, test.outcome)
			if d := cmp.Diff(test.want, got, ignoreSince); d != "" {
				t.Errorf("outcome %+v (-want +got):\n%s", test.outcome, d)
			}
		})
	}
}

// L-305, invariant I4: a new attempt number is given only once the former outcome is known.
func TestNextAttempt(t *testing.T) {
	for _, test := range []struct {
		name    string
		intent  *lifecycle.Intent
		attempt int
		repeat  bool
	}{
		{"none", nil, 1, false},
		{"planned only", &lifecycle.Intent{Kind: lifecycle.IntentPlanned, Decision: "d"}, 1, false},
		{"open", &lifecycle.Intent{Kind: lifecycle.IntentLaunch, Attempt: 2}, 2, true},
		{"failed", &lifecycle.Intent{Kind: lifecycle.IntentLaunch, Attempt: 2, Outcome: lifecycle.OutcomeFailed}, 3, false},
		{"done", &lifecycle.Intent{Kind: lifecycle.IntentLaunch, Attempt: 1, Outcome: lifecycle.OutcomeDone}, 2, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			attempt, repeat := lifecycle.NextAttempt(test.intent)
			if attempt != test.attempt || repeat != test.repeat {
				t.Errorf("%+v: got attempt %d, repeat %v; want %d, %v", test.intent, attempt, repeat, test.attempt, test.repeat)
			}
		})
	}
}

func TestIntentText(t *testing.T) {
	want := &lifecycle.Intent{
		Kind: lifecycle.IntentLaunch, Claim: "uid-nc", Attempt: 1, Token: "T", Request: []byte(`{"a":1}`), Digest: "d", Decision: "e/0",
		Deadline: at(time.Minute), Epoch: 3,
	}
	got, err := lifecycle.ParseIntent(want.String())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("round trip (-want +got):\n%s", d)
	}
	if got.Of("another") != nil || got.Of("uid-nc") == nil {
		t.Error("an intent belongs to the claim whose UID it names, and to no other")
	}
	if none, err := lifecycle.ParseIntent(""); none != nil || err != nil {
		t.Errorf("empty annotation: got %v, %v", none, err)
	}
	if _, err := lifecycle.ParseIntent("{"); err == nil {
		t.Error("malformed annotation: no error")
	}
}

// The request is dropped only when the stored status shows the instance.
func TestSettle(t *testing.T) {
	open := &lifecycle.Intent{Kind: lifecycle.IntentLaunch, Claim: "uid-nc", Attempt: 1, Request: []byte(`{}`)}
	if got := lifecycle.Settle(claim(), open); got != nil {
		t.Errorf("status shows no instance, but intent is settled: %+v", got)
	}
	got := lifecycle.Settle(claim(launched), open)
	if got == nil || got.Outcome != lifecycle.OutcomeDone || got.Request != nil {
		t.Errorf("launched: got %+v", got)
	}
	if lifecycle.Settle(claim(launched), got) != nil {
		t.Error("settled twice")
	}
}

func node(edit ...func(*lifecycle.Node)) lifecycle.Node {
	n := lifecycle.Node{
		Name: "n1", UID: "uid-n1", ProviderID: "fake:///z1/i-1", Ready: lifecycle.True, Created: epoch(),
		Labels: map[string]string{lifecycle.PoolLabel: "np"}, Annotations: map[string]string{},
		Taints:      []constraint.Taint{{Key: lifecycle.UnregisteredTaint, Effect: constraint.NoExecute}},
		Capacity:    units.List{"cpu": 4000, "memory": 16 << 30, "pods": 110},
		Allocatable: units.List{"cpu": 3900, "memory": 15 << 30, "pods": 110},
	}
	for _, e := range edit {
		e(&n)
	}
	return n
}
