package lifecycle_test

import (
	"testing"

	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/units"
)

func TestConsistency(t *testing.T) {
	const gib = 1 << 30
	ready := func(c *lifecycle.Claim) {
		registered(c)
		c.Conditions["Initialized"] = lifecycle.Condition{Type: "Initialized", Status: "True"}
		c.Requests, c.Capacity = units.List{"memory": gib}, units.List{"memory": 16 * gib, "cpu": 4000}
	}
	memory := func(n int64) lifecycle.Node {
		return node(func(n2 *lifecycle.Node) { n2.Capacity = units.List{"memory": n * gib, "cpu": 4000} })
	}
	for _, test := range []struct {
		name  string
		claim *lifecycle.Claim
		node  lifecycle.Node
		want  lifecycle.Status
	}{
		{"L-100 87.5 %", claim(ready), memory(14), lifecycle.False},
		{"L-101 93.75 %", claim(ready), memory(15), lifecycle.True},
		{"L-102 memory was not requested", claim(ready, func(c *lifecycle.Claim) { c.Requests = units.List{"cpu": 1000} }), memory(1), lifecycle.True},
		{"L-105 not initialized", claim(ready, registered), memory(1), lifecycle.True},
	} {
		t.Run(test.name, func(t *testing.T) {
			cond, ok := lifecycle.Consistent(test.claim, lifecycle.Inconsistencies(test.claim, &test.node))
			if !ok || cond.Status != test.want {
				t.Errorf("got %+v, %v; want %s", cond, ok, test.want)
			}
		})
	}
	already := claim(ready, func(c *lifecycle.Claim) {
		c.Conditions[lifecycle.ConsistentState] = lifecycle.Condition{Type: lifecycle.ConsistentState, Status: "True"}
	})
	if _, ok := lifecycle.Consistent(already, nil); ok {
		t.Error("a condition that is True already is written again")
	}
}
