package cloud

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
)

// Override is one pool of a fleet: what it changes of the template.
type Override struct {
	Type      string         `q:"InstanceType" xml:"instanceType,omitempty"`
	Subnet    string         `q:"SubnetId" xml:"subnetId,omitempty"`
	Zone      string         `q:"AvailabilityZone" xml:"availabilityZone,omitempty"`
	ImageID   string         `q:"ImageId" xml:"imageId,omitempty"`
	Priority  *float64       `q:"Priority" xml:"priority,omitempty"`
	MaxPrice  string         `q:"MaxPrice" xml:"maxPrice,omitempty"`
	Placement *PlacementSpec `q:"Placement" xml:"placement,omitempty"`

	ZoneID       string   `q:"AvailabilityZoneId,refuse" xml:"-"`
	Devices      []string `q:"BlockDeviceMapping,refuse" xml:"-"`
	Profile      string   `q:"IamInstanceProfile,refuse" xml:"-"`
	Requirements string   `q:"InstanceRequirements,refuse" xml:"-"`
	Key          string   `q:"KeyName,refuse" xml:"-"`
	Metadata     string   `q:"MetadataOptions,refuse" xml:"-"`
	Weight       *float64 `q:"WeightedCapacity,refuse" xml:"-"`
}

// FleetConfig is a template with its overrides.
type FleetConfig struct {
	Template  TemplateRef `q:"LaunchTemplateSpecification"`
	Overrides []Override  `q:"Overrides"`
}

// Markets of a fleet's capacity.
const (
	OnDemand      = "on-demand"
	Spot          = "spot"
	CapacityBlock = "capacity-block"
	Reserved      = "reserved-capacity"
)

// FleetRequest is an instant fleet.
type FleetRequest struct {
	Configs []FleetConfig
	// Want is how many instances of each market, tried in this order.
	Want []MarketTarget
	// Tags by resource type: instance, volume, fleet.
	Tags map[string]Tags
	// Token makes the call repeatable with the same Params.
	Token, Params string
	// Caller must be allowed to launch; the zero value is the test's hand.
	Caller Caller
}

// MarketTarget is how many instances of one market to launch.
type MarketTarget struct {
	Market   string
	Count    int
	Strategy string
}

// FleetGroup is what one pool gave.
type FleetGroup struct {
	TemplateID string
	Override   Override
	Market     string
	Type       string
	Instances  []string
}

// FleetFailure is why one pool gave less than asked.
type FleetFailure struct {
	TemplateID string
	Override   Override
	Market     string
	Err        Error
}

// FleetResult is the answer to CreateFleet.
type FleetResult struct {
	ID       string
	Groups   []FleetGroup
	Failures []FleetFailure
}

// Fleet is a fleet that was made.
type Fleet struct {
	ID        string
	CreatedAt time.Time
	Tags      Tags
	Request   FleetRequest
	Result    *FleetResult
}

// pool is an override put together with its template.
type pool struct {
	template *Template
	override Override // zone and image filled in
	order    int
	typ      *ec2data.Type
	subnet   *Subnet
	image    *Image
	profile  *Profile
	spec     LaunchData
	groups   []string
}

// CreateFleet launches an instant fleet. Pools that fail are reported in the
// result; the error is for the whole call.
func (c *Cloud) CreateFleet(req FleetRequest) (*FleetResult, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	return once(c, "CreateFleet", req.Token, req.Params, func() (*FleetResult, *Error) {
		pools, failures, err := c.pools(req, now)
		if err != nil {
			return nil, err
		}
		if err := c.permitFleet(req, pools); err != nil {
			return nil, err
		}
		f := &Fleet{ID: "fleet-" + uuid(c.id("fleet")), CreatedAt: now, Tags: cloneTags(req.Tags["fleet"]), Request: req}
		c.fleets[f.ID] = f
		res := &FleetResult{ID: f.ID, Failures: failures}
		f.Result = res
		for _, want := range req.Want {
			c.fulfil(res, pools, want, req, now)
		}
		c.settle(now)
		return res, nil
	})
}

// CheckFleet makes the checks of CreateFleet that concern the whole call, for
// dry runs.
func (c *Cloud) CheckFleet(req FleetRequest) *Error {
	now := c.lock()
	defer c.mu.Unlock()
	pools, _, err := c.pools(req, now)
	if err != nil {
		return err
	}
	return c.permitFleet(req, pools)
}

// permitFleet checks the permission ec2:CreateFleet, a denial of which refuses
// the whole call.
func (c *Cloud) permitFleet(req FleetRequest, pools []*pool) *Error {
	if req.Caller.ARN == "" {
		return nil
	}
	demands := []Demand{{Action: "ec2:CreateFleet", Resource: c.arn("ec2", "fleet/*"), Keys: RequestTags(req.Tags["fleet"])}}
	if len(req.Tags["fleet"]) > 0 {
		demands = append(demands, c.CreationTags("fleet", "CreateFleet", req.Tags["fleet"]))
	}
	for _, p := range pools {
		demands = append(demands, c.launchDemands(p, req.Want[0].Market, "CreateFleet", req.Tags)...)
	}
	return c.authorize(req.Caller, demands)
}

func uuid(seed string) string {
	h := digest(seed)
	return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:32])
}

// pools puts the pools together; those that can never launch are failures.
func (c *Cloud) pools(req FleetRequest, now time.Time) ([]*pool, []FleetFailure, *Error) {
	var (
		pools    []*pool
		failures []FleetFailure
	)
	for _, cfg := range req.Configs {
		t, err := c.resolve(cfg.Template)
		if err != nil {
			return nil, nil, err
		}
		overrides := cfg.Overrides
		if len(overrides) == 0 {
			overrides = []Override{{}}
		}
		for _, o := range overrides {
			p := &pool{template: t, override: o, order: len(pools) + len(failures), spec: t.Data}
			if err := c.prepare(p, now); err != nil {
				failures = append(failures, p.failure(req.Want[0].Market, err))
				continue
			}
			pools = append(pools, p)
		}
	}
	return pools, failures, nil
}

func (p *pool) failure(market string, err *Error) FleetFailure {
	return FleetFailure{TemplateID: p.template.ID, Override: p.override, Market: market, Err: *err}
}

// prepare checks a pool as EC2 checks the parameters of a launch.
func (c *Cloud) prepare(p *pool, now time.Time) *Error {
	o := &p.override
	orElse(&o.Type, p.spec.InstanceType)
	orElse(&o.ImageID, p.spec.ImageID)
	for _, step := range []func(*pool, time.Time) *Error{
		c.prepareType, c.prepareSubnet, c.prepareImage, c.prepareGroups, c.prepareInterfaces, c.prepareCPU, c.prepareVolumes, c.prepareProfile,
		c.preparePlacement,
	} {
		if err := step(p, now); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cloud) prepareType(p *pool, _ time.Time) *Error {
	if p.override.Type == "" {
		return fail("MissingParameter", "The request must contain the parameter InstanceType")
	}
	t, ok := c.data.Type(p.override.Type)
	if !ok || t.Partial {
		return fail("InvalidParameterValue", "Invalid value '%s' for InstanceType.", p.override.Type)
	}
	p.typ = t
	return nil
}

func (c *Cloud) prepareSubnet(p *pool, _ time.Time) *Error {
	o := &p.override
	for _, n := range p.spec.Interfaces {
		orElse(&o.Subnet, n.Subnet)
	}
	if o.Subnet == "" {
		return fail("MissingInput", "No subnets found for the default VPC '%s'. Please specify a subnet.", c.subnets[0].VPC)
	}
	if p.subnet = c.subnet(o.Subnet); p.subnet == nil {
		return fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", o.Subnet)
	}
	if o.Zone != "" && o.Zone != p.subnet.Zone {
		return fail("InvalidParameterCombination", "Availability zone %s does not match the zone %s of subnet %s", o.Zone, p.subnet.Zone, o.Subnet)
	}
	o.Zone = p.subnet.Zone
	if !c.offered(o.Type, o.Zone) {
		return fail("InvalidFleetConfiguration", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s).", o.Type, o.Zone)
	}
	return nil
}

func (c *Cloud) prepareImage(p *pool, _ time.Time) *Error {
	if p.override.ImageID == "" {
		return fail("MissingParameter", "The request must contain the parameter ImageId")
	}
	if err := c.checkImageID(p.override.ImageID); err != nil {
		return err
	}
	p.image = c.image(p.override.ImageID)
	if !slices.Contains(p.typ.Architectures, p.image.Architecture) {
		return fail("InvalidParameterValue", "The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. Specify an instance type and an AMI that have matching architectures, and try again.",
			strings.Join(p.typ.Architectures, ","), p.image.Architecture)
	}
	return nil
}

// prepareGroups checks the interfaces and collects their security groups;
// those of the primary interface are the instance's.
func (c *Cloud) prepareGroups(p *pool, _ time.Time) *Error {
	if err := p.spec.checkInterfaces(); err != nil {
		return err
	}
	all := slices.Clone(p.spec.SecurityGroupIDs)
	p.groups = slices.Clone(p.spec.SecurityGroupIDs)
	for _, n := range p.spec.Interfaces {
		all = append(all, n.Groups...)
		if deref(n.DeviceIndex) == 0 && deref(n.Card) == 0 {
			p.groups = n.Groups
		}
	}
	for _, id := range all {
		g := c.group(id)
		if g == nil {
			return fail("InvalidGroup.NotFound", "The security group '%s' does not exist in VPC '%s'", id, p.subnet.VPC)
		}
		if g.VPC != p.subnet.VPC {
			return fail("InvalidParameter", "Security group %s and subnet %s belong to different networks.", id, p.subnet.ID)
		}
	}
	if len(p.groups) == 0 {
		p.groups = []string{c.groups[0].ID}
	}
	return nil
}

func (c *Cloud) prepareProfile(p *pool, now time.Time) *Error {
	var err *Error
	p.profile, err = c.profileForLaunch(p.spec.Profile, now)
	return err
}

func (c *Cloud) preparePlacement(p *pool, _ time.Time) *Error {
	if p.override.Placement != nil {
		p.spec.Placement = p.override.Placement
	}
	pl := p.spec.Placement
	if pl == nil || pl.GroupID == "" && pl.GroupName == "" {
		return nil
	}
	g := c.placements[pl.GroupID]
	if pl.GroupID == "" {
		g = c.placementNamed(pl.GroupName)
	}
	if g == nil {
		return fail("InvalidPlacementGroup.Unknown", "The placement group '%s' is unknown.", cmp.Or(pl.GroupID, pl.GroupName))
	}
	if !slices.Contains(p.typ.PlacementStrategies, g.Strategy) {
		return fail("InvalidParameterCombination", "The instance type %s does not support placement groups with strategy %s.", p.typ.Name, g.Strategy)
	}
	if deref(pl.Partition) > g.Partitions {
		return fail("InvalidParameterValue", "Partition number %d is out of range: the placement group has %d.", *pl.Partition, g.Partitions)
	}
	return nil
}

// fulfil launches the instances of one market, pool by pool in the order of
// the strategy. A pool that gives all that is left ends it.
func (c *Cloud) fulfil(res *FleetResult, pools []*pool, want MarketTarget, req FleetRequest, now time.Time) {
	left := want.Count
	for _, p := range c.ranked(pools, want) {
		if left == 0 {
			return
		}
		n, err := 0, c.permitLaunch(req.Caller, p, want.Market, "CreateFleet", req.Tags)
		if err == nil {
			n, err = c.admit(p, want.Market, left)
		}
		if n > 0 {
			g := FleetGroup{TemplateID: p.template.ID, Override: p.override, Market: want.Market, Type: p.typ.Name}
			reservation := c.id("r")
			for range n {
				i := c.launch(p, want.Market, now)
				i.Reservation, i.Fleet, i.Token = reservation, res.ID, req.Token
				c.tagLaunch(i, p, req.Tags, res.ID)
				g.Instances = append(g.Instances, i.ID)
			}
			res.Groups = append(res.Groups, g)
			left -= n
		}
		if err != nil {
			res.Failures = append(res.Failures, p.failure(want.Market, err))
		}
	}
}

// ranked orders pools as the allocation strategy does. The depth of a pool
// that EC2 takes into account is known here only where a rule limits it.
func (c *Cloud) ranked(pools []*pool, want MarketTarget) []*pool {
	price := func(p *pool) int64 {
		var nanos int64
		var ok bool
		if want.Market == Spot {
			nanos, ok = c.spotPrice(p.typ.Name, p.override.Zone)
		} else {
			nanos, ok = c.onDemandPrice(p.typ.Name)
		}
		if !ok {
			return 1<<63 - 1
		}
		return nanos
	}
	depth := func(p *pool) int { // shallow pools later
		room, _ := c.room(p.typ.Name, p.override.Zone, want.Market)
		if room < 0 {
			return 0
		}
		return 1<<30 - room
	}
	priority := func(p *pool) float64 {
		if p.override.Priority == nil {
			return 1e300 // without a priority: last
		}
		return *p.override.Priority
	}
	out := slices.Clone(pools)
	slices.SortStableFunc(out, func(a, b *pool) int {
		switch want.Strategy {
		case "prioritized":
			return cmp.Or(cmp.Compare(priority(a), priority(b)), cmp.Compare(a.order, b.order))
		case "capacity-optimized":
			return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(a.order, b.order))
		case "capacity-optimized-prioritized":
			return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(priority(a), priority(b)), cmp.Compare(a.order, b.order))
		case "price-capacity-optimized":
			return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(price(a), price(b)), cmp.Compare(a.order, b.order))
		}
		return cmp.Or(cmp.Compare(price(a), price(b)), cmp.Compare(a.order, b.order))
	})
	return out
}

// admit says how many of n instances a pool can launch, and why not more.
func (c *Cloud) admit(p *pool, market string, n int) (int, *Error) {
	typ, zoneName := p.typ.Name, p.override.Zone
	if market == OnDemand || market == Spot {
		if !slices.Contains(p.typ.UsageClasses, market) {
			return 0, fail("Unsupported", "The requested configuration is currently not supported. Please check the documentation for supported configurations.")
		}
	}
	if market == Spot {
		if e := c.checkMaxPrice(p); e != nil {
			return 0, e
		}
	}
	var err *Error
	limit := func(room int, e *Error) {
		if room < n {
			n, err = max(room, 0), e
		}
	}
	r, only, e := c.reservationFor(p, market)
	if e != nil {
		return 0, e
	}
	switch {
	case only:
		limit(r.Available, fail("ReservationCapacityExceeded", "The requested reservation %s does not have sufficient compatible and available capacity for this request.", r.ID))
	case r == nil: // capacity that nobody keeps for the account
		if room, rule := c.room(typ, zoneName, market); rule != nil {
			limit(room, insufficient(rule, typ, zoneName))
		}
	default:
		if room, rule := c.room(typ, zoneName, market); rule != nil {
			limit(room+r.Available, insufficient(rule, typ, zoneName))
		}
	}
	limit(p.subnet.Free()/p.addresses(), fail("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", p.subnet.ID))
	c.quota(p, market, limit)
	c.spreadLimit(p, limit)
	return n, err
}

// checkMaxPrice refuses a spot price above what the pool offers.
func (c *Cloud) checkMaxPrice(p *pool) *Error {
	if p.override.MaxPrice == "" {
		return nil
	}
	offer, err := strconv.ParseFloat(p.override.MaxPrice, 64)
	if err != nil {
		return fail("InvalidParameterValue", "Value (%s) for parameter maxPrice is invalid.", p.override.MaxPrice)
	}
	nanos, ok := c.spotPrice(p.typ.Name, p.override.Zone)
	if ok && float64(nanos)/1e9 > offer {
		return fail("SpotMaxPriceTooLow", "Your Spot request price of %s is lower than the minimum required Spot request fulfillment price of %.4f.", p.override.MaxPrice, float64(nanos)/1e9)
	}
	return nil
}

func insufficient(rule *CapacityRule, typ, zoneName string) *Error {
	message := rule.Message
	if message == "" {
		message = fmt.Sprintf("We currently do not have sufficient %s capacity in the Availability Zone you requested (%s). Our system will be working on provisioning additional capacity.", typ, zoneName)
	}
	return fail(rule.Code, "%s", message)
}

func (c *Cloud) quota(p *pool, market string, limit func(int, *Error)) {
	quota := c.opts.OnDemandVCPUQuota
	e := fail("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket that the specified instance type belongs to.", quota)
	if market == Spot {
		quota = c.opts.SpotVCPUQuota
		e = fail("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
	}
	if quota == 0 || market != Spot && market != OnDemand {
		return
	}
	used := 0
	for _, i := range c.instances {
		if (i.State == Pending || i.State == Running) && i.CapacityType() == market {
			if t, ok := c.data.Type(i.Type); ok && quotaOf(t) == quotaOf(p.typ) {
				used += t.VCPUs
			}
		}
	}
	limit((quota-used)/p.typ.VCPUs, e)
}

// spreadPerZone is how many running instances a spread group holds in a zone.
const spreadPerZone = 7

func (c *Cloud) spreadLimit(p *pool, limit func(int, *Error)) {
	g := c.placementOf(p)
	if g == nil || g.Strategy != "spread" {
		return
	}
	used := 0
	for _, i := range c.instances {
		if i.PlacementGroup == g.ID && i.Zone == p.override.Zone && i.State != Terminated {
			used++
		}
	}
	limit(spreadPerZone-used, fail("InsufficientInstanceCapacity",
		"You have reached the limit of instances in this spread placement group in Availability Zone %s.", p.override.Zone))
}

func (c *Cloud) placementOf(p *pool) *PlacementGroup {
	pl := p.spec.Placement
	if pl == nil {
		return nil
	}
	if pl.GroupID != "" {
		return c.placements[pl.GroupID]
	}
	return c.placementNamed(pl.GroupName)
}

// reservationFor finds the reservation a pool launches into; only tells that
// there is no other capacity for it.
func (c *Cloud) reservationFor(p *pool, market string) (r *CapacityReservation, only bool, err *Error) {
	spec := p.spec.Reservation
	if spec == nil || spec.Target == nil || spec.Target.ID == "" {
		if market == CapacityBlock || market == Reserved {
			return nil, false, fail("InvalidParameterValue", "A capacity reservation target is required for the market %s.", market)
		}
		r = c.usedReservation(p, market)
		if spec != nil && spec.Preference == "capacity-reservations-only" {
			if r == nil {
				return nil, false, fail("ReservationCapacityExceeded", "The requested reservation does not have sufficient compatible and available capacity for this request.")
			}
			return r, true, nil
		}
		return r, false, nil
	}
	r = c.reservations[spec.Target.ID]
	switch {
	case r == nil:
		return nil, false, fail("InvalidCapacityReservationId.NotFound", "The capacity reservation ID '%s' does not exist", spec.Target.ID)
	case r.State != "active":
		return nil, false, fail("InvalidCapacityReservationState", "The capacity reservation '%s' is not active.", r.ID)
	case r.Type != p.typ.Name || r.Zone != p.override.Zone:
		return nil, false, fail("ReservationCapacityExceeded", "The requested reservation %s does not match instance type %s in %s.", r.ID, p.typ.Name, p.override.Zone)
	}
	return r, true, c.checkMarket(p, r, market)
}

// checkMarket refuses a reservation of another kind than the market.
func (c *Cloud) checkMarket(p *pool, r *CapacityReservation, market string) *Error {
	want := OnDemand
	switch {
	case r.Kind == "capacity-block":
		want = CapacityBlock
	case r.Interruptible:
		want = Reserved
	}
	option := ""
	if m := p.spec.Market; m != nil {
		option = m.Type
	}
	if market != want || want == CapacityBlock && option != "capacity-block" || want == Reserved && option != "interruptible-capacity-reservation" {
		return fail("InvalidParameterValue", "The capacity reservation '%s' cannot be used by a launch of the market %s with the market type '%s'.", r.ID, market, option)
	}
	return nil
}
