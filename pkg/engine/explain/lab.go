package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
)

// lab is a copy of the snapshot in which only the pod in question waits for a node. Changes are applied to it and the engine decides.
type lab struct {
	q *inquiry
	// first is the plan without any change, made when first asked for.
	first *plan.Plan
}

// asking returns the pod as one that asks for a node.
func asking(p *cluster.Pod) *cluster.Pod {
	out := *p
	out.Node, out.Nominated, out.NominatedByKarp = "", "", false
	out.Scheduled, out.Phase = unschedulable, "Pending"
	return &out
}

// decide lets the engine decide about the pod alone in the laboratory, which it leaves as it was.
func (l *lab) decide(pod *cluster.Pod) *plan.Plan {
	b := l.q.desk.laboratory()
	b.SetPod(pod)
	p := engine.Decide(b.Snapshot(l.q.s.At), l.q.policy)
	b.DeletePod(pod.UID)
	for _, was := range l.q.s.Pods {
		if was.UID == pod.UID && placed(was) {
			b.SetPod(was)
		}
	}
	return &p
}

// unchanged decides without any change.
func (l *lab) unchanged() *plan.Plan {
	if l.first == nil {
		l.first = l.decide(asking(l.q.pod))
	}
	return l.first
}

// finding is what the engine itself says about a pool.
func (l *lab) finding(pool string) (plan.PoolFinding, bool) {
	for _, v := range l.unchanged().Verdicts {
		if v.Pod != l.q.pod.UID {
			continue
		}
		for _, f := range v.Pools {
			if f.Pool == pool && f.Code != "" {
				return f, true
			}
		}
	}
	return plan.PoolFinding{}, false
}

// released decides as if the pod asked for a node without its gates.
func (l *lab) released() (reason.FixEffect, bool) {
	pod := asking(l.q.pod)
	shape := *pod.Shape
	shape.SchedulingGates = nil
	pod.Shape = cluster.NewShape(shape)
	return effect(l.decide(pod), pod.UID)
}

// effect reads from a plan where a pod would go.
func effect(p *plan.Plan, uid string) (reason.FixEffect, bool) {
	for i := range p.Claims {
		if c := &p.Claims[i]; slices.Contains(c.Pods, uid) {
			return reason.FixEffect{Launch: purchase(c)}, true
		}
	}
	for _, x := range p.Placements {
		if x.Pod == uid {
			node := x.Node
			if node == "" {
				node = x.Claim
			}
			return reason.FixEffect{Node: node}, true
		}
	}
	return reason.FixEffect{}, false
}

func purchase(c *plan.Claim) *reason.Purchase {
	return &reason.Purchase{Pool: c.Pool, Type: c.CheapestType, Zone: c.CheapestZone, CapacityType: c.CheapestBuyAs, Price: c.Price}
}

// try applies changes, lets the engine decide and takes the changes back.
func (l *lab) try(changes []reason.Change) (reason.FixEffect, bool) {
	b := l.q.desk.laboratory()
	pod := asking(l.q.pod)
	pools := map[string]*cluster.Pool{}
	for _, ch := range changes {
		if ch.Object.Kind == "Pod" {
			pod.Shape = changeShape(pod.Shape, ch)
			continue
		}
		for _, p := range l.affected(ch) {
			if pools[p.Name] != nil {
				p = pools[p.Name]
			}
			changed, ok := changePool(p, ch)
			if !ok {
				return reason.FixEffect{}, false
			}
			pools[changed.Name] = changed
		}
	}
	for _, p := range pools {
		b.SetPool(p)
	}
	decided := l.decide(pod)
	for name := range pools {
		if old := l.q.s.Pool(name); old != nil {
			b.SetPool(old)
		} else {
			b.DeletePool(name)
		}
	}
	return effect(decided, pod.UID)
}

// affected are the pools a change is about: the named one, or all for a change of the cloud.
func (l *lab) affected(ch reason.Change) []*cluster.Pool {
	if ch.Action == reason.WaitUntil {
		return l.q.s.Pools
	}
	if p := l.q.s.Pool(ch.Object.Name); p != nil {
		return []*cluster.Pool{p}
	}
	return nil
}

// changeShape applies a change to a pod.
func changeShape(s *cluster.Shape, ch reason.Change) *cluster.Shape {
	out := *s
	switch ch.Action {
	case reason.LowerRequest:
		out.Requests = s.Requests.Clone()
		out.Requests[ch.Key] = ch.Amount
	case reason.AddToleration:
		out.Tolerations = append(slices.Clone(s.Tolerations), constraint.Toleration{
			Key: ch.Key, Operator: "Equal", Value: ch.To, Effect: constraint.Effect(ch.Effect),
		})
	case reason.DropSelector:
		out = *withoutKey(s, ch.Key)
	case reason.ScheduleAnyway, reason.LowerMinDomains, reason.RaiseMaxSkew:
		out.Spread = slices.Clone(s.Spread)
		switch sp := &out.Spread[ch.Index]; ch.Action {
		case reason.ScheduleAnyway:
			sp.Hard = false
		case reason.LowerMinDomains:
			sp.MinDomain = int32(ch.Amount)
		default:
			sp.MaxSkew = int32(ch.Amount)
		}
	case reason.DropAffinity, reason.SoftenAffinity:
		terms := &out.PodAffinity
		if ch.From == "anti" {
			terms = &out.AntiAffinity
		}
		*terms = without(*terms, ch.Index, ch.Action == reason.SoftenAffinity)
	default: // changes another object
	}
	return cluster.NewShape(out)
}

// without takes a required term away, or makes it a preference.
func without(a cluster.PodAffinity, index int, soften bool) cluster.PodAffinity {
	const weight = 100
	out := cluster.PodAffinity{Required: slices.Delete(slices.Clone(a.Required), index, index+1), Preferred: a.Preferred}
	if soften {
		out.Preferred = append(slices.Clone(a.Preferred), cluster.WeightedPodTerm{Weight: weight, Term: a.Required[index]})
	}
	return out
}

// changePool applies a change to a pool; false if it cannot be simulated.
func changePool(p *cluster.Pool, ch reason.Change) (*cluster.Pool, bool) {
	out := *p
	switch ch.Action {
	case reason.AddValue, reason.DropRequirement, reason.LowerMinValues:
		out.Requirements = changeRequirements(p.Requirements, ch)
	case reason.RaiseLimit:
		out.Limits = p.Limits.Clone()
		out.Limits[ch.Key] = ch.Amount
	case reason.AddReplica:
		// One node more of a static pool is what the same pool would launch for the pod if it were dynamic.
		out.Replicas = nil
	case reason.MakeReady:
		out.Ready = true
		if p.Catalog == nil {
			return nil, false
		}
		if p.Class != nil {
			class := *p.Class
			class.Ready = true
			out.Class = &class
		}
	case reason.AddLabel:
		out.Labels = with(p.Labels, ch.Key, ch.To)
	case reason.NewPool:
		out.Labels = with(p.Labels, ch.Key, ch.To)
		out.Name, out.UID = ch.From, ""
	case reason.WaitUntil:
		out.Catalog = reopened(p.Catalog, ch.Key)
	default:
		return nil, false
	}
	return &out, true
}

func with(m map[string]string, k, v string) map[string]string {
	out := map[string]string{k: v}
	for have, x := range m {
		if have != k {
			out[have] = x
		}
	}
	return out
}

func changeRequirements(es []constraint.Expr, ch reason.Change) []constraint.Expr {
	var out []constraint.Expr
	for _, e := range es {
		if constraint.Canonical(e.Key) != ch.Key {
			out = append(out, e)
			continue
		}
		switch ch.Action {
		case reason.AddValue:
			e.Values = append(slices.Clone(e.Values), ch.To)
		case reason.LowerMinValues:
			e.MinValues = min(e.MinValues, int(ch.Amount))
		default:
			continue
		}
		out = append(out, e)
	}
	return out
}

// reopened is the catalogue with one closed state of the cloud over (the id of a cloud miss).
func reopened(c *catalog.Catalog, id string) *catalog.Catalog {
	if c == nil {
		return nil
	}
	types := slices.Clone(c.Types())
	for i := range types {
		types[i].Offerings = slices.Clone(types[i].Offerings)
		for j := range types[i].Offerings {
			o := &types[i].Offerings[j]
			if !o.Available && slices.Contains(stateIDs(types[i].Name, o), id) {
				o.Available, o.Unavailable = true, catalog.Unavailability{}
			}
		}
	}
	return catalog.New(types)
}

// stateIDs are the ids of the cloud states an offering can be in.
func stateIDs(typ string, o *catalog.Offering) []string {
	switch cloudState(o.Unavailable.Reason) {
	case reason.QuotaReached:
		return []string{"cloud/quota/" + o.CapacityType}
	case reason.ZonalShift:
		return []string{"cloud/shift/" + o.Zone}
	case reason.OutOfIPs:
		return []string{"cloud/addresses/" + o.Zone}
	default:
		return []string{"cloud/" + strings.Join([]string{typ, o.Zone, o.CapacityType}, "/"), "cloud/reservation/" + o.ReservationID}
	}
}

// drift counts the nodes of the changed pools that are not drifted now and would be: labels are part of what a claim is compared by.
func (l *lab) drift(changes []reason.Change) int {
	n := 0
	for _, ch := range changes {
		if ch.Action == reason.AddLabel {
			n += undrifted(l.q.s, ch.Object.Name)
		}
	}
	return n
}

// hashAnnotation carries the hash of the template a claim was made from.
const hashAnnotation = "karpenter.sh/nodepool-hash"

// undrifted counts the claims of a pool that were made from its present template.
func undrifted(s *cluster.Snapshot, pool string) int {
	p := s.Pool(pool)
	n := 0
	for _, c := range s.Claims {
		if p != nil && c.Pool == pool && c.Deleted.IsZero() && c.Launched && (p.Hash == "" || c.Annotations[hashAnnotation] == p.Hash) {
			n++
		}
	}
	return n
}

// newName is a name for a copy of a pool that no pool has.
func newName(s *cluster.Snapshot, pool, value string) string {
	name := pool + "-" + strings.ToLower(value)
	for i := 2; s.Pool(name) != nil; i++ {
		name = fmt.Sprintf("%s-%s-%d", pool, strings.ToLower(value), i)
	}
	return name
}
