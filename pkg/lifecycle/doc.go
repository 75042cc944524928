// Package lifecycle decides how a claim becomes a node, how the node is supervised, and how it is taken away again.
//
// It is made of pure functions and small state machines: what is known about a claim, its node, its pods and its instance goes in,
// and what has to be written or called comes out. Nothing here reads a clock, talks to an API server or to a cloud; the loops of
// package agent do that, in the order observe, decide, recheck, record, act. Times are given by the caller. The rules are those of the
// node lifecycle specification; the numbers L-... in tests name its scenarios.
package lifecycle

import "time"

// Names of labels, annotations, taints and finalizers that the rules depend on (lifecycle rules 1.1).
const (
	PoolLabel              = "karpenter.sh/nodepool"
	RegisteredLabel        = "karpenter.sh/registered"
	InitializedLabel       = "karpenter.sh/initialized"
	DoNotSyncTaintsLabel   = "karpenter.sh/do-not-sync-taints"
	CapacityTypeLabel      = "karpenter.sh/capacity-type"
	ExcludeBalancersLabel  = "node.kubernetes.io/exclude-from-external-load-balancers"
	ExcludeBalancersValue  = "karpenter"
	DeadlineAnnotation     = "karpenter.sh/nodeclaim-termination-timestamp"
	DoNotDisruptAnnotation = "karpenter.sh/do-not-disrupt"
	DRADriversAnnotation   = "karpenter.sh/requested-dra-drivers"
	IntentAnnotation       = "karp.sh/intent"
	UnregisteredTaint      = "karpenter.sh/unregistered"
	DisruptedTaint         = "karpenter.sh/disrupted"
	Finalizer              = "karpenter.sh/termination"
)

// Condition types of a claim (lifecycle rules 1.3).
const (
	Launched            = "Launched"
	Registered          = "Registered"
	Initialized         = "Initialized"
	Drifted             = "Drifted"
	DisruptionReason    = "DisruptionReason"
	Drained             = "Drained"
	VolumesDetached     = "VolumesDetached"
	InstanceTerminating = "InstanceTerminating"
	ConsistentState     = "ConsistentStateFound"
)

// Timers (lifecycle rules 1.2).
const (
	LaunchTimeout       = 5 * time.Minute
	RegistrationTimeout = 15 * time.Minute
	MinimumDrainTime    = 5 * time.Second
	StuckTerminating    = time.Minute
	DrainInterval       = time.Second
	VolumeInterval      = time.Second
	InstanceInterval    = 5 * time.Second
	// UnseenInstance is how long after a launch a NotFound is not believed when no read has shown the instance yet (LX20).
	UnseenInstance = time.Minute
	// messageLimit cuts error texts in conditions and events.
	messageLimit = 300
)

// Truncate cuts an error text to what a condition or an event may hold: 300 characters and "..." (L-022).
func Truncate(text string) string {
	runes := []rune(text)
	if len(runes) < messageLimit {
		return text
	}
	return string(runes[:messageLimit]) + "..."
}
