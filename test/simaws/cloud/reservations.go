package cloud

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// CapacityReservation is capacity kept for the account.
type CapacityReservation struct {
	ID, Type, Zone, ZoneID string
	Kind                   string // default, capacity-block
	MatchCriteria          string // open, targeted
	State                  string // scheduled, active, expired, cancelled
	OwnerID, Tenancy       string
	Platform               string // default Linux/UNIX
	Total, Available       int
	Interruptible          bool
	Source                 string // of interruptible capacity: the reservation it is part of
	Allocated              string // the interruptible reservation made of this one's capacity
	EBSOptimized           bool
	StartAt, EndAt         time.Time // EndAt zero: unlimited
	CreatedAt              time.Time
	Tags                   Tags

	owed int // instances whose end gives capacity back to the source
}

// blockReclaim is how long before its end EC2 begins to take the instances of
// a capacity block away.
const blockReclaim = 30 * time.Minute

// AddReservation adds a reservation and returns its id. Total must be set;
// Available follows it.
func (c *Cloud) AddReservation(r CapacityReservation) string {
	now := c.lock()
	defer c.mu.Unlock()
	orElse(&r.MatchCriteria, "targeted")
	return c.addReservation(r, now).ID
}

func (c *Cloud) addReservation(r CapacityReservation, now time.Time) *CapacityReservation {
	r.ID = c.id("cr")
	orElse(&r.Kind, "default")
	orElse(&r.MatchCriteria, "open")
	orElse(&r.State, "active")
	orElse(&r.OwnerID, c.opts.AccountID)
	orElse(&r.Tenancy, "default")
	orElse(&r.Platform, "Linux/UNIX")
	r.Available, r.CreatedAt = r.Total, now
	if r.StartAt.IsZero() {
		r.StartAt = now
	}
	if r.StartAt.After(now) {
		r.State = "scheduled"
	}
	for _, z := range c.zones {
		if z.Name == r.Zone {
			r.ZoneID = z.ID
		}
	}
	if r.Tags == nil {
		r.Tags = Tags{}
	}
	c.reservations[r.ID] = &r
	c.wake = time.Time{}
	return &r
}

// settleReservations starts and ends reservations that are due. Instances of
// an ended reservation go on as on-demand ones; those of a block are gone by
// then.
func (c *Cloud) settleReservations(now time.Time) {
	for _, id := range slices.Sorted(maps.Keys(c.reservations)) {
		r := c.reservations[id]
		if r.State == "scheduled" && !r.StartAt.After(now) {
			r.State = "active"
		}
		if r.State == "active" && !r.EndAt.IsZero() && !r.EndAt.After(now) {
			c.endReservation(r, "expired")
		}
		for _, at := range []time.Time{r.StartAt, r.EndAt} {
			if at.After(now) && at.Before(c.wake) {
				c.wake = at
			}
		}
	}
}

func (c *Cloud) endReservation(r *CapacityReservation, state string) {
	r.State, r.Available = state, 0
	for _, i := range c.instances {
		if i.CapacityReservation == r.ID && i.Alive() && i.Lifecycle == "" {
			i.CapacityReservation = ""
		}
	}
}

func (r *CapacityReservation) property(name string) ([]string, bool) {
	switch name {
	case "state":
		return []string{r.State}, true
	case "owner-id":
		return []string{r.OwnerID}, true
	case "instance-match-criteria":
		return []string{r.MatchCriteria}, true
	case "instance-type":
		return []string{r.Type}, true
	case "availability-zone":
		return []string{r.Zone}, true
	case "tenancy":
		return []string{r.Tenancy}, true
	case "availability-zone-id":
		return []string{r.ZoneID}, true
	case "instance-platform":
		return []string{r.Platform}, true
	case "reservation-type":
		return []string{r.Kind}, true
	case "interruptible":
		return []string{strconv.FormatBool(r.Interruptible)}, true
	case "end-date-type":
		if r.EndAt.IsZero() {
			return []string{"unlimited"}, true
		}
		return []string{"limited"}, true
	}
	return nil, false
}

// Reservations is DescribeCapacityReservations.
func (c *Cloud) Reservations(ids []string, filters []Filter) ([]CapacityReservation, *Error) {
	c.lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.reservations[id] == nil {
			return nil, fail("InvalidCapacityReservationId.NotFound", "The capacity reservation ID '%s' does not exist", id)
		}
	}
	if err := check(filters, new(CapacityReservation).property); err != nil {
		return nil, err
	}
	var out []CapacityReservation
	for _, id := range slices.Sorted(maps.Keys(c.reservations)) {
		r := c.reservations[id]
		ok, err := pass(filters, r.Tags, r.property)
		if err != nil {
			return nil, err
		}
		if ok && (ids == nil || slices.Contains(ids, id)) {
			copied := *r
			copied.Tags = cloneTags(r.Tags)
			out = append(out, copied)
		}
	}
	return out, nil
}

// ReservationRequest is CreateCapacityReservation.
type ReservationRequest struct {
	CapacityReservation
	Token, Params string
}

// CreateReservation is CreateCapacityReservation.
func (c *Cloud) CreateReservation(req ReservationRequest) (CapacityReservation, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	return once(c, "CreateCapacityReservation", req.Token, req.Params, func() (CapacityReservation, *Error) {
		r := req.CapacityReservation
		for _, z := range c.zones {
			if r.ZoneID == z.ID && r.Zone == "" {
				r.Zone = z.Name
			}
		}
		if err := c.checkReservation(r, now); err != nil {
			return CapacityReservation{}, err
		}
		return *c.addReservation(r, now), nil
	})
}

// CheckReservation makes the checks of CreateReservation, for dry runs.
func (c *Cloud) CheckReservation(req ReservationRequest) *Error {
	now := c.lock()
	defer c.mu.Unlock()
	return c.checkReservation(req.CapacityReservation, now)
}

func (c *Cloud) checkReservation(r CapacityReservation, now time.Time) *Error {
	switch _, known := c.data.Type(r.Type); {
	case !known:
		return fail("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", r.Type)
	case r.Zone == "":
		return fail("MissingParameter", "The request must contain the parameter AvailabilityZone or AvailabilityZoneId")
	case !c.offered(r.Type, r.Zone):
		return fail("Unsupported", "The requested Availability Zone '%s' does not support the instance type '%s'.", r.Zone, r.Type)
	case r.Total < 1:
		return fail("InvalidParameterValue", "InstanceCount must be at least 1.")
	case !r.EndAt.IsZero() && !r.EndAt.After(now):
		return fail("InvalidParameterValue", "The end date must be in the future.")
	}
	if room, rule := c.room(r.Type, r.Zone, "reserved"); rule != nil && room < r.Total {
		return fail(rule.Code, "Insufficient capacity for %d instances of type %s in %s.", r.Total, r.Type, r.Zone)
	}
	return nil
}

// CancelReservation is CancelCapacityReservation.
func (c *Cloud) CancelReservation(id string, dryRun bool) *Error {
	c.lock()
	defer c.mu.Unlock()
	r, err := c.reservation(id)
	switch {
	case err != nil:
		return err
	case r.Kind == "capacity-block":
		return fail("InvalidCapacityReservationState", "Capacity Blocks cannot be cancelled.")
	case r.State != "active" && r.State != "scheduled":
		return fail("InvalidCapacityReservationState", "The capacity reservation '%s' is %s.", id, r.State)
	case r.Allocated != "":
		return fail("InvalidCapacityReservationState", "The capacity reservation '%s' has an interruptible allocation.", id)
	case !dryRun:
		c.endReservation(r, "cancelled")
	}
	return nil
}

func (c *Cloud) reservation(id string) (*CapacityReservation, *Error) {
	if r := c.reservations[id]; r != nil {
		return r, nil
	}
	return nil, fail("InvalidCapacityReservationId.NotFound", "The capacity reservation ID '%s' does not exist", id)
}

// ModifyReservation is ModifyCapacityReservation: nil leaves a thing as it is.
func (c *Cloud) ModifyReservation(id string, count *int, end *time.Time, dryRun bool) *Error {
	c.lock()
	defer c.mu.Unlock()
	r, err := c.reservation(id)
	if err != nil {
		return err
	}
	used := r.Total - r.Available
	switch {
	case r.State != "active":
		return fail("InvalidCapacityReservationState", "The capacity reservation '%s' is %s.", id, r.State)
	case count != nil && *count < max(1, used):
		return fail("InvalidParameterValue", "InstanceCount must be at least the %d instances in use.", used)
	case dryRun:
		return nil
	}
	if count != nil {
		r.Total, r.Available = *count, *count-used
	}
	if end != nil {
		r.EndAt = *end
	}
	c.wake = time.Time{}
	return nil
}
