package pack

import (
	"cmp"
	"math"
	"slices"
)

// Effort of improving: failures in a row, and steps in all. The worst fillings are tried first, so most of the gain comes early: on 1,000 pods 10,000
// steps (about 10 ms) take a third to two thirds of what is lost to rounding.
const (
	maxFailures  = 12
	improveSteps = 10000
	// negligible is the part of the price for which no further search is worth its time.
	negligible = 0.001
)

// improve takes the fillings that lose most, by what their pods are worth, and packs their pods again, with other ways to round, until that brings
// nothing for some time.
func (p *packing) improve(out []filling) []filling {
	if len(p.values) == 0 || slices.ContainsFunc(p.demand, func(n int32) bool { return n > 0 }) {
		return out
	}
	var list []lossy
	lost, paid := 0.0, 0.0
	for _, f := range out {
		for range f.copies {
			list = append(list, lossy{filling{f.column, 1}, p.loss(&f)})
			lost, paid = lost+p.loss(&f), paid+f.price
		}
	}
	if lost < negligible*paid {
		return out
	}
	most := func(a, b lossy) int { return cmp.Compare(b.loss, a.loss) }
	slices.SortStableFunc(list, most)
	start, failed, better := p.steps, 0, false
	for failed < maxFailures && p.steps-start < improveSteps && !p.spent() {
		from, size := failed/3, []int{4, 7, 11}[failed%3]
		from = min(from, max(0, len(list)-size))
		to := min(len(list), from+size)
		p.nearly = []float64{0.7, 0.5, 0.85}[failed%3]
		again, ok := p.again(list[from:to])
		if !ok {
			failed++
			continue
		}
		list, failed = append(slices.Delete(list, from, to), again...), 0
		better = true
		slices.SortStableFunc(list, most)
	}
	if !better {
		return out
	}
	out = out[:0]
	for _, f := range list {
		out = append(out, f.filling)
	}
	return out
}

// lossy is a filling with what it costs beyond what its pods are worth.
type lossy struct {
	filling
	loss float64
}

func (p *packing) loss(f *filling) float64 {
	v := f.price
	for k, i := range f.items {
		v -= float64(p.values[i] * float64(f.counts[k]))
	}
	return v
}

// again packs the pods of some fillings anew; ok tells that this costs less.
func (p *packing) again(some []lossy) (out []lossy, ok bool) {
	before, columns := 0.0, len(p.columns)
	for i := range p.demand {
		p.demand[i] = 0
	}
	for _, f := range some {
		before += f.price
		for k, i := range f.items {
			p.demand[i] += f.counts[k]
		}
	}
	for i, x := range p.items {
		p.sack.cap[i] = min(p.demand[i], int32(min(x.perNode, math.MaxInt32)))
	}
	after := 0.0
	for _, f := range p.dive(p.laterRounds()) {
		after += f.price * float64(f.copies)
		for range f.copies {
			out = append(out, lossy{filling{f.column, 1}, p.loss(&f)})
		}
	}
	p.columns = p.columns[:columns] // they suit these few pods only
	return out, after < before-1e-7 && !slices.ContainsFunc(p.demand, func(n int32) bool { return n > 0 })
}
