package pack

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/bits-and-blooms/bitset"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/device"
	"github.com/karp-sh/karp/pkg/engine/fit"
)

// deviceSteps is how many devices are tried for a pod on one target before the search gives up (rules 22.4).
const deviceSteps = 20_000

const driversAnnotation = "karpenter.sh/requested-dra-drivers"

// grant is a device claim that this decision has served.
type grant struct {
	// On a planned claim, or on a target.
	claim  *claim
	target int
	// local tells that the devices can be used there only; else needs is what they demand of a node that uses them.
	local bool
	needs constraint.Requirements
}

// gear is the devices of a planned claim by instance type, each on its own: only one of the types will be launched. It is never changed.
type gear map[int][]device.Result

// outfit is the devices for one more pod on a planned claim.
type outfit struct {
	gear   gear
	reqs   constraint.Requirements // of the claim, with what the devices need
	offers *catalog.Set
}

// unserved splits the claims of a spec into those that have devices already, whose reach must include the site, and those to search for. It returns what
// the former demand; ok is false if they cannot be used there. Here tells whether a grant was made on the same node.
func (s *state) unserved(spec *fit.Spec, site device.Site, here func(grant) bool) (search []*cluster.DeviceClaim, needs constraint.Requirements, ok bool) {
	for _, c := range spec.Group.Devices.Claims {
		var more constraint.Requirements
		g, granted := s.grants[c.Key()]
		switch {
		case granted && here(g):
		case granted && (g.local || site.Satisfies != nil && !site.Satisfies(g.needs)):
			return nil, needs, false
		case granted:
			more = g.needs
		case s.Devices.Settled(c):
			if more, ok = site.Reaches(c.Reach); !ok {
				return nil, needs, false
			}
		default:
			search = append(search, c)
		}
		if site.Satisfies == nil {
			if _, fits := site.Requirements.Compatible(more, constraint.WellKnownOptional); !fits {
				return nil, needs, false
			}
			site.Requirements = site.Requirements.And(more)
		}
		needs = needs.And(more)
	}
	return search, needs, true
}

// equip finds devices for a pod on a planned or fresh claim. Types that have none for it drop out; what the devices of the others demand adds up
// (rules 22.4).
func (s *state) equip(spec *fit.Spec, h host, reqs constraint.Requirements) (out outfit, ok bool) {
	cat := h.tmpl.Catalog
	search, needs, ok := s.unserved(spec, device.Site{Requirements: reqs}, func(g grant) bool { return g.claim != nil && g.claim == h.claim })
	if !ok {
		return out, false
	}
	wish := ""
	if h.claim != nil && len(search) == len(spec.Group.Devices.Claims) {
		if wish = wishOf(spec, search, reqs); h.claim.bare[wish] {
			return out, false
		}
	}
	out = outfit{gear: gear{}, reqs: reqs.And(needs), offers: bitset.New(uint(cat.Len()))}
	offers := s.holding(h, tightened(cat, h.offers, h.was, out.reqs), spec.Group.Request, 1)
	abroad, budget := s.abroad(h.claim, -1), deviceSteps
	for typ := range cat.ByPrice(offers) {
		var have []device.Result
		if h.claim != nil {
			have = h.claim.gear[typ]
		}
		used := device.Usage{}
		used.Take(have)
		site := fit.TypeSite(device.Site{Requirements: out.reqs, Used: []device.Usage{abroad, used}}, h.tmpl.Pool.Name, &cat.Types()[typ])
		own := ofType(cat, offers, typ)
		found, needs, ok := s.Devices.Search(site, search, &budget)
		if ok && needs.Len() > 0 && !sold(cat, out, own, needs) {
			// What the devices demand would drive out the type itself, or one that is cheaper: those of the node alone may do.
			site.Alone = true
			found, needs, ok = s.Devices.Search(site, search, &budget)
		}
		if !ok {
			continue
		}
		out.reqs, out.gear[typ] = out.reqs.And(needs), slices.Concat(have, found)
		out.offers.InPlaceUnion(own)
	}
	s.steps += int64(deviceSteps-max(budget, 0)) / 100
	if out.offers.None() && wish != "" && budget >= 0 {
		if h.claim.bare == nil {
			h.claim.bare = map[string]bool{}
		}
		h.claim.bare[wish] = true
	}
	return out, out.offers.Any()
}

// wishOf tells requests for devices apart, with what else decides whether a planned claim can serve them: its requirements with the pod's, and the
// pod's size.
func wishOf(spec *fit.Spec, claims []*cluster.DeviceClaim, reqs constraint.Requirements) string {
	var b strings.Builder
	b.WriteString(spec.Group.Shape.Key + "|" + reqs.String())
	for _, c := range claims {
		// Plain data: this cannot fail.
		text, _ := json.Marshal(struct {
			Requests []cluster.DeviceRequest
			Match    []cluster.DeviceMatch
		}{c.Requests, c.Match})
		b.Write(text)
	}
	return b.String()
}

// sold reports whether all types that have devices so far, and one more, are still sold with further needs.
func sold(cat *catalog.Catalog, out outfit, own *catalog.Set, needs constraint.Requirements) bool {
	all := out.offers.Union(own)
	return cat.CountTypes(tightened(cat, all, out.reqs, out.reqs.And(needs))) == cat.CountTypes(all)
}

// ofType returns the offerings of one type.
func ofType(cat *catalog.Catalog, offers *catalog.Set, typ int) *catalog.Set {
	out, variants := bitset.New(uint(cat.Len())), cat.Variants()
	// Variants are in the order of their types.
	v, _ := slices.BinarySearchFunc(variants, typ, func(v catalog.Variant, typ int) int { return cmp.Compare(v.Type, typ) })
	for ; v < len(variants) && variants[v].Type == typ; v++ {
		for i := variants[v].First; i < variants[v].End; i++ {
			out.SetTo(uint(i), offers.Test(uint(i)))
		}
	}
	return out
}

// abroad is what planned claims and targets have taken of devices that several nodes reach, but for one of them.
func (s *state) abroad(but *claim, target int) device.Usage {
	out := device.Usage{}
	if !s.Devices.Shared() {
		return out
	}
	for _, c := range s.claims {
		if c == but || c.gone || len(c.gear) == 0 {
			continue
		}
		var all [][]device.Result
		for typ := range c.tmpl.Catalog.ByPrice(c.offers) {
			all = append(all, remote(c.gear[typ]))
		}
		out.Cover(all)
	}
	for i := range s.targets {
		if i == target || len(s.targets[i].gear) == 0 {
			continue
		}
		var all [][]device.Result
		for _, list := range s.targets[i].gear {
			all = append(all, remote(list))
		}
		out.Cover(all)
	}
	return out
}

func remote(list []device.Result) []device.Result {
	return slices.DeleteFunc(slices.Clone(list), device.Result.Local)
}

// devicesOn finds devices for a pod on a target, for each of its sites; ok is false if one of them has none.
func (s *state) devicesOn(spec *fit.Spec, target int) (found [][]device.Result, ok bool) {
	r, abroad, budget := &s.targets[target], s.abroad(nil, target), deviceSteps
	for i, site := range s.Sites(r.Target) {
		search, _, ok := s.unserved(spec, site, func(g grant) bool { return g.claim == nil && g.target == target })
		if !ok {
			return nil, false
		}
		used := device.Usage{}
		if i < len(r.gear) {
			used.Take(r.gear[i])
		}
		site.Used = []device.Usage{abroad, used}
		more, _, ok := s.Devices.Search(site, search, &budget)
		if !ok {
			return nil, false
		}
		found = append(found, more)
	}
	s.steps += int64(deviceSteps-max(budget, 0)) / 100
	return found, true
}

func (s *state) devicesFit(spec *fit.Spec, target int) bool {
	_, ok := s.devicesOn(spec, target)
	return ok
}

// grantOn records the devices of a pod that goes to a target. It must have room.
func (s *state) grantOn(spec *fit.Spec, target int) {
	found, _ := s.devicesOn(spec, target)
	r := &s.targets[target]
	next := make([][]device.Result, len(found))
	for i := range found {
		if i < len(r.gear) {
			next[i] = r.gear[i]
		}
		next[i] = slices.Concat(next[i], found[i])
	}
	r.gear = next
	s.record(spec, grant{target: target}, found)
}

// grantTo records the devices of a pod that goes to a planned claim, which has the gear with them.
func (s *state) grantTo(spec *fit.Spec, c *claim) {
	var all [][]device.Result
	for typ := range c.tmpl.Catalog.ByPrice(c.offers) {
		all = append(all, c.gear[typ])
	}
	s.record(spec, grant{claim: c, target: -1}, all)
}

// record makes grants of the claims that had no devices before.
func (s *state) record(spec *fit.Spec, g grant, lists [][]device.Result) {
	for _, c := range spec.Group.Devices.Claims {
		key := c.Key()
		if _, done := s.grants[key]; done || s.Devices.Settled(c) {
			continue
		}
		x := g
		for _, list := range lists {
			x.local = x.local || slices.ContainsFunc(list, func(r device.Result) bool { return r.Claim == key && r.Local() })
			x.needs = x.needs.And(device.Needs(list, key))
		}
		s.grants[key] = x
	}
}

// drivers names those whose devices come with the claim's node, so that it counts as started only when they have published them. Drivers of devices
// elsewhere would be waited for in vain.
func (c *claim) drivers() string {
	var out []string
	for typ := range c.tmpl.Catalog.ByPrice(c.offers) {
		for _, r := range c.gear[typ] {
			if r.Template && !slices.Contains(out, r.Driver) {
				out = append(out, r.Driver)
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
