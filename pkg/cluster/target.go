package cluster

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// Target is a place for pods that exists or is on its way: a Node, a NodeClaim, or both merged (scheduling rules 3.1).
type Target struct {
	// Name of the Node, or of the claim while there is no Node.
	Name string
	// Host is the domain of the key kubernetes.io/hostname.
	Host  string
	Node  *Node
	Claim *Claim
	// Pool is the nodepool label.
	Pool string
	// Registered and Initialized are always true for an unmanaged node.
	Registered, Initialized bool
	// Leaving tells that the target is marked for deletion: it takes no pods and its capacity does not count against limits.
	Leaving bool
	// Pending tells that the claim has not been launched: it is known by its requirements, not by its labels.
	Pending bool
	// Labels with canonical keys, the hostname included.
	Labels map[string]string
	// Requirements of a pending claim, its labels included. Empty otherwise.
	Requirements constraint.Requirements
	// Offers of Catalog a pending claim can still become; nil if it is not pending or they are unknown.
	Offers *catalog.Set
	// Taints that count for pods (rules 7.3).
	Taints []constraint.Taint
	// Capacity counts against limits, with nodes: 1; of a pending claim the element-wise maximum of its types.
	Capacity units.List
	// Allocatable of a pending claim is the element-wise minimum over its types, never less than its requests.
	Allocatable units.List
	// Used is the sum of the requests of the pods on it that are not terminal.
	Used units.List
	// Types is the number of instance types a pending claim can still become.
	Types int
	// Residents are the pods bound to it that are not terminal, in groups.
	Residents []*Group
	// Buffered is the number of virtual pods that the last provisioning pass put here: room that is kept, so the target is not empty (scheduling
	// rules 24.4).
	Buffered int
	// Nominated is until when the target counts as chosen for a pod by a scheduling pass; zero if it is not.
	Nominated time.Time
	// Catalog is that of the claim's pool, nil if there is none.
	Catalog *catalog.Catalog
}

// Terminal reports whether the pod has run to its end.
func (p *Pod) Terminal() bool { return p.Phase == "Succeeded" || p.Phase == "Failed" }

func (b *Builder) touchNode(name string) { touch(&b.dirtyNodes, name) }

// touchClaim marks the claim's own target and that of the Node it belongs to.
func (b *Builder) touchClaim(name string) { touch(&b.dirtyClaims, name) }

func touch(dirty *map[string]bool, name string) {
	if *dirty == nil {
		*dirty = map[string]bool{}
	}
	(*dirty)[name] = true
}

// refreshTargets rebuilds the targets of which a part changed. A claim is matched with the Node of its provider ID (or, before it has
// one, the name it recorded), so claims are paired anew in each refresh; building is what costs.
func (b *Builder) refreshTargets() {
	if len(b.dirtyNodes)+len(b.dirtyClaims) == 0 && !b.allDirty && b.list != nil {
		return
	}
	nodes, claims := b.nodes.sorted(), b.claims.sorted()
	byProvider := make(map[string]*Node, len(nodes))
	for _, n := range nodes {
		if n.ProviderID != "" {
			byProvider[n.ProviderID] = n
		}
	}
	next := make(map[string]*Target, len(nodes)+len(claims))
	matched := make(map[string]bool, len(claims))
	for _, c := range claims {
		n := byProvider[c.ProviderID]
		if c.ProviderID == "" {
			n = nil
		}
		if n != nil {
			matched[n.Name] = true
		}
		b.refresh(next, n, c)
	}
	for _, n := range nodes {
		if !matched[n.Name] && tracked(n) {
			b.refresh(next, n, nil)
		}
	}
	b.targets, b.dirtyNodes, b.dirtyClaims, b.allDirty = next, nil, nil, false
	b.list = slices.SortedFunc(maps.Values(next), func(x, y *Target) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(targetKey(x.Node, x.Claim), targetKey(y.Node, y.Claim)))
	})
}

func (b *Builder) refresh(next map[string]*Target, n *Node, c *Claim) {
	key := targetKey(n, c)
	if old := b.targets[key]; old != nil && !b.allDirty && old.Node == n && old.Claim == c && !b.isDirty(n, c) {
		next[key] = old
		return
	}
	next[key] = b.buildTarget(n, c)
}

func (b *Builder) isDirty(n *Node, c *Claim) bool {
	return n != nil && b.dirtyNodes[n.Name] || c != nil && b.dirtyClaims[c.Name]
}

func targetKey(n *Node, c *Claim) string {
	switch {
	case c == nil:
		return "node/" + n.Name
	case n == nil:
		return "claim/" + c.Name
	default:
		return "claim/" + c.Name + "/" + n.Name
	}
}

// tracked reports whether a Node without claim takes part (scheduling rules 3.1): one of a pool waits for its provider ID and for its
// labels.
func tracked(n *Node) bool {
	if _, ours := n.Labels[constraint.NodePoolKey]; !ours {
		return true
	}
	return n.ProviderID != "" && (n.Labels[constraint.InitializedKey] != "" || n.Labels[constraint.InstanceTypeKey] != "")
}

func (b *Builder) buildTarget(n *Node, c *Claim) *Target {
	t := &Target{Node: n, Claim: c, Registered: true, Initialized: true}
	if c != nil {
		t.Registered = n != nil && n.Labels[constraint.RegisteredKey] == "true"
		t.Initialized = t.Registered && n.Labels[constraint.InitializedKey] == "true"
		t.Leaving = c.Marked || !c.Deleted.IsZero() || c.Terminating
	} else {
		t.Leaving = !n.Deleted.IsZero()
	}
	if n != nil {
		t.Name = n.Name
	} else {
		t.Name = c.Name
	}
	t.describe()
	t.measure()
	if c != nil && !c.Launched && c.ProviderID == "" {
		b.anticipate(t)
	}
	t.Capacity[units.Nodes] = 1
	if n != nil {
		t.settle(b.onNode[n.Name])
		t.Buffered = b.buffered[n.Name]
	}
	if t.Buffered == 0 && c != nil {
		t.Buffered = b.buffered[c.Name]
	}
	if n != nil {
		t.Nominated = b.nominated[n.Name]
	}
	if c != nil && b.nominated[c.Name].After(t.Nominated) {
		t.Nominated = b.nominated[c.Name]
	}
	return t
}

// describe takes labels and taints from the Node once it is registered, from the claim before.
func (t *Target) describe() {
	var labels map[string]string
	if t.Registered {
		labels = t.Node.Labels
		t.Taints = t.Node.Taints
	} else {
		labels = t.Claim.Labels
		t.Taints = t.Claim.Taints
	}
	t.Labels = make(map[string]string, len(labels)+1)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if c := constraint.Canonical(k); c == k || labels[c] == "" {
			t.Labels[c] = labels[k]
		}
	}
	if t.Host = t.Labels[constraint.HostnameKey]; t.Host == "" {
		t.Host = t.Name
		t.Labels[constraint.HostnameKey] = t.Host
	}
	if t.Pool = t.Labels[constraint.NodePoolKey]; t.Pool == "" && t.Claim != nil {
		t.Pool = t.Claim.Pool
	}
	if t.Claim != nil && !t.Initialized {
		startup := t.Claim.StartupTaints
		t.Taints = slices.DeleteFunc(slices.Clone(t.Taints), func(x constraint.Taint) bool {
			return ephemeral(x) || t.closed() && x.Key == "node.kubernetes.io/unschedulable" || slices.ContainsFunc(startup, func(s constraint.Taint) bool { return s.Key == x.Key && s.Effect == x.Effect })
		})
	}
}

// closed reports whether the agent keeps the node cordoned until its daemons are on it.
func (t *Target) closed() bool {
	if t.Node == nil {
		return false
	}
	_, closed := t.Node.Annotations["karp.sh/opening"]
	return closed
}

// ephemeral reports whether the taint goes away by itself while a node starts (scheduling rules 7.3).
func ephemeral(t constraint.Taint) bool {
	switch t.Key {
	case "node.kubernetes.io/not-ready":
		return t.Effect == constraint.NoSchedule || t.Effect == constraint.NoExecute
	case "node.kubernetes.io/unreachable", "node.cloudprovider.kubernetes.io/uninitialized":
		return t.Effect == constraint.NoSchedule
	case "karpenter.sh/unregistered":
		return t.Effect == constraint.NoExecute
	}
	return strings.HasPrefix(t.Key, "readiness.k8s.io/")
}

// measure takes capacity and allocatable from the Node; until it is initialized, what it does not report comes from the claim.
func (t *Target) measure() {
	if t.Claim == nil || t.Initialized {
		t.Capacity, t.Allocatable = t.Node.Capacity.Clone(), t.Node.Allocatable.Clone()
	} else {
		t.Capacity, t.Allocatable = t.Claim.Capacity.Clone(), t.Claim.Allocatable.Clone()
		if t.Node != nil {
			t.Capacity, t.Allocatable = overlay(t.Capacity, t.Node.Capacity), overlay(t.Allocatable, t.Node.Allocatable)
		}
	}
	if t.Capacity == nil {
		t.Capacity = units.List{}
	}
	if t.Allocatable == nil {
		t.Allocatable = units.List{}
	}
}

func overlay(base, top units.List) units.List {
	out := base.Clone()
	if out == nil {
		out = units.List{}
	}
	for k, v := range top {
		if v != 0 {
			out[k] = v
		}
	}
	return out
}

// settle adds the pods that are bound to the node.
func (t *Target) settle(on *memberSet) {
	t.Used = units.List{}
	if on == nil {
		return
	}
	for _, e := range on.list { // a node has few groups: searching them is faster than hashing
		if e.Terminal() {
			continue
		}
		i := slices.IndexFunc(t.Residents, func(g *Group) bool { return g.Shape == e.Shape && g.Labels == e.labels })
		if i < 0 {
			i = len(t.Residents)
			t.Residents = append(t.Residents, &Group{Shape: e.Shape, Labels: e.labels})
		}
		t.Residents[i].Pods = append(t.Residents[i].Pods, e.Pod)
	}
	for _, g := range t.Residents {
		sortPods(g.Pods)
		for k, v := range g.Shape.Requests {
			t.Used[k] += v * int64(len(g.Pods))
		}
	}
	slices.SortFunc(t.Residents, func(x, y *Group) int {
		return cmp.Or(cmp.Compare(x.Shape.Key, y.Shape.Key), comparePods(x.Pods[0], y.Pods[0]))
	})
}

// anticipate describes a claim that is not launched by what every type it lists has (scheduling rules 1.3, X21).
func (b *Builder) anticipate(t *Target) {
	c := t.Claim
	t.Pending = true
	t.Requirements = constraint.Parse(c.Requirements).And(constraint.FromLabels(t.Labels))
	if p, ok := b.pools.get(c.Pool); ok && p.Catalog != nil {
		t.Catalog = p.Catalog
		common := p.Catalog.Common(t.Requirements)
		t.Types = common.Types
		if common.Types > 0 {
			t.Offers, t.Allocatable, t.Capacity = common.Offers, common.MinAllocatable, common.MaxCapacity
		}
	}
	t.Allocatable = t.Allocatable.Max(c.Requests)
	if t.Types == 0 {
		t.Capacity = t.Capacity.Max(c.Requests)
	}
}
