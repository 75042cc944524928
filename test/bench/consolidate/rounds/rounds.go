// Package rounds plays consolidation on a cluster that obeys at once: decide, move the pods where the commands say, start the new nodes at the
// cheapest offering of their claims, and again until nothing is left to do.
package rounds

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/disrupt"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
	"github.com/karp-sh/karp/test/bench/workload"
)

// Cluster is a cluster in play.
type Cluster struct {
	builder *cluster.Builder
	types   *catalog.Catalog
	byName  map[string]int // of types
	nodes   map[string]*cluster.Node
	claims  map[string]*cluster.Claim // by node
	pods    map[string]*cluster.Pod
	serial  int
}

// New puts a workload into a cluster whose pool has these budgets.
func New(w *workload.Workload, types *catalog.Catalog, budgets ...cluster.Budget) (*Cluster, error) {
	o, err := w.Objects(types)
	if err != nil {
		return nil, err
	}
	o.Pool.Disruption.Budgets = budgets
	c := &Cluster{builder: o.Build(), types: types, byName: map[string]int{}, nodes: map[string]*cluster.Node{}, claims: map[string]*cluster.Claim{},
		pods: map[string]*cluster.Pod{}}
	c.builder.SetSettings(Settings())
	for i := range types.Types() {
		c.byName[types.Types()[i].Name] = i
	}
	for i, x := range o.Claims {
		x.Consolidatable, x.InitializedAt = true, workload.Epoch().Add(-time.Hour)
		c.builder.SetClaim(x)
		c.nodes[o.Nodes[i].Name], c.claims[o.Nodes[i].Name] = o.Nodes[i], x
	}
	for _, p := range o.Pods {
		c.pods[p.UID] = p
	}
	return c, nil
}

// Settings of the clusters.
func Settings() cluster.Settings {
	s := workload.Settings()
	s.MinimumSaving = 20_000
	return s
}

// Builder is the cluster's state, to be changed at will.
func (c *Cluster) Builder() *cluster.Builder { return c.builder }

// Snapshot is the cluster as it stands.
func (c *Cluster) Snapshot() *cluster.Snapshot { return c.builder.Snapshot(workload.Epoch()) }

// Cost is what all nodes cost an hour, in dollars.
func (c *Cluster) Cost() float64 {
	sum := units.Money(0)
	for _, n := range c.nodes {
		sum += c.price(n)
	}
	return sum.Dollars()
}

func (c *Cluster) price(n *cluster.Node) units.Money {
	for _, o := range c.types.Types()[c.byName[n.Labels[constraint.InstanceTypeKey]]].Offerings {
		if o.Zone == n.Labels[constraint.ZoneKey] && o.CapacityType == n.Labels[constraint.CapacityTypeKey] {
			return o.Price
		}
	}
	return 0
}

// Nodes is the number of nodes.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// Bound is a lower bound on the cost of any nodes for all pods: CPU and memory at the best prices, pods cut at will.
func (c *Cluster) Bound(w *workload.Workload) float64 {
	fluid := *w
	fluid.Nodes, fluid.Deployments = nil, slices.Clone(w.Deployments)
	for _, n := range w.Nodes {
		for _, x := range n.Pods {
			fluid.Deployments[x[0]].Replicas += x[1]
		}
	}
	return fluid.FluidBound(c.types)
}

// Apply executes commands. It returns the number of pods moved.
func (c *Cluster) Apply(commands []plan.Command) (moved int, err error) {
	for i := range commands {
		n, err := c.execute(&commands[i])
		if err != nil {
			return moved, fmt.Errorf("command %s: %w", commands[i].ID, err)
		}
		moved += n
	}
	return moved, nil
}

func (c *Cluster) execute(x *plan.Command) (moved int, err error) {
	to := map[string]string{}
	for _, p := range x.Placements {
		to[p.Pod] = p.Node
	}
	for i := range x.Replacements {
		name, err := c.launch(&x.Replacements[i])
		if err != nil {
			return 0, err
		}
		for _, uid := range x.Replacements[i].Pods {
			to[uid] = name
		}
	}
	for i := range x.Candidates {
		k := &x.Candidates[i]
		for _, uid := range k.Pods {
			node := to[uid]
			if c.nodes[node] == nil {
				return moved, fmt.Errorf("pod %s of node %s has no place", uid, k.Node)
			}
			p := *c.pods[uid]
			p.Node = node
			c.pods[uid] = &p
			c.builder.SetPod(&p)
			moved++
		}
	}
	for i := range x.Candidates {
		c.builder.DeleteNode(x.Candidates[i].Node)
		c.builder.DeleteClaim(x.Candidates[i].Claim)
		delete(c.nodes, x.Candidates[i].Node)
		delete(c.claims, x.Candidates[i].Node)
	}
	return moved, nil
}

// launch starts a claim's node at once, as its cheapest offering.
func (c *Cluster) launch(k *plan.Claim) (string, error) {
	i, ok := c.byName[k.CheapestType]
	if !ok {
		return "", fmt.Errorf("instance type %q does not exist", k.CheapestType)
	}
	t := &c.types.Types()[i]
	c.serial++
	name := "new" + strconv.Itoa(c.serial)
	labels := map[string]string{constraint.HostnameKey: name, constraint.RegisteredKey: "true", constraint.InitializedKey: "true"}
	for _, e := range t.Requirements {
		if len(e.Values) == 1 {
			labels[e.Key] = e.Values[0]
		}
	}
	maps.Copy(labels, k.Labels)
	labels[constraint.ZoneKey], labels[constraint.CapacityTypeKey] = k.CheapestZone, k.CheapestBuyAs
	n := &cluster.Node{Name: name, UID: name, ProviderID: "aws:///" + name, Labels: labels, Capacity: t.Capacity, Allocatable: t.Allocatable(), Ready: true}
	claim := &cluster.Claim{Name: "c-" + name, UID: "c-" + name, ProviderID: n.ProviderID, NodeName: name, Pool: k.Pool, Labels: labels, Capacity: t.Capacity,
		Allocatable: n.Allocatable, Launched: true, Registered: true, Initialized: true, Consolidatable: true, InitializedAt: workload.Epoch().Add(-time.Hour)}
	c.nodes[name], c.claims[name] = n, claim
	c.builder.SetNode(n)
	c.builder.SetClaim(claim)
	return name, nil
}

// Overfull returns nodes that hold more than they can: there must be none.
func (c *Cluster) Overfull() []string {
	var out []string
	for _, t := range c.Snapshot().Targets() {
		if !units.Fits(t.Used, t.Allocatable) {
			out = append(out, t.Name)
		}
	}
	return out
}

// Round is what one pass came to.
type Round struct {
	Commands, Removed, Launched, Moved int
	Cost                               float64       // afterwards
	Took                               time.Duration // processor time of the decision
	Steps                              int64
}

// Result is a whole game.
type Result struct {
	Rounds              []Round
	Before, After       float64
	NodesBefore, Nodes  int
	Moved               int
	Rejected            int           // commands that validation refuses although nothing has changed
	Final               time.Duration // of the pass that found nothing
	Converged, Standing bool          // nothing was left to do; because the cluster is near its bound
}

// Play goes on until a pass finds nothing, or rounds are used up.
func (c *Cluster) Play(rounds int, look func(Round)) (Result, error) {
	r := Result{Before: c.Cost(), NodesBefore: c.Nodes()}
	for range rounds + 1 {
		s := c.Snapshot()
		start := CPU()
		d := disrupt.Decide(s, disrupt.Options{Turn: len(r.Rounds)})
		took := CPU() - start
		if len(d.Commands) == 0 {
			r.Converged, r.Final, r.Standing = true, took, d.NearOptimal
			break
		}
		if len(r.Rounds) == rounds {
			break
		}
		for _, k := range disrupt.Recheck(s, d.Commands...) {
			if !k.OK {
				r.Rejected++
			}
		}
		x := Round{Commands: len(d.Commands), Took: took, Steps: d.Steps}
		for i := range d.Commands {
			x.Removed += len(d.Commands[i].Candidates)
			x.Launched += len(d.Commands[i].Replacements)
		}
		moved, err := c.Apply(d.Commands)
		if err != nil {
			return r, err
		}
		x.Moved, x.Cost = moved, c.Cost()
		r.Moved += moved
		r.Rounds = append(r.Rounds, x)
		if look != nil {
			look(x)
		}
	}
	r.After, r.Nodes = c.Cost(), c.Nodes()
	return r, nil
}

// CPU is the processor time that this process has used: on a busy machine it is what can be compared.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Slowest is the longest pass.
func (r *Result) Slowest() time.Duration {
	return slices.MaxFunc(r.Rounds, func(a, b Round) int { return cmp.Compare(a.Took, b.Took) }).Took
}

// PodsPerDollar is how many pods were moved for each dollar an hour saved.
func (r *Result) PodsPerDollar() float64 { return float64(r.Moved) / (r.Before - r.After) }
