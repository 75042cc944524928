package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/reason"
)

// Desk answers many questions about one snapshot. It keeps what questions have in common, and answers pods that differ in nothing but their
// name once. It is not safe for concurrent use.
type Desk struct {
	s      *cluster.Snapshot
	policy engine.Policy
	facts  Facts

	byCatalog map[*catalog.Catalog][]constraint.Requirements
	builder   *cluster.Builder
	answers   map[string]PendingAnswer
	events    map[string][]Event
}

// NewDesk returns a desk for the snapshot.
func NewDesk(s *cluster.Snapshot, p engine.Policy, f Facts) *Desk {
	d := &Desk{
		s: s, policy: p, facts: f, byCatalog: map[*catalog.Catalog][]constraint.Requirements{}, answers: map[string]PendingAnswer{},
		events: map[string][]Event{},
	}
	for _, e := range f.Events {
		key := e.Object.Kind + "/" + e.Object.Namespace + "/" + e.Object.Name
		d.events[key] = append(d.events[key], e)
	}
	return d
}

// WhyPending says why a pod has no node, what stopped each pool, and what would help. The pod need not be part of the snapshot.
func (d *Desk) WhyPending(question Question) PendingAnswer {
	key, same := d.sameQuestion(question)
	if a, ok := d.answers[key]; same && ok {
		return named(a, question.Pod)
	}
	q := d.inquiry(question)
	a := PendingAnswer{Pod: q.object(), Owner: ownerOf(q.pod), At: d.s.At, Since: q.pod.Since, Certainty: reason.Proven}
	for _, u := range d.s.Unknown {
		a.Unknown = append(a.Unknown, strings.TrimSuffix(u.Kind+"/"+u.Name, "/"))
	}
	q.answer(&a)
	a.Blocked = blocked(a.Code)
	if same {
		d.answers[key] = a
	}
	return a
}

// sameQuestion is a key that is equal for pods with the same answer; false if the pod's own events or state could make a difference. Pods in
// the snapshot that match each other's selectors are equal as well: each is left out of its own counts, and none has a node.
func (d *Desk) sameQuestion(q Question) (string, bool) {
	p := q.Pod
	if p.Node != "" || p.Nominated != "" || len(d.events["Pod/"+p.Namespace+"/"+p.Name]) > 0 {
		return "", false
	}
	return fmt.Sprint(p.Shape.Key, p.Labels, p.Owner.Kind, p.Scheduled, p.Phase, p.Deleted, q.Assume, q.Pools, q.MaxFixes, q.Bare), true
}

// named is the answer for another pod.
func named(a PendingAnswer, p *cluster.Pod) PendingAnswer {
	was := a.Pod
	a.Pod, a.Owner, a.Since = objectOf(p), ownerOf(p), p.Since
	rename := func(in []reason.Change) []reason.Change {
		out := slices.Clone(in)
		for i := range out {
			if out[i].Object == was {
				out[i].Object = a.Pod
			}
		}
		return out
	}
	a.Fixes = slices.Clone(a.Fixes)
	for i := range a.Fixes {
		a.Fixes[i].Changes = rename(a.Fixes[i].Changes)
	}
	a.Pools = slices.Clone(a.Pools)
	for i := range a.Pools {
		sets := slices.Clone(a.Pools[i].Sets)
		for j := range sets {
			sets[j] = rename(sets[j])
		}
		a.Pools[i].Sets = sets
	}
	return a
}

func (d *Desk) inquiry(question Question) *inquiry {
	q := &inquiry{desk: d, s: d.s, policy: d.policy, facts: d.facts, pod: question.Pod, shape: question.Pod.Shape, only: question.Pools, most: question.MaxFixes, bare: question.Bare}
	if len(question.Assume) > 0 {
		q.shape = assume(q.shape, question.Assume)
		pod := *q.pod
		pod.Shape = q.shape
		q.pod = &pod
	}
	q.terms = requirements(q.shape)
	q.volumes = volumeAlternatives(q.shape)
	q.lab = &lab{q: q}
	return q
}

// typeRequirements are the parsed labels of a catalogue's types.
func (d *Desk) typeRequirements(c *catalog.Catalog) []constraint.Requirements {
	if have, ok := d.byCatalog[c]; ok {
		return have
	}
	types := c.Types()
	out := make([]constraint.Requirements, len(types))
	for i := range types {
		out[i] = constraint.Parse(types[i].Requirements)
	}
	d.byCatalog[c] = out
	return out
}

// laboratory is a builder with the snapshot's objects, and of its pods only those that have a node or are promised one.
func (d *Desk) laboratory() *cluster.Builder {
	if d.builder == nil {
		d.builder = rebuild(d.s, placed)
	}
	return d.builder
}

// placed selects the pods that stay in a laboratory.
func placed(p *cluster.Pod) bool { return p.Node != "" || p.NominatedByKarp }

// rebuild puts the objects of a snapshot, and those of its pods that keep selects, into a new builder.
func rebuild(s *cluster.Snapshot, keep func(*cluster.Pod) bool) *cluster.Builder {
	b := cluster.NewBuilder()
	b.SetSettings(s.Settings)
	for _, p := range s.Pools {
		b.SetPool(p)
	}
	for _, n := range s.Nodes {
		b.SetNode(n)
	}
	for _, c := range s.Claims {
		b.SetClaim(c)
	}
	for _, d := range s.DaemonSets {
		b.SetDaemonSet(d)
	}
	for _, ns := range slices.Sorted(maps.Keys(s.Namespaces)) {
		b.SetNamespace(ns, s.Namespaces[ns])
	}
	for _, u := range s.Unknown {
		b.SetUnknown(u)
	}
	for _, p := range s.Pods {
		if keep(p) {
			b.SetPod(p)
		}
	}
	return b
}
