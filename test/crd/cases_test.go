package crd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// file is one file of cases; testdata/nodepool.yaml explains it.
type file struct {
	Base   map[string]any `json:"base"`
	Groups []group        `json:"groups"`
}

type group struct {
	Rule  string `json:"rule"`
	In    string `json:"in"`
	Cases []testCase
}

type testCase struct {
	Name   string         `json:"name"`
	Set    map[string]any `json:"set"`
	Repeat map[string]int `json:"repeat"` // a list or map with so many items; see repeat
	Then   map[string]any `json:"then"`
	Status map[string]any `json:"status"` // written to the status subresource after the creation
	Stored map[string]any `json:"stored"`
	Deny   paths          `json:"deny"`
	Says   string         `json:"says"`
	Strict string         `json:"strict"` // a field that the schema does not know
}

// paths is one path or a list of them.
type paths []string

func (p *paths) UnmarshalJSON(raw []byte) error {
	var one string
	if err := yaml.Unmarshal(raw, &one); err == nil {
		*p = paths{one}
		return nil
	}
	var many []string
	err := yaml.Unmarshal(raw, &many)
	*p = many
	return err
}

func load(t *testing.T, path string) file {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var f file
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f
}

// TestCases sends every case to the API server.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("reading testdata: %d files, %v", len(files), err)
	}
	client := installed(t)
	all := &refusals{}
	for _, path := range files {
		f := load(t, path)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			resource := resourceOf(t, client, f.Base)
			for _, g := range f.Groups {
				t.Run(g.Rule, func(t *testing.T) {
					for _, c := range g.Cases {
						t.Run(c.title(), func(t *testing.T) { run(t, all, resource, f.Base, g, c) })
					}
				})
			}
		})
	}
	all.expectAll(t)
}

func (c testCase) title() string {
	if c.Name != "" {
		return c.Name
	}
	text, _ := yaml.Marshal(c.Set)
	return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "; ")
}

// run is one case: one or two writes, what the last one gives, and what is stored then.
func run(t *testing.T, all *refusals, resource dynamic.ResourceInterface, base map[string]any, g group, c testCase) {
	o := object(base)
	for path, value := range c.Set {
		set(o.Object, join(g.In, path), value)
	}
	for what, n := range c.Repeat {
		if what == "message" {
			c.Status = longMessage(n)
			continue
		}
		repeat(t, o.Object, g.In, what, n)
	}
	if c.Strict != "" {
		expectUnknown(t, resource, o, c.Strict)
		return
	}
	ctx := t.Context()
	stored, err := resource.Create(ctx, o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err == nil {
		defer remove(t, resource, stored.GetName())
	}
	if (c.Then != nil || c.Status != nil) && err != nil {
		t.Fatalf("the object was refused before the write in question: %v", err)
	}
	if c.Then != nil {
		for path, value := range c.Then {
			set(stored.Object, join(g.In, path), value)
		}
		stored, err = resource.Update(ctx, stored, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	}
	if c.Status != nil {
		stored.Object["status"] = c.Status
		stored, err = resource.UpdateStatus(ctx, stored, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	}
	all.add(o.GetKind(), err)
	expect(t, err, g.In, c)
	if err != nil {
		return
	}
	for path, want := range c.Stored {
		if diff := cmp.Diff(normal(want), normal(get(stored.Object, join(g.In, path)))); diff != "" {
			t.Errorf("stored %s (-want +got):\n%s", join(g.In, path), diff)
		}
	}
}

// expect compares an answer of the API server with the fields that it should be about.
func expect(t *testing.T, err error, in string, c testCase) {
	t.Helper()
	if len(c.Deny) == 0 {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	if err == nil {
		t.Errorf("admitted, want an error about %v", c.Deny)
		return
	}
	var want []string
	for _, path := range c.Deny {
		want = append(want, join(in, path))
	}
	var got []string
	for _, cause := range causes(err) {
		if cause.Field == "<nil>" { // a summary of the others: rules did not run
			continue
		}
		field := strings.TrimPrefix(cause.Field, ".") // how the scale subresource writes it
		if !slices.Contains(got, field) {
			got = append(got, field)
		}
		if !strings.Contains(cause.Message, c.Says) {
			t.Errorf("message of %s is %q, without %q", cause.Field, cause.Message, c.Says)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields of the error (-want +got):\n%s%v", diff, err)
	}
}

func causes(err error) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return status.Status().Details.Causes
}

// expectUnknown wants the field dropped, and refused when the client asks for strictness.
func expectUnknown(t *testing.T, resource dynamic.ResourceInterface, o *unstructured.Unstructured, field string) {
	t.Helper()
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	if _, err := resource.Create(t.Context(), o, dry); err == nil || !strings.Contains(err.Error(), field) {
		t.Errorf("strict write: %v, want an error with %s", err, field)
	}
	dry.FieldValidation = metav1.FieldValidationIgnore
	if _, err := resource.Create(t.Context(), o, dry); err != nil {
		t.Errorf("lenient write: %v", err)
	}
}

func remove(t *testing.T, resource dynamic.ResourceInterface, name string) {
	// Not the context of the test, which may be over.
	if err := resource.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting %s: %v", name, err)
	}
}

// object is a copy of a base with a name for the API server to complete.
func object(base map[string]any) *unstructured.Unstructured {
	o := (&unstructured.Unstructured{Object: normal(base).(map[string]any)}).DeepCopy()
	o.SetGenerateName("case-")
	return o
}

// normal turns whole numbers into int64, as the client library wants and gives them.
func normal(value any) any {
	switch v := value.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case map[string]any:
		out := map[string]any{}
		for k, item := range v {
			out[k] = normal(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = normal(item)
		}
		return out
	}
	return value
}

// join puts a path below another. "." is the upper path itself.
func join(in, path string) string {
	switch {
	case path == ".":
		return in
	case in == "":
		return path
	}
	return in + "." + path
}

// set puts a value at a dotted path, nil removes it.
func set(o map[string]any, path string, value any) {
	steps := strings.Split(path, ".")
	for _, step := range steps[:len(steps)-1] {
		next, ok := o[step].(map[string]any)
		if !ok {
			next = map[string]any{}
			o[step] = next
		}
		o = next
	}
	last := steps[len(steps)-1]
	if value == nil {
		delete(o, last)
		return
	}
	o[last] = normal(value)
}

// get is the value at a dotted path, or nil.
func get(o map[string]any, path string) any {
	var value any = o
	for _, step := range strings.Split(path, ".") {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[step]
	}
	return value
}

// longMessage is a status with a condition whose message has n characters.
func longMessage(n int) map[string]any {
	return map[string]any{"conditions": []any{map[string]any{
		"type": "A", "status": "True", "reason": "X", "message": strings.Repeat("a", n), "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}
}

// repeat makes a list or map of n items, to test a bound.
func repeat(t *testing.T, o map[string]any, in, what string, n int) {
	t.Helper()
	list := func(item func(i int) any) []any {
		items := make([]any, n)
		for i := range items {
			items[i] = item(i)
		}
		return items
	}
	tags := map[string]any{}
	for i := range n {
		tags[fmt.Sprintf("t%d", i)] = "x"
	}
	constant := func(item any) func(int) any { return func(int) any { return item } }
	field, _, isTags := strings.Cut(what, ".")
	switch {
	case what == "labels":
		set(o, join(in, what), tags)
	case what == "key":
		set(o, join(in, "requirements"), []any{map[string]any{"key": strings.Repeat("a", n), "operator": "Exists"}})
	case what == "requirements":
		set(o, join(in, what), list(func(i int) any { return map[string]any{"key": fmt.Sprintf("k%d", i), "operator": "Exists"} }))
	case what == "reasons":
		set(o, join(in, "budgets"), []any{map[string]any{"nodes": "1", "reasons": list(constant("Empty"))}})
	case what == "budgets":
		set(o, join(in, what), list(constant(map[string]any{"nodes": "1"})))
	case what == "networkInterfaces":
		set(o, join(in, what), list(func(i int) any {
			return map[string]any{"networkCardIndex": int64(i), "deviceIndex": int64(0), "interfaceType": "interface"}
		}))
	case what == "blockDeviceMappings":
		set(o, join(in, what), list(func(i int) any { return map[string]any{"deviceName": fmt.Sprintf("d%d", i)} }))
	case isTags:
		set(o, join(in, field), []any{map[string]any{"tags": tags}})
	case strings.HasSuffix(what, "SelectorTerms"):
		set(o, join(in, what), list(constant(map[string]any{"tags": map[string]any{"a": "b"}})))
	default:
		t.Fatalf("cannot repeat %s", what)
	}
	if field == "amiSelectorTerms" {
		set(o, join(in, "amiFamily"), "Custom")
	}
}

// resourceOf is the client for the kind of an object.
func resourceOf(t *testing.T, client dynamic.Interface, base map[string]any) dynamic.ResourceInterface {
	t.Helper()
	o := unstructured.Unstructured{Object: base}
	for _, crd := range definitions(t) {
		if crd.Spec.Names.Kind == o.GetKind() && crd.Spec.Group == o.GroupVersionKind().Group {
			resource := client.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: o.GroupVersionKind().Version, Resource: crd.Spec.Names.Plural})
			if o.GetNamespace() != "" {
				return resource.Namespace(o.GetNamespace())
			}
			return resource
		}
	}
	t.Fatalf("no CRD of %s", o.GroupVersionKind())
	return nil
}
