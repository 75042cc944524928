package cloud

import (
	"cmp"
	"slices"
	"time"
)

// AllocationRequest is CreateInterruptibleCapacityReservationAllocation.
type AllocationRequest struct {
	Source        string
	Count         int
	Tags          Tags
	Token, Params string
	DryRun        bool
}

// Allocate makes part of a reservation's free capacity a reservation of its
// own, from which instances are taken back on two minutes' warning.
func (c *Cloud) Allocate(req AllocationRequest) *Error {
	now := c.lock()
	defer c.mu.Unlock()
	_, err := once(c, "CreateInterruptibleCapacityReservationAllocation", req.Token, req.Params, func() (string, *Error) {
		return c.allocate(req, now)
	})
	return err
}

func (c *Cloud) allocate(req AllocationRequest, now time.Time) (string, *Error) {
	r, err := c.reservation(req.Source)
	switch {
	case err != nil:
		return "", err
	case r.State != "active" || r.Interruptible || r.Kind != "default":
		return "", fail("InvalidCapacityReservationState", "The capacity reservation '%s' cannot be allocated.", req.Source)
	case r.Allocated != "":
		return "", fail("InvalidParameterValue", "The capacity reservation '%s' has an interruptible allocation already.", req.Source)
	case req.Count < 1 || req.Count > r.Available:
		return "", fail("InvalidParameterValue", "The capacity reservation '%s' has %d available instances.", req.Source, r.Available)
	case req.DryRun:
		return "", nil
	}
	made := c.addReservation(CapacityReservation{
		Type: r.Type, Zone: r.Zone, MatchCriteria: "targeted", OwnerID: r.OwnerID, Tenancy: r.Tenancy, Platform: r.Platform,
		Total: req.Count, Interruptible: true, Source: req.Source, Tags: cloneTags(req.Tags),
	}, now)
	r.Allocated = made.ID
	r.Total, r.Available = r.Total-req.Count, r.Available-req.Count
	return made.ID, nil
}

// Reallocate is UpdateInterruptibleCapacityReservationAllocation: the
// interruptible part gets another size. Where it shrinks below what is in use,
// the youngest instances are warned and taken back.
func (c *Cloud) Reallocate(source string, target int, dryRun bool) *Error {
	now := c.lock()
	defer c.mu.Unlock()
	r, err := c.reservation(source)
	switch {
	case err != nil:
		return err
	case r.Allocated == "":
		return fail("InvalidParameterValue", "The capacity reservation '%s' has no interruptible allocation.", source)
	case target < 0:
		return fail("InvalidParameterValue", "TargetInstanceCount must not be negative.")
	}
	part := c.reservations[r.Allocated]
	if target > part.Total+r.Available {
		return fail("InvalidParameterValue", "The capacity reservation '%s' has %d available instances.", source, r.Available)
	}
	if !dryRun {
		c.resize(part, r, target, now)
	}
	return nil
}

// resize moves capacity between a reservation and its interruptible part. What
// is in use comes back when its instance has ended.
func (c *Cloud) resize(part, source *CapacityReservation, target int, now time.Time) {
	less := part.Total - target
	free := min(part.Available, less)
	c.takeBack(part, less-free, now)
	source.Total += free
	source.Available += free
	part.owed += max(0, less-free)
	part.Available -= free
	part.Total = target
	if target == 0 {
		part.State, source.Allocated = "cancelled", ""
	}
}

// giveBack makes the capacity an instance held available, to whom it is due.
func (c *Cloud) giveBack(r *CapacityReservation) {
	switch source := c.reservations[r.Source]; {
	case r.owed > 0 && source != nil:
		r.owed--
		source.Total++
		source.Available++
	case r.State == "active":
		used := 0
		for _, i := range c.instances {
			if i.CapacityReservation == r.ID && i.State != Terminated {
				used++
			}
		}
		r.Available = max(0, r.Total-used)
	}
}

// ReclaimReservation takes back n instances of interruptible capacity, the
// youngest first, as its owner would; the reservation shrinks by as many.
func (c *Cloud) ReclaimReservation(id string, n int) error {
	now := c.lock()
	defer c.mu.Unlock()
	r, err := c.reservation(id)
	if err != nil {
		return err
	}
	if !r.Interruptible {
		return fail("InvalidParameterValue", "The capacity reservation '%s' is not interruptible.", id)
	}
	c.takeBack(r, n, now)
	r.Total = max(0, r.Total-n)
	r.Available = min(r.Available, r.Total)
	return nil
}

func (c *Cloud) takeBack(r *CapacityReservation, n int, now time.Time) {
	var users []*Instance
	for _, i := range c.instances {
		if i.CapacityReservation == r.ID && i.Alive() && i.reclaimAt.IsZero() {
			users = append(users, i)
		}
	}
	slices.SortFunc(users, func(a, b *Instance) int { return cmp.Or(b.LaunchedAt.Compare(a.LaunchedAt), cmp.Compare(a.ID, b.ID)) })
	for _, i := range users[:max(0, min(n, len(users)))] {
		c.warn(i, "EC2 Capacity Reservation Instance Interruption Warning", now)
	}
}

// matchReservation finds the open reservation with room that an on-demand
// launch falls into, the oldest first.
func (c *Cloud) matchReservation(p *pool) *CapacityReservation {
	var best *CapacityReservation
	tenancy := "default"
	if pl := p.spec.Placement; pl != nil {
		orElse(&tenancy, pl.Tenancy)
		if pl.Tenancy != "" {
			tenancy = pl.Tenancy
		}
	}
	for _, r := range c.reservations {
		if r.State != "active" || r.MatchCriteria != "open" || r.Kind != "default" || r.Interruptible || r.Available < 1 {
			continue
		}
		if r.Type != p.typ.Name || r.Zone != p.override.Zone || r.Tenancy != tenancy || r.Platform != p.image.PlatformDetails() {
			continue
		}
		if best == nil || cmp.Or(r.CreatedAt.Compare(best.CreatedAt), cmp.Compare(r.ID, best.ID)) < 0 {
			best = r
		}
	}
	return best
}

// usedReservation is the reservation whose capacity a launch takes, nil for
// none.
func (c *Cloud) usedReservation(p *pool, market string) *CapacityReservation {
	preference := "open"
	if spec := p.spec.Reservation; spec != nil {
		if spec.Target != nil && spec.Target.ID != "" {
			return c.reservations[spec.Target.ID]
		}
		preference = cmp.Or(spec.Preference, "open")
	}
	if market != OnDemand || preference == "none" {
		return nil
	}
	return c.matchReservation(p)
}

// reclaimBlock is when EC2 takes an instance of a capacity block away.
func reclaimBlock(r *CapacityReservation) time.Time {
	if r.Kind != "capacity-block" || r.EndAt.IsZero() {
		return time.Time{}
	}
	return r.EndAt.Add(-blockReclaim)
}
