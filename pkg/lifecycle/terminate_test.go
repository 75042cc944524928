package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

func TestFinalize(t *testing.T) {
	grace := func(c *lifecycle.Claim) { d := 10 * time.Minute; c.GracePeriod = &d }
	annotated := func(c *lifecycle.Claim) { c.Annotations[lifecycle.DeadlineAnnotation] = "2026-03-01T13:00:00Z" }
	open := &lifecycle.Intent{Kind: lifecycle.IntentLaunch, Claim: "uid-nc", Attempt: 1}
	failed := &lifecycle.Intent{Kind: lifecycle.IntentLaunch, Claim: "uid-nc", Attempt: 1, Outcome: lifecycle.OutcomeFailed}
	one := []lifecycle.Node{node()}
	for _, test := range []struct {
		name   string
		claim  *lifecycle.Claim
		nodes  []lifecycle.Node
		intent *lifecycle.Intent
		want   lifecycle.FinalizeStep
	}{
		{"L-134 never launched", claim(deleting), nil, nil, lifecycle.FinalizeDone},
		{"L-018 launch failed", claim(deleting), nil, failed, lifecycle.FinalizeDone},
		{"L-027 a promised launch is not forgotten", claim(deleting), nil, open, lifecycle.FinalizeLaunch},
		{"L-135 launched", claim(launched, deleting), nil, open, lifecycle.FinalizeInstance},
		{"L-136 not registered, nodes are left alone", claim(launched, deleting), one, nil, lifecycle.FinalizeInstance},
		{"L-137 registered", claim(registered, deleting), one, nil, lifecycle.FinalizeNodes},
		{"registered, but a crash kept it out of the status", claim(launched, deleting), []lifecycle.Node{
			node(func(n *lifecycle.Node) { n.Labels[lifecycle.RegisteredLabel] = "true" }),
		}, nil, lifecycle.FinalizeNodes},
		{"L-138 two nodes", claim(registered, deleting), append(one, one...), nil, lifecycle.FinalizeNodes},
		{"L-140 node gone", claim(registered, deleting), nil, nil, lifecycle.FinalizeInstance},
		{"L-142 deadline first", claim(registered, deleting, grace), one, nil, lifecycle.FinalizeDeadline},
		{"L-143 deadline preset", claim(registered, deleting, grace, annotated), one, nil, lifecycle.FinalizeNodes},
		{"L-149 without our finalizer", claim(registered, deleting, func(c *lifecycle.Claim) { c.Finalized = false }), one, nil, lifecycle.FinalizeNothing},
		{"not deleting", claim(registered), one, nil, lifecycle.FinalizeNothing},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := lifecycle.Finalize(test.claim, test.nodes, test.intent); got != test.want {
				t.Errorf("got step %d, want %d", got, test.want)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	grace := func(d time.Duration) func(*lifecycle.Claim) {
		return func(c *lifecycle.Claim) { c.GracePeriod = &d }
	}
	if got := lifecycle.NewDeadline(claim(deleting, grace(10*time.Minute))); got != "2026-03-01T13:10:00Z" {
		t.Errorf("L-142: got %q", got)
	}
	if got := lifecycle.NewDeadline(claim(deleting)); got != "" {
		t.Errorf("L-144: got %q", got)
	}
	if _, ok, err := lifecycle.Deadline(claim(grace(time.Minute))); ok || err != nil {
		t.Errorf("a grace period alone is no deadline: got %v, %v", ok, err)
	}
	garbage := claim(func(c *lifecycle.Claim) { c.Annotations[lifecycle.DeadlineAnnotation] = "garbage" })
	if _, _, err := lifecycle.Deadline(garbage); err == nil {
		t.Error("L-167: no error")
	}
}

// LX20: a fresh instance that nothing has shown yet is not believed to be gone.
func TestInstanceGone(t *testing.T) {
	for _, test := range []struct {
		age  time.Duration
		seen bool
		want bool
	}{{59 * time.Second, false, false}, {59 * time.Second, true, true}, {time.Minute, false, true}} {
		if got := lifecycle.InstanceGone(epoch(), test.seen, at(test.age)); got != test.want {
			t.Errorf("age %v, seen %v: got %v", test.age, test.seen, got)
		}
	}
}

func TestCordon(t *testing.T) {
	disrupted := constraint.Taint{Key: lifecycle.DisruptedTaint, Effect: constraint.NoSchedule}
	label := map[string]string{lifecycle.ExcludeBalancersLabel: "karpenter"}
	noExecute := constraint.Taint{Key: lifecycle.DisruptedTaint, Effect: constraint.NoExecute}
	for _, test := range []struct {
		name string
		node lifecycle.Node
		want lifecycle.NodeChange
	}{
		{"L-150 first time", node(), lifecycle.NodeChange{Labels: label, AddTaints: []constraint.Taint{disrupted}}},
		{"L-158 nothing to do", node(func(n *lifecycle.Node) { n.Taints, n.Labels = []constraint.Taint{disrupted}, label }), lifecycle.NodeChange{}},
		{"L-159 other effect", node(func(n *lifecycle.Node) { n.Taints, n.Labels = []constraint.Taint{noExecute}, label }), lifecycle.NodeChange{
			RemoveTaints: []constraint.Taint{noExecute}, AddTaints: []constraint.Taint{disrupted},
		}},
		{"L-169 taint was removed", node(func(n *lifecycle.Node) { n.Labels = label }), lifecycle.NodeChange{AddTaints: []constraint.Taint{disrupted}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if d := cmp.Diff(test.want, lifecycle.Cordon(&test.node)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func pod(name string, edit ...func(*lifecycle.Pod)) lifecycle.Pod {
	grace := 30 * time.Second
	p := lifecycle.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Grace: &grace}
	for _, e := range edit {
		e(&p)
	}
	return p
}

func tolerating(list ...constraint.Toleration) func(*lifecycle.Pod) {
	return func(p *lifecycle.Pod) { p.Tolerations = list }
}

func withGrace(d time.Duration) func(*lifecycle.Pod) {
	return func(p *lifecycle.Pod) { p.Grace = &d }
}

func gone(after time.Duration) func(*lifecycle.Pod) {
	return func(p *lifecycle.Pod) { p.Deleted = at(after) }
}

func daemon(p *lifecycle.Pod)   { p.Daemon = true }
func critical(p *lifecycle.Pod) { p.Critical = true }

func TestDepart(t *testing.T) {
	draining := func(c *lifecycle.Claim) {
		registered(c)
		c.Conditions["Drained"] = lifecycle.Condition{Type: "Drained", Status: "Unknown", Reason: "Draining", Since: epoch()}
	}
	exists := tolerating(constraint.Toleration{Key: lifecycle.DisruptedTaint, Operator: "Exists"})
	va := []lifecycle.Attachment{{Name: "va1", Volume: "pv1"}, {Name: "inline"}}
	uses := func(p *lifecycle.Pod) { p.Volumes = []string{"pv1"} }
	final := []string{"Drained=True/Drained", "VolumesDetached=True/VolumesDetached"}
	for _, test := range []struct {
		name  string
		d     lifecycle.Departure
		now   time.Duration
		phase lifecycle.Phase
		want  []string
	}{
		{"L-150 first pass", lifecycle.Departure{Claim: claim(registered)}, 0, lifecycle.PhaseDrain, []string{"Drained=Unknown/Draining"}},
		{"L-151 minimum drain time", lifecycle.Departure{Claim: claim(draining)}, 4 * time.Second, lifecycle.PhaseDrain, []string{"Drained=Unknown/Draining"}},
		{"L-152 all in one", lifecycle.Departure{Claim: claim(draining)}, 5 * time.Second, lifecycle.PhaseInstance, final},
		{"L-165 no claim, pods", lifecycle.Departure{Pods: []lifecycle.Pod{pod("a")}}, 0, lifecycle.PhaseDrain, nil},
		{"L-165 no claim, no pods", lifecycle.Departure{}, 0, lifecycle.PhaseDone, nil},
		{"L-170 a pod came late", lifecycle.Departure{Claim: claim(draining), Pods: []lifecycle.Pod{pod("a")}}, 5 * time.Second, lifecycle.PhaseDrain, []string{"Drained=Unknown/Draining"}},
		{"L-173 pod stays", lifecycle.Departure{Claim: claim(draining), Pods: []lifecycle.Pod{pod("a", exists)}}, 5 * time.Second, lifecycle.PhaseInstance, final},
		{"L-174 mirror pod", lifecycle.Departure{Claim: claim(draining), Pods: []lifecycle.Pod{pod("a", func(p *lifecycle.Pod) { p.Mirror = true })}}, 5 * time.Second, lifecycle.PhaseInstance, final},
		{"L-175 completed pod", lifecycle.Departure{Claim: claim(draining), Pods: []lifecycle.Pod{pod("a", func(p *lifecycle.Pod) { p.Terminal = true })}}, 5 * time.Second, lifecycle.PhaseInstance, final},
		{"L-176 terminating 59 s too long", lifecycle.Departure{Claim: claim(draining), Pods: []lifecycle.Pod{pod("a", gone(0))}}, 59 * time.Second, lifecycle.PhaseDrain, []string{"Drained=Unknown/Draining"}},
		{"L-176 terminating 61 s too long", lifecycle.Departure{Claim: claim(draining), Pods: []lifecycle.Pod{pod("a", gone(0))}}, 61 * time.Second, lifecycle.PhaseInstance, final},
		{"L-206 volume attached", lifecycle.Departure{Claim: claim(draining), Attachments: va}, 5 * time.Second, lifecycle.PhaseVolumes, []string{"Drained=True/Drained", "VolumesDetached=Unknown/AwaitingVolumeDetachment"}},
		{"L-208 deadline passed", lifecycle.Departure{Claim: claim(draining), Attachments: va, Deadline: at(4 * time.Second)}, 5 * time.Second, lifecycle.PhaseInstance, []string{"Drained=True/Drained", "VolumesDetached=False/TerminationGracePeriodElapsed"}},
		{"L-209 deadline ahead", lifecycle.Departure{Claim: claim(draining), Attachments: va, Deadline: at(time.Hour)}, 5 * time.Second, lifecycle.PhaseVolumes, []string{"Drained=True/Drained", "VolumesDetached=Unknown/AwaitingVolumeDetachment"}},
		{"L-210 volume of a pod that stays", lifecycle.Departure{Claim: claim(draining), Attachments: va, Pods: []lifecycle.Pod{pod("a", exists, uses)}}, 5 * time.Second, lifecycle.PhaseInstance, final},
		{"L-214 no claim, volume attached", lifecycle.Departure{Attachments: va}, 0, lifecycle.PhaseVolumes, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.d.Now = at(test.now)
			got := lifecycle.Depart(test.d)
			if got.Phase != test.phase {
				t.Errorf("got phase %d, want %d", got.Phase, test.phase)
			}
			if d := cmp.Diff(test.want, show(got.Conditions)); d != "" {
				t.Errorf("conditions (-want +got):\n%s", d)
			}
		})
	}
}

func names(keys []lifecycle.PodKey) []string {
	var out []string
	for _, k := range keys {
		out = append(out, k.Name)
	}
	return out
}

func TestDrainOrder(t *testing.T) {
	a, b := pod("a"), pod("b", daemon)
	c, d := pod("c", critical), pod("d", critical, daemon)
	dying := pod("a", gone(20*time.Second))
	for _, test := range []struct {
		name     string
		pods     []lifecycle.Pod
		deadline time.Duration
		want     []string
		waiting  int
	}{
		{"L-178 plain pods first", []lifecycle.Pod{d, c, b, a}, 0, []string{"a"}, 4},
		{"L-178 then daemons", []lifecycle.Pod{d, c, b}, 0, []string{"b"}, 3},
		{"L-178 then critical pods", []lifecycle.Pod{d, c}, 0, []string{"c"}, 2},
		{"L-178 critical daemons last", []lifecycle.Pod{d}, 0, []string{"d"}, 1},
		{"L-179 a terminating pod holds its tier", []lifecycle.Pod{dying, b}, 0, nil, 2},
		{"L-201 forced pods do not wait for tiers", []lifecycle.Pod{a, pod("c", critical, withGrace(2*time.Hour))}, time.Hour, []string{"c", "a"}, 2},
		{"L-202 forced pods do not hold their tier", []lifecycle.Pod{pod("a", withGrace(10*time.Minute)), b}, 5 * time.Minute, []string{"a", "b"}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var deadline time.Time
			if test.deadline > 0 {
				deadline = at(test.deadline)
			}
			got := lifecycle.DrainPods(test.pods, deadline, epoch())
			if d := cmp.Diff(test.want, names(got.Enqueue)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if got.Waiting != test.waiting {
				t.Errorf("%d waiting, want %d", got.Waiting, test.waiting)
			}
		})
	}
}

func TestAttempt(t *testing.T) {
	protected := func(value string, started time.Duration) func(*lifecycle.Pod) {
		return func(p *lifecycle.Pod) { p.DoNotDisrupt, p.Started = value, at(started) }
	}
	unset := func(p *lifecycle.Pod) { p.Grace = nil }
	must := func(name string, edit ...func(*lifecycle.Pod)) *lifecycle.Pod { p := pod(name, edit...); return &p }
	other := tolerating(constraint.Toleration{Key: lifecycle.DisruptedTaint, Operator: "Equal", Value: "x"})
	for _, test := range []struct {
		name     string
		pod      *lifecycle.Pod
		deadline time.Duration // relative to T; 0 is none
		now      time.Duration
		want     lifecycle.Effect
	}{
		{"L-177 another value is not tolerated", must("a", other), 0, 0, lifecycle.Evict},
		{"L-188 gone or replaced", nil, 0, 0, lifecycle.Drop},
		{"L-189 do-not-disrupt", must("a", protected("true", 0)), 0, 0, lifecycle.Hold},
		{"L-190 protection over", must("a", protected("10m", -11*time.Minute)), 0, 0, lifecycle.Evict},
		{"L-191 protection active", must("a", protected("10m", -5*time.Minute)), 0, 0, lifecycle.Hold},
		{"L-191 later", must("a", protected("10m", -5*time.Minute)), 0, 5 * time.Minute, lifecycle.Evict},
		{"invalid protection is ignored", must("a", protected("yes", 0)), 0, 0, lifecycle.Evict},
		{"L-194 completed", must("a", func(p *lifecycle.Pod) { p.Terminal = true }), 0, 0, lifecycle.Drop},
		{"L-195 at +0", must("a"), time.Minute, 0, lifecycle.Evict},
		{"L-195 at +29", must("a"), time.Minute, 29 * time.Second, lifecycle.Evict},
		{"L-195 at +31", must("a"), time.Minute, 31 * time.Second, lifecycle.Force},
		{"L-196 protection does not outlast the deadline", must("a", protected("true", 0)), 10 * time.Second, 0, lifecycle.Force},
		{"L-198 terminating beyond the deadline", must("a", gone(time.Minute)), 20 * time.Second, 0, lifecycle.Force},
		{"L-198 its own grace still fits", must("a", gone(time.Minute), withGrace(10*time.Second)), 20 * time.Second, 0, lifecycle.Drop},
		{"L-198 until past +10 s", must("a", gone(time.Minute), withGrace(10*time.Second)), 20 * time.Second, 11 * time.Second, lifecycle.Force},
		{"L-199 terminating in time", must("a", gone(10*time.Second)), 20 * time.Second, 0, lifecycle.Drop},
		{"L-200 grace unset", must("a", unset), -time.Minute, 0, lifecycle.Evict},
	} {
		t.Run(test.name, func(t *testing.T) {
			var deadline time.Time
			if test.deadline != 0 {
				deadline = at(test.deadline)
			}
			if got := lifecycle.Attempt(test.pod, deadline, at(test.now)); got != test.want {
				t.Errorf("got effect %d, want %d", got, test.want)
			}
		})
	}
}

func TestForcedGrace(t *testing.T) {
	for _, test := range []struct {
		name string
		left time.Duration
		want int64
	}{{"L-195", 29*time.Second + 900*time.Millisecond, 29}, {"L-196", 10 * time.Second, 10}, {"L-197", -5 * time.Minute, 1}, {"L-201", time.Hour, 3600}} {
		if got := lifecycle.ForcedGrace(at(test.left), epoch()); got != test.want {
			t.Errorf("%s: %v left: got %d, want %d", test.name, test.left, got, test.want)
		}
	}
}

func TestEarlierDeadline(t *testing.T) {
	none := time.Time{}
	for _, test := range []struct {
		name       string
		a, b, want time.Time
	}{
		{"L-192", at(10), at(20), at(10)}, {"L-193", none, at(20), at(20)}, {"earlier later", at(20), at(10), at(10)}, {"none", none, none, none},
	} {
		if got := lifecycle.EarlierDeadline(test.a, test.b); !got.Equal(test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
