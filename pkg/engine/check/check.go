// Package check verifies plans independently of the packer: it shares no code with it beyond the values, and computes everything from the
// snapshot and the plan alone, the slow and obvious way. Tests and benchmarks run every plan through it.
//
// It checks the invariants of the scheduling specification (31.1): every pod is placed once, where its constraints hold for every type the
// claim lists; nothing is overloaded; limits hold; a claim is opened only in the heaviest pool that can host it, and only for pods that no
// existing node takes; a preference is given up, and a pod refused, only where nothing certainly could have taken the pod.
package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

// Plan returns what is wrong with a plan, one sentence each; nothing means that it holds.
func Plan(s *cluster.Snapshot, p plan.Plan) []string {
	c := &checker{s: s, p: p, pods: map[string]*cluster.Pod{}, pools: map[string]*cluster.Pool{}}
	for _, pod := range s.Pods {
		c.pods[pod.UID] = pod
	}
	for _, pool := range s.Pools {
		c.pools[pool.Name] = pool
	}
	c.once()
	c.spots()
	for i := range c.places {
		c.claimOrNode(c.places[i])
	}
	c.limits()
	c.reservations()
	c.topology()
	c.existingFirst()
	c.preferences()
	c.refusals()
	return c.problems
}

type checker struct {
	s        *cluster.Snapshot
	p        plan.Plan
	pods     map[string]*cluster.Pod
	pools    map[string]*cluster.Pool
	places   []*spot
	problems []string
	placed   map[string]*spot
	fits     map[string]bool
	counts   map[string]map[string]int
	seen     map[string]bool
	// Computed once: requirements of a type, of what an offering of it becomes, and the load of a pool's daemons on it.
	types   map[*catalog.InstanceType]constraint.Requirements
	becomes map[*catalog.Offering]constraint.Requirements
	daemons map[onType]units.List
}

type onType struct {
	pool *cluster.Pool
	t    *catalog.InstanceType
}

// spot is a node or a claim with the pods it ends up with.
type spot struct {
	name   string
	target *cluster.Target // nil for a planned claim
	claim  *plan.Claim
	reqs   constraint.Requirements // of a claim
	fresh  []*cluster.Pod          // placed by the plan
	old    []*cluster.Pod          // bound before and staying
}

func (c *checker) failf(format string, args ...any) {
	if len(c.problems) < 20 {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

// once checks that every pod is placed or judged at most once.
func (c *checker) once() {
	seen := map[string]string{}
	note := func(uid, where string) {
		if c.pods[uid] == nil {
			c.failf("pod %s does not exist", uid)
		}
		if before, ok := seen[uid]; ok {
			c.failf("pod %s is %s and %s", uid, before, where)
		}
		seen[uid] = where
	}
	for i, cl := range c.p.Claims {
		if len(cl.Pods) == 0 {
			c.failf("claim %d is empty", i)
		}
		for _, uid := range cl.Pods {
			note(uid, fmt.Sprintf("on claim %d", i))
		}
	}
	for _, x := range c.p.Placements {
		note(x.Pod, "on "+x.Node+x.Claim)
	}
	for _, v := range c.p.Verdicts {
		note(v.Pod, "judged "+string(v.Code))
	}
	if c.p.Cut {
		return
	}
	for _, pod := range c.s.Pods {
		pending := pod.Node == "" && pod.Scheduled == "Unschedulable" && (pod.Nominated == "" || pod.NominatedByKarp) && pod.Deleted.IsZero() && !pod.Terminal()
		daemon := pod.Owner.APIVersion == "apps/v1" && pod.Owner.Kind == "DaemonSet" || pod.Owner.APIVersion == "v1" && pod.Owner.Kind == "Node"
		if _, ok := seen[pod.UID]; pending && !daemon && !ok {
			c.failf("pod %s is forgotten", pod.UID)
		}
	}
}

func (c *checker) spots() {
	byName := map[string]*spot{}
	moved := map[string]bool{}
	for _, cl := range c.p.Claims {
		for _, uid := range cl.Pods {
			moved[uid] = true
		}
	}
	for _, x := range c.p.Placements {
		moved[x.Pod] = true
	}
	for _, v := range c.p.Verdicts { // a pod that must leave its node counts nowhere
		moved[v.Pod] = true
	}
	for _, t := range c.s.Targets() {
		x := &spot{name: t.Name, target: t}
		for _, g := range t.Residents {
			for _, pod := range g.Pods {
				if !moved[pod.UID] {
					x.old = append(x.old, pod)
				}
			}
		}
		c.places = append(c.places, x)
		byName[t.Name] = x
	}
	for _, pl := range c.p.Placements {
		name := pl.Node
		if name == "" {
			name = pl.Claim
		}
		x := byName[name]
		if x == nil || c.pods[pl.Pod] == nil {
			c.failf("placement of %s on %q, which does not exist", pl.Pod, name)
			continue
		}
		x.fresh = append(x.fresh, c.pods[pl.Pod])
	}
	for i := range c.p.Claims {
		cl := &c.p.Claims[i]
		x := &spot{name: fmt.Sprintf("claim %d", i), claim: cl, reqs: constraint.Parse(cl.Requirements)}
		for _, uid := range cl.Pods {
			if pod := c.pods[uid]; pod != nil {
				x.fresh = append(x.fresh, pod)
			}
		}
		c.places = append(c.places, x)
	}
	c.placed = map[string]*spot{}
	for _, x := range c.places {
		for _, pod := range x.fresh {
			c.placed[pod.UID] = x
		}
	}
}

func (c *checker) claimOrNode(x *spot) {
	if len(x.fresh) == 0 {
		return
	}
	if x.claim != nil {
		c.claim(x)
	} else {
		c.node(x)
	}
	c.devices(x)
	var ports []cluster.HostPort
	for _, pod := range append(slices.Clone(x.old), x.fresh...) {
		for _, a := range pod.Shape.HostPorts {
			for _, b := range ports {
				if collide(a, b) && slices.Contains(x.fresh, pod) {
					c.failf("%s: host port %d/%s is taken twice", x.name, a.Port, a.Protocol)
				}
			}
		}
		ports = append(ports, pod.Shape.HostPorts...)
	}
}

func collide(a, b cluster.HostPort) bool {
	wild := func(ip string) bool { return ip == "" || ip == "::" || ip == "0.0.0.0" }
	return a.Port == b.Port && a.Protocol == b.Protocol && (a.IP == b.IP || wild(a.IP) || wild(b.IP))
}

// alternatives are the conjunctions of which one must hold: selector and a required term, with a volume alternative.
func alternatives(s *cluster.Shape) []constraint.Requirements {
	base := []constraint.Requirements{constraint.FromLabels(s.NodeSelector)}
	product := func(terms [][]constraint.Expr) {
		if len(terms) == 0 {
			return
		}
		var next []constraint.Requirements
		for _, b := range base {
			for _, t := range terms {
				next = append(next, b.And(constraint.Parse(t)))
			}
		}
		base = next
	}
	var terms [][]constraint.Expr
	for _, t := range s.Required {
		terms = append(terms, t.Exprs)
	}
	product(terms)
	for _, v := range s.Volumes {
		product(v.Alternatives)
	}
	return base
}

func (c *checker) node(x *spot) {
	t := x.target
	if t.Leaving {
		c.failf("%s: pods on a node that is leaving", x.name)
	}
	used := units.List{}
	for _, pod := range append(slices.Clone(x.old), x.fresh...) {
		used = used.Add(pod.Shape.Requests)
	}
	for _, pod := range x.fresh {
		if !c.nodeTakes(t, pod.Shape) {
			c.failf("%s: pod %s does not match labels or taints", x.name, pod.Name)
		}
	}
	if !units.Fits(used.Add(c.nodeDaemons(t)), t.Allocatable) {
		c.failf("%s: overloaded: %v of %v", x.name, used, t.Allocatable)
	}
	if t.Node == nil {
		return
	}
	for driver, limit := range t.Node.AttachLimits {
		ids := map[string]bool{}
		for _, pod := range append(slices.Clone(x.old), x.fresh...) {
			for _, v := range pod.Shape.Volumes {
				if v.Driver == driver {
					ids[v.ID] = true
				}
			}
		}
		if int64(len(ids)) > limit {
			c.failf("%s: %d volumes of %s, limit %d", x.name, len(ids), driver, limit)
		}
	}
}

func (c *checker) nodeTakes(t *cluster.Target, s *cluster.Shape) bool {
	for _, taint := range t.Taints {
		if taint.Effect != constraint.PreferNoSchedule && !constraint.Tolerates(s.Tolerations, taint) {
			return false
		}
	}
	return slices.ContainsFunc(alternatives(s), func(r constraint.Requirements) bool {
		if t.Pending { // known by its requirements only: the pod must leave some of what it can become
			_, conflict := t.Requirements.Conflict(r)
			return !conflict
		}
		for q := range r.All() {
			v, ok := t.Labels[q.Key]
			if ok != (q.Admits(v) && ok) || !ok && !q.AdmitsAbsent() {
				return false
			}
		}
		return true
	})
}

// nodeDaemons is what daemons not yet on the node will take.
func (c *checker) nodeDaemons(t *cluster.Target) units.List {
	want := units.List{}
	if t.Pending {
		return want
	}
	for _, d := range c.s.DaemonSets {
		if (len(d.Shape.ResourceClaims) == 0 || !c.s.Settings.IgnoreDRA) && c.nodeTakes(t, d.Shape) {
			want = want.Add(d.Shape.Requests)
		}
	}
	for _, g := range t.Residents {
		for _, pod := range g.Pods {
			if pod.Owner.Kind == "DaemonSet" && pod.Owner.APIVersion == "apps/v1" {
				want = want.Sub(pod.Shape.Requests)
			}
		}
	}
	for k, v := range want {
		want[k] = max(v, 0)
	}
	return want
}

func (c *checker) claim(x *spot) {
	pool := c.pools[x.claim.Pool]
	if pool == nil || pool.Catalog == nil || !pool.Ready || pool.Deleting || pool.Replicas != nil {
		c.failf("%s: pool %q cannot have claims", x.name, x.claim.Pool)
		return
	}
	if key := claimKey(x); c.seen[key] { // equal claims with equal pods are equally right
		return
	} else if c.seen == nil {
		c.seen = map[string]bool{key: true}
	} else {
		c.seen[key] = true
	}
	used := units.List{}
	shapes := map[*cluster.Shape]bool{}
	for _, pod := range x.fresh {
		used = used.Add(pod.Shape.Requests)
		shapes[pod.Shape] = true
	}
	for s := range shapes {
		for _, taint := range pool.Taints {
			if taint.Effect != constraint.PreferNoSchedule && !constraint.Tolerates(s.Tolerations, taint) {
				c.failf("%s: shape of %s does not tolerate %v", x.name, x.fresh[0].Name, taint)
			}
		}
	}
	if len(x.claim.Types) == 0 || len(x.claim.Types) > 600 {
		c.failf("%s: lists %d types", x.name, len(x.claim.Types))
	}
	types := pool.Catalog.Types()
	cheapest := units.Money(-1)
	for _, name := range x.claim.Types {
		i := slices.IndexFunc(types, func(t catalog.InstanceType) bool { return t.Name == name })
		if i < 0 {
			c.failf("%s: lists unknown type %s", x.name, name)
			continue
		}
		price, ok := c.typeHolds(x, pool, &types[i], used, shapes)
		if !ok {
			c.failf("%s: type %s does not hold its pods", x.name, name)
			continue
		}
		if cheapest < 0 {
			cheapest = price
		}
		if price < cheapest {
			c.failf("%s: types are not in order of price", x.name)
		}
	}
	if cheapest != x.claim.Price {
		c.failf("%s: price is %v, not %v", x.name, cheapest, x.claim.Price)
	}
	c.contents(x, pool, used)
	c.minValues(x, pool)
	c.heaviestPool(x, pool)
}

// claimKey spells everything that claim looks at.
func claimKey(x *spot) string {
	shapes := map[string]int{}
	for _, pod := range x.fresh {
		shapes[pod.Shape.Key]++
	}
	return fmt.Sprint(x.claim.Pool, x.claim.Requirements, x.claim.Types, x.claim.Price, shapes)
}

// typeHolds reports whether a type satisfies claim and pods, and the price of its cheapest offering that does. Any offering that the claim's
// requirements admit may be launched, so all of them must suit the pods' selectors.
func (c *checker) typeHolds(x *spot, pool *cluster.Pool, t *catalog.InstanceType, used units.List, shapes map[*cluster.Shape]bool) (units.Money, bool) {
	load := used.Add(c.typeDaemons(pool, t))
	best, found := units.Money(0), false
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if !o.Available {
			continue
		}
		node := c.offeringReqs(t, o)
		if _, conflict := node.Conflict(x.reqs); conflict {
			continue
		}
		if !units.Fits(load, c.offeringAllocatable(t, o)) {
			continue
		}
		// What the node will be labelled with: the type's and offering's labels over the claim's requirements.
		labels, ok := constraint.Requirements{}, true
		for s := range shapes {
			if len(s.NodeSelector)+len(s.Required)+len(s.Volumes) == 0 {
				continue
			}
			if labels.Len() == 0 {
				labels = x.reqs.Without(func(k string) bool { return node.Has(k) }).And(node)
			}
			ok = ok && slices.ContainsFunc(alternatives(s), func(r constraint.Requirements) bool {
				_, fine := labels.Compatible(r, constraint.WellKnownOptional)
				return fine
			})
		}
		if !ok {
			return 0, false
		}
		if !found || o.Price < best {
			best, found = o.Price, true
		}
	}
	return best, found && !c.daemonPortTaken(pool, t, x.fresh)
}

func (c *checker) typeReqs(t *catalog.InstanceType) constraint.Requirements {
	if have, ok := c.types[t]; ok {
		return have
	}
	if c.types == nil {
		c.types = map[*catalog.InstanceType]constraint.Requirements{}
	}
	c.types[t] = constraint.Parse(t.Requirements)
	return c.types[t]
}

// offeringReqs is what a node bought from an offering has.
func (c *checker) offeringReqs(t *catalog.InstanceType, o *catalog.Offering) constraint.Requirements {
	if have, ok := c.becomes[o]; ok {
		return have
	}
	node := c.typeReqs(t).Replace(constraint.NewIn(constraint.ZoneKey, o.Zone)).Replace(constraint.NewIn(constraint.CapacityTypeKey, o.CapacityType))
	if o.ZoneID != "" {
		node = node.Replace(constraint.NewIn(constraint.ZoneIDKey, o.ZoneID))
	}
	for i := range t.Offerings { // what other offerings define for themselves, this one lacks
		for _, e := range t.Offerings[i].Requirements {
			node = node.Replace(constraint.New(constraint.Expr{Key: e.Key, Operator: constraint.DoesNotExist}))
		}
	}
	for _, e := range o.Requirements {
		node = node.Replace(constraint.New(e))
	}
	if c.becomes == nil {
		c.becomes = map[*catalog.Offering]constraint.Requirements{}
	}
	c.becomes[o] = node
	return node
}

func (c *checker) offeringAllocatable(t *catalog.InstanceType, o *catalog.Offering) units.List {
	if len(o.Capacity)+len(o.Overhead) == 0 {
		return t.Allocatable()
	}
	u := *t
	u.Capacity = t.Capacity.Clone()
	for k, v := range o.Capacity {
		u.Capacity[k] = v
	}
	if len(o.Overhead) > 0 {
		total := t.Overhead.Total()
		for k, v := range o.Overhead {
			total[k] = v
		}
		u.Overhead = catalog.Overhead{KubeReserved: total}
	}
	return u.Allocatable()
}

// typeDaemons is what the daemons of a new node of the type request together.
func (c *checker) typeDaemons(pool *cluster.Pool, t *catalog.InstanceType) units.List {
	key := onType{pool, t}
	if have, ok := c.daemons[key]; ok {
		return have
	}
	out := units.List{}
	for _, s := range c.daemonsOn(pool, t) {
		out = out.Add(s.Requests)
	}
	if c.daemons == nil {
		c.daemons = map[onType]units.List{}
	}
	c.daemons[key] = out
	return out
}

// daemonPortTaken reports whether a daemon of a new node of the type has a host port that one of the pods wants.
func (c *checker) daemonPortTaken(pool *cluster.Pool, t *catalog.InstanceType, pods []*cluster.Pod) bool {
	for _, pod := range pods {
		for _, a := range pod.Shape.HostPorts {
			for _, s := range c.daemonsOn(pool, t) {
				if slices.ContainsFunc(s.HostPorts, func(b cluster.HostPort) bool { return collide(a, b) }) {
					return true
				}
			}
		}
	}
	return false
}

// daemonsOn returns the shapes of the daemons that will run on a new node of the type.
func (c *checker) daemonsOn(pool *cluster.Pool, t *catalog.InstanceType) []*cluster.Shape {
	if len(c.s.DaemonSets) == 0 {
		return nil
	}
	var out []*cluster.Shape
	tmpl := constraint.Parse(pool.Requirements).And(constraint.FromLabels(pool.Labels)).With(constraint.NewIn(constraint.NodePoolKey, pool.Name),
		constraint.NewIn(constraint.RegisteredKey, "true"), constraint.NewIn(constraint.InitializedKey, "true"))
	if k := pool.NodeClass; k.Kind != "" {
		tmpl = tmpl.With(constraint.NewIn(k.Group+"/"+strings.ToLower(k.Kind), k.Name))
	}
	typeReqs := c.typeReqs(t)
	for _, d := range c.s.DaemonSets {
		s := d.Shape
		if len(s.ResourceClaims) > 0 && c.s.Settings.IgnoreDRA || slices.ContainsFunc(pool.Taints, func(x constraint.Taint) bool {
			return x.Effect != constraint.PreferNoSchedule && !constraint.Tolerates(s.Tolerations, x)
		}) {
			continue
		}
		if slices.ContainsFunc(alternatives(s), func(r constraint.Requirements) bool {
			_, ok := tmpl.Compatible(r, constraint.WellKnownOptional)
			_, conflict := typeReqs.Conflict(r)
			return ok && !conflict
		}) {
			out = append(out, s)
		}
	}
	return out
}

// heaviestPool checks I4: some pod of the claim could not be hosted by any pool that is tried before.
func (c *checker) heaviestPool(x *spot, pool *cluster.Pool) {
	for _, q := range c.s.Pools {
		before := q.Weight > pool.Weight || q.Weight == pool.Weight && q.Name > pool.Name
		if !before || !unlimited(q) {
			continue
		}
		if !slices.ContainsFunc(x.fresh, func(pod *cluster.Pod) bool { return c.repelled(pod) || !c.poolHosts(q, pod.Shape) }) {
			c.failf("%s: pool %s comes before %s and could host its pods", x.name, q.Name, pool.Name)
		}
	}
}

// unlimited reports whether a pool can always have one claim more: it takes part and neither limits nor minValues forbid anything.
func unlimited(q *cluster.Pool) bool {
	return q.Catalog != nil && q.Ready && !q.Deleting && q.Replicas == nil && q.Limits == nil &&
		!slices.ContainsFunc(q.Requirements, func(e constraint.Expr) bool { return e.MinValues > 0 })
}

// poolHosts reports whether a pool can certainly host one pod of the shape: one without ties or preferences.
func (c *checker) poolHosts(q *cluster.Pool, s *cluster.Shape) bool {
	key := q.Name + "/" + s.Key
	if have, ok := c.fits[key]; ok {
		return have
	}
	if c.fits == nil {
		c.fits = map[string]bool{}
	}
	c.fits[key] = c.poolHostsNow(q, s)
	return c.fits[key]
}

func (c *checker) poolHostsNow(q *cluster.Pool, s *cluster.Shape) bool {
	if tied(s) || slices.ContainsFunc(q.Taints, func(x constraint.Taint) bool { return !constraint.Tolerates(s.Tolerations, x) }) {
		return false
	}
	reqs := constraint.Parse(q.Requirements).And(constraint.FromLabels(q.Labels)).With(constraint.NewIn(constraint.NodePoolKey, q.Name))
	for _, alt := range alternatives(s) {
		if _, ok := reqs.Compatible(alt, constraint.WellKnownOptional); !ok {
			continue
		}
		x := &spot{reqs: reqs.And(alt), claim: &plan.Claim{Pool: q.Name}}
		types := q.Catalog.Types()
		for i := range types {
			if _, ok := c.typeHolds(x, q, &types[i], s.Requests, map[*cluster.Shape]bool{s: true}); ok {
				return true
			}
		}
	}
	return false
}

func tied(s *cluster.Shape) bool {
	return len(s.Spread)+len(s.Preferred)+len(s.HostPorts)+len(s.Volumes)+len(s.ResourceClaims)+len(s.PodAffinity.Required)+len(s.PodAffinity.Preferred)+
		len(s.AntiAffinity.Required)+len(s.AntiAffinity.Preferred) > 0 || len(s.Required) > 1
}

// limits checks I2 with every claim at the largest type it lists.
func (c *checker) limits() {
	for _, pool := range c.s.Pools {
		if len(pool.Limits) == 0 || pool.Catalog == nil {
			continue
		}
		used, planned := units.List{}, false
		for _, t := range c.s.Targets() {
			if t.Pool == pool.Name && !t.Leaving {
				used = used.Add(t.Capacity)
			}
		}
		for _, cl := range c.p.Claims {
			if cl.Pool != pool.Name {
				continue
			}
			planned = true
			most := units.List{}
			for _, t := range pool.Catalog.Types() {
				if slices.Contains(cl.Types, t.Name) {
					most = most.Max(t.Capacity)
				}
			}
			most[units.Nodes] = 1
			used = used.Add(most)
		}
		for k, limit := range pool.Limits {
			if planned && used[k] > limit {
				c.failf("pool %s: %d of %s, limit %d", pool.Name, used[k], k, limit)
			}
		}
	}
}

// existingFirst checks I5: no pod without ties is on a claim although an initialized node still has room for it.
func (c *checker) existingFirst() {
	type room struct {
		t    *cluster.Target
		free units.List
	}
	var rooms []room
	for _, x := range c.places {
		if x.target == nil || x.target.Leaving || x.target.Pending {
			continue
		}
		free := x.target.Allocatable.Sub(c.nodeDaemons(x.target))
		for _, pod := range append(slices.Clone(x.old), x.fresh...) {
			free = free.Sub(pod.Shape.Requests)
		}
		rooms = append(rooms, room{x.target, free})
	}
	seen := map[*cluster.Shape]bool{}
	for _, x := range c.places {
		if x.claim == nil {
			continue
		}
		for _, pod := range x.fresh {
			if seen[pod.Shape] || tied(pod.Shape) || c.repelled(pod) {
				continue
			}
			seen[pod.Shape] = true
			for _, r := range rooms {
				strict := !slices.ContainsFunc(r.t.Taints, func(t constraint.Taint) bool { return !constraint.Tolerates(pod.Shape.Tolerations, t) })
				if strict && units.Fits(pod.Shape.Requests, r.free) && c.nodeTakes(r.t, pod.Shape) {
					c.failf("%s: pod %s would fit on %s", x.name, pod.Name, r.t.Name)
				}
			}
		}
	}
}

// repelled reports whether some pod's anti-affinity selects this one.
func (c *checker) repelled(pod *cluster.Pod) bool {
	for _, other := range c.s.Pods {
		for _, term := range other.Shape.AntiAffinity.Required {
			if term.Selector.Matches(pod.Labels) {
				return true
			}
		}
	}
	return false
}
