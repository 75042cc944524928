package disrupt

import (
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
)

// guards finds the PodDisruptionBudgets that cover pods. Pods with the same labels are covered alike, so the answer is remembered.
type guards struct {
	byNamespace map[string][]*cluster.PDB
	known       map[guardKey][]*cluster.PDB
}

type guardKey struct {
	namespace string
	labels    *cluster.LabelSet
}

func newGuards(s *cluster.Snapshot) guards {
	g := guards{byNamespace: map[string][]*cluster.PDB{}, known: map[guardKey][]*cluster.PDB{}}
	for _, p := range s.PDBs {
		g.byNamespace[p.Namespace] = append(g.byNamespace[p.Namespace], p)
	}
	return g
}

// of returns the budgets that cover the pods of a group, by name.
func (g *guards) of(group *cluster.Group) []*cluster.PDB {
	namespace := group.Pods[0].Namespace
	all := g.byNamespace[namespace]
	if len(all) == 0 {
		return nil
	}
	key := guardKey{namespace, group.Labels}
	hits, ok := g.known[key]
	if !ok {
		for _, p := range all {
			if p.Selector.Matches(group.Labels.Labels) {
				hits = append(hits, p)
			}
		}
		g.known[key] = hits
	}
	return hits
}

// blocking returns the budgets that forbid the eviction of a pod they cover (rules 5): all of them if there are several, for the API server then
// refuses every eviction.
func blocking(p *cluster.Pod, hits []*cluster.PDB) []*cluster.PDB {
	switch {
	case len(hits) == 0:
		return nil
	case len(hits) > 1:
		return hits
	case hits[0].FreesUnready && p.Unready && hits[0].Problem == "":
		return nil
	case hits[0].Allowed <= 0:
		return hits
	}
	return nil
}

func pdbNames(hits []*cluster.PDB) []string {
	out := make([]string, len(hits))
	for i, p := range hits {
		out[i] = p.Namespace + "/" + p.Name
	}
	slices.Sort(out)
	return out
}
