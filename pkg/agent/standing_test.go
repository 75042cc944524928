package agent_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/agent"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

// onWay is a cluster with pods that wait and a claim on its way that holds two of them.
func onWay(names ...string) *cluster.Snapshot {
	b := cluster.NewBuilder()
	b.SetClaim(&cluster.Claim{
		Name: "c1", UID: "c1", Pool: "p", ProviderID: "aws:///a/i-1", Launched: true,
		Capacity:    units.List{units.CPU: 2000, units.Memory: 1 << 33, units.Pods: 10},
		Allocatable: units.List{units.CPU: 2000, units.Memory: 1 << 33, units.Pods: 10},
		Labels:      map[string]string{constraint.NodePoolKey: "p", constraint.ZoneKey: "a"},
	})
	shape := cluster.NewShape(cluster.Shape{Namespace: "default", SchedulerName: "default-scheduler", Requests: units.List{units.CPU: 900, units.Pods: 1}})
	for _, name := range names {
		b.SetPod(&cluster.Pod{Namespace: "default", Name: name, UID: name, Phase: "Pending", Scheduled: "Unschedulable", Shape: shape})
	}
	return b.Snapshot(time.Time{})
}

func TestStand(t *testing.T) {
	on := func(pods ...string) []plan.Placement {
		var out []plan.Placement
		for _, p := range pods {
			out = append(out, plan.Placement{Pod: p, Claim: "c1"})
		}
		return out
	}
	buys := plan.Plan{Placements: on("a"), Claims: []plan.Claim{{Pool: "p", Pods: []string{"b"}}}}
	for _, test := range []struct {
		name   string
		s      *cluster.Snapshot
		before []plan.Placement
		p      plan.Plan
		want   plan.Plan
	}{
		{"the old plan serves all", onWay("a", "b"), on("a", "b"), buys, plan.Plan{Placements: on("a", "b")}},
		{"a pod that is gone does not matter", onWay("a", "b"), on("a", "b", "gone"), buys, plan.Plan{Placements: on("a", "b")}},
		{"a new pod", onWay("a", "b"), on("a"), buys, buys},
		{"the old plan does not fit any more", onWay("a", "b", "c"), on("a", "b", "c"), plan.Plan{Placements: on("a", "c"), Claims: buys.Claims}, plan.Plan{Placements: on("a", "c"), Claims: buys.Claims}},
		{"nothing is bought", onWay("a", "b"), on("b"), plan.Plan{Placements: on("a")}, plan.Plan{Placements: on("a")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, agent.Stand(test.s, test.before, test.p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Claims whose pods are spread together, directly or by way of a third, are companions.
func TestCompanions(t *testing.T) {
	b := cluster.NewBuilder()
	pod := func(name, app string, spread ...cluster.Spread) {
		shape := cluster.NewShape(cluster.Shape{Namespace: "default", NodeSelector: map[string]string{"app": app}, Requests: units.List{units.Pods: 1}, Spread: spread})
		b.SetPod(&cluster.Pod{Namespace: "default", Name: name, UID: name, Phase: "Pending", Scheduled: "Unschedulable", Shape: shape})
	}
	zones := cluster.Spread{Key: constraint.ZoneKey, MaxSkew: 1, Hard: true}
	pod("a1", "a", zones)
	pod("a2", "a", zones)
	pod("b1", "b", zones)
	pod("b2", "b", zones)
	pod("c1", "c")
	pod("c2", "c")
	pod("d1", "d", cluster.Spread{Key: constraint.HostnameKey, MaxSkew: 1, Hard: true})
	pod("d2", "d", cluster.Spread{Key: constraint.HostnameKey, MaxSkew: 1, Hard: true})
	v := agent.NewVerdicts(nil)
	v.Record(b.Snapshot(time.Time{}), &plan.Plan{Placements: []plan.Placement{
		{Pod: "a1", Claim: "one"}, {Pod: "a2", Claim: "two"}, {Pod: "b1", Claim: "two"}, {Pod: "b2", Claim: "three"},
		{Pod: "c1", Claim: "one"}, {Pod: "c2", Claim: "four"}, {Pod: "d1", Claim: "one"}, {Pod: "d2", Claim: "five"},
	}})
	for claim, want := range map[string][]string{"one": {"three", "two"}, "two": {"one", "three"}, "four": nil, "five": nil, "unknown": nil} {
		if diff := cmp.Diff(want, v.Companions(claim)); diff != "" {
			t.Errorf("companions of %s (-want +got):\n%s", claim, diff)
		}
	}
}
