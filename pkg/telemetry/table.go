package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Table is a gauge whose series are replaced as a whole, so that a scrape never sees half of a change and nothing outlives what it is about.
// The zero value is not usable; tables are made by NewMetrics.
type Table struct {
	desc *prometheus.Desc

	mu     sync.Mutex
	series []prometheus.Metric
}

var _ prometheus.Collector = (*Table)(nil)

// Replace takes the series that add is called with. Values of labels are given in the order of the table's labels.
func (t *Table) Replace(fill func(add func(value float64, labels ...string))) {
	var next []prometheus.Metric
	fill(func(value float64, labels ...string) {
		if m, err := prometheus.NewConstMetric(t.desc, prometheus.GaugeValue, value, labels...); err == nil {
			next = append(next, m)
		}
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.series = next
}

// Describe implements prometheus.Collector.
func (t *Table) Describe(out chan<- *prometheus.Desc) { out <- t.desc }

// Collect implements prometheus.Collector.
func (t *Table) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.series {
		out <- m
	}
}

func (s *set) table(subsystem, name, help string, labels ...string) *Table {
	return add(s, &Table{desc: prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, labels, nil)})
}
