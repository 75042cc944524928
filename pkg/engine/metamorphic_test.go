package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/scenario"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

// outcome is what a plan does, without the digest of its input and the effort.
func outcome(p plan.Plan) plan.Plan {
	p.Digest, p.Steps = "", 0
	return p
}

func world(t *rapid.T, text string) *scenario.World {
	w := scenario.New()
	if err := w.Apply(text); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return w
}

// Labels that no selector looks at do not matter, however they split pods of one shape.
func TestLabelNoise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(drawWorld(t), "\n")
		w := world(t, text)
		s := w.Snapshot()
		want := engine.Decide(s, engine.Policy{})
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for _, p := range s.Pods {
			q := *p
			q.Labels = maps.Clone(p.Labels)
			if q.Labels == nil {
				q.Labels = map[string]string{}
			}
			q.Labels[[]string{"noise", "pod-template-hash"}[r.IntN(2)]] = fmt.Sprint(r.IntN(3))
			w.Builder.SetPod(&q)
		}
		if diff := cmp.Diff(outcome(want), outcome(engine.Decide(w.Snapshot(), engine.Policy{}))); diff != "" {
			t.Fatalf("label noise changes the plan (-without +with):\n%s\n\ncluster:\n%s", diff, text)
		}
	})
}

// Objects that take no part do not matter.
func TestIrrelevantObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(drawWorld(t), "\n")
		w := world(t, text)
		want := engine.Decide(w.Snapshot(), engine.Policy{})
		irrelevant(w.Builder)
		if diff := cmp.Diff(outcome(want), outcome(engine.Decide(w.Snapshot(), engine.Policy{}))); diff != "" {
			t.Fatalf("objects that take no part change the plan (-without +with):\n%s\n\ncluster:\n%s", diff, text)
		}
	})
}

// irrelevant adds a namespace, pods that are finished, gated, elsewhere or a daemon's, and daemons that no node suits.
func irrelevant(b *cluster.Builder) {
	b.SetNamespace("aside", map[string]string{"team": "aside"})
	shape := cluster.NewShape(cluster.Shape{Namespace: "aside", Requests: units.List{units.CPU: 3000, units.Pods: 1}})
	for i, p := range []cluster.Pod{
		{Phase: "Succeeded", Scheduled: "Unschedulable"}, {Phase: "Failed", Node: "n0"}, {Phase: "Pending", Scheduled: "SchedulingGated"},
		{Phase: "Running", Node: "a-node-that-does-not-exist"}, {Phase: "Pending", Scheduled: "Unschedulable", Nominated: "n0"},
		{Phase: "Pending", Scheduled: "Unschedulable", Owner: cluster.Owner{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "aside"}},
		{Phase: "Pending", Scheduled: "Unschedulable", Deleted: scenario.Epoch()}, {Phase: "Pending"},
	} {
		p.UID, p.Name, p.Namespace, p.Shape, p.Created = fmt.Sprint("aside-", i), fmt.Sprint("aside-", i), "aside", shape, scenario.Epoch()
		p.Labels = map[string]string{"side": "aside"}
		b.SetPod(&p)
	}
	nowhere := cluster.NewShape(cluster.Shape{Namespace: "aside", Requests: units.List{units.CPU: 500},
		Required: []cluster.NodeTerm{{Exprs: []constraint.Expr{{Key: "aside", Operator: constraint.In, Values: []string{"x"}}}}}})
	b.SetDaemonSet(&cluster.DaemonSet{Namespace: "aside", Name: "aside", UID: "aside", Shape: nowhere})
}

// The number of processors does not matter.
func TestProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(drawWorld(t), "\n")
		var want plan.Plan
		for i, n := range []int{1, 2, 4} {
			runtime.GOMAXPROCS(n)
			got := engine.Decide(world(t, text).Snapshot(), engine.Policy{})
			if i == 0 {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%d processors give another plan than one (-one +more):\n%s\n\ncluster:\n%s", n, diff, text)
			}
		}
	})
}

// A builder that became a cluster by way of another one, with snapshots on the way, yields the plan of one that was built for it.
func TestIncrementalPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first, second := strings.Join(drawWorld(t), "\n"), strings.Join(drawWorld(t), "\n")
		w, target := world(t, first), world(t, second).Snapshot()
		want := engine.Decide(target, engine.Policy{})
		events := transition(w.Builder, w.Snapshot(), target)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		for _, event := range events {
			event()
			if r.IntN(3) == 0 {
				w.Builder.Snapshot(scenario.Epoch())
			}
		}
		if diff := cmp.Diff(want, engine.Decide(w.Builder.Snapshot(scenario.Epoch()), engine.Policy{})); diff != "" {
			t.Fatalf("a builder with a past gives another plan (-fresh +got):\n%s\n\nfrom:\n%s\n\nto:\n%s", diff, first, second)
		}
	})
}

// transition is what has to happen to a builder that holds from to make it hold to.
func transition(b *cluster.Builder, from, to *cluster.Snapshot) []func() {
	var out []func()
	out = append(out, changes(from.Pods, to.Pods, func(p *cluster.Pod) string { return p.UID }, b.SetPod, b.DeletePod)...)
	out = append(out, changes(from.Nodes, to.Nodes, func(n *cluster.Node) string { return n.Name }, b.SetNode, b.DeleteNode)...)
	out = append(out, changes(from.Claims, to.Claims, func(c *cluster.Claim) string { return c.Name }, b.SetClaim, b.DeleteClaim)...)
	out = append(out, changes(from.Pools, to.Pools, func(p *cluster.Pool) string { return p.Name }, b.SetPool, b.DeletePool)...)
	out = append(out, changes(from.Devices.Claims, to.Devices.Claims, (*cluster.DeviceClaim).Key, b.SetDeviceClaim, func(key string) {
		namespace, name, _ := strings.Cut(key, "/")
		b.DeleteDeviceClaim(namespace, name)
	})...)
	out = append(out, changes(from.Devices.Slices, to.Devices.Slices, func(s *cluster.DeviceSlice) string { return s.Name }, b.SetDeviceSlice, b.DeleteDeviceSlice)...)
	out = append(out, changes(from.Devices.Classes, to.Devices.Classes, func(c *cluster.DeviceClass) string { return c.Name }, b.SetDeviceClass, b.DeleteDeviceClass)...)
	out = append(out, func() { b.SetDeviceSelectors(to.Devices.Selectors) }, func() { b.SetSettings(to.Settings) })
	return append(out, changes(from.DaemonSets, to.DaemonSets, func(d *cluster.DaemonSet) string { return d.Name }, b.SetDaemonSet,
		func(name string) { b.DeleteDaemonSet("default", name) })...)
}

func changes[T any](from, to []T, key func(T) string, set func(T), del func(string)) []func() {
	var out []func()
	keep := map[string]bool{}
	for _, x := range to {
		keep[key(x)] = true
		out = append(out, func() { set(x) })
	}
	for _, x := range from {
		if !keep[key(x)] {
			out = append(out, func() { del(key(x)) })
		}
	}
	return out
}
