package workload

import (
	"math"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// FluidBound is a lower bound on the price of the pending pods: the cost of their CPU and memory, beyond what is free on the nodes, if they could be
// cut at will. It is the dual of a linear program of two rows, searched over the split of value between them, and so never too high.
func (w *Workload) FluidBound(c *catalog.Catalog) float64 {
	var need [2]float64
	for _, d := range w.Deployments {
		need[0] += float64(d.CPU) * float64(d.Replicas)
		need[1] += float64(d.MemMiB<<20) * float64(d.Replicas)
	}
	for _, n := range w.Nodes {
		for i := range c.Types() {
			if t := &c.Types()[i]; t.Name == n.Type {
				free := t.Allocatable()
				for _, p := range n.Pods {
					free = free.Sub(units.List{units.CPU: w.Deployments[p[0]].CPU * int64(p[1]), units.Memory: w.Deployments[p[0]].MemMiB << 20 * int64(p[1])})
				}
				need[0] -= float64(free[units.CPU])
				need[1] -= float64(free[units.Memory])
			}
		}
	}
	need[0], need[1] = max(need[0], 0), max(need[1], 0)
	offers := c.Narrow(c.Available(), constraint.Parse(w.Pool(c).Requirements), nil)
	best := 0.0
	for step := range 1001 {
		split := float64(step) / 1000
		x, y := split/max(need[0], 1), (1-split)/max(need[1], 1)
		scale := math.Inf(1)
		for v, i := range c.VariantsByPrice(offers) {
			_, o := c.Offer(i)
			a := c.Variants()[v].Allocatable
			scale = min(scale, o.Price.Dollars()/(x*float64(a[units.CPU])+y*float64(a[units.Memory])))
		}
		if value := scale * (x*need[0] + y*need[1]); value > best {
			best = value
		}
	}
	return best
}
