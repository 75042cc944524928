package disrupt

import (
	"math"
	"math/bits"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/units"
)

// values says what pods are worth: what the CPU and memory they ask for costs at the best prices that new nodes have. Pools whose pods can meet form a
// region with prices of its own; nodes of different regions have nothing to do with each other.
//
// The prices are the dual of the linear program in which the region's pods are fluid: no new node costs less than what it holds, so nothing can run
// the pods for less than their worth.
type values struct {
	model   *fit.Model
	region  []int // by template, the first template of its region
	masks   map[*cluster.Shape]uint64
	rates   map[int][2]float64 // dollars an hour for a millicore and a byte, by region
	typical map[int][2]float64 // half of what the average pod asks for, by region
	worth   map[*node]float64  // of the pods that would move
	volume  map[*node]float64  // of all that the node could hold of such pods
	regions map[*node]int
}

// nowhere is the region of nodes whose pods no new node could hold.
const nowhere = -1

func (v *survey) appraise(nodes []*node) *values {
	x := &values{model: fit.New(v.s), masks: map[*cluster.Shape]uint64{}, rates: map[int][2]float64{}, typical: map[int][2]float64{}, worth: map[*node]float64{},
		volume: map[*node]float64{}, regions: map[*node]int{}}
	for i := range x.model.Templates {
		x.region = append(x.region, i)
	}
	for _, n := range nodes {
		x.join(n)
	}
	need, count := map[int][2]float64{}, map[int]float64{}
	for _, n := range nodes {
		r := x.regionOf(n)
		x.regions[n] = r
		sum := need[r]
		for _, p := range n.moving {
			sum[0] += float64(p.Shape.Requests[units.CPU])
			sum[1] += float64(p.Shape.Requests[units.Memory])
		}
		need[r] = sum
		count[r] += float64(len(n.moving))
	}
	for r, sum := range need {
		if r == nowhere {
			continue
		}
		x.rates[r] = x.price(r, sum)
		pods := math.Max(2*count[r], 1)
		x.typical[r] = [2]float64{sum[0] / pods, sum[1] / pods}
	}
	for _, n := range nodes {
		rate := x.rates[x.regions[n]]
		asked := movingRequests(n)
		x.worth[n] = at(rate, asked)
		x.volume[n] = at(rate, n.Allocatable.Sub(n.Used).Add(asked))
	}
	*v.steps += int64(len(nodes) + 100*len(need))
	return x
}

func at(rate [2]float64, l units.List) float64 {
	return float64(rate[0]*float64(max(l[units.CPU], 0))) + float64(rate[1]*float64(max(l[units.Memory], 0)))
}

func movingRequests(n *node) units.List {
	out := units.List{}
	for _, p := range n.moving {
		for k, q := range p.Shape.Requests {
			out[k] += q
		}
	}
	return out
}

// mask tells which templates a pod can get a new node from, as bits; beyond 64 templates they all count as one region.
func (x *values) mask(s *cluster.Shape) uint64 {
	m, ok := x.masks[s]
	if ok {
		return m
	}
	spec := &fit.Spec{Full: constraint.FromLabels(s.NodeSelector), Tolerations: s.Tolerations}
	for i, t := range x.model.Templates {
		ok := false
		for k := 0; k == 0 || k < len(s.Required); k++ {
			alternative := *spec
			if k < len(s.Required) {
				alternative.Full = spec.Full.And(constraint.Parse(s.Required[k].Exprs))
			}
			if _, _, _, opens := t.Open(&alternative); opens {
				ok = true
				break
			}
		}
		if ok {
			m |= 1 << min(i, 63)
		}
	}
	x.masks[s] = m
	return m
}

// join unites the templates that a node's pods can use.
func (x *values) join(n *node) {
	var all uint64
	for _, p := range n.moving {
		all |= x.mask(p.Shape)
	}
	first := nowhere
	for ; all != 0; all &= all - 1 {
		i := min(bits.TrailingZeros64(all), len(x.region)-1)
		if first == nowhere {
			first = x.root(i)
			continue
		}
		if r := x.root(i); r != first {
			x.region[max(r, first)] = min(r, first)
			first = min(r, first)
		}
	}
}

func (x *values) root(i int) int {
	for x.region[i] != i {
		i = x.region[i]
	}
	return i
}

func (x *values) regionOf(n *node) int {
	for _, p := range n.moving {
		if m := x.mask(p.Shape); m != 0 {
			return x.root(min(bits.TrailingZeros64(m), len(x.region)-1))
		}
	}
	return nowhere
}

// pricePrecision is the number of splits between CPU and memory that are tried.
const pricePrecision = 200

// price finds the dearest prices of CPU and memory at which no node of the region's templates costs less than what it holds, for the mix that is
// needed.
func (x *values) price(region int, need [2]float64) [2]float64 {
	type bin struct{ cpu, memory, price float64 }
	var bins []bin
	cpu, _ := x.model.Axis.Index(units.CPU)
	memory, _ := x.model.Axis.Index(units.Memory)
	for i, t := range x.model.Templates {
		if x.root(i) != region {
			continue
		}
		for variant, offer := range t.Catalog.VariantsByPrice(t.Offers) {
			_, o := t.Catalog.Offer(offer)
			f := t.Free[variant]
			bins = append(bins, bin{float64(f[cpu]), float64(f[memory]), o.Price.Dollars()})
		}
	}
	var rate [2]float64
	best := 0.0
	for step := 0; step <= pricePrecision; step++ {
		split := float64(step) / pricePrecision
		a, b := split/math.Max(need[0], 1), (1-split)/math.Max(need[1], 1)
		scale := math.Inf(1)
		for i := range bins {
			if held := float64(a*bins[i].cpu) + float64(b*bins[i].memory); held > 0 && bins[i].price < float64(scale*held) {
				scale = bins[i].price / held
			}
		}
		if !math.IsInf(scale, 1) && scale > best {
			best, rate = scale, [2]float64{float64(a * scale), float64(b * scale)}
		}
	}
	return rate
}

// free is what the room that is left on a target would be worth.
func (x *values) free(region int, t *cluster.Target) float64 {
	return at(x.rates[region], left(t))
}

func left(t *cluster.Target) units.List {
	return units.List{units.CPU: t.Allocatable[units.CPU] - t.Used[units.CPU], units.Memory: t.Allocatable[units.Memory] - t.Used[units.Memory]}
}

// usable is what of the room that is left on a target pods could really use: as many halves of an average pod as fit.
func (x *values) usable(region int, t *cluster.Target) float64 {
	room, half := left(t), x.typical[region]
	n := math.MaxFloat64
	for i, k := range []string{units.CPU, units.Memory} {
		if half[i] > 0 {
			n = math.Min(n, math.Floor(float64(max(room[k], 0))/half[i]))
		}
	}
	if n == math.MaxFloat64 {
		return 0
	}
	rate := x.rates[region]
	return float64(n * (float64(rate[0]*half[0]) + float64(rate[1]*half[1])))
}

// excess is what a node costs beyond what its pods are worth.
func (x *values) excess(n *node) float64 { return n.price.Dollars() - x.worth[n] }

// poor tells that even a full node of this kind would cost notably more than the best that can be bought.
func (x *values) poor(n *node, margin float64) bool {
	return x.regions[n] != nowhere && x.volume[n] < float64(n.price.Dollars()*(1-margin))
}
