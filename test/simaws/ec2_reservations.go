package simaws

import (
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

type describeReservationsInput struct {
	dry
	filtering
	paging
	IDs []string `q:"CapacityReservationId"`
}

type capacityReservationXML struct {
	ID            string `xml:"capacityReservationId"`
	Owner         string `xml:"ownerId"`
	Type          string `xml:"instanceType"`
	Platform      string `xml:"instancePlatform"`
	Zone          string `xml:"availabilityZone"`
	ZoneID        string `xml:"availabilityZoneId"`
	Tenancy       string `xml:"tenancy"`
	Total         int    `xml:"totalInstanceCount"`
	Available     int    `xml:"availableInstanceCount"`
	State         string `xml:"state"`
	Start         string `xml:"startDate"`
	End           string `xml:"endDate,omitempty"`
	EndType       string `xml:"endDateType"`
	Match         string `xml:"instanceMatchCriteria"`
	Kind          string `xml:"reservationType"`
	Interruptible bool   `xml:"interruptible"`
	Created       string `xml:"createDate"`
	ARN           string `xml:"capacityReservationArn"`
	EBSOptimized  bool   `xml:"ebsOptimized"`
	Ephemeral     bool   `xml:"ephemeralStorage"`
	Block         string `xml:"capacityBlockId,omitempty"`

	Allocation *allocationXML   `xml:"interruptibleCapacityAllocation"`
	Interrupt  *interruptionXML `xml:"interruptionInfo"`
	Tags       []xmlTag         `xml:"tagSet>item"`
}

type allocationXML struct {
	Count  int    `xml:"instanceCount"`
	Target int    `xml:"targetInstanceCount"`
	Status string `xml:"status"`
	ID     string `xml:"interruptibleCapacityReservationId"`
	Kind   string `xml:"interruptionType"`
}

type interruptionXML struct {
	Source string `xml:"sourceCapacityReservationId,omitempty"`
	Kind   string `xml:"interruptionType"`
}

func (s *ec2Service) describeCapacityReservations(_ *call, in *describeReservationsInput) (any, *cloud.Error) {
	if err := notPagedByID(in.paging, in.IDs, "capacityReservationIds"); err != nil {
		return nil, err
	}
	all, err := s.cloud.Reservations(given(in.IDs), in.filters())
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{1, 1000, 1000, false}, func(r cloud.CapacityReservation) string { return r.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Reservations []capacityReservationXML `xml:"capacityReservationSet>item"`
		Next         string                   `xml:"nextToken,omitempty"`
	}
	out.Next = next
	for _, r := range part {
		out.Reservations = append(out.Reservations, s.describeReservation(r))
	}
	return out, nil
}

// adhoc is the one kind of interruption there is: on two minutes' notice.
const adhoc = "adhoc"

func (s *ec2Service) describeReservation(r cloud.CapacityReservation) capacityReservationXML {
	x := capacityReservationXML{
		ID: r.ID, Owner: r.OwnerID, Type: r.Type, Platform: r.Platform, Zone: r.Zone, ZoneID: r.ZoneID, Tenancy: r.Tenancy,
		Total: r.Total, Available: r.Available, State: r.State, Start: timestamp(r.StartAt), EndType: "unlimited",
		Match: r.MatchCriteria, Kind: r.Kind, Interruptible: r.Interruptible, Tags: xmlTags(r.Tags),
		Created: timestamp(r.CreatedAt), ARN: s.cloud.ARN("ec2", "capacity-reservation/"+r.ID), EBSOptimized: r.EBSOptimized,
	}
	if !r.EndAt.IsZero() {
		x.End, x.EndType = timestamp(r.EndAt), "limited"
	}
	if r.Kind == "capacity-block" {
		x.Block = "cb-" + strings.TrimPrefix(r.ID, "cr-")
	}
	if r.Interruptible {
		x.Interrupt = &interruptionXML{r.Source, adhoc}
	}
	if r.Allocated != "" {
		if parts, err := s.cloud.Reservations([]string{r.Allocated}, nil); err == nil && len(parts) == 1 {
			x.Allocation = &allocationXML{parts[0].Total, parts[0].Total, "active", r.Allocated, adhoc}
		}
	}
	return x
}

type createReservationInput struct {
	dry
	Type         string                   `q:"InstanceType,required"`
	Platform     string                   `q:"InstancePlatform,required"`
	Count        int                      `q:"InstanceCount,required"`
	Zone         string                   `q:"AvailabilityZone"`
	ZoneID       string                   `q:"AvailabilityZoneId"`
	EBSOptimized bool                     `q:"EbsOptimized"`
	Ephemeral    bool                     `q:"EphemeralStorage"`
	End          time.Time                `q:"EndDate"`
	EndType      string                   `q:"EndDateType"`
	Match        string                   `q:"InstanceMatchCriteria"`
	Tenancy      string                   `q:"Tenancy"`
	Token        string                   `q:"ClientToken"`
	Tags         []cloud.TagSpecification `q:"TagSpecifications"`
	Commitment   *int                     `q:"CommitmentDuration,refuse"`
	Delivery     string                   `q:"DeliveryPreference,refuse"`
	Outpost      string                   `q:"OutpostArn,refuse"`
	Placement    string                   `q:"PlacementGroupArn,refuse"`
	Start        string                   `q:"StartDate,refuse"`
}

func (in *createReservationInput) needs(s *ec2Service) []cloud.Demand {
	return s.toCreate("CreateCapacityReservation", "capacity-reservation", "*", in.Tags)
}

func (s *ec2Service) createCapacityReservation(c *call, in *createReservationInput) (any, *cloud.Error) {
	if err := checkTags(in.Tags, "capacity-reservation"); err != nil {
		return nil, err
	}
	if (in.EndType == "limited") == in.End.IsZero() {
		return nil, apiError("InvalidParameterCombination", "EndDate must be given if, and only if, EndDateType is limited.")
	}
	if in.Match != "" && in.Match != "open" && in.Match != "targeted" {
		return nil, apiError("InvalidParameterValue", "Value ("+in.Match+") for parameter instanceMatchCriteria is invalid.")
	}
	req := cloud.ReservationRequest{Token: in.Token, Params: fingerprint(c), CapacityReservation: cloud.CapacityReservation{
		Type: in.Type, Zone: in.Zone, ZoneID: in.ZoneID, Platform: in.Platform, Total: in.Count, EBSOptimized: in.EBSOptimized, EndAt: in.End,
		MatchCriteria: in.Match, Tenancy: in.Tenancy, Tags: cloud.TagsFor(in.Tags, "capacity-reservation"),
	}}
	if in.DryRun {
		return done(true, s.cloud.CheckReservation(req))
	}
	r, err := s.cloud.CreateReservation(req)
	if err != nil {
		return nil, err
	}
	return struct {
		Reservation capacityReservationXML `xml:"capacityReservation"`
	}{s.describeReservation(r)}, nil
}

type cancelReservationInput struct {
	dry
	ID     string `q:"CapacityReservationId,required"`
	Charge string `q:"ApplyCancellationCharges,refuse"`
	Quote  string `q:"QuoteId,refuse"`
}

func (in *cancelReservationInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("CancelCapacityReservation", []string{in.ID})
}

func (s *ec2Service) cancelCapacityReservation(_ *call, in *cancelReservationInput) (any, *cloud.Error) {
	return done(in.DryRun, s.cloud.CancelReservation(in.ID, in.DryRun))
}

type modifyReservationInput struct {
	dry
	ID      string     `q:"CapacityReservationId,required"`
	Count   *int       `q:"InstanceCount"`
	End     *time.Time `q:"EndDate"`
	EndType string     `q:"EndDateType"`
	Accept  *bool      `q:"Accept"`
	Match   string     `q:"InstanceMatchCriteria,refuse"`
	Start   string     `q:"StartDate,refuse"`
	Info    string     `q:"AdditionalInfo,refuse"`
	Terms   string     `q:"AcceptModificationTerms,refuse"`
	Quote   string     `q:"QuoteId,refuse"`
}

func (in *modifyReservationInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("ModifyCapacityReservation", []string{in.ID})
}

func (s *ec2Service) modifyCapacityReservation(_ *call, in *modifyReservationInput) (any, *cloud.Error) {
	if in.EndType == "unlimited" {
		in.End = new(time.Time)
	}
	return done(in.DryRun, s.cloud.ModifyReservation(in.ID, in.Count, in.End, in.DryRun))
}

type allocateInput struct {
	dry
	ID    string                   `q:"CapacityReservationId,required"`
	Count int                      `q:"InstanceCount,required"`
	Token string                   `q:"ClientToken"`
	Tags  []cloud.TagSpecification `q:"TagSpecification"`
	Zero  string                   `q:"ZeroSizePreference,refuse"`
}

func (in *allocateInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("CreateInterruptibleCapacityReservationAllocation", []string{in.ID})
}

type allocatedXML struct {
	Source string `xml:"sourceCapacityReservationId"`
	Target int    `xml:"targetInstanceCount"`
	Count  *int   `xml:"instanceCount,omitempty"`
	ID     string `xml:"interruptibleCapacityReservationId,omitempty"`
	Status string `xml:"status"`
	Kind   string `xml:"interruptionType"`
}

func (s *ec2Service) allocate(c *call, in *allocateInput) (any, *cloud.Error) {
	req := cloud.AllocationRequest{
		Source: in.ID, Count: in.Count, Tags: cloud.TagsFor(in.Tags, "capacity-reservation"), Token: in.Token, Params: fingerprint(c), DryRun: in.DryRun}
	if in.DryRun {
		req.Token = ""
	}
	err := s.cloud.Allocate(req)
	if err != nil || in.DryRun {
		return done(in.DryRun, err)
	}
	return allocatedXML{Source: in.ID, Target: in.Count, Status: "pending", Kind: adhoc}, nil
}

type reallocateInput struct {
	dry
	ID     string `q:"CapacityReservationId,required"`
	Target int    `q:"TargetInstanceCount,required"`
	Zero   string `q:"ZeroSizePreference,refuse"`
}

func (in *reallocateInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("UpdateInterruptibleCapacityReservationAllocation", []string{in.ID})
}

func (s *ec2Service) reallocate(_ *call, in *reallocateInput) (any, *cloud.Error) {
	err := s.cloud.Reallocate(in.ID, in.Target, in.DryRun)
	if err != nil || in.DryRun {
		return done(in.DryRun, err)
	}
	return allocatedXML{Source: in.ID, Target: in.Target, Count: &in.Target, Status: "updating", Kind: adhoc}, nil
}
