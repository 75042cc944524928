// Package disrupt decides which nodes go: empty ones, drifted ones, and those whose pods are cheaper to run elsewhere.
//
// Decide tries the methods in their fixed order and returns the commands of the first that finds any; Recheck tells whether a command still holds
// in a newer snapshot; Why says for one node, gate by gate, what keeps it. All three share the code that decides. Every command is a promise
// that a simulation has kept: each pod that moves has a place on an initialized node or on one of the command's replacements. Rule numbers in
// comments refer to the disruption specification.
package disrupt
