package telemetry

import "github.com/prometheus/client_golang/prometheus"

// AWS are the metrics of the AWS provider (AWS rules 20). Labels are given in the order of the comment beside each.
type AWS struct {
	// OfferingAvailable is 1 or 0, OfferingPrice in dollars per hour: instance_type, capacity_type, zone.
	OfferingAvailable, OfferingPrice *prometheus.GaugeVec
	// TypeCPU are the vCPUs of a type, TypeMemory its bytes as the hardware has them: instance_type.
	TypeCPU, TypeMemory *prometheus.GaugeVec
	// BatchTime is how long the first of united calls waited, in seconds, BatchSize how many they were: batcher.
	BatchTime, BatchSize *prometheus.HistogramVec
	// UserData is the size of a class's user data in bytes: nodeclass.
	UserData *prometheus.GaugeVec
	// Calls are attempts of AWS calls: service, operation, code (empty for a success). CallTime is their duration in seconds: service, operation.
	Calls    *prometheus.CounterVec
	CallTime *prometheus.HistogramVec
}

func newAWS(s *set) AWS {
	offering := []string{"instance_type", "capacity_type", "zone"}
	return AWS{
		OfferingAvailable: s.gauge("cloudprovider", "instance_type_offering_available", "1 when the offering can be bought, else 0.", offering...),
		OfferingPrice:     s.gauge("cloudprovider", "instance_type_offering_price_estimate", "Price of the offering in dollars per hour.", offering...),
		TypeCPU:           s.gauge("cloudprovider", "instance_type_cpu_cores", "vCPUs of the type.", "instance_type"),
		TypeMemory:        s.gauge("cloudprovider", "instance_type_memory_bytes", "Memory of the type.", "instance_type"),
		BatchTime:         s.histogram("cloudprovider", "batcher_batch_time_seconds", "Time the first of united calls waited.", prometheus.DefBuckets, "batcher"),
		BatchSize:         s.histogram("cloudprovider", "batcher_batch_size", "Calls that were united.", []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000}, "batcher"),
		UserData:          s.gauge("ec2nodeclasses", "userdata_bytes", "Size of the rendered user data.", "nodeclass"),
		Calls: add(s, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aws_sdk_go_request_attempts_total", Help: "Attempts of AWS calls.",
		}, []string{"service", "operation", "code"})),
		CallTime: add(s, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aws_sdk_go_request_attempt_duration_seconds", Help: "Duration of attempts of AWS calls.", Buckets: prometheus.DefBuckets,
		}, []string{"service", "operation"})),
	}
}
