package lifecycle

import (
	"time"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// Status of a condition, spelled as in the API.
type Status string

// The statuses of a condition. An absent condition reads as Unknown.
const (
	True    Status = "True"
	False   Status = "False"
	Unknown Status = "Unknown"
)

// Condition is a condition as read, or as it is to be written; then Since is ignored, because the writer derives it.
type Condition struct {
	Type            string
	Status          Status
	Reason, Message string
	// Since is the last transition time.
	Since time.Time
}

// done is a condition that became true for the usual reason.
func done(kind string) Condition { return Condition{Type: kind, Status: True, Reason: kind} }

// waiting is a condition that is not decided yet.
func waiting(kind, reason, message string) Condition {
	return Condition{Type: kind, Status: Unknown, Reason: reason, Message: message}
}

// Claim is what the rules need to know of a NodeClaim.
type Claim struct {
	Name, UID, Pool string
	// Owner is the UID of the NodePool that its owner reference names, empty if there is none.
	Owner                 string
	Created, Deleted      time.Time // Deleted is zero while the claim is not being deleted
	Labels, Annotations   map[string]string
	Taints, StartupTaints []constraint.Taint
	Requests              units.List
	Capacity              units.List
	ProviderID, NodeName  string
	// Finalized tells that our finalizer is on the object.
	Finalized bool
	// GracePeriod is spec.terminationGracePeriod, nil if unset; ExpireAfter spec.expireAfter, nil for Never.
	GracePeriod, ExpireAfter *time.Duration
	// Conditions by type.
	Conditions map[string]Condition
}

// Is reports whether the condition has the status; an absent condition is Unknown.
func (c *Claim) Is(kind string, status Status) bool { return c.condition(kind).Status == status }

func (c *Claim) condition(kind string) Condition {
	if have, ok := c.Conditions[kind]; ok {
		return have
	}
	// Root and dependent conditions exist from the claim's creation on (lifecycle rules 2.3).
	return Condition{Type: kind, Status: Unknown, Since: c.Created}
}

// Deleting reports whether somebody asked for the claim's end.
func (c *Claim) Deleting() bool { return !c.Deleted.IsZero() }

// Node is what the rules need to know of a Node.
type Node struct {
	Name, UID, ProviderID string
	Labels, Annotations   map[string]string
	Taints                []constraint.Taint
	// Ready is the status of the node's Ready condition, Unknown if it has none; Conditions are all it has, by type.
	Ready                 Status
	Conditions            map[string]Condition
	Capacity, Allocatable units.List
	Created, Deleted      time.Time
	// Finalized tells that our finalizer is on the object; Owners are the UIDs of its owners.
	Finalized bool
	Owners    []string
}

// Deleting reports whether somebody asked for the node's end.
func (n *Node) Deleting() bool { return !n.Deleted.IsZero() }

// NodeChange is what has to be written to a Node in one patch. The zero value is no change.
type NodeChange struct {
	// Labels and Annotations to set.
	Labels, Annotations map[string]string
	// RemoveTaints go first, by key and effect; AddTaints are appended.
	RemoveTaints, AddTaints []constraint.Taint
	// Finalize adds our finalizer, Own the reference to the claim.
	Finalize, Own bool
	// Close cordons the node until its daemons have their places; Open ends that.
	Close, Open bool
}

// Empty reports whether there is nothing to write.
func (c *NodeChange) Empty() bool {
	return len(c.Labels) == 0 && len(c.Annotations) == 0 && len(c.RemoveTaints) == 0 && len(c.AddTaints) == 0 && !c.Finalize && !c.Own && !c.Close && !c.Open
}

// sameTaint compares taints by key and effect, as everywhere in this package.
func sameTaint(a, b constraint.Taint) bool { return a.Key == b.Key && a.Effect == b.Effect }

func hasTaint(list []constraint.Taint, t constraint.Taint) bool {
	for _, have := range list {
		if sameTaint(have, t) {
			return true
		}
	}
	return false
}

func taintString(t constraint.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}

// missing returns the entries of want that have lacks or holds with another value.
func missing(want, have map[string]string) map[string]string {
	var out map[string]string
	for k, v := range want {
		if old, ok := have[k]; !ok || old != v {
			if out == nil {
				out = map[string]string{}
			}
			out[k] = v
		}
	}
	return out
}
