package lifecycle

import (
	"fmt"
	"time"
)

const (
	// ConsistencyInterval is the least time between two checks of one claim.
	ConsistencyInterval = 10 * time.Minute
	// PodEventInterval is the least time between two notes of a pod event on one claim.
	PodEventInterval = 10 * time.Second

	consistentPercent = 90
)

// Inconsistencies compares what the node has with what the claim's instance type promised, for what was asked for (lifecycle rules 12). It
// returns one text for each resource of which there is less than 90 %. A claim that is not initialized has none.
func Inconsistencies(c *Claim, n *Node) []string {
	if c.Deleting() || !c.Is(Initialized, True) {
		return nil
	}
	var out []string
	for _, name := range c.Requests.Names() {
		expected, found := c.Capacity[name], n.Capacity[name]
		if c.Requests[name] == 0 || expected == 0 {
			continue
		}
		if percent := float64(found) / float64(expected) * 100; percent < consistentPercent {
			out = append(out, fmt.Sprintf("expected %d of resource %s, but found %d (%.1f%% of expected)", expected, name, found, percent))
		}
	}
	return out
}

// Consistent decides the condition that follows; ok is false if it is to be left alone, because it says so already.
func Consistent(c *Claim, issues []string) (cond Condition, ok bool) {
	if len(issues) > 0 {
		return Condition{Type: ConsistentState, Status: False, Reason: "ConsistencyCheckFailed", Message: Truncate(issues[0])}, true
	}
	return done(ConsistentState), !c.Is(ConsistentState, True)
}
