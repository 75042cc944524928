package telemetry_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/karp-sh/karp/pkg/telemetry"
)

// registrar notes what is registered.
type registrar struct {
	*prometheus.Registry
	all []prometheus.Collector
}

func (r *registrar) Register(c prometheus.Collector) error {
	r.all = append(r.all, c)
	return r.Registry.Register(c)
}

var described = regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)

// line writes a collector as the table does.
func line(t *testing.T, r *registrar, c prometheus.Collector) string {
	t.Helper()
	descs := make(chan *prometheus.Desc, 1)
	c.Describe(descs)
	m := described.FindStringSubmatch((<-descs).String())
	if m == nil {
		t.Fatalf("%T describes itself in an unknown form", c)
	}
	name, labels := m[1], strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
	text := strings.Join(append([]string{name}, labels...), " ")
	text = strings.ReplaceAll(text, strings.Join(telemetry.NodeLabels(), " "), "NODE")
	values := make([]string, len(labels))
	switch x := c.(type) {
	case *prometheus.CounterVec:
		return "counter " + text
	case *prometheus.SummaryVec:
		return "summary " + text
	case *prometheus.GaugeVec, *telemetry.Table:
		return "gauge " + text
	case *prometheus.HistogramVec:
		x.WithLabelValues(values...).Observe(1)
		return "histogram " + text + buckets(t, r, name)
	case prometheus.Gauge:
		return "gauge " + text
	case prometheus.Counter:
		return "counter " + text
	case prometheus.Histogram:
		x.Observe(1)
		if q := quantiles(t, r, name); q > 0 {
			return "summary " + text
		}
		return "histogram " + text + buckets(t, r, name)
	default:
		t.Fatalf("%s is a %T", name, c)
		return ""
	}
}

func buckets(t *testing.T, r *registrar, name string) string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			b := f.GetMetric()[0].GetHistogram().GetBucket()
			return fmt.Sprintf(" | %d %.5g", len(b), b[len(b)-1].GetUpperBound())
		}
	}
	return ""
}

func quantiles(t *testing.T, r *registrar, name string) int {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return len(f.GetMetric()[0].GetSummary().GetQuantile())
		}
	}
	return 0
}

// What is exposed is the table, no more and no less: dashboards and alerts made for Karpenter rest on it.
func TestTable(t *testing.T) {
	raw, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for l := range strings.Lines(string(raw)) {
		if l = strings.Join(strings.Fields(l), " "); l != "" && !strings.HasPrefix(l, "#") {
			want = append(want, l)
		}
	}
	r := &registrar{Registry: prometheus.NewRegistry()}
	if _, err := telemetry.NewMetrics(r, "v", "c"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range r.all {
		got = append(got, line(t, r, c))
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The series of a table are replaced as a whole.
func TestReplace(t *testing.T) {
	r := prometheus.NewRegistry()
	m, err := telemetry.NewMetrics(r, "v", "c")
	if err != nil {
		t.Fatal(err)
	}
	count := func() int {
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "karpenter_cluster_utilization_percent" {
				return len(f.GetMetric())
			}
		}
		return 0
	}
	m.State.Utilization.Replace(func(add func(float64, ...string)) { add(1, "cpu"); add(2, "memory"); add(3, "too", "many") })
	if got := count(); got != 2 {
		t.Errorf("%d series, want 2", got)
	}
	m.State.Utilization.Replace(func(func(float64, ...string)) {})
	if got := count(); got != 0 {
		t.Errorf("%d series are left", got)
	}
}
