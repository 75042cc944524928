package simaws

import (
	"slices"
	"strconv"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

type createFleetInput struct {
	dry
	Type     string                   `q:"Type"`
	Token    string                   `q:"ClientToken"`
	Context  string                   `q:"Context"`
	Configs  []cloud.FleetConfig      `q:"LaunchTemplateConfigs,required"`
	Target   *fleetTarget             `q:"TargetCapacitySpecification,required"`
	OnDemand *onDemandOptions         `q:"OnDemandOptions"`
	Spot     *spotOptions             `q:"SpotOptions"`
	Reserved *reservedOptions         `q:"ReservedCapacityOptions"`
	Tags     []cloud.TagSpecification `q:"TagSpecification"`

	Excess    string    `q:"ExcessCapacityTerminationPolicy"`
	Replace   bool      `q:"ReplaceUnhealthyInstances"`
	Terminate bool      `q:"TerminateInstancesWithExpiration"`
	From      time.Time `q:"ValidFrom"`
	Until     time.Time `q:"ValidUntil"`
}

type fleetTarget struct {
	Total    *int   `q:"TotalTargetCapacity,required"`
	OnDemand *int   `q:"OnDemandTargetCapacity"`
	Spot     *int   `q:"SpotTargetCapacity"`
	Default  string `q:"DefaultTargetCapacityType"`
	Unit     string `q:"TargetCapacityUnitType,refuse"`
}

type onDemandOptions struct {
	Strategy     string `q:"AllocationStrategy"`
	Reservations string `q:"CapacityReservationOptions,refuse"`
	MaxPrice     string `q:"MaxTotalPrice,refuse"`
	Min          *int   `q:"MinTargetCapacity,refuse"`
	SingleZone   *bool  `q:"SingleAvailabilityZone,refuse"`
	SingleType   *bool  `q:"SingleInstanceType,refuse"`
}

type spotOptions struct {
	Strategy     string `q:"AllocationStrategy"`
	Interruption string `q:"InstanceInterruptionBehavior"`
	Pools        *int   `q:"InstancePoolsToUseCount,refuse"`
	Maintenance  string `q:"MaintenanceStrategies,refuse"`
	MaxPrice     string `q:"MaxTotalPrice,refuse"`
	Min          *int   `q:"MinTargetCapacity,refuse"`
	SingleZone   *bool  `q:"SingleAvailabilityZone,refuse"`
	SingleType   *bool  `q:"SingleInstanceType,refuse"`
}

type reservedOptions struct {
	Types    []string `q:"ReservationType"`
	Strategy string   `q:"AllocationStrategy,refuse"`
	Target   string   `q:"CapacityReservationTarget,refuse"`
	Fallback string   `q:"ReservedCapacityFallbackOptions,refuse"`
}

// EC2's limits of an instant fleet.
const (
	maxConfigs   = 50
	maxOverrides = 300
	maxTarget    = 10_000
)

// needs is nothing here: the account checks them where it knows what the
// launches touch.
func (*createFleetInput) needs(*ec2Service) []cloud.Demand { return nil }

func (s *ec2Service) createFleet(c *call, in *createFleetInput) (any, *cloud.Error) {
	req, err := in.request()
	if err != nil {
		return nil, err
	}
	req.Caller = c.caller
	if in.DryRun {
		if err := s.cloud.CheckFleet(req); err != nil {
			return nil, err
		}
		return nil, dryRun()
	}
	req.Params = fingerprint(c)
	res, err := s.cloud.CreateFleet(req)
	if err != nil {
		return nil, err
	}
	return describeFleet(res), nil
}

func (in *createFleetInput) request() (cloud.FleetRequest, *cloud.Error) {
	req := cloud.FleetRequest{Configs: in.Configs, Token: in.Token, Tags: map[string]cloud.Tags{}}
	if in.Type != "instant" {
		return req, apiError("UnsupportedOperation", "simaws implements fleets of type instant only")
	}
	if len(in.Token) > 64 {
		return req, apiError("InvalidParameterValue", "The client token may have at most 64 characters.")
	}
	if err := checkTags(in.Tags, "instance", "volume", "fleet", "network-interface", "spot-instances-request"); err != nil {
		return req, err
	}
	for _, t := range in.Tags {
		req.Tags[t.ResourceType] = cloud.TagsFor(in.Tags, t.ResourceType)
	}
	overrides := 0
	for _, cfg := range in.Configs {
		overrides += len(cfg.Overrides)
		if cfg.Template.Version == "" {
			return req, apiError("MissingParameter", "The launch template version must be specified.")
		}
	}
	if len(in.Configs) > maxConfigs || overrides > maxOverrides {
		return req, apiError("InvalidFleetConfig", "A fleet may have "+strconv.Itoa(maxConfigs)+" launch templates and "+strconv.Itoa(maxOverrides)+" overrides at most.")
	}
	var err *cloud.Error
	req.Want, err = in.want()
	return req, err
}

// want splits the target by market.
func (in *createFleetInput) want() ([]cloud.MarketTarget, *cloud.Error) {
	t := in.Target
	if *t.Total < 1 || *t.Total > maxTarget {
		return nil, apiError("InvalidTargetCapacity", "The target capacity of an instant fleet must be between 1 and "+strconv.Itoa(maxTarget)+".")
	}
	strategies, err := in.strategies()
	if err != nil {
		return nil, err
	}
	market := t.Default
	if market == "" {
		market = cloud.OnDemand
	}
	if _, ok := strategies[market]; !ok {
		return nil, apiError("InvalidParameterValue", "Value ("+market+") for parameter defaultTargetCapacityType is invalid.")
	}
	rest := *t.Total
	var out []cloud.MarketTarget
	for _, part := range []struct {
		market string
		count  *int
	}{{cloud.OnDemand, t.OnDemand}, {cloud.Spot, t.Spot}} {
		if part.count == nil || *part.count == 0 {
			continue
		}
		rest -= *part.count
		if *part.count < 0 || rest < 0 {
			return nil, apiError("InvalidTargetCapacity", "The on-demand and spot targets exceed the total target capacity.")
		}
		out = append(out, cloud.MarketTarget{Market: part.market, Count: *part.count, Strategy: strategies[part.market]})
	}
	if rest > 0 {
		out = append(out, cloud.MarketTarget{Market: market, Count: rest, Strategy: strategies[market]})
	}
	return out, nil
}

// strategies are the allocation strategy of each market.
func (in *createFleetInput) strategies() (map[string]string, *cloud.Error) {
	out := map[string]string{cloud.OnDemand: "lowest-price", cloud.Spot: "lowest-price", cloud.CapacityBlock: "", cloud.Reserved: ""}
	if o := in.OnDemand; o != nil && o.Strategy != "" {
		if !slices.Contains([]string{"lowest-price", "prioritized"}, o.Strategy) {
			return nil, apiError("InvalidParameterValue", "Value ("+o.Strategy+") for parameter onDemandOptions.allocationStrategy is invalid.")
		}
		out[cloud.OnDemand] = o.Strategy
	}
	if o := in.Spot; o != nil {
		known := []string{"lowest-price", "diversified", "capacity-optimized", "capacity-optimized-prioritized", "price-capacity-optimized"}
		if o.Strategy != "" && !slices.Contains(known, o.Strategy) {
			return nil, apiError("InvalidParameterValue", "Value ("+o.Strategy+") for parameter spotOptions.allocationStrategy is invalid.")
		}
		if o.Interruption != "" && o.Interruption != "terminate" {
			return nil, apiError("UnsupportedOperation", "simaws implements the interruption behaviour terminate only")
		}
		if o.Strategy != "" {
			out[cloud.Spot] = o.Strategy
		}
	}
	if o := in.Reserved; o != nil && (len(o.Types) != 1 || o.Types[0] != "interruptible-capacity-reservation") {
		return nil, apiError("InvalidParameterValue", "ReservedCapacityOptions must name the reservation type interruptible-capacity-reservation.")
	}
	return out, nil
}

// wanted is the target capacity of a CreateFleet call, for throttling.
func wanted(c *call) int {
	form, err := c.values()
	if err != nil {
		return 1
	}
	n, err := strconv.Atoi(form.Get("TargetCapacitySpecification.TotalTargetCapacity"))
	if err != nil {
		return 1
	}
	return n
}

type fleetXML struct {
	ID        string             `xml:"fleetId"`
	Instances []fleetInstanceXML `xml:"fleetInstanceSet>item"`
	Errors    []fleetErrorXML    `xml:"errorSet>item"`
}

type fleetPoolXML struct {
	Template struct {
		ID      string `xml:"launchTemplateId"`
		Version string `xml:"version"`
	} `xml:"launchTemplateSpecification"`
	Overrides cloud.Override `xml:"overrides"`
}

type fleetInstanceXML struct {
	Pool      fleetPoolXML `xml:"launchTemplateAndOverrides"`
	Lifecycle string       `xml:"lifecycle"`
	IDs       []string     `xml:"instanceIds>item"`
	Type      string       `xml:"instanceType"`
}

type fleetErrorXML struct {
	Pool      fleetPoolXML `xml:"launchTemplateAndOverrides"`
	Lifecycle string       `xml:"lifecycle"`
	Code      string       `xml:"errorCode"`
	Message   string       `xml:"errorMessage"`
}

func fleetPool(template string, o cloud.Override) fleetPoolXML {
	var x fleetPoolXML
	x.Template.ID, x.Template.Version, x.Overrides = template, "1", o
	return x
}

// describeFleet words a result; the pools carry zone and image filled in.
func describeFleet(res *cloud.FleetResult) fleetXML {
	out := fleetXML{ID: res.ID}
	for _, g := range res.Groups {
		out.Instances = append(out.Instances, fleetInstanceXML{fleetPool(g.TemplateID, g.Override), g.Market, g.Instances, g.Type})
	}
	for _, f := range res.Failures {
		out.Errors = append(out.Errors, fleetErrorXML{fleetPool(f.TemplateID, f.Override), f.Market, f.Err.Code, f.Err.Message})
	}
	return out
}
