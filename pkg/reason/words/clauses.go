package words

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/reason"
)

// because tells why the nearest pool does not take the pod, as a clause.
func (t Pending) because(p reason.PoolAnswer) string {
	switch p.Code {
	case reason.LabelUnknown, reason.LabelConflict, reason.TaintNotTolerated, reason.HostPortConflict:
		return t.constraint(p)
	case reason.AffinityUnsatisfiable:
		return affinity(p)
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
	case reason.DevicesUnavailable:
		return fmt.Sprintf("no instance type of NodePool %s has devices for its resource claims", p.Pool)
	case reason.SpreadUnsatisfiable:
		return t.spread(p)
	default:
		return t.offering(p)
	}
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
		return fmt.Sprintf("it wants %s and %s", Selector(c.Key, c.PodWants), conflict(p.Pool, c))
	case reason.TaintNotTolerated:
		return fmt.Sprintf("it does not tolerate the taint %s of NodePool %s", Taint(c), p.Pool)
	case reason.HostPortConflict:
		return fmt.Sprintf("its host port %s is taken by a DaemonSet on every node of NodePool %s", NonEmpty(c.PodWants, c.Key)[0], p.Pool)
	default:
		return fmt.Sprintf("NodePool %s does not take it (%s)", p.Pool, p.Code)
	}
}

// conflict tells what a pool has instead of what a pod wants, as the end of a clause.
func conflict(pool string, c reason.ConstraintMiss) string {
	switch {
	case c.Unknown:
		return "no NodePool knows this value; the nearest are " + List(c.Near)
	case c.PoolHas == "":
		return fmt.Sprintf("no type of NodePool %s has it", pool)
	}
	return fmt.Sprintf("NodePool %s has %s", pool, Selector(c.Key, c.PoolHas))
}

// affinity tells which term about other pods cannot be met, and where it could.
func affinity(p reason.PoolAnswer) string {
	s := p.Affinity
	if s == nil {
		return fmt.Sprintf("its affinity or anti-affinity to other pods cannot be met in NodePool %s", p.Pool)
	}
	var taken, elsewhere []string
	for _, d := range s.Domains {
		switch allowed := s.Allows(d); {
		case d.PoolAllows:
			taken = append(taken, fmt.Sprintf("%s (%d)", d.Domain, d.Count))
		case allowed:
			elsewhere = append(elsewhere, d.Domain)
		}
	}
	where := fmt.Sprintf("; NodePool %s can launch nowhere else", p.Pool)
	if len(elsewhere) > 0 {
		where = fmt.Sprintf("; %s would do, but NodePool %s cannot launch there", Either(elsewhere), p.Pool)
	}
	switch {
	case s.Kind == "repelled":
		var names []string
		for _, k := range s.Keepers {
			names = append(names, k.String())
		}
		return fmt.Sprintf("the anti-affinity of other pods (%s) over %s keeps it away", List(names), s.Key) + where
	case s.Kind == "anti":
		return fmt.Sprintf("its anti-affinity to pods %s over %s excludes %s, which have such pods", s.Selector, s.Key, List(taken)) + where
	case len(taken) == 0:
		return fmt.Sprintf("its affinity to pods %s over %s cannot be met: nodes of NodePool %s do not have that label", s.Selector, s.Key, p.Pool)
	}
	return fmt.Sprintf("its affinity to pods %s over %s finds none of them where NodePool %s can launch (%s)", s.Selector, s.Key, p.Pool, List(domains(*s))) + where
}

// domains are the names of those the pool can launch in.
func domains(s reason.AffinityState) []string {
	var out []string
	for _, d := range s.Domains {
		if d.PoolAllows {
			out = append(out, d.Domain)
		}
	}
	return out
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
		if r.Types == 1 {
			return fmt.Sprintf("it asks for %s and the only type left of NodePool %s (%s) has none", r.Name, p.Pool, r.BestType)
		}
		return fmt.Sprintf("it asks for %s and none of the %s of NodePool %s has any", r.Name, Count(r.Types, "type"), p.Pool)
	case reason.TooManyPods:
		return fmt.Sprintf("the DaemonSets alone fill the %d pods that types of NodePool %s can run", r.Breakdown.Allocatable, p.Pool)
	default: // too big, below
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
	if p.Ready.ClassDeleting {
		return text + fmt.Sprintf(": %s %s is being deleted%s", cause.Object.Kind, cause.Object.Name, waitsFor(p.Ready.ClassClaims))
	}
	text += ": "
	if cause.Object.Kind != "NodePool" {
		text += fmt.Sprintf("%s ← %s %s ← ", p.Pool, cause.Object.Kind, cause.Object.Name)
	}
	text += NonEmpty(cause.Reason, cause.Type+"=False")[0]
	if cause.Object.Kind == "NodePool" && cause.Type != "Ready" && cause.Message != "" {
		text += fmt.Sprintf(" (%s)", cause.Message)
	}
	if !cause.Since.IsZero() {
		text += fmt.Sprintf(", since %s (%s)", t.Clock(cause.Since), t.Ago(cause.Since))
	}
	return text
}

// waitsFor tells what a class that is being deleted waits for.
func waitsFor(claims int) string {
	if claims == 0 {
		return ""
	}
	return " and waits for " + Count(claims, "NodeClaim") + " to end"
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
			if c := unknownValue(p); c != nil {
				return fmt.Sprintf("NodePool %s requires %s, which no offering has; the nearest are %s", p.Pool, Selector(c.Key, c.PoolHas), List(c.Near))
			}
			return fmt.Sprintf("none of the types left in NodePool %s is sold as asked (zone and capacity type)", p.Pool)
		case reason.ZoneWithoutSubnet:
			if c := unknownValue(p); c != nil {
				return fmt.Sprintf("it wants %s and no NodePool has a subnet there; the nearest zones with one are %s", Selector(c.Key, NonEmpty(c.PodWants, c.PoolHas)[0]), List(c.Near))
			}
			return fmt.Sprintf("NodePool %s has no subnet in the zones asked for", p.Pool)
		default:
			return fmt.Sprintf("NodePool %s does not take it (%s)", p.Pool, p.Code)
		}
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
	return text + t.attempts()
}

// unknownValue is the value that pod or pool ask for and nothing has, nil if there is none.
func unknownValue(p reason.PoolAnswer) *reason.ConstraintMiss {
	for i := range p.Constraints {
		if p.Constraints[i].Unknown {
			return &p.Constraints[i]
		}
	}
	return nil
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
