package crd_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	autoscalingv1beta1 "github.com/karp-sh/karp/pkg/apis/autoscaling/v1beta1"
	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1alpha1 "github.com/karp-sh/karp/pkg/apis/karp/v1alpha1"
	karpenterv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	karpenterv1alpha1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1alpha1"
)

// TestExamples stores each example and reads it back: all that was written is there as it was written, and the Go types
// lose and change nothing of what is stored, but for the spelling of quantities (1000 becomes 1k), which is why the agent
// writes patches and no whole objects.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("testdata/examples/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("reading examples: %d files, %v", len(paths), err)
	}
	client := installed(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		autoscalingv1beta1.AddToScheme, awsv1.AddToScheme, karpv1alpha1.AddToScheme, karpenterv1.AddToScheme, karpenterv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			written := example(t, path)
			kind := resourceOf(t, client, written.Object)
			stored, err := kind.Create(t.Context(), written, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if err != nil {
				t.Fatal(err)
			}
			defer remove(t, kind, stored.GetName())
			if diff := cmp.Diff(written.Object["spec"], common(stored.Object["spec"], written.Object["spec"])); diff != "" {
				t.Errorf("spec as it was stored (-written +stored):\n%s", diff)
			}
			typed, err := scheme.New(stored.GroupVersionKind())
			if err != nil {
				t.Fatal(err)
			}
			rewritten := through(t, stored.Object, typed)
			spellQuantities(t, stored.Object["spec"])
			spellQuantities(t, rewritten["spec"])
			if diff := cmp.Diff(stored.Object, rewritten); diff != "" {
				t.Errorf("through %T (-stored +rewritten):\n%s", typed, diff)
			}
		})
	}
}

func example(t *testing.T, path string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &o); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: normal(o).(map[string]any)}
}

// common is the part of stored that written has, too: defaults are left out.
func common(stored, written any) any {
	s, ok := stored.(map[string]any)
	w, isMap := written.(map[string]any)
	if !ok || !isMap {
		return stored
	}
	out := map[string]any{}
	for key := range w {
		if value, ok := s[key]; ok {
			out[key] = common(value, w[key])
		}
	}
	return out
}

// spellQuantities writes all quantities of a spec as Kubernetes does.
func spellQuantities(t *testing.T, value any) {
	t.Helper()
	m, _ := value.(map[string]any)
	for key, item := range m {
		if key != "limits" && key != "requests" && key != "capacity" {
			spellQuantities(t, item)
			continue
		}
		quantities := item.(map[string]any)
		for name, text := range quantities {
			q, err := resource.ParseQuantity(fmt.Sprint(text))
			if err != nil {
				t.Fatal(err)
			}
			quantities[name] = q.String()
		}
	}
}

// through reads an object into a Go type and writes it again.
func through(t *testing.T, o map[string]any, typed any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, typed); err != nil {
		t.Fatal(err)
	}
	if raw, err = json.Marshal(typed); err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return normal(out).(map[string]any)
}
