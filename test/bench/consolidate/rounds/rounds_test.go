package rounds_test

import (
	"fmt"
	"testing"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/test/bench/consolidate/rounds"
	"github.com/karp-sh/karp/test/bench/workload"
)

func types(tb testing.TB) *catalog.Catalog {
	list, err := workload.Types([]string{"z-a", "z-b", "z-c"}).InstanceTypes()
	if err != nil {
		tb.Fatal(err)
	}
	return catalog.New(list)
}

// halfEmpty is so many nodes of one type, each with two pods of deployments that take turns.
func halfEmpty(nodes int, prefer int32) *workload.Workload {
	w := workload.Generate(workload.Homogeneous, 1, 1, []string{"m5i.2xlarge"}, []string{"z-a", "z-b", "z-c"})
	w.Name, w.Deployments, w.NodePool.CapacityTypes = "half-empty", nil, []string{catalog.OnDemand}
	for i := range 10 {
		w.Deployments = append(w.Deployments, workload.Deployment{Name: fmt.Sprintf("d%d", i), CPU: 1700, MemMiB: 3000, PreferApart: prefer})
	}
	w.Nodes = nil
	for i := range nodes {
		w.Nodes = append(w.Nodes, workload.Node{Name: fmt.Sprintf("n%02d", i), Type: "m5i.2xlarge", Zone: []string{"z-a", "z-b", "z-c"}[i%3], CT: catalog.OnDemand,
			Pods: [][2]int{{i % 10, 1}, {(i + 5) % 10, 1}}})
	}
	return w
}

// Fifty half-empty nodes whose pods prefer to be apart are consolidated without two equal pods on a node.
func TestHalfEmptyWithPreferences(t *testing.T) {
	for _, prefer := range []int32{0, 1} {
		w := halfEmpty(50, prefer)
		c, err := rounds.New(w, types(t), cluster.Budget{Nodes: "10%"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Play(40, nil)
		if err != nil {
			t.Fatal(err)
		}
		bound := c.Bound(w)
		t.Logf("preference %d: %.3f -> %.3f $/h, bound %.3f, %d nodes, %d rounds, %d pods moved", prefer, r.Before, r.After, bound, r.Nodes, len(r.Rounds), r.Moved)
		if !r.Converged || r.Rejected > 0 || r.After > bound*1.15 {
			t.Errorf("preference %d: converged %v in %d rounds, %d commands refused, %.3f $/h with a bound of %.3f", prefer, r.Converged, len(r.Rounds), r.Rejected, r.After, bound)
		}
		if bad := c.Overfull(); len(bad) > 0 {
			t.Errorf("nodes hold more than they can: %v", bad)
		}
		if prefer == 0 {
			continue
		}
		for _, target := range c.Snapshot().Targets() {
			for _, g := range target.Residents {
				if len(g.Pods) > 1 {
					t.Errorf("node %s has %d pods of one deployment", target.Name, len(g.Pods))
				}
			}
		}
	}
}

// Never are more nodes of the pool on their way out than the budget says, and a cluster near its bound is left alone.
func TestRoundsKeepBudget(t *testing.T) {
	w := halfEmpty(30, 0)
	c, err := rounds.New(w, types(t), cluster.Budget{Nodes: "2"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Play(40, func(x rounds.Round) {
		if x.Removed > 2 {
			t.Errorf("a pass removes %d nodes with a budget of 2", x.Removed)
		}
	})
	if err != nil || !r.Converged {
		t.Fatalf("converged %v, %v", r.Converged, err)
	}
	packed, err := rounds.Packed(workload.Generate(workload.Heterogeneous, 2000, 1, []string{"m5i.2xlarge"}, []string{"z-a", "z-b", "z-c"}), types(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rounds.New(packed, types(t))
	if err != nil {
		t.Fatal(err)
	}
	if cost, bound := p.Cost(), p.Bound(packed); cost < bound*1.01 {
		if again, err := p.Play(1, nil); err != nil || len(again.Rounds) > 0 {
			t.Errorf("a cluster at %.4f of its bound is touched: %+v, %v", cost/bound, again.Rounds, err)
		}
	}
}
