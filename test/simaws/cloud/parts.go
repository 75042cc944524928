package cloud

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// VolumeRecord is a volume with the instance it is attached to.
type VolumeRecord struct {
	AttachedVolume
	Instance, Zone, ZoneID string
}

func (v *VolumeRecord) property(name string) ([]string, bool) {
	switch name {
	case "volume-id":
		return []string{v.ID}, true
	case "attachment.instance-id":
		return []string{v.Instance}, true
	case "attachment.device":
		return []string{v.Device}, true
	case "attachment.status":
		return []string{"attached"}, true
	case "attachment.delete-on-termination":
		return []string{strconv.FormatBool(v.DeleteOnTermination)}, true
	case "availability-zone":
		return []string{v.Zone}, true
	case "availability-zone-id":
		return []string{v.ZoneID}, true
	case "encrypted":
		return []string{strconv.FormatBool(v.Encrypted)}, true
	case "size":
		return []string{strconv.FormatInt(v.SizeGiB, 10)}, true
	case "snapshot-id":
		return []string{v.Snapshot}, true
	case "status":
		return []string{"in-use"}, true
	case "volume-type":
		return []string{v.Type}, true
	}
	return nil, false
}

// Volumes is DescribeVolumes: the volumes of instances, by id.
func (c *Cloud) Volumes(ids []string, filters []Filter) ([]VolumeRecord, *Error) {
	all := func(i *Instance) (out []VolumeRecord) {
		for _, v := range i.Volumes {
			out = append(out, VolumeRecord{v, i.ID, i.Zone, i.ZoneID})
		}
		return out
	}
	return partsOf(c, ids, filters, all, func(v *VolumeRecord) (string, Tags, property) { return v.ID, v.Tags, v.property })
}

// InterfaceRecord is a network interface with its instance.
type InterfaceRecord struct {
	Interface
	Instance *Instance
}

func (n *InterfaceRecord) property(name string) ([]string, bool) {
	i := n.Instance
	if i == nil {
		i = &Instance{}
	}
	switch name {
	case "network-interface-id":
		return []string{n.ID}, true
	case "attachment.instance-id":
		return []string{i.ID}, true
	case "attachment.device-index":
		return []string{strconv.Itoa(n.Device)}, true
	case "attachment.status":
		return []string{"attached"}, true
	case "subnet-id":
		return []string{i.Subnet}, true
	case "vpc-id":
		return []string{i.VPC}, true
	case "availability-zone":
		return []string{i.Zone}, true
	case "group-id":
		return n.Groups, true
	case "interface-type":
		return []string{n.Type}, true
	case "private-ip-address", "addresses.private-ip-address":
		return []string{n.PrivateIP}, true
	case "status":
		return []string{"in-use"}, true
	case "mac-address":
		return []string{n.MAC}, true
	}
	return nil, false
}

// Interfaces is DescribeNetworkInterfaces: those of instances, by id.
func (c *Cloud) Interfaces(ids []string, filters []Filter) ([]InterfaceRecord, *Error) {
	all := func(i *Instance) (out []InterfaceRecord) {
		for _, n := range i.Interfaces {
			out = append(out, InterfaceRecord{n, i.clone()})
		}
		return out
	}
	return partsOf(c, ids, filters, all, func(n *InterfaceRecord) (string, Tags, property) { return n.ID, n.Tags, n.property })
}

// SpotRecord is the request of a spot instance.
type SpotRecord struct {
	ID       string
	Instance *Instance
}

// State of the request: active until its instance has ended.
func (s *SpotRecord) State() string {
	if s.Instance != nil && s.Instance.State == Terminated {
		return "closed"
	}
	return "active"
}

func (s *SpotRecord) property(name string) ([]string, bool) {
	i := s.Instance
	if i == nil {
		i = &Instance{}
	}
	switch name {
	case "spot-instance-request-id":
		return []string{s.ID}, true
	case "instance-id":
		return []string{i.ID}, true
	case "state":
		return []string{s.State()}, true
	case "launched-availability-zone":
		return []string{i.Zone}, true
	case "type":
		return []string{"one-time"}, true
	}
	return nil, false
}

// SpotRequests is DescribeSpotInstanceRequests, by id.
func (c *Cloud) SpotRequests(ids []string, filters []Filter) ([]SpotRecord, *Error) {
	all := func(i *Instance) []SpotRecord {
		if i.SpotRequest == "" {
			return nil
		}
		return []SpotRecord{{i.SpotRequest, i.clone()}}
	}
	return partsOf(c, ids, filters, all, func(s *SpotRecord) (string, Tags, property) {
		if s.Instance == nil {
			return s.ID, nil, s.property
		}
		return s.ID, s.Instance.SpotTags, s.property
	})
}

// partsOf lists what belongs to instances; volumes and interfaces of a
// terminated one are gone.
func partsOf[T any](c *Cloud, ids []string, filters []Filter, of func(*Instance) []T, about func(*T) (string, Tags, property)) ([]T, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	_, _, none := about(new(T))
	if err := check(filters, none); err != nil {
		return nil, err
	}
	var out []T
	found := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		i := c.visible(id, now)
		if i == nil {
			continue
		}
		for _, part := range of(i) {
			partID, tags, prop := about(&part)
			if i.State == Terminated && partID != i.SpotRequest || ids != nil && !slices.Contains(ids, partID) {
				continue
			}
			found[partID] = true
			if ok, err := pass(filters, tags, prop); err == nil && ok {
				out = append(out, part)
			}
		}
	}
	for _, id := range ids {
		if !found[id] {
			return nil, noResource(id)
		}
	}
	slices.SortFunc(out, func(a, b T) int {
		x, _, _ := about(&a)
		y, _, _ := about(&b)
		return strings.Compare(x, y)
	})
	return out, nil
}

func (f *Fleet) property(name string) ([]string, bool) {
	switch name {
	case "fleet-state":
		return []string{"active"}, true
	case "type":
		return []string{"instant"}, true
	case "activity-status":
		return []string{"fulfilled"}, true
	}
	return nil, false
}

// Fleets is DescribeFleets. Instant fleets are shown only when asked for by id.
func (c *Cloud) Fleets(ids []string, filters []Filter) ([]Fleet, *Error) {
	c.lock()
	defer c.mu.Unlock()
	if err := check(filters, new(Fleet).property); err != nil {
		return nil, err
	}
	var out []Fleet
	for _, id := range ids {
		f := c.fleets[id]
		if f == nil {
			return nil, fail("InvalidFleetId.NotFound", "The fleet ID '%s' does not exist", id)
		}
		if ok, err := pass(filters, f.Tags, f.property); err == nil && ok {
			out = append(out, *f)
		}
	}
	return out, nil
}

// VPC is the account's VPC.
func (c *Cloud) VPC() (id, cidr, ipv6 string, tags Tags) {
	c.lock()
	defer c.mu.Unlock()
	if c.IPv6() {
		ipv6 = "2600:1f00:aa::/56"
	}
	return c.subnets[0].VPC, "10.0.0.0/16", ipv6, cloneTags(c.vpcTags)
}
