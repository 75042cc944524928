package crd_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

var block = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestPages checks the page of each kind: its examples are admitted, and it mentions every field that has no obvious home.
func TestPages(t *testing.T) {
	pages, err := filepath.Glob("../../pkg/apis/*/*/*.md")
	if err != nil || len(pages) != len(definitions(t)) {
		t.Fatalf("%d pages for %d kinds, %v", len(pages), len(definitions(t)), err)
	}
	client := installed(t)
	for _, path := range pages {
		t.Run(filepath.Base(path), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			page := string(raw)
			examples := block.FindAllStringSubmatch(page, -1)
			if len(examples) == 0 {
				t.Fatal("no example")
			}
			kind := ""
			for _, example := range examples {
				o := &unstructured.Unstructured{}
				if err := yaml.UnmarshalStrict([]byte(example[1]), &o.Object); err != nil {
					t.Fatal(err)
				}
				o.Object, kind = normal(o.Object).(map[string]any), o.GetKind()
				strict := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
				if _, err := resourceOf(t, client, o.Object).Create(t.Context(), o, strict); err != nil {
					t.Errorf("the example is refused: %v", err)
				}
			}
			for _, crd := range definitions(t) {
				if crd.Spec.Names.Kind == kind {
					spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
					mentions(t, block.ReplaceAllString(page, ""), "spec", &spec)
				}
			}
		})
	}
}

// mentions fails for each field below s that the page does not name. Taints and requirements are those of Kubernetes.
func mentions(t *testing.T, page, path string, s *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	for name, p := range s.Properties {
		if !regexp.MustCompile("[`.]" + name + "[`.]").MatchString(page) {
			t.Errorf("field %s.%s is not mentioned", path, name)
		}
		if !strings.HasSuffix(strings.ToLower(name), "taints") && name != "requirements" && name != "nodeClassRef" {
			mentions(t, page, path+"."+name, &p)
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		mentions(t, page, path+"[]", s.Items.Schema)
	}
}
