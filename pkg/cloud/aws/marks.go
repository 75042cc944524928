package aws

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/karp-sh/karp/pkg/catalog"
)

// markFor is how long an offering is not tried again after the cloud refused to sell it.
const markFor = 3 * time.Minute

// offeringKey names what was refused. Group and partition are empty unless the launch was into a placement group.
type offeringKey struct {
	capacityType, typ, zone, group, partition string
}

// marks remember what could not be bought. A mark ends by itself at its time, whether or not anybody sweeps.
type marks struct {
	clock clock.PassiveClock

	mu            sync.Mutex
	generation    uint64
	offerings     map[offeringKey]catalog.Unavailability
	capacityTypes map[string]catalog.Unavailability
	subnets       map[string]catalog.Unavailability
}

func newMarks(c clock.PassiveClock) *marks {
	return &marks{
		clock: c, offerings: map[offeringKey]catalog.Unavailability{},
		capacityTypes: map[string]catalog.Unavailability{}, subnets: map[string]catalog.Unavailability{},
	}
}

func (m *marks) offering(k offeringKey, reason string) { setMark(m, m.offerings, k, reason) }

func (m *marks) capacityType(ct, reason string) { setMark(m, m.capacityTypes, ct, reason) }

func (m *marks) subnet(id, reason string) { setMark(m, m.subnets, id, reason) }

// setMark sets or extends a mark.
func setMark[K comparable](m *marks, in map[K]catalog.Unavailability, k K, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in[k] = catalog.Unavailability{Reason: reason, Until: m.clock.Now().Add(markFor)}
	m.generation++
}

// sequence changes with every mark and every end of one.
func (m *marks) sequence() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	ended := dropEnded(m.offerings, now) + dropEnded(m.capacityTypes, now) + dropEnded(m.subnets, now)
	m.generation += uint64(ended)
	return m.generation
}

func dropEnded[K comparable](in map[K]catalog.Unavailability, now time.Time) int {
	n := 0
	for k, u := range in {
		if !now.Before(u.Until) {
			delete(in, k)
			n++
		}
	}
	return n
}

// find returns why the offering cannot be bought, or nil. An offering of a placement group is also subject to the marks without group, one of
// a partition also to those of the whole group. Subnets are those of the class in the zone: the zone is out when all of them are.
func (m *marks) find(k offeringKey, subnets []string) *catalog.Unavailability {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	var found []catalog.Unavailability
	if u, ok := m.capacityTypes[k.capacityType]; ok {
		found = append(found, u)
	}
	whole, plain := k, k
	whole.partition = ""
	plain.group, plain.partition = "", ""
	for _, key := range []offeringKey{k, whole, plain} {
		if u, ok := m.offerings[key]; ok {
			found = append(found, u)
		}
	}
	if u := m.allSubnets(subnets, now); u != nil {
		found = append(found, *u)
	}
	var latest *catalog.Unavailability
	for _, u := range found {
		if now.Before(u.Until) && (latest == nil || u.Until.After(latest.Until)) {
			latest = new(u)
		}
	}
	return latest
}

// allSubnets returns the mark that ends first when every subnet is marked.
func (m *marks) allSubnets(ids []string, now time.Time) *catalog.Unavailability {
	var first *catalog.Unavailability
	for _, id := range ids {
		u, ok := m.subnets[id]
		if !ok || !now.Before(u.Until) {
			return nil
		}
		if first == nil || u.Until.Before(first.Until) {
			first = new(u)
		}
	}
	return first
}
