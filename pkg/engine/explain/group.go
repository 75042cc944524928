package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karp-sh/karp/pkg/reason"
)

// Group puts pods with the same answer together, the largest group first.
func Group(answers []PendingAnswer) []reason.PendingGroup {
	index := map[string]int{}
	var out []reason.PendingGroup
	for _, a := range answers {
		key := sameAnswer(a)
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			out = append(out, reason.PendingGroup{
				Code: a.Code, Sub: a.Sub, Layer: a.Layer, Nearest: a.Nearest, Blocked: a.Blocked, Since: a.Since, Example: a,
			})
		}
		g := &out[i]
		g.Pods = append(g.Pods, a.Pod)
		if !a.Since.IsZero() && (g.Since.IsZero() || a.Since.Before(g.Since)) {
			g.Since, g.Example = a.Since, a
		}
	}
	for i := range out {
		slices.SortFunc(out[i].Pods, func(x, y reason.Object) int {
			return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
		})
	}
	slices.SortStableFunc(out, func(x, y reason.PendingGroup) int {
		return cmp.Or(cmp.Compare(len(y.Pods), len(x.Pods)), x.Since.Compare(y.Since), cmp.Compare(x.Code, y.Code), cmp.Compare(x.Nearest, y.Nearest))
	})
	return out
}

// sameAnswer is equal for pods that were stopped by the same thing and need the same change, whatever their names.
func sameAnswer(a PendingAnswer) string {
	key := fmt.Sprint(a.Code, a.Sub, a.Nearest, a.Request.Gates, a.Request.Claim, a.RoomOn)
	if a.Coming != nil {
		key += a.Coming.Claim + a.Coming.Pool
	}
	if len(a.Pools) == 0 || len(a.Pools[0].Sets) == 0 {
		return key
	}
	for _, ch := range a.Pools[0].Sets[0] {
		ch.Object.Name, ch.Object.Namespace, ch.Object.UID = "", "", ""
		key += fmt.Sprint(ch.Action, ch.Key, ch.Index, ch.From, ch.To, ch.Was-ch.Amount)
	}
	return key
}
