package telemetry

import (
	"errors"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the agent's own metrics. Labels are given in the order of the comment beside each.
type Metrics struct {
	// ClaimsCreated: reason, nodepool, min_values_relaxed. ClaimsTerminated: nodepool, capacity_type, zone.
	ClaimsCreated, ClaimsTerminated *prometheus.CounterVec
	// ClaimsDisrupted and PodsDisrupted: reason, nodepool, capacity_type, consolidation_policy, termination_mode.
	ClaimsDisrupted, PodsDisrupted *prometheus.CounterVec
	// ClaimTermination is deletion to the end of the finalizer, InstanceTermination the instance's part: nodepool. Seconds.
	ClaimTermination, InstanceTermination *prometheus.HistogramVec
	// NodesCreated and NodesTerminated: nodepool, zone. NodesDrained: nodepool.
	NodesCreated, NodesTerminated, NodesDrained *prometheus.CounterVec
	// NodeTermination: nodepool, seconds. NodeLifetime: nodepool, seconds.
	NodeTermination *prometheus.SummaryVec
	NodeLifetime    *prometheus.HistogramVec

	// StateNodes, StateSynced and StateUnsynced (seconds) describe the cluster state; without labels.
	StateNodes, StateSynced, StateUnsynced prometheus.Gauge

	// ClaimsUnhealthy: condition, nodepool, capacity_type, image_id.
	ClaimsUnhealthy *prometheus.CounterVec
	// State, Disruption and Interruption are further groups.
	State        State
	Disruption   Disruption
	Interruption Interruption
	// Conditions are the metrics of status conditions by the kind in lower case: nodeclaim, node, nodepool, ec2nodeclass, capacitybuffer.
	Conditions map[string]*Conditions

	// PodsStartup is creation to Ready, PodsBound creation to bound, PodsDecision first seen to first decision; seconds, without labels.
	PodsStartup             prometheus.Summary
	PodsBound, PodsDecision prometheus.Histogram
	// PodsProvisioningBound and PodsProvisioningStartup begin when a place was found for the pod; seconds, without labels.
	PodsProvisioningBound, PodsProvisioningStartup prometheus.Histogram
	// EvictionRequests: code. PodsDrained: reason.
	EvictionRequests, PodsDrained *prometheus.CounterVec

	// Scheduling is one scheduling run: controller, seconds. QueueDepth: controller, scheduling_id.
	Scheduling *prometheus.HistogramVec
	QueueDepth *prometheus.GaugeVec
	// UnfinishedWork is how long a run has lasted so far: controller, scheduling_id, seconds.
	UnfinishedWork *prometheus.GaugeVec
	// IgnoredPods have failed validation; UnschedulablePods: controller; PendingByZone: controller, zone.
	IgnoredPods                      prometheus.Gauge
	UnschedulablePods, PendingByZone *prometheus.GaugeVec

	// CloudDuration: controller, method, provider, seconds. CloudErrors: controller, method, provider, error.
	CloudDuration *prometheus.HistogramVec
	CloudErrors   *prometheus.CounterVec
	// LaunchFailures: zone, zone_id, capacity_type, reason. TerminationFailures: zone, zone_id.
	LaunchFailures, TerminationFailures *prometheus.CounterVec
	// AWS are the metrics of the AWS provider.
	AWS AWS
}

const namespace = "karpenter"

// durationBuckets are the buckets of most durations, in seconds (lifecycle rules 26).
func durationBuckets() []float64 {
	return []float64{
		0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5,
		6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60, 120, 150, 300, 450, 600,
	}
}

// lifetimeBuckets are 15 minutes to 30 days, in seconds.
func lifetimeBuckets() []float64 {
	const minute, hour, day = 60.0, 3600.0, 86400.0
	return []float64{
		15 * minute, 30 * minute, 45 * minute, hour, 2 * hour, 4 * hour, 6 * hour, 8 * hour, 10 * hour, 12 * hour, 16 * hour, 20 * hour,
		day, 2 * day, 3 * day, 5 * day, 10 * day, 15 * day, 20 * day, 25 * day, 30 * day,
	}
}

// objectives of summaries with their allowed errors.
func objectives() map[float64]float64 {
	return map[float64]float64{0: 0, 0.5: 0.01, 0.9: 0.01, 0.99: 0.001, 1: 0}
}

// set makes metrics and remembers them for registration.
type set struct{ all []prometheus.Collector }

func add[T prometheus.Collector](s *set, c T) T {
	s.all = append(s.all, c)
	return c
}

func (s *set) counter(subsystem, name, help string, labels ...string) *prometheus.CounterVec {
	return add(s, prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels))
}

func (s *set) gauge(subsystem, name, help string, labels ...string) *prometheus.GaugeVec {
	return add(s, prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels))
}

func (s *set) histogram(subsystem, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return add(s, prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets}, labels))
}

func (s *set) summary(subsystem, name, help string, labels ...string) *prometheus.SummaryVec {
	return add(s, prometheus.NewSummaryVec(prometheus.SummaryOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Objectives: objectives()}, labels))
}

// plainGauge returns the one series of a metric without labels.
func plainGauge(v *prometheus.GaugeVec) prometheus.Gauge { return v.WithLabelValues() }

// NewMetrics makes the metrics and registers them, with build information.
func NewMetrics(registry prometheus.Registerer, version, commit string) (*Metrics, error) {
	s := &set{}
	disruption := []string{"reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"}
	m := &Metrics{
		ClaimsCreated:       s.counter("nodeclaims", "created_total", "NodeClaims created.", "reason", "nodepool", "min_values_relaxed"),
		ClaimsTerminated:    s.counter("nodeclaims", "terminated_total", "NodeClaims whose finalizer was removed.", "nodepool", "capacity_type", "zone"),
		ClaimsDisrupted:     s.counter("nodeclaims", "disrupted_total", "NodeClaims deleted by the agent.", disruption...),
		PodsDisrupted:       s.counter("pods", "disruption_initiated_total", "Pods on nodes that the agent deleted.", disruption...),
		ClaimTermination:    s.histogram("nodeclaims", "termination_duration_seconds", "Deletion of a NodeClaim until its finalizer is removed.", prometheus.ExponentialBuckets(1, 2, 12), "nodepool"),
		InstanceTermination: s.histogram("nodeclaims", "instance_termination_duration_seconds", "Termination of an instance until it is gone.", prometheus.ExponentialBuckets(1, 2, 11), "nodepool"),
		NodesCreated:        s.counter("nodes", "created_total", "Nodes registered.", "nodepool", "zone"),
		NodesTerminated:     s.counter("nodes", "terminated_total", "Nodes whose finalizer was removed.", "nodepool", "zone"),
		NodesDrained:        s.counter("nodes", "drained_total", "Nodes drained.", "nodepool"),
		NodeTermination:     s.summary("nodes", "termination_duration_seconds", "Deletion of a Node until its finalizer is removed.", "nodepool"),
		NodeLifetime:        s.histogram("nodes", "lifetime_duration_seconds", "Age of Nodes at their removal.", lifetimeBuckets(), "nodepool"),

		StateNodes:    plainGauge(s.gauge("cluster_state", "node_count", "Nodes in cluster state.")),
		StateSynced:   plainGauge(s.gauge("cluster_state", "synced", "1 when cluster state is synced, else 0.")),
		StateUnsynced: plainGauge(s.gauge("cluster_state", "unsynced_time_seconds", "For how long cluster state has not been synced.")),

		ClaimsUnhealthy: s.counter("nodeclaims", "unhealthy_disrupted_total", "NodeClaims deleted because their node was unhealthy.", "condition", "nodepool", "capacity_type", "image_id"),
		State:           newState(s), Disruption: newDisruption(s), Interruption: newInterruption(s), Conditions: map[string]*Conditions{},

		PodsStartup:             add(s, prometheus.NewSummary(prometheus.SummaryOpts{Namespace: namespace, Subsystem: "pods", Name: "startup_duration_seconds", Help: "Creation of a pod until it is Ready.", Objectives: objectives()})),
		PodsBound:               add(s, prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: "pods", Name: "bound_duration_seconds", Help: "Creation of a pod until it is bound.", Buckets: durationBuckets()})),
		PodsDecision:            add(s, prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: "pods", Name: "scheduling_decision_duration_seconds", Help: "First sight of a pod until the first decision on it.", Buckets: durationBuckets()})),
		PodsProvisioningBound:   add(s, prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: "pods", Name: "provisioning_bound_duration_seconds", Help: "A place found for a pod until it is bound.", Buckets: durationBuckets()})),
		PodsProvisioningStartup: add(s, prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: "pods", Name: "provisioning_startup_duration_seconds", Help: "A place found for a pod until it is Ready.", Buckets: durationBuckets()})),
		EvictionRequests:        s.counter("pods", "eviction_requests_total", "Answers to evictions.", "code"),
		PodsDrained:             s.counter("pods", "drained_total", "Evictions and forced deletions accepted.", "reason"),

		Scheduling:        s.histogram("scheduler", "scheduling_duration_seconds", "One scheduling run.", durationBuckets(), "controller"),
		QueueDepth:        s.gauge("scheduler", "queue_depth", "Pods waiting in a scheduling run.", "controller", "scheduling_id"),
		UnfinishedWork:    s.gauge("scheduler", "unfinished_work_seconds", "Duration so far of a scheduling run.", "controller", "scheduling_id"),
		PendingByZone:     s.gauge("scheduler", "pending_pods_by_effective_zone_count", "Pending pods by the zone they can only go to.", "controller", "zone"),
		IgnoredPods:       plainGauge(s.gauge("scheduler", "ignored_pods_count", "Pods rejected before scheduling.")),
		UnschedulablePods: s.gauge("scheduler", "unschedulable_pods_count", "Pods without a place after a scheduling run.", "controller"),

		CloudDuration:       s.histogram("cloudprovider", "duration_seconds", "Calls of the cloud provider.", prometheus.DefBuckets, "controller", "method", "provider"),
		CloudErrors:         s.counter("cloudprovider", "errors_total", "Failed calls of the cloud provider.", "controller", "method", "provider", "error"),
		LaunchFailures:      s.counter("cloudprovider", "instance_launch_failures_total", "Errors in answers to launches.", "zone", "zone_id", "capacity_type", "reason"),
		TerminationFailures: s.counter("cloudprovider", "instance_termination_failures_total", "Instances that could not be terminated.", "zone", "zone_id"),
	}
	m.AWS = newAWS(s)
	old := newDeprecated(s)
	for name, kind := range map[string][2]string{
		"nodeclaim": {"karpenter.sh", "NodeClaim"}, "node": {"", "Node"}, "nodepool": {"karpenter.sh", "NodePool"}, "ec2nodeclass": {"karpenter.k8s.aws", "EC2NodeClass"},
		"capacitybuffer": {"autoscaling.x-k8s.io", "CapacityBuffer"},
	} {
		m.Conditions[name] = newConditions(s, kind[0], kind[1], name, old)
	}
	build := s.gauge("", "build_info", "1, with what the program was built from.", "version", "goversion", "goarch", "commit")
	build.WithLabelValues(version, runtime.Version(), runtime.GOARCH, commit).Set(1)
	var errs []error
	for _, c := range s.all {
		errs = append(errs, registry.Register(c))
	}
	return m, errors.Join(errs...)
}
