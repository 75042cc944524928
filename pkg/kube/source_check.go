package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

// wrongType says in words which field of an object has a value of the wrong kind.
func wrongType(err error) error {
	var bad *json.UnmarshalTypeError
	if !errors.As(err, &bad) {
		return err
	}
	want := bad.Type.Kind().String()
	switch want {
	case "slice", "array":
		want = "list"
	case "struct", "map":
		want = "object"
	case "ptr":
		want = bad.Type.Elem().Kind().String()
	}
	return fmt.Errorf("%s: want a value of kind %s, not %s", bad.Field, want, bad.Value)
}

// unknownValues refuses words that the API server would not have stored: an operator or effect that is misspelled in a file must not pass for one
// that matches nothing.
func unknownValues(obj client.Object) error {
	switch x := obj.(type) {
	case *karpv1.NodePool:
		spec := &x.Spec.Template.Spec
		return errors.Join(operators("spec.template.spec.requirements", spec.Requirements), effects("spec.template.spec.taints", spec.Taints), effects("spec.template.spec.startupTaints", spec.StartupTaints))
	case *karpv1.NodeClaim:
		return errors.Join(operators("spec.requirements", x.Spec.Requirements), effects("spec.taints", x.Spec.Taints), effects("spec.startupTaints", x.Spec.StartupTaints))
	case *corev1.Node:
		return effects("spec.taints", x.Spec.Taints)
	case *corev1.Pod:
		return podValues(&x.Spec)
	case *corev1.PersistentVolume:
		if a := x.Spec.NodeAffinity; a != nil && a.Required != nil {
			return nodeTerms("spec.nodeAffinity.required", a.Required.NodeSelectorTerms)
		}
	}
	return nil
}

func podValues(s *corev1.PodSpec) error {
	var errs []error
	for i, t := range s.Tolerations {
		field := fmt.Sprintf("spec.tolerations[%d]", i)
		errs = append(errs, oneOf(field+".operator", string(t.Operator), "", "Exists", "Equal", "Lt", "Gt"), oneOf(field+".effect", string(t.Effect), "", "NoSchedule", "PreferNoSchedule", "NoExecute"))
	}
	for i := range s.TopologySpreadConstraints {
		c := &s.TopologySpreadConstraints[i]
		field := fmt.Sprintf("spec.topologySpreadConstraints[%d]", i)
		errs = append(errs, oneOf(field+".whenUnsatisfiable", string(c.WhenUnsatisfiable), "DoNotSchedule", "ScheduleAnyway"), selectorValues(field+".labelSelector", c.LabelSelector))
	}
	if a := s.Affinity; a != nil {
		errs = append(errs, nodeAffinity(a.NodeAffinity))
		if p := a.PodAffinity; p != nil {
			errs = append(errs, podTerms("spec.affinity.podAffinity", p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution))
		}
		if p := a.PodAntiAffinity; p != nil {
			errs = append(errs, podTerms("spec.affinity.podAntiAffinity", p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution))
		}
	}
	return errors.Join(errs...)
}

func nodeAffinity(a *corev1.NodeAffinity) error {
	const field = "spec.affinity.nodeAffinity"
	if a == nil {
		return nil
	}
	var errs []error
	if r := a.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		errs = append(errs, nodeTerms(field+".requiredDuringSchedulingIgnoredDuringExecution", r.NodeSelectorTerms))
	}
	for i, p := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		errs = append(errs, expressions(fmt.Sprintf("%s.preferredDuringSchedulingIgnoredDuringExecution[%d].preference", field, i), p.Preference.MatchExpressions))
	}
	return errors.Join(errs...)
}

func nodeTerms(field string, terms []corev1.NodeSelectorTerm) error {
	var errs []error
	for i, t := range terms {
		errs = append(errs, expressions(fmt.Sprintf("%s.nodeSelectorTerms[%d]", field, i), t.MatchExpressions))
	}
	return errors.Join(errs...)
}

func expressions(field string, list []corev1.NodeSelectorRequirement) error {
	var errs []error
	for i, e := range list {
		errs = append(errs, oneOf(fmt.Sprintf("%s.matchExpressions[%d].operator", field, i), string(e.Operator), "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
	}
	return errors.Join(errs...)
}

func podTerms(field string, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) error {
	var errs []error
	for i := range required {
		errs = append(errs, selectorValues(fmt.Sprintf("%s.requiredDuringSchedulingIgnoredDuringExecution[%d].labelSelector", field, i), required[i].LabelSelector))
	}
	for i := range preferred {
		errs = append(errs, selectorValues(fmt.Sprintf("%s.preferredDuringSchedulingIgnoredDuringExecution[%d].podAffinityTerm.labelSelector", field, i), preferred[i].PodAffinityTerm.LabelSelector))
	}
	return errors.Join(errs...)
}

func selectorValues(field string, s *metav1.LabelSelector) error {
	if s == nil {
		return nil
	}
	var errs []error
	for i, e := range s.MatchExpressions {
		errs = append(errs, oneOf(fmt.Sprintf("%s.matchExpressions[%d].operator", field, i), string(e.Operator), "In", "NotIn", "Exists", "DoesNotExist"))
	}
	return errors.Join(errs...)
}

func operators(field string, list []karpv1.Requirement) error {
	var errs []error
	for i, r := range list {
		errs = append(errs, oneOf(fmt.Sprintf("%s[%d].operator", field, i), string(r.Operator), "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"))
	}
	return errors.Join(errs...)
}

func effects(field string, list []corev1.Taint) error {
	var errs []error
	for i, t := range list {
		errs = append(errs, oneOf(fmt.Sprintf("%s[%d].effect", field, i), string(t.Effect), "NoSchedule", "PreferNoSchedule", "NoExecute"))
	}
	return errors.Join(errs...)
}

// oneOf refuses a value that is not among the known ones.
func oneOf(field, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("%s: unknown value %q; known are %s", field, value, strings.TrimPrefix(strings.Join(known, ", "), ", "))
}
