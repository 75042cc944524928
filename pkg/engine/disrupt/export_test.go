package disrupt

import (
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

// Judge scores a move of nodes that saves so much.
func Judge(s *cluster.Snapshot, saving units.Money, names ...string) ([]plan.Score, bool) {
	d := decisionOn(s)
	var set []*node
	for _, n := range d.nodes {
		for _, name := range names {
			if n.Name == name {
				set = append(set, n)
			}
		}
	}
	return d.judge(set, saving)
}

// Hopeless is the pre-filter for a single node.
func Hopeless(s *cluster.Snapshot, name string) bool {
	d := decisionOn(s)
	for _, n := range d.nodes {
		if n.Name == name {
			return d.hopeless(n)
		}
	}
	return false
}

// Order lists the candidates by the order of the specification, with their disruption costs.
func Order(s *cluster.Snapshot) (names []string, costs []float64) {
	d := decisionOn(s)
	for _, n := range slices.SortedFunc(slices.Values(d.nodes), byRatio) {
		names, costs = append(names, n.Name), append(costs, n.cost)
	}
	return names, costs
}

func decisionOn(s *cluster.Snapshot) *decision {
	out := &plan.Disruption{}
	return &decision{survey: look(s, &out.Steps), out: out}
}
