package aws

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// maxTypes is the number of instance types that a fleet request names.
const maxTypes = 60

// candidate is a type that may serve the claim, with the offerings that may: available and admitted by the claim.
type candidate struct {
	*catalog.InstanceType
	offers []catalog.Offering
}

func (c *candidate) cheapest() units.Money {
	low := c.offers[0].Price
	for _, o := range c.offers[1:] {
		low = min(low, o.Price)
	}
	return low
}

// wish is what a claim asks for, read once.
type wish struct {
	requirements constraint.Requirements
	requests     units.List
	// minValues are the keys that want several values, with how many.
	minValues map[string]int
}

func wishOf(claim *karpv1.NodeClaim) wish {
	w := wish{requests: units.List{}, minValues: map[string]int{}}
	var exprs []constraint.Expr
	for _, r := range claim.Spec.Requirements {
		exprs = append(exprs, constraint.Expr{Key: r.Key, Operator: constraint.Operator(r.Operator), Values: r.Values})
		if n := minValues(r); n > 0 {
			key := constraint.Canonical(r.Key)
			w.minValues[key] = max(w.minValues[key], n)
		}
	}
	w.requirements = constraint.Parse(exprs)
	for name, q := range claim.Spec.Resources.Requests {
		if name == corev1.ResourceCPU {
			w.requests[units.CPU] = q.MilliValue()
			continue
		}
		w.requests[string(name)] = q.Value()
	}
	return w
}

// admits reports whether the claim allows the value of a label.
func (w *wish) admits(key, value string) bool {
	r, ok := w.requirements.Get(key)
	return !ok || r.Admits(value)
}

// admitsType reports whether the labels of the type agree with the claim. Labels that only the claim knows come from the claim itself.
func (w *wish) admitsType(t *catalog.InstanceType) bool {
	for r := range w.requirements.All() {
		i, ok := slices.BinarySearchFunc(t.Requirements, r.Key, func(e constraint.Expr, key string) int { return cmp.Compare(e.Key, key) })
		if ok && constraint.New(t.Requirements[i]).Conflicts(r) {
			return false
		}
	}
	return true
}

// admitsOffer reports whether the claim allows the offering, available or not.
func (w *wish) admitsOffer(o *catalog.Offering) bool {
	if !w.admits(ec2types.LabelZone, o.Zone) || !w.admits(ec2types.LabelCapacityType, o.CapacityType) {
		return false
	}
	if o.ZoneID != "" && !w.admits(ec2types.LabelZoneID, o.ZoneID) {
		return false
	}
	for _, key := range []string{ec2types.LabelReservationID, ec2types.LabelReservationType, ec2types.LabelInterruptible} {
		if r, ok := w.requirements.Get(key); ok && o.CapacityType != catalog.Reserved && !r.AdmitsAbsent() {
			return false
		}
	}
	return !slices.ContainsFunc(o.Requirements, func(e constraint.Expr) bool {
		r, ok := w.requirements.Get(e.Key)
		return ok && constraint.New(e).Conflicts(r)
	})
}

// candidates applies the filters in their order. None left is a *cloud.NoCapacity that says after which.
func candidates(types []catalog.InstanceType, w *wish, relaxed bool) ([]candidate, error) {
	list := fitting(types, w)
	if len(list) == 0 {
		return nil, &cloud.NoCapacity{Detail: nothingFits(types, w)}
	}
	list = withReserved(list)
	if len(w.minValues) == 0 {
		list = withoutExotic(list)
		list = withoutDearSpot(list)
	}
	list = cheapestFirst(list, maxTypes)
	if key, have := missingValues(list, w.minValues); key != "" && !relaxed {
		return nil, &cloud.NoCapacity{Detail: fmt.Sprintf("the %d cheapest types have %d values of %s, minValues wants %d", len(list), have, key, w.minValues[key])}
	}
	return list, nil
}

func fitting(types []catalog.InstanceType, w *wish) []candidate {
	var out []candidate
	for i := range types {
		t := &types[i]
		if !w.admitsType(t) || !units.Fits(w.requests, t.Allocatable()) {
			continue
		}
		c := candidate{InstanceType: t}
		for _, o := range t.Offerings {
			if o.Available && w.admitsOffer(&o) {
				c.offers = append(c.offers, o)
			}
		}
		if len(c.offers) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// nothingFits says at which step the last type was lost, and why the offerings of those that fit cannot be bought.
func nothingFits(types []catalog.InstanceType, w *wish) string {
	admitted, fit := 0, 0
	reasons := map[string]int{}
	for i := range types {
		t := &types[i]
		if !w.admitsType(t) {
			continue
		}
		admitted++
		if !units.Fits(w.requests, t.Allocatable()) {
			continue
		}
		fit++
		for _, o := range t.Offerings {
			if !o.Available && w.admitsOffer(&o) {
				reasons[o.Unavailable.Reason]++
			}
		}
	}
	var parts []string
	for reason, n := range reasons {
		parts = append(parts, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(parts)
	text := fmt.Sprintf("all requested types are unavailable: of %d types the claim admits %d, its requests fit %d", len(types), admitted, fit)
	if len(parts) > 0 {
		text += "; offerings: " + strings.Join(parts, ", ")
	}
	return text
}

// withoutExotic drops bare metal and accelerators, unless nothing else is left.
func withoutExotic(list []candidate) []candidate {
	plain := slices.DeleteFunc(slices.Clone(list), func(c candidate) bool {
		_, size, _ := strings.Cut(c.Name, ".")
		return strings.Contains(size, "metal") || slices.ContainsFunc(
			[]string{ec2types.NvidiaGPU, ec2types.AMDGPU, ec2types.Gaudi, ec2types.Neuron, ec2types.NeuronCore},
			func(r string) bool { return c.Capacity[r] > 0 })
	})
	if len(plain) == 0 {
		return list
	}
	return plain
}

// withoutDearSpot drops spot offerings that cost more than the cheapest on-demand offering, when there are both.
func withoutDearSpot(list []candidate) []candidate {
	var low units.Money
	onDemand, spot := false, false
	for _, c := range list {
		for _, o := range c.offers {
			switch o.CapacityType {
			case catalog.OnDemand:
				if !onDemand || o.Price < low {
					low = o.Price
				}
				onDemand = true
			case catalog.Spot:
				spot = true
			}
		}
	}
	if !onDemand || !spot {
		return list
	}
	return restrict(list, func(o *catalog.Offering) bool { return o.CapacityType != catalog.Spot || o.Price <= low })
}

// restrict keeps the offerings that pass and the candidates that keep one. It copies what it changes.
func restrict(list []candidate, keep func(*catalog.Offering) bool) []candidate {
	var out []candidate
	for _, c := range list {
		offers := slices.DeleteFunc(slices.Clone(c.offers), func(o catalog.Offering) bool { return !keep(&o) })
		if len(offers) > 0 {
			out = append(out, candidate{c.InstanceType, offers})
		}
	}
	return out
}

// cheapestFirst returns the n cheapest by their cheapest offering, ties by name.
func cheapestFirst(list []candidate, n int) []candidate {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.cheapest(), b.cheapest()), cmp.Compare(a.Name, b.Name))
	})
	return out[:min(n, len(out))]
}

// missingValues returns the first key that has fewer values among the types than wanted.
func missingValues(list []candidate, want map[string]int) (key string, have int) {
	for _, k := range slices.Sorted(maps.Keys(want)) {
		values := map[string]bool{}
		for _, c := range list {
			i, ok := slices.BinarySearchFunc(c.Requirements, k, func(e constraint.Expr, key string) int { return cmp.Compare(e.Key, key) })
			if ok {
				for _, v := range c.Requirements[i].Values {
					values[v] = true
				}
			}
		}
		if len(values) < want[k] {
			return k, len(values)
		}
	}
	return "", 0
}

// capacityTypeOf is the first of reserved and spot that one of the candidates can be bought as, else on-demand.
func capacityTypeOf(list []candidate) string {
	for _, ct := range []string{catalog.Reserved, catalog.Spot} {
		if len(restrict(list, func(o *catalog.Offering) bool { return o.CapacityType == ct })) > 0 {
			return ct
		}
	}
	return catalog.OnDemand
}

// tenancyOf is default unless the claim admits dedicated only.
func (w *wish) tenancy() string {
	if !w.admits(ec2types.LabelTenancy, awsv1.TenancyDefault) && w.admits(ec2types.LabelTenancy, awsv1.TenancyDedicated) {
		return awsv1.TenancyDedicated
	}
	return awsv1.TenancyDefault
}

// partition is the smallest partition, by the order of texts, that the claim names; "" if it names none.
func (w *wish) partition() string {
	r, ok := w.requirements.Get(ec2types.LabelPartition)
	if !ok || r.Operator() != constraint.In {
		return ""
	}
	if values := r.Values(); len(values) > 0 {
		return slices.Min(values)
	}
	return ""
}

// imageFor returns the first image of the status that the type can run.
func imageFor(amis []awsv1.AMI, t *catalog.InstanceType) (awsv1.AMI, bool) {
	for _, a := range amis {
		fits := !slices.ContainsFunc(a.Requirements, func(r corev1.NodeSelectorRequirement) bool {
			i, ok := slices.BinarySearchFunc(t.Requirements, r.Key, func(e constraint.Expr, key string) int { return cmp.Compare(e.Key, key) })
			wanted := constraint.New(constraint.Expr{Key: r.Key, Operator: constraint.Operator(r.Operator), Values: r.Values})
			return ok && constraint.New(t.Requirements[i]).Conflicts(wanted)
		})
		if fits {
			return a, true
		}
	}
	return awsv1.AMI{}, false
}
