package v1

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// RuntimeValidate checks what the schema leaves open. The result belongs into ValidationSucceeded, reason
// NodePoolValidationFailed; a pool that fails is not used. Each error names its field.
func (p *NodePool) RuntimeValidate() error {
	t := p.Spec.Template
	errs := []error{validateLabels(t.ObjectMeta.Labels), validateTaints(t.Spec.Taints, t.Spec.StartupTaints)}
	for i, r := range t.Spec.Requirements {
		errs = append(errs, at(fmt.Sprintf("spec.template.spec.requirements[%d]", i), validatePoolRequirement(r)))
	}
	return errors.Join(errs...)
}

func validatePoolRequirement(r Requirement) error {
	if NormalizeLabel(r.Key) == NodePoolLabel {
		return fmt.Errorf("key %s is set by the controller", r.Key)
	}
	return r.RuntimeValidate()
}

func validateLabels(labels map[string]string) error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		errs = append(errs, at("spec.template.metadata.labels["+key+"]", validateLabel(key, labels[key])))
	}
	return errors.Join(errs...)
}

func validateLabel(key, value string) error {
	var errs []error
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("not a label key: %s", strings.Join(problems, "; ")))
	}
	if key == NodePoolLabel {
		errs = append(errs, errors.New("is set by the controller"))
	}
	if IsRestricted(key) {
		errs = append(errs, errors.New("is reserved; use a label of your own"))
	}
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("value %q: %s", value, strings.Join(problems, "; ")))
	}
	return errors.Join(errs...)
}

func validateTaints(taints, startup []corev1.Taint) error {
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[identity]bool{}
	var errs []error
	check := func(path string, list []corev1.Taint) {
		for i, t := range list {
			where := fmt.Sprintf("spec.template.spec.%s[%d]", path, i)
			errs = append(errs, at(where, validateTaint(t)))
			id := identity{t.Key, t.Effect}
			if seen[id] {
				errs = append(errs, fmt.Errorf("%s: key %s and effect %s occur twice in taints and startupTaints", where, t.Key, t.Effect))
			}
			seen[id] = true
		}
	}
	check("taints", taints)
	check("startupTaints", startup)
	return errors.Join(errs...)
}

// validateTaint takes a value for a qualified name rather than a label value, so that one "/" may be in it.
func validateTaint(t corev1.Taint) error {
	var errs []error
	if problems := validation.IsQualifiedName(t.Key); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("key %q: %s", t.Key, strings.Join(problems, "; ")))
	}
	if t.Value != "" {
		if problems := validation.IsQualifiedName(t.Value); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("value %q: %s", t.Value, strings.Join(problems, "; ")))
		}
	}
	switch t.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		errs = append(errs, fmt.Errorf("effect %q: want NoSchedule, PreferNoSchedule or NoExecute", t.Effect))
	}
	return errors.Join(errs...)
}

// RuntimeValidate checks one requirement of a pool, overlay, or of a pod's node selector or required affinity.
func (r Requirement) RuntimeValidate() error {
	r.Key = NormalizeLabel(r.Key)
	var errs []error
	if problems := validation.IsQualifiedName(r.Key); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("key %q is not a label key: %s", r.Key, strings.Join(problems, "; ")))
	}
	if IsRestricted(r.Key) {
		errs = append(errs, fmt.Errorf("key %s is reserved; use a label of your own", r.Key))
	}
	for _, v := range r.Values {
		if problems := validation.IsValidLabelValue(v); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("value %q of key %s: %s", v, r.Key, strings.Join(problems, "; ")))
		}
	}
	return errors.Join(append(errs, r.validateOperator())...)
}

func (r Requirement) validateOperator() error {
	switch r.Operator {
	case In:
		return r.validateIn()
	case Gt, Lt, Gte, Lte:
		if len(r.Values) != 1 {
			return fmt.Errorf("operator %s of key %s needs exactly one value, not %d", r.Operator, r.Key, len(r.Values))
		}
		if n, err := strconv.ParseInt(r.Values[0], 10, 64); err != nil || n < 0 {
			return fmt.Errorf("value %q of key %s: operator %s needs an integer that is not negative", r.Values[0], r.Key, r.Operator)
		}
	case NotIn, Exists, DoesNotExist:
	default:
		return fmt.Errorf("operator %q of key %s is unknown", r.Operator, r.Key)
	}
	return nil
}

func (r Requirement) validateIn() error {
	if len(r.Values) == 0 {
		return fmt.Errorf("operator In of key %s needs at least one value", r.Key)
	}
	least := 0
	if r.MinValues != nil {
		least = *r.MinValues
	}
	if len(r.Values) < least {
		return fmt.Errorf("operator In of key %s has %d values, fewer than its minValues %d", r.Key, len(r.Values), least)
	}
	valid := len(r.Values) - len(r.UnknownValues())
	if valid == 0 || valid < least {
		return fmt.Errorf("operator In of key %s: %d of its values %q are known, at least %d must be; known are %q",
			r.Key, valid, r.Values, max(1, least), KnownValues(r.Key))
	}
	return nil
}

// UnknownValues are the values of an In requirement that its label cannot have. Next to valid ones they are worth a log
// line and nothing more.
func (r Requirement) UnknownValues() []string {
	known := KnownValues(NormalizeLabel(r.Key))
	if known == nil || r.Operator != In {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.Values), func(v string) bool { return slices.Contains(known, v) })
}

// at puts the place before an error.
func at(path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", path, err)
}
