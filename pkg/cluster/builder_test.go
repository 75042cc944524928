package cluster_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

func epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func node(name string, version int) *cluster.Node {
	return &cluster.Node{Name: name, UID: name, ProviderID: "p-" + name,
		Labels:      map[string]string{constraint.NodePoolKey: "np", constraint.RegisteredKey: "true", constraint.InstanceTypeKey: "t", "v": fmt.Sprint(version)},
		Capacity:    units.List{units.CPU: 4000},
		Allocatable: units.List{units.CPU: 4000, units.Pods: 10}}
}

func claim(name, provider string) *cluster.Claim {
	return &cluster.Claim{Name: name, UID: name, ProviderID: provider, Pool: "np", Launched: provider != "", Labels: map[string]string{constraint.NodePoolKey: "np"},
		Requests: units.List{units.CPU: 100}, Allocatable: units.List{units.CPU: 3000}, Capacity: units.List{units.CPU: 4000}}
}

func pod(uid, on string, cpu int64) *cluster.Pod {
	p := &cluster.Pod{UID: uid, Name: uid, Namespace: "default", Labels: map[string]string{"app": "a"}, Node: on, Phase: "Pending",
		Shape: &cluster.Shape{Namespace: "default", Requests: units.List{units.CPU: cpu, units.Pods: 1}}}
	if on != "" {
		p.Phase = "Running"
	}
	return p
}

// state is what a builder should hold, kept the simple way.
type state struct {
	nodes  map[string]*cluster.Node
	claims map[string]*cluster.Claim
	pods   map[string]*cluster.Pod
}

func (s *state) fresh() *cluster.Snapshot {
	b := cluster.NewBuilder()
	for _, k := range keys(s.pods) {
		b.SetPod(s.pods[k])
	}
	for _, k := range keys(s.claims) {
		b.SetClaim(s.claims[k])
	}
	for _, k := range keys(s.nodes) {
		b.SetNode(s.nodes[k])
	}
	return b.Snapshot(epoch())
}

func keys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// view is everything of a snapshot that a decision can see of nodes, claims and pods.
func view(s *cluster.Snapshot) string {
	out := s.Digest().String() + "\n"
	for _, p := range s.Pods {
		out += fmt.Sprintln("pod", p.UID, p.Node)
	}
	for _, t := range s.Targets() {
		out += fmt.Sprintln("target", t.Name, t.Host, t.Pool, t.Node != nil, t.Claim != nil, t.Registered, t.Leaving, t.Pending, t.Labels, t.Taints, t.Capacity, t.Allocatable, t.Used)
		for _, g := range t.Residents {
			out += fmt.Sprintln("  ", len(g.Pods), g.Pods[0].UID, g.Shape.Requests, g.Labels.Labels)
		}
	}
	for _, g := range s.Unbound() {
		out += fmt.Sprintln("unbound", len(g.Pods), g.Pods[0].UID, g.Shape.Requests)
	}
	return out
}

// Whatever the way, a builder that got the same objects yields the same snapshot, and snapshots taken on the way never change.
func TestBuilderIncremental(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := cluster.NewBuilder()
		s := &state{map[string]*cluster.Node{}, map[string]*cluster.Claim{}, map[string]*cluster.Pod{}}
		type taken struct {
			s    *cluster.Snapshot
			view string
		}
		var snapshots []taken
		names := []string{"n1", "n2", "n3"}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			switch rapid.IntRange(0, 6).Draw(t, "op") {
			case 0:
				n := node(name, rapid.IntRange(0, 2).Draw(t, "version"))
				s.nodes[name] = n
				b.SetNode(n)
			case 1:
				delete(s.nodes, name)
				b.DeleteNode(name)
			case 2:
				c := claim("c-"+name, rapid.SampledFrom([]string{"", "p-" + name}).Draw(t, "provider"))
				s.claims[c.Name] = c
				b.SetClaim(c)
			case 3:
				delete(s.claims, "c-"+name)
				b.DeleteClaim("c-" + name)
			case 4, 5:
				p := pod("pod-"+name+rapid.SampledFrom([]string{"x", "y"}).Draw(t, "pod"), rapid.SampledFrom(append(names, "")).Draw(t, "on"), rapid.SampledFrom([]int64{100, 200}).Draw(t, "cpu"))
				s.pods[p.UID] = p
				b.SetPod(p)
			default:
				uid := "pod-" + name + "x"
				delete(s.pods, uid)
				b.DeletePod(uid)
			}
			if rapid.Bool().Draw(t, "snapshot") {
				now := b.Snapshot(epoch())
				snapshots = append(snapshots, taken{now, view(now)})
			}
		}
		if diff := cmp.Diff(view(s.fresh()), view(b.Snapshot(epoch()))); diff != "" {
			t.Fatalf("snapshot by deltas (-fresh +got):\n%s", diff)
		}
		for i, old := range snapshots {
			if diff := cmp.Diff(old.view, view(old.s)); diff != "" {
				t.Fatalf("snapshot %d changed after it was taken:\n%s", i, diff)
			}
		}
	})
}

// A change of one node leaves the view of the others alone.
func TestBuilderShares(t *testing.T) {
	b := cluster.NewBuilder()
	for _, n := range []string{"n1", "n2"} {
		b.SetNode(node(n, 0))
		b.SetClaim(claim("c-"+n, "p-"+n))
	}
	before := b.Snapshot(epoch())
	b.SetPod(pod("p", "n2", 100))
	after := b.Snapshot(epoch())
	if before.Targets()[0] != after.Targets()[0] {
		t.Error("target n1 was built anew although nothing of it changed")
	}
	if got := after.Targets()[1].Used[units.CPU]; got != 100 {
		t.Errorf("n2 uses %d millicores, want 100", got)
	}
	if got := before.Targets()[1].Used[units.CPU]; got != 0 {
		t.Errorf("the earlier snapshot says that n2 uses %d millicores, want 0", got)
	}
}

// The digest tells every change of content apart and returns with it.
func TestDigest(t *testing.T) {
	b := cluster.NewBuilder()
	b.SetNode(node("n1", 0))
	b.SetPod(pod("p", "", 100))
	var first cluster.Digest
	changes := map[string]func(){
		"node":      func() { b.SetNode(node("n1", 1)) },
		"pod":       func() { b.SetPod(pod("p", "", 200)) },
		"binding":   func() { b.SetPod(pod("p", "n1", 100)) },
		"deletion":  func() { b.DeletePod("p") },
		"namespace": func() { b.SetNamespace("x", map[string]string{"a": "b"}) },
		"unknown":   func() { b.SetUnknown(cluster.Unknown{Kind: "PersistentVolume", Problem: "forbidden"}) },
		"settings":  func() { b.SetSettings(cluster.Settings{IgnorePreferences: true}) },
		"pdb":       func() { b.SetPDB(&cluster.PDB{Namespace: "x", Name: "b", Allowed: 1}) },
		"nominated": func() { b.SetNominated(map[string]time.Time{"n1": epoch()}) },
		"daemon":    func() { b.SetDaemonSet(&cluster.DaemonSet{Name: "d", Shape: &cluster.Shape{}}) },
	}
	undo := func() {
		b.SetNode(node("n1", 0))
		b.SetPod(pod("p", "", 100))
		b.DeleteNamespace("x")
		b.DeleteUnknown("PersistentVolume", "")
		b.SetSettings(cluster.Settings{})
		b.DeleteDaemonSet("", "d")
		b.DeletePDB("x", "b")
		b.SetNominated(nil)
	}
	undo() // settings are part of the content once they were set
	first = b.Snapshot(epoch()).Digest()
	for name, change := range changes {
		change()
		if got := b.Snapshot(epoch()).Digest(); got == first {
			t.Errorf("%s: the digest did not change", name)
		}
		undo()
		if got := b.Snapshot(epoch().Add(time.Hour)).Digest(); got != first {
			t.Errorf("%s undone: digest %s, want %s", name, got, first)
		}
	}
}

func TestSelector(t *testing.T) {
	in := func(op constraint.Operator, vs ...string) *cluster.Selector {
		return &cluster.Selector{Exprs: []constraint.Expr{{Key: "app", Operator: op, Values: vs}}}
	}
	web, none := map[string]string{"app": "web"}, map[string]string{}
	tests := []struct {
		name      string
		s         *cluster.Selector
		web, none bool
	}{
		{"nil selects nothing (X6)", nil, false, false},
		{"empty selects everything", &cluster.Selector{}, true, true},
		{"labels", &cluster.Selector{MatchLabels: web}, true, false},
		{"In", in(constraint.In, "web", "db"), true, false},
		{"NotIn", in(constraint.NotIn, "web"), false, true},
		{"Exists", in(constraint.Exists), true, false},
		{"DoesNotExist", in(constraint.DoesNotExist), false, true},
	}
	for _, tt := range tests {
		if got := [2]bool{tt.s.Matches(web), tt.s.Matches(none)}; got != [2]bool{tt.web, tt.none} {
			t.Errorf("%s: %v, want %v %v", tt.name, got, tt.web, tt.none)
		}
	}
}

// The virtual pods that a pass put on nodes are replaced as a whole by the next one.
func TestBuffered(t *testing.T) {
	b := cluster.NewBuilder()
	b.SetNode(&cluster.Node{Name: "n", ProviderID: "p"})
	b.SetNode(&cluster.Node{Name: "m"})
	b.SetClaim(&cluster.Claim{Name: "c"})
	buffered := func() map[string]int {
		out := map[string]int{}
		for _, x := range b.Snapshot(time.Time{}).Targets() {
			out[x.Name] = x.Buffered
		}
		return out
	}
	empty := b.Snapshot(time.Time{}).Digest()
	b.SetBuffered(map[string]int{"n": 3, "c": 1})
	if diff := cmp.Diff(map[string]int{"n": 3, "m": 0, "c": 1}, buffered()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if b.Snapshot(time.Time{}).Digest() == empty {
		t.Error("the digest does not tell that nodes hold virtual pods")
	}
	b.SetBuffered(map[string]int{"m": 2})
	if diff := cmp.Diff(map[string]int{"n": 0, "m": 2, "c": 0}, buffered()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.SetBuffered(map[string]int{})
	if b.Snapshot(time.Time{}).Digest() != empty {
		t.Error("the digest of a cluster without virtual pods depends on those it had")
	}
}
