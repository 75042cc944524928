package rounds

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/units"
	"github.com/karp-sh/karp/test/bench/workload"
)

// Packed is the workload after its pending pods have got the nodes that the engine plans for them, none larger than maxCPU if that is not 0: a
// cluster in which little is left to gain.
func Packed(w *workload.Workload, types *catalog.Catalog, maxCPU int) (*workload.Workload, error) {
	small := *w
	if maxCPU > 0 {
		small.NodePool.MaxCPU = maxCPU
	}
	o, err := small.Objects(types)
	if err != nil {
		return nil, err
	}
	s := o.Build().Snapshot(workload.Epoch())
	p := engine.Decide(s, engine.Policy{})
	if len(p.Verdicts) > 0 {
		return nil, fmt.Errorf("%d pods have no place", len(p.Verdicts))
	}
	at, deployment := map[string]int{}, map[string]int{}
	for i := range w.Deployments {
		at[w.Deployments[i].Name] = i
	}
	for _, pod := range s.Pods {
		deployment[pod.UID] = at[pod.Labels["app"]]
	}
	out := small
	out.Deployments = slices.Clone(w.Deployments)
	for i := range out.Deployments {
		out.Deployments[i].Replicas = 0
	}
	for i, c := range p.Claims {
		counts := make([]int, len(w.Deployments))
		for _, uid := range c.Pods {
			counts[deployment[uid]]++
		}
		out.Nodes = append(out.Nodes, nodeOf(i, c.CheapestType, c.CheapestZone, c.CheapestBuyAs, counts))
	}
	return &out, nil
}

func nodeOf(i int, kind, zone, ct string, counts []int) workload.Node {
	n := workload.Node{Name: fmt.Sprintf("p%05d", i), Type: kind, Zone: zone, CT: ct}
	for d, k := range counts {
		if k > 0 {
			n.Pods = append(n.Pods, [2]int{d, k})
		}
	}
	return n
}

// Giants is the workload after its pending pods have been put, the largest first, into as few nodes as possible: each is filled until no type
// holds one more pod, and is then bought on demand as the cheapest type that holds it.
func Giants(w *workload.Workload, types *catalog.Catalog) *workload.Workload {
	offers := types.Narrow(types.Available(), constraint.Parse(w.Pool(types).Requirements), nil)
	if od := types.Satisfying(constraint.NewIn(constraint.CapacityTypeKey, catalog.OnDemand)); od != nil {
		offers.InPlaceIntersection(od)
	}
	var bins []bin
	for v, i := range types.VariantsByPrice(offers) {
		_, o := types.Offer(i)
		a := types.Variants()[v].Allocatable
		bins = append(bins, bin{types.Types()[types.Variants()[v].Type].Name, o.Zone, [3]int64{a[units.CPU], a[units.Memory], a[units.Pods]}})
	}
	out := *w
	out.Deployments = slices.Clone(w.Deployments)
	order := make([]int, len(w.Deployments))
	for i := range order {
		order[i], out.Deployments[i].Replicas = i, 0
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(w.Deployments[b].CPU, w.Deployments[a].CPU), cmp.Compare(w.Deployments[b].MemMiB, w.Deployments[a].MemMiB))
	})
	left := make([]int, len(w.Deployments))
	for i, d := range w.Deployments {
		left[i] = d.Replicas
	}
	for {
		counts, used := make([]int, len(left)), [3]int64{}
		for _, d := range order {
			for left[d] > 0 {
				next := [3]int64{used[0] + w.Deployments[d].CPU, used[1] + w.Deployments[d].MemMiB<<20, used[2] + 1}
				if holder(bins, next) < 0 {
					break
				}
				used = next
				left[d]--
				counts[d]++
			}
		}
		i := holder(bins, used)
		if used[2] == 0 || i < 0 {
			return &out
		}
		out.Nodes = append(out.Nodes, nodeOf(len(out.Nodes), bins[i].name, bins[i].zone, catalog.OnDemand, counts))
	}
}

type bin struct {
	name, zone string
	free       [3]int64
}

// holder is the cheapest type that holds an amount, -1 if there is none.
func holder(bins []bin, used [3]int64) int {
	return slices.IndexFunc(bins, func(b bin) bool { return used[0] <= b.free[0] && used[1] <= b.free[1] && used[2] <= b.free[2] })
}

// Times is the workload with all of its nodes n times.
func Times(w *workload.Workload, n int) *workload.Workload {
	out := *w
	out.Nodes = nil
	for i := range n {
		for _, x := range w.Nodes {
			x.Name = fmt.Sprintf("%s-%d", x.Name, i)
			out.Nodes = append(out.Nodes, x)
		}
	}
	return &out
}
