package cloud

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// A tagged resource: its kind and where its tags are.
type tagged struct {
	kind string
	tags Tags
}

// resource finds what an id names, false if there is nothing.
func (c *Cloud) resource(id string, now time.Time) (tagged, bool) {
	prefix, _, _ := strings.Cut(id, "-")
	switch prefix {
	case "i":
		if i := c.visible(id, now); i != nil {
			return tagged{"instance", i.Tags}, true
		}
	case "lt":
		if t := c.templates[id]; t != nil {
			return tagged{"launch-template", t.Tags}, true
		}
	case "subnet":
		if s := c.subnet(id); s != nil {
			return tagged{"subnet", s.Tags}, true
		}
	case "sg":
		if g := c.group(id); g != nil {
			return tagged{"security-group", g.Tags}, true
		}
	case "ami":
		if i := c.image(id); i != nil {
			return tagged{"image", i.Tags}, true
		}
	case "cr":
		if r := c.reservations[id]; r != nil {
			return tagged{"capacity-reservation", r.Tags}, true
		}
	case "pg":
		if g := c.placements[id]; g != nil {
			return tagged{"placement-group", g.Tags}, true
		}
	case "fleet":
		if f := c.fleets[id]; f != nil {
			return tagged{"fleet", f.Tags}, true
		}
	case "vpc":
		if id == c.subnets[0].VPC {
			return tagged{"vpc", c.vpcTags}, true
		}
	}
	return c.part(id)
}

// part finds a volume, interface or spot request of an instance.
func (c *Cloud) part(id string) (tagged, bool) {
	for _, i := range c.instances {
		if id == i.SpotRequest && id != "" {
			return tagged{"spot-instances-request", i.SpotTags}, true
		}
		for _, v := range i.Volumes {
			if v.ID == id {
				return tagged{"volume", v.Tags}, true
			}
		}
		for _, n := range i.Interfaces {
			if n.ID == id {
				return tagged{"network-interface", n.Tags}, true
			}
		}
	}
	return tagged{}, false
}

// noResource is the refusal of an id that names nothing.
func noResource(id string) *Error {
	prefix, _, _ := strings.Cut(id, "-")
	code := map[string]string{
		"i": "InvalidInstanceID.NotFound", "lt": "InvalidLaunchTemplateId.NotFound", "subnet": "InvalidSubnetID.NotFound", "sg": "InvalidGroup.NotFound",
		"ami": "InvalidAMIID.NotFound", "cr": "InvalidCapacityReservationId.NotFound", "pg": "InvalidPlacementGroupId.NotFound",
		"fleet": "InvalidFleetId.NotFound", "vpc": "InvalidVpcID.NotFound", "vol": "InvalidVolume.NotFound", "eni": "InvalidNetworkInterfaceID.NotFound",
		"sir": "InvalidSpotInstanceRequestID.NotFound",
	}[prefix]
	if code == "" {
		return fail("InvalidID", "The ID '%s' is not valid", id)
	}
	if prefix == "i" {
		return fail(code, "The instance ID '%s' does not exist", id)
	}
	return fail(code, "The ID '%s' does not exist", id)
}

// KindOf tells the kind of resource and its tags, for permissions.
func (c *Cloud) KindOf(id string) (kind string, tags Tags, ok bool) {
	now := c.lock()
	defer c.mu.Unlock()
	r, ok := c.resource(id, now)
	return r.kind, cloneTags(r.tags), ok
}

// maxTags is how many tags a resource may have.
const maxTags = 50

// Tag is CreateTags: all or nothing.
func (c *Cloud) Tag(ids []string, tags Tags, dryRun bool) *Error {
	now := c.lock()
	defer c.mu.Unlock()
	var found []tagged
	for _, id := range ids {
		r, ok := c.resource(id, now)
		if !ok {
			return noResource(id)
		}
		count := 0
		for k := range merged(r.tags, tags) {
			if !strings.HasPrefix(k, "aws:") {
				count++
			}
		}
		if count > maxTags {
			return fail("TagLimitExceeded", "You have reached the limit of %d tags for this resource.", maxTags)
		}
		found = append(found, r)
	}
	if dryRun {
		return nil
	}
	for _, r := range found {
		maps.Copy(r.tags, tags)
	}
	return nil
}

func merged(a, b Tags) Tags {
	out := cloneTags(a)
	maps.Copy(out, b)
	return out
}

// Untag is DeleteTags: keys, with a value only if it is that value; without
// any key all tags but AWS's own.
func (c *Cloud) Untag(ids []string, tags []UntagSpec, dryRun bool) *Error {
	now := c.lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if _, ok := c.resource(id, now); !ok {
			return noResource(id)
		}
	}
	if dryRun {
		return nil
	}
	for _, id := range ids {
		r, _ := c.resource(id, now)
		maps.DeleteFunc(r.tags, func(k, v string) bool {
			if len(tags) == 0 {
				return !strings.HasPrefix(k, "aws:")
			}
			return slices.ContainsFunc(tags, func(t UntagSpec) bool { return t.Key == k && (t.Value == nil || *t.Value == v) })
		})
	}
	return nil
}

// UntagSpec is a tag to remove.
type UntagSpec struct {
	Key   string  `q:"Key"`
	Value *string `q:"Value"`
}

// TagRecord is one answer of DescribeTags.
type TagRecord struct{ ID, Kind, Key, Value string }

func (t *TagRecord) property(name string) ([]string, bool) {
	switch name {
	case "resource-id":
		return []string{t.ID}, true
	case "resource-type":
		return []string{t.Kind}, true
	case "key":
		return []string{t.Key}, true
	case "value":
		return []string{t.Value}, true
	}
	return nil, false
}

// TagRecords is DescribeTags, by resource and key.
func (c *Cloud) TagRecords(filters []Filter) ([]TagRecord, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	if err := check(filters, new(TagRecord).property); err != nil {
		return nil, err
	}
	var out []TagRecord
	for _, id := range c.resourceIDs() {
		r, ok := c.resource(id, now)
		if !ok {
			continue
		}
		for _, kv := range r.tags.Sorted() {
			t := TagRecord{id, r.kind, kv[0], kv[1]}
			if ok, err := pass(filters, nil, t.property); err == nil && ok {
				out = append(out, t)
			}
		}
	}
	return out, nil
}

func (c *Cloud) resourceIDs() []string {
	ids := slices.Concat(slices.Collect(maps.Keys(c.instances)), slices.Collect(maps.Keys(c.templates)), slices.Collect(maps.Keys(c.reservations)),
		slices.Collect(maps.Keys(c.placements)), slices.Collect(maps.Keys(c.fleets)))
	for _, s := range c.subnets {
		ids = append(ids, s.ID)
	}
	for _, g := range c.groups {
		ids = append(ids, g.ID)
	}
	for _, i := range c.images {
		ids = append(ids, i.ID)
	}
	for _, i := range c.instances {
		for _, v := range i.Volumes {
			ids = append(ids, v.ID)
		}
		for _, n := range i.Interfaces {
			ids = append(ids, n.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
