package lifecycle

import "github.com/karp-sh/karp/pkg/units"

// Class is what a pool needs to know of its node class.
type Class struct {
	Found, Deleting bool
	// Ready is the class's Ready condition; HasReady tells whether it has one.
	Ready    Condition
	HasReady bool
}

// ClassReady decides the condition NodeClassReady of a pool (L-247 to L-250).
func ClassReady(c Class) Condition {
	failed := func(reason, message string) Condition {
		return Condition{Type: "NodeClassReady", Status: False, Reason: reason, Message: message}
	}
	switch {
	case !c.Found:
		return failed("NodeClassNotFound", "NodeClass not found on cluster")
	case c.Deleting:
		return failed("NodeClassTerminating", "NodeClass is terminating")
	case !c.HasReady || c.Ready.Status == Unknown:
		return failed("NodeClassReadinessUnknown", "node class readiness unknown")
	case c.Ready.Status == False:
		return failed(c.Ready.Reason, c.Ready.Message)
	default:
		return done("NodeClassReady")
	}
}

// Usage is what the nodes of one pool amount to (lifecycle rules 22, counter).
type Usage struct {
	Resources units.List
	Nodes     int64
}

// CountPool sums the capacity of the pool's launched claims that are not going (L-241 to L-246). Nodes are by provider ID.
func CountPool(pool string, claims []Claim, nodes map[string][]Node) Usage {
	u := Usage{Resources: units.List{units.CPU: 0, units.Memory: 0, units.Pods: 0, units.EphemeralStorage: 0, units.Nodes: 0}}
	for i := range claims {
		c := &claims[i]
		if c.Pool != pool || c.ProviderID == "" || !c.Is(Launched, True) || c.Deleting() || c.Is(InstanceTerminating, True) {
			continue
		}
		u.Nodes++
		u.Resources = u.Resources.Add(capacityOf(c, nodes[c.ProviderID]))
	}
	u.Resources[units.Nodes] = u.Nodes
	return u
}

// capacityOf is the claim's capacity until its node is initialized, where the node's own takes over.
func capacityOf(c *Claim, nodes []Node) units.List {
	if len(nodes) != 1 {
		return c.Capacity
	}
	n := &nodes[0]
	if n.Labels[InitializedLabel] == "true" {
		return n.Capacity
	}
	out := n.Capacity.Clone()
	if out == nil {
		out = units.List{}
	}
	for name, amount := range c.Capacity {
		if out[name] == 0 {
			out[name] = amount
		}
	}
	return out
}
