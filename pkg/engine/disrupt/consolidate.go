package disrupt

import (
	"slices"

	"github.com/karp-sh/karp/pkg/plan"
)

// consolidate looks for the cheapest cluster that the candidates' pods can be moved into.
func (d *decision) consolidate(eligible []*node, single bool) {
	purse, held := d.purse(plan.MultiNode.Reason()), false
	for _, n := range slices.SortedFunc(slices.Values(eligible), byRatio) {
		if purse[n.pool.Name] == 0 {
			held = true
			continue
		}
		c, no := d.deal(d.simulate(d.s, []*node{n}, d.closed()))
		if no.code == "" {
			d.out.Commands = []plan.Command{c}
			return
		}
	}
	if !held {
		d.exhausted()
	}
}
