package chart_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/karp-sh/karp/pkg/telemetry"
)

var metric = regexp.MustCompile(`\b(karpenter|operator|controller_runtime|workqueue|leader_election|aws_sdk_go|process|go)_[a-z0-9_]+`)

// Alerts and dashboard ask for metrics that the agent exposes, and every alert has a section in the guide.
func TestQueriesFindMetrics(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	data, err := os.ReadFile("../monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &dashboard); err != nil {
		t.Fatal(err)
	}
	var monitoring struct {
		Spec struct {
			Groups []struct {
				Rules []struct{ Alert, Expr string }
			}
		}
	}
	data, err = os.ReadFile("../monitoring/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, &monitoring); err != nil && !strings.Contains(err.Error(), "unknown field") {
		t.Fatal(err)
	}
	queries := map[string]string{}
	for _, p := range dashboard.Panels {
		for _, q := range p.Targets {
			queries[p.Title+": "+q.Expr] = q.Expr
		}
	}
	guide, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range monitoring.Spec.Groups[0].Rules {
		queries[r.Alert] = r.Expr
		if !regexp.MustCompile(`(?m)^### .*\b` + r.Alert + `\b`).Match(guide) {
			t.Errorf("manifests/README.md has no section about %s", r.Alert)
		}
	}
	if len(queries) < 30 {
		t.Fatalf("only %d queries", len(queries))
	}
	exposed := exposed(t)
	for where, q := range queries {
		for _, name := range metric.FindAllString(q, -1) {
			base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
			if !slices.Contains(exposed, name) && !slices.Contains(exposed, base) {
				t.Errorf("%s: nothing exposes %s", where, name)
			}
		}
	}
}

// names collects the names of what is registered.
type names struct{ list []string }

var fqName = regexp.MustCompile(`fqName: "([^"]+)"`)

func (n *names) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() { c.Describe(descs); close(descs) }()
	for d := range descs {
		n.list = append(n.list, fqName.FindStringSubmatch(d.String())[1])
	}
	return nil
}
func (n *names) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		_ = n.Register(c)
	}
}
func (n *names) Unregister(prometheus.Collector) bool { return false }

// exposed are the names of the agent's own metrics and of those that its libraries are documented to expose.
func exposed(t *testing.T) []string {
	t.Helper()
	n := &names{}
	if _, err := telemetry.NewMetrics(n, "v", "c"); err != nil {
		t.Fatal(err)
	}
	if len(n.list) < 20 {
		t.Fatalf("only %d metrics", len(n.list))
	}
	return append(n.list, "controller_runtime_reconcile_errors_total", "workqueue_depth", "leader_election_master_status", "process_resident_memory_bytes")
}
