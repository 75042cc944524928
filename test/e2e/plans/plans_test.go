// Package plans_test has the real kube-scheduler bind what karp plans: a plan is worth what the scheduler makes of it.
//
// Generated clusters (see test/bench/workload) are put on a sandbox, karp decides, and nodes as planned arrive one by one in random order.
// With placement hints the agent's nominations are written as it writes them. For pods that stay pending karp decides again, until
// none is left. The test prints how many pods went where they were planned, how many nodes it took beyond the plan, and the price.
//
// It takes minutes, so it runs only with the flag -plans.
package plans_test

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/test/bench/workload"
	"github.com/karp-sh/karp/test/cluster"
	"github.com/karp-sh/karp/test/cluster/control"
)

var (
	enabled = flag.Bool("plans", false, "bind plans by the real scheduler (minutes)")
	pods    = flag.Int("pods", 1000, "pending pods of each workload")
	seed    = flag.Uint64("seed", 1, "of the workloads and of the order of everything")
)

// most is how far above the plan's price a cluster may end.
const most = 1.03

func TestPlansAreBound(t *testing.T) {
	if !*enabled {
		t.Skip("takes minutes: run make plans")
	}
	zones := []string{"z-a", "z-b", "z-c"}
	types, err := workload.Types(zones).InstanceTypes()
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{Components: []string{control.Etcd, control.APIServer, control.ControllerManager, control.Scheduler, control.Kwok}})
	cat := catalog.New(types)
	for _, kind := range []workload.Kind{workload.Homogeneous, workload.Heterogeneous, workload.Constrained, workload.Existing} {
		for _, hints := range []bool{true, false} {
			name := string(kind) + "/hints"
			if !hints {
				name = string(kind) + "/no hints"
			}
			t.Run(name, func(t *testing.T) {
				w := workload.Generate(kind, *pods, *seed, []string{"m5i.2xlarge", "c6a.4xlarge", "r4i.xlarge"}, zones)
				g := newStage(t, c, cat, w, hints, rand.New(rand.NewPCG(*seed, uint64(len(name)))))
				r := g.play()
				t.Logf("%d pods, %d bound as planned; %d nodes planned, %d more in %d rounds; %.3f $/h planned, %.3f in the end (%.4f of the plan, %.4f of the lower bound %.3f)",
					r.pods, r.asPlanned, r.planned, r.added, r.rounds, r.plan, r.end, r.end/r.plan, r.end/cmp.Or(r.bound, r.end), r.bound)
				if r.pending > 0 {
					t.Errorf("%d pods are left pending", r.pending)
				}
				if hints && (r.asPlanned < r.pods || r.added > 0) {
					t.Errorf("with hints %d of %d pods went where they were planned and %d nodes were added; want all, and none", r.asPlanned, r.pods, r.added)
				}
				if r.end > most*r.plan {
					t.Errorf("the cluster costs %.3f $/h, %.4f times the plan; want at most %.2f", r.end, r.end/r.plan, most)
				}
			})
		}
	}
}
