package pack

import (
	"cmp"
	"math"
	"slices"
)

// Effort of column generation: rounds of new columns for the whole demand, the gap to the bound at which it is enough, and how many new columns
// of a market are kept a round.
const (
	firstRounds = 40
	goodGap     = 0.004
	perMarket   = 10
)

// laterRounds is how many rounds of new columns what rounding leaves is worth. Each market costs a search of its own.
func (p *packing) laterRounds() int {
	if len(p.markets) > 2 {
		return 3
	}
	return 6
}

// singles returns for every item the cheapest column that holds nothing else.
func (p *packing) singles() []column {
	out := make([]column, len(p.items))
	d := len(p.dims)
	for m := range p.markets {
		for _, i := range p.markets[m].items {
			if p.demand[i] == 0 {
				continue
			}
			size := p.sack.size[int(i)*d : int(i)*d+d]
			for b := range p.markets[m].bins {
				bin := &p.markets[m].bins[b]
				k := int64(max(p.sack.cap[i], 1))
				for r, s := range size {
					if s > 0 {
						k = min(k, bin.free[r]/s)
					}
				}
				if k > 0 && (out[i].price == 0 || bin.price*float64(out[i].counts[0]) < out[i].price*float64(k)) {
					out[i] = column{items: []int32{i}, counts: []int32{int32(k)}, price: bin.price, market: m, bin: b}
				}
			}
		}
	}
	return out
}

// relax solves the linear program over the current demand and returns it; the next call uses it again.
func (p *packing) relax(rounds int) *master {
	demand := make([]float64, len(p.items))
	for i, n := range p.demand {
		if n > 0 {
			// A trifle more, different for each item, keeps the simplex method from going in circles where many columns are equally good.
			demand[i] = float64(n) + 1e-5*float64(1+i*7919%1009)
		}
	}
	first := p.singles()
	for i := range first {
		if first[i].price == 0 && p.demand[i] > 0 { // nothing holds it, which the caller has excluded; make it unattractive
			first[i] = column{items: []int32{int32(i)}, counts: []int32{1}, price: 1e6, market: -1}
		}
	}
	lp := &p.lp
	lp.reset(demand, first)
	for i := range p.columns {
		if p.within(&p.columns[i]) {
			lp.columns = append(lp.columns, p.columns[i])
		}
	}
	p.rates()
	for range rounds {
		lp.solve(20 * len(p.items))
		p.steps += int64(lp.pivots)
		if !p.generate(lp) {
			break
		}
	}
	lp.solve(20 * len(p.items))
	return lp
}

// within reports whether demand and caps leave room for all of the column.
func (p *packing) within(c *column) bool {
	for k, i := range c.items {
		if c.counts[k] > p.sack.cap[i] {
			return false
		}
	}
	return true
}

// generate adds the columns that promise most at the current duals; it returns false when there is nothing worth adding.
func (p *packing) generate(lp *master) bool {
	p.sack.value = lp.duals
	worst := 1.0
	added := 0
	type found struct {
		ratio float64
		c     column
	}
	for m := range p.markets {
		mk := &p.markets[m]
		p.sack.prepare(mk, p.weights)
		if len(p.sack.orders[0]) == 0 {
			continue
		}
		quick := p.ranked(mk)
		var list []found
		for _, b := range quick {
			bin := &mk.bins[b]
			v := p.sack.fill(bin)
			v = p.sack.balance(bin, v, 1)
			v = p.sack.balance(bin, v, 3)
			p.steps++
			if ratio := v / bin.price; ratio > 1+1e-5 {
				list = append(list, found{ratio, p.sack.column(p.sack.orders[0], m, b, bin.price)})
				worst = math.Max(worst, ratio)
			}
		}
		slices.SortStableFunc(list, func(a, b found) int { return cmp.Compare(b.ratio, a.ratio) })
		for _, f := range list[:min(len(list), perMarket)] {
			p.columns = append(p.columns, f.c)
			lp.columns = append(lp.columns, f.c)
			added++
		}
	}
	return added > 0 && worst > 1+goodGap
}

// prices returns what one more pod of each item costs.
func (p *packing) prices() []float64 {
	if len(p.markets) == 0 {
		return make([]float64, len(p.items))
	}
	return slices.Clone(p.relax(firstRounds).duals)
}

// solve returns the columns to buy, in the order in which they were decided.
func (p *packing) solve() []filling {
	out := p.dive(firstRounds)
	return p.improve(out)
}

// dive relaxes, buys what rounding suggests, and does so again with what is left.
func (p *packing) dive(rounds int) []filling {
	var out []filling
	for len(p.markets) > 0 && slices.ContainsFunc(p.demand, func(n int32) bool { return n > 0 }) && !p.spent() {
		lp := p.relax(rounds)
		if p.values == nil {
			p.values = slices.Clone(lp.duals)
		}
		rounds = p.laterRounds()
		bought := p.round(lp)
		if len(bought) == 0 {
			break
		}
		out = append(out, bought...)
	}
	return out
}

// round buys the whole part of the solution and what is nearly whole; if there is neither, the column that is bought most.
func (p *packing) round(lp *master) []filling {
	type part struct {
		c *column
		x float64
	}
	var parts []part
	for r, j := range lp.basis {
		if j >= 0 && lp.columns[j].market >= 0 && lp.x[r] > 1e-6 {
			parts = append(parts, part{&lp.columns[j], lp.x[r]})
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.x, a.x) })
	var out []filling
	for i := range parts {
		if n := p.buyable(parts[i].c, int(parts[i].x+1e-6)); n > 0 {
			out = append(out, p.buy(parts[i].c, n))
			parts[i].x -= float64(n)
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.x, a.x) })
	for i, x := range parts {
		if (x.x > p.nearly || len(out) == 0 && i == 0) && p.buyable(x.c, 1) > 0 {
			out = append(out, p.buy(x.c, 1))
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, x := range parts {
		if p.buyable(x.c, 1) > 0 {
			return []filling{p.buy(x.c, 1)}
		}
	}
	return nil
}

// buyable is how often, at most n times, the column fits into the demand.
func (p *packing) buyable(c *column, n int) int {
	for k, i := range c.items {
		n = min(n, int(p.demand[i]/c.counts[k]))
	}
	return n
}

func (p *packing) buy(c *column, n int) filling {
	for k, i := range c.items {
		p.demand[i] -= c.counts[k] * int32(n)
		p.sack.cap[i] = min(p.sack.cap[i], p.demand[i])
	}
	return filling{*c, n}
}

// promising is how many bins of a market are packed with care in one round.
const promising = 24

// ranked returns the bins of a market that the quick fillings make look best.
func (p *packing) ranked(mk *market) []int {
	ratio := make([]float64, len(mk.bins))
	order := make([]int, len(mk.bins))
	for b := range mk.bins {
		ratio[b], order[b] = p.sack.fill(&mk.bins[b])/mk.bins[b].price, b
		p.steps++
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ratio[b], ratio[a]) })
	return order[:min(len(order), promising)]
}

// rates sets the price of resources: the dearest per-unit prices at which no bin would cost less than what it holds, for the mix that is wanted. It is
// the dual of the linear program in which pods are fluid, found by trying splits between the first two resources.
func (p *packing) rates() {
	d := len(p.dims)
	total := make([]float64, d)
	for i, n := range p.demand {
		for r := range d {
			total[r] += float64(float64(n) * float64(p.sack.size[i*d+r]))
		}
	}
	best := -1.0
	for step := 0; step <= 100; step++ {
		part := float64(step) / 100
		w := make([]float64, d)
		for r := range min(d, 2) {
			share := part
			if r == 1 {
				share = 1 - part
			}
			w[r] = share / math.Max(total[r], 1)
		}
		scale := math.Inf(1)
		for _, m := range p.markets {
			for _, b := range m.bins {
				v := 0.0
				for r := range min(d, 2) {
					v += float64(w[r] * float64(b.free[r]))
				}
				if v > 0 && b.price/v < scale {
					scale = b.price / v
				}
			}
		}
		if scale > best && !math.IsInf(scale, 1) {
			best = scale
			for r := range d {
				p.sack.rate[r] = w[r] * scale
			}
		}
	}
	p.sack.setBulk()
}
