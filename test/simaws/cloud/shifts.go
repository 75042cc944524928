package cloud

import (
	"slices"
	"time"
)

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
