package telemetry

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Observed is a condition as it was seen.
type Observed struct {
	Type, Status, Reason string
	Since                time.Time
}

// Conditions are the metrics of the status conditions of one kind of object (lifecycle rules 26.6), in their own form and in the older one that
// all kinds share.
type Conditions struct {
	group, kind string

	transition, deletionTook *prometheus.HistogramVec
	transitions              *prometheus.CounterVec
	count, seconds, deletion *prometheus.GaugeVec
	old                      *deprecated
}

// deprecated are the metrics that all kinds but nodes share; their labels are group and kind instead of labels of the object.
type deprecated struct {
	transition, deletionTook *prometheus.HistogramVec
	transitions              *prometheus.CounterVec
	count, seconds, deletion *prometheus.GaugeVec
}

// Subject names the object that conditions are about; Extra are the values of the kind's own labels.
type Subject struct {
	Namespace, Name string
	Extra           []string
}

// Labels of conditions by kind, beyond those of all kinds.
func conditionLabels(kind string) []string {
	switch kind {
	case "nodeclaim":
		return []string{"karpenter_sh_nodepool", "karpenter_k8s_aws_ec2nodeclass"}
	case "node":
		return []string{"karpenter_sh_nodepool", "karpenter_k8s_aws_ec2nodeclass", "karpenter_sh_initialized"}
	}
	return nil
}

func (s *set) operatorGauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return add(s, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "operator", Name: name, Help: help}, labels))
}

func (s *set) operatorCounter(name, help string, labels ...string) *prometheus.CounterVec {
	return add(s, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "operator", Name: name, Help: help}, labels))
}

func (s *set) operatorHistogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return add(s, prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "operator", Name: name, Help: help, Buckets: buckets}, labels))
}

func newDeprecated(s *set) *deprecated {
	one := []string{"group", "kind", "namespace", "name", "type", "status", "reason"}
	return &deprecated{
		transition:   s.operatorHistogram("status_condition_transition_seconds", "Deprecated: time in the previous status.", prometheus.DefBuckets, "group", "kind", "type", "status"),
		transitions:  s.operatorCounter("status_condition_transitions_total", "Deprecated: transitions of conditions.", "group", "kind", "type", "status", "reason"),
		count:        s.operatorGauge("status_condition_count", "Deprecated: conditions as they are.", one...),
		seconds:      s.operatorGauge("status_condition_current_status_seconds", "Deprecated: time in the present status.", one...),
		deletion:     s.operatorGauge("termination_current_time_seconds", "Deprecated: time since the deletion.", "group", "kind", "namespace", "name"),
		deletionTook: s.operatorHistogram("termination_duration_seconds", "Deprecated: time from deletion to the end.", prometheus.DefBuckets, "group", "kind"),
	}
}

func newConditions(s *set, group, kind, name string, old *deprecated) *Conditions {
	extra := conditionLabels(name)
	one := append([]string{"namespace", "name", "type", "status", "reason"}, extra...)
	buckets := prometheus.ExponentialBuckets(0.5, 2, 15)
	if name == "ec2nodeclass" {
		buckets = prometheus.DefBuckets
	}
	if name == "node" {
		old = nil
	}
	return &Conditions{
		group: group, kind: kind, old: old,
		transition:   s.operatorHistogram(name+"_status_condition_transition_seconds", "Time in the previous status.", buckets, append([]string{"type", "status"}, extra...)...),
		transitions:  s.operatorCounter(name+"_status_condition_transitions_total", "Transitions of conditions.", append([]string{"type", "status", "reason"}, extra...)...),
		count:        s.operatorGauge(name+"_status_condition_count", "Conditions as they are.", one...),
		seconds:      s.operatorGauge(name+"_status_condition_current_status_seconds", "Time in the present status.", one...),
		deletion:     s.operatorGauge(name+"_termination_current_time_seconds", "Time since the deletion.", append([]string{"namespace", "name"}, extra...)...),
		deletionTook: s.operatorHistogram(name+"_termination_duration_seconds", "Time from deletion to the end.", buckets, extra...),
	}
}

// with appends the object's own labels.
func (o Subject) with(first ...string) []string { return append(first, o.Extra...) }

// Transition counts that a condition has changed its status. Previous is nil at the first sighting, which counts as True or False only.
func (m *Conditions) Transition(o Subject, previous *Observed, c Observed) {
	if previous == nil && c.Status == "Unknown" {
		return
	}
	m.transitions.WithLabelValues(o.with(c.Type, c.Status, c.Reason)...).Inc()
	if m.old != nil {
		m.old.transitions.WithLabelValues(m.group, m.kind, c.Type, c.Status, c.Reason).Inc()
	}
	if previous == nil {
		return
	}
	took := c.Since.Sub(previous.Since).Seconds()
	m.transition.WithLabelValues(o.with(c.Type, previous.Status)...).Observe(took)
	if m.old != nil {
		m.old.transition.WithLabelValues(m.group, m.kind, c.Type, previous.Status).Observe(took)
	}
}

// Present shows the condition as it is now.
func (m *Conditions) Present(o Subject, c Observed, now time.Time) {
	labels := o.with(o.Namespace, o.Name, c.Type, c.Status, c.Reason)
	m.count.WithLabelValues(labels...).Set(1)
	m.seconds.WithLabelValues(labels...).Set(now.Sub(c.Since).Seconds())
	if m.old != nil {
		labels = []string{m.group, m.kind, o.Namespace, o.Name, c.Type, c.Status, c.Reason}
		m.old.count.WithLabelValues(labels...).Set(1)
		m.old.seconds.WithLabelValues(labels...).Set(now.Sub(c.Since).Seconds())
	}
}

// Past removes what Present showed of the condition.
func (m *Conditions) Past(o Subject, c Observed) {
	labels := o.with(o.Namespace, o.Name, c.Type, c.Status, c.Reason)
	m.count.DeleteLabelValues(labels...)
	m.seconds.DeleteLabelValues(labels...)
	if m.old != nil {
		labels = []string{m.group, m.kind, o.Namespace, o.Name, c.Type, c.Status, c.Reason}
		m.old.count.DeleteLabelValues(labels...)
		m.old.seconds.DeleteLabelValues(labels...)
	}
}

// Deleting shows for how long the object has been deleted.
func (m *Conditions) Deleting(o Subject, since, now time.Time) {
	m.deletion.WithLabelValues(o.with(o.Namespace, o.Name)...).Set(now.Sub(since).Seconds())
	if m.old != nil {
		m.old.deletion.WithLabelValues(m.group, m.kind, o.Namespace, o.Name).Set(now.Sub(since).Seconds())
	}
}

// Same reports whether two subjects have the same labels.
func (o Subject) Same(other Subject) bool {
	return o.Namespace == other.Namespace && o.Name == other.Name && slices.Equal(o.Extra, other.Extra)
}

// Moved removes what Deleting showed under labels that the object does not have any more.
func (m *Conditions) Moved(o Subject) { m.deletion.DeleteLabelValues(o.with(o.Namespace, o.Name)...) }

// Gone removes what Deleting showed, and counts how long the end took if the object was deleted.
func (m *Conditions) Gone(o Subject, since, now time.Time) {
	m.deletion.DeleteLabelValues(o.with(o.Namespace, o.Name)...)
	if m.old != nil {
		m.old.deletion.DeleteLabelValues(m.group, m.kind, o.Namespace, o.Name)
	}
	if since.IsZero() {
		return
	}
	m.deletionTook.WithLabelValues(o.Extra...).Observe(now.Sub(since).Seconds())
	if m.old != nil {
		m.old.deletionTook.WithLabelValues(m.group, m.kind).Observe(now.Sub(since).Seconds())
	}
}
