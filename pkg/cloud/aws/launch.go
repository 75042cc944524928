package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
)

// Launch sends the recorded call. Repeating it yields the same instance, because EC2 gives the same answer to the same token.
func (p *Provider) Launch(ctx context.Context, request *cloud.Request) (*cloud.Instance, error) {
	body, err := thaw(request)
	if err != nil {
		return p.orFound(ctx, request, &cloud.CreateFailed{Reason: karpv1.ReasonLaunchFailed, Err: err})
	}
	for _, name := range body.templateNames() {
		p.templates.touch(name)
	}
	out, err := p.createFleet(ctx, request, body)
	if err != nil {
		return p.launchFailed(ctx, request, err)
	}
	p.markErrors(ctx, request, body, out.Errors)
	instance := p.fleetInstance(request, body, out)
	first := p.settleHolds(request, instance)
	if instance != nil {
		p.young.put(instance.ID, struct{}{})
		if id := instance.Labels[ec2types.LabelReservationID]; id != "" && first {
			p.reservations.took(id, instance.Launched)
		}
		return instance, nil
	}
	return nil, fleetError(out.Errors)
}

// createFleet makes the call. When a launch template has gone, it is made again and the call is repeated once, under the same token.
func (p *Provider) createFleet(ctx context.Context, request *cloud.Request, body *payload) (*ec2.CreateFleetOutput, error) {
	out, err := p.api.launch.CreateFleet(ctx, body.fleet(request))
	if code(err) != codeTemplateNotFound {
		return out, err
	}
	made, again := p.templates.again(ctx, body.templateNames())
	if again != nil {
		return nil, errors.Join(err, again)
	}
	if !made {
		return nil, err
	}
	return p.api.launch.CreateFleet(ctx, body.fleet(request))
}

// launchFailed decides what an error of the whole call means. Where an earlier call under the token may have launched, it looks.
func (p *Provider) launchFailed(ctx context.Context, request *cloud.Request, err error) (*cloud.Instance, error) {
	switch code(err) {
	case codeMismatch:
		return p.orFound(ctx, request, launchError(err))
	case codeTemplateNotFound:
		return p.orFound(ctx, request, &cloud.CreateFailed{Reason: karpv1.ReasonLaunchTemplateNotFound, Err: err})
	}
	kind := launchError(err)
	if _, unknown := errors.AsType[*cloud.UnknownOutcome](kind); !unknown {
		p.settleHolds(request, nil)
	}
	return nil, kind
}

// orFound returns the instance that an earlier call under the request's identity has launched, else the error.
func (p *Provider) orFound(ctx context.Context, request *cloud.Request, failed error) (*cloud.Instance, error) {
	found, err := p.byLaunchID(ctx, request.LaunchID)
	if err != nil {
		return nil, &cloud.UnknownOutcome{Err: errors.Join(failed, err)}
	}
	p.settleHolds(request, found)
	if found != nil {
		return found, nil
	}
	return nil, failed
}

// settleHolds gives back the addresses that the launch did not use. It reports whether this is the first outcome of a request that this
// process has resolved.
func (p *Provider) settleHolds(request *cloud.Request, instance *cloud.Instance) bool {
	holds, ok := p.holds.get(request.Token)
	if !ok {
		return false
	}
	p.holds.drop(request.Token)
	used := ""
	if instance != nil {
		used = instance.SubnetID
	}
	p.subnets.giveBack(holds, used)
	return true
}

// spreadLimit is how EC2 words that a spread placement group is full in a zone.
const spreadLimit = "limit of instances in this spread placement group"

// markErrors remembers which offerings the fleet could not buy, also when it bought another one.
func (p *Provider) markErrors(ctx context.Context, request *cloud.Request, body *payload, list []et.CreateFleetError) {
	for _, e := range list {
		c, text := val(e.ErrorCode), val(e.ErrorMessage)
		typ, subnet, zone := fleetTarget(body, e.LaunchTemplateAndOverrides)
		p.countFailure(request, body, e)
		if c == codeSpotRole {
			p.marks.capacityType(catalog.Spot, c)
			continue
		}
		p.log.DebugContext(ctx, "offering not available", "launch", request.LaunchID, "code", c, "message", text, "type", typ, "zone", zone, "capacityType", request.CapacityType)
		if !capacityCode(c) || !body.has(typ, zone) {
			continue
		}
		if c == codeNoAddresses && subnet != "" {
			p.marks.subnet(subnet, c)
			p.subnets.exhausted(subnet)
		}
		if request.CapacityType == catalog.Reserved {
			if t := body.template(typ, zone); t != nil && !strings.Contains(text, spreadLimit) {
				p.reservations.full(t.Booking.ID)
			}
			continue
		}
		key := offeringKey{capacityType: request.CapacityType, zone: zone}
		if body.Class.PlacementGroup != nil {
			key.group, key.partition = body.Class.PlacementGroup.ID, body.Partition
		}
		types := []string{typ}
		if key.group != "" && strings.Contains(text, spreadLimit) {
			types = body.typeNames()
		}
		for _, key.typ = range types {
			p.marks.offering(key, c)
		}
	}
}

// countFailure counts one error; where it does not belong to an offering of the request, without one.
func (p *Provider) countFailure(request *cloud.Request, body *payload, e et.CreateFleetError) {
	typ, _, zone := fleetTarget(body, e.LaunchTemplateAndOverrides)
	zoneID := ""
	if !body.has(typ, zone) {
		zone = ""
	}
	for _, s := range body.Subnets {
		if s.Zone == zone {
			zoneID = s.ZoneID
		}
	}
	p.opts.Observer.LaunchFailed(zone, zoneID, request.CapacityType, launchReason(val(e.ErrorCode), val(e.ErrorMessage)))
}

// fleetTarget reads which offering an entry of the answer is about; zone and subnet complete each other.
func fleetTarget(body *payload, in *et.LaunchTemplateAndOverridesResponse) (typ, subnet, zone string) {
	if in == nil || in.Overrides == nil {
		return "", "", ""
	}
	typ, subnet, zone = string(in.Overrides.InstanceType), val(in.Overrides.SubnetId), val(in.Overrides.AvailabilityZone)
	for _, s := range body.Subnets {
		if zone == "" && s.ID == subnet {
			zone = s.Zone
		}
		if subnet == "" && s.Zone == zone {
			subnet = s.ID
		}
	}
	return typ, subnet, zone
}

// fleetError combines the errors of a fleet that launched nothing.
func fleetError(list []et.CreateFleetError) error {
	if len(list) == 0 {
		return &cloud.CreateFailed{Reason: karpv1.ReasonLaunchFailed, Err: errors.New("the fleet launched nothing and gave no reason")}
	}
	capacity, role := true, false
	var texts, details []string
	for _, e := range list {
		c := val(e.ErrorCode)
		capacity, role = capacity && (capacityCode(c) || c == codeSpotRole), role || c == codeSpotRole
		texts = append(texts, c+": "+val(e.ErrorMessage))
		details = append(details, detail(e))
	}
	if capacity {
		return &cloud.NoCapacity{Detail: strings.Join(distinct(details), "; "), SpotRole: role}
	}
	text := strings.Join(distinct(texts), "; ")
	return &cloud.CreateFailed{Reason: launchReason("", text), Err: errors.New(text)}
}

// detail says what could not be bought, in short: the message of EC2 names neither type nor zone reliably.
func detail(e et.CreateFleetError) string {
	what := val(e.ErrorCode)
	if o := e.LaunchTemplateAndOverrides; o != nil && o.Overrides != nil {
		return fmt.Sprintf("%s %s in %s", what, o.Overrides.InstanceType, val(o.Overrides.AvailabilityZone))
	}
	return what + ": " + val(e.ErrorMessage)
}

func distinct(in []string) []string {
	var out []string
	for _, s := range in {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
