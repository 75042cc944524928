// Package words says in sentences what reasons are: the same ones for the plugin, for events and for conditions.
//
// It spells codes, names and numbers and decides nothing. Layout, colour and tables are package view's.
package words

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/reason"
)

// Pending tells one answer of why-pending.
type Pending struct {
	Answer reason.Pending
	// Zone is the time zone of all times.
	Zone *time.Location
}

// Sentence says why the pod has no node.
func (t Pending) Sentence() string {
	a := t.Answer
	pod := a.Pod.String()
	if near := t.Nearest(); near != nil {
		text := fmt.Sprintf("%s is pending because %s", pod, t.because(*near))
		if len(a.CloudClosed) > 0 {
			text += fmt.Sprintf("; NodePool %s, of higher weight, is closed only by the cloud", List(a.CloudClosed))
		}
		return text + "."
	}
	return fmt.Sprintf("%s %s.", pod, t.unranked())
}

// Nearest is the finding of the nearest-miss pool, nil if pools were not ranked.
func (t Pending) Nearest() *reason.PoolAnswer {
	for i := range t.Answer.Pools {
		if t.Answer.Pools[i].Pool == t.Answer.Nearest && t.Answer.Nearest != "" {
			return &t.Answer.Pools[i]
		}
	}
	return nil
}

// unranked answers where no pool is to blame: layers Request, Existing and Launch, and a cluster without pools.
func (t Pending) unranked() string {
	a, d := t.Answer, t.Answer.Request
	switch a.Code {
	case reason.SchedulingGated:
		return fmt.Sprintf("is held by gate %s; no node is being requested", List(d.Gates))
	case reason.OtherScheduler:
		return fmt.Sprintf("waits for the scheduler %s, which has not looked at it; no node is being requested", d.Scheduler)
	case reason.AwaitingScheduler:
		return "has not been looked at by the scheduler yet; no node is being requested"
	case reason.Preempting:
		return fmt.Sprintf("waits for a preemption on node %s; no node is being requested", d.Nominated)
	case reason.DaemonSetPod:
		return "belongs to a DaemonSet or is a static pod; nodes are never made for those"
	case reason.OptedOut:
		return "requires a node without karpenter.sh/nodepool: it has opted out of nodes made for pods"
	case reason.InvalidVolumeClaim:
		return fmt.Sprintf("is left out because its volume claim %s cannot be used: %s", d.Claim, detail(d.Problem, d.ProblemDetail))
	case reason.InvalidRequirement:
		return fmt.Sprintf("is left out because its requirement on %s is not valid: %s", d.Key, NonEmpty(d.ProblemDetail, d.Problem)[0])
	case reason.DRANotSupported:
		return "is left out because it asks for devices through resource claims, which are not simulated (setting ignoreDRARequests)"
	case reason.NotPending:
		if d.Node != "" {
			return fmt.Sprintf("is not pending: it has node %s", d.Node)
		}
		return "is not pending"
	case reason.NoNodePools:
		return "is pending because there are no NodePools"
	case reason.Unsupported:
		return fmt.Sprintf("is left alone because this version does not understand %s", detail(d.Key, d.ProblemDetail))
	case reason.Cut:
		return "was not tried in the last pass, whose step budget ended before it; it is tried again in the next"
	case reason.SchedulerDisagrees:
		return fmt.Sprintf("should fit on node %s, but the scheduler has not put it there", a.RoomOn)
	}
	if c := a.Coming; c != nil {
		return t.coming(*c)
	}
	return fmt.Sprintf("has no node: %s", a.Code)
}

// coming tells how far the pod's node got.
func (t Pending) coming(c reason.Coming) string {
	if c.Claim == "" {
		planned := reason.Purchase{Type: c.Type, CapacityType: c.CapacityType, Price: c.Price, PriceUnknown: c.Price == 0}
		return fmt.Sprintf("will get a node: %s is planned in NodePool %s", Purchase(planned), c.Pool)
	}
	what := strings.Join(NonEmpty(c.Type, c.CapacityType, c.Zone), ", ")
	switch t.Answer.Code {
	case reason.LaunchFailed:
		return fmt.Sprintf("waits because NodeClaim %s of NodePool %s cannot be launched: %s", c.Claim, c.Pool, detail(c.Problem, c.ProblemDetail))
	case reason.NotRegistering:
		end := "it is given up at"
		if c.RegisterBy.Before(t.Answer.At) {
			end = "it should have joined by"
		}
		return fmt.Sprintf("waits because the node of NodeClaim %s (%s), launched %s ago, does not join; %s %s", c.Claim, what, t.Ago(c.Launched), end, t.Clock(c.RegisterBy))
	case reason.NotInitializing:
		return fmt.Sprintf("waits because node %s (%s) is not initialized: %s", c.Node, what, t.holds(c))
	}
	switch {
	case c.Launched.IsZero():
		return fmt.Sprintf("will get a node: NodeClaim %s is being launched", c.Claim)
	case c.Registered.IsZero():
		return fmt.Sprintf("will get a node: NodeClaim %s (%s) was launched %s ago and must register by %s", c.Claim, what, t.Ago(c.Launched), t.Clock(c.RegisterBy))
	}
	return fmt.Sprintf("will get a node: %s of NodeClaim %s (%s) has joined and is about to be ready", c.Node, c.Claim, what)
}

// holds tells what keeps a node from being initialized.
func (t Pending) holds(c reason.Coming) string {
	since := ""
	if !c.Registered.IsZero() {
		since = fmt.Sprintf(" since it joined %s ago", t.Ago(c.Registered))
	}
	var text string
	switch t.Answer.Sub {
	case reason.StartupTaint:
		text = "startup taint " + List(c.Taints) + " has not been removed" + since
	case reason.EphemeralTaint:
		text = "taint " + List(c.Taints) + " has not been removed" + since
	case reason.ResourceNotRegistered:
		text = "it has not shown a resource it was launched for" + since
	case reason.NodeNotReady:
		text = "it has not been Ready" + since
	default:
		text = List(NonEmpty(string(t.Answer.Sub), c.Problem))
	}
	if c.ProblemDetail != "" && t.Answer.Sub != reason.StartupTaint {
		text += " (" + c.ProblemDetail + ")"
	}
	for _, f := range c.Failing {
		text += fmt.Sprintf("; pod %s does not start (%s, %s)", f.Pod, f.Reason, Count(f.Restarts, "restart"))
	}
	return text
}

// Ago spells how long ago an instant was at the time of the answer.
func (t Pending) Ago(at time.Time) string { return Duration(t.Answer.At.Sub(at)) }

// Clock spells an instant.
func (t Pending) Clock(at time.Time) string { return Clock(at, t.Answer.At, t.Zone) }

// because tells why the nearest pool does not take the pod, as a clause.
func (t Pending) because(p reason.PoolAnswer) string {
	switch p.Code {
	case reason.LabelUnknown, reason.LabelConflict, reason.TaintNotTolerated, reason.HostPortConflict, reason.AffinityUnsatisfiable:
		return t.constraint(p)
	case reason.TooBig, reason.ResourceNotOffered, reason.TooManyPods:
		return t.resource(p)
	case reason.LimitReached:
		return limitClause(p)
	case reason.VolumeZoneConflict:
		return volumeClause(p)
	case reason.NodePoolNotReady:
		return t.notReady(p)
	case reason.NodePoolDeleting:
		return fmt.Sprintf("NodePool %s is being deleted", p.Pool)
	case reason.NodePoolStaticOnly:
		return staticClause(p)
	case reason.MinValuesUnsatisfied:
		return fmt.Sprintf("NodePool %s demands more different values (minValues) than the types for this pod offer", p.Pool)
	case reason.SpreadUnsatisfiable:
		return t.spread(p)
	}
	return t.offering(p)
}

// constraint names the first miss with the pool's code.
func (t Pending) constraint(p reason.PoolAnswer) string {
	i := slices.IndexFunc(p.Constraints, func(c reason.ConstraintMiss) bool { return c.Code == p.Code })
	if i < 0 {
		return fmt.Sprintf("what it selects, possible one by one, leaves no type of NodePool %s when taken together", p.Pool)
	}
	c := p.Constraints[i]
	switch p.Code {
	case reason.LabelUnknown:
		if t.nobodySets(c.Key) {
			return fmt.Sprintf("it wants %s and no NodePool sets `%s`", Selector(c.Key, c.PodWants), c.Key)
		}
		return fmt.Sprintf("it wants %s and NodePool %s does not set `%s`", Selector(c.Key, c.PodWants), p.Pool, c.Key)
	case reason.LabelConflict:
		return fmt.Sprintf("it wants %s and NodePool %s has %s", Selector(c.Key, c.PodWants), p.Pool, Selector(c.Key, c.PoolHas))
	case reason.TaintNotTolerated:
		return fmt.Sprintf("it does not tolerate the taint %s of NodePool %s", Taint(c), p.Pool)
	case reason.HostPortConflict:
		return fmt.Sprintf("its host port %s is taken by a DaemonSet on every node of NodePool %s", NonEmpty(c.PodWants, c.Key)[0], p.Pool)
	}
	wants := ""
	if c.PodWants != "" {
		wants = " (" + c.PodWants + ")"
	}
	return fmt.Sprintf("its affinity or anti-affinity to other pods over %s%s cannot be met in NodePool %s", c.Key, wants, p.Pool)
}

// Taint spells the taint of a miss: key=value:effect.
func Taint(c reason.ConstraintMiss) string {
	if strings.HasPrefix(c.PoolHas, ":") || c.PoolHas == "" {
		return c.Key + c.PoolHas
	}
	return c.Key + "=" + c.PoolHas
}

// nobodySets reports whether the label is unknown to every pool.
func (t Pending) nobodySets(key string) bool {
	return !slices.ContainsFunc(t.Answer.Pools, func(p reason.PoolAnswer) bool {
		return !slices.ContainsFunc(p.Constraints, func(c reason.ConstraintMiss) bool {
			return c.Code == reason.LabelUnknown && c.Key == key
		})
	})
}

// Selector spells "In [batch]" on a key as key=batch.
func Selector(key, wants string) string {
	if v, ok := strings.CutPrefix(wants, "In ["); ok && !strings.Contains(v, ",") && !strings.Contains(v, " ") {
		return key + "=" + strings.TrimSuffix(v, "]")
	}
	if wants == "" {
		return "no " + key
	}
	return key + " " + wants
}

func (t Pending) resource(p reason.PoolAnswer) string {
	if len(p.Resources) == 0 {
		return fmt.Sprintf("no instance type of NodePool %s can hold it", p.Pool)
	}
	r := p.Resources[0]
	switch p.Code {
	case reason.ResourceNotOffered:
		return fmt.Sprintf("it asks for %s and none of the %s of NodePool %s has any", r.Name, Count(r.Types, "type"), p.Pool)
	case reason.TooManyPods:
		return fmt.Sprintf("the DaemonSets alone fill the %d pods that types of NodePool %s can run", r.Breakdown.Allocatable, p.Pool)
	}
	var shorts []string
	for _, m := range p.Resources {
		shorts = append(shorts, Amount(m.Name, m.Short)+" more "+m.Name)
	}
	if r.Types == 1 {
		return fmt.Sprintf("it asks for %s than the only instance type NodePool %s allows (%s) can give", List(shorts), p.Pool, r.BestType)
	}
	return fmt.Sprintf("it asks for %s than the closest of the %s of NodePool %s (%s) can give", List(shorts), Count(r.Types, "type"), p.Pool, r.BestType)
}

func limitClause(p reason.PoolAnswer) string {
	if len(p.Limits) == 0 {
		return fmt.Sprintf("NodePool %s has reached a limit", p.Pool)
	}
	l := p.Limits[0]
	a := func(n int64) string { return Amount(l.Resource, n) }
	return fmt.Sprintf("NodePool %s may not grow: %s %s of %s used, the pod needs a type with %s, %s left", p.Pool, l.Resource, a(l.Used), a(l.Limit), a(l.Needs), a(l.Left))
}

func volumeClause(p reason.PoolAnswer) string {
	if len(p.Volumes) == 0 {
		return fmt.Sprintf("its volumes and NodePool %s have no zone in common", p.Pool)
	}
	v := p.Volumes[0]
	return fmt.Sprintf("its volume is elsewhere: claim %s (PV %s) is in %s, NodePool %s allows %s", v.Claim, v.PV, Either(v.Values), p.Pool, List(v.PoolValues))
}

// notReady names the chain from the pool to the cause.
func (t Pending) notReady(p reason.PoolAnswer) string {
	text := fmt.Sprintf("NodePool %s is not ready", p.Pool)
	if p.Ready == nil || len(p.Ready.Chain) == 0 {
		return text
	}
	if p.Ready.ClassMissing {
		last := p.Ready.Chain[len(p.Ready.Chain)-1]
		return text + fmt.Sprintf(": %s %s does not exist", last.Object.Kind, last.Object.Name)
	}
	cause := p.Ready.Chain[len(p.Ready.Chain)-1]
	text += ": "
	if cause.Object.Kind != "NodePool" {
		text += fmt.Sprintf("%s ← %s %s ← ", p.Pool, cause.Object.Kind, cause.Object.Name)
	}
	text += NonEmpty(cause.Reason, cause.Type+"=False")[0]
	if !cause.Since.IsZero() {
		text += fmt.Sprintf(", since %s (%s)", t.Clock(cause.Since), t.Ago(cause.Since))
	}
	return text
}

func staticClause(p reason.PoolAnswer) string {
	s := p.Static
	if s == nil {
		return fmt.Sprintf("NodePool %s has a fixed size and does not grow for pods", p.Pool)
	}
	text := fmt.Sprintf("NodePool %s is fixed at %s", p.Pool, Count(int(s.Replicas), "node"))
	switch {
	case s.Nodes > 0 && s.Full == s.Nodes && s.Nodes == 2:
		text += ", both full,"
	case s.Nodes > 0 && s.Full == s.Nodes:
		text += ", all full,"
	}
	return text + " and it does not grow for pods"
}

func (t Pending) spread(p reason.PoolAnswer) string {
	s := p.Spread
	if s == nil {
		return fmt.Sprintf("its spread constraint cannot be met in NodePool %s", p.Pool)
	}
	var open, closed []string
	for _, d := range s.Domains {
		text := fmt.Sprintf("%s (%d)", d.Domain, d.Count)
		if d.PoolAllows {
			open = append(open, text)
		} else {
			closed = append(closed, text)
		}
	}
	constraint := fmt.Sprintf("its spread over %s (maxSkew %d)", s.Key, s.MaxSkew)
	switch {
	case len(closed) == 0 && int(s.MinDomains) > len(s.Domains):
		return fmt.Sprintf("%s demands %d domains (minDomains) and there are %d: %s, where NodePool %s would exceed the skew", constraint, s.MinDomains, len(s.Domains), List(open), p.Pool)
	case len(closed) == 0:
		return fmt.Sprintf("%s would be exceeded wherever NodePool %s can launch: %s", constraint, p.Pool, List(open))
	case len(open) == 0:
		return fmt.Sprintf("%s allows it in %s only, where NodePool %s cannot launch", constraint, Either(closed), p.Pool)
	}
	return fmt.Sprintf("%s wants it in %s, where NodePool %s cannot launch; it could in %s, which has too many already", constraint, Either(closed), p.Pool, List(open))
}

// offering tells which offerings are closed, and until when.
func (t Pending) offering(p reason.PoolAnswer) string {
	if len(p.Offerings) == 0 {
		switch p.Code {
		case reason.NoSuchOffering:
			return fmt.Sprintf("none of the types left in NodePool %s is sold as asked (zone and capacity type)", p.Pool)
		case reason.ZoneWithoutSubnet:
			return fmt.Sprintf("NodePool %s has no subnet in the zones asked for", p.Pool)
		}
		return fmt.Sprintf("NodePool %s does not take it (%s)", p.Pool, p.Code)
	}
	what, zones, until := closed(p.Offerings)
	var text string
	switch p.Code {
	case reason.QuotaReached:
		text = fmt.Sprintf("the quota for %s is reached in NodePool %s", capacityTypes(p.Offerings), p.Pool)
	case reason.ReservationFull:
		text = fmt.Sprintf("the reservations of NodePool %s are full", p.Pool)
	case reason.ZonalShift:
		text = fmt.Sprintf("traffic is shifted away from %s, and NodePool %s has no other zone that would do", List(zones), p.Pool)
	case reason.OutOfIPs:
		text = fmt.Sprintf("the subnets of NodePool %s in %s have no free addresses", p.Pool, List(zones))
	default:
		text = fmt.Sprintf("%s of NodePool %s is sold out in %s", what, p.Pool, List(zones))
	}
	switch {
	case !until.IsZero():
		text += fmt.Sprintf("; next try %s (in %s)", t.Clock(until), Duration(until.Sub(t.Answer.At)))
	case p.Code != reason.ZonalShift:
		text += "; retried about 3 minutes after each failure"
	}
	return text
}

// closed sums up closed offerings: what they are, where, and when the first is tried again.
func closed(offerings []reason.OfferingState) (what string, zones []string, until time.Time) {
	var kinds []string
	for _, o := range offerings {
		kinds = append(kinds, o.Type+" "+o.CapacityType)
		zones = append(zones, o.Zone)
		if !o.Until.IsZero() && (until.IsZero() || o.Until.Before(until)) {
			until = o.Until
		}
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	slices.Sort(zones)
	zones = slices.Compact(zones)
	what = List(kinds)
	if len(kinds) > 3 {
		what = fmt.Sprintf("every type that would do (%d)", len(kinds))
	}
	return what, zones, until
}

func capacityTypes(offerings []reason.OfferingState) string {
	var out []string
	for _, o := range offerings {
		out = append(out, o.CapacityType)
	}
	slices.Sort(out)
	return List(slices.Compact(out))
}

func detail(code, text string) string { return strings.Join(NonEmpty(code, text), ": ") }

// NonEmpty drops empty texts; if nothing is left it returns a single empty one.
func NonEmpty(texts ...string) []string {
	out := slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	if len(out) == 0 {
		return []string{""}
	}
	return out
}

// Purchase spells a node that would be launched.
func Purchase(p reason.Purchase) string {
	price := p.Price.PerHour()
	if p.PriceUnknown {
		price = "price unknown"
	}
	return fmt.Sprintf("%s %s %s", p.Type, p.CapacityType, price)
}
