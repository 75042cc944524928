// Package budget knows how many nodes of a pool may be disrupted, for which reason and when (disruption rules 7).
//
// A pool's budgets are parsed once (Of) and asked for an instant. One malformed budget closes the pool for every reason. Consumption is counted
// on the snapshot (Count): a node that is leaving, held by a recorded command or not Ready uses up a unit, whatever the reason.
package budget
