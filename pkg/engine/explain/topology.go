package explain

import (
	"fmt"
	"maps"
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/reason"
)

// spreadView is a hard spread constraint with the counts of its domains (scheduling rules 17.3 and 17.4).
type spreadView struct {
	index   int
	spread  cluster.Spread
	counts  map[string]int
	self    int
	minimum int
	// open is the minimum without regard to minDomains.
	open int
}

func (v *spreadView) skew(domain string) int    { return v.counts[domain] + v.self - v.minimum }
func (v *spreadView) allows(domain string) bool { return v.skew(domain) <= int(v.spread.MaxSkew) }
func (v *spreadView) allowsWith(d string) bool {
	return v.counts[d]+v.self-v.open <= int(v.spread.MaxSkew)
}
func (v *spreadView) isHost() bool                 { return v.spread.Key == constraint.HostnameKey }
func (v *spreadView) domains() []string            { return slices.Sorted(maps.Keys(v.counts)) }
func (v *spreadView) id() string                   { return fmt.Sprintf("spread/%d", v.index) }
func (v *spreadView) needs(domain string) (to int) { return v.skew(domain) }

func (q *inquiry) spreadViews() []*spreadView {
	var out []*spreadView
	for i, sp := range q.shape.Spread {
		if !sp.Hard {
			continue
		}
		v := &spreadView{index: i, spread: sp, counts: map[string]int{}}
		sel := withLabelKeys(sp, q.pod.Labels)
		if sel.Matches(q.pod.Labels) {
			v.self = 1
		}
		for _, d := range q.domains(sp.Key, sp.HonorTaints) {
			v.counts[d] = 0
		}
		q.countSpread(v, sel)
		q.minimum(v)
		out = append(out, v)
	}
	return out
}

func withLabelKeys(sp cluster.Spread, labels map[string]string) *cluster.Selector {
	if sp.Selector == nil || len(sp.MatchLabelKeys) == 0 {
		return sp.Selector
	}
	sel := *sp.Selector
	sel.Exprs = slices.Clone(sel.Exprs)
	for _, k := range sp.MatchLabelKeys {
		if v, ok := labels[k]; ok {
			sel.Exprs = append(sel.Exprs, constraint.Expr{Key: k, Operator: constraint.In, Values: []string{v}})
		}
	}
	return &sel
}

// countSpread counts the bound pods that match, and makes the labels of nodes that pass the filter domains.
func (q *inquiry) countSpread(v *spreadView, sel *cluster.Selector) {
	for _, t := range q.s.Targets() {
		domain, has := t.Labels[v.spread.Key]
		if t.Node == nil || !has || !q.passes(v.spread, t) {
			continue
		}
		v.counts[domain] += 0
		for _, g := range t.Residents {
			if g.Shape.Namespace != q.shape.Namespace || !sel.Matches(g.Labels.Labels) {
				continue
			}
			v.counts[domain] += active(g, q.pod.UID)
		}
	}
}

// active counts the pods of a group that are not going away.
func active(g *cluster.Group, except string) int {
	n := 0
	for _, p := range g.Pods {
		if p.Deleted.IsZero() && p.UID != except {
			n++
		}
	}
	return n
}

// passes is the node inclusion policy of a spread constraint.
func (q *inquiry) passes(sp cluster.Spread, t *cluster.Target) bool {
	if sp.HonorTaints {
		if _, bad := constraint.Untolerated(t.Node.Taints, q.shape.Tolerations); bad {
			return false
		}
	}
	if !sp.HonorAffinity {
		return true
	}
	return slices.ContainsFunc(q.terms, func(r constraint.Requirements) bool { _, ok := r.Match(t.Labels); return ok })
}

func (q *inquiry) minimum(v *spreadView) {
	first, eligible := true, 0
	for _, d := range v.domains() {
		if !q.admits(v.spread.Key, d) {
			continue
		}
		eligible++
		if n := v.counts[d]; first || n < v.open {
			v.open, first = n, false
		}
	}
	if v.isHost() {
		v.open = 0
	}
	v.minimum = v.open
	if v.spread.MinDomain > 0 && eligible < int(v.spread.MinDomain) {
		v.minimum = 0
	}
}

// admits reports whether the pod's own requirements allow the value.
func (q *inquiry) admits(key, value string) bool {
	return slices.ContainsFunc(q.terms, func(r constraint.Requirements) bool {
		x, ok := r.Get(key)
		return !ok || x.Admits(value)
	})
}

// domains are the values that the pools in play can give the key (scheduling rules 17.2, step 1); with honorTaints only the pools whose taints the
// pod tolerates count.
func (q *inquiry) domains(key string, honorTaints bool) []string {
	set := map[string]bool{}
	for _, p := range q.s.Pools {
		if !p.Ready || p.Deleting || p.Replicas != nil {
			continue
		}
		if _, bad := constraint.Untolerated(p.Taints, q.shape.Tolerations); bad && honorTaints {
			continue
		}
		tpl := template(p)
		r, defined := tpl.Get(key)
		if defined && r.Operator() == constraint.In && key != constraint.NodePoolKey {
			for _, v := range r.Values() {
				set[v] = true
			}
		}
		if p.Catalog == nil {
			continue
		}
		for _, t := range q.desk.typeRequirements(p.Catalog) {
			have, ok := t.Get(key)
			if !ok || have.Operator() != constraint.In {
				continue
			}
			if _, clash := tpl.Conflict(t); clash {
				continue
			}
			for _, v := range have.Values() {
				if !defined || r.Admits(v) {
					set[v] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// podTermView is a required pod affinity or anti-affinity term with the number of matching pods by domain.
type podTermView struct {
	index  int
	term   cluster.PodTerm
	counts map[string]int
	self   bool
	any    bool
}

func (q *inquiry) podTermViews(terms []cluster.PodTerm) []*podTermView {
	var out []*podTermView
	for i, term := range terms {
		v := &podTermView{index: i, term: term, counts: map[string]int{}}
		v.self = q.inScope(term, q.shape.Namespace, q.shape.Namespace) && term.Selector.Matches(q.pod.Labels)
		for _, t := range q.s.Targets() {
			domain, has := t.Labels[term.TopologyKey]
			if t.Node == nil || !has {
				continue
			}
			for _, g := range t.Residents {
				if q.inScope(term, q.shape.Namespace, g.Shape.Namespace) && term.Selector.Matches(g.Labels.Labels) {
					n := active(g, q.pod.UID)
					v.counts[domain] += n
					v.any = v.any || n > 0 && q.admits(term.TopologyKey, domain)
				}
			}
		}
		out = append(out, v)
	}
	return out
}

// inScope reports whether a term of a pod in namespace own looks at namespace other (scheduling rules 17.1).
func (q *inquiry) inScope(term cluster.PodTerm, own, other string) bool {
	if len(term.Namespaces) == 0 && term.NamespaceSelector == nil {
		return own == other
	}
	return slices.Contains(term.Namespaces, other) || term.NamespaceSelector.Matches(q.s.Namespaces[other])
}

// repelled are the domains from which required anti-affinity of other pods keeps this pod away, by topology key.
func (q *inquiry) repelled() map[string]map[string]bool {
	out := map[string]map[string]bool{}
	for _, t := range q.s.Targets() {
		if t.Node == nil {
			continue
		}
		for _, g := range t.Residents {
			for _, term := range g.Shape.AntiAffinity.Required {
				domain, has := t.Labels[term.TopologyKey]
				if !has || !q.inScope(term, g.Shape.Namespace, q.shape.Namespace) || !term.Selector.Matches(q.pod.Labels) {
					continue
				}
				if out[term.TopologyKey] == nil {
					out[term.TopologyKey] = map[string]bool{}
				}
				out[term.TopologyKey][domain] = true
			}
		}
	}
	return out
}

// reach is the set of domains a node bought with this offering could be in; none if the key stays undefined. A new node is its own hostname.
func (c *poolCase) reach(t *typeFacts, o *catalog.Offering, key string) (domains []string, fresh bool) {
	if key == constraint.HostnameKey {
		return nil, true
	}
	if have, ok := t.label(o, key); ok {
		return have.Values(), false
	}
	if r, ok := c.template.Get(key); ok && r.Operator() == constraint.In {
		return r.Values(), false
	}
	return nil, false
}

func (c *poolCase) topologyMisses(t *typeFacts, o *catalog.Offering) []*miss {
	var out []*miss
	for _, v := range c.q.spreads {
		if m, bad := c.spreadMiss(v, t, o); bad {
			out = append(out, m)
		}
	}
	for _, v := range c.q.affinities {
		domains, fresh := c.reach(t, o, v.term.TopologyKey)
		boot := v.self && !v.any
		if boot && (fresh || len(domains) > 0) || slices.ContainsFunc(domains, func(d string) bool { return v.counts[d] > 0 }) {
			continue
		}
		out = append(out, c.affinityMiss("affinity", v))
	}
	for _, v := range c.q.antis {
		domains, fresh := c.reach(t, o, v.term.TopologyKey)
		if fresh || len(domains) == 0 || slices.ContainsFunc(domains, func(d string) bool { return v.counts[d] == 0 }) {
			continue
		}
		out = append(out, c.affinityMiss("anti", v))
	}
	for _, key := range slices.Sorted(maps.Keys(c.q.repels)) {
		taken := c.q.repels[key]
		domains, _ := c.reach(t, o, key)
		if len(domains) > 0 && !slices.ContainsFunc(domains, func(d string) bool { return !taken[d] }) {
			out = append(out, c.once("repelled/"+key, func() miss {
				return miss{id: "repelled/" + key, code: reason.AffinityUnsatisfiable, key: key, hard: true}
			}))
		}
	}
	return out
}

// affinityMiss gives way by becoming a preference, or by going altogether.
func (c *poolCase) affinityMiss(kind string, v *podTermView) *miss {
	id := fmt.Sprintf("%s/%d", kind, v.index)
	return c.once(id, func() miss {
		soft := reason.Change{
			Owner: reason.ByPod, Action: reason.SoftenAffinity, Object: c.q.object(), Key: v.term.TopologyKey, Index: v.index, From: kind,
			To: spellSelector(v.term.Selector),
		}
		gone := soft
		gone.Action = reason.DropAffinity
		return miss{
			id: id, code: reason.AffinityUnsatisfiable, key: v.term.TopologyKey, kind: reason.GivesUp, gap: 1, change: soft, more: []reason.Change{gone},
		}
	})
}

func (c *poolCase) spreadMiss(v *spreadView, t *typeFacts, o *catalog.Offering) (*miss, bool) {
	domains, fresh := c.reach(t, o, v.spread.Key)
	if fresh {
		if v.self <= int(v.spread.MaxSkew) {
			return nil, false
		}
	} else if slices.ContainsFunc(domains, v.allows) {
		return nil, false
	}
	m := &miss{id: v.id(), code: reason.SpreadUnsatisfiable, key: v.spread.Key, kind: reason.GivesUp, gap: 1}
	change := reason.Change{Owner: reason.ByPod, Action: reason.ScheduleAnyway, Object: c.q.object(), Key: v.spread.Key, Index: v.index}
	if v.minimum != v.open && slices.ContainsFunc(domains, v.allowsWith) {
		change.Action, change.Was, change.Amount = reason.LowerMinDomains, int64(v.spread.MinDomain), 0
	}
	m.change = change
	if len(domains) > 0 {
		least := v.needs(slices.MinFunc(domains, func(a, b string) int { return v.counts[a] - v.counts[b] }))
		wider := change
		wider.Action, wider.Was, wider.Amount = reason.RaiseMaxSkew, int64(v.spread.MaxSkew), int64(least)
		wider.From, wider.To = fmt.Sprint(v.spread.MaxSkew), fmt.Sprint(least)
		m.more = []reason.Change{wider}
	}
	return m, true
}

// volumeMisses reports whether the pod's volumes allow the offering. Volumes are never given up.
func (c *poolCase) volumeMisses(t *typeFacts, o *catalog.Offering) []*miss {
	for _, alt := range c.q.volumes {
		if c.volumeFits(alt, t, o) {
			return nil
		}
	}
	if len(c.q.volumes) == 0 {
		return nil
	}
	return []*miss{{id: "volume", code: reason.VolumeZoneConflict, key: constraint.ZoneKey, hard: true}}
}

func (c *poolCase) volumeFits(alt constraint.Requirements, t *typeFacts, o *catalog.Offering) bool {
	for r := range alt.All() {
		have, known := t.label(o, r.Key)
		if known {
			if have.Conflicts(r) {
				return false
			}
			continue
		}
		has, defined := c.template.Get(r.Key)
		if defined && has.Conflicts(r) || !defined && !constraint.WellKnown(r.Key) && !r.AdmitsAbsent() {
			return false
		}
	}
	return true
}

// volumeAlternatives is the cross product over the pod's volumes of where each can be (scheduling rules 19.2).
func volumeAlternatives(s *cluster.Shape) []constraint.Requirements {
	var out []constraint.Requirements
	for _, v := range s.Volumes {
		if len(v.Alternatives) == 0 {
			continue
		}
		var next []constraint.Requirements
		if len(out) == 0 {
			out = []constraint.Requirements{{}}
		}
		for _, have := range out {
			for _, alt := range v.Alternatives {
				next = append(next, have.And(constraint.Parse(alt)))
			}
		}
		out = next
	}
	return out
}
