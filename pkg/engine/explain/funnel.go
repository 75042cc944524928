package explain

import (
	"slices"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/reason"
)

// check is one stage of a pool's funnel.
type check struct {
	layer reason.Layer
	code  reason.Code
}

// checks in the order of layers and, inside a layer, of the codes.
func checks() []check {
	return []check{
		{reason.NodePool, reason.NodePoolNotReady},
		{reason.NodePool, reason.NodePoolDeleting},
		{reason.NodePool, reason.NodePoolStaticOnly},
		{reason.Constraints, reason.TaintNotTolerated},
		{reason.Constraints, reason.LabelUnknown},
		{reason.Constraints, reason.LabelConflict},
		{reason.InstanceType, reason.ResourceNotOffered},
		{reason.InstanceType, reason.TooBig},
		{reason.InstanceType, reason.TooManyPods},
		{reason.InstanceType, reason.HostPortConflict},
		{reason.Topology, reason.VolumeZoneConflict},
		{reason.Topology, reason.SpreadUnsatisfiable},
		{reason.Topology, reason.AffinityUnsatisfiable},
		{reason.Offering, reason.NoSuchOffering},
		{reason.Offering, reason.OfferingUnavailable},
		{reason.Offering, reason.QuotaReached},
		{reason.Offering, reason.ReservationFull},
		{reason.Offering, reason.ZonalShift},
		{reason.Offering, reason.OutOfIPs},
		{reason.Limit, reason.LimitReached},
		// minValues asks for several types that pass everything else, so it is counted last although it belongs to the types.
		{reason.InstanceType, reason.MinValuesUnsatisfied},
	}
}

// funnel runs the checks over the pool's own offerings and names the one after which nothing remains.
func (c *poolCase) funnel(a *reason.PoolAnswer) {
	var left []*candidate
	for _, x := range c.cands {
		if !x.outside {
			left = append(left, x)
		}
	}
	a.Funnel = append(a.Funnel, count("", "", left))
	if len(left) == 0 {
		c.emptyPool(a)
		return
	}
	for _, k := range checks() {
		var next []*candidate
		detail := ""
		for _, x := range left {
			i := slices.IndexFunc(x.misses, func(m *miss) bool { return m.code == k.code })
			if i < 0 {
				next = append(next, x)
				continue
			}
			detail = x.misses[i].key
		}
		if len(next) == len(left) {
			continue
		}
		a.Funnel = append(a.Funnel, count(k.code, detail, next))
		if len(next) == 0 {
			a.Layer, a.Code = k.layer, k.code
			c.refine(a, left)
			a.Certainty = c.certainty(a.Code, left)
			return
		}
		left = next
	}
	// Nothing here objects; the engine does for a reason it names itself.
	a.Layer, a.Code, a.Certainty = reason.Constraints, reason.Unsupported, reason.Estimated
	if c.q.bare {
		return
	}
	if f, ok := c.q.lab.finding(c.pool.Name); ok {
		a.Layer, a.Code = f.Layer, f.Code
	}
}

func count(code reason.Code, detail string, left []*candidate) reason.Count {
	types := map[string]bool{}
	for _, x := range left {
		types[x.typ.Name] = true
	}
	return reason.Count{Code: code, Detail: detail, Types: len(types), Offerings: len(left)}
}

// emptyPool answers for a pool whose own requirements leave nothing, or whose catalogue could not be read.
func (c *poolCase) emptyPool(a *reason.PoolAnswer) {
	a.Layer, a.Code, a.Certainty = reason.Offering, reason.NoSuchOffering, reason.Proven
	switch {
	case !c.pool.Ready || c.pool.Catalog == nil:
		a.Layer, a.Code, a.Certainty = reason.NodePool, reason.NodePoolNotReady, reason.Observed
	case c.pool.Deleting:
		a.Layer, a.Code, a.Certainty = reason.NodePool, reason.NodePoolDeleting, reason.Proven
	case c.zoneMissing(c.template):
		a.Code = reason.ZoneWithoutSubnet
	}
}

// refine tells apart what one check cannot: a selector that each for itself leaves something, but not together with what is sold where,
// and a zone that the class has no subnet in.
func (c *poolCase) refine(a *reason.PoolAnswer, left []*candidate) {
	switch a.Code {
	case reason.LabelConflict:
		for _, term := range c.q.terms {
			if _, clash := c.template.Conflict(term); clash {
				return
			}
		}
		if slices.ContainsFunc(c.q.terms, c.zoneMissing) {
			a.Layer, a.Code = reason.Offering, reason.ZoneWithoutSubnet
			return
		}
		for _, x := range left {
			for _, term := range c.q.terms {
				if _, clash := x.typ.reqs.Conflict(term); !clash {
					a.Layer, a.Code = reason.Offering, reason.NoSuchOffering
					return
				}
			}
		}
	case reason.VolumeZoneConflict:
		for _, alt := range c.q.volumes {
			if _, clash := c.template.Conflict(alt); !clash && c.zoneMissing(alt) {
				a.Layer, a.Code = reason.Offering, reason.ZoneWithoutSubnet
				return
			}
		}
	default: // one check says it all
	}
}

// zoneMissing reports whether the requirements name zones and the class has a subnet in none of them.
func (c *poolCase) zoneMissing(rs constraint.Requirements) bool {
	r, ok := rs.Get(constraint.ZoneKey)
	if !ok || r.Operator() != constraint.In || c.pool.Class == nil || len(c.pool.Class.Zones) == 0 {
		return false
	}
	return !slices.ContainsFunc(c.pool.Class.Zones, r.Admits)
}

// certainty of a code: what a condition or the cloud said is observed; a computed allocatable is an estimate unless a live node of the type
// shows it, or the pod is larger than the whole machine.
func (c *poolCase) certainty(code reason.Code, left []*candidate) reason.Certainty {
	switch code {
	case reason.NodePoolNotReady, reason.OfferingUnavailable, reason.QuotaReached, reason.ReservationFull, reason.ZonalShift, reason.OutOfIPs:
		return reason.Observed
	case reason.TooBig:
		for _, x := range left {
			if !c.larger(x.typ) && !x.typ.Observed && c.liveNodes(x.typ.Name) == 0 {
				return reason.Estimated
			}
		}
	default: // follows from the specs
	}
	return reason.Proven
}

// larger reports whether the pod exceeds the full size of the type.
func (c *poolCase) larger(t *typeFacts) bool {
	for r, want := range c.q.shape.Requests {
		full := max(t.Capacity[r], 0)
		if r == "memory" {
			full = max(full, t.MemoryRaw)
		}
		if want > full {
			return true
		}
	}
	return false
}

// liveNodes counts running nodes of a type.
func (c *poolCase) liveNodes(typ string) int {
	n := 0
	for _, t := range c.q.s.Targets() {
		if t.Node != nil && t.Initialized && t.Labels[constraint.InstanceTypeKey] == typ {
			n++
		}
	}
	return n
}
