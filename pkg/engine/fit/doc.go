// Package fit answers whether a pod may go somewhere: onto an existing target or onto a node that a pool could launch.
//
// A Model is a snapshot made ready for many such questions: the batch of pods in groups, the pools as templates with their daemon overhead,
// the targets with what is free on them, and the topology counts. It is immutable apart from caches and belongs to one decision. Package pack
// asks it while it fills nodes, package explain to say why a pod waits. Rule numbers refer to the scheduling specification.
package fit
