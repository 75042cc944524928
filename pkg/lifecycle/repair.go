package lifecycle

import (
	"math"
	"strings"
	"time"
	"unicode"
)

// RepairPolicy says which status of a node condition is an illness, and for how long it is borne.
type RepairPolicy struct {
	Condition string
	Status    Status
	After     time.Duration
}

// RepairPolicies are those of AWS (lifecycle rules 16).
func RepairPolicies() []RepairPolicy {
	const usual, accelerated = 30 * time.Minute, 10 * time.Minute
	out := []RepairPolicy{{"Ready", False, usual}, {"Ready", Unknown, usual}, {"AcceleratedHardwareReady", False, accelerated}}
	for _, kind := range []string{"StorageReady", "NetworkingReady", "KernelReady", "ContainerRuntimeReady"} {
		out = append(out, RepairPolicy{kind, False, usual})
	}
	return out
}

// RepairBlocked is how soon a node is looked at again whose repair the number of unhealthy nodes forbids.
const RepairBlocked = 5 * time.Minute

// Ill returns the policy that calls for the node's repair first, and when; ok is false for a healthy node. A condition that the node does not
// have is no illness.
func Ill(n *Node, policies []RepairPolicy) (due time.Time, policy RepairPolicy, ok bool) {
	for _, p := range policies {
		c, has := n.Conditions[p.Condition]
		if !has || c.Status != p.Status {
			continue
		}
		if at := c.Since.Add(p.After); !ok || at.Before(due) {
			due, policy, ok = at, p, true
		}
	}
	return due, policy, ok
}

// RepairAllowed reports whether so few of the nodes are ill that it is not the environment's fault: at most 20 %, rounded up.
func RepairAllowed(ill, total int) bool {
	const share = 0.2
	return ill <= int(math.Ceil(share*float64(total)))
}

// RepairDeadline returns the deadline to write to the claim of a node under repair; ok is false if the one it has is past already.
func RepairDeadline(c *Claim, now time.Time) (value string, ok bool) {
	at, present, err := Deadline(c)
	if present && err == nil && !at.After(now) {
		return "", false
	}
	return now.UTC().Format(time.RFC3339), true
}

// SnakeCase writes a condition type as metrics do: AcceleratedHardwareReady is accelerated_hardware_ready.
func SnakeCase(name string) string {
	var out strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}
