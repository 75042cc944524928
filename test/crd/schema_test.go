package crd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

const manifests = "../../manifests/crds"

// definitions reads the CRDs.
func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("reading %s: %d files, %v", manifests, len(files), err)
	}
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		crds = append(crds, crd)
	}
	return crds
}

// problems runs the API server's own check of a CRD: structural schema, defaults, CEL that compiles and is cheap enough.
func problems(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensionsv1.AddToScheme, apiextensions.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	scheme.Default(crd)
	internal := &apiextensions.CustomResourceDefinition{}
	if err := scheme.Convert(crd, internal, nil); err != nil {
		t.Fatal(err)
	}
	internal.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
	return validation.ValidateCustomResourceDefinition(t.Context(), internal)
}

func TestSchemasAreValid(t *testing.T) {
	for _, crd := range definitions(t) {
		t.Run(crd.Name, func(t *testing.T) {
			for _, err := range problems(t, crd) {
				t.Error(err)
			}
		})
	}
}

// TestSchemaCheckWorks checks that the check above would see a rule that is wrong or too dear.
func TestSchemaCheckWorks(t *testing.T) {
	for rule, want := range map[string]string{
		"self.nothing == 1": "undefined field",
		"self.template.spec.requirements.all(r, r.values.all(v, r.values.all(w, v.matches(w))))": "cost",
	} {
		for _, crd := range definitions(t) {
			if crd.Spec.Names.Kind != "NodePool" {
				continue
			}
			spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			spec.XValidations = apiextensionsv1.ValidationRules{{Rule: rule}}
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
			if errs := problems(t, crd); !strings.Contains(errs.ToAggregate().Error(), want) {
				t.Errorf("rule %q: %v, want an error with %q", rule, errs, want)
			}
		}
	}
}
