package aws

import (
	"cmp"
	"slices"
	"strconv"

	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
)

// booking is the capacity reservation that a launch template takes its instances from. The zero value is none.
type booking struct {
	ID            string `json:"id,omitempty"`
	Kind          string `json:"kind,omitempty"`
	Interruptible bool   `json:"interruptible,omitempty"`
}

// bookingOf reads the reservation of an offering.
func bookingOf(o *catalog.Offering) booking {
	b := booking{ID: o.ReservationID}
	for _, e := range o.Requirements {
		switch e.Key {
		case ec2types.LabelReservationType:
			b.Kind = e.Values[0]
		case ec2types.LabelInterruptible:
			b.Interruptible = e.Values[0] == "true"
		}
	}
	return b
}

// kindRank orders the kinds of reservations: default, then capacity blocks, then what may be interrupted.
func (b booking) kindRank() int {
	switch {
	case b.Interruptible:
		return 2
	case b.Kind == string(awsv1.ReservationCapacityBlock):
		return 1
	}
	return 0
}

// target is the kind of capacity that a fleet asks for.
func (b booking) target(capacityType string) et.DefaultTargetCapacityType {
	switch {
	case b.ID == "":
		return et.DefaultTargetCapacityType(capacityType)
	case b.Interruptible:
		return et.DefaultTargetCapacityTypeReservedCapacity
	case b.Kind == string(awsv1.ReservationCapacityBlock):
		return et.DefaultTargetCapacityTypeCapacityBlock
	}
	return et.DefaultTargetCapacityTypeOnDemand
}

// labels are those of an instance in the reservation.
func (b booking) labels() map[string]string {
	return map[string]string{
		ec2types.LabelReservationID: b.ID, ec2types.LabelReservationType: b.Kind, ec2types.LabelInterruptible: strconv.FormatBool(b.Interruptible),
	}
}

// withReserved applies the filters about reservations: a fleet takes one kind of them, of a capacity block one, and in each zone the one with
// most free instances. Without reserved offerings the list stays as it is.
func withReserved(list []candidate) []candidate {
	best, found := cheapestBooking(list)
	if !found {
		return list
	}
	reserved := restrict(list, func(o *catalog.Offering) bool {
		return o.CapacityType == catalog.Reserved && bookingOf(o).kindRank() == best.kindRank()
	})
	if best.kindRank() == 1 {
		return reservedBlock(reserved)
	}
	var out []candidate
	for _, c := range reserved {
		out = append(out, candidate{c.InstanceType, roomiest(c.offers)})
	}
	return out
}

// cheapestBooking is the kind of the cheapest reserved offering; equal prices go by kind.
func cheapestBooking(list []candidate) (best booking, found bool) {
	var price, rank = int64(0), 0
	for _, c := range list {
		for _, o := range c.offers {
			if o.CapacityType != catalog.Reserved {
				continue
			}
			b := bookingOf(&o)
			if !found || cmp.Or(cmp.Compare(int64(o.Price), price), cmp.Compare(b.kindRank(), rank)) < 0 {
				best, price, rank, found = b, int64(o.Price), b.kindRank(), true
			}
		}
	}
	return best, found
}

// reservedBlock keeps the one cheapest offering: a fleet takes a single capacity block.
func reservedBlock(list []candidate) []candidate {
	best := slices.MinFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.cheapest(), b.cheapest()), cmp.Compare(a.Name, b.Name))
	})
	offer := slices.MinFunc(best.offers, func(a, b catalog.Offering) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.ReservationID, b.ReservationID))
	})
	return []candidate{{best.InstanceType, []catalog.Offering{offer}}}
}

// roomiest keeps in each zone the reservation with most free instances.
func roomiest(offers []catalog.Offering) []catalog.Offering {
	var out []catalog.Offering
	for _, o := range offers {
		i := slices.IndexFunc(out, func(have catalog.Offering) bool { return have.Zone == o.Zone })
		switch {
		case i < 0:
			out = append(out, o)
		case o.ReservationCount > out[i].ReservationCount:
			out[i] = o
		}
	}
	return out
}

// reservationRequest keeps instances inside their reservation, and others out of open ones. It is absent while reservations are not used.
func (p *Provider) reservationRequest(b booking) *et.LaunchTemplateCapacityReservationSpecificationRequest {
	switch {
	case !p.opts.ReservedCapacity:
		return nil
	case b.ID == "":
		return &et.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationPreference: et.CapacityReservationPreferenceNone}
	}
	return &et.LaunchTemplateCapacityReservationSpecificationRequest{
		CapacityReservationPreference: et.CapacityReservationPreferenceCapacityReservationsOnly,
		CapacityReservationTarget:     &et.CapacityReservationTarget{CapacityReservationId: &b.ID},
	}
}

func marketRequest(b booking) *et.LaunchTemplateInstanceMarketOptionsRequest {
	switch {
	case b.ID == "":
		return nil
	case b.Interruptible:
		return &et.LaunchTemplateInstanceMarketOptionsRequest{MarketType: et.MarketTypeInterruptibleCapacityReservation}
	case b.Kind == string(awsv1.ReservationCapacityBlock):
		return &et.LaunchTemplateInstanceMarketOptionsRequest{MarketType: et.MarketTypeCapacityBlock}
	}
	return nil
}
