package simaws

import (
	"slices"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

type describeRegionsInput struct {
	dry
	filtering
	All   bool     `q:"AllRegions"`
	Names []string `q:"RegionName"`
}

type regionXML struct {
	Name     string `xml:"regionName"`
	Endpoint string `xml:"regionEndpoint"`
	OptIn    string `xml:"optInStatus"`
}

func (s *ec2Service) describeRegions(_ *call, in *describeRegionsInput) (any, *cloud.Error) {
	if len(in.Filters) > 0 {
		return nil, apiError("UnsupportedOperation", "simaws does not implement filters of DescribeRegions")
	}
	var out struct {
		Regions []regionXML `xml:"regionInfo>item"`
	}
	for _, r := range s.cloud.Data().Regions {
		if len(in.Names) == 0 || slices.Contains(in.Names, r.Name) {
			out.Regions = append(out.Regions, regionXML{r.Name, "ec2." + r.Name + ".amazonaws.com", "opt-in-not-required"})
		}
	}
	if len(out.Regions) < len(in.Names) {
		return nil, apiError("InvalidParameterValue", "Invalid region name in the list of regions")
	}
	return out, nil
}

type describeZonesInput struct {
	dry
	filtering
	All   bool     `q:"AllAvailabilityZones"`
	IDs   []string `q:"ZoneId"`
	Names []string `q:"ZoneName"`
}

type zoneXML struct {
	Name   string `xml:"zoneName"`
	ID     string `xml:"zoneId"`
	State  string `xml:"zoneState"`
	Region string `xml:"regionName"`
	Type   string `xml:"zoneType"`
	Group  string `xml:"groupName"`
	Border string `xml:"networkBorderGroup"`
	OptIn  string `xml:"optInStatus"`
}

func (s *ec2Service) describeAvailabilityZones(_ *call, in *describeZonesInput) (any, *cloud.Error) {
	var out struct {
		Zones []zoneXML `xml:"availabilityZoneInfo>item"`
	}
	for _, f := range in.Filters {
		if !slices.Contains([]string{"zone-name", "zone-id", "state", "region-name", "zone-type"}, f.Name) {
			return nil, apiError("InvalidParameterValue", "The filter '"+f.Name+"' is invalid")
		}
	}
	region := s.cloud.Area()
	for _, z := range region.Zones {
		keep := (len(in.Names) == 0 || slices.Contains(in.Names, z.Name)) && (len(in.IDs) == 0 || slices.Contains(in.IDs, z.ID))
		for _, f := range in.filters() {
			have := map[string]string{"zone-name": z.Name, "zone-id": z.ID, "state": "available", "region-name": region.Name, "zone-type": "availability-zone"}
			keep = keep && f.Matches(have[f.Name])
		}
		if keep {
			out.Zones = append(out.Zones, zoneXML{z.Name, z.ID, "available", region.Name, "availability-zone", region.Name + "-zg-1", region.Name, "opt-in-not-required"})
		}
	}
	if len(out.Zones) < len(in.Names)+len(in.IDs) && len(in.Filters) == 0 {
		return nil, apiError("InvalidParameterValue", "Invalid availability zone in the list of zones")
	}
	return out, nil
}

type describeSubnetsInput struct {
	dry
	filtering
	paging
	IDs []string `q:"SubnetId"`
}

type subnetXML struct {
	ID     string   `xml:"subnetId"`
	ARN    string   `xml:"subnetArn"`
	State  string   `xml:"state"`
	VPC    string   `xml:"vpcId"`
	CIDR   string   `xml:"cidrBlock"`
	Free   int      `xml:"availableIpAddressCount"`
	Zone   string   `xml:"availabilityZone"`
	ZoneID string   `xml:"availabilityZoneId"`
	Owner  string   `xml:"ownerId"`
	Public bool     `xml:"mapPublicIpOnLaunch"`
	Tags   []xmlTag `xml:"tagSet>item"`
}

func (s *ec2Service) describeSubnets(_ *call, in *describeSubnetsInput) (any, *cloud.Error) {
	if err := notPagedByID(in.paging, in.IDs, "subnetIds"); err != nil {
		return nil, err
	}
	all, err := s.cloud.Subnets(given(in.IDs), in.filters())
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{5, 1000, 1000, false}, func(s cloud.Subnet) string { return s.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Subnets []subnetXML `xml:"subnetSet>item"`
		Next    string      `xml:"nextToken,omitempty"`
	}
	out.Next = next
	opts := s.cloud.Options()
	for _, n := range part {
		out.Subnets = append(out.Subnets, subnetXML{
			ID: n.ID, ARN: "arn:aws:ec2:" + opts.Region + ":" + opts.AccountID + ":subnet/" + n.ID, State: "available", VPC: n.VPC,
			CIDR: n.CIDR, Free: n.Free(), Zone: n.Zone, ZoneID: n.ZoneID, Owner: opts.AccountID, Tags: xmlTags(n.Tags),
		})
	}
	return out, nil
}

type describeSecurityGroupsInput struct {
	dry
	filtering
	paging
	IDs   []string `q:"GroupId"`
	Names []string `q:"GroupName"`
}

type securityGroupXML struct {
	ID          string   `xml:"groupId"`
	Name        string   `xml:"groupName"`
	Description string   `xml:"groupDescription"`
	VPC         string   `xml:"vpcId"`
	Owner       string   `xml:"ownerId"`
	Tags        []xmlTag `xml:"tagSet>item"`
}

func (s *ec2Service) describeSecurityGroups(_ *call, in *describeSecurityGroupsInput) (any, *cloud.Error) {
	if err := notPagedByID(in.paging, in.IDs, "groupIds"); err != nil {
		return nil, err
	}
	all, err := s.cloud.SecurityGroups(given(in.IDs), given(in.Names), in.filters())
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{5, 1000, 1000, false}, func(g cloud.SecurityGroup) string { return g.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Groups []securityGroupXML `xml:"securityGroupInfo>item"`
		Next   string             `xml:"nextToken,omitempty"`
	}
	out.Next = next
	owner := s.cloud.Options().AccountID
	for _, g := range part {
		out.Groups = append(out.Groups, securityGroupXML{g.ID, g.Name, g.Description, g.VPC, owner, xmlTags(g.Tags)})
	}
	return out, nil
}
