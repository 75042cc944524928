// Package overlay corrects what instance types cost and hold, as NodeOverlays say (scheduling rules 23, api rules 4).
//
// Evaluate looks at all overlays and pools together and finds those that are in conflict; Apply corrects the instance types of one pool. Both
// take values and return values: instance types handed in are never changed.
package overlay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// Overlay is one NodeOverlay.
type Overlay struct {
	Name       string
	Generation int64
	Weight     int32
	// Requirements select instance types and offerings; none select all.
	Requirements []constraint.Expr
	// Price changes prices, nil if the overlay does not.
	Price *Price
	// Capacity is added to types, by resource name.
	Capacity units.List
	// Invalid says why the overlay is refused whatever else exists; empty if it is not.
	Invalid string
}

// Price is what an overlay does to a price.
type Price struct {
	how    how
	amount units.Money
	factor float64
}

type how int

const (
	replace how = iota
	add
	scale
)

// Fixed is the price that replaces others, from dollars an hour such as "0.0416".
func Fixed(text string) (*Price, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v < 0 {
		return nil, fmt.Errorf("price %q is not an amount in dollars such as 0.05", text)
	}
	return &Price{how: replace, amount: units.FromDollars(v)}, nil
}

// Adjusted is a change of prices, from "+0.1", "-0.1", "+10%" or "-10%".
func Adjusted(text string) (*Price, error) {
	bad := fmt.Errorf("price adjustment %q is not of the form +0.1, -0.1, +10%% or -10%%", text)
	if text == "" || text[0] != '+' && text[0] != '-' {
		return nil, bad
	}
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || percent && v < -100:
		return nil, bad
	case percent:
		return &Price{how: scale, factor: (100 + v) / 100}, nil
	}
	return &Price{how: add, amount: units.FromDollars(v)}, nil
}

// Of is what a price becomes, never less than nothing.
func (p *Price) Of(m units.Money) units.Money {
	switch p.how {
	case add:
		m += p.amount
	case scale:
		// The conversion keeps the compiler from fusing the operations, so that all machines round alike.
		m = units.Money(float64(float64(m)*p.factor) + 0.5)
	default:
		m = p.amount
	}
	return max(m, 0)
}

// Pool is a NodePool with what its class can launch.
type Pool struct {
	Name string
	// Labels of the template.
	Labels map[string]string
	Types  []catalog.InstanceType
}

// Reason is why an overlay is not applied.
type Reason string

// Reasons.
const (
	RuntimeValidation Reason = "RuntimeValidation"
	Conflict          Reason = "Conflict"
)

// Verdict says whether an overlay is applied.
type Verdict struct {
	Name       string
	Generation int64
	// Reason is empty for an overlay that is applied; Message tells more of one that is not.
	Reason  Reason
	Message string
}

// Evaluation is the outcome for all overlays.
type Evaluation struct {
	// Verdicts by name.
	Verdicts []Verdict
	// Accepted are the overlays that are applied, in the order in which they are.
	Accepted []Overlay
}

// Evaluate looks at all overlays in the order in which they are applied: by weight, heaviest first, then by name, last first. One that sets what
// an accepted one of equal weight sets, on any pool, is refused as a whole.
func Evaluate(overlays []Overlay, pools []Pool) Evaluation {
	order := slices.Clone(overlays)
	slices.SortFunc(order, func(a, b Overlay) int { return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Name, a.Name)) })
	targets := make([]target, len(pools))
	for i := range pools {
		targets[i] = newTarget(&pools[i])
	}
	var out Evaluation
	taken := map[claim]string{}
	var weight int32
	for i := range order {
		o := &order[i]
		if i == 0 || o.Weight != weight {
			weight = o.Weight
			clear(taken) // overlays of different weights never conflict
		}
		v := Verdict{Name: o.Name, Generation: o.Generation}
		if o.Invalid != "" {
			v.Reason, v.Message = RuntimeValidation, o.Invalid
		} else if claims, clash := claimsOf(o, targets, taken); clash != "" {
			v.Reason, v.Message = Conflict, clash
		} else {
			for _, c := range claims {
				taken[c] = o.Name
			}
			out.Accepted = append(out.Accepted, *o)
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	slices.SortFunc(out.Verdicts, func(a, b Verdict) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// claim is one thing that only one of several overlays of equal weight may set: the price of an offering, or a resource of a type.
type claim struct {
	pool, typ int
	offering  int // -1 for a resource
	resource  string
}

// claimsOf lists what an overlay sets; clash tells which part is taken.
func claimsOf(o *Overlay, targets []target, taken map[claim]string) (out []claim, clash string) {
	reqs := constraint.Parse(o.Requirements)
	for p := range targets {
		for t := range targets[p].Types {
			hit := targets[p].match(t, reqs)
			if len(hit) == 0 {
				continue
			}
			mine := make([]claim, 0, len(hit)+len(o.Capacity))
			if o.Price != nil {
				for _, i := range hit {
					mine = append(mine, claim{pool: p, typ: t, offering: i})
				}
			}
			for _, name := range o.Capacity.Names() {
				mine = append(mine, claim{pool: p, typ: t, offering: -1, resource: name})
			}
			for _, c := range mine {
				if by, ok := taken[c]; ok {
					return nil, targets[p].clash(c, by)
				}
			}
			out = append(out, mine...)
		}
	}
	return out, ""
}

// target is a pool with the label requirements of its nodes.
type target struct {
	*Pool
	base constraint.Requirements
}

func newTarget(p *Pool) target {
	labels := maps.Clone(p.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[constraint.NodePoolKey] = p.Name
	return target{p, constraint.FromLabels(labels)}
}

func (p target) clash(c claim, by string) string {
	t := &p.Types[c.typ]
	if c.offering < 0 {
		return fmt.Sprintf("overlay %s of equal weight sets %s of %s in pool %s too; give one of them another weight", by, c.resource, t.Name, p.Name)
	}
	o := &t.Offerings[c.offering]
	return fmt.Sprintf("overlay %s of equal weight sets the price of %s %s in %s for pool %s too; give one of them another weight", by, o.CapacityType, t.Name, o.Zone, p.Name)
}

// match returns the indexes of a type's offerings that an overlay selects. A key that neither the type nor the template defines is not there,
// well known or not.
func (p target) match(typ int, reqs constraint.Requirements) []int {
	t := &p.Types[typ]
	if reqs.Len() > 0 {
		if _, ok := p.base.And(constraint.Parse(t.Requirements)).Compatible(reqs, constraint.Strict); !ok {
			return nil
		}
	}
	var out []int
	for i := range t.Offerings {
		if selects(reqs, &t.Offerings[i]) {
			out = append(out, i)
		}
	}
	return out
}

// selects reports whether an offering agrees with requirements on the labels that it defines itself.
func selects(reqs constraint.Requirements, o *catalog.Offering) bool {
	for key, v := range map[string]string{constraint.ZoneKey: o.Zone, constraint.CapacityTypeKey: o.CapacityType, constraint.ZoneIDKey: o.ZoneID} {
		if r, ok := reqs.Get(key); ok && v != "" && !r.Admits(v) {
			return false
		}
	}
	for _, e := range o.Requirements {
		own := constraint.New(e)
		if r, ok := reqs.Get(own.Key); ok && own.Conflicts(r) {
			return false
		}
	}
	return true
}

// Apply returns the types of the pool as the accepted overlays correct them, and whether any is corrected; if none is, the result is the pool's own
// slice. The first overlay to set a price or a resource wins.
func (e *Evaluation) Apply(pool Pool) (types []catalog.InstanceType, changed bool) {
	p := newTarget(&pool)
	parsed := make([]constraint.Requirements, len(e.Accepted))
	for i := range e.Accepted {
		parsed[i] = constraint.Parse(e.Accepted[i].Requirements)
	}
	types = pool.Types
	for i := range pool.Types {
		t, ok := e.apply(p, i, parsed)
		if !ok {
			continue
		}
		if !changed {
			types, changed = slices.Clone(pool.Types), true
		}
		types[i] = t
	}
	return types, changed
}

// setPrice changes the price of an offering. A fixed price of named types stands for the one the cloud does not tell, which makes the offering one
// that can be bought.
func (o *Overlay) setPrice(at *catalog.Offering) {
	at.Price = o.Price.Of(at.Price)
	if o.Price.how != replace {
		return
	}
	at.PriceUnknown = false
	named := len(o.Requirements) == 1 && constraint.Canonical(o.Requirements[0].Key) == constraint.InstanceTypeKey && o.Requirements[0].Operator == constraint.In
	if named && !at.Available && at.Unavailable.Reason == catalog.NoPrice {
		at.Available, at.Unavailable = true, catalog.Unavailability{}
	}
}

// apply corrects one type; its slices and maps are copied before they change.
func (e *Evaluation) apply(p target, typ int, parsed []constraint.Requirements) (t catalog.InstanceType, changed bool) {
	t = p.Types[typ]
	priced, sized := make([]bool, len(t.Offerings)), map[string]bool{}
	for i := range e.Accepted {
		o := &e.Accepted[i]
		if o.Price == nil && len(o.Capacity) == 0 {
			continue
		}
		hit := p.match(typ, parsed[i])
		for _, k := range hit {
			if o.Price == nil || priced[k] {
				continue
			}
			if !t.PriceOverlay {
				t.Offerings, t.PriceOverlay = slices.Clone(t.Offerings), true
			}
			o.setPrice(&t.Offerings[k])
			priced[k] = true
		}
		if len(hit) == 0 {
			continue
		}
		for name, n := range o.Capacity {
			if sized[name] {
				continue
			}
			if !t.CapacityOverlay {
				t.Capacity, t.CapacityOverlay = t.Capacity.Add(nil), true
			}
			t.Capacity[name], sized[name] = n, true
		}
	}
	return t, t.PriceOverlay || t.CapacityOverlay
}
