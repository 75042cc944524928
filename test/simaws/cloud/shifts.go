package cloud

import (
	"slices"
	"strconv"
	"time"
)

// ZonalShift is a shift of the cluster away from a zone.
type ZonalShift struct {
	ID        string
	AwayFrom  string // zone id
	Status    string // APPLIED, NOT_APPLIED
	Comment   string
	StartAt   time.Time
	ExpiresAt time.Time
}

// ShiftApplied is the status of a shift in force.
const ShiftApplied = "APPLIED"

// SetZonalShifts replaces the shifts of the cluster.
func (c *Cloud) SetZonalShifts(shifts []ZonalShift) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shifts = slices.Clone(shifts)
	for i := range c.shifts {
		orElse(&c.shifts[i].ID, "shift-"+strconv.Itoa(i))
	}
}

// ZonalShifts lists the shifts of the cluster.
func (c *Cloud) ZonalShifts() []ZonalShift {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.shifts)
}

// StartZonalShift is StartZonalShift: one at a time.
func (c *Cloud) StartZonalShift(awayFrom, comment string, life time.Duration) (ZonalShift, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	if !slices.ContainsFunc(c.zones, func(z Zone) bool { return z.ID == awayFrom }) {
		return ZonalShift{}, fail("ValidationException", "awayFrom %q is not the id of a zone of the region", awayFrom)
	}
	for _, z := range c.shifts {
		if z.Status == ShiftApplied && z.ExpiresAt.After(now) {
			return ZonalShift{}, fail("ConflictException", "There is already a zonal shift in progress for the resource.")
		}
	}
	c.counters["shift"]++
	z := ZonalShift{ID: uuid("shift " + strconv.Itoa(c.counters["shift"])), AwayFrom: awayFrom, Status: ShiftApplied, Comment: comment, StartAt: now, ExpiresAt: now.Add(life)}
	c.shifts = []ZonalShift{z}
	return z, nil
}

// CancelZonalShift is CancelZonalShift.
func (c *Cloud) CancelZonalShift(id string) (ZonalShift, *Error) {
	c.lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.shifts, func(z ZonalShift) bool { return z.ID == id })
	if at < 0 {
		return ZonalShift{}, fail("ResourceNotFoundException", "Zonal shift %s was not found.", id)
	}
	z := c.shifts[at]
	c.shifts = slices.Delete(c.shifts, at, at+1)
	return z, nil
}
