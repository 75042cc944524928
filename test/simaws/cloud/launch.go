package cloud

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// addresses is how many addresses of the subnet one instance takes.
func (p *pool) addresses() int {
	n := 0
	for _, i := range p.spec.Interfaces {
		if i.Type != "efa-only" {
			n += 1 + deref(i.IPv4Prefixes)*prefixSize + deref(i.SecondaryAddresses)
		}
	}
	return max(n, 1)
}

// launch makes one instance; admit has made sure that everything is there.
func (c *Cloud) launch(p *pool, market string, now time.Time) *Instance {
	i := &Instance{
		ID: c.id("i"), Type: p.typ.Name, ImageID: p.image.ID, Architecture: p.image.Architecture, Platform: p.image.Platform,
		Zone: p.subnet.Zone, ZoneID: p.subnet.ZoneID, Subnet: p.subnet.ID, VPC: p.subnet.VPC, RootDevice: p.image.RootDevice,
		Tenancy: "default", Groups: p.groups, Template: p.template.ID, LaunchedAt: now, State: Pending, KeyName: p.spec.KeyName,
		UserData: decodeUserData(p.spec.UserData), Boot: Boot{State: BootWaiting}, Tags: Tags{},
		Monitoring: p.spec.Monitoring != nil && deref(p.spec.Monitoring.Enabled), EBSOptimized: deref(p.spec.EbsOptimized),
		Enclave: p.spec.Enclave != nil && deref(p.spec.Enclave.Enabled), Shutdown: cmp.Or(p.spec.Shutdown, "stop"),
		Cores: p.typ.Cores, ThreadsPerCore: p.typ.ThreadsPerCore,
		visibleAt: now.Add(c.opts.DescribeDelay), runningAt: now.Add(c.opts.PendingDelay),
	}
	if o := p.spec.CPU; o != nil {
		i.Cores, i.ThreadsPerCore = cmp.Or(deref(o.Cores), i.Cores), cmp.Or(deref(o.ThreadsPerCore), i.ThreadsPerCore)
		i.NestedVirtualization, i.AMDSEVSNP = o.NestedVirtualization, o.AMDSEVSNP
	}
	i.Metadata = completeMetadata(p.spec.Metadata)
	if p.profile != nil {
		i.ProfileName, i.ProfileARN, i.ProfileID = p.profile.Name, p.profile.ARN, p.profile.ID
	}
	c.placeInto(i, p)
	c.market(i, p, market)
	c.plug(i, p)
	c.attach(i, p, now)
	if i.CapacityReservation == "" {
		c.useRoom(i.Type, i.Zone, market, 1)
	}
	c.instances[i.ID] = i
	c.wake = time.Time{}
	c.instanceEvent("EC2 Instance State-change Notification", now, i.ID, map[string]string{"state": Pending})
	return i
}

// completeMetadata fills in EC2's defaults.
func completeMetadata(o *MetadataOptions) MetadataOptions {
	var m MetadataOptions
	if o != nil {
		m = *o
	}
	orElse(&m.Tokens, "optional")
	orElse(&m.Endpoint, "enabled")
	orElse(&m.ProtocolIPv6, "disabled")
	orElse(&m.InstanceTags, "disabled")
	if m.HopLimit == nil {
		one := 1
		m.HopLimit = &one
	}
	return m
}

func (c *Cloud) placeInto(i *Instance, p *pool) {
	pl := p.spec.Placement
	if pl == nil {
		return
	}
	if pl.Tenancy != "" {
		i.Tenancy = pl.Tenancy
	}
	if g := c.placementOf(p); g != nil {
		i.PlacementGroup, i.PlacementGroupName, i.Partition = g.ID, g.Name, deref(pl.Partition)
		if g.Strategy == "partition" && i.Partition == 0 && g.Partitions > 0 {
			i.Partition = c.emptiestPartition(g)
		}
	}
}

// emptiestPartition is where EC2 puts an instance that names no partition.
func (c *Cloud) emptiestPartition(g *PlacementGroup) int {
	count := make([]int, g.Partitions+1)
	for _, i := range c.instances {
		if i.PlacementGroup == g.ID && i.State != Terminated && i.Partition <= g.Partitions {
			count[i.Partition]++
		}
	}
	best := 1
	for n := 2; n <= g.Partitions; n++ {
		if count[n] < count[best] {
			best = n
		}
	}
	return best
}

func (c *Cloud) market(i *Instance, p *pool, market string) {
	switch market {
	case Spot:
		i.Lifecycle, i.SpotRequest = "spot", "sir-"+digest(i.ID)[:8]
	case CapacityBlock:
		i.Lifecycle = "capacity-block"
	case Reserved:
		i.Lifecycle = "interruptible-capacity-reservation"
	}
	i.ReservationPreference = "open"
	if spec := p.spec.Reservation; spec != nil {
		i.ReservationPreference = cmp.Or(spec.Preference, "open")
		if spec.Target != nil {
			i.ReservationTarget = spec.Target.ID
		}
	}
	if r := c.usedReservation(p, market); r != nil {
		i.CapacityReservation, i.reclaimAt = r.ID, reclaimBlock(r)
		r.Available--
	}
}

// plug makes the network interfaces.
func (c *Cloud) plug(i *Instance, p *pool) {
	specs := p.spec.Interfaces
	if len(specs) == 0 {
		zero := 0
		specs = []InterfaceSpec{{DeviceIndex: &zero, Groups: p.groups}}
	}
	for _, s := range specs {
		n := Interface{
			ID: c.id("eni"), Type: cmp.Or(s.Type, "interface"), Card: deref(s.Card), Device: deref(s.DeviceIndex), Groups: s.Groups,
			Description: s.Description, ConnectionTracking: s.ConnectionTracking,
			DeleteOnTermination: s.DeleteWithInstance == nil || *s.DeleteWithInstance,
		}
		if len(n.Groups) == 0 {
			n.Groups = p.groups
		}
		if s.Type != "efa-only" {
			c.address(i, p, &n, s)
		}
		h := digest(n.ID)
		n.MAC = fmt.Sprintf("02:%s:%s:%s:%s:%s", h[:2], h[2:4], h[4:6], h[6:8], h[8:10])
		i.Interfaces = append(i.Interfaces, n)
	}
}

// address gives an interface its addresses.
func (c *Cloud) address(i *Instance, p *pool, n *Interface, s InterfaceSpec) {
	for k := range 1 + deref(s.SecondaryAddresses) {
		a, ok := p.subnet.lease()
		if !ok {
			break
		}
		i.addresses = append(i.addresses, a)
		if k == 0 {
			n.PrivateIP = a.String()
		} else {
			n.Secondary = append(n.Secondary, a.String())
		}
	}
	n.Prefixes = deref(s.IPv4Prefixes)
	i.prefixes += n.Prefixes
	p.subnet.taken += n.Prefixes * prefixSize
	for k := range n.Prefixes {
		n.IPv4Prefixes = append(n.IPv4Prefixes, p.subnet.slice(c.counters["eni"]*16+k))
	}
	for k := range deref(s.IPv6Addresses) {
		n.IPv6 = append(n.IPv6, p.subnet.ipv6(n.ID, k))
	}
	for k := range deref(s.IPv6Prefixes) {
		n.IPv6Prefixes = append(n.IPv6Prefixes, p.subnet.ipv6Slice(n.ID, k))
	}
	n.PrimaryIPv6 = deref(s.PrimaryIPv6)
	public := p.subnet.PublicIP
	if s.AssociatePublicIP != nil {
		public = *s.AssociatePublicIP
	}
	if public {
		c.counters["public"]++
		k := c.counters["public"]
		n.PublicIP = netip.AddrFrom4([4]byte{203, 0, 113, byte(k%254 + 1)}).String()
	}
	if i.PrivateIP == "" && n.PrivateIP != "" {
		i.PrivateIP, i.PublicIP = n.PrivateIP, n.PublicIP
		i.PrivateDNS = c.dnsName(n.PrivateIP)
	}
	if i.IPv6 == "" && len(n.IPv6) > 0 {
		i.IPv6 = n.IPv6[0]
	}
}

func (c *Cloud) dnsName(ip string) string {
	host := "ip-" + strings.ReplaceAll(netip.MustParseAddr(ip).String(), ".", "-")
	if c.opts.Region == "us-east-1" {
		return host + ".ec2.internal"
	}
	return host + "." + c.opts.Region + ".compute.internal"
}

// attach makes the volumes: the template's, and the image's where the template
// does not name the device.
func (c *Cloud) attach(i *Instance, p *pool, now time.Time) {
	given := map[string]bool{}
	for _, d := range p.spec.BlockDevices {
		given[d.Device] = true
		if d.EBS == nil {
			continue
		}
		v := c.volume(d.Device, d.EBS, now)
		for _, own := range p.image.Devices() {
			if own.Device == d.Device {
				orElse(&v.SizeGiB, own.SizeGiB)
				orElse(&v.Snapshot, p.image.Snapshot())
			}
		}
		i.Volumes = append(i.Volumes, v)
	}
	for _, own := range p.image.Devices() {
		if !given[own.Device] {
			v := c.volume(own.Device, &Volume{SizeGiB: &own.SizeGiB, Snapshot: p.image.Snapshot()}, now)
			i.Volumes = append(i.Volumes, v)
		}
	}
}

func (c *Cloud) volume(device string, spec *Volume, now time.Time) AttachedVolume {
	v := AttachedVolume{
		ID: c.id("vol"), Device: device, SizeGiB: deref(spec.SizeGiB), Type: cmp.Or(spec.Type, "gp3"), IOPS: deref(spec.IOPS),
		Throughput: deref(spec.Throughput), Encrypted: deref(spec.Encrypted), KMSKey: spec.KMSKey, Snapshot: spec.Snapshot,
		InitializationRate: deref(spec.InitializationRate), AttachedAt: now, Tags: Tags{},
		DeleteOnTermination: spec.DeleteOnTermination == nil || *spec.DeleteOnTermination,
	}
	if v.Type == "gp3" {
		orElse(&v.IOPS, 3000)
		orElse(&v.Throughput, 125)
	}
	if v.Encrypted {
		orElse(&v.KMSKey, c.arn("kms", "key/"+uuid("aws/ebs")))
	}
	return v
}
