// Package engine decides. Decide and Recheck are its entry points (why-pending answers come from engine/explain), and all of them are
// pure: values in, values out.
//
// The same snapshot and policy give the same answer, byte for byte: there is no clock, randomness, I/O or dependence on the order of maps or
// goroutines in here, and search effort is counted in steps, never in seconds.
package engine

import (
	"strconv"
	"strings"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/buffer"
	"github.com/karp-sh/karp/pkg/engine/disrupt"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/engine/pack"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
)

// DefaultSteps is the step budget of a zero Policy. One step is about one attempt to put pods somewhere (some hundred nanoseconds), so that
// it lasts for about a minute.
const DefaultSteps = 200_000_000

// Policy is what is wanted of a decision, beyond what the cluster's settings say.
type Policy struct {
	// Steps limits the search; 0 means DefaultSteps. What was decided until then stays, and the plan says Cut.
	Steps int64
	// Fallback lets claims use spot and on-demand capacity where reservations would do but none is free. Simulations of disruption set it;
	// without it such pods are deferred (scheduling rules 15.3, 15.4).
	Fallback bool
	// Moved and Closed name Nodes (or claims without one): pods that run on the moved ones, which the snapshot must have as marked, do not go to
	// the closed ones. Simulations of consolidation set them: candidates, and nodes inside consolidateAfter.
	Moved, Closed []string
}

// Decide returns what to do for the pods that need a place: claims to create, placements on what exists, and for every pod left a verdict.
func Decide(s *cluster.Snapshot, p Policy) plan.Plan {
	if p.Steps == 0 {
		p.Steps = DefaultSteps
	}
	out := pack.Run(fit.Simulate(s, fit.Simulation{Moved: p.Moved, Closed: p.Closed}), pack.Options{Steps: p.Steps, Fallback: p.Fallback})
	buffer.Quiet(s, &out)
	out.Digest = s.Digest().String() + "/" + strconv.FormatInt(p.Steps, 10)
	if p.Fallback {
		out.Digest += "/fallback"
	}
	if len(p.Moved) > 0 {
		out.Digest += "/moved " + strings.Join(p.Moved, ",") + "/closed " + strings.Join(p.Closed, ",")
	}
	return out
}

// EffectiveZones counts the pods of phase Pending that a decision would place, by the zone that they can only go to; fit.FlexibleZone and fit.NoZone stand
// for several zones and for none (scheduling rules 28).
func EffectiveZones(s *cluster.Snapshot) map[string]int {
	out := map[string]int{}
	m := fit.New(s)
	for _, g := range m.Groups {
		n := 0
		for _, p := range g.Pods {
			if p.Phase == "Pending" && p.Buffer == "" {
				n++
			}
		}
		if n > 0 {
			out[m.EffectiveZone(g)] += n
		}
	}
	return out
}

// Disrupt returns which nodes to remove or replace: the commands of the first method that finds any.
func Disrupt(s *cluster.Snapshot, o disrupt.Options) plan.Disruption { return disrupt.Decide(s, o) }

// RecheckDisruption validates commands that were decided together against a newer snapshot, in their order; see disrupt.Recheck. The last look
// before a command is recorded is disrupt.Preflight.
func RecheckDisruption(s *cluster.Snapshot, commands ...plan.Command) []disrupt.Checked {
	return disrupt.Recheck(s, commands...)
}

// WhyKept answers for one node (or claim) and one reason, gate by gate, why it is still there; ok is false if there is none of that name. For many
// questions about one snapshot use disrupt.Inquire.
func WhyKept(s *cluster.Snapshot, name, why string) (_ reason.Kept, ok bool) {
	return disrupt.Inquire(s, disrupt.Options{}).Why(name, why)
}
