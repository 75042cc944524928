package explain

import (
	"cmp"
	"maps"
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// evidence fills in the numbers and names behind a pool's answer. It lists everything the pool fails, so that nobody is sent round twice.
func (c *poolCase) evidence(a *reason.PoolAnswer) {
	inside := slices.DeleteFunc(slices.Clone(c.cands), func(x *candidate) bool { return x.outside })
	a.Constraints = c.constraints(inside)
	if len(inside) == 0 && len(c.cands) > 0 {
		a.Constraints = c.impossible()
	}
	a.Resources = c.resources(c.hardware(inside, a.Code))
	a.Offerings = c.closed(inside)
	if a.Layer == reason.Offering {
		a.NotSold = c.notSold(inside)
	}
	a.Limits = c.limits(inside)
	if !c.pool.Ready || c.pool.Catalog == nil {
		a.Ready = c.readiness()
	}
	if c.pool.Replicas != nil {
		a.Static = c.static()
	}
	for _, v := range c.q.spreads {
		if slices.ContainsFunc(inside, func(x *candidate) bool { return hasMiss(x, v.id()) }) {
			a.Spread = c.spreadState(v)
			break
		}
	}
	a.Affinity = c.affinity(inside)
	if slices.ContainsFunc(inside, func(x *candidate) bool { return hasMiss(x, "volume") }) {
		a.Volumes = c.volumeStates()
	}
}

// hardware is what requests are compared with: the offerings that the checks before left, if the types are what stopped the pool.
func (c *poolCase) hardware(inside []*candidate, stopped reason.Code) []*candidate {
	if stopped != reason.ResourceNotOffered && stopped != reason.TooBig && stopped != reason.TooManyPods {
		return inside
	}
	return slices.DeleteFunc(slices.Clone(inside), func(x *candidate) bool {
		return slices.ContainsFunc(x.misses, func(m *miss) bool { return m.code == reason.LabelUnknown || m.code == reason.LabelConflict })
	})
}

func hasMiss(x *candidate, id string) bool {
	return slices.ContainsFunc(x.misses, func(m *miss) bool { return m.id == id })
}

// impossible are the requirements of a pool that ask for values which nothing has.
func (c *poolCase) impossible() []reason.ConstraintMiss {
	var out []reason.ConstraintMiss
	for r := range c.template.All() {
		if len(c.written[r.Key]) == 0 || !constraint.WellKnown(r.Key) || r.Operator() != constraint.In {
			continue
		}
		if unknown, near := c.q.unknownValue(r); unknown {
			out = append(out, reason.ConstraintMiss{Kind: "pool", Code: reason.NoSuchOffering, Key: r.Key, PoolHas: spell(r.Exprs()), Unknown: true, Near: near})
		}
	}
	return out
}

// everywhere reports whether all candidates miss the condition.
func everywhere(cands []*candidate, id string) bool {
	return len(cands) > 0 && !slices.ContainsFunc(cands, func(x *candidate) bool { return !hasMiss(x, id) })
}

// constraints are the taints, labels, volumes and topology that stop every offering of the pool.
func (c *poolCase) constraints(inside []*candidate) []reason.ConstraintMiss {
	if len(inside) == 0 {
		return nil
	}
	var out []reason.ConstraintMiss
	for _, m := range inside[0].misses {
		if !everywhere(inside, m.id) {
			continue
		}
		x := reason.ConstraintMiss{Code: m.code, Key: m.key}
		switch m.code {
		case reason.TaintNotTolerated:
			x.Kind, x.PoolHas = "taint", m.change.To+":"+m.change.Effect
		case reason.LabelUnknown, reason.LabelConflict:
			x.Kind, x.PodWants, x.PoolHas = "label", m.change.From, c.offers(m.key, inside)
			x.Unknown, x.Near = c.q.unknown(m.key)
		case reason.VolumeZoneConflict:
			x.Kind, x.PodWants, x.PoolHas = "volume", c.volumeWants(), c.has(m.key)
		case reason.SpreadUnsatisfiable:
			x.Kind = "spread"
		case reason.AffinityUnsatisfiable:
			x.Kind, x.PodWants = "affinity", m.change.To
		case reason.HostPortConflict:
			x.Kind = "hostPort"
		default:
			continue
		}
		if !slices.ContainsFunc(out, func(y reason.ConstraintMiss) bool {
			return x.Code == y.Code && x.Key == y.Key && x.PoolHas == y.PoolHas
		}) {
			out = append(out, x)
		}
	}
	return out
}

// mostValues is how many values of a key are spelled out.
const mostValues = 6

// offers spells what the pool says about a key or, if it says nothing, what its types have.
func (c *poolCase) offers(key string, inside []*candidate) string {
	if has := c.has(key); has != "" {
		return has
	}
	var values []string
	for _, x := range inside {
		if r, ok := x.typ.label(x.offer, key); ok {
			values = append(values, r.Values()...)
		}
	}
	slices.Sort(values)
	if values = slices.Compact(values); len(values) == 0 || len(values) > mostValues {
		return ""
	}
	return spell(constraint.NewIn(key, values...).Exprs())
}

// unknown reports whether the pod asks for a value of a well-known key that nothing in the cluster has, and names the most similar ones.
func (q *inquiry) unknown(key string) (bool, []string) {
	if !constraint.WellKnown(key) {
		return false, nil
	}
	for _, term := range q.terms {
		if r, ok := term.Get(key); ok && r.Operator() == constraint.In {
			return q.unknownValue(r)
		}
	}
	return false, nil
}

// unknownValue reports whether none of the values of a requirement exists.
func (q *inquiry) unknownValue(r constraint.Requirement) (bool, []string) {
	known := q.knownValues(r.Key)
	if len(known) == 0 || len(r.Values()) == 0 || slices.ContainsFunc(known, r.Admits) {
		return false, nil
	}
	return true, reason.Similar(r.Values()[0], known, 3)
}

// knownValues are those that types and offerings of any pool have for a key.
func (q *inquiry) knownValues(key string) []string {
	set := map[string]bool{}
	for _, p := range q.s.Pools {
		if p.Catalog == nil {
			continue
		}
		reqs := q.desk.typeRequirements(p.Catalog)
		for i := range p.Catalog.Types() {
			t := &typeFacts{InstanceType: &p.Catalog.Types()[i], reqs: reqs[i]}
			for j := range t.Offerings {
				if r, ok := t.label(&t.Offerings[j], key); ok {
					for _, v := range r.Values() {
						set[v] = true
					}
				}
			}
		}
		if p.Class != nil && key == constraint.ZoneKey {
			for _, z := range p.Class.Zones {
				set[z] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// has spells what the pool says about a key.
func (c *poolCase) has(key string) string {
	if r, ok := c.template.Get(key); ok {
		return spell(r.Exprs())
	}
	return ""
}

func (c *poolCase) volumeWants() string {
	for _, alt := range c.q.volumes {
		if r, ok := alt.Get(constraint.ZoneKey); ok {
			return spell(r.Exprs())
		}
	}
	return ""
}

// resources compares the requests with the type that comes nearest, if no type is large enough.
func (c *poolCase) resources(inside []*candidate) []reason.ResourceMiss {
	types, having := c.typesOf(inside)
	var best *typeFacts
	for _, t := range types {
		if c.worst(t) == 0 {
			return nil
		}
		if best == nil || c.nearer(t, best) {
			best = t
		}
	}
	if best == nil {
		return nil
	}
	var out []reason.ResourceMiss
	for _, r := range c.q.shape.Requests.Names() {
		want := c.q.shape.Requests[r]
		if want <= best.room[r] || want == 0 {
			continue
		}
		out = append(out, reason.ResourceMiss{
			Name: r, Wants: want, Best: best.room[r], Short: want - best.room[r], BestType: best.Name,
			Types: len(types), Having: having[r], Breakdown: c.breakdown(best, r),
		})
	}
	return out
}

// worst is the largest share of a request that a type lacks.
func (c *poolCase) worst(t *typeFacts) float64 {
	gap := 0.0
	for r, want := range c.q.shape.Requests {
		if want > 0 && want > t.room[r] {
			gap = max(gap, float64(want-t.room[r])/float64(want))
		}
	}
	return gap
}

// nearer reports whether x lacks less than y: by the largest share, then by the number of resources.
func (c *poolCase) nearer(x, y *typeFacts) bool {
	return cmp.Or(cmp.Compare(c.worst(x), c.worst(y)), cmp.Compare(c.lacking(x), c.lacking(y))) < 0
}

// lacking is the number of requests that a type does not leave room for.
func (c *poolCase) lacking(t *typeFacts) int {
	n := 0
	for r, want := range c.q.shape.Requests {
		if want > 0 && want > t.room[r] {
			n++
		}
	}
	return n
}

// typesOf are the types of the candidates in catalogue order, and how many of them have each requested resource.
func (c *poolCase) typesOf(cands []*candidate) ([]*typeFacts, map[string]int) {
	var types []*typeFacts
	having := map[string]int{}
	for _, x := range cands {
		if len(types) > 0 && types[len(types)-1] == x.typ {
			continue
		}
		types = append(types, x.typ)
		for r := range c.q.shape.Requests {
			if x.typ.Capacity[r] > 0 {
				having[r]++
			}
		}
	}
	return types, having
}

func (c *poolCase) breakdown(t *typeFacts, r string) reason.Breakdown {
	b := reason.Breakdown{
		Raw: t.Capacity[r], KubeReserved: t.Overhead.KubeReserved[r], SystemReserved: t.Overhead.SystemReserved[r],
		Eviction: t.Overhead.EvictionThreshold[r], Allocatable: t.allocatable[r], DaemonSets: t.overhead[r], Left: t.room[r],
		LiveNodes: c.liveNodes(t.Name),
	}
	if r == units.Memory && t.MemoryRaw > 0 {
		b.Raw, b.VMOverhead, b.VMOverheadPPM = t.MemoryRaw, t.MemoryRaw-t.Capacity[r], c.q.s.Settings.VMMemoryOverhead
	}
	for _, d := range t.daemons {
		if n := d.Shape.Requests[r]; n > 0 {
			b.Daemons = append(b.Daemons, reason.DaemonShare{Namespace: d.Namespace, Name: d.Name, Amount: n})
		}
	}
	slices.SortStableFunc(b.Daemons, func(x, y reason.DaemonShare) int { return cmp.Compare(y.Amount, x.Amount) })
	return b
}

// closed are the offerings that only the cloud withholds.
func (c *poolCase) closed(inside []*candidate) []reason.OfferingState {
	var out []reason.OfferingState
	for _, x := range inside {
		only := len(x.misses) > 0
		for _, m := range x.misses {
			only = only && m.kind == reason.WaitsForTheSky
		}
		if !only {
			continue
		}
		s := state(x)
		s.Reason, s.Until, s.Available = x.misses[0].change.From, x.misses[0].change.Until, false
		out = append(out, s)
	}
	return out
}

func state(x *candidate) reason.OfferingState {
	return reason.OfferingState{
		Type: x.typ.Name, Zone: x.offer.Zone, CapacityType: x.offer.CapacityType, Price: x.offer.Price, Available: x.offer.Available,
		Reason: x.offer.Unavailable.Reason, Until: x.offer.Unavailable.Until,
	}
}

// notSold are the zones that pool and pod would allow, but in which the types that would do are not sold at all.
func (c *poolCase) notSold(inside []*candidate) []reason.OfferingState {
	if c.pool.Class == nil {
		return nil
	}
	var out []reason.OfferingState
	types, _ := c.typesOf(inside)
	for _, t := range types {
		if c.worst(t) > 0 {
			continue
		}
		for _, z := range c.pool.Class.Zones {
			sold := slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool { return o.Zone == z })
			allowed := c.admits(c.template, z) && slices.ContainsFunc(c.q.terms, func(r constraint.Requirements) bool { return c.admits(r, z) })
			if !sold && allowed {
				out = append(out, reason.OfferingState{Type: t.Name, Zone: z})
			}
		}
	}
	return out
}

func (c *poolCase) admits(rs constraint.Requirements, zone string) bool {
	r, ok := rs.Get(constraint.ZoneKey)
	return !ok || r.Admits(zone)
}

// limits are the limits that leave no type that would do, with the types that stay within them.
func (c *poolCase) limits(inside []*candidate) []reason.LimitMiss {
	var out []reason.LimitMiss
	for _, r := range c.pool.Limits.Names() {
		need, ok := c.limitNeed(inside, r)
		if !ok {
			continue
		}
		l := reason.LimitMiss{Resource: r, Limit: c.pool.Limits[r], Used: c.used[r], Left: c.pool.Limits[r] - c.used[r]}
		l.Needs, l.NeedsType = need.change.Amount-c.used[r], need.key
		c.withinLimit(inside, &l)
		out = append(out, l)
	}
	return out
}

// limitNeed finds the smallest type that passes everything but limits, if all such types exceed this one. Its key is the type.
func (c *poolCase) limitNeed(inside []*candidate, resource string) (miss, bool) {
	var best miss
	found := false
	var price units.Money
	for _, x := range inside {
		others := slices.ContainsFunc(x.misses, func(m *miss) bool { return m.code != reason.LimitReached && m.code != reason.NodePoolStaticOnly })
		if others {
			continue
		}
		i := slices.IndexFunc(x.misses, func(m *miss) bool { return m.id == "limit/"+resource })
		if i < 0 {
			return miss{}, false
		}
		m := *x.misses[i]
		if !found || m.change.Amount < best.change.Amount || m.change.Amount == best.change.Amount && x.offer.Price < price {
			best, found, price = m, true, x.offer.Price
			best.key = x.typ.Name
		}
	}
	return best, found
}

// withinLimit says by how much the best type inside the limit is too small.
func (c *poolCase) withinLimit(inside []*candidate, l *reason.LimitMiss) {
	var best *typeFacts
	types, _ := c.typesOf(inside)
	for _, t := range types {
		adds := t.Capacity[l.Resource]
		if l.Resource == units.Nodes {
			adds = 1
		}
		if adds <= l.Left && (best == nil || c.worst(t) < c.worst(best)) {
			best = t
		}
	}
	if best == nil {
		return
	}
	l.WithinType, l.Short = best.Name, map[string]int64{}
	for r, want := range c.q.shape.Requests {
		if want > best.room[r] {
			l.Short[r] = want - best.room[r]
		}
	}
}

// readiness follows what is not ready from the pool to its class.
func (c *poolCase) readiness() *reason.ReadyState {
	p := c.pool
	r := &reason.ReadyState{ClassMissing: p.Class == nil}
	if !p.Ready {
		r.Chain = append(r.Chain, link("NodePool", p.Name, p.NotReady))
	} else if p.Catalog == nil {
		r.Chain = append(r.Chain, link("NodePool", p.Name, cluster.Condition{Type: "Catalogue", Reason: "CatalogueUnknown", Message: p.CatalogProblem}))
	}
	if lacks := c.q.facts.Pools[p.Name]; !p.Ready && len(lacks) > 0 {
		r.Chain[0] = link("NodePool", p.Name, lacks[0])
	}
	if p.Class == nil {
		return r
	}
	r.SubnetSelector, r.Subnets, r.ClassDeleting = p.Class.SubnetSelector, len(p.Class.Zones), p.Class.Deleting
	for _, claim := range c.q.s.Claims {
		if r.ClassDeleting && claim.NodeClass == p.NodeClass {
			r.ClassClaims++
		}
	}
	switch {
	case r.ClassDeleting:
		r.Chain = append(r.Chain, link(p.NodeClass.Kind, p.NodeClass.Name, cluster.Condition{Type: "Ready", Reason: "NodeClassTerminating", Since: p.NotReady.Since}))
	case !p.Class.Ready:
		cause := p.Class.NotReady
		if lacks := c.q.facts.Classes[p.NodeClass.Name]; len(lacks) > 0 {
			cause = lacks[0]
		}
		r.Chain = append(r.Chain, link(p.NodeClass.Kind, p.NodeClass.Name, cause))
	}
	return r
}

func link(kind, name string, k cluster.Condition) reason.ReadyLink {
	return reason.ReadyLink{Object: reason.Object{Kind: kind, Name: name}, Type: k.Type, Reason: k.Reason, Message: k.Message, Since: k.Since}
}

// static counts the nodes of a static pool and those without room for the pod.
func (c *poolCase) static() *reason.StaticState {
	s := &reason.StaticState{Replicas: *c.pool.Replicas, GateOff: !c.q.s.Settings.StaticCapacity}
	for _, t := range c.q.s.Targets() {
		if t.Pool != c.pool.Name || t.Leaving {
			continue
		}
		s.Nodes++
		if !c.q.hasRoom(t) {
			s.Full++
		}
	}
	return s
}

// hasRoom reports whether the free resources of a target would hold the pod, whatever else forbids it.
func (q *inquiry) hasRoom(t *cluster.Target) bool {
	return units.Fits(q.shape.Requests, t.Allocatable.Sub(t.Used))
}

func (c *poolCase) spreadState(v *spreadView) *reason.SpreadState {
	out := &reason.SpreadState{
		Index: v.index, Key: v.spread.Key, MaxSkew: v.spread.MaxSkew, MinDomains: v.spread.MinDomain, Minimum: v.minimum, Self: v.self,
	}
	r, defined := c.template.Get(v.spread.Key)
	for _, d := range v.domains() {
		x := reason.DomainState{Domain: d, Count: v.counts[d], Skew: v.skew(d), PoolAllows: !defined || r.Admits(d)}
		for _, t := range c.q.s.Targets() {
			x.RoomOnNodes = x.RoomOnNodes || t.Labels[v.spread.Key] == d && !t.Leaving && c.q.hasRoom(t)
		}
		out.Domains = append(out.Domains, x)
	}
	return out
}

// volumeStates lists the volumes whose zones the pool does not have.
func (c *poolCase) volumeStates() []reason.VolumeState {
	var out []reason.VolumeState
	pool := c.zones()
	for _, v := range c.q.shape.Volumes {
		for _, alt := range v.Alternatives {
			r, ok := constraint.Parse(alt).Get(constraint.ZoneKey)
			if !ok || r.Operator() != constraint.In {
				continue
			}
			if slices.ContainsFunc(pool, r.Admits) {
				continue
			}
			out = append(out, reason.VolumeState{Claim: v.Claim, PV: v.PV, Key: constraint.ZoneKey, Values: r.Values(), PoolValues: pool})
		}
	}
	return out
}

// zones in which the pool may launch.
func (c *poolCase) zones() []string {
	set := []string{}
	for _, x := range c.cands {
		if !x.outside {
			set = append(set, x.offer.Zone)
		}
	}
	slices.Sort(set)
	return slices.Compact(set)
}
