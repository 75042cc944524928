package disrupt

import (
	"cmp"
	"slices"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/budget"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

const (
	disruptedTaint   = "karpenter.sh/disrupted"
	doNotDisruptMark = "karpenter.sh/do-not-disrupt"
)

// survey is a snapshot looked at with the eyes of disruption: pools, budgets, and every node as a candidate with what speaks against it.
type survey struct {
	s        *cluster.Snapshot
	pools    map[string]*cluster.Pool
	budgets  map[string]budget.Pool
	usage    map[string]budget.Usage
	guards   guards
	unread   unread
	types    map[*catalog.Catalog]map[string]int // index of a type, by name
	nodes    []*node                             // all targets with a claim, by name
	own      string                              // the command on whose behalf we look: what it holds is not held
	steps    *int64
	launched int // replacements that apply has named
}

// node is a target with a claim.
type node struct {
	*cluster.Target
	pool *cluster.Pool // nil if unknown
	// objection is what keeps it from being a candidate at all; pods is what its pods object, which the eventual class waives where the claim has a
	// termination grace period (rules 3).
	objection, pods *objection
	// moving are the pods that need another place; cost is that of moving them.
	moving []*cluster.Pod
	cost   float64
	price  units.Money
	// typeName, zone and buyAs are the labels, empty if missing; known tells that the type is one of the pool's.
	typeName, zone, buyAs string
	known                 bool
}

// objection is a reason not to touch a node.
type objection struct {
	code    reason.Code
	detail  string
	objects []string
	until   time.Time
	silent  bool
}

func look(s *cluster.Snapshot, steps *int64) *survey { return lookFor(s, "", steps) }

// lookFor looks on behalf of a command that may be recorded already.
func lookFor(s *cluster.Snapshot, own string, steps *int64) *survey {
	v := &survey{s: s, own: own, pools: make(map[string]*cluster.Pool, len(s.Pools)), budgets: make(map[string]budget.Pool, len(s.Pools)),
		usage: budget.CountWithout(s, own), guards: newGuards(s), unread: findUnread(s), types: map[*catalog.Catalog]map[string]int{}, steps: steps}
	for _, p := range s.Pools {
		v.pools[p.Name] = p
		v.budgets[p.Name] = budget.Of(p)
	}
	for _, t := range s.Targets() {
		if t.Claim != nil {
			v.nodes = append(v.nodes, v.node(t))
		}
	}
	return v
}

func (v *survey) node(t *cluster.Target) *node {
	n := &node{Target: t, pool: v.pools[t.Labels[constraint.NodePoolKey]]}
	n.typeName, n.zone, n.buyAs = t.Labels[constraint.InstanceTypeKey], t.Labels[constraint.ZoneKey], t.Labels[constraint.CapacityTypeKey]
	for _, g := range t.Residents {
		for _, p := range g.Pods {
			if reschedulable(p) {
				n.moving = append(n.moving, p)
			}
		}
	}
	n.cost = costOf(n.moving)
	n.price, n.known = v.priceOf(n)
	n.objection = v.objectionTo(n)
	if n.objection == nil {
		n.pods = v.podsObjection(n)
	}
	*v.steps++
	return n
}

// empty tells that no pod of any value would have to move (rules 6.2).
func (n *node) empty() bool { return n.cost <= 1 }

// priceOf is the price of a running node (rules 6.3), and whether its type is one of its pool's.
func (v *survey) priceOf(n *node) (units.Money, bool) {
	if n.pool == nil || n.pool.Catalog == nil {
		return 0, false
	}
	types := v.types[n.pool.Catalog]
	if types == nil {
		list := n.pool.Catalog.Types()
		types = make(map[string]int, len(list))
		for i := range list {
			types[list[i].Name] = i
		}
		v.types[n.pool.Catalog] = types
	}
	i, ok := types[n.typeName]
	if !ok || n.typeName == "" {
		return 0, false
	}
	for _, o := range n.pool.Catalog.Types()[i].Offerings {
		if o.Zone == n.zone && o.CapacityType == n.buyAs {
			if o.PriceUnknown {
				return 0, true
			}
			return o.Price, true
		}
	}
	return 0, true
}

// objectionTo makes the tests 1 to 9 of rules 3.
func (v *survey) objectionTo(n *node) *objection {
	switch c := n.Claim; {
	case c.Command != "" && c.Command != v.own:
		return &objection{code: reason.HeldByCommand, detail: c.Command, silent: true}
	case n.Node == nil:
		return &objection{code: reason.NoNode}
	case !n.Initialized:
		return &objection{code: reason.NotInitialized}
	case n.Leaving || !n.Node.Deleted.IsZero():
		return &objection{code: reason.Deleting}
	case n.Nominated.After(v.s.At):
		return &objection{code: reason.Nominated, until: n.Nominated}
	case n.Node.Annotations[doNotDisruptMark] == "true":
		return &objection{code: reason.DoNotDisruptNode, detail: doNotDisruptMark}
	}
	name, labelled := n.Labels[constraint.NodePoolKey]
	switch {
	case !labelled:
		return &objection{code: reason.NoSuchPool, detail: constraint.NodePoolKey}
	case n.pool == nil:
		return &objection{code: reason.NoSuchPool, detail: name}
	case n.pool.Catalog == nil || len(n.pool.Catalog.Types()) == 0:
		return &objection{code: reason.CatalogUnknown, detail: cmp.Or(n.pool.CatalogProblem, name)}
	}
	return v.unread.objection(n)
}

// podsObjection is test 10: pods that must not be disrupted, and PodDisruptionBudgets (rules 4, 5).
func (v *survey) podsObjection(n *node) *objection {
	for _, g := range n.Residents {
		for _, p := range g.Pods {
			if x := Protect(p, v.s.At); x.Active {
				name := p.Namespace + "/" + p.Name
				return &objection{code: reason.DoNotDisruptPod, detail: name, objects: []string{name}, until: x.Until}
			}
		}
	}
	for _, g := range n.Residents {
		hits := v.guards.of(g)
		if len(hits) == 0 {
			continue
		}
		for _, p := range g.Pods {
			if !v.evictable(p) {
				continue
			}
			if stop := blocking(p, hits); len(stop) > 0 {
				code := reason.PDBBlocks
				if len(stop) > 1 {
					code = reason.MultiplePDBs
				}
				return &objection{code: code, detail: p.Namespace + "/" + p.Name, objects: pdbNames(stop)}
			}
		}
	}
	return nil
}

// candidate tells whether the node passes all tests of rules 3 for a class of methods, and what it fails otherwise.
func (n *node) candidate(eventual bool) (*objection, bool) {
	switch {
	case n.objection != nil:
		return n.objection, false
	case n.pods != nil && (!eventual || n.Claim.TerminationGracePeriod == ""):
		return n.pods, false
	}
	return nil, true
}

// ratio orders candidates (rules 6.4): the dearest for the least disruption first.
func (n *node) ratio() float64 { return n.price.Dollars() / n.cost }

func byRatio(a, b *node) int {
	return cmp.Or(cmp.Compare(b.ratio(), a.ratio()), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Claim.Name, b.Claim.Name))
}

// remaining is how many more nodes of a pool may go for a reason now.
func (v *survey) remaining(pool, why string) int {
	b, ok := v.budgets[pool]
	if !ok {
		return 0
	}
	u := v.usage[pool]
	allowed, _ := b.Allowed(why, u.Nodes, v.s.At)
	return u.Remaining(allowed)
}

// purse is what is left of the budgets for one reason while commands are put together.
type purse map[string]int

func (v *survey) purse(why string) purse {
	out := purse{}
	for name := range v.pools {
		out[name] = v.remaining(name, why)
	}
	return out
}

// spend takes a unit for a node of the pool, if there is one.
func (p purse) spend(pool string) bool {
	if p[pool] <= 0 {
		return false
	}
	p[pool]--
	return true
}

// poolBudgets lists what all pools allow.
func (v *survey) poolBudgets() (out []plan.PoolBudget, bad []plan.PoolVerdict) {
	for _, p := range v.s.Pools {
		b, u := v.budgets[p.Name], v.usage[p.Name]
		if b.Problem != nil {
			bad = append(bad, plan.PoolVerdict{Pool: p.Name, Code: reason.BudgetMalformed, Detail: b.Problem.Error()})
		}
		for _, why := range budget.Reasons() {
			allowed, _ := b.Allowed(why, u.Nodes, v.s.At)
			out = append(out, plan.PoolBudget{Pool: p.Name, UID: p.UID, Reason: why, Nodes: u.Nodes, Allowed: allowed, Disrupting: u.Disrupting})
		}
	}
	return out, bad
}

// closed names the targets that take no pods which consolidation moves: those inside consolidateAfter (rules 8).
func (v *survey) closed() []string {
	var out []string
	for _, n := range v.nodes {
		p := n.pool
		if p == nil || p.Replicas != nil || !p.Ready || p.Deleting || n.Leaving {
			continue
		}
		if _, quiet := Quiet(n.Claim, p, v.s.At); !quiet {
			out = append(out, n.Name)
		}
	}
	return out
}

// asCandidate describes the node in a command.
func (v *survey) asCandidate(n *node) plan.Candidate {
	c := plan.Candidate{Node: n.Node.Name, NodeUID: n.Node.UID, Claim: n.Claim.Name, ClaimUID: n.Claim.UID, ProviderID: n.Claim.ProviderID,
		Pool: n.pool.Name, PoolUID: n.pool.UID, InstanceType: n.typeName, Zone: n.zone, CapacityType: n.buyAs, Price: n.price, Cost: n.cost,
		Policy: policyOf(n.pool), TerminationGracePeriod: n.Claim.TerminationGracePeriod}
	for _, p := range n.moving {
		c.Pods = append(c.Pods, p.UID)
	}
	slices.Sort(c.Pods)
	return c
}

func policyOf(p *cluster.Pool) string {
	return cmp.Or(p.Disruption.Policy, cluster.WhenEmptyOrUnderutilized)
}
