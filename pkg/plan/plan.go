// Package plan is what the engine wants done: actions with the reasons for them, as plain data with a stable JSON form.
package plan

import (
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// Plan is the outcome of one decision. The same snapshot and policy give the same plan, byte for byte.
type Plan struct {
	// Digest identifies snapshot and policy the plan was made from.
	Digest string
	// Claims to create, in a stable order.
	Claims []Claim
	// Placements of pods on existing nodes and claims, by node name and then pod.
	Placements []Placement
	// Verdicts of all pods that were considered and not placed.
	Verdicts []Verdict
	// Pools that took no part, with the reason.
	Pools []PoolVerdict
	// Steps spent; Cut tells that the policy's budget ended the search early.
	Steps int64
	Cut   bool
}

// Claim is a NodeClaim to create.
type Claim struct {
	Pool, PoolUID         string
	PoolGeneration        int64
	NodeClass             cluster.ClassRef
	Labels, Annotations   map[string]string
	Requirements          []constraint.Expr
	Taints, StartupTaints []constraint.Taint
	Requests              units.List
	// Types are the instance types that can hold the pods, cheapest first; CapacityTypes those they can be bought with.
	Types, CapacityTypes                []string
	ExpireAfter, TerminationGracePeriod string
	// Pods are the UIDs of the pods the claim is for, in placement order.
	Pods []string
	// Price of the cheapest offering the claim allows, and which that is.
	Price         units.Money
	CheapestType  string
	CheapestZone  string
	CheapestBuyAs string
	// Funnel is how the types were narrowed down.
	Funnel reason.Funnel
}

// Placement puts one pod on an existing node or claim.
type Placement struct {
	Pod string // UID
	// Node is the Node's name, or empty if the target has no Node yet; Claim is the NodeClaim's name, or empty for an unmanaged node.
	Node, Claim string
}

// Verdict says why a pod was not placed.
type Verdict struct {
	Pod string // UID
	// Ignored tells that the pod failed validation and was not tried (scheduling rules 2.2); Silent that no event is due.
	Ignored, Silent bool
	Layer           reason.Layer
	Code            reason.Code
	Detail          string
	// Pools holds the finding for each pool in the order tried.
	Pools []PoolFinding
}

// Deferred tells that the pod waits for a capacity reservation to become free: it does not count as unschedulable (scheduling rules 15.3).
func (v *Verdict) Deferred() bool { return v.Silent && v.Code == reason.ReservationFull }

// PoolFinding is where one pool's funnel ended for a pod.
type PoolFinding struct {
	Pool   string
	Layer  reason.Layer
	Code   reason.Code
	Detail string
	Funnel reason.Funnel
}

// PoolVerdict says why a pool took no part.
type PoolVerdict struct {
	Pool   string
	Code   reason.Code
	Detail string
}
