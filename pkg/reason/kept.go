package reason

import (
	"time"

	"github.com/karp-sh/karp/pkg/units"
)

// The codes of why-kept in the order of the gates they belong to (one help page each).
const (
	// NotManaged: the node has no claim of a supported class.
	NotManaged Code = "NotManaged"
	// NoNode: the claim has no Node yet.
	NoNode Code = "NoNode"
	// HeldByCommand: a disruption command that is under way holds the node.
	HeldByCommand  Code = "HeldByCommand"
	NotInitialized Code = "NotInitialized"
	Deleting       Code = "Deleting"
	// Nominated: a scheduling pass has just chosen the node for a pod.
	Nominated        Code = "Nominated"
	DoNotDisruptNode Code = "DoNotDisruptNode"
	// NoSuchPool: the node's pool label is missing or names no pool.
	NoSuchPool Code = "NoSuchPool"
	// Unreadable: something that the decision depends on could not be read.
	Unreadable      Code = "Unreadable"
	DoNotDisruptPod Code = "DoNotDisruptPod"
	PDBBlocks       Code = "PDBBlocks"
	MultiplePDBs    Code = "MultiplePDBs"

	StaticPool Code = "StaticPool"
	// TypeUnknown: the node's instance type is not among those of its pool; LabelMissing: it lacks a label that consolidation needs.
	TypeUnknown      Code = "TypeUnknown"
	LabelMissing     Code = "LabelMissing"
	ConsolidationOff Code = "ConsolidationOff"
	BufferPods       Code = "BufferPods"
	PolicyWhenEmpty  Code = "PolicyWhenEmpty"
	TimerRunning     Code = "TimerRunning"
	// NotEmpty and NotDrifted: the reason asked about does not hold.
	NotEmpty   Code = "NotEmpty"
	NotDrifted Code = "NotDrifted"
	NoBudget   Code = "NoBudget"
	// BudgetMalformed: a budget of the pool cannot be read, so the pool allows nothing.
	BudgetMalformed Code = "BudgetMalformed"

	PriceUnknown    Code = "PriceUnknown"
	PodsWouldNotFit Code = "PodsWouldNotFit"
	// UninitializedTarget: pods would go to a node that is not initialized yet.
	UninitializedTarget  Code = "UninitializedTarget"
	NeedsMoreThanOneNode Code = "NeedsMoreThanOneNode"
	NoCheaperReplacement Code = "NoCheaperReplacement"
	// SavingTooSmall: a replacement would save less than the minimum.
	SavingTooSmall Code = "SavingTooSmall"
	// SameType: deleting some of the nodes does what replacing all of them by one of their own types would.
	SameType        Code = "SameType"
	SpotToSpotOff   Code = "SpotToSpotOff"
	SpotFlexibility Code = "SpotFlexibility"
	ScoreTooLow     Code = "ScoreTooLow"
	// NearOptimal: all nodes together cost hardly more than the least that is possible.
	NearOptimal Code = "NearOptimal"
	// InQueue: the node may go, after others.
	InQueue         Code = "InQueue"
	Churning        Code = "Churning"
	NotEvaluatedYet Code = "NotEvaluatedYet"
	WillGo          Code = "WillGo"
)

// GateState is whether a gate lets a node go.
type GateState string

// The states. A gate is skipped if it does not apply to the reason, or asks nothing because an earlier one leaves nothing to ask.
const (
	GateOpen    GateState = "open"
	GateClosed  GateState = "closed"
	GateUnknown GateState = "unknown"
	GateSkipped GateState = "skipped"
)

// GateName names a gate of why-kept.
type GateName string

// The gates in the order of the decision.
const (
	GateManaged       GateName = "managed"
	GateHeld          GateName = "held"
	GateInitialized   GateName = "initialized"
	GateDeleting      GateName = "deleting"
	GateNominated     GateName = "nominated"
	GateNode          GateName = "doNotDisruptNode"
	GatePool          GateName = "pool"
	GateReadable      GateName = "readable"
	GatePods          GateName = "doNotDisruptPods"
	GatePDBs          GateName = "podDisruptionBudgets"
	GateApplies       GateName = "applies" // empty, drifted, or open to consolidation
	GateType          GateName = "instanceType"
	GateTimer         GateName = "consolidateAfter"
	GateBudget        GateName = "budget"
	GateDelete        GateName = "delete"
	GateReplace       GateName = "replace"
	GateSpot          GateName = "spotToSpot"
	GateScore         GateName = "score"
	GateOpportunities GateName = "opportunities" // near the optimum, or behind others
)

// Gate is one condition for a node to go.
type Gate struct {
	Name  GateName
	State GateState
	// Code and Detail say why it is closed; Until is when it opens by itself, zero if it does not.
	Code   Code
	Detail string
	Until  time.Time
	// Count is the number the gate looked at (pods, budgets), Objects those that close it: pods as namespace/name, budgets, labels.
	Count   int
	Objects []string
}

// Kept is the answer to "why is this node still here?" for one reason of disruption.
type Kept struct {
	Node, Claim, Pool string
	At                time.Time
	// Reason is the one asked about: Empty, Drifted or Underutilized.
	Reason string
	// Code, Detail and Until are those of the first closed gate; WillGo if there is none.
	Code   Code
	Detail string
	Until  time.Time
	// Gates are all evaluated, also behind the first closed one.
	Gates []Gate

	InstanceType, Zone, CapacityType string
	Price                            units.Money
	// Empty and Drifted tell what holds of the node; Drift is the reason of the condition.
	Empty, Drifted bool
	Drift          string
	// Pods is the number of pods that would have to move, Cost the disruption cost.
	Pods int
	Cost float64
	// Allowed and Used are the pool's budget for the reason.
	Allowed, Used int
	// Delete and Replace are what simulations found, nil if they were not made.
	Delete  *DeleteTrial
	Replace *ReplaceTrial
	// Score is that of a Balanced pool, nil if there is none.
	Score *KeptScore
}

// DeleteTrial is whether the pods would fit on the other nodes.
type DeleteTrial struct {
	Fits bool
	// Pods that would not.
	Pods []PodMiss
}

// PodMiss is a pod that has no place, with the finding.
type PodMiss struct {
	Pod    Object
	Code   Code
	Detail string
}

// ReplaceTrial is what would take the node's place.
type ReplaceTrial struct {
	// Nodes is how many new nodes would be needed.
	Nodes int
	// Types are those that would do and are cheaper, by price; Fitting is how many would do at all.
	Types   []string
	Fitting int
	// Cheapest is the lowest price of a replacement, Saving what that saves.
	Cheapest, Saving units.Money
	CapacityType     string
	// Wanted is how many types spot-to-spot replacement demands, 0 if it does not apply.
	Wanted int
}

// KeptScore is the score of a move by itself in a Balanced pool.
type KeptScore struct {
	Saving, Disruption, Value, Threshold float64
}
