package kube

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
)

// budget is a PodDisruptionBudget with its selector parsed.
type budget struct {
	object *policyv1.PodDisruptionBudget
	match  labels.Selector
	// never tells that it allows no eviction whatever the state of its pods.
	never bool
}

// newBudget parses a budget. One whose selector is invalid matches every pod of its namespace: what we cannot understand protects.
func newBudget(pdb *policyv1.PodDisruptionBudget) budget {
	match, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
	if err != nil {
		match = labels.Everything()
	}
	return budget{object: pdb, match: match, never: neverAllows(&pdb.Spec)}
}

// value is the budget as decisions see it.
func (b *budget) value() *cluster.PDB {
	out := &cluster.PDB{Namespace: b.object.Namespace, Name: b.object.Name, Allowed: b.object.Status.DisruptionsAllowed, Never: b.never}
	if p := b.object.Spec.UnhealthyPodEvictionPolicy; p != nil {
		out.FreesUnready = *p == policyv1.AlwaysAllow
	}
	out.Selector = selector(b.object.Spec.Selector)
	if _, err := metav1.LabelSelectorAsSelector(b.object.Spec.Selector); err != nil {
		out.Selector, out.Allowed, out.Problem = &cluster.Selector{}, 0, err.Error()
	}
	return out
}

// neverAllows tells whether maxUnavailable is 0 or 0 %, or minAvailable 100 %.
func neverAllows(spec *policyv1.PodDisruptionBudgetSpec) bool {
	if v := spec.MaxUnavailable; v != nil {
		return v.Type == intstr.Int && v.IntVal == 0 || v.Type == intstr.String && strings.TrimSpace(v.StrVal) == "0%"
	}
	v := spec.MinAvailable
	return v != nil && v.Type == intstr.String && strings.TrimSpace(v.StrVal) == "100%"
}

// budgets holds the budgets by namespace and name.
type budgets map[string]map[string]budget

func (b budgets) set(pdb *policyv1.PodDisruptionBudget) {
	ns := b[pdb.Namespace]
	if ns == nil {
		ns = map[string]budget{}
		b[pdb.Namespace] = ns
	}
	ns[pdb.Name] = newBudget(pdb)
}

func (b budgets) remove(namespace, name string) {
	delete(b[namespace], name)
	if len(b[namespace]) == 0 {
		delete(b, namespace)
	}
}

// blocked names the budgets because of which the pod can never be evicted, separated by commas; empty if it can (scheduling rules 2.3).
// With several matching budgets the API server refuses every eviction.
func (b budgets) blocked(pod *corev1.Pod) string {
	ns := b[pod.Namespace]
	if len(ns) == 0 || neverEvicted(pod) {
		return ""
	}
	var hits []budget
	for _, x := range ns {
		if x.match.Matches(labels.Set(pod.Labels)) {
			hits = append(hits, x)
		}
	}
	switch len(hits) {
	case 0:
		return ""
	case 1:
		if !hits[0].never || freelyEvicted(hits[0].object, pod) {
			return ""
		}
	}
	names := make([]string, len(hits))
	for i, x := range hits {
		names[i] = x.object.Name
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// freelyEvicted tells that the budget lets go of pods which are not ready anyway.
func freelyEvicted(pdb *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	policy := pdb.Spec.UnhealthyPodEvictionPolicy
	if policy == nil || *policy != policyv1.AlwaysAllow {
		return false
	}
	ready := podCondition(pod, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionFalse
}

// neverEvicted tells that nobody will ask for the pod's eviction: a pod that tolerates the taint of a disrupted node is not drained.
func neverEvicted(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || mirrorPod(pod) {
		return true
	}
	taint := karpv1.DisruptedTaint()
	for i := range pod.Spec.Tolerations {
		if tolerates(&pod.Spec.Tolerations[i], &taint) {
			return true
		}
	}
	return false
}

// tolerates compares a toleration with a taint without value, so that the numeric operators never match.
func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case "", corev1.TolerationOpEqual:
		return t.Key != "" && t.Value == taint.Value
	default:
		return false
	}
}
