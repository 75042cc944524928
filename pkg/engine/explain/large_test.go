package explain_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/units"
)

const mi = 1 << 20

// large is a cluster of the size the plugin's speed targets name: 1,000 nodes and 20,000 pods, on the whole catalogue of a region.
func large(tb testing.TB, nodes, perNode, pending int) *cluster.Snapshot {
	tb.Helper()
	data, err := ec2data.Load()
	if err != nil {
		tb.Fatal(err)
	}
	types, err := ec2types.Offline(data, ec2types.Settings{Region: "us-east-1", MemoryOverhead: 0.075}, &ec2types.Class{Family: "AL2023"})
	if err != nil {
		tb.Fatal(err)
	}
	cat := catalog.New(types)
	b := cluster.NewBuilder()
	b.SetNamespace("app", nil)
	class := &cluster.Class{Name: "std", Ready: true}
	for _, name := range []string{"default", "batch", "payments", "gpu", "ingress"} {
		b.SetPool(&cluster.Pool{
			Name: name, UID: name, Ready: true, Class: class, NodeClass: cluster.ClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "std"}, Catalog: cat,
			Requirements: []constraint.Expr{
				{Key: constraint.CapacityTypeKey, Operator: constraint.In, Values: []string{"on-demand"}},
				{Key: constraint.ArchKey, Operator: constraint.In, Values: []string{"amd64"}},
				{Key: constraint.OSKey, Operator: constraint.In, Values: []string{"linux"}},
			},
		})
	}
	shape := cluster.NewShape(cluster.Shape{Namespace: "app", Requests: units.List{units.CPU: 100, units.Memory: 256 * mi, units.Pods: 1}})
	zones := []string{"us-east-1a", "us-east-1b", "us-east-1c"}
	for i := range nodes {
		name, provider := fmt.Sprintf("n%d", i), fmt.Sprintf("aws:///z/i-%d", i)
		labels := map[string]string{
			constraint.NodePoolKey: "default", constraint.ZoneKey: zones[i%3], constraint.InstanceTypeKey: "m5.large", constraint.CapacityTypeKey: "on-demand",
			constraint.RegisteredKey: "true", constraint.InitializedKey: "true",
		}
		size := units.List{units.CPU: 2000, units.Memory: 7000 * mi, units.Pods: 29}
		b.SetNode(&cluster.Node{Name: name, UID: name, ProviderID: provider, Labels: labels, Capacity: size, Allocatable: size, Ready: true})
		b.SetClaim(&cluster.Claim{Name: name, UID: name, ProviderID: provider, Pool: "default", Labels: labels, Launched: true, Registered: true, Initialized: true})
		for j := range perNode {
			uid := fmt.Sprintf("%d-%d", i, j)
			b.SetPod(&cluster.Pod{UID: uid, Namespace: "app", Name: "p" + uid, Shape: shape, Node: name, Phase: "Running", Ready: true, Labels: map[string]string{"app": "web"}})
		}
	}
	wants := cluster.NewShape(cluster.Shape{
		Namespace: "app", Requests: units.List{units.CPU: 1900, units.Memory: 256 * mi, units.Pods: 1}, NodeSelector: map[string]string{"workload": "batch"},
	})
	for i := range pending {
		uid := fmt.Sprintf("pending-%d", i)
		b.SetPod(&cluster.Pod{UID: uid, Namespace: "app", Name: uid, Shape: wants, Phase: "Pending", Scheduled: "Unschedulable"})
	}
	return b.Snapshot(time.Date(2026, 9, 8, 12, 20, 0, 0, time.UTC))
}

func pendingPods(s *cluster.Snapshot) []explain.Question {
	var out []explain.Question
	for _, g := range s.Unbound() {
		for _, p := range g.Pods {
			out = append(out, explain.Question{Pod: p})
		}
	}
	return out
}

func BenchmarkWhyPending(b *testing.B) {
	s := large(b, 1000, 20, 1)
	q := pendingPods(s)[0]
	for b.Loop() {
		explain.WhyPending(s, engine.Policy{}, explain.Facts{}, q)
	}
}
