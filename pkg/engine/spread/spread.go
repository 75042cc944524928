// Package spread gives pods that declare no topology spread constraints those of the cluster (scheduling rules 18).
//
// A default constraint has no selector of its own: it is derived for each pod from the Services that select the pod and from the pod's
// controller. A pod of neither gets no defaults.
package spread

import (
	"maps"
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// Kinds of controllers whose selectors count.
const (
	ReplicationController = "ReplicationController"
	ReplicaSet            = "ReplicaSet"
	StatefulSet           = "StatefulSet"
)

// Owner is the selector of a pod's controller. The zero value is a controller that adds nothing: of another kind, or gone.
type Owner struct {
	// Kind is one of the kinds above.
	Kind     string
	Selector *cluster.Selector
}

// Selector derives the selector of a pod's default constraints; nil means that the pod gets none. Services are the selectors of the Services of
// the pod's namespace in the order of their names: of the labels they agree to select the pod by, the later Service wins on equal keys.
func Selector(labels map[string]string, services []map[string]string, o Owner) *cluster.Selector {
	equal := map[string]string{}
	for _, s := range services {
		// A null selector selects nothing; an empty one everything, and adds nothing.
		if (&cluster.Selector{MatchLabels: s}).Matches(labels) {
			maps.Copy(equal, s)
		}
	}
	var exprs []constraint.Expr
	if o.Selector != nil {
		switch o.Kind {
		case ReplicationController:
			maps.Copy(equal, o.Selector.MatchLabels)
		case ReplicaSet, StatefulSet:
			exprs = expressions(o.Selector, equal)
		}
	}
	if len(equal)+len(exprs) == 0 {
		return nil
	}
	return &cluster.Selector{MatchLabels: equal, Exprs: exprs}
}

// expressions are those of a selector, its labels as expressions too; labels that are in equal already are left out.
func expressions(s *cluster.Selector, equal map[string]string) []constraint.Expr {
	var out []constraint.Expr
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		if v, ok := equal[k]; !ok || v != s.MatchLabels[k] {
			out = append(out, constraint.Expr{Key: k, Operator: constraint.In, Values: []string{s.MatchLabels[k]}})
		}
	}
	return append(out, s.Exprs...)
}

// Applies reports whether defaults are due: the pod declares no constraint itself.
func Applies(s *cluster.Shape, defaults []cluster.Spread) bool {
	return len(defaults) > 0 && len(s.Spread) == 0
}

// Shape returns the shape with the default constraints, selecting by sel; the shape itself if sel is nil or they do not apply.
func Shape(s *cluster.Shape, defaults []cluster.Spread, sel *cluster.Selector) *cluster.Shape {
	if sel == nil || !Applies(s, defaults) {
		return s
	}
	out := *s
	out.Spread = slices.Clone(defaults)
	for i := range out.Spread {
		out.Spread[i].Selector = sel
	}
	return cluster.NewShape(out)
}
