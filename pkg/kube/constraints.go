package kube

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// Taints converts node taints.
func Taints(in []corev1.Taint) []constraint.Taint {
	if len(in) == 0 {
		return nil
	}
	out := make([]constraint.Taint, len(in))
	for i, t := range in {
		out[i] = constraint.Taint{Key: t.Key, Value: t.Value, Effect: constraint.Effect(t.Effect)}
	}
	return out
}

// APITaints is the reverse of Taints.
func APITaints(in []constraint.Taint) []corev1.Taint {
	if len(in) == 0 {
		return nil
	}
	out := make([]corev1.Taint, len(in))
	for i, t := range in {
		out[i] = corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
	}
	return out
}

// Requirements converts the requirements of a pool or claim.
func Requirements(in []karpv1.Requirement) []constraint.Expr {
	if len(in) == 0 {
		return nil
	}
	out := make([]constraint.Expr, len(in))
	for i, r := range in {
		out[i] = constraint.Expr{Key: r.Key, Operator: constraint.Operator(r.Operator), Values: r.Values}
		if r.MinValues != nil {
			out[i].MinValues = *r.MinValues
		}
	}
	return out
}

// APIRequirements is the reverse of Requirements. The result is never nil: the field is required.
func APIRequirements(in []constraint.Expr) []karpv1.Requirement {
	out := make([]karpv1.Requirement, len(in))
	for i, e := range in {
		out[i] = karpv1.Requirement{Key: e.Key, Operator: karpv1.Operator(e.Operator), Values: slices.Clone(e.Values)}
		if e.MinValues > 0 {
			n := e.MinValues
			out[i].MinValues = &n
		}
	}
	return out
}

func tolerations(in []corev1.Toleration) []constraint.Toleration {
	if len(in) == 0 {
		return nil
	}
	out := make([]constraint.Toleration, len(in))
	for i, t := range in {
		out[i] = constraint.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: constraint.Effect(t.Effect)}
	}
	return out
}

func nodeExprs(in []corev1.NodeSelectorRequirement) []constraint.Expr {
	if len(in) == 0 {
		return nil
	}
	out := make([]constraint.Expr, len(in))
	for i, r := range in {
		out[i] = constraint.Expr{Key: r.Key, Operator: constraint.Operator(r.Operator), Values: r.Values}
	}
	return out
}

func requiredTerms(a *corev1.Affinity) []cluster.NodeTerm {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	out := make([]cluster.NodeTerm, 0, len(terms))
	for _, t := range terms {
		if len(t.MatchExpressions)+len(t.MatchFields) > 0 {
			out = append(out, cluster.NodeTerm{Exprs: nodeExprs(t.MatchExpressions), MatchFields: len(t.MatchFields) > 0})
		}
	}
	if len(out) == 0 {
		// A term without expressions matches no node in Kubernetes, so nothing is left that could; an empty In says that, and by name.
		return []cluster.NodeTerm{{Exprs: []constraint.Expr{{Key: "nodeSelectorTerms", Operator: constraint.In}}}}
	}
	return out
}

func preferredTerms(a *corev1.Affinity) []cluster.PreferredTerm {
	if a == nil || a.NodeAffinity == nil || len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) == 0 {
		return nil
	}
	terms := a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	out := make([]cluster.PreferredTerm, len(terms))
	for i, t := range terms {
		out[i] = cluster.PreferredTerm{Weight: t.Weight, Exprs: nodeExprs(t.Preference.MatchExpressions)}
	}
	return out
}

func selector(in *metav1.LabelSelector) *cluster.Selector {
	if in == nil {
		return nil
	}
	out := &cluster.Selector{MatchLabels: in.MatchLabels}
	for _, e := range in.MatchExpressions {
		out.Exprs = append(out.Exprs, constraint.Expr{Key: e.Key, Operator: constraint.Operator(e.Operator), Values: e.Values})
	}
	return out
}

func spreads(in []corev1.TopologySpreadConstraint) []cluster.Spread {
	if len(in) == 0 {
		return nil
	}
	out := make([]cluster.Spread, len(in))
	for i, c := range in {
		out[i] = cluster.Spread{
			Key: c.TopologyKey, MaxSkew: c.MaxSkew, Hard: c.WhenUnsatisfiable == corev1.DoNotSchedule,
			Selector: selector(c.LabelSelector), MatchLabelKeys: c.MatchLabelKeys,
			HonorAffinity: c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor,
			HonorTaints:   c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		}
		if c.MinDomains != nil {
			out[i].MinDomain = *c.MinDomains
		}
	}
	return out
}

func podTerm(in *corev1.PodAffinityTerm) cluster.PodTerm {
	return cluster.PodTerm{TopologyKey: in.TopologyKey, Selector: selector(in.LabelSelector), Namespaces: in.Namespaces, NamespaceSelector: selector(in.NamespaceSelector)}
}

func podAffinity(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) cluster.PodAffinity {
	var out cluster.PodAffinity
	for i := range required {
		out.Required = append(out.Required, podTerm(&required[i]))
	}
	for i := range preferred {
		out.Preferred = append(out.Preferred, cluster.WeightedPodTerm{Weight: preferred[i].Weight, Term: podTerm(&preferred[i].PodAffinityTerm)})
	}
	return out
}

func hostPorts(spec *corev1.PodSpec) []cluster.HostPort {
	var out []cluster.HostPort
	add := func(c *corev1.Container) {
		for i := range c.Ports {
			p := &c.Ports[i]
			if p.HostPort <= 0 {
				continue
			}
			protocol := string(p.Protocol)
			if protocol == "" {
				protocol = string(corev1.ProtocolTCP)
			}
			out = append(out, cluster.HostPort{IP: p.HostIP, Protocol: protocol, Port: p.HostPort})
		}
	}
	for i := range spec.Containers {
		add(&spec.Containers[i])
	}
	for i := range spec.InitContainers {
		if sidecar(&spec.InitContainers[i]) {
			add(&spec.InitContainers[i])
		}
	}
	return out
}
