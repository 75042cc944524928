package explain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// Proposal is a change to try. Objects replace those of the same name, or UID for pods. A pool's Hash and HashVersion must be those of the changed
// template: they decide about drift.
type Proposal struct {
	Pools       []*cluster.Pool
	RemovePools []string
	Pods        []*cluster.Pod
	RemovePods  []string
	// RemoveNodes names nodes or claims that go; their pods need another place.
	RemoveNodes []string
}

const hashVersionAnnotation = "karpenter.sh/nodepool-hash-version"

// WhatIf returns what a proposal would do: to pods that wait, to nodes that would drift and the pods on them, and to the cost.
func WhatIf(s *cluster.Snapshot, policy engine.Policy, p Proposal) reason.WhatIf {
	before := engine.Decide(s, policy)
	b := rebuild(s, func(*cluster.Pod) bool { return true })
	p.apply(b)
	changed := b.Snapshot(s.At)
	after := engine.Decide(changed, policy)
	out := reason.WhatIf{Drift: drifting(s, changed)}
	for _, u := range s.Unknown {
		out.Unknown = append(out.Unknown, cmp.Or(u.Kind+"/"+u.Name, u.Kind))
	}
	out.Pending = pendingEffects(changed, &before, &after)
	for i := range after.Claims {
		out.Launches = append(out.Launches, *purchase(&after.Claims[i]))
	}
	leaving := map[string]bool{}
	for _, d := range out.Drift {
		leaving[d.Claim] = true
	}
	for _, name := range p.RemoveNodes {
		leaving[name] = true
	}
	final := &after
	if p := rollover(b, changed, leaving, policy, &out.Rollover); p != nil {
		final = p
	}
	costs(&out, s, leaving, final)
	return out
}

func (p Proposal) apply(b *cluster.Builder) {
	for _, x := range p.Pools {
		b.SetPool(x)
	}
	for _, x := range p.RemovePools {
		b.DeletePool(x)
	}
	for _, x := range p.Pods {
		b.SetPod(x)
	}
	for _, x := range p.RemovePods {
		b.DeletePod(x)
	}
}

// pendingEffects compares both plans for the pods without a node, by namespace and name.
func pendingEffects(s *cluster.Snapshot, before, after *plan.Plan) []reason.PodEffect {
	had, has := places(before), places(after)
	codes := verdicts(after)
	var out []reason.PodEffect
	for _, p := range s.Pods {
		if p.Buffer != "" || p.Node != "" || p.Terminal() || p.Scheduled != unschedulable {
			continue
		}
		e := reason.PodEffect{Pod: objectOf(p), Before: had[p.UID], After: has[p.UID]}
		if e.After == nil {
			e.Code = codes[p.UID]
		}
		out = append(out, e)
	}
	sortEffects(out)
	return out
}

func sortEffects(es []reason.PodEffect) {
	slices.SortFunc(es, func(x, y reason.PodEffect) int {
		return cmp.Or(cmp.Compare(x.Pod.Namespace, y.Pod.Namespace), cmp.Compare(x.Pod.Name, y.Pod.Name))
	})
}

func objectOf(p *cluster.Pod) reason.Object {
	return reason.Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

func places(p *plan.Plan) map[string]*reason.Place {
	out := map[string]*reason.Place{}
	for i := range p.Claims {
		for _, uid := range p.Claims[i].Pods {
			out[uid] = &reason.Place{Launch: purchase(&p.Claims[i])}
		}
	}
	for _, x := range p.Placements {
		out[x.Pod] = &reason.Place{Node: cmp.Or(x.Node, x.Claim)}
	}
	return out
}

func verdicts(p *plan.Plan) map[string]reason.Code {
	out := map[string]reason.Code{}
	for _, v := range p.Verdicts {
		out[v.Pod] = v.Code
	}
	return out
}

// drifting lists the claims that match the pools as they are and would not match them as changed.
func drifting(now, then *cluster.Snapshot) []reason.DriftEffect {
	nodes := map[string]*cluster.Target{}
	for _, t := range now.Targets() {
		if t.Claim != nil {
			nodes[t.Claim.Name] = t
		}
	}
	var out []reason.DriftEffect
	for _, c := range now.Claims {
		was, is := now.Pool(c.Pool), then.Pool(c.Pool)
		if was == nil || is == nil || was == is || !c.Deleted.IsZero() || !c.Launched {
			continue
		}
		if static, keys := drifted(c, was); static || len(keys) > 0 {
			continue
		}
		static, keys := drifted(c, is)
		if !static && len(keys) == 0 {
			continue
		}
		d := reason.DriftEffect{Pool: c.Pool, Claim: c.Name, Static: static, Keys: keys}
		if t := nodes[c.Name]; t != nil && t.Node != nil {
			d.Node = t.Node.Name
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(x, y reason.DriftEffect) int {
		return cmp.Or(cmp.Compare(x.Pool, y.Pool), cmp.Compare(x.Claim, y.Claim))
	})
	return out
}

// drifted compares a claim with a pool: by the hash of the template if both were made by the same version of it, and by the requirements,
// which the claim's labels must meet.
func drifted(c *cluster.Claim, p *cluster.Pool) (static bool, keys []string) {
	hash, version := c.Annotations[hashAnnotation], c.Annotations[hashVersionAnnotation]
	static = hash != "" && p.Hash != "" && version == p.HashVersion && hash != p.Hash
	labels := map[string]string{}
	for k, v := range c.Labels {
		labels[constraint.Canonical(k)] = v
	}
	for r := range constraint.Parse(p.Requirements).All() {
		v, ok := labels[r.Key]
		if ok && !r.Admits(v) || !ok && !r.AdmitsAbsent() {
			keys = append(keys, r.Key)
		}
	}
	return static, keys
}

// rollover marks the claims and nodes that go and lets the engine find places for what runs on them. It returns the engine's plan for everything,
// nil if nothing goes. The builder is left changed.
func rollover(b *cluster.Builder, s *cluster.Snapshot, leaving map[string]bool, policy engine.Policy, out *reason.Rollover) *plan.Plan {
	gone := map[string]bool{}
	for _, t := range s.Targets() {
		switch {
		case t.Claim != nil && (leaving[t.Claim.Name] || leaving[t.Name]):
			c := *t.Claim
			c.Marked = true
			b.SetClaim(&c)
		case t.Claim == nil && leaving[t.Name]:
			n := *t.Node
			n.Deleted = s.At
			b.SetNode(&n)
		default:
			continue
		}
		gone[t.Name] = true
	}
	if len(gone) == 0 {
		return nil
	}
	p := engine.Decide(b.Snapshot(s.At), policy)
	has, codes := places(&p), verdicts(&p)
	running := map[string]bool{}
	for _, pod := range s.Pods {
		if !gone[pod.Node] || pod.Terminal() || pod.Owner.Kind == "DaemonSet" || pod.Owner.Kind == "Node" {
			continue
		}
		running[pod.UID] = true
		if has[pod.UID] != nil {
			out.Moved++
			continue
		}
		if code := codes[pod.UID]; code != "" {
			out.Homeless = append(out.Homeless, reason.PodEffect{Pod: objectOf(pod), Before: &reason.Place{Node: pod.Node}, Code: code})
		}
	}
	sortEffects(out.Homeless)
	for i := range p.Claims {
		if slices.ContainsFunc(p.Claims[i].Pods, func(uid string) bool { return running[uid] }) {
			out.Launches = append(out.Launches, *purchase(&p.Claims[i]))
		}
	}
	return &p
}

// costs sums up the run rates: what there is, without what goes, with what the final plan launches.
func costs(w *reason.WhatIf, s *cluster.Snapshot, leaving map[string]bool, final *plan.Plan) {
	prices := priceList(s)
	for _, t := range s.Targets() {
		if t.Claim == nil || t.Leaving {
			continue
		}
		key := offeringKey{t.Pool, t.Labels[constraint.InstanceTypeKey], t.Labels[constraint.ZoneKey], t.Labels[constraint.CapacityTypeKey]}
		price, ok := prices[key]
		if !ok {
			w.PriceUnknown++
		}
		w.CostNow += price
		if !leaving[t.Claim.Name] && !leaving[t.Name] {
			w.CostAfter += price
		}
	}
	for i := range final.Claims {
		w.CostAfter += final.Claims[i].Price
	}
}

type offeringKey struct{ pool, typ, zone, buyAs string }

func priceList(s *cluster.Snapshot) map[offeringKey]units.Money {
	byCatalog := map[*catalog.Catalog]map[offeringKey]units.Money{}
	out := map[offeringKey]units.Money{}
	for _, p := range s.Pools {
		if p.Catalog == nil {
			continue
		}
		list := byCatalog[p.Catalog]
		if list == nil {
			list = map[offeringKey]units.Money{}
			for _, t := range p.Catalog.Types() {
				for i := range t.Offerings {
					if o := &t.Offerings[i]; !o.PriceUnknown {
						list[offeringKey{"", t.Name, o.Zone, o.CapacityType}] = o.Price
					}
				}
			}
			byCatalog[p.Catalog] = list
		}
		for k := range maps.Keys(list) {
			out[offeringKey{p.Name, k.typ, k.zone, k.buyAs}] = list[k]
		}
	}
	return out
}
