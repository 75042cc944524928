package fit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// Kind of a topology group (rules 17.1).
type Kind int

// The kinds.
const (
	Spread Kind = iota
	Affinity
	AntiAffinity
	// Inverse is the required anti-affinity of other pods that select the pod in question.
	Inverse
)

// Topology is one topology group: a constraint shared by all pods that state it equally, with its domains and the pods counted in them so
// far. It is immutable; who places pods keeps the counts.
type Topology struct {
	ID                 int
	Kind               Kind
	Key                string
	MaxSkew, MinDomain int
	// Counts are the matching pods by domain before the decision (rules 17.3).
	Counts map[string]int

	selector   *cluster.Selector
	namespaces map[string]bool // nil: all
	filter     *nodeFilter
	domains    []string // universe, ascending; hostname has none
	owners     map[int]bool
	selects    []int8 // by group: 0 unknown, 1 yes, -1 no
}

// nodeFilter restricts which nodes a spread constraint looks at.
type nodeFilter struct {
	honorAffinity bool
	terms         []constraint.Requirements // any; with honorAffinity
	honorTaints   bool
	tolerations   []constraint.Toleration // with honorTaints
}

func (f *nodeFilter) admits(t *cluster.Target) bool {
	if f == nil {
		return true
	}
	if f.honorTaints && t.Node != nil {
		if _, bad := constraint.Untolerated(t.Node.Taints, f.tolerations); bad {
			return false
		}
	}
	return !f.honorAffinity || slices.ContainsFunc(f.terms, func(r constraint.Requirements) bool { _, ok := r.Match(t.Labels); return ok })
}

// admitsClaim reports whether a claim with these requirements would pass: its keys must be defined (rules 17.7).
func (f *nodeFilter) admitsClaim(rs constraint.Requirements, taints []constraint.Taint) bool {
	if f == nil {
		return true
	}
	if f.honorTaints {
		if _, bad := constraint.Untolerated(taints, f.tolerations); bad {
			return false
		}
	}
	return !f.honorAffinity || slices.ContainsFunc(f.terms, func(r constraint.Requirements) bool {
		_, ok := rs.Compatible(r, constraint.Strict)
		return ok
	})
}

// population is the pods of one label set and namespace that run on nodes, for counting.
type population struct {
	labels    *cluster.LabelSet
	namespace string
	at        []placed
}

type placed struct {
	target *cluster.Target
	pods   int
}

// populations indexes the bound pods that count: not terminal, not terminating, not in the batch (rules 17.3).
func (m *Model) populations() []population {
	if m.residents != nil {
		return m.residents
	}
	type key struct {
		labels    *cluster.LabelSet
		namespace string
	}
	at := map[key]int{}
	m.residents = []population{}
	for _, t := range m.Snapshot.Targets() {
		for _, r := range t.Residents {
			n := 0
			for _, p := range r.Pods {
				if p.Deleted.IsZero() && !m.inBatch[p.UID] {
					n++
				}
			}
			if n == 0 || t.Node == nil {
				continue
			}
			k := key{r.Labels, r.Pods[0].Namespace}
			i, ok := at[k]
			if !ok {
				i = len(m.residents)
				at[k] = i
				m.residents = append(m.residents, population{labels: r.Labels, namespace: r.Pods[0].Namespace})
			}
			m.residents[i].at = append(m.residents[i].at, placed{t, n})
		}
	}
	return m.residents
}

// Selects reports whether the topology's selector and namespaces cover the group's pods.
func (t *Topology) Selects(g *Group) bool {
	for len(t.selects) <= g.Index {
		t.selects = append(t.selects, 0)
	}
	if t.selects[g.Index] == 0 {
		t.selects[g.Index] = -1
		if (t.namespaces == nil || t.namespaces[g.Pods[0].Namespace]) && t.selector.Matches(g.Labels) {
			t.selects[g.Index] = 1
		}
	}
	return t.selects[g.Index] > 0
}

// Owns reports whether pods of the group state this (inverse) anti-affinity.
func (t *Topology) Owns(g *Group) bool { return t.owners[g.Index] }

// Domains returns the values of the key that pods may be spread over, ascending; none for the hostname, whose domains come and go.
func (t *Topology) Domains() []string { return t.domains }

// CountsOn reports whether a pod on this target counts for the group: its node filter admits the target.
func (t *Topology) CountsOn(target *cluster.Target) bool { return t.filter.admits(target) }

// CountsOnClaim is CountsOn for a claim that is planned.
func (t *Topology) CountsOnClaim(rs constraint.Requirements, taints []constraint.Taint) bool {
	return t.filter.admitsClaim(rs, taints)
}

// Floor returns the lowest count over the domains that are open to the spec, as a spread constraint compares with (rules 17.4).
func (t *Topology) Floor(s *Spec, counts map[string]int) int {
	if t.Key == constraint.HostnameKey {
		return 0
	}
	strict, restricted := s.Strict.Get(t.Key)
	low, n := -1, 0
	for _, d := range t.domains {
		if restricted && !strict.Admits(d) {
			continue
		}
		n++
		if c := counts[d]; low < 0 || c < low {
			low = c
		}
	}
	if low < 0 || n < t.MinDomain {
		return 0
	}
	return low
}

// AffinityOpen reports how an affinity term can be met: in the domains with a match that the spec admits (bootstrap false), in one domain of
// choice because there is no such domain and the pod matches itself (bootstrap true), or not at all (ok false; rules 17.5).
func (t *Topology) AffinityOpen(s *Spec, counts map[string]int) (bootstrap, ok bool) {
	strict, restricted := s.Strict.Get(t.Key)
	for d, n := range counts {
		if n > 0 && (!restricted || strict.Admits(d)) {
			return false, true
		}
	}
	return t.Selects(s.Group), t.Selects(s.Group)
}

// topologiesOf returns the groups that restrict a spec (rules 17.1), and makes sure that inverse groups exist.
func (m *Model) topologiesOf(s *Spec) []*Topology {
	var out []*Topology
	for _, c := range s.spread {
		out = append(out, m.spreadGroup(s, c))
	}
	for _, t := range s.affinity {
		out = append(out, m.termGroup(Affinity, s.Group.Pods[0].Namespace, t))
	}
	for _, t := range s.anti {
		out = append(out, m.termGroup(AntiAffinity, s.Group.Pods[0].Namespace, t))
	}
	for _, t := range m.inverse() {
		if t.Selects(s.Group) {
			out = append(out, t)
		}
	}
	return out
}

// Inverses returns the inverse groups the pods of a group own: after a placement its domain is closed to what they select.
func (m *Model) Inverses(g *Group) []*Topology {
	var out []*Topology
	for _, t := range m.inverse() {
		if t.Owns(g) {
			out = append(out, t)
		}
	}
	return out
}

// Topologies returns all groups known so far, by ID. More appear as specs are relaxed.
func (m *Model) Topologies() []*Topology { return m.byID }

func (m *Model) spreadGroup(s *Spec, c cluster.Spread) *Topology {
	sel := c.Selector
	for _, k := range c.MatchLabelKeys {
		v, ok := s.Group.Labels[k]
		if !ok || sel == nil {
			continue
		}
		sel = &cluster.Selector{MatchLabels: sel.MatchLabels,
			Exprs: append(slices.Clone(sel.Exprs), constraint.Expr{Key: k, Operator: constraint.In, Values: []string{v}})}
	}
	f := &nodeFilter{honorAffinity: c.HonorAffinity, honorTaints: c.HonorTaints}
	if c.HonorAffinity {
		base := constraint.FromLabels(s.Group.Shape.NodeSelector)
		for _, t := range s.terms {
			f.terms = append(f.terms, base.And(constraint.Parse(t.Exprs)))
		}
		if len(f.terms) == 0 {
			f.terms = []constraint.Requirements{base}
		}
		if len(f.terms) == 1 && f.terms[0].Len() == 0 {
			f.honorAffinity, f.terms = false, nil
		}
	}
	if c.HonorTaints {
		f.tolerations = s.Tolerations
	}
	ns := s.Group.Pods[0].Namespace
	t := &Topology{Kind: Spread, Key: constraint.Canonical(c.Key), MaxSkew: int(c.MaxSkew), MinDomain: int(c.MinDomain), selector: sel,
		namespaces: map[string]bool{ns: true}, filter: f}
	return m.intern(t)
}

func (m *Model) termGroup(k Kind, namespace string, p cluster.PodTerm) *Topology {
	return m.intern(&Topology{Kind: k, Key: constraint.Canonical(p.TopologyKey), selector: p.Selector, namespaces: m.namespacesOf(namespace, p)})
}

// namespacesOf resolves a term's namespaces; nil means all of them.
func (m *Model) namespacesOf(own string, p cluster.PodTerm) map[string]bool {
	out := map[string]bool{}
	for _, n := range p.Namespaces {
		out[n] = true
	}
	switch sel := p.NamespaceSelector; {
	case sel == nil && len(p.Namespaces) == 0:
		out[own] = true
	case sel != nil && len(sel.MatchLabels) == 0 && len(sel.Exprs) == 0:
		return nil
	case sel != nil:
		for n, labels := range m.Snapshot.Namespaces {
			if sel.Matches(labels) {
				out[n] = true
			}
		}
	}
	return out
}

func (m *Model) intern(t *Topology) *Topology {
	key := t.identity()
	if have := m.topologies[key]; have != nil {
		return have
	}
	t.ID = len(m.byID)
	m.topologies[key] = t
	m.byID = append(m.byID, t)
	t.domains = m.domainsOf(t)
	if t.Kind != Inverse {
		t.Counts = m.count(t)
	} else {
		t.Counts, t.owners = map[string]int{}, map[int]bool{}
	}
	return t
}

// identity spells everything that tells groups apart.
func (t *Topology) identity() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d|%s|%d|%d|%s|", t.Kind, t.Key, t.MaxSkew, t.MinDomain, selectorKey(t.selector))
	if t.namespaces == nil {
		b.WriteString("*")
	}
	for _, n := range sortedKeys(t.namespaces) {
		b.WriteString(n + ",")
	}
	if f := t.filter; f != nil {
		fmt.Fprintf(&b, "|%v|%v|", f.honorAffinity, f.honorTaints)
		for _, r := range f.terms {
			b.WriteString(r.String() + ";")
		}
		fmt.Fprintf(&b, "%q", f.tolerations)
	}
	return b.String()
}

func selectorKey(s *cluster.Selector) string {
	if s == nil {
		return "none"
	}
	var b strings.Builder
	for _, k := range sortedKeys(s.MatchLabels) {
		fmt.Fprintf(&b, "%q=%q,", k, s.MatchLabels[k])
	}
	exprs := make([]string, len(s.Exprs))
	for i, e := range s.Exprs {
		exprs[i] = fmt.Sprintf("%q %s %q", e.Key, e.Operator, e.Values)
	}
	slices.Sort(exprs)
	b.WriteString(strings.Join(exprs, ","))
	return b.String()
}

// count returns the pods that match before the decision.
func (m *Model) count(t *Topology) map[string]int {
	out := map[string]int{}
	for _, p := range m.populations() {
		if t.namespaces != nil && !t.namespaces[p.namespace] || !t.selector.Matches(p.labels.Labels) {
			continue
		}
		for _, at := range p.at {
			if d, ok := Domain(at.target, t.Key); ok && t.filter.admits(at.target) {
				out[d] += at.pods
			}
		}
	}
	return out
}

// Domain returns the domain of the key that a target is in for certain.
func Domain(t *cluster.Target, key string) (string, bool) {
	if key == constraint.HostnameKey {
		return t.Host, true
	}
	if v, ok := t.Labels[key]; ok {
		return v, true
	}
	if !t.Pending {
		return "", false
	}
	if r, ok := t.Requirements.Get(key); ok {
		if v, ok := r.Single(); ok {
			return v, true
		}
	}
	if t.Offers != nil {
		if vs := t.Catalog.Values(key, t.Offers); len(vs) == 1 {
			return vs[0], true
		}
	}
	return "", false
}

// OpenDomains returns the domains that a claim which is not launched could still come up in.
func OpenDomains(t *cluster.Target, key string) []string {
	if !t.Pending || t.Offers == nil {
		return nil
	}
	vs := t.Catalog.Values(key, t.Offers)
	if r, ok := t.Requirements.Get(key); ok {
		vs = slices.DeleteFunc(vs, func(v string) bool { return !r.Admits(v) })
	}
	return vs
}

// inverse returns the groups of required anti-affinity terms of bound pods and of the batch.
func (m *Model) inverse() []*Topology {
	if m.inverses != nil {
		return m.inverses
	}
	m.inverses = []*Topology{}
	seen := map[*Topology]bool{}
	group := func(namespace string, p cluster.PodTerm) *Topology {
		t := m.termGroup(Inverse, namespace, p)
		if !seen[t] {
			seen[t] = true
			m.inverses = append(m.inverses, t)
		}
		return t
	}
	for _, target := range m.Snapshot.Targets() {
		for _, r := range target.Residents {
			if target.Node == nil || len(r.Shape.AntiAffinity.Required) == 0 {
				continue
			}
			n := 0
			for _, p := range r.Pods {
				if !m.inBatch[p.UID] {
					n++
				}
			}
			for _, p := range r.Shape.AntiAffinity.Required {
				t := group(r.Pods[0].Namespace, p)
				if d, ok := inverseDomain(target, t.Key); ok && n > 0 {
					t.Counts[d] += n
				}
			}
		}
	}
	for _, g := range m.Groups {
		for _, p := range g.Shape.AntiAffinity.Required {
			group(g.Pods[0].Namespace, p).owners[g.Index] = true
		}
	}
	return m.inverses
}

// inverseDomain does not fall back to the node's name for the hostname (rules 17.3).
func inverseDomain(t *cluster.Target, key string) (string, bool) {
	if key == constraint.HostnameKey && t.Node.Labels[key] == "" {
		return "", false
	}
	return Domain(t, key)
}

// universe is the values of a key that pools and their types can provide, each with the pools' taints.
type universe map[string][][]constraint.Taint

// provided returns step 1 of rules 17.2.
func (m *Model) provided(key string) universe {
	if u, ok := m.universes[key]; ok {
		return u
	}
	u := universe{}
	for _, p := range m.candidates {
		if p.Catalog == nil || p.Catalog.Len() == 0 {
			continue
		}
		own := constraint.Parse(p.Requirements).And(constraint.FromLabels(p.Labels))
		r, defined := own.Get(key)
		// A type that the pool's other requirements exclude brings no values: a zone where nothing can be launched would be a domain that stays
		// empty for ever, and a spread constraint would wait for it in vain.
		values := slices.Clone(p.Catalog.Values(key, p.Catalog.Narrow(p.Catalog.All(), own, nil)))
		if defined {
			values = slices.DeleteFunc(values, func(v string) bool { return !r.Admits(v) })
			if r.Operator() == constraint.In {
				values = append(values, r.Values()...)
			}
		}
		slices.Sort(values)
		for _, v := range slices.Compact(values) {
			u[v] = append(u[v], p.Taints)
		}
	}
	m.universes[key] = u
	return u
}

func (m *Model) domainsOf(t *Topology) []string {
	if t.Key == constraint.HostnameKey {
		return nil
	}
	set := map[string]bool{}
	for v, pools := range m.provided(t.Key) {
		if t.filter == nil || !t.filter.honorTaints || slices.ContainsFunc(pools, func(taints []constraint.Taint) bool {
			_, bad := constraint.Untolerated(taints, t.filter.tolerations)
			return !bad
		}) {
			set[v] = true
		}
	}
	for _, target := range m.Snapshot.Targets() {
		if target.Leaving || target.Node == nil {
			continue
		}
		if v, ok := target.Labels[t.Key]; ok && t.filter.admits(target) {
			set[v] = true
		}
	}
	return sortedKeys(set)
}
