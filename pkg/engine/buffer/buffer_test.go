package buffer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/buffer"
	"github.com/karp-sh/karp/pkg/units"
)

func TestSize(t *testing.T) {
	n := func(v int32) *int32 { return &v }
	cpu1 := units.List{units.CPU: 1000, units.Pods: 1}
	tests := []struct {
		name string
		wish buffer.Wish
		want int32
	}{
		{"S-390 replicas", buffer.Wish{Replicas: n(5)}, 5},
		{"S-390 percentage", buffer.Wish{Percentage: n(20), Scalable: n(10)}, 2},
		{"S-390 the larger", buffer.Wish{Replicas: n(8), Percentage: n(20), Scalable: n(10)}, 8},
		{"S-390 limited", buffer.Wish{Replicas: n(10), Limits: units.List{units.CPU: 3000}, Request: cpu1}, 3},
		{"S-390 rounded up", buffer.Wish{Percentage: n(35), Scalable: n(10)}, 4},
		{"S-390 limits only", buffer.Wish{Limits: units.List{units.CPU: 5000}, Request: cpu1}, 5},
		{"S-391 at least one", buffer.Wish{Percentage: n(1), Scalable: n(3)}, 1},
		{"S-391 half of one", buffer.Wish{Percentage: n(50), Scalable: n(1)}, 1},
		{"S-391 of no replicas (X15)", buffer.Wish{Percentage: n(50), Scalable: n(0), Limits: units.List{units.CPU: 5000}, Request: cpu1}, 0},
		{"S-391 the tighter limit", buffer.Wish{Limits: units.List{units.CPU: 10000, units.Memory: 4 << 30}, Request: units.List{units.CPU: 2000, units.Memory: 1 << 30}}, 4},
		{"S-391 limit of what is not requested", buffer.Wish{Replicas: n(4), Limits: units.List{"nvidia.com/gpu": 1}, Request: cpu1}, 4},
		{"S-391 nothing set", buffer.Wish{Request: cpu1}, 0},
		{"a limit of nothing", buffer.Wish{Replicas: n(4), Limits: units.List{units.CPU: 0}, Request: cpu1}, 0},
		{"pods are no limit", buffer.Wish{Replicas: n(4), Limits: units.List{units.Pods: 1}, Request: cpu1}, 4},
		{"percentage without workload", buffer.Wish{Percentage: n(50), Limits: units.List{units.CPU: 2000}, Request: cpu1}, 2},
	}
	for _, tt := range tests {
		if got := tt.wish.Size(); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestPods(t *testing.T) {
	b := buffer.Buffer{Namespace: "shop", Name: "spare", UID: "u", Replicas: 2, Labels: map[string]string{"app": "web"},
		Shape: cluster.NewShape(cluster.Shape{Requests: units.List{units.CPU: 100}, Volumes: []cluster.Volume{{Claim: "data"}}, Priority: 7})}
	pods := b.Pods()
	if len(pods) != 2 {
		t.Fatalf("%d pods, want 2", len(pods))
	}
	p := pods[1]
	if diff := cmp.Diff([]string{"u-2", "capacity-buffer-spare-2", "shop", "shop/spare", "web"}, []string{p.UID, p.Name, p.Namespace, p.Buffer, p.Labels["app"]}); diff != "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	if p.Shape.Priority != buffer.Priority || len(p.Shape.Volumes) != 0 || p.Shape.Namespace != "shop" {
		t.Errorf("shape %+v", p.Shape)
	}
	b.Replicas = 2_000_000_000
	if n := len(b.Pods()); n != buffer.MaxPods {
		t.Errorf("%d pods of a mistyped buffer, want %d", n, buffer.MaxPods)
	}
}

func TestJudge(t *testing.T) {
	tests := []struct {
		name     string
		ready    bool
		replicas int32
		outcome  buffer.Outcome
		want     string // empty: unchanged
	}{
		{"S-398 not ready", false, 3, buffer.Outcome{}, buffer.NotReadyForProvisioning},
		{"S-398 empty", true, 0, buffer.Outcome{}, buffer.BufferEmpty},
		{"S-392", true, 3, buffer.Outcome{New: 3}, buffer.RequiresNewCapacity},
		{"failed", true, 3, buffer.Outcome{Existing: 2, Failed: 1}, buffer.RequiresNewCapacity},
		{"S-393", true, 3, buffer.Outcome{Existing: 3}, buffer.FitsExistingCapacity},
		{"saw none", true, 3, buffer.Outcome{}, ""},
		{"saw fewer", true, 3, buffer.Outcome{Existing: 2}, ""},
	}
	for _, tt := range tests {
		got, ok := buffer.Judge(tt.ready, tt.replicas, tt.outcome)
		if got.Reason != tt.want || ok != (tt.want != "") || got.OK != (tt.want == buffer.FitsExistingCapacity) {
			t.Errorf("%s: %+v %v, want %q", tt.name, got, ok, tt.want)
		}
	}
}
