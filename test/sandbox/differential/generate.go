package differential

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Generate returns the case with a number. The same seed and number give the same case.
func Generate(seed, number uint64) *Case {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, number))}
	g.focus = pick(g, focuses...)
	return g.cluster()
}

// focus is how likely, in percent, a case has what. What a case has little of cannot hide what else it is about.
type focus struct {
	taints, big, crowd                          int // of nodes: taints, room for everything, bound pods at most
	tolerations, selector, affinity             int // of the pod that waits
	spread, podAffinity, podAntiAffinity, heavy int
	// dense clusters have pods of one namespace and few kinds on every node.
	dense bool
}

var focuses = []focus{
	{taints: 40, crowd: 3, tolerations: 50, selector: 12, affinity: 35, spread: 40, podAffinity: 25, podAntiAffinity: 25, heavy: 50},
	{taints: 10, big: 100, crowd: 4, tolerations: 20, selector: 10, affinity: 30, spread: 100, heavy: 10},
	{taints: 5, big: 100, crowd: 3, selector: 40, affinity: 40, spread: 100, heavy: 10, dense: true},
	{taints: 5, big: 100, crowd: 2, affinity: 20, podAffinity: 70, podAntiAffinity: 40, heavy: 10},
	{taints: 5, big: 100, crowd: 1, selector: 15, affinity: 100, spread: 20, heavy: 10},
	{taints: 80, big: 100, crowd: 2, tolerations: 90, spread: 40, heavy: 10},
	{taints: 5, big: 20, crowd: 3, heavy: 80},
}

// generator draws from small sets of values, so that what one object asks for often meets what another has.
type generator struct {
	*rand.Rand
	focus focus
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// some is a number from..to.
func (g *generator) some(from, to int) int { return from + g.IntN(to-from+1) }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// many calls make between from and to times.
func many[T any](g *generator, from, to int, make func() T) []T {
	var out []T
	for range g.some(from, to) {
		out = append(out, make())
	}
	return out
}

// The label keys of nodes besides the well-known ones.
const (
	rackKey = "example.com/rack"
	rankKey = "example.com/rank"
	teamKey = "team"
	gpu     = corev1.ResourceName("nvidia.com/gpu")
)

func (g *generator) cluster() *Case {
	c := &Case{SoftPool: g.chance(60)}
	for i := range g.some(3, 8) {
		c.Nodes = append(c.Nodes, g.node(i))
	}
	crowd := g.some(0, g.focus.crowd)
	for _, n := range c.Nodes {
		least := 0
		if g.focus.dense {
			least = g.some(0, 1)
		}
		for range g.some(least, max(least, crowd)) {
			c.Bound = append(c.Bound, g.bound(len(c.Bound), n.Name))
		}
	}
	c.Pod = g.pending()
	if g.chance(15) {
		g.volumes(c)
	}
	return c
}

func (g *generator) node(i int) *corev1.Node {
	name := fmt.Sprintf("n%d", i)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
		corev1.LabelArchStable: pick(g, "amd64", "amd64", "arm64"), corev1.LabelOSStable: "linux",
	}}}
	label := func(percent int, key string, values ...string) {
		if g.chance(percent) {
			n.Labels[key] = pick(g, values...)
		}
	}
	label(98, corev1.LabelHostname, name)
	label(93, corev1.LabelTopologyZone, "z-a", "z-b", "z-c")
	label(60, rackKey, "r1", "r2", "r3")
	label(60, rankKey, "1", "3", "5", "007", "10", "x")
	label(50, teamKey, "a", "b")
	n.Spec.Taints = g.taints()
	n.Spec.Unschedulable = g.IntN(300) == 0
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(int64(g.some(4, 16))*250, resource.DecimalSI), corev1.ResourceMemory: gibibytes(g.some(2, 8)),
		corev1.ResourcePods: *resource.NewQuantity(int64(g.some(2, 8)), resource.DecimalSI), corev1.ResourceEphemeralStorage: gibibytes(g.some(1, 4)),
	}
	if g.chance(20) {
		n.Status.Allocatable[gpu] = *resource.NewQuantity(int64(g.some(0, 2)), resource.DecimalSI)
	}
	if g.chance(g.focus.big) {
		n.Status.Allocatable[corev1.ResourceCPU], n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("64"), resource.MustParse("20")
		n.Status.Allocatable[corev1.ResourceMemory], n.Status.Allocatable[corev1.ResourceEphemeralStorage] = gibibytes(64), gibibytes(64)
	}
	n.Status.Capacity = n.Status.Allocatable
	return n
}

func gibibytes(n int) resource.Quantity {
	return *resource.NewQuantity(int64(n)<<30, resource.BinarySI)
}

func (g *generator) taints() []corev1.Taint {
	if !g.chance(g.focus.taints) {
		return nil
	}
	seen := map[string]bool{}
	var out []corev1.Taint
	for range g.some(1, 2) {
		t := corev1.Taint{
			Key: pick(g, "dedicated", "level"), Value: pick(g, "", "a", "b", "3", "7", "x1"),
			Effect: pick(g, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
		}
		if id := t.Key + string(t.Effect); !seen[id] {
			seen[id] = true
			out = append(out, t)
		}
	}
	return out
}

func (g *generator) tolerations() []corev1.Toleration {
	return many(g, 1, 2, func() corev1.Toleration {
		t := corev1.Toleration{
			Key:      pick(g, "dedicated", "level", "level"),
			Operator: pick(g, "", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpGt, corev1.TolerationOpLt),
			Effect:   pick(g, "", corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule),
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			if g.chance(40) {
				t.Key = ""
			}
		case corev1.TolerationOpGt, corev1.TolerationOpLt:
			t.Value = pick(g, "2", "3", "5", "-1")
		default:
			t.Value = pick(g, "", "a", "b", "3")
		}
		return t
	})
}

// pod returns a pod with labels, an owner of no kind, and containers.
func (g *generator) pod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID(name), Namespace: pick(g, "default", "default", "ns-a", "ns-b"), Labels: map[string]string{},
		CreationTimestamp: metav1.Time{Time: now},
	}}
	if g.focus.dense {
		p.Namespace, p.Labels["app"] = "default", pick(g, "web", "web", "db")
	} else if g.chance(85) {
		p.Labels["app"] = pick(g, "web", "db", "cache")
	}
	if g.chance(50) {
		p.Labels["rev"] = pick(g, "1", "2")
	}
	return p
}

func (g *generator) bound(i int, node string) *corev1.Pod {
	p := g.pod(fmt.Sprintf("p%d", i))
	p.Spec.NodeName = node
	p.Status.Phase = corev1.PodRunning
	switch {
	case g.chance(4):
		p.Status.Phase = pick(g, corev1.PodSucceeded, corev1.PodFailed)
	case g.chance(6):
		p.DeletionTimestamp = &metav1.Time{Time: now}
	}
	g.containers(p, 60)
	if g.chance(15) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: many(g, 1, 2, g.podTerm),
		}}
	}
	if g.chance(8) {
		g.resize(p)
	}
	return p
}

// pending returns the pod that waits. It has few of all possible constraints, so that a node often depends on a single one.
func (g *generator) pending() *corev1.Pod {
	p := g.pod("pending")
	p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.Time{Time: now},
	}}}
	g.containers(p, g.focus.heavy)
	affinity := &corev1.Affinity{}
	if g.chance(g.focus.tolerations) {
		p.Spec.Tolerations = g.tolerations()
	}
	if g.chance(g.focus.selector) {
		p.Spec.NodeSelector = g.nodeSelector()
	}
	if g.chance(g.focus.affinity) {
		affinity.NodeAffinity = g.nodeAffinity()
	}
	if g.chance(g.focus.spread) {
		p.Spec.TopologySpreadConstraints = g.spreads(p)
	}
	if g.chance(g.focus.podAffinity) {
		affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: many(g, 1, 2, g.podTerm)}
	}
	if g.chance(g.focus.podAntiAffinity) {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: many(g, 1, 2, g.podTerm)}
	}
	g.preferences(affinity)
	if *affinity != (corev1.Affinity{}) {
		p.Spec.Affinity = affinity
	}
	return p
}

// preferences are what karp has to give up in the end.
func (g *generator) preferences(a *corev1.Affinity) {
	if !g.chance(10) {
		return
	}
	if a.NodeAffinity == nil {
		a.NodeAffinity = &corev1.NodeAffinity{}
	}
	a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{
		Weight: 5, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{g.expression()}},
	}}
	if a.PodAntiAffinity == nil {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.WeightedPodAffinityTerm{{Weight: 7, PodAffinityTerm: g.podTerm()}}
}

func (g *generator) nodeSelector() map[string]string {
	switch g.IntN(5) {
	case 0:
		return map[string]string{corev1.LabelTopologyZone: pick(g, "z-a", "z-b", "z-x")}
	case 1:
		return map[string]string{rackKey: pick(g, "r1", "r2")}
	case 2:
		return map[string]string{teamKey: pick(g, "a", "b"), corev1.LabelArchStable: "amd64"}
	case 3:
		return map[string]string{rankKey: pick(g, "1", "007")}
	}
	if g.chance(10) {
		return map[string]string{corev1.LabelHostname: "n1"}
	}
	return map[string]string{corev1.LabelArchStable: pick(g, "amd64", "arm64")}
}

func (g *generator) nodeAffinity() *corev1.NodeAffinity {
	terms := many(g, 1, 3, func() corev1.NodeSelectorTerm {
		if g.chance(2) {
			return corev1.NodeSelectorTerm{}
		}
		if g.chance(1) {
			return corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}}}}
		}
		return corev1.NodeSelectorTerm{MatchExpressions: many(g, 1, 3, g.required)}
	})
	return &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}

func (g *generator) expression() corev1.NodeSelectorRequirement {
	keys := map[string][]string{
		corev1.LabelTopologyZone: {"z-a", "z-b", "z-c", "z-x"}, corev1.LabelArchStable: {"amd64", "arm64"}, rackKey: {"r1", "r2", "r3"},
		rankKey: {"1", "3", "5", "007", "7", "x"}, teamKey: {"a", "b"}, "absent": {"a"},
	}
	key := pick(g, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelArchStable, rackKey, rankKey, rankKey, teamKey, "absent")
	e := corev1.NodeSelectorRequirement{Key: key}
	switch op := g.IntN(10); {
	case op < 3:
		e.Operator, e.Values = corev1.NodeSelectorOpIn, many(g, 1, 3, func() string { return pick(g, keys[key]...) })
	case op < 6:
		e.Operator, e.Values = corev1.NodeSelectorOpNotIn, many(g, 1, 2, func() string { return pick(g, keys[key]...) })
	case op < 7:
		e.Operator = corev1.NodeSelectorOpExists
	case op < 8:
		e.Operator = corev1.NodeSelectorOpDoesNotExist
	default:
		e.Key = pick(g, rankKey, rankKey, rankKey, key)
		e.Operator = pick(g, corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt)
		e.Values = []string{pick(g, "0", "1", "3", "5", "6", "010")}
	}
	return e
}

// required is an expression that may also be one that karp does not take.
func (g *generator) required() corev1.NodeSelectorRequirement {
	switch g.IntN(200) {
	case 0:
		return corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n0", "n1"}}
	case 1:
		return corev1.NodeSelectorRequirement{Key: rankKey, Operator: corev1.NodeSelectorOpGt, Values: []string{"-1"}}
	}
	return g.expression()
}

func (g *generator) selector() *metav1.LabelSelector {
	switch g.IntN(20) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2, 3:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"rev": pick(g, "1", "2")}}
	case 4, 5, 6, 7, 8:
		return &metav1.LabelSelector{MatchExpressions: many(g, 1, 2, g.labelExpression)}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(g, "web", "db", "cache")}}
}

func (g *generator) labelExpression() metav1.LabelSelectorRequirement {
	e := metav1.LabelSelectorRequirement{Key: pick(g, "app", "app", "rev", "none")}
	values := map[string][]string{"app": {"web", "db", "cache", "api"}, "rev": {"1", "2"}, "none": {"x"}}[e.Key]
	e.Operator = pick(g, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)
	if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpNotIn {
		e.Values = many(g, 1, 2, func() string { return pick(g, values...) })
	}
	return e
}

func (g *generator) topologyKey() string {
	return pick(g, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelTopologyZone, corev1.LabelHostname, corev1.LabelHostname, rackKey,
		corev1.LabelArchStable, "absent")
}

func (g *generator) podTerm() corev1.PodAffinityTerm {
	t := corev1.PodAffinityTerm{TopologyKey: g.topologyKey(), LabelSelector: g.selector()}
	switch g.IntN(10) {
	case 0:
		t.Namespaces = []string{"ns-a"}
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{}
	case 2:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": pick(g, "x", "y", "z")}}
	case 3:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "y"}}
		t.Namespaces = []string{"default"}
	}
	return t
}

func (g *generator) spreads(p *corev1.Pod) []corev1.TopologySpreadConstraint {
	seen := map[string]bool{}
	var out []corev1.TopologySpreadConstraint
	for range g.some(1, 2) {
		c := corev1.TopologySpreadConstraint{
			MaxSkew: int32(g.some(1, 2)), TopologyKey: g.topologyKey(), WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: g.selector(),
		}
		if app := p.Labels["app"]; app != "" && g.chance(50) {
			c.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		}
		if g.chance(25) {
			c.MinDomains = new(int32(g.some(1, 4)))
		}
		if g.chance(40) {
			c.NodeAffinityPolicy = pick(g, new(corev1.NodeInclusionPolicyHonor), new(corev1.NodeInclusionPolicyIgnore))
		}
		if g.chance(40) {
			c.NodeTaintsPolicy = pick(g, new(corev1.NodeInclusionPolicyHonor), new(corev1.NodeInclusionPolicyIgnore))
		}
		if c.LabelSelector != nil && g.chance(20) {
			c.MatchLabelKeys = pick(g, []string{"rev"}, []string{"rev", "none"})
		}
		if g.chance(10) {
			c.WhenUnsatisfiable, c.MinDomains = corev1.ScheduleAnyway, nil
		}
		if id := c.TopologyKey + string(c.WhenUnsatisfiable); !seen[id] {
			seen[id] = true
			out = append(out, c)
		}
	}
	return out
}
