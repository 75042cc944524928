package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
)

// typeCache holds the derived types of each class. An entry is good for exactly the inputs it was made from.
type typeCache struct {
	mu      sync.Mutex
	entries map[string]typeEntry
}

type typeEntry struct {
	generation uint64
	// shape is the generation of what prices and availability have no part in.
	shape uint64
	key   string
	types []catalog.InstanceType
}

// Generation changes whenever the answer of InstanceTypes may have changed for some class.
func (p *Provider) Generation() uint64 {
	_, _, facts := p.facts.snapshot()
	return facts + p.prices.sequence() + p.marks.sequence() + p.memory.sequence() + p.placement.sequence() + p.reservations.sequence() + p.shifts.sequence()
}

// shape changes with what types are like, as opposed to what they cost.
func (p *Provider) shape() uint64 {
	_, _, facts := p.facts.snapshot()
	return facts + p.memory.sequence()
}

// InstanceTypes returns the types of the class with offerings, prices and present availability, ascending by name. The slice is shared.
func (p *Provider) InstanceTypes(_ context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	if len(class.Status.Subnets) == 0 {
		return nil, fmt.Errorf("listing instance types of %s: no subnets found", class.Name)
	}
	// Read before the inputs: a change in between makes the entry stale rather than wrong.
	generation, shape := p.Generation(), p.shape()
	input := p.typesOf(class)
	key, err := json.Marshal([]any{input, class.Status.Subnets, imagesKey(class.Status.AMIs)})
	if err != nil {
		return nil, fmt.Errorf("listing instance types of %s: %w", class.Name, err)
	}
	have := p.types.get(class.Name, string(key))
	if have.types != nil && have.generation == generation {
		return have.types, nil
	}
	if have.shape != shape {
		have.types = nil
	}
	types, err := p.derive(class, input, have.types)
	if err != nil {
		return nil, fmt.Errorf("listing instance types of %s: %w", class.Name, err)
	}
	p.types.put(class.Name, typeEntry{generation, shape, string(key), types})
	return types, nil
}

// MarkUnavailable notes that the cloud takes back or refuses an on-demand or spot offering, for instance after a spot interruption. Nothing is
// launched into it for three minutes.
func (p *Provider) MarkUnavailable(capacityType, instanceType, zone, reason string) {
	p.marks.offering(offeringKey{capacityType: capacityType, typ: instanceType, zone: zone}, reason)
}

// MarkReservationFull notes that a capacity reservation has no free instance.
func (p *Provider) MarkReservationFull(id string) { p.reservations.full(id) }

// typesOf adds to the class what only the cloud knows.
func (p *Provider) typesOf(class *awsv1.EC2NodeClass) ec2types.Class {
	c := cloud.TypesOf(class)
	c.PlacementGroup = p.placement.known(class.Spec.PlacementGroupSelector)
	if !p.opts.ReservedCapacity {
		c.Reservations = nil
	}
	p.reservations.count(c.Reservations)
	return c
}

// derive returns the types of the class. Of types derived before under the same shape only the offerings are made anew.
func (p *Provider) derive(class *awsv1.EC2NodeClass, c ec2types.Class, before []catalog.InstanceType) ([]catalog.InstanceType, error) {
	if err := ec2types.Check(&c); err != nil {
		return nil, err
	}
	types, zones, _ := p.facts.snapshot()
	if len(types) == 0 {
		return nil, errors.New("no instance types found")
	}
	if len(zones) == 0 {
		return nil, errors.New("no instance type offerings found")
	}
	market := p.market(class, c.PlacementGroup)
	images := imagesKey(class.Status.AMIs)
	inputs := make([]ec2types.Input, 0, len(types))
	for i := range types {
		inputs = append(inputs, ec2types.Input{
			Type: &types[i], Settings: p.settings(), Class: &c, Offered: zones[types[i].Name], Market: market,
			ObservedMemory: p.memory.get(types[i].Name, images),
		})
	}
	same := func(t catalog.InstanceType, in ec2types.Input) bool { return t.Name == in.Type.Name }
	if !slices.EqualFunc(before, inputs, same) {
		return ec2types.All(inputs)
	}
	out := slices.Clone(before)
	for i := range out {
		out[i].Offerings = ec2types.Offerings(inputs[i])
	}
	return out, nil
}

// market quotes prices and availability for the class.
func (p *Provider) market(class *awsv1.EC2NodeClass, group *ec2types.PlacementGroup) ec2types.Market {
	subnets, zoneIDs := map[string][]string{}, map[string]string{}
	for _, s := range class.Status.Subnets {
		subnets[s.Zone] = append(subnets[s.Zone], s.ID)
		zoneIDs[s.Zone] = cmp.Or(s.ZoneID, zoneIDs[s.Zone])
	}
	groupID := ""
	if group != nil {
		groupID = group.ID
	}
	return func(a ec2types.Ask) ec2types.Quote {
		q := p.prices.quote(a)
		if q.Unavailable = p.shifts.unavailable(zoneIDs[a.Zone]); q.Unavailable != nil || a.CapacityType == catalog.Reserved {
			return q
		}
		q.Unavailable = p.marks.find(offeringKey{a.CapacityType, a.Type, a.Zone, groupID, a.Partition}, subnets[a.Zone])
		return q
	}
}

// get returns the entry made from the same inputs, or the zero value.
func (c *typeCache) get(class, key string) typeEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[class]; e.key == key {
		return e
	}
	return typeEntry{}
}

func (c *typeCache) put(class string, e typeEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = map[string]typeEntry{}
	}
	c.entries[class] = e
}

func (c *typeCache) drop(class string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, class)
}

// imagesKey names the set of images of a class.
func imagesKey(amis []awsv1.AMI) string {
	ids := make([]string, 0, len(amis))
	for _, a := range amis {
		ids = append(ids, a.ID)
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), ",")
}

// memoryCache holds the memory that live nodes reported, by type and set of images.
type memoryCache struct {
	mu         sync.Mutex
	generation uint64
	bytes      map[[2]string]int64
}

// ObserveMemory records the memory capacity in bytes that a registered node of the class reported. It counts only if the image is the one that
// the class would choose for the type now. Of several reports the lowest counts; one above the hardware's memory is ignored (deviation AX26).
func (p *Provider) ObserveMemory(ctx context.Context, class *awsv1.EC2NodeClass, instanceType, image string, bytes int64) {
	t, ok := p.facts.typeOf(instanceType)
	if !ok || bytes <= 0 || bytes > t.MemoryMiB<<20 {
		return
	}
	// Most reports are no news: every node of a type tells about the same.
	if known := p.memory.get(instanceType, imagesKey(class.Status.AMIs)); known != 0 && known <= bytes {
		return
	}
	types, err := p.InstanceTypes(ctx, class)
	if err != nil {
		return
	}
	i, ok := slices.BinarySearchFunc(types, instanceType, func(t catalog.InstanceType, name string) int { return cmp.Compare(t.Name, name) })
	if !ok {
		return
	}
	if chosen, ok := imageFor(class.Status.AMIs, &types[i]); ok && chosen.ID == image {
		p.memory.observe([2]string{instanceType, imagesKey(class.Status.AMIs)}, bytes)
	}
}

func (m *memoryCache) observe(key [2]string, bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have, ok := m.bytes[key]; ok && have <= bytes {
		return
	}
	if m.bytes == nil {
		m.bytes = map[[2]string]int64{}
	}
	m.bytes[key] = bytes
	m.generation++
}

func (m *memoryCache) get(typ, images string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bytes[[2]string{typ, images}]
}

func (m *memoryCache) sequence() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.generation
}
