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
	// Calls are attempts of AWS calls, CallTime is their duration in seconds: service, action, code (empty for a success).
	Calls    *prometheus.CounterVec
	CallTime *prometheus.HistogramVec
}

// batchBuckets are sizes of batches, closer where most are (lifecycle rules 26.5).
func batchBuckets() []float64 {
	out := []float64{1, 2, 4, 5, 10, 15, 20, 25, 30}
	for _, part := range []struct{ step, to float64 }{{10, 100}, {25, 300}, {50, 600}, {100, 1000}} {
		for at := out[len(out)-1] + part.step; at <= part.to; at += part.step {
			out = append(out, at)
		}
	}
	return out
}

func newAWS(s *set) AWS {
	offering := []string{"instance_type", "capacity_type", "zone"}
	return AWS{
		OfferingAvailable: s.gauge("cloudprovider", "instance_type_offering_available", "1 when the offering can be bought, else 0.", offering...),
		OfferingPrice:     s.gauge("cloudprovider", "instance_type_offering_price_estimate", "Price of the offering in dollars per hour.", offering...),
		TypeCPU:           s.gauge("cloudprovider", "instance_type_cpu_cores", "vCPUs of the type.", "instance_type"),
		TypeMemory:        s.gauge("cloudprovider", "instance_type_memory_bytes", "Memory of the type.", "instance_type"),
		BatchTime:         s.histogram("cloudprovider", "batcher_batch_time_seconds", "Time the first of united calls waited.", durationBuckets(), "batcher"),
		BatchSize:         s.histogram("cloudprovider", "batcher_batch_size", "Calls that were united.", batchBuckets(), "batcher"),
		UserData:          s.gauge("ec2nodeclasses", "userdata_bytes", "Size of the rendered user data.", "nodeclass"),
		Calls: add(s, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aws_sdk_go_request_attempt_total", Help: "Attempts of AWS calls.",
		}, []string{"service", "action", "code"})),
		CallTime: add(s, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "aws_sdk_go_request_attempt_duration_seconds", Help: "Duration of attempts of AWS calls.", Buckets: prometheus.ExponentialBuckets(0.01, 1.5, 20),
		}, []string{"service", "action", "code"})),
	}
}
