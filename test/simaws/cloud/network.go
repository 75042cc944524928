package cloud

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Subnet is one subnet of the VPC.
type Subnet struct {
	ID, VPC, Zone, ZoneID, CIDR string
	IPv6CIDR                    string // empty: IPv4 only
	PublicIP, IPv6OnCreation    bool   // what an interface gets unless told otherwise
	ResourceNames               bool   // hosts are named after instances
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

// layNetwork makes the VPC 10.0.0.0/16 with a private /19 in every zone and,
// in a cluster of IPv6, an IPv6 /64 beside it.
func (c *Cloud) layNetwork() error {
	c.vpcTags = Tags{"Name": c.opts.ClusterName}
	vpc := c.id("vpc")
	suffixes := c.opts.Zones
	if len(suffixes) == 0 {
		for _, z := range c.area.Zones {
			suffixes = append(suffixes, z.Suffix)
		}
	}
	zones, err := c.layZones(suffixes)
	if err != nil {
		return err
	}
	if len(zones) > 8 {
		return fmt.Errorf("%d zones, at most 8 fit into the VPC", len(zones))
	}
	discovery := Tags{
		"karpenter.sh/discovery": c.opts.ClusterName, "kubernetes.io/cluster/" + c.opts.ClusterName: "shared", "kubernetes.io/role/internal-elb": "1",
	}
	for i, z := range zones {
		s := &Subnet{ID: c.id("subnet"), VPC: vpc, Zone: z.Name, ZoneID: z.ID, Tags: Tags{"Name": c.opts.ClusterName + "-private-" + z.Name}}
		for k, v := range discovery {
			s.Tags[k] = v
		}
		s.setCIDR(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i * 32), 0}), 19))
		if c.IPv6() {
			s.IPv6CIDR, s.IPv6OnCreation = fmt.Sprintf("2600:1f00:aa:%x00::/64", i+1), true
		}
		c.subnets = append(c.subnets, s)
	}
	c.groups = []*SecurityGroup{{ID: c.id("sg"), Name: "default", VPC: vpc, Description: "default VPC security group", Tags: Tags{}}}
	for _, name := range []string{"node", "cluster"} {
		g := &SecurityGroup{ID: c.id("sg"), Name: c.opts.ClusterName + "-" + name, VPC: vpc, Description: "security group of the " + name, Tags: Tags{
			"Name": c.opts.ClusterName + "-" + name, "karpenter.sh/discovery": c.opts.ClusterName}}
		c.groups = append(c.groups, g)
	}
	return nil
}

// IPv6 tells whether Services of the cluster have IPv6 addresses.
func (c *Cloud) IPv6() bool { return strings.Contains(c.opts.ServiceCIDR, ":") }

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
	at := slices.IndexFunc(c.zones, func(z Zone) bool { return z.Name == zoneName })
	if at < 0 {
		return "", fmt.Errorf("adding a subnet: no zone %q", zoneName)
	}
	s := &Subnet{ID: c.id("subnet"), VPC: c.subnets[0].VPC, Zone: zoneName, ZoneID: c.zones[at].ID, Tags: cloneTags(tags)}
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
	case "map-public-ip-on-launch", "mapPublicIpOnLaunch":
		return []string{strconv.FormatBool(s.PublicIP)}, true
	case "default-for-az", "defaultForAz":
		return []string{"false"}, true
	case "owner-id":
		return nil, true
	case "ipv6-cidr-block-association.ipv6-cidr-block":
		return []string{s.IPv6CIDR}, true
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
	copied := *s
	copied.Tags, copied.size, copied.used, copied.taken = cloneTags(s.Tags), s.Free(), nil, 0
	return &copied
}

func cloneTags(t Tags) Tags {
	out := make(Tags, len(t))
	for k, v := range t {
		out[k] = v
	}
	return out
}

// slice is the k-th /28 of the subnet, counted from its end, for prefix
// delegation.
func (s *Subnet) slice(k int) string {
	base := s.prefix.Addr().As4()
	total := 1 << (32 - s.prefix.Bits())
	at := uint32(base[0])<<24 | uint32(base[1])<<16 | uint32(base[2])<<8 | uint32(base[3])
	at += uint32(total - prefixSize*(1+k%max(1, total/prefixSize/2)))
	return fmt.Sprintf("%d.%d.%d.%d/28", byte(at>>24), byte(at>>16), byte(at>>8), byte(at))
}

// ipv6 is the k-th IPv6 address of an interface.
func (s *Subnet) ipv6(eni string, k int) string { return s.ipv6Part(eni, k) }

// ipv6Slice is the k-th /80 of an interface.
func (s *Subnet) ipv6Slice(eni string, k int) string {
	p, err := netip.ParsePrefix(s.ipv6Part(eni, 1<<8+k) + "/80")
	if err != nil {
		return ""
	}
	return p.Masked().String()
}

func (s *Subnet) ipv6Part(eni string, k int) string {
	p, err := netip.ParsePrefix(s.IPv6CIDR)
	if err != nil {
		return "" // refused before
	}
	a := p.Addr().As16()
	h, err := hex.DecodeString(digest(eni, strconv.Itoa(k))[:16])
	if err != nil {
		return ""
	}
	copy(a[8:], h)
	return netip.AddrFrom16(a).String()
}

// SubnetChange is ModifySubnetAttribute: one thing is not nil.
type SubnetChange struct {
	PublicIP, IPv6OnCreation, ResourceNames *bool
}

// ModifySubnet is ModifySubnetAttribute.
func (c *Cloud) ModifySubnet(id string, change SubnetChange) *Error {
	c.lock()
	defer c.mu.Unlock()
	s := c.subnet(id)
	if s == nil {
		return fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
	}
	if change.IPv6OnCreation != nil && *change.IPv6OnCreation && s.IPv6CIDR == "" {
		return fail("InvalidParameterValue", "The subnet '%s' has no IPv6 CIDR block.", id)
	}
	for _, one := range []struct{ to, from *bool }{{&s.PublicIP, change.PublicIP}, {&s.IPv6OnCreation, change.IPv6OnCreation}, {&s.ResourceNames, change.ResourceNames}} {
		if one.from != nil {
			*one.to = *one.from
		}
	}
	return nil
}
