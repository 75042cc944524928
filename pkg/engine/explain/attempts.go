package explain

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/reason"
)

// refused matches EC2's message for a type that a zone has no room for.
var refused = regexp.MustCompile(`sufficient ([a-z0-9-]+\.[a-z0-9-]+) capacity in the Availability Zone you requested \(([a-z0-9-]+)\)`)

// attempts sums up the launches in a pool that failed since the pod became pending. The claims are mostly gone by then: their events remain, and the
// names begin with the pool's.
func (q *inquiry) attempts(pool string) *reason.Attempts {
	out := &reason.Attempts{Pool: pool}
	claims, zones := map[string]bool{}, map[string][]string{}
	for _, e := range q.facts.Events {
		if e.Object.Kind != "NodeClaim" || !launchFailure(e) || q.poolOf(e.Object.Name) != pool || e.Last.Before(q.pod.Since) {
			continue
		}
		claims[e.Object.Name] = true
		out.Count += max(e.Count, 1)
		if out.First.IsZero() || e.First.Before(out.First) {
			out.First = e.First
		}
		if !e.Last.Before(out.Last) {
			out.Last, out.Reason, out.Message = e.Last, e.Reason, e.Message
		}
		for _, m := range refused.FindAllStringSubmatch(e.Message, -1) {
			if !slices.Contains(zones[m[1]], m[2]) {
				zones[m[1]] = append(zones[m[1]], m[2])
			}
		}
	}
	out.Claims = len(claims)
	for _, typ := range slices.Sorted(maps.Keys(zones)) {
		slices.Sort(zones[typ])
		out.What = append(out.What, typ+" in "+strings.Join(zones[typ], ", "))
	}
	if out.Count == 0 {
		return nil
	}
	return out
}

// launchFailure tells events of launches that failed: the cloud's refusal, or the transition of condition Launched that Karpenter and karp publish.
func launchFailure(e Event) bool {
	switch e.Reason {
	case "InsufficientCapacityError", "LaunchFailed", "FailedLaunch":
		return true
	case "Launched":
		return strings.Contains(e.Message, "LaunchFailed") || strings.Contains(e.Message, "InsufficientCapacity")
	}
	return false
}

// poolOf is the pool that made a claim, by the label if the claim exists, else by its name: that of the pool and a suffix.
func (q *inquiry) poolOf(claim string) string {
	for _, c := range q.s.Claims {
		if c.Name == claim {
			return c.Pool
		}
	}
	i := strings.LastIndexByte(claim, '-')
	if i < 0 {
		return ""
	}
	return claim[:i]
}
