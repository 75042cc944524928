package plan

import (
	"time"

	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// Method is a way of finding nodes to disrupt.
type Method string

// The methods in the order in which they are tried (disruption rules 2).
const (
	Emptiness   Method = "Emptiness"
	StaticDrift Method = "StaticDrift"
	Drift       Method = "Drift"
	MultiNode   Method = "MultiNodeConsolidation"
	SingleNode  Method = "SingleNodeConsolidation"
)

// Methods returns all methods in order.
func Methods() []Method { return []Method{Emptiness, StaticDrift, Drift, MultiNode, SingleNode} }

// Reason is why a method disrupts nodes, as budgets and conditions name it.
func (m Method) Reason() string {
	switch m {
	case Emptiness:
		return "Empty"
	case StaticDrift, Drift:
		return "Drifted"
	default:
		return "Underutilized"
	}
}

// ConsolidationType is the method's value of the metric label consolidation_type.
func (m Method) ConsolidationType() string {
	switch m {
	case Emptiness:
		return "empty"
	case MultiNode:
		return "multi"
	case SingleNode:
		return "single"
	default:
		return ""
	}
}

// Consolidates tells that the method's commands are validated a while after they were decided (disruption rules 16).
func (m Method) Consolidates() bool { return m == MultiNode || m == SingleNode }

// Eventual tells that pods which block are no obstacle where the claim has a termination grace period.
func (m Method) Eventual() bool { return m == StaticDrift || m == Drift }

// Disruption is the outcome of one decision about which nodes to remove or replace.
type Disruption struct {
	// Digest identifies snapshot and policy it was made from.
	Digest string
	// Commands to start. All are of methods with the same reason, and no node is in two of them.
	Commands []Command
	// Objections say why nodes are no candidates, or were no use to a method: for events. They come in the order of node names.
	Objections []Objection
	// Pools are the budgets of every pool and reason as they stand, by pool.
	Pools []PoolBudget
	// Malformed are the pools whose budgets cannot be evaluated.
	Malformed []PoolVerdict
	// Eligible is how many nodes each method looked at, budgets aside (the gauge eligible_nodes).
	Eligible []Eligible
	// Exhausted lists the methods that found nothing for want of opportunity: while nothing in the cluster changes they need not run again
	// (disruption rules 11).
	Exhausted []Method
	// NearOptimal tells that consolidation was not searched for, because all nodes together cost hardly more than the least that is possible.
	NearOptimal bool
	// Scored are the moves that were chosen, and those that Balanced pools refused: of several nodes only the last one, and only if none was chosen.
	Scored []Move
	// Steps spent; Cut tells that the policy's budget ended the search early.
	Steps int64
	Cut   bool
}

// Command removes nodes, after the claims that replace them have become ready.
type Command struct {
	// ID identifies the command by its content.
	ID     string
	Method Method
	// Candidates are the nodes that go, in the order they were chosen.
	Candidates []Candidate
	// Replacements are the claims to launch first; none for a deletion.
	Replacements []Claim
	// Placements are where the candidates' pods go on what exists: those nodes are to be nominated.
	Placements []Placement
	// Avoided are targets that take none of the pods, although they could: nodes that are better removed than filled.
	Avoided []string
	// Price is what the candidates cost an hour, Saving what is saved when every replacement gets its cheapest offering.
	Price, Saving units.Money
	// Scores are those of the Balanced pools among the sources.
	Scores []Score
}

// Decision is delete or replace, as metrics and events name it.
func (c *Command) Decision() string {
	if len(c.Replacements) > 0 {
		return "replace"
	}
	return "delete"
}

// Pools returns the distinct pools of the candidates, in order of appearance.
func (c *Command) Pools() []string {
	var out []string
	seen := map[string]bool{}
	for i := range c.Candidates {
		if p := c.Candidates[i].Pool; !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	return out
}

// Candidate is a node of a command, and the preconditions for touching it: the objects of these UIDs.
type Candidate struct {
	Node, NodeUID, Claim, ClaimUID, ProviderID string
	Pool, PoolUID                              string
	InstanceType, Zone, CapacityType           string
	// Price an hour, 0 if unknown. Cost is the reschedule disruption cost (disruption rules 6.2).
	Price units.Money
	Cost  float64
	// Pods are the UIDs of those that have to move.
	Pods []string
	// Policy is the pool's consolidation policy, TerminationGracePeriod the claim's; for metrics.
	Policy, TerminationGracePeriod string
}

// Objection is why a node is not disrupted.
type Objection struct {
	Node, NodeUID, Claim, ClaimUID, Pool string
	// Event is the reason of the event to publish: DisruptionBlocked, Unconsolidatable, or empty for none.
	Event string
	// Method that the objection is one of, empty if it holds for all.
	Method Method
	Code   reason.Code
	Detail string
	// Until is when the objection will end by itself, zero if it does not.
	Until time.Time
}

// PoolBudget is what one pool allows for one reason.
type PoolBudget struct {
	Pool, UID, Reason string
	// Nodes of the pool that count, how many of them may be disrupted at once, and how many are.
	Nodes, Allowed, Disrupting int
}

// Blocked tells that the pool lets no node go at all, whether any is going or not.
func (b *PoolBudget) Blocked() bool { return b.Nodes > 0 && b.Allowed == 0 }

// Eligible is the number of nodes a method looked at.
type Eligible struct {
	Method Method
	Nodes  int
}

// Score is how a Balanced pool judges a move (disruption rules 15).
type Score struct {
	Pool string
	// Saving and Disruption are shares of the pool's totals; Value is their quotient, Infinite if the disruption is none.
	Saving, Disruption, Value float64
	Infinite, Approved        bool
}

// Move is a move of consolidation that was approved, or that the score of a Balanced pool has refused.
type Move struct {
	Method   Method
	Nodes    []string
	Pools    []string
	Approved bool
	Scores   []Score
}
