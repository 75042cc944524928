package lifecycle

import (
	"slices"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/constraint"
)

// Hook is what one registration hook answered. A hook that is not Done is pending.
type Hook struct {
	Name string
	Done bool
	// After is when to ask again; zero means soon, through the rate limiter.
	After time.Duration
}

// Registration is the outcome of one attempt to register a claim's node (lifecycle rules 8).
type Registration struct {
	Condition Condition
	// Change to the node named Node; empty when there is nothing to write.
	Node   string
	Change NodeChange
	// Done tells that the node is registered once Change is written; status.nodeName becomes Node.
	Done bool
	// TaintMissing asks for the event UnregisteredTaintMissing.
	TaintMissing bool
	// After is when to look again; zero leaves that to events.
	After time.Duration
}

// Register decides how the nodes that carry the claim's provider ID are to be registered. The claim's labels must already hold what the
// hooks wrote (L-051).
func Register(c *Claim, nodes []Node, hooks []Hook) Registration {
	if len(nodes) == 0 || c.ProviderID == "" {
		return Registration{Condition: waiting(Registered, "NodeNotFound", "node not registered with the cluster")}
	}
	if len(nodes) > 1 {
		return Registration{Condition: Condition{
			Type: Registered, Status: False, Reason: "MultipleNodesFound", Message: "more than one node has provider ID " + c.ProviderID,
		}}
	}
	n := &nodes[0]
	unregistered := constraint.Taint{Key: UnregisteredTaint, Effect: constraint.NoExecute}
	tainted := hasTaint(n.Taints, unregistered)
	r := Registration{Node: n.Name, Change: Sync(c, n), TaintMissing: !tainted && n.Labels[RegisteredLabel] == ""}
	if pending := pendingHooks(hooks); len(pending) > 0 {
		r.Condition = waiting(Registered, "RegistrationHookPending", strings.Join(pending, ", "))
		r.After = shortest(hooks)
		return r
	}
	if tainted {
		r.Change.RemoveTaints = append(r.Change.RemoveTaints, unregistered)
	}
	if n.Labels[RegisteredLabel] != "true" {
		r.Change.Labels = overlay(r.Change.Labels, map[string]string{RegisteredLabel: "true"})
	}
	r.Condition, r.Done = done(Registered), true
	return r
}

// Sync returns what the node lacks of what its claim gives it: finalizer, owner, taints, annotations and labels.
func Sync(c *Claim, n *Node) NodeChange {
	change := NodeChange{
		Finalize:    !n.Finalized,
		Own:         !slices.Contains(n.Owners, c.UID),
		Labels:      missing(c.Labels, n.Labels),
		Annotations: missing(nodeAnnotations(c.Annotations), n.Annotations),
	}
	if n.Labels[DoNotSyncTaintsLabel] == "true" {
		return change
	}
	have := slices.Clone(n.Taints)
	for _, t := range slices.Concat(c.Taints, c.StartupTaints) {
		if !hasTaint(have, t) {
			have = append(have, t)
			change.AddTaints = append(change.AddTaints, t)
		}
	}
	return change
}

// nodeAnnotations leaves out karp's own bookkeeping, which belongs to the claim and may be large.
func nodeAnnotations(of map[string]string) map[string]string {
	out := make(map[string]string, len(of))
	for k, v := range of {
		if !strings.HasPrefix(k, "karp.sh/") {
			out[k] = v
		}
	}
	return out
}

func pendingHooks(hooks []Hook) []string {
	var out []string
	for _, h := range hooks {
		if !h.Done {
			out = append(out, h.Name)
		}
	}
	return out
}

func shortest(hooks []Hook) time.Duration {
	var after time.Duration
	for _, h := range hooks {
		if !h.Done && h.After > 0 && (after == 0 || h.After < after) {
			after = h.After
		}
	}
	return after
}
