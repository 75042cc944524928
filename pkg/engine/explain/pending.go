package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/reason"
)

// inquiry is one question about one pod, with what several pools need prepared.
type inquiry struct {
	desk   *Desk
	s      *cluster.Snapshot
	policy engine.Policy
	facts  Facts
	pod    *cluster.Pod
	shape  *cluster.Shape
	only   []string
	most   int
	bare   bool

	terms      []constraint.Requirements
	volumes    []constraint.Requirements
	spreads    []*spreadView
	affinities []*podTermView
	antis      []*podTermView
	repels     map[string]map[string]bool
	lab        *lab
}

// WhyPending answers one question; a Desk is cheaper for several.
func WhyPending(s *cluster.Snapshot, p engine.Policy, f Facts, question Question) PendingAnswer {
	return NewDesk(s, p, f).WhyPending(question)
}

// prepare counts pods per domain for the constraints that need it.
func (q *inquiry) prepare() {
	q.spreads = q.spreadViews()
	q.affinities = q.podTermViews(q.shape.PodAffinity.Required)
	q.antis = q.podTermViews(q.shape.AntiAffinity.Required)
	q.repels = q.repelled()
}

func (q *inquiry) answer(a *PendingAnswer) {
	if code, detail, stop := q.request(); stop {
		q.notAsking(a, code, detail)
		return
	}
	if q.onItsWay(a) {
		return
	}
	if !q.bare && q.placedByEngine(a) {
		return
	}
	q.rank(a)
}

// notAsking fills in a layer-0 answer.
func (q *inquiry) notAsking(a *PendingAnswer, code reason.Code, d reason.RequestDetail) {
	a.Code, a.Layer, a.Request = code, reason.Request, d
	switch code {
	case reason.NotPending:
		q.heldOnNode(a)
	case reason.SchedulingGated:
		if q.bare {
			return
		}
		if e, ok := q.lab.released(); ok {
			a.WhenReleased = e.Launch
		}
	default: // the request says it all
	}
}

// rank runs the funnel of every pool and orders them by distance.
func (q *inquiry) rank(a *PendingAnswer) {
	pools := q.pools()
	if len(pools) == 0 {
		a.Code, a.Layer = reason.NoNodePools, reason.NodePool
		return
	}
	q.prepare()
	var ranked []*rankedPool
	for i, p := range pools {
		if len(q.only) > 0 && !slices.Contains(q.only, p.Name) {
			continue
		}
		ranked = append(ranked, q.rankPool(q.poolCase(p, i+1)))
	}
	q.keepOut(ranked)
	slices.SortStableFunc(ranked, func(x, y *rankedPool) int {
		return cmp.Or(compareDistance(x.answer.Distance, y.answer.Distance), cmp.Compare(x.answer.Pool, y.answer.Pool))
	})
	if len(ranked) == 0 {
		a.Code, a.Layer = reason.NoNodePools, reason.NodePool
		return
	}
	for _, r := range ranked {
		a.Pools = append(a.Pools, r.answer)
	}
	near := a.Pools[0]
	a.Code, a.Layer, a.Certainty, a.Nearest = near.Code, near.Layer, near.Certainty, near.Pool
	for _, r := range ranked[1:] {
		if r.closedByCloud() && r.answer.Weight > near.Weight {
			a.CloudClosed = append(a.CloudClosed, r.answer.Pool)
		}
	}
	a.Attempts = q.attempts(a.Nearest)
	a.Dropped = q.preferences()
	if !q.bare {
		a.Fixes = q.fixes(ranked)
	}
}

// preferences are the soft constraints of the pod. The engine gives all of them up before it says that a pod fits nowhere, so none of them is
// ever what stops it.
func (q *inquiry) preferences() []string {
	if q.s.Settings.IgnorePreferences {
		return nil
	}
	var out []string
	for _, x := range []struct {
		name string
		n    int
	}{
		{"nodeAffinity", len(q.shape.Preferred)},
		{"podAffinity", len(q.shape.PodAffinity.Preferred)},
		{"podAntiAffinity", len(q.shape.AntiAffinity.Preferred)},
	} {
		if x.n > 0 {
			out = append(out, x.name)
		}
	}
	for _, sp := range q.shape.Spread {
		if !sp.Hard {
			out = append(out, "topologySpread "+sp.Key)
		}
	}
	return out
}

// pools in the engine's order (scheduling rules 4.2), static and unready ones included.
func (q *inquiry) pools() []*cluster.Pool {
	out := slices.Clone(q.s.Pools)
	slices.SortFunc(out, func(x, y *cluster.Pool) int {
		return cmp.Or(cmp.Compare(y.Weight, x.Weight), cmp.Compare(y.Name, x.Name))
	})
	return out
}

func compareDistance(x, y reason.Distance) int {
	return cmp.Or(
		cmp.Compare(x.Tier(), y.Tier()), cmp.Compare(x.Conditions, y.Conditions), cmp.Compare(x.Kind, y.Kind),
		cmp.Compare(x.Gap, y.Gap), cmp.Compare(x.Price, y.Price),
	)
}

func ownerOf(p *cluster.Pod) reason.Object {
	if p.Owner.Name == "" {
		return reason.Object{}
	}
	return reason.Object{Kind: p.Owner.Kind, Namespace: p.Namespace, Name: p.Owner.Name, UID: p.Owner.UID}
}

// assume returns the shape as if the pod selected these labels, whatever it says about their keys now.
func assume(s *cluster.Shape, labels map[string]string) *cluster.Shape {
	out := *s
	out.NodeSelector = map[string]string{}
	for k, v := range s.NodeSelector {
		out.NodeSelector[constraint.Canonical(k)] = v
	}
	for k, v := range labels {
		key := constraint.Canonical(k)
		out = *withoutKey(&out, key)
		out.NodeSelector[key] = v
	}
	return cluster.NewShape(out)
}

// withoutKey returns the shape without anything its selector and required affinity say about the key.
func withoutKey(s *cluster.Shape, key string) *cluster.Shape {
	out := *s
	out.NodeSelector = map[string]string{}
	for k, v := range s.NodeSelector {
		if constraint.Canonical(k) != key {
			out.NodeSelector[k] = v
		}
	}
	out.Required = nil
	for _, t := range s.Required {
		var kept []constraint.Expr
		for _, e := range t.Exprs {
			if constraint.Canonical(e.Key) != key {
				kept = append(kept, e)
			}
		}
		out.Required = append(out.Required, cluster.NodeTerm{Exprs: kept, MatchFields: t.MatchFields})
	}
	return &out
}

// rankedPool is a pool's answer with what the fixes are made of.
type rankedPool struct {
	answer reason.PoolAnswer
	c      *poolCase
	sets   []changeSet
}

// changeSet is one smallest set of conditions, and the best candidate it opens.
type changeSet struct {
	misses   []*miss
	cand     *candidate
	distance reason.Distance
	others   []string
	// limit is the limit that keeps out types on which requests had to be lowered less.
	limit string
}

// closedByCloud reports whether the pool would do if only the cloud sold what it allows.
func (r *rankedPool) closedByCloud() bool { return len(r.answer.Offerings) > 0 }

func (q *inquiry) rankPool(c *poolCase) *rankedPool {
	r := &rankedPool{c: c, sets: c.smallestSets()}
	r.answer = reason.PoolAnswer{Pool: c.pool.Name, Weight: c.pool.Weight, Order: c.order}
	c.funnel(&r.answer)
	c.evidence(&r.answer)
	if len(r.sets) > 0 {
		r.answer.Distance = r.sets[0].distance
	}
	for _, s := range r.sets {
		r.answer.Sets = append(r.answer.Sets, s.changes())
	}
	return r
}

// smallestSets are all sets of the least number of conditions that would leave one offering, best first.
func (c *poolCase) smallestSets() []changeSet {
	groups := map[string]*changeSet{}
	least := 0
	for _, cand := range c.cands {
		for _, ms := range expand(cand.misses) {
			ids := distinct(ms)
			if len(ids) == 0 || least > 0 && len(ids) > least {
				continue
			}
			if least == 0 || len(ids) < least {
				least = len(ids)
				clear(groups)
			}
			c.offer(groups, fmt.Sprint(ids), changeSet{misses: ms, cand: cand, distance: distance(ids, ms, cand)})
		}
	}
	out := make([]changeSet, 0, len(groups))
	for _, g := range groups {
		out = append(out, *g)
	}
	for i := range out {
		out[i].limit = c.cappedBy(out[i])
	}
	slices.SortFunc(out, func(x, y changeSet) int {
		return cmp.Or(compareDistance(x.distance, y.distance), cmp.Compare(fmt.Sprint(distinct(x.misses)), fmt.Sprint(distinct(y.misses))))
	})
	return out
}

// cappedBy is the limit without which the set could do with a smaller cut: it excludes types that have more of what has to be lowered.
func (c *poolCase) cappedBy(s changeSet) string {
	for _, m := range s.misses {
		if m.change.Action != reason.LowerRequest {
			continue
		}
		for _, x := range c.cands {
			if x.outside != s.cand.outside || x.typ.room[m.key] <= m.change.Amount {
				continue
			}
			limit, only := "", true
			for _, other := range x.misses {
				if other.code == reason.LimitReached {
					limit = other.key
				} else if !slices.ContainsFunc(s.misses, func(have *miss) bool { return have.id == other.id }) {
					only = false
				}
			}
			if limit != "" && only {
				return limit
			}
		}
	}
	return ""
}

// offer keeps the best candidate of a set; equals in another zone or of another type are remembered as others.
func (c *poolCase) offer(groups map[string]*changeSet, key string, s changeSet) {
	have := groups[key]
	if have == nil {
		groups[key] = &s
		return
	}
	order := cmp.Or(
		compareDistance(s.distance, have.distance), cmp.Compare(s.cand.typ.Name, have.cand.typ.Name), cmp.Compare(s.cand.offer.Zone, have.cand.offer.Zone),
	)
	value := func(x *changeSet) string {
		if len(x.misses) == 1 && x.misses[0].change.Action == reason.AddValue {
			return x.misses[0].change.To
		}
		return ""
	}
	same := compareDistance(s.distance, have.distance) == 0
	if order < 0 {
		if same && value(&s) != value(have) {
			s.others = append(have.others, value(have))
		}
		groups[key] = &s
		return
	}
	if v := value(&s); same && v != value(have) && !slices.Contains(have.others, v) {
		have.others = append(have.others, v)
	}
}

// expand spells out misses that can be met in either of two ways; hard ones make the list empty.
func expand(ms []*miss) [][]*miss {
	if slices.ContainsFunc(ms, func(m *miss) bool { return m.hard }) {
		return nil
	}
	if !slices.ContainsFunc(ms, func(m *miss) bool { return m.orElse != nil }) {
		return [][]*miss{ms}
	}
	out := [][]*miss{nil}
	for _, m := range ms {
		n := len(out)
		for i := range n {
			if m.orElse != nil && len(out) < 16 {
				out = append(out, append(slices.Clone(out[i]), m.orElse))
			}
			out[i] = append(out[i], m)
		}
	}
	return out
}

func distinct(ms []*miss) []string {
	ids := make([]string, 0, len(ms))
	for _, m := range ms {
		ids = append(ids, m.id)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func distance(ids []string, ms []*miss, cand *candidate) reason.Distance {
	d := reason.Distance{Reachable: true, Conditions: len(ids), Price: cand.offer.Price}
	for _, m := range ms {
		d.Kind, d.Gap = max(d.Kind, m.kind), max(d.Gap, m.gap)
	}
	return d
}

// kinds of the changes, in their order.
func (s changeSet) kinds() []reason.Kind {
	var out []reason.Kind
	seen := map[string]bool{}
	for _, m := range s.misses {
		if !seen[m.id] {
			seen[m.id] = true
			out = append(out, m.kind)
		}
	}
	return out
}

// changes of the set, the best one for each condition.
func (s changeSet) changes() []reason.Change {
	var out []reason.Change
	seen := map[string]bool{}
	for _, m := range s.misses {
		if !seen[m.id] {
			seen[m.id] = true
			ch := m.change
			if ch.Action == reason.LowerRequest {
				ch.Limit = s.limit
			}
			if len(s.misses) == 1 {
				ch.Others = append(ch.Others, s.others...)
			}
			out = append(out, ch)
		}
	}
	return out
}
