package telemetry

import "github.com/prometheus/client_golang/prometheus"

// State are the gauges of what the cluster looks like (lifecycle rules 26.1 to 26.3). Labels are given in the order of the comment beside each.
type State struct {
	// Amounts by node: the labels of NodeLabels, then resource_type. CPU in cores, all else in its unit.
	Allocatable, PodRequests, PodLimits, DaemonRequests, DaemonLimits, Overhead *Table
	// Lifetime is the age of nodes in seconds: the labels of NodeLabels.
	Lifetime *Table
	// Utilization is what is requested of what is allocatable, in percent: resource_type.
	Utilization *Table
	// PoolLimit and PoolUsage: resource_type, nodepool. PoolCost in dollars per hour: nodepool.
	PoolLimit, PoolUsage, PoolCost *Table
	// PoolCostErrors counts claims whose price is not known: nodepool.
	PoolCostErrors *prometheus.CounterVec
	// Pods has one series a pod: the labels of PodLabels.
	Pods *Table
	// Clocks of pods that have not come so far yet, in seconds: name, namespace.
	Unstarted, Unbound, ProvisioningUnbound, ProvisioningUnstarted, Undecided *Table
}

// NodeLabels are the labels of gauges about nodes.
func NodeLabels() []string {
	return []string{
		"node_name", "phase", "managed", "nodepool", "zone", "region", "instance_type", "arch", "os", "capacity_type", "windows_build",
		"instance_hypervisor", "instance_encryption_in_transit_supported", "instance_category", "instance_capability_flex", "instance_family",
		"instance_generation", "instance_size", "instance_local_nvme", "instance_cpu", "instance_cpu_manufacturer",
		"instance_cpu_sustained_clock_speed_mhz", "instance_memory", "instance_ebs_bandwidth", "instance_network_bandwidth", "instance_gpu_name",
		"instance_gpu_manufacturer", "instance_gpu_count", "instance_gpu_memory", "instance_accelerator_name", "instance_accelerator_manufacturer",
		"instance_accelerator_count", "zone_id", "instance_tenancy", "capacity_reservation_id", "capacity_reservation_type",
		"capacity_reservation_interruptible", "placement_group_id", "placement_group_partition",
	}
}

// PodLabels are the labels of the gauge of pods.
func PodLabels() []string {
	return []string{
		"name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type", "phase", "ready", "managed",
	}
}

func newState(s *set) State {
	amount := func(name, help string) *Table {
		return s.table("nodes", name, help, append(NodeLabels(), "resource_type")...)
	}
	clock := func(name, help string) *Table { return s.table("pods", name, help, "name", "namespace") }
	return State{
		Allocatable:    amount("allocatable", "What pods can use of nodes."),
		PodRequests:    amount("total_pod_requests", "What pods on nodes request, those of DaemonSets aside."),
		PodLimits:      amount("total_pod_limits", "What pods on nodes are limited to, those of DaemonSets aside."),
		DaemonRequests: amount("total_daemon_requests", "What pods of DaemonSets on nodes request."),
		DaemonLimits:   amount("total_daemon_limits", "What pods of DaemonSets on nodes are limited to."),
		Overhead:       amount("system_overhead", "Capacity of nodes that pods cannot use."),
		Lifetime:       s.table("nodes", "current_lifetime_seconds", "Age of nodes.", NodeLabels()...),
		Utilization:    s.table("", "cluster_utilization_percent", "What pods request of what is allocatable.", "resource_type"),
		PoolLimit:      s.table("nodepools", "limit", "Limits of NodePools.", "resource_type", "nodepool"),
		PoolUsage:      s.table("nodepools", "usage", "Capacity of the nodes of NodePools.", "resource_type", "nodepool"),
		PoolCost:       s.table("nodepools", "cost_total", "Price of the claims of NodePools per hour.", "nodepool"),
		PoolCostErrors: s.counter("nodepools", "cost_tracker_errors_total", "Claims whose price is not known.", "nodepool"),
		Pods:           s.table("pods", "state", "1 for each pod.", PodLabels()...),

		Unstarted:             clock("unstarted_time_seconds", "For how long the pod has not been ready."),
		Unbound:               clock("unbound_time_seconds", "For how long the pod has not been bound."),
		ProvisioningUnbound:   clock("provisioning_unbound_time_seconds", "For how long the pod has not been bound since a place was found for it."),
		ProvisioningUnstarted: clock("provisioning_unstarted_time_seconds", "For how long the pod has not been ready since a place was found for it."),
		Undecided:             clock("provisioning_scheduling_undecided_time_seconds", "For how long no place has been found for the pod."),
	}
}

// Disruption are the metrics of voluntary disruption (lifecycle rules 26.2, 26.4). Labels are given in the order of the comment beside each.
type Disruption struct {
	// Evaluation in seconds: reason, consolidation_type. Reasons are lower case here.
	Evaluation *prometheus.HistogramVec
	// Decisions and QueueFailures: decision, reason, consolidation_type. DecisionsByPool: nodepool before those.
	Decisions, DecisionsByPool, QueueFailures *prometheus.CounterVec
	// Eligible: reason.
	Eligible *prometheus.GaugeVec
	// Timeouts and FailedValidations: consolidation_type.
	Timeouts, FailedValidations *prometheus.CounterVec
	// Score and Moves: decision, nodepool, policy.
	Score *prometheus.HistogramVec
	Moves *prometheus.CounterVec
	// Allowed and Consuming: nodepool, reason, which is Drifted, Empty or Underutilized.
	Allowed, Consuming *prometheus.GaugeVec
}

func newDisruption(s *set) Disruption {
	what := []string{"decision", "reason", "consolidation_type"}
	d := Disruption{
		Evaluation:        s.histogram("voluntary_disruption", "decision_evaluation_duration_seconds", "One evaluation.", durationBuckets(), "reason", "consolidation_type"),
		Decisions:         s.counter("voluntary_disruption", "decisions_total", "Decisions to disrupt.", what...),
		DecisionsByPool:   s.counter("voluntary_disruption", "decisions_by_nodepool_total", "Decisions to disrupt, by NodePool.", append([]string{"nodepool"}, what...)...),
		QueueFailures:     s.counter("voluntary_disruption", "queue_failures_total", "Commands that were withdrawn.", what...),
		Eligible:          s.gauge("voluntary_disruption", "eligible_nodes", "Nodes that may be disrupted.", "reason"),
		Timeouts:          s.counter("voluntary_disruption", "consolidation_timeouts_total", "Evaluations that ran out of time.", "consolidation_type"),
		FailedValidations: s.counter("voluntary_disruption", "failed_validations_total", "Commands that a second look rejected.", "consolidation_type"),
		Score:             s.histogram("consolidation", "score", "Scores of moves.", []float64{.1, .25, .33, .5, 1, 2, 5, 10}, "decision", "nodepool", "policy"),
		Moves:             s.counter("consolidation", "moves_total", "Moves that were looked at.", "decision", "nodepool", "policy"),
		Allowed:           s.gauge("nodepools", "allowed_disruptions", "What budgets allow.", "nodepool", "reason"),
		Consuming:         s.gauge("nodepools", "nodes_consuming_budgets", "Nodes that count against budgets.", "nodepool", "reason"),
	}
	for _, kind := range []string{"multi", "single"} {
		d.Timeouts.WithLabelValues(kind)
	}
	return d
}

// Interruption are the metrics of the interruption queue (lifecycle rules 26.5).
type Interruption struct {
	// Received: message_type. Deleted has no labels; Age is that of messages, in seconds.
	Received *prometheus.CounterVec
	Deleted  prometheus.Counter
	Age      prometheus.Histogram
	// Unhealthy: category.
	Unhealthy *prometheus.CounterVec
}

func newInterruption(s *set) Interruption {
	return Interruption{
		Received: s.counter("interruption", "received_messages_total", "Messages received.", "message_type"),
		Deleted: add(s, prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "interruption", Name: "deleted_messages_total", Help: "Messages removed from the queue.",
		})),
		Age: add(s, prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: "interruption", Name: "message_queue_duration_seconds", Help: "Age of messages when they were received.", Buckets: durationBuckets(),
		})),
		Unhealthy: s.counter("interruption", "instance_status_unhealthy_total", "Instances whose checks failed.", "category"),
	}
}
