package fit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/device"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// Group is a number of pods of the batch that nothing in this decision can tell apart.
type Group struct {
	// Index is the group's number in Model.Groups.
	Index  int
	Shape  *cluster.Shape
	Labels map[string]string
	// Pods by creation time, then UID.
	Pods []*cluster.Pod
	// Moved tells that the pods run on a node that only a simulation takes away.
	Moved bool
	// Request is the shape's requests on the model's axis.
	Request units.Vector
	// Refused is set when the pods cannot be placed by this version or these settings at all; Detail names the constraint.
	Refused reason.Code
	Detail  string
	// Devices is what the pods' claims ask for; with claims of their own pods are in groups of their own.
	Devices device.Need

	sig string
}

// Virtual reports whether the pods stand for a capacity buffer.
func (g *Group) Virtual() bool { return g.Pods[0].Buffer != "" }

// Provisionable reports whether the pod waits for a node (rules 2.1); if not, code says why.
func Provisionable(p *cluster.Pod) (code reason.Code, ok bool) {
	switch {
	case p.Node != "", !p.Deleted.IsZero(), p.Terminal():
		return reason.NotPending, false
	case p.Scheduled == "SchedulingGated":
		return reason.SchedulingGated, false
	case p.Scheduled != "Unschedulable":
		return reason.AwaitingScheduler, false
	case p.Nominated != "" && !p.NominatedByKarp:
		return reason.Preempting, false
	case daemonOrMirror(p):
		return reason.DaemonSetPod, false
	}
	return "", true
}

func daemonOrMirror(p *cluster.Pod) bool {
	o := p.Owner
	return o.APIVersion == "apps/v1" && o.Kind == "DaemonSet" || o.APIVersion == "v1" && o.Kind == "Node"
}

// Validate returns the verdict on a pod that breaks a rule of 2.2, or nil. All pods of a shape share it but for the UID.
func Validate(s *cluster.Shape) *plan.Verdict {
	if optedOut(s) {
		return &plan.Verdict{Ignored: true, Silent: true, Code: reason.OptedOut}
	}
	for _, e := range selectorExprs(s) {
		if p := constraint.Validate(e); p != nil {
			return &plan.Verdict{Ignored: true, Code: reason.InvalidRequirement, Detail: p.Key + ": " + p.Text}
		}
	}
	for _, t := range s.Required {
		if t.MatchFields {
			return &plan.Verdict{Ignored: true, Code: reason.InvalidRequirement, Detail: "matchFields"}
		}
	}
	for _, v := range s.Volumes {
		if v.Problem != "" {
			return &plan.Verdict{Ignored: true, Code: reason.InvalidVolumeClaim, Detail: v.Claim + ": " + v.Problem}
		}
	}
	return nil
}

// optedOut is rule V1: the pod requires that the node belongs to no pool.
func optedOut(s *cluster.Shape) bool {
	return len(s.Required) > 0 && slices.ContainsFunc(s.Required[0].Exprs, func(e constraint.Expr) bool {
		return e.Key == constraint.NodePoolKey && e.Operator == constraint.DoesNotExist
	})
}

func selectorExprs(s *cluster.Shape) []constraint.Expr {
	var out []constraint.Expr
	for _, k := range sortedKeys(s.NodeSelector) {
		out = append(out, constraint.Expr{Key: k, Operator: constraint.In, Values: []string{s.NodeSelector[k]}})
	}
	for _, t := range s.Required {
		out = append(out, t.Exprs...)
	}
	return out
}

// Displaced reports whether a pod bound to a leaving target needs a new place (rules 2.3).
func Displaced(p *cluster.Pod, now time.Time) bool {
	active := !p.Terminal() && p.Deleted.IsZero()
	stateful := p.Owner.APIVersion == "apps/v1" && p.Owner.Kind == "StatefulSet" && !p.Deleted.IsZero() && !p.Terminal()
	if daemonOrMirror(p) || !active && !stateful {
		return false
	}
	if active && protected(p, now) {
		return false
	}
	return p.EvictionBlocked == "" || constraint.Tolerates(p.Shape.Tolerations,
		constraint.Taint{Key: "karpenter.sh/disrupted", Effect: constraint.NoSchedule})
}

// protected reports whether the do-not-disrupt annotation is in force: "true", or a duration that has not passed since the start.
func protected(p *cluster.Pod, now time.Time) bool {
	if p.DoNotDisrupt == "true" {
		return true
	}
	d, err := time.ParseDuration(p.DoNotDisrupt)
	if err != nil || d <= 0 {
		return false
	}
	return p.Started.IsZero() || now.Sub(p.Started) < d
}

// batch collects the pods to place and the verdicts on those that are left out.
func (m *Model) batch() {
	type key struct {
		shape          *cluster.Shape
		sig, devices   string
		virtual, moved bool
	}
	byKey := map[key]*Group{}
	add := func(shape *cluster.Shape, labels *cluster.LabelSet, pods []*cluster.Pod) {
		k := key{shape, m.signature(shape, labels), claimsOf(pods[0]), pods[0].Buffer != "", m.isMoved(pods[0])}
		g := byKey[k]
		if g == nil {
			g = &Group{Shape: shape, Labels: labels.Labels, sig: k.sig, Moved: k.moved}
			byKey[k] = g
			m.Groups = append(m.Groups, g)
		}
		g.Pods = append(g.Pods, pods...)
	}
	for _, g := range m.eligible {
		if len(m.moved) == 0 && (m.Devices == nil || len(g.Shape.ResourceClaims) == 0) {
			add(g.Shape, g.Labels, g.Pods)
			continue
		}
		for i := range g.Pods {
			add(g.Shape, g.Labels, g.Pods[i:i+1])
		}
	}
	for _, g := range m.Groups {
		slices.SortFunc(g.Pods, func(a, b *cluster.Pod) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.UID, b.UID)) })
		m.refuse(g)
	}
	slices.SortFunc(m.Groups, queueOrder)
	for i, g := range m.Groups {
		g.Index = i
	}
}

// isMoved reports whether only the simulation moves the pod; one that has not started yet waits for a place like any other.
func (m *Model) isMoved(p *cluster.Pod) bool {
	return p.Phase != "Pending" && m.inBatch[p.UID] && m.moved[p.Node]
}

// queueOrder is that of rules 9.1: CPU, memory, creation, UID; virtual pods come after all others.
func queueOrder(a, b *Group) int {
	if a.Virtual() != b.Virtual() {
		if b.Virtual() {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(b.Shape.Requests[units.CPU], a.Shape.Requests[units.CPU]),
		cmp.Compare(b.Shape.Requests[units.Memory], a.Shape.Requests[units.Memory]),
		a.Pods[0].Created.Compare(b.Pods[0].Created),
		cmp.Compare(a.Pods[0].UID, b.Pods[0].UID))
}

// collect finds the pods of the batch: unbound ones that are provisionable and valid, and those that must leave their node.
func (m *Model) collect() {
	for _, g := range m.Snapshot.Unbound() {
		pods := g.Pods
		if !allProvisionable(pods) {
			pods = nil
			for _, p := range g.Pods {
				if _, ok := Provisionable(p); ok {
					pods = append(pods, p)
				}
			}
		}
		if len(pods) == 0 {
			continue
		}
		if v := Validate(g.Shape); v != nil && pods[0].Buffer == "" { // virtual pods join after validation (rules 24.3)
			for _, p := range pods {
				w := *v
				w.Pod = p.UID
				m.Ignored = append(m.Ignored, w)
			}
			continue
		}
		m.eligible = append(m.eligible, &cluster.Group{Shape: g.Shape, Labels: g.Labels, Pods: pods})
	}
	for _, t := range m.Snapshot.Targets() {
		if t.Leaving {
			m.displace(t)
		}
	}
}

func allProvisionable(pods []*cluster.Pod) bool {
	return !slices.ContainsFunc(pods, func(p *cluster.Pod) bool { _, ok := Provisionable(p); return !ok })
}

func (m *Model) displace(t *cluster.Target) {
	for _, r := range t.Residents {
		var pods []*cluster.Pod
		for _, p := range r.Pods {
			if Displaced(p, m.Snapshot.At) {
				pods = append(pods, p)
				m.inBatch[p.UID] = true
			}
		}
		if len(pods) > 0 {
			m.eligible = append(m.eligible, &cluster.Group{Shape: r.Shape, Labels: r.Labels, Pods: pods})
		}
	}
}

// signature tells label sets apart as far as a selector of this decision does.
func (m *Model) signature(shape *cluster.Shape, l *cluster.LabelSet) string {
	var b strings.Builder
	for i, s := range m.selectors {
		if s.Matches(l.Labels) {
			b.WriteString(strconv.Itoa(i))
			b.WriteByte(',')
		}
	}
	for _, s := range shape.Spread {
		for _, k := range s.MatchLabelKeys {
			v, ok := l.Labels[k]
			b.WriteString(strconv.FormatBool(ok) + v)
			b.WriteByte(',')
		}
	}
	return b.String()
}

// findSelectors lists the distinct selectors that can select a pod of the batch, in a stable order.
func (m *Model) findSelectors() {
	seen := map[string]*cluster.Selector{}
	note := func(s *cluster.Selector) {
		if s != nil {
			seen[selectorKey(s)] = s
		}
	}
	terms := func(a cluster.PodAffinity) {
		for _, t := range a.Required {
			note(t.Selector)
		}
		for _, t := range a.Preferred {
			note(t.Term.Selector)
		}
	}
	shapes := map[*cluster.Shape]bool{}
	for _, g := range m.eligible {
		if shapes[g.Shape] {
			continue
		}
		shapes[g.Shape] = true
		for _, s := range g.Shape.Spread {
			note(s.Selector)
		}
		terms(g.Shape.PodAffinity)
		terms(g.Shape.AntiAffinity)
	}
	for _, t := range m.Snapshot.Targets() {
		for _, r := range t.Residents {
			if !shapes[r.Shape] && len(r.Shape.AntiAffinity.Required) > 0 {
				shapes[r.Shape] = true
				terms(cluster.PodAffinity{Required: r.Shape.AntiAffinity.Required})
			}
		}
	}
	for _, k := range sortedKeys(seen) {
		m.selectors = append(m.selectors, seen[k])
	}
}
