package lifecycle

import (
	"fmt"
	"slices"
	"time"
)

// Deadline reads the claim's hard deadline D (lifecycle rules 17.2). ok is false when none is set. An annotation that is no RFC 3339
// instant is an error: guessing would delete pods by force.
func Deadline(c *Claim) (at time.Time, ok bool, err error) {
	text, present := c.Annotations[DeadlineAnnotation]
	if !present {
		return time.Time{}, false, nil
	}
	at, err = time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("reading annotation %s of claim %s: %w; set it to an RFC 3339 time or remove it", DeadlineAnnotation, c.Name, err)
	}
	return at, true, nil
}

// NewDeadline returns the value for the deadline annotation of a claim that is being deleted, empty if there is nothing to write: no
// grace period, or an earlier decision stands (L-142 to L-144).
func NewDeadline(c *Claim) string {
	if c.GracePeriod == nil || !c.Deleting() {
		return ""
	}
	if _, present := c.Annotations[DeadlineAnnotation]; present {
		return ""
	}
	return c.Deleted.Add(*c.GracePeriod).UTC().Format(time.RFC3339)
}

// FinalizeStep is the next thing to do for a claim that is being deleted.
type FinalizeStep int

// The steps of lifecycle rules 17.3, in order.
const (
	// FinalizeNothing: the claim is not ours to finalize.
	FinalizeNothing FinalizeStep = iota
	// FinalizeDeadline: write the deadline annotation.
	FinalizeDeadline
	// FinalizeNodes: delete the nodes that are not being deleted yet, and wait for all of them to go.
	FinalizeNodes
	// FinalizeLaunch: a launch was begun whose outcome nobody knows; it has to be learned before the claim may go, or an instance leaks.
	FinalizeLaunch
	// FinalizeInstance: terminate the instance, until it is not found.
	FinalizeInstance
	// FinalizeDone: remove the finalizer.
	FinalizeDone
)

// Finalize decides the next step for a claim. Nodes are those with the claim's provider ID; intent is the recorded one.
func Finalize(c *Claim, nodes []Node, intent *Intent) FinalizeStep {
	switch {
	case !c.Deleting() || !c.Finalized:
		return FinalizeNothing
	case NewDeadline(c) != "":
		return FinalizeDeadline
	case c.ProviderID != "" && len(nodes) > 0 && (c.Is(Registered, True) || registeredNode(nodes)):
		return FinalizeNodes
	case c.ProviderID != "":
		return FinalizeInstance
	case intent.Open():
		return FinalizeLaunch
	default:
		return FinalizeDone
	}
}

// registeredNode reports whether pods may run on one of the nodes: its registration is finished, even if a crash kept that out of the claim's
// status. Without this a claim deleted at that moment would lose its instance undrained.
func registeredNode(nodes []Node) bool {
	return slices.ContainsFunc(nodes, func(n Node) bool { return n.Labels[RegisteredLabel] == "true" })
}

// InstanceGone decides whether a NotFound is to be believed: not for an instance younger than UnseenInstance that nothing has shown yet
// (LX20). Launched is the instance's launch time, or the time its claim was launched.
func InstanceGone(launched time.Time, seen bool, now time.Time) bool {
	return seen || now.Sub(launched) >= UnseenInstance
}
