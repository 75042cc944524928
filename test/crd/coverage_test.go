package crd_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// refusals are what the cases provoked, by "<kind> <path>": messages, one per line. Items of lists show as [].
type refusals struct {
	mu   sync.Mutex
	seen map[string]string
}

var index = regexp.MustCompile(`\[\d+\]`)

func (r *refusals) add(kind string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]string{}
	}
	for _, cause := range causes(err) {
		key := kind + " " + index.ReplaceAllString(strings.TrimPrefix(cause.Field, "."), "[]")
		r.seen[key] += cause.Message + "\n"
	}
}

// expectAll fails for each rule, and for each restriction of a field, that no case ran into.
func (r *refusals) expectAll(t *testing.T) {
	t.Helper()
	for _, crd := range definitions(t) {
		if crd.Spec.Names.Kind == "DecisionRecord" {
			continue // ours alone: its bounds are many and alike
		}
		r.expect(t, crd.Spec.Names.Kind, "", crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
	}
}

func (r *refusals) expect(t *testing.T, kind, path string, s *apiextensionsv1.JSONSchemaProps) {
	t.Helper()
	for _, rule := range s.XValidations {
		if said := r.seen[kind+" "+path+rule.FieldPath] + r.seen[kind+" "+path]; !strings.Contains(said, rule.Message) {
			t.Errorf("%s %s: no case is refused by the rule %q", kind, path, rule.Message)
		}
	}
	if restricted(s) && r.seen[kind+" "+path] == "" {
		t.Errorf("%s %s: no case is refused by its schema", kind, path)
	}
	for name, p := range s.Properties {
		r.expect(t, kind, strings.TrimPrefix(path+"."+name, "."), &p)
	}
	if s.Items != nil && s.Items.Schema != nil {
		r.expect(t, kind, path+"[]", s.Items.Schema)
	}
}

func restricted(s *apiextensionsv1.JSONSchemaProps) bool {
	bounds := fmt.Sprint(s.MaxLength, s.MinLength, s.MaxItems, s.MinItems, s.MaxProperties, s.Minimum, s.Maximum)
	return s.Pattern != "" || len(s.Enum) > 0 || strings.Count(bounds, "<nil>") != 7
}
