package fit

import (
	"cmp"
	"slices"

	"github.com/bits-and-blooms/bitset"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// Reservation is a capacity reservation.
type Reservation struct {
	ID string
	// Free is how many instances can still be launched into it.
	Free int
}

// Unit is what a template can buy in one reservation.
type Unit struct {
	// Reservation is the index in Model.Reservations.
	Reservation int
	Offers      *catalog.Set
}

// Reservations returns what is free in every capacity reservation, by ID: the lowest count that any pool's catalogue reports (rules 15.1), less
// what claims that are not launched yet may take. It is empty where the feature gate is off.
func Reservations(s *cluster.Snapshot) []Reservation {
	if !s.Settings.ReservedCapacity {
		return nil
	}
	free := map[string]int{}
	for _, p := range s.Pools {
		if p.Catalog == nil {
			continue
		}
		for i := range p.Catalog.Len() {
			_, o := p.Catalog.Offer(i)
			if o.CapacityType != catalog.Reserved {
				continue
			}
			if n, ok := free[o.ReservationID]; !ok || o.ReservationCount < n {
				free[o.ReservationID] = o.ReservationCount
			}
		}
	}
	if len(free) == 0 {
		return nil
	}
	for _, t := range s.Targets() {
		if !t.Pending {
			continue
		}
		r, _ := t.Requirements.Get(constraint.ReservationIDKey)
		for _, id := range r.Values() {
			free[id]--
		}
	}
	out := make([]Reservation, 0, len(free))
	for id, n := range free {
		out = append(out, Reservation{id, max(n, 0)})
	}
	slices.SortFunc(out, func(a, b Reservation) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (m *Model) findReservations() { m.Reservations = Reservations(m.Snapshot) }

// reserveUnits sorts a template's reserved offerings by reservation; without the feature gate they are not for sale.
func (m *Model) reserveUnits(t *Template) {
	reserved := t.Catalog.Satisfying(constraint.NewIn(constraint.CapacityTypeKey, catalog.Reserved))
	if reserved == nil || t.Offers.IntersectionCardinality(reserved) == 0 {
		return
	}
	if !m.Snapshot.Settings.ReservedCapacity {
		t.Offers.InPlaceDifference(reserved)
		return
	}
	t.Reserved = t.Offers.Intersection(reserved)
	for i, r := range m.Reservations {
		u := Unit{i, bitset.New(uint(t.Catalog.Len()))}
		for j, ok := t.Reserved.NextSet(0); ok; j, ok = t.Reserved.NextSet(j + 1) {
			if _, o := t.Catalog.Offer(int(j)); o.ReservationID == r.ID {
				u.Offers.Set(j)
			}
		}
		if u.Offers.Any() {
			t.Units = append(t.Units, u)
		}
	}
}
