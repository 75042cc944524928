package lifecycle_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/lifecycle"
)

func TestScaleDownOrder(t *testing.T) {
	now := time.Date(2026, 9, 8, 12, 0, 0, 0, time.UTC)
	old := now.Add(-700 * time.Hour)
	nodes := []lifecycle.StaticNode{
		{Claim: "protected", Launched: true, Protected: true, EvictionCost: 1},
		{Claim: "busy", Launched: true, EvictionCost: 9},
		{Claim: "quiet-b", Launched: true, EvictionCost: 2},
		{Claim: "quiet-a", Launched: true, EvictionCost: 2},
		{Claim: "expiring", Launched: true, EvictionCost: 9, Created: old, ExpireAfter: 720 * time.Hour},
		{Claim: "empty", Launched: true, Empty: true},
		{Claim: "unlaunched", EvictionCost: 50},
	}
	want := []string{"unlaunched", "empty", "expiring", "quiet-a", "quiet-b", "busy", "protected"}
	for n := 0; n <= len(nodes)+1; n++ {
		var got []string
		for _, leaving := range lifecycle.ScaleDown(nodes, n, now) {
			got = append(got, leaving.Claim)
		}
		if diff := cmp.Diff(want[:min(n, len(want))], append([]string{}, got...)); diff != "" {
			t.Errorf("ScaleDown by %d (-want +got):\n%s", n, diff)
		}
	}
}

func TestEvictionCost(t *testing.T) {
	for _, c := range []struct {
		deletion float64
		priority int32
		want     float64
	}{{0, 0, 1}, {1 << 27, 0, 2}, {0, 1 << 25, 2}, {-1 << 31, 0, -10}, {0, 2000000000, 10}} {
		if got := lifecycle.EvictionCost(c.deletion, c.priority); got != c.want {
			t.Errorf("EvictionCost(%v, %v) = %v, want %v", c.deletion, c.priority, got, c.want)
		}
	}
}
