package lifecycle

import (
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/constraint"
)

// Slice is one ResourceSlice of a node: the driver's pool, its generation and how many slices the pool declares to have.
type Slice struct {
	Driver, Pool      string
	Generation, Count int64
}

// Initialization is the outcome of one look at a registered node (lifecycle rules 9).
type Initialization struct {
	// Condition to set; its zero value leaves the condition alone.
	Condition Condition
	// Node gets the label karpenter.sh/initialized first when Done.
	Node string
	Done bool
}

// Devices is what is known of dynamically allocated devices; Ignored tells that they are not looked at.
type Devices struct {
	Ignored bool
	Slices  []Slice
}

// Initialize decides whether the claim's node is ready for pods. The first check that fails decides the reason.
func Initialize(c *Claim, nodes []Node, d Devices) Initialization {
	if !c.Is(Initialized, Unknown) || !c.Is(Registered, True) {
		return Initialization{}
	}
	if len(nodes) != 1 {
		return Initialization{Condition: waiting(Initialized, "NodeNotFound", "node not registered with the cluster")}
	}
	n := &nodes[0]
	if reason, message := obstacle(c, n, d); reason != "" {
		return Initialization{Condition: waiting(Initialized, reason, message)}
	}
	return Initialization{Condition: done(Initialized), Node: n.Name, Done: true}
}

func obstacle(c *Claim, n *Node, d Devices) (reason, message string) {
	if n.Ready != True {
		return "NodeNotReady", "node status condition Ready is " + string(n.Ready)
	}
	for _, t := range c.StartupTaints {
		if hasTaint(n.Taints, t) {
			return "StartupTaintsExist", "startup taint " + taintString(t) + " still exists"
		}
	}
	for _, t := range n.Taints {
		if Ephemeral(t) {
			return "KnownEphemeralTaintsExist", "known ephemeral taint " + taintString(t) + " still exists"
		}
	}
	if Closed(n) {
		return "KnownEphemeralTaintsExist", "known ephemeral taint " + UnschedulableTaint + ":NoSchedule still exists: pods of DaemonSets come first"
	}
	for _, name := range c.Requests.Names() {
		if c.Requests[name] != 0 && n.Allocatable[name] == 0 {
			return "ResourceNotRegistered", "resource " + name + " was requested but is not registered"
		}
	}
	if driver := unpublished(c, d); driver != "" {
		return "DRADriverPoolsNotPublished", "driver " + driver + " has not published a complete pool"
	}
	return "", ""
}

// Ephemeral reports whether the taint is one that goes away by itself while a node starts (lifecycle rules 1.1).
func Ephemeral(t constraint.Taint) bool {
	known := []constraint.Taint{
		{Key: "node.kubernetes.io/not-ready", Effect: constraint.NoSchedule},
		{Key: "node.kubernetes.io/not-ready", Effect: constraint.NoExecute},
		{Key: "node.kubernetes.io/unreachable", Effect: constraint.NoSchedule},
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: constraint.NoSchedule},
		{Key: UnregisteredTaint, Effect: constraint.NoExecute},
	}
	return hasTaint(known, t) || strings.HasPrefix(t.Key, "readiness.k8s.io/")
}

// unpublished returns the first driver the claim waits for that has no complete pool.
func unpublished(c *Claim, d Devices) string {
	if d.Ignored {
		return ""
	}
	for driver := range strings.SplitSeq(c.Annotations[DRADriversAnnotation], ",") {
		driver = strings.TrimSpace(driver)
		if driver != "" && !hasCompletePool(driver, d.Slices) {
			return driver
		}
	}
	return ""
}

// hasCompletePool reports whether some pool of the driver shows, at its highest generation, as many slices as it declares.
func hasCompletePool(driver string, slicesOfNode []Slice) bool {
	seen, newest := map[string]int64{}, map[string]Slice{}
	for _, s := range slicesOfNode {
		if s.Driver != driver {
			continue
		}
		old, ok := newest[s.Pool]
		switch {
		case !ok || s.Generation > old.Generation:
			newest[s.Pool], seen[s.Pool] = s, 1
		case s.Generation == old.Generation:
			seen[s.Pool]++
		}
	}
	return slices.ContainsFunc(slicesOfNode, func(s Slice) bool {
		top, ok := newest[s.Pool]
		return ok && s.Driver == driver && top.Count > 0 && seen[s.Pool] == top.Count
	})
}
