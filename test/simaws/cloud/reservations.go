package cloud

import (
	"maps"
	"slices"
	"time"
)

// CapacityReservation is capacity kept for the account.
type CapacityReservation struct {
	ID, Type, Zone, ZoneID string
	Kind                   string // default, capacity-block
	MatchCriteria          string // open, targeted
	State                  string // active, expired, ...
	OwnerID, Tenancy       string
	Total, Available       int
	Interruptible          bool
	StartAt, EndAt         time.Time // EndAt zero: unlimited
	Tags                   Tags
}

// AddReservation adds a reservation and returns its id. Total must be set;
// Available follows it.
func (c *Cloud) AddReservation(r CapacityReservation) string {
	now := c.lock()
	defer c.mu.Unlock()
	r.ID = c.id("cr")
	orElse(&r.Kind, "default")
	orElse(&r.MatchCriteria, "targeted")
	orElse(&r.State, "active")
	orElse(&r.OwnerID, c.opts.AccountID)
	orElse(&r.Tenancy, "default")
	r.Available, r.StartAt = r.Total, now
	for _, z := range c.area.Zones {
		if z.Name == r.Zone {
			r.ZoneID = z.ID
		}
	}
	if r.Tags == nil {
		r.Tags = Tags{}
	}
	c.reservations[r.ID] = &r
	return r.ID
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
	}
	return nil, false
}

// Reservations is DescribeCapacityReservations.
func (c *Cloud) Reservations(ids []string, filters []Filter) ([]CapacityReservation, *Error) {
	now := c.lock()
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
		if !r.EndAt.IsZero() && !r.EndAt.After(now) {
			r.State = "expired"
		}
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

// PlacementGroup is a placement group.
type PlacementGroup struct {
	ID, Name   string
	Strategy   string // cluster, spread, partition
	Partitions int
	State      string
	Tags       Tags
}

// AddPlacementGroup adds a placement group and returns its id.
func (c *Cloud) AddPlacementGroup(g PlacementGroup) string {
	c.lock()
	defer c.mu.Unlock()
	g.ID = c.id("pg")
	orElse(&g.State, "available")
	if g.Tags == nil {
		g.Tags = Tags{}
	}
	c.placements[g.ID] = &g
	return g.ID
}

func (g *PlacementGroup) property(name string) ([]string, bool) {
	switch name {
	case "state":
		return []string{g.State}, true
	case "strategy":
		return []string{g.Strategy}, true
	case "group-name":
		return []string{g.Name}, true
	}
	return nil, false
}

// PlacementGroups is DescribePlacementGroups.
func (c *Cloud) PlacementGroups(ids, names []string, filters []Filter) ([]PlacementGroup, *Error) {
	c.lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.placements[id] == nil {
			return nil, fail("InvalidPlacementGroup.Unknown", "The placement group '%s' is unknown.", id)
		}
	}
	for _, name := range names {
		if c.placementNamed(name) == nil {
			return nil, fail("InvalidPlacementGroup.Unknown", "The placement group '%s' is unknown.", name)
		}
	}
	if err := check(filters, new(PlacementGroup).property); err != nil {
		return nil, err
	}
	var out []PlacementGroup
	for _, id := range slices.Sorted(maps.Keys(c.placements)) {
		g := c.placements[id]
		ok, err := pass(filters, g.Tags, g.property)
		if err != nil {
			return nil, err
		}
		if ok && (ids == nil || slices.Contains(ids, id)) && (names == nil || slices.Contains(names, g.Name)) {
			copied := *g
			copied.Tags = cloneTags(g.Tags)
			out = append(out, copied)
		}
	}
	return out, nil
}

func (c *Cloud) placementNamed(name string) *PlacementGroup {
	for _, g := range c.placements {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// ZonalShift is a shift of the cluster away from a zone.
type ZonalShift struct {
	AwayFrom  string // zone id
	Status    string // APPLIED, NOT_APPLIED
	ExpiresAt time.Time
}

// SetZonalShifts replaces the shifts of the cluster.
func (c *Cloud) SetZonalShifts(shifts []ZonalShift) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shifts = slices.Clone(shifts)
}

// ZonalShifts lists the shifts of the cluster.
func (c *Cloud) ZonalShifts() []ZonalShift {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.shifts)
}
