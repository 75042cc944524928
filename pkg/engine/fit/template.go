package fit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bits-and-blooms/bitset"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// Template is a pool as the prototype of its claims (rules 4.4).
type Template struct {
	Pool    *cluster.Pool
	Index   int
	Catalog *catalog.Catalog
	// Labels of every claim; Requirements are those of the pool with the labels, and the two that exist for simulation only.
	Labels       map[string]string
	Requirements constraint.Requirements
	// Matching are the offerings the requirements admit; Offers those of them that can be bought.
	Matching, Offers *catalog.Set
	// Reserved are the reserved offerings among Offers, nil if there are none; Units are they by reservation.
	Reserved *catalog.Set
	Units    []Unit
	// Free is what pods can use, by variant of the catalogue: allocatable less the daemons' share.
	Free []units.Vector
	// MinValues are the keys that want several values.
	MinValues []constraint.Requirement

	class []int // overhead class by variant
	loads []units.List
	ports [][]cluster.HostPort
}

// findTemplates turns pools into templates, heaviest first (rules 4.1 to 4.4).
func (m *Model) findTemplates() {
	pools := slices.Clone(m.Snapshot.Pools)
	slices.SortFunc(pools, func(a, b *cluster.Pool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Name, a.Name))
	})
	for _, p := range pools {
		if code, detail := unusable(p); code != "" {
			m.Pools = append(m.Pools, plan.PoolVerdict{Pool: p.Name, Code: code, Detail: detail})
			continue
		}
		m.Candidates = true
		m.softTaints = m.softTaints || slices.ContainsFunc(p.Taints, func(t constraint.Taint) bool { return t.Effect == constraint.PreferNoSchedule })
		m.candidates = append(m.candidates, p)
		if p.Catalog == nil || p.Catalog.Len() == 0 {
			m.Pools = append(m.Pools, plan.PoolVerdict{Pool: p.Name, Code: reason.CatalogUnknown, Detail: p.CatalogProblem})
			continue
		}
		t := m.newTemplate(p)
		if v, bad := m.barren(t); bad {
			m.Pools = append(m.Pools, v)
			continue
		}
		t.Index = len(m.Templates)
		m.Templates = append(m.Templates, t)
	}
}

// unusable says why a pool gets no claims for pods (rules 4.1).
func unusable(p *cluster.Pool) (reason.Code, string) {
	switch {
	case p.Replicas != nil:
		return reason.NodePoolStaticOnly, ""
	case p.Deleting:
		return reason.NodePoolDeleting, ""
	case !p.Ready:
		return reason.NodePoolNotReady, p.NotReady.Reason
	}
	return "", ""
}

func (m *Model) newTemplate(p *cluster.Pool) *Template {
	t := &Template{Pool: p, Catalog: p.Catalog, Labels: map[string]string{}}
	for k, v := range p.Labels {
		t.Labels[k] = v
	}
	t.Labels[constraint.NodePoolKey] = p.Name
	if c := p.NodeClass; c.Kind != "" {
		t.Labels[c.Group+"/"+strings.ToLower(c.Kind)] = c.Name
	}
	t.Requirements = constraint.Parse(p.Requirements).And(constraint.FromLabels(t.Labels)).With(
		constraint.NewIn(constraint.RegisteredKey, "true"), constraint.NewIn(constraint.InitializedKey, "true"))
	for r := range t.Requirements.All() {
		if r.MinValues > 0 {
			t.MinValues = append(t.MinValues, r)
		}
	}
	t.Matching = t.Catalog.Narrow(t.Catalog.All(), t.Requirements, nil)
	t.Offers = t.Matching.Intersection(t.Catalog.Available())
	m.reserveUnits(t)
	m.weigh(t)
	return t
}

// barren tells that a template has no instance type left, or too few for minValues (rules 4.4).
func (m *Model) barren(t *Template) (plan.PoolVerdict, bool) {
	v := plan.PoolVerdict{Pool: t.Pool.Name}
	if t.Offers.None() {
		v.Code, v.Detail = t.emptiedBy()
		return v, true
	}
	if !m.Snapshot.Settings.BestEffortMinValues {
		if short := t.Shortfall(t.Requirements, t.Offers); len(short) > 0 {
			v.Code, v.Detail = reason.MinValuesUnsatisfied, short[0].Key
			return v, true
		}
	}
	return v, false
}

// emptiedBy names the requirement after which no offering was left.
func (t *Template) emptiedBy() (reason.Code, string) {
	var f reason.Funnel
	t.Catalog.Narrow(t.Catalog.All(), t.Requirements, &f)
	for _, c := range f {
		if c.Offerings == 0 {
			return reason.LabelConflict, c.Detail
		}
	}
	return reason.OfferingUnavailable, ""
}

// weigh computes the daemon overhead of every type: DaemonSets that count for the same types form a class (rules 8.2).
func (m *Model) weigh(t *Template) {
	variants := t.Catalog.Variants()
	member := make([][]byte, len(variants))
	for i := range m.daemons {
		on := m.daemonTypes(t, &m.daemons[i])
		for v := range variants {
			hit := byte('0')
			if j, ok := on.NextSet(uint(variants[v].First)); ok && j < uint(variants[v].End) {
				hit = '1'
			}
			member[v] = append(member[v], hit)
		}
	}
	byKey := map[string]int{}
	t.class, t.Free = make([]int, len(variants)), make([]units.Vector, len(variants))
	for v := range variants {
		c, ok := byKey[string(member[v])]
		if !ok {
			c = len(t.loads)
			byKey[string(member[v])] = c
			load, ports := units.List{}, []cluster.HostPort(nil)
			for i, hit := range member[v] {
				if hit == '1' {
					load, ports = load.Add(m.daemons[i].request), append(ports, m.daemons[i].ports...)
				}
			}
			t.loads, t.ports = append(t.loads, load), append(t.ports, ports)
		}
		t.class[v] = c
		t.Free[v] = m.Axis.Vector(variants[v].Allocatable)
		t.Free[v].Add(m.Axis.Vector(t.loads[c]), -1)
	}
}

// daemonTypes returns offerings of the types on which a daemon runs.
func (m *Model) daemonTypes(t *Template, d *daemon) *catalog.Set {
	out := bitset.New(uint(t.Catalog.Len()))
	if _, bad := constraint.UntoleratedHard(t.Pool.Taints, d.set.Shape.Tolerations); bad {
		return out
	}
	for _, r := range d.terms {
		if _, ok := t.Requirements.Compatible(r, constraint.WellKnownOptional); ok {
			out.InPlaceUnion(t.Catalog.Narrow(t.Catalog.All(), r, nil))
		}
	}
	return out
}

// Overhead returns what daemons take on a variant.
func (t *Template) Overhead(variant int) units.List { return t.loads[t.class[variant]] }

// PortsOf returns the host ports that daemons take on a variant.
func (t *Template) PortsOf(variant int) []cluster.HostPort { return t.ports[t.class[variant]] }

// HasDaemonPorts tells that some type's daemons take host ports.
func (t *Template) HasDaemonPorts() bool {
	return slices.ContainsFunc(t.ports, func(p []cluster.HostPort) bool { return len(p) > 0 })
}

// LeastOverhead returns the element-wise minimum of what daemons take, over the types with an offering in the set (rules 8.4).
func (t *Template) LeastOverhead(s *catalog.Set) units.List {
	var out units.List
	seen := make([]bool, len(t.loads))
	for v, variant := range t.Catalog.Variants() {
		if seen[t.class[v]] {
			continue
		}
		if i, ok := s.NextSet(uint(variant.First)); !ok || i >= uint(variant.End) {
			continue
		}
		seen[t.class[v]] = true
		load := t.loads[t.class[v]]
		if out == nil {
			out = load.Clone()
			continue
		}
		for k, n := range out {
			out[k] = min(n, load[k])
		}
	}
	return out
}

// Shortage is a key for which instance types offer fewer values than wanted.
type Shortage struct {
	Key        string
	Have, Want int
}

// Shortfall returns the keys for which the types of a set offer fewer distinct values, of those the requirements admit, than their MinValues
// (rules 14).
func (t *Template) Shortfall(rs constraint.Requirements, s *catalog.Set) []Shortage {
	var out []Shortage
	var types *catalog.Set
	for r := range rs.All() {
		if r.MinValues == 0 {
			continue
		}
		if types == nil {
			types = t.whole(s)
		}
		have := 0
		for _, v := range t.Catalog.Values(r.Key, types) {
			if r.Admits(v) {
				have++
			}
		}
		if have < r.MinValues {
			out = append(out, Shortage{r.Key, have, r.MinValues})
		}
	}
	return out
}

// whole returns all offerings of the types with an offering in the set.
func (t *Template) whole(s *catalog.Set) *catalog.Set {
	out := bitset.New(uint(t.Catalog.Len()))
	for _, v := range t.Catalog.Variants() {
		if i, ok := s.NextSet(uint(v.First)); ok && i < uint(v.End) {
			for j := v.First; j < v.End; j++ {
				out.Set(uint(j))
			}
		}
	}
	return out
}

// Open checks what does not depend on the rest of the decision: taints and labels of the pool. On success it returns the claim's requirements
// for the spec, without its volumes.
func (t *Template) Open(s *Spec) (constraint.Requirements, reason.Code, string, bool) {
	if x, bad := constraint.Untolerated(t.Pool.Taints, s.Tolerations); bad {
		return constraint.Requirements{}, reason.TaintNotTolerated, TaintString(x), false
	}
	if s.Contradiction != "" {
		return constraint.Requirements{}, reason.LabelConflict, s.Contradiction, false
	}
	if mm, ok := t.Requirements.Compatible(s.Full, constraint.WellKnownOptional); !ok {
		return constraint.Requirements{}, mismatchCode(mm), mm.Key, false
	}
	return t.Requirements.And(s.Full), "", "", true
}
