package rounds

import (
	"cmp"
	"maps"
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/engine/pack"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

// Prefix is one pass of the search to compare with: nodes in one order, dearest for the least disruption first; of its prefixes the longest that a
// binary search finds to be removable for at most one new node that is cheaper; else the first single node. At most limit nodes go. Packing is the
// engine's.
func (c *Cluster) Prefix(limit int) []plan.Command {
	s := c.Snapshot()
	var list []*cluster.Target
	for _, t := range s.Targets() {
		if t.Node != nil && t.Claim != nil && pods(t) > 0 {
			list = append(list, t)
		}
	}
	ratio := func(t *cluster.Target) float64 { return c.price(t.Node).Dollars() / float64(1+pods(t)) }
	slices.SortFunc(list, func(a, b *cluster.Target) int {
		return cmp.Or(cmp.Compare(ratio(b), ratio(a)), cmp.Compare(a.Name, b.Name))
	})
	kept := list[:min(len(list), limit)]
	var best *plan.Command
	low, high := 2, min(len(kept), 100)
	for low <= high {
		mid := (low + high) / 2
		if x := c.valid(s, kept[:mid]); x != nil {
			best, low = x, mid+1
		} else {
			high = mid - 1
		}
	}
	for i := 0; best == nil && i < len(list); i++ {
		best = c.valid(s, list[i:i+1])
	}
	if best == nil {
		return nil
	}
	return []plan.Command{*best}
}

func pods(t *cluster.Target) int {
	n := 0
	for _, g := range t.Residents {
		n += len(g.Pods)
	}
	return n
}

// valid is the command that removes a set of nodes, nil if it needs several new nodes or one that is not cheaper or of a type that is there.
func (c *Cluster) valid(s *cluster.Snapshot, set []*cluster.Target) *plan.Command {
	out := plan.Command{}
	names, total := map[string]bool{}, units.Money(0)
	least := map[string]units.Money{}
	for _, t := range set {
		names[t.Name] = true
		price := c.price(t.Node)
		total += price
		least[t.Labels[constraint.InstanceTypeKey]] = price
		k := plan.Candidate{Node: t.Node.Name, Claim: t.Claim.Name}
		for _, g := range t.Residents {
			for _, p := range g.Pods {
				k.Pods = append(k.Pods, p.UID)
			}
		}
		out.Candidates = append(out.Candidates, k)
	}
	m := fit.Simulate(s.Leaving(names), fit.Simulation{Moved: slices.Sorted(maps.Keys(names))})
	p := pack.Run(m, pack.Options{Steps: 1 << 40, Fallback: true, Quick: true})
	if len(p.Verdicts) > 0 || len(p.Claims) > 1 {
		return nil
	}
	for _, k := range p.Claims {
		if k.Price >= total {
			return nil
		}
		for _, name := range k.Types {
			if price, there := least[name]; there && len(set) > 1 && k.Price >= price {
				return nil
			}
		}
	}
	out.Replacements, out.Placements = p.Claims, p.Placements
	return &out
}

// PlayPrefix plays with the search to compare with until it finds nothing or passes are used up.
func (c *Cluster) PlayPrefix(passes int, share float64, look func(Round)) (Result, error) {
	r := Result{Before: c.Cost(), NodesBefore: c.Nodes()}
	for range passes {
		commands := c.Prefix(int(float64(c.Nodes())*share + 0.999))
		if len(commands) == 0 {
			r.Converged = true
			break
		}
		moved, err := c.Apply(commands)
		if err != nil {
			return r, err
		}
		x := Round{Commands: 1, Removed: len(commands[0].Candidates), Launched: len(commands[0].Replacements), Moved: moved, Cost: c.Cost()}
		r.Moved += moved
		r.Rounds = append(r.Rounds, x)
		if look != nil {
			look(x)
		}
	}
	r.After, r.Nodes = c.Cost(), c.Nodes()
	return r, nil
}

// MovedFor is how many pods a game had moved when it had saved so much, between its rounds in proportion; ok is false if it never saved that much.
func (r *Result) MovedFor(saved float64) (moved float64, ok bool) {
	before := r.Before
	for _, x := range r.Rounds {
		if r.Before-x.Cost >= saved {
			part := (before - (r.Before - saved)) / (before - x.Cost)
			return moved + part*float64(x.Moved), true
		}
		moved += float64(x.Moved)
		before = x.Cost
	}
	return moved, false
}
