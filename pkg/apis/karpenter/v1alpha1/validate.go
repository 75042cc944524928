package v1alpha1

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	v1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

// RuntimeValidate checks what the schema leaves open. The result belongs into ValidationSucceeded, reason
// RuntimeValidation; an overlay that fails is not applied. Each error names its field.
func (o *NodeOverlay) RuntimeValidate() error {
	var errs []error
	for i, r := range o.Spec.Requirements {
		check := v1.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values}
		if err := check.RuntimeValidate(); err != nil {
			errs = append(errs, fmt.Errorf("spec.requirements[%d]: %w", i, err))
		}
	}
	owned := append(awsv1.ProviderResources(), string(corev1.ResourceCPU), string(corev1.ResourceMemory),
		string(corev1.ResourceEphemeralStorage), string(corev1.ResourcePods))
	for _, name := range slices.Sorted(maps.Keys(o.Spec.Capacity)) {
		if slices.Contains(owned, string(name)) {
			errs = append(errs, fmt.Errorf("spec.capacity[%s]: is known from the instance type and cannot be set", name))
		}
	}
	return errors.Join(errs...)
}
