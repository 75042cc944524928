package cli_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// schema is as much of JSON Schema as the reports need.
type schema struct {
	Schema     string            `json:"$schema"`
	Ref        string            `json:"$ref"`
	Defs       map[string]schema `json:"$defs"`
	Type       string            `json:"type"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	Additional *schema           `json:"additionalProperties"`
}

// check lists where a value is not as the schema says, fields that it does not declare included.
func (s schema) check(at string, v any, defs map[string]schema) []string {
	if s.Ref != "" {
		return defs[strings.TrimPrefix(s.Ref, "#/$defs/")].check(at, v, defs)
	}
	var bad []string
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			p, declared := s.Properties[k]
			switch {
			case declared:
				bad = append(bad, p.check(at+"."+k, x, defs)...)
			case s.Additional != nil:
				bad = append(bad, s.Additional.check(at+"."+k, x, defs)...)
			default:
				bad = append(bad, at+"."+k+" is not declared")
			}
		}
		for _, r := range s.Required {
			if _, ok := v[r]; !ok {
				bad = append(bad, at+"."+r+" is missing")
			}
		}
		bad = append(bad, s.want(at, "object")...)
	case []any:
		bad = s.want(at, "array")
		for i, x := range v {
			if s.Items != nil {
				bad = append(bad, s.Items.check(fmt.Sprintf("%s[%d]", at, i), x, defs)...)
			}
		}
	case string:
		bad = s.want(at, "string")
	case bool:
		bad = s.want(at, "boolean")
	case float64:
		bad = s.want(at, "number", "integer")
	case nil:
		bad = []string{at + " is null"}
	}
	return bad
}

func (s schema) want(at string, types ...string) []string {
	if slices.Contains(types, s.Type) {
		return nil
	}
	return []string{fmt.Sprintf("%s is %v, declared %s", at, types, s.Type)}
}

func schemaNamed(t *testing.T, kind string) schema {
	t.Helper()
	var s schema
	got := run(t, nil, "schema", kind)
	if err := json.Unmarshal([]byte(got.out), &s); err != nil {
		t.Fatalf("schema %s: %v: %s%s", kind, err, got.out, got.err)
	}
	if s.Schema != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("schema %s is of %q", kind, s.Schema)
	}
	return s
}

// TestReportsFollowSchema holds the reports of all cases against their schemas.
func TestReportsFollowSchema(t *testing.T) {
	check := func(kind, out string) {
		t.Helper()
		var v any
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			t.Fatalf("%s: %v: %s", kind, err, out)
		}
		s := schemaNamed(t, kind)
		if bad := s.check(kind, v, s.Defs); len(bad) > 0 {
			t.Errorf("%s", strings.Join(bad, "\n"))
		}
	}
	for _, c := range whyCases() {
		dir := filepath.Join(t.TempDir(), "cluster")
		expandScenario(t, c.scenario, dir)
		check("PendingReport", run(t, nil, "why-pending", c.pod, "-n", c.namespace, "--snapshot", dir, "-o", "json").out)
		check("PendingReportList", run(t, nil, "why-pending", "-A", "--snapshot", dir, "-o", "json").out)
	}
	l := newLive(t, "W08")
	check("SimulateReport", l.run("simulate", "--remove-node", "i1", "-o", "json").out)
	check("ScaleReport", l.run("scale", "nodepool", "ingress", "--replicas", "1", "--dry-run", "-o", "json").out)
	check("ScaleReport", l.run("scale", "nodepool", "default", "--replicas", "1", "-o", "json").out)
	check("Version", run(t, nil, "version", "-o", "json").out)
	if got := run(t, nil, "schema", "PendingReprot"); got.code != 2 || !strings.Contains(got.err, "PendingReport") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}
