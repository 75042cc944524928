package disrupt

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

// apply moves the survey's snapshot on to what it will be after a command: what is decided next finds the nodes gone, their pods where they were
// placed, and the replacements on their way, full with what they are for.
func (v *survey) apply(set []*node, o outcome) {
	r := cluster.Rearrangement{Gone: map[string]bool{}, Arriving: map[string][]*cluster.Group{}}
	source := map[string]*cluster.Group{}
	for _, n := range set {
		r.Gone[n.Name] = true
		for _, g := range n.Residents {
			for _, p := range g.Pods {
				source[p.UID] = g
			}
		}
	}
	for _, x := range o.placements {
		arrive(r.Arriving, cmp.Or(x.Node, x.Claim), source[x.Pod], x.Pod)
	}
	for i := range o.claims {
		if t := v.coming(&o.claims[i], source); t != nil {
			r.Coming = append(r.Coming, t)
		}
	}
	v.s = v.s.Rearrange(r)
}

// arrive adds a pod to those that come to a target, beside its equals.
func arrive(to map[string][]*cluster.Group, target string, from *cluster.Group, uid string) {
	if from == nil {
		return
	}
	for _, p := range from.Pods {
		if p.UID != uid {
			continue
		}
		for _, g := range to[target] {
			if g.Shape == from.Shape && g.Labels == from.Labels {
				g.Pods = append(g.Pods, p)
				return
			}
		}
		to[target] = append(to[target], &cluster.Group{Shape: from.Shape, Labels: from.Labels, Pods: []*cluster.Pod{p}})
		return
	}
}

// coming is a replacement as a node that is not initialized and has no room beyond the pods it is for. It is nil if the claim is for none of the
// moved pods: those that wait anyway are planned for again.
func (v *survey) coming(c *plan.Claim, source map[string]*cluster.Group) *cluster.Target {
	pods := map[string][]*cluster.Group{}
	for _, uid := range c.Pods {
		arrive(pods, "", source[uid], uid)
	}
	if len(pods) == 0 {
		return nil
	}
	v.launched++
	name := fmt.Sprintf("replacement/%d", v.launched)
	labels := maps.Clone(c.Labels)
	for _, e := range c.Requirements {
		if value, ok := constraint.New(e).Single(); ok {
			labels[e.Key] = value
		}
	}
	labels[constraint.HostnameKey] = name
	capacity := units.List{units.Nodes: 1}
	cat := v.pools[c.Pool].Catalog
	for _, o := range optionsOf(cat, c) {
		capacity = capacity.Max(cat.Types()[o.typ].Capacity)
	}
	return &cluster.Target{
		Name: name, Host: name, Node: &cluster.Node{Name: name, Labels: labels, Ready: true}, Pool: c.Pool, Registered: true, Labels: labels,
		Claim: &cluster.Claim{Name: name, Pool: c.Pool, Launched: true, Registered: true}, Taints: c.Taints, Capacity: capacity,
		Allocatable: c.Requests, Used: c.Requests, Residents: pods[""], Catalog: cat,
	}
}
