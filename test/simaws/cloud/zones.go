package cloud

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Zone is a zone of the region, a local zone included.
type Zone struct {
	Name, ID string
	Local    bool
	Group    string // e.g. us-west-2-zg-1, us-west-2-lax-1
	Parent   string // of a local zone: the zone it belongs to
}

var localZone = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-\d-[a-z]{3}-\d[a-z]$`)

// layZones makes the region's zones and the local ones asked for, and returns
// those that get a subnet: the ones of these suffixes and all local ones.
func (c *Cloud) layZones(suffixes []string) ([]Zone, error) {
	var out []Zone
	for _, z := range c.area.Zones {
		c.zones = append(c.zones, Zone{Name: z.Name, ID: z.ID, Group: c.opts.Region + "-zg-1"})
	}
	for _, suffix := range suffixes {
		at := slices.IndexFunc(c.zones, func(z Zone) bool { return z.Name == c.opts.Region+suffix })
		if at < 0 {
			return nil, fmt.Errorf("region %s has no zone %q", c.opts.Region, suffix)
		}
		out = append(out, c.zones[at])
	}
	for _, name := range c.opts.LocalZones {
		if !localZone.MatchString(name) || !strings.HasPrefix(name, c.opts.Region+"-") {
			return nil, fmt.Errorf("local zone %q is not of the form %s-lax-1a", name, c.opts.Region)
		}
		group := name[:len(name)-1]
		short := c.zones[0].ID[:strings.LastIndex(c.zones[0].ID, "-")]
		z := Zone{
			Name: name, Local: true, Group: group, Parent: c.zones[0].Name,
			ID: short + strings.TrimPrefix(group, c.opts.Region) + "-az" + string(name[len(name)-1]-'a'+'1'),
		}
		c.zones = append(c.zones, z)
		out = append(out, z)
	}
	return out, nil
}

// Zones lists the region's zones, local ones included.
func (c *Cloud) Zones() []Zone { return slices.Clone(c.zones) }

// localFamilies are what local zones offer.
func localFamilies() []string {
	return []string{"t3", "c5", "m5", "r5", "c5d", "r5d", "m5d", "g4dn", "i3en"}
}

// zonesOf are the zones that offer a type.
func (c *Cloud) zonesOf(typ string) []Zone {
	var out []Zone
	for _, z := range c.area.ZonesOf(typ) {
		at := slices.IndexFunc(c.zones, func(have Zone) bool { return have.Name == z.Name })
		out = append(out, c.zones[at])
	}
	family, _, _ := strings.Cut(typ, ".")
	if len(out) == 0 || !slices.Contains(localFamilies(), family) {
		return out
	}
	for _, z := range c.zones {
		if z.Local {
			out = append(out, z)
		}
	}
	return out
}

// offered tells whether a type is sold in a zone.
func (c *Cloud) offered(typ, zoneName string) bool {
	return slices.ContainsFunc(c.zonesOf(typ), func(z Zone) bool { return z.Name == zoneName })
}

// local tells whether a zone is a local one.
func (c *Cloud) local(zoneName string) bool {
	return slices.ContainsFunc(c.zones, func(z Zone) bool { return z.Name == zoneName && z.Local })
}
