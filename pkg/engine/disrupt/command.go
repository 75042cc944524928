package disrupt

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// spotTypes is how many cheaper types a spot node must leave to choose from when it replaces a single spot node (rules 14.3).
const spotTypes = 15

// verdict is why an outcome is no command.
type verdict struct {
	code reason.Code
	// found and wanted are counts of types for SpotFlexibility and minValues.
	found, wanted int
}

// deal turns a successful simulation into a command of consolidation, if it saves anything (rules 14).
func (v *survey) deal(o outcome) (plan.Command, verdict) {
	c := plan.Command{Method: plan.MultiNode, Placements: o.placements}
	if len(o.set) == 1 {
		c.Method = plan.SingleNode
	}
	allSpot := true
	for _, n := range o.set {
		c.Candidates = append(c.Candidates, v.asCandidate(n))
		c.Price += n.price
		allSpot = allSpot && n.buyAs == catalog.Spot
	}
	if !o.ok() {
		return c, verdict{code: o.code}
	}
	c.Saving = c.Price
	if len(o.claims) == 0 {
		return c, verdict{}
	}
	if c.Price == 0 {
		return c, verdict{code: reason.PriceUnknown}
	}
	bargains, total := v.bargains(o)
	worst := units.Money(0)
	for i := range bargains {
		b := &bargains[i]
		limit := c.Price
		if len(bargains) > 1 {
			limit = share(c.Price, b.options[0].cheapest, total)
		}
		if no := b.filter(limit, allSpot && admits(&b.claim, catalog.Spot), v.s.Settings.SpotToSpot, o.set); no.code != "" {
			return c, no
		}
		worst += b.worst
		c.Saving -= b.claim.Price
		c.Replacements = append(c.Replacements, b.claim)
	}
	switch {
	case worst >= c.Price:
		return c, verdict{code: reason.NoCheaperReplacement}
	case c.Saving < v.leastSaving(c.Price):
		return c, verdict{code: reason.SavingTooSmall}
	}
	return c, verdict{}
}

// leastSaving is what a replacement of nodes at this price has to save.
func (v *survey) leastSaving(price units.Money) units.Money {
	return units.Money(int64(price) / 1_000_000 * v.s.Settings.MinimumSaving)
}

// share is price x part / total.
func share(price, part, total units.Money) units.Money {
	if total == 0 {
		return price
	}
	return units.Money(float64(price) * (float64(part) / float64(total)))
}

// bargain is a new node on its way to a replacement.
type bargain struct {
	cat     *catalog.Catalog
	claim   plan.Claim
	options []option // by price
	worst   units.Money
}

// bargains lists the new nodes with their options, and the sum of the cheapest prices.
func (v *survey) bargains(o outcome) (out []bargain, total units.Money) {
	for _, c := range o.claims {
		cat := v.pools[c.Pool].Catalog
		b := bargain{cat: cat, claim: c, options: optionsOf(cat, &c)}
		if len(b.options) > 0 {
			total += b.options[0].cheapest
		} else {
			b.options = []option{{}}
		}
		out = append(out, b)
	}
	return out, total
}

// filter keeps the types that are cheaper than the limit, by the rules for the kind of replacement (rules 14.1 step 4, 14.2, 14.3).
func (b *bargain) filter(limit units.Money, spotToSpot, allowed bool, set []*node) verdict {
	narrow, fitting := "", len(b.options)
	if spotToSpot {
		if !allowed {
			return verdict{code: reason.SpotToSpotOff}
		}
		narrow = catalog.Spot
		b.only(catalog.Spot)
	}
	b.below(limit)
	if len(b.options) == 0 {
		if spotToSpot && len(set) == 1 {
			return verdict{reason.SpotFlexibility, 0, spotTypes}
		}
		return verdict{reason.NoCheaperReplacement, 0, fitting}
	}
	if narrow == "" && admits(&b.claim, catalog.Spot) && admits(&b.claim, catalog.OnDemand) {
		narrow = b.justified()
		b.only(narrow)
	}
	if no := b.sameType(set); no.code != "" {
		return no
	}
	if spotToSpot && len(set) == 1 {
		if len(b.options) < spotTypes {
			return verdict{reason.SpotFlexibility, len(b.options), spotTypes}
		}
		b.truncate()
	}
	if !restrict(b.cat, &b.claim, b.options, narrow) {
		return verdict{code: reason.MinValuesUnsatisfied, found: len(b.options)}
	}
	for _, o := range b.options {
		b.worst = max(b.worst, o.worst)
	}
	return verdict{}
}

// only keeps the offerings of one capacity type.
func (b *bargain) only(capacityType string) {
	offers := offersOf(b.cat, &b.claim)
	kept := map[int]bool{}
	for _, o := range b.options {
		kept[o.typ] = true
	}
	for i, ok := offers.NextSet(0); ok; i, ok = offers.NextSet(i + 1) {
		if typ, o := b.cat.Offer(int(i)); o.CapacityType != capacityType || !kept[typ] {
			offers.Clear(i)
		}
	}
	b.options = optionsIn(b.cat, offers)
}

func (b *bargain) below(limit units.Money) {
	b.options = slices.DeleteFunc(b.options, func(o option) bool { return o.worst >= limit })
}

// justified is the capacity type at whose price the types were kept: spot where any can be had, else on-demand (rules 14.2).
func (b *bargain) justified() string {
	if slices.ContainsFunc(b.options, func(o option) bool { return o.spot }) {
		return catalog.Spot
	}
	return catalog.OnDemand
}

// sameType is the same-type guard of moves of several nodes (rules 14.6): where one of them is of a type that the new node could have, keeping
// it and deleting the others does the same with less disruption.
func (b *bargain) sameType(set []*node) verdict {
	if len(set) < 2 {
		return verdict{}
	}
	limit, found := units.Money(0), false
	for _, n := range set {
		if !slices.ContainsFunc(b.options, func(o option) bool { return o.name == n.typeName }) {
			continue
		}
		if !found || n.price < limit {
			limit, found = n.price, true
		}
	}
	if !found {
		return verdict{}
	}
	if b.below(limit); len(b.options) == 0 {
		return verdict{code: reason.SameType}
	}
	return verdict{}
}

// truncate keeps the 15 cheapest types, or as many as minValues need, so that what is launched is always among the 15 cheapest (rules 14.3).
func (b *bargain) truncate() {
	n := spotTypes
	for n < len(b.options) && !varied(b.cat, &b.claim, b.options[:n]) {
		n++
	}
	b.options = b.options[:n]
}

// seal gives a command the identity of its content.
func seal(c plan.Command) plan.Command {
	c.ID = ""
	// A command is plain data and maps are written in key order, so this cannot fail and is the same everywhere.
	text, _ := json.Marshal(struct {
		Method       plan.Method
		Candidates   []plan.Candidate
		Replacements []plan.Claim
	}{c.Method, c.Candidates, c.Replacements})
	sum := sha256.Sum256(text)
	c.ID = hex.EncodeToString(sum[:8])
	return c
}
