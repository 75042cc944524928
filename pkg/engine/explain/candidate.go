package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// candidate is one offering of a pool's catalogue, inside the pool's requirements or not, with everything that stands between it and the
// pod. The smallest set of changes that helps is therefore the smallest set of misses of any one candidate.
type candidate struct {
	typ    *typeFacts
	offer  *catalog.Offering
	misses []*miss
	// outside tells that the pool's own requirements exclude the offering.
	outside bool
}

// miss is one condition that is not met. Two misses with the same id are met by the same change.
type miss struct {
	id   string
	code reason.Code
	key  string
	kind reason.Kind
	gap  float64
	// hard tells that no change would help.
	hard bool
	// change meets the condition; more are other changes that meet it as well, worse ones last.
	change reason.Change
	more   []reason.Change
	// orElse is another condition that could be changed in its place.
	orElse *miss
}

// typeFacts is an instance type as this pool would run it.
type typeFacts struct {
	*catalog.InstanceType
	reqs        constraint.Requirements
	allocatable units.List
	overhead    units.List
	daemons     []*cluster.DaemonSet
	room        units.List
	portClash   bool
	// misses are those that all offerings of the type share: resources, host ports and limits.
	misses []*miss
}

// poolCase is one pool seen by one pod.
type poolCase struct {
	q        *inquiry
	pool     *cluster.Pool
	order    int
	template constraint.Requirements
	// required is what the pool's requirements alone say, as written and by key.
	written map[string][]constraint.Expr
	types   []*typeFacts
	used    units.List
	cands   []*candidate
	quota   map[string]string // capacity type -> reason, where a quota is reached
	// whole are the misses that all offerings share; kept holds the others by what tells them apart.
	whole []*miss
	kept  map[string]*miss
}

// once makes each miss a single time: thousands of offerings fail for the same few reasons.
func (c *poolCase) once(key string, make func() miss) *miss {
	if m := c.kept[key]; m != nil {
		return m
	}
	m := make()
	c.kept[key] = &m
	return &m
}

func (q *inquiry) poolCase(p *cluster.Pool, order int) *poolCase {
	c := &poolCase{q: q, pool: p, order: order, written: map[string][]constraint.Expr{}, quota: map[string]string{}, kept: map[string]*miss{}}
	for _, e := range p.Requirements {
		k := constraint.Canonical(e.Key)
		c.written[k] = append(c.written[k], e)
	}
	c.template = template(p)
	c.used = usage(q.s, p.Name)
	c.types = c.typeFacts()
	c.whole = slices.Concat(c.poolMisses(), c.taints())
	for _, t := range c.types {
		t.misses = slices.Concat(c.resourceMisses(t), c.limitMisses(t))
		for i := range t.Offerings {
			if o := &t.Offerings[i]; !o.Available && quotaReason(o.Unavailable.Reason) {
				c.quota[o.CapacityType] = o.Unavailable.Reason
			}
		}
	}
	for _, t := range c.types {
		for i := range t.Offerings {
			c.cands = append(c.cands, c.judge(t, &t.Offerings[i]))
		}
	}
	c.judgeMinValues()
	return c
}

// template is what claims of the pool require before pods add to it (scheduling rules 4.4).
func template(p *cluster.Pool) constraint.Requirements {
	return constraint.Parse(p.Requirements).And(constraint.FromLabels(p.Labels)).With(
		constraint.NewIn(constraint.NodePoolKey, p.Name),
		constraint.NewIn(p.NodeClass.Group+"/"+strings.ToLower(p.NodeClass.Kind), p.NodeClass.Name),
	)
}

// usage is what counts against the pool's limits now (scheduling rules 13).
func usage(s *cluster.Snapshot, pool string) units.List {
	used := units.List{}
	for _, t := range s.Targets() {
		if t.Pool == pool && !t.Leaving {
			used = used.Add(t.Capacity)
		}
	}
	return used
}

func (c *poolCase) typeFacts() []*typeFacts {
	if c.pool.Catalog == nil {
		return nil
	}
	known := c.template.With(constraint.NewIn(constraint.RegisteredKey, "true"), constraint.NewIn(constraint.InitializedKey, "true"))
	daemons := c.daemons(known)
	all := c.pool.Catalog.Types()
	reqs := c.q.desk.typeRequirements(c.pool.Catalog)
	out := make([]*typeFacts, 0, len(all))
	for i := range all {
		t := &typeFacts{InstanceType: &all[i], reqs: reqs[i], allocatable: all[i].Allocatable(), overhead: units.List{}}
		for _, d := range daemons {
			if d.runsOn(t.reqs) {
				t.daemons = append(t.daemons, d.set)
				t.overhead = t.overhead.Add(d.set.Shape.Requests)
				t.portClash = t.portClash || portsClash(c.q.shape.HostPorts, d.set.Shape.HostPorts)
			}
		}
		t.room = t.allocatable.Sub(t.overhead)
		out = append(out, t)
	}
	return out
}

// daemon is a DaemonSet that tolerates the pool's taints and matches its template by one of the terms.
type daemon struct {
	set   *cluster.DaemonSet
	terms []constraint.Requirements
}

// daemons applies scheduling rules 8.2 as far as the pool goes.
func (c *poolCase) daemons(known constraint.Requirements) []daemon {
	var out []daemon
	for _, d := range c.q.s.DaemonSets {
		if _, bad := constraint.UntoleratedHard(c.pool.Taints, d.Shape.Tolerations); bad {
			continue
		}
		if len(d.Shape.ResourceClaims) > 0 && c.q.s.Settings.IgnoreDRA {
			continue
		}
		var terms []constraint.Requirements
		for _, t := range requirements(d.Shape) {
			if _, ok := known.Compatible(t, constraint.WellKnownOptional); ok {
				terms = append(terms, t)
			}
		}
		if len(terms) > 0 {
			out = append(out, daemon{d, terms})
		}
	}
	return out
}

func (d daemon) runsOn(t constraint.Requirements) bool {
	return slices.ContainsFunc(d.terms, func(r constraint.Requirements) bool { _, clash := t.Conflict(r); return !clash })
}

// requirements of a shape, one alternative per required node-affinity term (scheduling rules 6.6, strict).
func requirements(s *cluster.Shape) []constraint.Requirements {
	base := constraint.FromLabels(s.NodeSelector)
	if len(s.Required) == 0 {
		return []constraint.Requirements{base}
	}
	var out []constraint.Requirements
	for _, t := range s.Required {
		out = append(out, base.And(constraint.Parse(t.Exprs)))
	}
	return out
}

// label is what a node bought with this offering has for the key.
func (t *typeFacts) label(o *catalog.Offering, key string) (constraint.Requirement, bool) {
	switch key {
	case constraint.ZoneKey:
		return constraint.NewIn(key, o.Zone), true
	case constraint.ZoneIDKey:
		if o.ZoneID != "" {
			return constraint.NewIn(key, o.ZoneID), true
		}
	case constraint.CapacityTypeKey:
		return constraint.NewIn(key, o.CapacityType), true
	}
	for _, e := range o.Requirements {
		if constraint.Canonical(e.Key) == key {
			return constraint.New(e), true
		}
	}
	return t.reqs.Get(key)
}

// judge collects everything an offering fails. Of several alternatives that the pod offers (terms of its node affinity) the one that fails
// least counts.
func (c *poolCase) judge(t *typeFacts, o *catalog.Offering) *candidate {
	cand := &candidate{typ: t, offer: o}
	outside := c.requirementMisses(t, o)
	cand.outside = len(outside) > 0
	var labels []*miss
	for i, term := range c.q.terms {
		ms := c.labelMisses(t, o, term)
		if i == 0 || weigh(ms) < weigh(labels) {
			labels = ms
		}
	}
	cand.misses = slices.Concat(c.whole, outside, labels, t.misses, c.volumeMisses(t, o), c.topologyMisses(t, o), c.cloudMisses(t, o))
	return cand
}

// weigh orders alternatives: what nothing helps is worst.
func weigh(ms []*miss) int {
	n := len(ms)
	for _, m := range ms {
		if m.hard {
			n += 1000
		}
	}
	return n
}

func (c *poolCase) object() reason.Object { return reason.Object{Kind: "NodePool", Name: c.pool.Name} }
func (q *inquiry) object() reason.Object {
	return reason.Object{Kind: "Pod", Namespace: q.pod.Namespace, Name: q.pod.Name, UID: q.pod.UID}
}

// poolMisses are about the pool as a whole (layer NodePool).
func (c *poolCase) poolMisses() []*miss {
	var out []*miss
	p := c.pool
	if !p.Ready {
		out = append(out, &miss{
			id: "ready", code: reason.NodePoolNotReady, kind: reason.OpensPool, gap: 1,
			change: reason.Change{Owner: reason.ByPool, Action: reason.MakeReady, Object: c.object(), From: p.NotReady.Reason},
		})
	}
	if p.Deleting {
		out = append(out, &miss{id: "deleting", code: reason.NodePoolDeleting, hard: true})
	}
	if p.Replicas != nil {
		n := *p.Replicas
		out = append(out, &miss{
			id: "replicas", code: reason.NodePoolStaticOnly, kind: reason.OpensPool, gap: 1, hard: !c.q.s.Settings.StaticCapacity,
			change: reason.Change{
				Owner: reason.ByPool, Action: reason.AddReplica, Object: c.object(), Was: n, Amount: n + 1,
				From: fmt.Sprint(n), To: fmt.Sprint(n + 1),
			},
		})
	}
	return out
}

// requirementMisses are the requirements of the pool that exclude the offering.
func (c *poolCase) requirementMisses(t *typeFacts, o *catalog.Offering) []*miss {
	var out []*miss
	for r := range c.template.All() {
		have, known := t.label(o, r.Key)
		if !known || !have.Conflicts(r) {
			continue
		}
		written := c.written[r.Key]
		if len(written) == 0 {
			out = append(out, &miss{id: "pool/" + r.Key, key: r.Key, hard: true})
			continue
		}
		out = append(out, c.open(r.Key, have))
	}
	return out
}

// open is the change by which a requirement of the pool admits what an offering has: one more value of an In, else no requirement.
func (c *poolCase) open(key string, have constraint.Requirement) *miss {
	return c.once("pool/"+key+"/"+strings.Join(have.Values(), " "), func() miss { return c.opening(key, have) })
}

func (c *poolCase) opening(key string, have constraint.Requirement) miss {
	m := miss{id: "pool/" + key, key: key, code: reason.LabelConflict, kind: reason.OpensPool, gap: 1}
	value, single := have.Single()
	m.change = reason.Change{Owner: reason.ByPool, Action: reason.AddValue, Object: c.object(), Key: key, From: spell(c.written[key]), To: value}
	m.change.Index = c.indexOf(key)
	onlyIn := !slices.ContainsFunc(c.written[key], func(e constraint.Expr) bool { return e.Operator != constraint.In })
	if !single || !onlyIn || len(c.written[key]) > 1 {
		m.change.Action, m.change.To = reason.DropRequirement, ""
	}
	if key == constraint.CapacityTypeKey && value == catalog.Spot {
		m.kind = reason.GivesUp
	}
	return m
}

// indexOf is the place of the key's first requirement in the pool's list.
func (c *poolCase) indexOf(key string) int {
	return slices.IndexFunc(c.pool.Requirements, func(e constraint.Expr) bool { return constraint.Canonical(e.Key) == key })
}

// taints that the pod does not tolerate; the soft effect is given up by the engine itself.
func (c *poolCase) taints() []*miss {
	var out []*miss
	for i, t := range c.pool.Taints {
		if t.Effect == constraint.PreferNoSchedule || constraint.Tolerates(c.q.shape.Tolerations, t) {
			continue
		}
		out = append(out, &miss{
			id: fmt.Sprintf("taint/%s=%s:%s", t.Key, t.Value, t.Effect), code: reason.TaintNotTolerated, key: t.Key,
			kind: reason.AddsToleration, gap: 1,
			change: reason.Change{
				Owner: reason.ByPod, Action: reason.AddToleration, Object: c.q.object(), Key: t.Key, Index: i, To: t.Value, Effect: string(t.Effect),
			},
		})
	}
	return out
}

// labelMisses are what one alternative of the pod's node requirements asks for in vain.
func (c *poolCase) labelMisses(t *typeFacts, o *catalog.Offering, term constraint.Requirements) []*miss {
	var out []*miss
	for r := range term.All() {
		has, defined := c.template.Get(r.Key)
		have, known := t.label(o, r.Key)
		switch {
		case !defined && !constraint.WellKnown(r.Key) && !r.AdmitsAbsent():
			out = append(out, c.unknownLabel(r))
		case known && have.Conflicts(r):
			out = append(out, c.conflict(r))
		case !known && defined && has.Conflicts(r):
			out = append(out, c.customConflict(r))
		}
	}
	return out
}

// conflict is a key on which pool or offering and pod disagree; the pod can give it up.
func (c *poolCase) conflict(r constraint.Requirement) *miss {
	return c.once("conflict/"+r.String(), func() miss { return c.giveUp(r) })
}

func (c *poolCase) giveUp(r constraint.Requirement) miss {
	return miss{
		id: "pod/" + r.Key, code: reason.LabelConflict, key: r.Key, kind: reason.GivesUp, gap: 1,
		change: reason.Change{Owner: reason.ByPod, Action: reason.DropSelector, Object: c.q.object(), Key: r.Key, From: spell(r.Exprs())},
	}
}

// customConflict is a conflict on a key that only the pool defines: by a requirement, which could admit one more value, or by a label.
func (c *poolCase) customConflict(r constraint.Requirement) *miss {
	return c.once("custom/"+r.String(), func() miss {
		m := c.giveUp(r)
		if v, ok := r.Sample(); ok && len(c.written[r.Key]) > 0 && c.pool.Labels[r.Key] == "" {
			m.orElse = c.open(r.Key, constraint.NewIn(r.Key, v))
		}
		return m
	})
}

// unknownLabel is a key that nobody defines; the pod can give it up or the pool can adopt it.
func (c *poolCase) unknownLabel(r constraint.Requirement) *miss {
	return c.once("unknown/"+r.String(), func() miss {
		m := c.giveUp(r)
		m.code = reason.LabelUnknown
		if v, ok := r.Sample(); ok {
			m.more = []reason.Change{{Owner: reason.ByPool, Action: reason.AddLabel, Object: c.object(), Key: r.Key, To: v}}
		}
		return m
	})
}

// resourceMisses compare the pod's requests with what the type leaves.
func (c *poolCase) resourceMisses(t *typeFacts) []*miss {
	var out []*miss
	for _, r := range c.q.shape.Requests.Names() {
		want, room := c.q.shape.Requests[r], t.room[r]
		if want <= room || want == 0 {
			continue
		}
		m := &miss{id: "request/" + r, code: reason.TooBig, key: r, gap: float64(want-room) / float64(want), kind: reason.AsksMuchLess}
		if m.gap <= smallCut {
			m.kind = reason.LowersRequest
		}
		m.change = reason.Change{Owner: reason.ByPod, Action: reason.LowerRequest, Object: c.q.object(), Key: r, Was: want, Amount: room}
		switch {
		case r == units.Pods:
			m.code, m.hard = reason.TooManyPods, true
		case t.Capacity[r] == 0:
			m.code, m.hard = reason.ResourceNotOffered, true
		case room <= 0:
			m.hard = true
		}
		out = append(out, m)
	}
	if t.portClash {
		out = append(out, &miss{id: "hostPort", code: reason.HostPortConflict, hard: true})
	}
	return out
}

// smallCut is the share of a request up to which lowering it counts as small (nearest-miss rule, kind 1).
const smallCut = 0.10

// limitMisses are the limits that launching the type would exceed.
func (c *poolCase) limitMisses(t *typeFacts) []*miss {
	var out []*miss
	for _, r := range c.pool.Limits.Names() {
		limit, adds := c.pool.Limits[r], t.Capacity[r]
		if r == units.Nodes {
			adds = 1
		}
		missing := c.used[r] + adds - limit
		if missing <= 0 {
			continue
		}
		m := &miss{id: "limit/" + r, code: reason.LimitReached, key: r, kind: reason.OpensPool, gap: 1}
		if limit > 0 {
			m.gap = float64(missing) / float64(limit)
		}
		m.change = reason.Change{Owner: reason.ByPool, Action: reason.RaiseLimit, Object: c.object(), Key: r, Was: limit, Amount: c.used[r] + adds}
		out = append(out, m)
	}
	return out
}

// cloudMisses is why the offering cannot be bought now.
func (c *poolCase) cloudMisses(t *typeFacts, o *catalog.Offering) []*miss {
	u := o.Unavailable
	if why, full := c.quota[o.CapacityType]; full {
		u.Reason = why
	} else if o.Available {
		return nil
	}
	m := &miss{kind: reason.WaitsForTheSky, gap: 1, key: u.Reason}
	switch cloudState(u.Reason) {
	case reason.QuotaReached:
		m.id, m.code = "cloud/quota/"+o.CapacityType, reason.QuotaReached
	case reason.ZonalShift:
		m.id, m.code = "cloud/shift/"+o.Zone, reason.ZonalShift
	case reason.OutOfIPs:
		m.id, m.code = "cloud/addresses/"+o.Zone, reason.OutOfIPs
	case reason.NoSuchOffering:
		return []*miss{{id: "class", code: reason.NoSuchOffering, hard: true}}
	default:
		m.id, m.code = "cloud/"+t.Name+"/"+o.Zone+"/"+o.CapacityType, reason.OfferingUnavailable
		if o.CapacityType == catalog.Reserved {
			m.id, m.code = "cloud/reservation/"+o.ReservationID, reason.ReservationFull
		}
	}
	m.change = reason.Change{Owner: reason.ByWait, Action: reason.WaitUntil, Key: m.id, From: u.Reason, Until: u.Until}
	return []*miss{m}
}

// cloudState sorts the cloud's reasons. Capacity that is sold out is the default.
func cloudState(why string) reason.Code {
	switch {
	case quotaReason(why):
		return reason.QuotaReached
	case why == "ZonalShift":
		return reason.ZonalShift
	case why == "InsufficientFreeAddressesInSubnet":
		return reason.OutOfIPs
	case why == "IncompatibleNodeClass":
		return reason.NoSuchOffering
	}
	return reason.OfferingUnavailable
}

// quotaReason tells the account's quotas from capacity that is sold out (AWS error codes).
func quotaReason(why string) bool {
	return why == "MaxSpotInstanceCountExceeded" || why == "VcpuLimitExceeded" || why == "InstanceLimitExceeded"
}

// judgeMinValues adds the misses that belong to the surviving offerings together (scheduling rules 14).
func (c *poolCase) judgeMinValues() {
	if c.q.s.Settings.BestEffortMinValues {
		return
	}
	for _, e := range c.pool.Requirements {
		if e.MinValues == 0 {
			continue
		}
		key := constraint.Canonical(e.Key)
		values := map[string]bool{}
		for _, x := range c.cands {
			if len(x.misses) == 0 {
				if r, ok := x.typ.label(x.offer, key); ok {
					for _, v := range r.Values() {
						values[v] = true
					}
				}
			}
		}
		if n := len(values); n > 0 && n < e.MinValues {
			c.missAll(&miss{
				id: "pool/" + key, key: key, code: reason.MinValuesUnsatisfied, kind: reason.OpensPool, gap: 1,
				change: reason.Change{
					Owner: reason.ByPool, Action: reason.LowerMinValues, Object: c.object(), Key: key, Index: c.indexOf(key),
					Was: int64(e.MinValues), Amount: int64(n), From: fmt.Sprint(e.MinValues), To: fmt.Sprint(n),
				},
			})
		}
	}
}

func (c *poolCase) missAll(m *miss) {
	for _, x := range c.cands {
		if len(x.misses) == 0 {
			x.misses = append(x.misses, m)
		}
	}
}

// spell writes expressions as in "In [a b], Exists".
func spell(es []constraint.Expr) string {
	parts := make([]string, 0, len(es))
	for _, e := range es {
		s := string(e.Operator)
		if len(e.Values) > 0 {
			s += " [" + strings.Join(e.Values, " ") + "]"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

func portsClash(a, b []cluster.HostPort) bool {
	wild := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	for _, x := range a {
		for _, y := range b {
			if x.Port == y.Port && x.Protocol == y.Protocol && (x.IP == y.IP || wild(x.IP) || wild(y.IP)) {
				return true
			}
		}
	}
	return false
}
