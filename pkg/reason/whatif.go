package reason

import "github.com/karp-sh/karp/pkg/units"

// WhatIf is the effect of a change that was not made.
type WhatIf struct {
	// Pending pods before and after the change, those of the proposal included.
	Pending []PodEffect
	// Drift lists the nodes that are not drifted now and would be, by pool and name.
	Drift []DriftEffect
	// Rollover is what replacing the drifted and removed nodes comes to.
	Rollover Rollover
	// Launches are the nodes that pending pods would get after the change.
	Launches []Purchase
	// CostNow and CostAfter are the run rates per hour of all nodes of pools: today's, and after the change with its launches and replacements.
	CostNow, CostAfter units.Money
	// PriceUnknown counts nodes whose price is not known; they count as free.
	PriceUnknown int
	// Unknown lists what could not be read and could change the answer.
	Unknown []string
}

// PodEffect is what happens to a pod without a node.
type PodEffect struct {
	Pod Object
	// Before and After are nil where the pod has no place.
	Before, After *Place
	// Code of why it has no place after the change, empty if it has.
	Code Code
}

// Place is where a pod goes: on a node that exists, or one that would be launched.
type Place struct {
	Node   string
	Launch *Purchase
}

// DriftEffect is a node that the change would drift.
type DriftEffect struct {
	Pool, Claim, Node string
	// Static tells that the template changed, Keys the requirements that the node's labels no longer meet.
	Static bool
	Keys   []string
}

// Rollover is the replacement of nodes that have to go.
type Rollover struct {
	// Moved is the number of pods that find a place elsewhere.
	Moved int
	// Homeless are the running pods that would have no place.
	Homeless []PodEffect
	// Launches are the nodes that replace the old ones.
	Launches []Purchase
}
