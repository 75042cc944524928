package cloud

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Subnet is one subnet of the VPC.
type Subnet struct {
	ID, VPC, Zone, ZoneID, CIDR string
	Tags                        Tags

	prefix netip.Prefix
	size   int // addresses an instance may get
	used   map[netip.Addr]bool
	taken  int        // addresses gone beside the used ones (prefixes, the test's hand)
	next   netip.Addr // where to look for a free address first
}

// Free is the number of free addresses.
func (s *Subnet) Free() int { return max(0, s.size-len(s.used)-s.taken) }

// SecurityGroup is a security group of the VPC.
type SecurityGroup struct {
	ID, Name, VPC, Description string
	Tags                       Tags
}

// reservedAddresses of every subnet belong to AWS: the first four and the last.
const reservedAddresses = 5

// layNetwork makes the VPC 10.0.0.0/16 with a /19 in every zone.
func (c *Cloud) layNetwork() error {
	vpc := c.id("vpc")
	zones := c.opts.Zones
	if len(zones) == 0 {
		for _, z := range c.area.Zones {
			zones = append(zones, z.Suffix)
		}
	}
	if len(zones) > 8 {
		return fmt.Errorf("%d zones, at most 8 fit into the VPC", len(zones))
	}
	discovery := Tags{"karpenter.sh/discovery": c.opts.ClusterName, "kubernetes.io/cluster/" + c.opts.ClusterName: "shared"}
	for i, suffix := range zones {
		at := slices.IndexFunc(c.area.Zones, func(z zone) bool { return z.Suffix == suffix })
		if at < 0 {
			return fmt.Errorf("region %s has no zone %q", c.opts.Region, suffix)
		}
		z := c.area.Zones[at]
		s := &Subnet{ID: c.id("subnet"), VPC: vpc, Zone: z.Name, ZoneID: z.ID, Tags: Tags{"Name": c.opts.ClusterName + "-" + z.Name}}
		for k, v := range discovery {
			s.Tags[k] = v
		}
		s.setCIDR(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i * 32), 0}), 19))
		c.subnets = append(c.subnets, s)
	}
	c.groups = []*SecurityGroup{
		{ID: c.id("sg"), Name: "default", VPC: vpc, Description: "default VPC security group", Tags: Tags{}},
		{ID: c.id("sg"), Name: c.opts.ClusterName + "-node", VPC: vpc, Description: "nodes", Tags: Tags{
			"karpenter.sh/discovery": c.opts.ClusterName, "Name": c.opts.ClusterName + "-node"}},
	}
	return nil
}

func (s *Subnet) setCIDR(p netip.Prefix) {
	s.CIDR, s.prefix = p.String(), p
	s.size = 1<<(32-p.Bits()) - reservedAddresses
	s.used = map[netip.Addr]bool{}
	s.next = s.first()
}

func (s *Subnet) first() netip.Addr {
	a := s.prefix.Addr()
	for range 4 {
		a = a.Next()
	}
	return a
}

// lease takes a free address.
func (s *Subnet) lease() (netip.Addr, bool) {
	if s.Free() == 0 {
		return netip.Addr{}, false
	}
	for a := s.next; ; a = a.Next() {
		if !s.prefix.Contains(a.Next()) {
			a = s.first()
		}
		if !s.used[a] {
			s.used[a] = true
			s.next = a.Next()
			return a, true
		}
	}
}

// AddSubnet adds a subnet to the VPC. The CIDR must be IPv4 and, to be free of
// the subnets made at start, outside of 10.0.0.0/16.
func (c *Cloud) AddSubnet(zoneName, cidr string, tags Tags) (string, error) {
	c.lock()
	defer c.mu.Unlock()
	p, err := netip.ParsePrefix(cidr)
	if err != nil || !p.Addr().Is4() || p.Bits() < 16 || p.Bits() > 28 {
		return "", fmt.Errorf("adding a subnet: %q is not an IPv4 block between /16 and /28", cidr)
	}
	at := slices.IndexFunc(c.area.Zones, func(z zone) bool { return z.Name == zoneName })
	if at < 0 {
		return "", fmt.Errorf("adding a subnet: no zone %q", zoneName)
	}
	s := &Subnet{ID: c.id("subnet"), VPC: c.subnets[0].VPC, Zone: zoneName, ZoneID: c.area.Zones[at].ID, Tags: tags}
	s.setCIDR(p.Masked())
	c.subnets = append(c.subnets, s)
	return s.ID, nil
}

// SetFreeAddresses leaves a subnet with n free addresses.
func (c *Cloud) SetFreeAddresses(subnet string, n int) error {
	c.lock()
	defer c.mu.Unlock()
	s := c.subnet(subnet)
	if s == nil {
		return fmt.Errorf("no subnet %q", subnet)
	}
	if n < 0 || n > s.size-len(s.used) {
		return fmt.Errorf("subnet %s can have 0 to %d free addresses, not %d", subnet, s.size-len(s.used), n)
	}
	s.taken = s.size - len(s.used) - n
	return nil
}

func (c *Cloud) subnet(id string) *Subnet {
	for _, s := range c.subnets {
		if s.ID == id {
			return s
		}
	}
	return nil
}

func (s *Subnet) property(name string) ([]string, bool) {
	switch name {
	case "subnet-id":
		return []string{s.ID}, true
	case "vpc-id":
		return []string{s.VPC}, true
	case "availability-zone", "availabilityZone":
		return []string{s.Zone}, true
	case "availability-zone-id", "availabilityZoneId":
		return []string{s.ZoneID}, true
	case "cidr-block", "cidr", "cidrBlock":
		return []string{s.CIDR}, true
	case "state":
		return []string{"available"}, true
	case "available-ip-address-count":
		return []string{strconv.Itoa(s.Free())}, true
	}
	return nil, false
}

// Subnets is DescribeSubnets.
func (c *Cloud) Subnets(ids []string, filters []Filter) ([]Subnet, *Error) {
	c.lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if !strings.HasPrefix(id, "subnet-") {
			return nil, fail("InvalidSubnetId.Malformed", "Invalid id: %q", id)
		}
		if c.subnet(id) == nil {
			return nil, fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
		}
	}
	if err := check(filters, new(Subnet).property); err != nil {
		return nil, err
	}
	var out []Subnet
	for _, s := range c.subnets {
		if ok, err := pass(filters, s.Tags, s.property); err != nil {
			return nil, err
		} else if ok && (ids == nil || slices.Contains(ids, s.ID)) {
			out = append(out, *s.clone())
		}
	}
	return out, nil
}

// clone copies what readers see; the free count is frozen.
func (s *Subnet) clone() *Subnet {
	return &Subnet{ID: s.ID, VPC: s.VPC, Zone: s.Zone, ZoneID: s.ZoneID, CIDR: s.CIDR, Tags: cloneTags(s.Tags), size: s.Free()}
}

func cloneTags(t Tags) Tags {
	out := make(Tags, len(t))
	for k, v := range t {
		out[k] = v
	}
	return out
}

func (c *Cloud) group(id string) *SecurityGroup {
	for _, g := range c.groups {
		if g.ID == id {
			return g
		}
	}
	return nil
}

// AddSecurityGroup adds a security group to the VPC, or to another one when
// vpc is not empty, and returns its id.
func (c *Cloud) AddSecurityGroup(name, vpc string, tags Tags) string {
	c.lock()
	defer c.mu.Unlock()
	if vpc == "" {
		vpc = c.subnets[0].VPC
	}
	g := &SecurityGroup{ID: c.id("sg"), Name: name, VPC: vpc, Description: name, Tags: tags}
	c.groups = append(c.groups, g)
	return g.ID
}

func (g *SecurityGroup) property(name string) ([]string, bool) {
	switch name {
	case "group-id":
		return []string{g.ID}, true
	case "group-name":
		return []string{g.Name}, true
	case "vpc-id":
		return []string{g.VPC}, true
	case "description":
		return []string{g.Description}, true
	}
	return nil, false
}

// SecurityGroups is DescribeSecurityGroups.
func (c *Cloud) SecurityGroups(ids, names []string, filters []Filter) ([]SecurityGroup, *Error) {
	c.lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.group(id) == nil {
			return nil, fail("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(c.groups, func(g *SecurityGroup) bool { return g.Name == name }) {
			return nil, fail("InvalidGroup.NotFound", "The security group '%s' does not exist in default VPC", name)
		}
	}
	if err := check(filters, new(SecurityGroup).property); err != nil {
		return nil, err
	}
	var out []SecurityGroup
	for _, g := range c.groups {
		ok, err := pass(filters, g.Tags, g.property)
		if err != nil {
			return nil, err
		}
		if ok && (ids == nil || slices.Contains(ids, g.ID)) && (names == nil || slices.Contains(names, g.Name)) {
			copied := *g
			copied.Tags = cloneTags(g.Tags)
			out = append(out, copied)
		}
	}
	return out, nil
}
