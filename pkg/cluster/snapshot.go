package cluster

import "time"

// Snapshot is the state of the cluster at one instant.
type Snapshot struct {
	At         time.Time
	Pools      []*Pool
	Nodes      []*Node
	Claims     []*Claim
	Pods       []*Pod
	DaemonSets []*DaemonSet
	// Namespaces maps a namespace to its labels.
	Namespaces map[string]map[string]string
	Unknown    []Unknown
	Settings   Settings
}

// Builder keeps the cluster's state by deltas and yields snapshots. It is not safe for concurrent use.
type Builder struct {
	pools      map[string]*Pool
	nodes      map[string]*Node
	claims     map[string]*Claim
	pods       map[string]*Pod
	daemonSets map[string]*DaemonSet
	namespaces map[string]map[string]string
	settings   Settings
}
