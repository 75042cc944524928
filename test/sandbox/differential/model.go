package differential

import (
	"context"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Model returns the nodes that the scheduler's plugins accept when the question is put to them as the rules say. Without rules it is Filter.
func (s *Scheduler) Model(ctx context.Context, c *Case, r Rules) (Verdict, error) {
	if r.Has(Invalid) && invalid(c.Pod) {
		return nil, nil
	}
	var out Verdict
	for _, l := range levels(c, r) {
		m := model{s: s, ctx: ctx, c: c, rules: r, level: l, bound: c.Bound}
		if r.Has(ByContainer) {
			m.bound = settled(c.Bound)
		}
		out = either(out, m.judge())
		if m.err != nil {
			return nil, m.err
		}
	}
	return out, nil
}

// level is a step of karp's relaxation: the required terms left, and whether soft taints are tolerated.
type level struct {
	terms []corev1.NodeSelectorTerm
	// one restricts the pod to the first term.
	one bool
	// preferences and podPreferences tell that what the pod prefers is still demanded.
	preferences, podPreferences bool
	tolerations                 []corev1.Toleration
}

func levels(c *Case, r Rules) []level {
	all := level{terms: requiredTerms(c.Pod), tolerations: c.Pod.Spec.Tolerations}
	var out []level
	if r.Has(OneTerm) {
		for i := range all.terms {
			l := level{terms: all.terms[i:], one: true, preferences: true, podPreferences: true, tolerations: all.tolerations}
			out = append(out, l)
		}
		all.preferences = true
		if n := len(all.terms); n > 0 {
			all.one, all.terms = true, all.terms[n-1:]
		}
		out = append(out, all)
		all.preferences = false
	}
	out = append(out, all)
	if r.Has(SoftTaints) && c.SoftPool {
		last := out[len(out)-1]
		last.tolerations = append(slices.Clone(last.tolerations), corev1.Toleration{
			Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectPreferNoSchedule,
		})
		out = append(out, last)
	}
	return out
}

func requiredTerms(p *corev1.Pod) []corev1.NodeSelectorTerm {
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	return nil
}

// model answers for one level. The first error ends it.
type model struct {
	s     *Scheduler
	ctx   context.Context
	c     *Case
	rules Rules
	level level
	bound []*corev1.Pod
	err   error
}

func (m *model) judge() Verdict {
	nodes := m.nodes()
	w := newWorld(nodes, m.bound)
	change := asItIs
	if m.rules.Has(LocalVolume) {
		change = withoutHost
	}
	labelled := nodes
	if m.rules.Has(HostnameFallback) {
		labelled = named(nodes)
	}
	out := reachable(labelled, m.c, change)
	for _, f := range []func(nodes []*corev1.Node, w *world) Verdict{m.alone, m.spread, m.pods} {
		if len(out) == 0 || m.err != nil {
			return nil
		}
		out = both(out, f(nodes, w))
	}
	return out
}

func (m *model) ask(p filter, pod *corev1.Pod, w *world, see func(*corev1.Node) bool) Verdict {
	if m.err != nil {
		return nil
	}
	out, err := m.s.ask(m.ctx, p, pod, w, see)
	m.err = err
	return out
}

// nodes returns the nodes with what the rules change about them.
func (m *model) nodes() []*corev1.Node {
	var out []*corev1.Node
	for _, was := range m.c.Nodes {
		n := was.DeepCopy()
		if m.rules.Has(Cordon) {
			n.Spec.Unschedulable = false
		}
		if m.rules.Has(SoftTaints) {
			n.Spec.Taints = nil
			if _, bad := v1helper.FindMatchingUntoleratedTaint(quiet, was.Spec.Taints, m.level.tolerations, nil, true); bad {
				n.Spec.Taints = []corev1.Taint{{Key: "blocked", Effect: corev1.TaintEffectNoSchedule}}
			}
		}
		out = append(out, n)
	}
	return out
}

// pod returns the pod with the tolerations that fit the nodes of the model, and with other affinity.
func (m *model) pod(a *corev1.Affinity) *corev1.Pod {
	p := m.c.Pod.DeepCopy()
	p.Spec.Affinity = a
	if m.rules.Has(SoftTaints) {
		p.Spec.Tolerations = nil // the nodes' taints are those that it does not tolerate
	}
	return p
}

// where is affinity to nodes by the terms.
func where(terms []corev1.NodeSelectorTerm) *corev1.Affinity {
	if len(terms) == 0 {
		return nil
	}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
	}}
}

// strict are the terms of which the pod has to meet one.
func (m *model) strict() []corev1.NodeSelectorTerm {
	if m.level.one {
		return m.level.terms[:1]
	}
	return m.level.terms
}

// full are the strict terms with the heaviest preference, while preferences hold.
func (m *model) full() []corev1.NodeSelectorTerm {
	terms := slices.Clone(m.strict())
	preferred := m.c.Pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if !m.level.preferences || len(preferred) == 0 {
		return terms
	}
	heaviest := slices.MaxFunc(preferred, func(a, b corev1.PreferredSchedulingTerm) int { return int(a.Weight - b.Weight) })
	for i := range terms {
		terms[i].MatchExpressions = slices.Concat(terms[i].MatchExpressions, heaviest.Preference.MatchExpressions)
	}
	return terms
}

// alone asks the plugins that look at one node only.
func (m *model) alone(nodes []*corev1.Node, w *world) Verdict {
	out := m.ask(m.s.unschedulable, m.c.Pod, w, nil)
	terms := m.strict()
	if len(terms) > 0 {
		terms = m.full()
	}
	out = both(out, m.ask(m.s.affinity, m.pod(where(terms)), w, nil))
	out = both(out, m.ask(m.s.taints, m.pod(nil), w, nil))
	out = both(out, m.ask(m.s.resources, m.pod(nil), w, nil))
	if m.rules.Has(Overdrawn) {
		out = slices.DeleteFunc(out, w.overdrawn)
	}
	if !m.rules.Has(AnyAddress) {
		return both(out, m.ask(m.s.ports, m.pod(nil), w, nil))
	}
	var bound []*corev1.Pod
	for _, p := range m.bound {
		bound = append(bound, plainAddresses(p))
	}
	return both(out, m.ask(m.s.ports, plainAddresses(m.pod(nil)), newWorld(nodes, bound), nil))
}

func (w *world) overdrawn(name string) bool {
	n, err := w.snapshot.NodeInfos().Get(name)
	if err != nil {
		panic(err) // a snapshot in memory has the nodes it lists
	}
	have, used := n.GetAllocatable(), n.GetRequested()
	for r, v := range used.GetScalarResources() {
		if v > have.GetScalarResources()[r] {
			return true
		}
	}
	return used.GetMilliCPU() > have.GetMilliCPU() || used.GetMemory() > have.GetMemory() ||
		used.GetEphemeralStorage() > have.GetEphemeralStorage() || len(n.GetPods()) > have.GetAllowedPodNumber()
}

func plainAddresses(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			for j := range list[i].Ports {
				if x := &list[i].Ports[j]; x.HostIP == "::" {
					x.HostIP = ""
				}
			}
		}
	}
	return p
}

// spread asks for the hard spread constraints, each alone or all at once.
func (m *model) spread(nodes []*corev1.Node, w *world) Verdict {
	pod := m.pod(where(m.level.terms))
	var hard []corev1.TopologySpreadConstraint
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == corev1.DoNotSchedule || m.level.preferences {
			c.WhenUnsatisfiable = corev1.DoNotSchedule
			hard = append(hard, m.constraint(c))
		}
	}
	if len(hard) == 0 {
		return w.names()
	}
	if m.rules.Has(HostnameFallback) {
		w = newWorld(named(nodes), m.bound)
	}
	if !m.rules.Has(SpreadAlone) && len(hard) > 1 {
		pod.Spec.TopologySpreadConstraints = hard
		return m.ask(m.s.spread, pod, w, nil)
	}
	out := w.names()
	for _, c := range hard {
		pod := pod.DeepCopy()
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{c}
		see := func(n *corev1.Node) bool { return m.open(c.TopologyKey, n) }
		if !m.rules.Has(OpenDomains) {
			see = nil
		}
		out = both(out, m.ask(m.s.spread, pod, w, see))
	}
	return out
}

func (m *model) constraint(c corev1.TopologySpreadConstraint) corev1.TopologySpreadConstraint {
	if m.rules.Has(HostnameFloor) && c.TopologyKey == corev1.LabelHostname {
		c.MinDomains = new(int32(1 << 30)) // too few domains make the least count 0
	}
	if x := c.LabelSelector; m.rules.Has(EmptySelector) && x != nil && len(x.MatchLabels)+len(x.MatchExpressions) == 0 {
		c.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "nobody-has-this", Operator: metav1.LabelSelectorOpDoesNotExist},
		}}
	}
	return c
}

// open tells whether what the pod requires of the key admits the node's value of it.
func (m *model) open(key string, n *corev1.Node) bool {
	value, ok := n.Labels[key]
	if !ok {
		return true
	}
	pod := &corev1.Pod{}
	if v, asked := m.c.Pod.Spec.NodeSelector[key]; asked {
		pod.Spec.NodeSelector = map[string]string{key: v}
	}
	var terms []corev1.NodeSelectorTerm
	for _, t := range m.strict() {
		x := corev1.NodeSelectorTerm{}
		for _, e := range t.MatchExpressions {
			if e.Key == key {
				x.MatchExpressions = append(x.MatchExpressions, e)
			}
		}
		if len(x.MatchExpressions) == 0 {
			terms = nil
			break
		}
		terms = append(terms, x)
	}
	pod.Spec.Affinity = where(terms)
	admitted, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{key: value}}})
	return err == nil && admitted
}

// named gives nodes without hostname label their name.
func named(nodes []*corev1.Node) []*corev1.Node {
	var out []*corev1.Node
	for _, n := range nodes {
		if _, ok := n.Labels[corev1.LabelHostname]; !ok {
			n = n.DeepCopy()
			n.Labels = maps.Clone(n.Labels)
			n.Labels[corev1.LabelHostname] = n.Name
		}
		out = append(out, n)
	}
	return out
}

// pods asks for affinity to other pods: what the pod wants near, what it wants far, and what wants it far.
func (m *model) pods(nodes []*corev1.Node, w *world) Verdict {
	a := m.c.Pod.Spec.Affinity
	out := m.ask(m.s.podAffinity, m.pod(nil), w, nil)
	if a == nil {
		return out
	}
	var near, far []corev1.PodAffinityTerm
	if x := a.PodAffinity; x != nil {
		near = m.terms(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if x := a.PodAntiAffinity; x != nil {
		far = m.terms(x.RequiredDuringSchedulingIgnoredDuringExecution, x.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if !m.rules.Has(TermByTerm) && len(near) > 0 {
		out = both(out, m.near(nodes, near))
	} else {
		for i := range near {
			out = both(out, m.near(nodes, near[i:i+1]))
		}
	}
	if len(far) == 0 {
		return out
	}
	x := &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: far}
	return both(out, m.ask(m.s.podAffinity, m.pod(&corev1.Affinity{PodAntiAffinity: x}), m.passive(nodes, nil), nil))
}

// terms are the required terms and, while preferences hold, the preferred ones.
func (m *model) terms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) []corev1.PodAffinityTerm {
	out := slices.Clone(required)
	if m.level.podPreferences {
		for _, t := range preferred {
			out = append(out, t.PodAffinityTerm)
		}
	}
	return out
}

func (m *model) near(nodes []*corev1.Node, terms []corev1.PodAffinityTerm) Verdict {
	var closed func(*corev1.Node) bool
	if m.rules.Has(Bootstrap) && len(terms) == 1 {
		closed = func(n *corev1.Node) bool { return !m.open(terms[0].TopologyKey, n) }
	}
	near := &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	return m.ask(m.s.podAffinity, m.pod(&corev1.Affinity{PodAffinity: near}), m.passive(nodes, closed), nil)
}

// passive is the world in which bound pods want nothing themselves, without those on closed nodes and those that do not count.
func (m *model) passive(nodes []*corev1.Node, closed func(*corev1.Node) bool) *world {
	if m.rules.Has(HostnameFallback) {
		nodes = named(nodes)
	}
	shut := map[string]bool{}
	for _, n := range nodes {
		shut[n.Name] = closed != nil && closed(n)
	}
	var bound []*corev1.Pod
	for _, p := range m.bound {
		if shut[p.Spec.NodeName] || m.rules.Has(Terminating) && p.DeletionTimestamp != nil {
			continue
		}
		p = p.DeepCopy()
		p.Spec.Affinity = nil
		bound = append(bound, p)
	}
	return newWorld(nodes, bound)
}

// invalid tells that karp ignores the pod for what it asks of nodes.
func invalid(p *corev1.Pod) bool {
	if _, ok := p.Spec.NodeSelector[corev1.LabelHostname]; ok {
		return true
	}
	for _, t := range requiredTerms(p) {
		if len(t.MatchFields) > 0 {
			return true
		}
		for _, e := range t.MatchExpressions {
			if e.Key == corev1.LabelHostname {
				return true
			}
			if e.Operator == corev1.NodeSelectorOpGt || e.Operator == corev1.NodeSelectorOpLt {
				if n, err := strconv.ParseInt(e.Values[0], 10, 64); err != nil || n < 0 {
					return true
				}
			}
		}
	}
	return false
}

// settled gives each container of a pod that is being resized the most that it asks for, was granted and has as its request.
func settled(bound []*corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range bound {
		if len(p.Status.ContainerStatuses) > 0 {
			p = p.DeepCopy()
			infeasible := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == corev1.PodReasonInfeasible })
			for i := range p.Spec.InitContainers {
				if infeasible { // none of them has a status in our cases
					p.Spec.InitContainers[i].Resources.Requests = nil
				}
			}
			for i := range p.Spec.Containers {
				c := &p.Spec.Containers[i]
				if infeasible {
					c.Resources.Requests = nil
				}
				for _, s := range p.Status.ContainerStatuses {
					if s.Name == c.Name {
						c.Resources.Requests = most(c.Resources.Requests, s.AllocatedResources)
						if s.Resources != nil {
							c.Resources.Requests = most(c.Resources.Requests, s.Resources.Requests)
						}
					}
				}
			}
			p.Status.ContainerStatuses, p.Status.Conditions = nil, nil
		}
		out = append(out, p)
	}
	return out
}

func most(a, b corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	maps.Copy(out, a)
	for name, q := range b {
		if have, ok := out[name]; !ok || q.Cmp(have) > 0 {
			out[name] = q
		}
	}
	return out
}
