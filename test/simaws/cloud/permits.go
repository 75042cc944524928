package cloud

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// Which permissions a launch needs. Source: service authorization reference
// of Amazon EC2, actions RunInstances, CreateFleet and CreateTags.

// RequestTags are the condition keys of tags in a request.
func RequestTags(tags Tags) map[string][]string {
	out := map[string][]string{}
	for k, v := range tags {
		out["aws:RequestTag/"+k] = []string{v}
	}
	if len(tags) > 0 {
		out["aws:TagKeys"] = slices.Sorted(maps.Keys(tags))
	}
	return out
}

// ResourceTags are the condition keys of the tags a resource has.
func ResourceTags(tags Tags) map[string][]string {
	out := map[string][]string{}
	for k, v := range tags {
		out["aws:ResourceTag/"+k] = []string{v}
		out["ec2:ResourceTag/"+k] = []string{v}
	}
	return out
}

// merge puts condition keys together.
func merge(sets ...map[string][]string) map[string][]string {
	out := map[string][]string{}
	for _, s := range sets {
		maps.Copy(out, s)
	}
	return out
}

func keys(pairs ...string) map[string][]string {
	out := map[string][]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out[pairs[i]] = []string{pairs[i+1]}
		}
	}
	return out
}

// launchTags are the tags of a launch by kind of resource: the template's,
// overlaid by the request's.
func (p *pool) launchTags(given map[string]Tags, kind string) Tags {
	out := TagsFor(p.spec.Tags, kind)
	maps.Copy(out, given[kind])
	return out
}

// permitLaunch checks RunInstances on every resource a launch from a pool
// touches, and tags and role. The action is that of the call whose tags these
// are.
func (c *Cloud) permitLaunch(caller Caller, p *pool, market, action string, tags map[string]Tags) *Error {
	if caller.ARN == "" {
		return nil // the test's hand
	}
	demands := slices.Concat(c.launchDemands(p, market, "RunInstances", tags), c.tagDemands(p, action, tags), c.passDemands(p))
	return c.authorize(caller, demands)
}

func (c *Cloud) launchDemands(p *pool, market, action string, tags map[string]Tags) []Demand {
	launch := keys("ec2:IsLaunchTemplateResource", strconv.FormatBool(p.template.ID != ""))
	if p.template.ID != "" {
		launch["ec2:LaunchTemplate"] = []string{c.arn("ec2", "launch-template/"+p.template.ID)}
	}
	var out []Demand
	add := func(resource string, more ...map[string][]string) {
		out = append(out, Demand{Action: "ec2:" + action, Resource: c.arn("ec2", resource), Keys: merge(append(more, launch)...)})
	}
	if p.template.ID != "" {
		add("launch-template/"+p.template.ID, ResourceTags(p.template.Tags))
	}
	add("image/"+p.image.ID, ResourceTags(p.image.Tags), keys("ec2:Owner", cmp.Or(p.image.OwnerAlias, p.image.OwnerID), "ec2:ImageType", "machine"))
	add("snapshot/" + p.image.Snapshot())
	add("subnet/"+p.subnet.ID, ResourceTags(p.subnet.Tags), keys("ec2:AvailabilityZone", p.subnet.Zone, "ec2:Vpc", c.arn("ec2", "vpc/"+p.subnet.VPC)))
	for _, id := range p.groups {
		add("security-group/"+id, ResourceTags(c.group(id).Tags), keys("ec2:Vpc", c.arn("ec2", "vpc/"+p.subnet.VPC)))
	}
	add("network-interface/*", RequestTags(p.launchTags(tags, "network-interface")), keys("ec2:Subnet", c.arn("ec2", "subnet/"+p.subnet.ID)))
	add("volume/*", RequestTags(p.launchTags(tags, "volume")), keys("ec2:AvailabilityZone", p.subnet.Zone))
	add("instance/*", RequestTags(p.launchTags(tags, "instance")), c.instanceKeys(p, market))
	if market == Spot {
		add("spot-instances-request/*", RequestTags(p.launchTags(tags, "spot-instances-request")))
	}
	if g := c.placementOf(p); g != nil {
		add("placement-group/"+g.Name, ResourceTags(g.Tags))
	}
	if r := p.spec.Reservation; r != nil && r.Target != nil && c.reservations[r.Target.ID] != nil {
		add("capacity-reservation/"+r.Target.ID, ResourceTags(c.reservations[r.Target.ID].Tags))
	}
	return out
}

func (c *Cloud) instanceKeys(p *pool, market string) map[string][]string {
	k := keys("ec2:InstanceType", p.typ.Name, "ec2:AvailabilityZone", p.subnet.Zone, "ec2:InstanceMarketType", market, "ec2:RootDeviceType", "ebs")
	if p.profile != nil {
		k["ec2:InstanceProfile"] = []string{p.profile.ARN}
	}
	if m := p.spec.Metadata; m != nil {
		maps.Copy(k, keys("ec2:MetadataHttpTokens", m.Tokens, "ec2:MetadataHttpEndpoint", m.Endpoint))
		if m.HopLimit != nil {
			k["ec2:MetadataHttpPutResponseHopLimit"] = []string{strconv.Itoa(*m.HopLimit)}
		}
	}
	k["ec2:Tenancy"] = []string{"default"}
	if pl := p.spec.Placement; pl != nil && pl.Tenancy != "" {
		k["ec2:Tenancy"] = []string{pl.Tenancy}
	}
	return k
}

// tagDemands are those for tags given to what a launch creates: by the call,
// or by the template, whose tags are RunInstances's.
func (c *Cloud) tagDemands(p *pool, action string, tags map[string]Tags) []Demand {
	var out []Demand
	for _, kind := range []string{"instance", "volume", "network-interface", "spot-instances-request"} {
		if t := p.launchTags(tags, kind); len(t) > 0 {
			by := "RunInstances"
			if len(tags[kind]) > 0 {
				by = action
			}
			out = append(out, c.CreationTags(kind, by, t))
		}
	}
	return out
}

// CreationTags is the demand for tags of a new resource.
func (c *Cloud) CreationTags(kind, action string, tags Tags) Demand {
	return Demand{Action: "ec2:CreateTags", Resource: c.arn("ec2", kind+"/*"), Keys: merge(RequestTags(tags), keys("ec2:CreateAction", action))}
}

// passDemands are those for the role of the instance profile.
func (c *Cloud) passDemands(p *pool) []Demand {
	if p.profile == nil || p.profile.Role == "" {
		return nil
	}
	arn := c.arn("iam", "role/"+p.profile.Role)
	if r := c.roles[p.profile.Role]; r != nil {
		arn = r.ARN
	}
	return []Demand{{Action: "iam:PassRole", Resource: arn, Through: "ec2", Keys: keys(
		"iam:PassedToService", c.EC2Principal(), "iam:AssociatedResourceArn", c.arn("ec2", "instance/*"))}}
}

// EC2Principal is EC2's name as a service in the partition.
func (c *Cloud) EC2Principal() string {
	if c.partition() == "aws-cn" {
		return "ec2.amazonaws.com.cn"
	}
	return "ec2.amazonaws.com"
}
