package crd_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
)

// TestAllowedLabels checks that the lists in the CRDs are those in Go: every label of the provider, in every place.
func TestAllowedLabels(t *testing.T) {
	client := installed(t)
	pools, claims, overlays := load(t, "testdata/nodepool.yaml").Base, load(t, "testdata/nodeclaim.yaml").Base, load(t, "testdata/nodeoverlay.yaml").Base
	places := []struct {
		name, path string
		base       map[string]any
		allowed    []string
		value      func(key string) any
	}{
		{"label of a pool", "spec.template.metadata.labels", pools, awsv1.InstanceLabels(), func(key string) any { return map[string]any{key: "x"} }},
		{"requirement of a pool", "spec.template.spec.requirements", pools, awsv1.InstanceLabels(), exists},
		{"requirement of a claim", "spec.requirements", claims, awsv1.InstanceLabels(), exists},
		{"requirement of an overlay", "spec.requirements", overlays, awsv1.OverlayLabels(), exists},
	}
	for _, p := range places {
		resource := resourceOf(t, client, p.base)
		for _, key := range append(awsv1.InstanceLabels(), awsv1.EC2NodeClassLabel, "karpenter.k8s.aws/instance-pods", "karpenter.k8s.aws/tagged") {
			o := object(p.base)
			set(o.Object, p.path, p.value(key))
			_, err := resource.Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if want := slices.Contains(p.allowed, key) || key == awsv1.EC2NodeClassLabel; (err == nil) != want {
				t.Errorf("%s as %s: admitted should be %v: %v", key, p.name, want, err)
			}
		}
	}
}

func exists(key string) any { return []any{map[string]any{"key": key, "operator": "Exists"}} }
