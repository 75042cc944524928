package pack

import (
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

type (
	podRef  = *cluster.Pod
	poolRef = *cluster.Pool
)

func hintRank(p *cluster.Pod) int {
	if p.Nominated != "" && p.NominatedByKarp {
		return 0
	}
	return 1
}

// finding runs the layers of the why-pending funnel for one pool until nothing is left (see package reason for their order).
func (s *state) finding(spec *fit.Spec, t *fit.Template) plan.PoolFinding {
	f := &funnel{state: s, spec: spec, tmpl: t, out: plan.PoolFinding{Pool: t.Pool.Name}}
	for _, layer := range []func() bool{f.labels, f.types, f.devices, f.topology, f.offerings, f.limits} {
		if !layer() {
			return f.out
		}
	}
	// Every layer leaves something, but not the same thing: topology and offerings exclude each other.
	f.ends(reason.Topology, topologyCode(spec), "")
	return f.out
}

type funnel struct {
	*state
	spec *fit.Spec
	tmpl *fit.Template
	reqs constraint.Requirements
	set  *catalog.Set
	out  plan.PoolFinding
}

func (f *funnel) ends(l reason.Layer, c reason.Code, detail string) bool {
	f.out.Layer, f.out.Code, f.out.Detail = l, c, detail
	return false
}

func (f *funnel) count(c reason.Code, detail string) {
	f.out.Funnel = append(f.out.Funnel, f.tmpl.Catalog.Count(f.set, c, detail))
}

func (f *funnel) labels() bool {
	cat := f.tmpl.Catalog
	f.set = cat.All()
	f.count("", "")
	f.set = f.tmpl.Matching
	f.count(reason.LabelConflict, constraint.NodePoolKey)
	reqs, code, detail, ok := f.tmpl.Open(f.spec)
	if !ok {
		return f.ends(reason.Constraints, code, detail)
	}
	f.reqs = reqs
	f.set = cat.Narrow(f.set, f.spec.Full, &f.out.Funnel)
	if last := f.out.Funnel[len(f.out.Funnel)-1]; last.Offerings == 0 {
		for _, c := range f.out.Funnel {
			if c.Offerings == 0 {
				return f.ends(reason.Constraints, c.Code, c.Detail)
			}
		}
	}
	return true
}

func (f *funnel) types() bool {
	request, cat := f.spec.Group.Shape.Requests, f.tmpl.Catalog
	for _, r := range request.Names() {
		if request[r] > 0 && !f.some(func(v int) bool { return cat.Variants()[v].Capacity[r] > 0 }) {
			return f.ends(reason.InstanceType, reason.ResourceNotOffered, r)
		}
	}
	before := f.set
	f.set = cat.Fitting(f.set, request, f.tmpl.Overhead)
	f.count(reason.TooBig, "")
	if f.set.None() {
		f.set = before
		return f.tooBig(request)
	}
	if ports := f.spec.Group.Shape.HostPorts; len(ports) > 0 {
		f.set = f.withoutPorts(f.tmpl, f.set, ports)
		f.count(reason.HostPortConflict, "")
		if f.set.None() {
			return f.ends(reason.InstanceType, reason.HostPortConflict, "")
		}
	}
	if short := f.tmpl.Shortfall(f.reqs, f.set); len(short) > 0 && !f.Snapshot.Settings.BestEffortMinValues {
		return f.ends(reason.InstanceType, reason.MinValuesUnsatisfied, short[0].Key)
	}
	return true
}

// devices leaves the types that have devices for the pod's resource claims.
func (f *funnel) devices() bool {
	claims := f.spec.Group.Devices.Claims
	if len(claims) == 0 {
		return true
	}
	kit, ok := f.equip(f.spec, host{tmpl: f.tmpl, reqs: f.reqs, was: f.reqs, offers: f.set, used: f.zero}, f.reqs)
	if ok {
		f.reqs = kit.reqs
	} else {
		kit.offers = f.set.Clone().ClearAll()
	}
	f.set = kit.offers
	f.count(reason.DevicesUnavailable, "")
	if ok {
		return true
	}
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = c.Name
	}
	return f.ends(reason.InstanceType, reason.DevicesUnavailable, strings.Join(names, ","))
}

// some reports whether a variant with an offering in the set satisfies the condition.
func (f *funnel) some(ok func(variant int) bool) bool {
	for v, x := range f.tmpl.Catalog.Variants() {
		if i, in := f.set.NextSet(uint(x.First)); in && i < uint(x.End) && ok(v) {
			return true
		}
	}
	return false
}

// tooBig names the resources that no type has enough of, or, if each alone would do, those that together do not.
func (f *funnel) tooBig(request units.List) bool {
	var all, alone []string
	for _, r := range request.Names() {
		if request[r] == 0 {
			continue
		}
		all = append(all, r)
		if !f.holds(request, r) {
			alone = append(alone, r)
		}
	}
	if len(alone) == 1 && alone[0] == units.Pods {
		return f.ends(reason.InstanceType, reason.TooManyPods, "")
	}
	if len(alone) == 0 {
		alone = all
		for _, r := range all { // name only those without which it would do
			rest := slices.DeleteFunc(slices.Clone(alone), func(x string) bool { return x == r })
			if !f.holds(request, rest...) {
				alone = rest
			}
		}
	}
	return f.ends(reason.InstanceType, reason.TooBig, strings.Join(alone, ","))
}

// holds reports whether some type has enough of all the named resources.
func (f *funnel) holds(request units.List, names ...string) bool {
	return f.some(func(v int) bool {
		return !slices.ContainsFunc(names, func(r string) bool {
			i, ok := f.Axis.Index(r)
			return ok && f.tmpl.Free[v][i] < request[r]
		})
	})
}

func (f *funnel) topology() bool {
	volumes := false
	for _, alt := range f.spec.Volumes {
		if _, ok := f.reqs.Compatible(alt, constraint.WellKnownOptional); ok && f.tmpl.Catalog.Narrow(f.set, alt, nil).Any() {
			volumes = true
		}
	}
	if !volumes {
		return f.ends(reason.Topology, reason.VolumeZoneConflict, "")
	}
	for _, t := range f.spec.Topologies {
		host := hostOf(len(f.claims))
		if t.Key == constraint.HostnameKey {
			if f.onHost(f.spec, t, host) == 0 {
				return f.ends(reason.Topology, kindCode(t), t.Key)
			}
			continue
		}
		set := f.domainsFor(f.spec, t, f.reqs, nil, 1)
		if set == nil {
			continue
		}
		open := slices.ContainsFunc(set.values, func(d string) bool {
			q := constraint.Of(constraint.NewIn(t.Key, d))
			_, ok := f.reqs.Compatible(q, constraint.WellKnownOptional)
			return ok && f.tmpl.Catalog.Narrow(f.set, q, nil).Any()
		})
		if !open {
			return f.ends(reason.Topology, kindCode(t), t.Key)
		}
	}
	return true
}

func kindCode(t *fit.Topology) reason.Code {
	if t.Kind == fit.Spread {
		return reason.SpreadUnsatisfiable
	}
	return reason.AffinityUnsatisfiable
}

func topologyCode(s *fit.Spec) reason.Code {
	if len(s.Topologies) > 0 {
		return kindCode(s.Topologies[0])
	}
	return reason.VolumeZoneConflict
}

func (f *funnel) offerings() bool {
	before := f.set
	f.set = f.set.Intersection(f.tmpl.Offers)
	f.count(reason.OfferingUnavailable, "")
	if f.set.Any() {
		return f.reservations()
	}
	return f.ends(reason.Offering, reason.OfferingUnavailable, f.unavailability(before))
}

// reservations ends the funnel where reserved offerings would do and none is free.
func (f *funnel) reservations() bool {
	r := f.tmpl.Reserved
	if r == nil || f.set.IntersectionCardinality(r) == 0 || f.opts.Fallback && f.set.DifferenceCardinality(r) > 0 {
		return true
	}
	would := f.set.Intersection(r)
	if would.IntersectionCardinality(f.holdable(nil, f.tmpl)) > 0 {
		return true
	}
	var ids []string
	for _, u := range f.tmpl.Units {
		if would.IntersectionCardinality(u.Offers) > 0 {
			ids = append(ids, f.Reservations[u.Reservation].ID)
		}
	}
	f.set = would.ClearAll()
	f.count(reason.ReservationFull, "")
	return f.ends(reason.Offering, reason.ReservationFull, strings.Join(ids, ","))
}

// unavailability returns the cloud's reasons, each once.
func (f *funnel) unavailability(set *catalog.Set) string {
	var out []string
	for i, ok := set.NextSet(0); ok; i, ok = set.NextSet(i + 1) {
		if _, o := f.tmpl.Catalog.Offer(int(i)); o.Unavailable.Reason != "" && !slices.Contains(out, o.Unavailable.Reason) {
			out = append(out, o.Unavailable.Reason)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

func (f *funnel) limits() bool {
	if !f.budgets[f.tmpl.Index].limited {
		return true
	}
	before := f.set
	f.set = f.affordable(f.tmpl, f.set)
	f.count(reason.LimitReached, "")
	if f.set.Any() {
		return true
	}
	left := f.remaining(f.tmpl)
	var exceeded []string
	for _, r := range left.Names() {
		f.set = before
		if r == units.Nodes && left[r] <= 0 || r != units.Nodes && !f.some(func(v int) bool { return f.tmpl.Catalog.Variants()[v].Capacity[r] <= left[r] }) {
			exceeded = append(exceeded, r)
		}
	}
	return f.ends(reason.Limit, reason.LimitReached, strings.Join(exceeded, ","))
}
