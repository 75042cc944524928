package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (e *encoder) affinity(a *corev1.Affinity) {
	e.tag('a')
	if n := a.NodeAffinity; n != nil {
		e.tag('n')
		if r := n.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
			e.tag('r')
			e.len(len(r.NodeSelectorTerms))
			for i := range r.NodeSelectorTerms {
				t := &r.NodeSelectorTerms[i]
				e.nodeExprs(t.MatchExpressions)
				e.bool(len(t.MatchFields) > 0)
			}
		}
		e.tag('p')
		e.len(len(n.PreferredDuringSchedulingIgnoredDuringExecution))
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			t := &n.PreferredDuringSchedulingIgnoredDuringExecution[i]
			e.num(int64(t.Weight))
			e.nodeExprs(t.Preference.MatchExpressions)
		}
	}
	if p := a.PodAffinity; p != nil {
		e.tag('+')
		e.podTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if p := a.PodAntiAffinity; p != nil {
		e.tag('-')
		e.podTerms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	e.tag('.')
}

func (e *encoder) nodeExprs(list []corev1.NodeSelectorRequirement) {
	e.len(len(list))
	for i := range list {
		e.str(list[i].Key)
		e.str(string(list[i].Operator))
		e.strs(list[i].Values)
	}
}

func (e *encoder) podTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	e.len(len(required))
	for i := range required {
		e.podTerm(&required[i])
	}
	e.len(len(preferred))
	for i := range preferred {
		e.num(int64(preferred[i].Weight))
		e.podTerm(&preferred[i].PodAffinityTerm)
	}
}

func (e *encoder) podTerm(t *corev1.PodAffinityTerm) {
	e.str(t.TopologyKey)
	e.selector(t.LabelSelector)
	e.strs(t.Namespaces)
	e.selector(t.NamespaceSelector)
}

func (e *encoder) selector(s *metav1.LabelSelector) {
	if s == nil {
		e.tag('0')
		return
	}
	e.tag('1')
	e.dict(s.MatchLabels)
	e.len(len(s.MatchExpressions))
	for i := range s.MatchExpressions {
		x := &s.MatchExpressions[i]
		e.str(x.Key)
		e.str(string(x.Operator))
		e.strs(x.Values)
	}
}

func (e *encoder) spread(list []corev1.TopologySpreadConstraint) {
	e.len(len(list))
	for i := range list {
		c := &list[i]
		e.str(c.TopologyKey)
		e.num(int64(c.MaxSkew))
		e.str(string(c.WhenUnsatisfiable))
		e.selector(c.LabelSelector)
		e.strs(c.MatchLabelKeys)
		if c.MinDomains != nil {
			e.num(int64(*c.MinDomains))
		} else {
			e.num(0)
		}
		e.bool(c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor)
		e.bool(c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor)
	}
}
