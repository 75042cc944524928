package ec2types

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// Ask names an offering whose quote is wanted. Of a reserved one the price is that of on-demand, and what the market does not sell matters only
// where it concerns the whole zone. Partition is empty unless the class launches into a partitioned group.
type Ask struct {
	Type, CapacityType, Zone, Partition string
}

// Quote is what is known about an offering.
type Quote struct {
	Price units.Money
	// Priced is false when no price is known at all: the offering is then unavailable.
	Priced bool
	// Estimated tells that the price is a stand-in.
	Estimated bool
	// Unavailable is set while the cloud is known not to sell the offering.
	Unavailable *catalog.Unavailability
}

// Market answers for prices and availability.
type Market func(Ask) Quote

// Input is everything that one type depends on.
type Input struct {
	Type     *ec2data.Type
	Settings Settings
	Class    *Class
	// Offered are the names of the zones that offer the type.
	Offered []string
	Market  Market
	// ObservedMemory is the capacity a live node of the type reported, in bytes; 0 if none did.
	ObservedMemory int64
}

// Derive returns the type as the class would run it. Its offerings are those in zones in which the class has a subnet, sorted by zone, then
// capacity type. An error tells of kubelet settings that cannot be read; it concerns every type of the class alike.
func Derive(in Input) (catalog.InstanceType, error) {
	t, c := in.Type, in.Class
	amounts := capacity(t, in.Settings, c)
	over, err := overhead(t, c, amounts)
	if err != nil {
		return catalog.InstanceType{}, fmt.Errorf("deriving %s: %w", t.Name, err)
	}
	out := catalog.InstanceType{
		Name: t.Name, Capacity: amounts, Overhead: over, MemoryRaw: t.MemoryMiB * mib,
		Offerings: Offerings(in),
	}
	if in.ObservedMemory > 0 {
		amounts[units.Memory] = in.ObservedMemory
		out.Observed = true
	}
	out.Requirements = requirements(t, in.Settings, c, out.Offerings)
	return out, nil
}

// Check reports kubelet settings of the class that cannot be read.
func Check(c *Class) error {
	sample := units.List{units.Memory: gib, units.EphemeralStorage: gib}
	_, err := overhead(&ec2data.Type{}, c, sample)
	return err
}

// Offerings returns the offerings of a derived type alone: what changes with prices and availability while everything else stays.
func Offerings(in Input) []catalog.Offering {
	var out []catalog.Offering
	blocked := Incompatible(in.Type, in.Class) != ""
	for _, z := range in.Class.Zones {
		if !slices.Contains(in.Offered, z.Name) {
			continue
		}
		for _, ct := range []string{catalog.OnDemand, catalog.Spot} {
			if !slices.Contains(in.Type.UsageClasses, ct) {
				continue
			}
			for _, p := range partitions(in.Class.PlacementGroup) {
				out = append(out, base(in, z, ct, p, blocked))
			}
		}
		out = append(out, reserved(in, z, blocked)...)
	}
	return out
}

// partitions returns the partition numbers of the group, or one empty string.
func partitions(g *PlacementGroup) []string {
	if g == nil || g.Strategy != "partition" || g.Partitions < 1 {
		return []string{""}
	}
	out := make([]string, g.Partitions)
	for i := range out {
		out[i] = strconv.Itoa(i + 1)
	}
	return out
}

func base(in Input, z Zone, capacityType, partition string, blocked bool) catalog.Offering {
	q := in.Market(Ask{Type: in.Type.Name, CapacityType: capacityType, Zone: z.Name, Partition: partition})
	o := catalog.Offering{Zone: z.Name, ZoneID: z.ID, CapacityType: capacityType, Price: q.Price, PriceUnknown: q.Estimated || !q.Priced}
	if partition != "" {
		o.Requirements = []constraint.Expr{{Key: LabelPartition, Operator: constraint.In, Values: []string{partition}}}
	}
	switch {
	case blocked:
		o.Unavailable.Reason = ReasonIncompatible
	case q.Unavailable != nil:
		o.Unavailable = *q.Unavailable
	case !q.Priced:
		o.Unavailable.Reason = ReasonNoPrice
	default:
		o.Available = true
	}
	return o
}

// reservedDiscount makes a reserved offering cheaper than everything that costs money.
const reservedDiscount = 10_000_000

func reserved(in Input, z Zone, blocked bool) []catalog.Offering {
	var out []catalog.Offering
	for _, r := range in.Class.Reservations {
		if r.InstanceType != in.Type.Name || r.Zone != z.Name {
			continue
		}
		q := in.Market(Ask{Type: in.Type.Name, CapacityType: catalog.Reserved, Zone: z.Name})
		o := catalog.Offering{
			Zone: z.Name, ZoneID: z.ID, CapacityType: catalog.Reserved, ReservationID: r.ID, ReservationCount: r.Count,
			Price: (q.Price + reservedDiscount/2) / reservedDiscount, PriceUnknown: !q.Priced,
			Requirements: []constraint.Expr{
				{Key: LabelReservationID, Operator: constraint.In, Values: []string{r.ID}},
				{Key: LabelReservationType, Operator: constraint.In, Values: []string{r.Kind}},
				{Key: LabelInterruptible, Operator: constraint.In, Values: []string{strconv.FormatBool(r.Interruptible)}},
			},
		}
		switch {
		case blocked:
			o.Unavailable.Reason = ReasonIncompatible
		case q.Unavailable != nil:
			o.Unavailable = *q.Unavailable
		case r.Expiring:
			o.Unavailable.Reason = ReasonReservationExpiring
		case r.Count == 0:
			o.Unavailable.Reason = ReasonReservationFull
		default:
			o.Available = true
		}
		out = append(out, o)
	}
	return out
}

// Usable reports whether EC2 could run a Kubernetes node on the type at all.
func Usable(t *ec2data.Type) bool {
	return !t.Partial && Arch(t) != "" && slices.Contains(t.VirtualizationTypes, "hvm")
}

// All derives every type given, ascending by name as given. What cannot be derived is left out and told in the error.
func All(inputs []Input) ([]catalog.InstanceType, error) {
	out := make([]catalog.InstanceType, 0, len(inputs))
	var errs []error
	for _, in := range inputs {
		t, err := Derive(in)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, t)
	}
	if len(errs) > 0 {
		return out, fmt.Errorf("%d types left out, first: %w", len(errs), errs[0])
	}
	return out, errors.Join(errs...)
}
