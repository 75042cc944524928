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
	Parent string `xml:"parentZoneName,omitempty"`
}

func (s *ec2Service) describeAvailabilityZones(_ *call, in *describeZonesInput) (any, *cloud.Error) {
	var out struct {
		Zones []zoneXML `xml:"availabilityZoneInfo>item"`
	}
	region := s.cloud.Options().Region
	for _, z := range s.cloud.Zones() {
		x := zoneXML{z.Name, z.ID, "available", region, "availability-zone", z.Group, region, "opt-in-not-required", ""}
		if z.Local {
			x.Type, x.Border, x.OptIn, x.Parent = "local-zone", z.Group, "opted-in", z.Parent
		}
		ok, err := cloud.Pass(in.filters(), nil, map[string]string{
			"zone-name": x.Name, "zone-id": x.ID, "state": x.State, "region-name": region, "zone-type": x.Type, "group-name": x.Group,
			"opt-in-status": x.OptIn, "parent-zone-name": x.Parent,
		})
		if err != nil {
			return nil, err
		}
		if ok && (len(in.Names) == 0 || slices.Contains(in.Names, z.Name)) && (len(in.IDs) == 0 || slices.Contains(in.IDs, z.ID)) {
			out.Zones = append(out.Zones, x)
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
	ID     string `xml:"subnetId"`
	ARN    string `xml:"subnetArn"`
	State  string `xml:"state"`
	VPC    string `xml:"vpcId"`
	CIDR   string `xml:"cidrBlock"`
	Free   int    `xml:"availableIpAddressCount"`
	Zone   string `xml:"availabilityZone"`
	ZoneID string `xml:"availabilityZoneId"`
	Owner  string `xml:"ownerId"`
	Public bool   `xml:"mapPublicIpOnLaunch"`
	OnIPv6 bool   `xml:"assignIpv6AddressOnCreation"`

	Default    bool          `xml:"defaultForAz"`
	IPv6       []cidrXML     `xml:"ipv6CidrBlockAssociationSet>item"`
	Native     bool          `xml:"ipv6Native"`
	DNS64      bool          `xml:"enableDns64"`
	DNSOptions dnsOptionsXML `xml:"privateDnsNameOptionsOnLaunch"`
	Tags       []xmlTag      `xml:"tagSet>item"`
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
		x := subnetXML{
			ID: n.ID, ARN: s.cloud.ARN("ec2", "subnet/"+n.ID), State: "available", VPC: n.VPC, CIDR: n.CIDR, Free: n.Free(), Zone: n.Zone,
			ZoneID: n.ZoneID, Owner: opts.AccountID, Public: n.PublicIP, OnIPv6: n.IPv6OnCreation, DNSOptions: dnsOptionsXML{Host: "ip-name"}, Tags: xmlTags(n.Tags),
		}
		if n.ResourceNames {
			x.DNSOptions.Host = "resource-name"
		}
		if n.IPv6CIDR != "" {
			x.IPv6 = []cidrXML{{"subnet-cidr-assoc-" + n.ID[len("subnet-"):], n.IPv6CIDR, "associated"}}
		}
		out.Subnets = append(out.Subnets, x)
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

type attributeBool struct {
	Value *bool `q:"Value"`
}

type modifySubnetInput struct {
	ID        string         `q:"SubnetId,required"`
	PublicIP  *attributeBool `q:"MapPublicIpOnLaunch"`
	IPv6      *attributeBool `q:"AssignIpv6AddressOnCreation"`
	HostNames string         `q:"PrivateDnsHostnameTypeOnLaunch"`
	A         *attributeBool `q:"EnableResourceNameDnsARecordOnLaunch,refuse"`
	AAAA      *attributeBool `q:"EnableResourceNameDnsAAAARecordOnLaunch,refuse"`
	DNS64     *attributeBool `q:"EnableDns64,refuse"`
	Pool      string         `q:"CustomerOwnedIpv4Pool,refuse"`
	Owned     *attributeBool `q:"MapCustomerOwnedIpOnLaunch,refuse"`
	LNI       *int           `q:"EnableLniAtDeviceIndex,refuse"`
	NoLNI     *attributeBool `q:"DisableLniAtDeviceIndex,refuse"`
}

func (in *modifySubnetInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("ModifySubnetAttribute", []string{in.ID})
}

func (s *ec2Service) modifySubnetAttribute(_ *call, in *modifySubnetInput) (any, *cloud.Error) {
	var change cloud.SubnetChange
	given := 0
	if in.PublicIP != nil {
		change.PublicIP = in.PublicIP.Value
		given++
	}
	if in.IPv6 != nil {
		change.IPv6OnCreation = in.IPv6.Value
		given++
	}
	if in.HostNames != "" {
		byResource := in.HostNames == "resource-name"
		change.ResourceNames = &byResource
		given++
	}
	if given != 1 {
		return nil, apiError("InvalidParameterCombination", "Exactly one attribute can be modified at a time.")
	}
	return done(false, s.cloud.ModifySubnet(in.ID, change))
}

type createSecurityGroupInput struct {
	dry
	Name        string                   `q:"GroupName,required"`
	Description string                   `q:"GroupDescription,required"`
	VPC         string                   `q:"VpcId"`
	Tags        []cloud.TagSpecification `q:"TagSpecification"`
}

func (in *createSecurityGroupInput) needs(s *ec2Service) []cloud.Demand {
	return s.toCreate("CreateSecurityGroup", "security-group", "*", in.Tags)
}

func (s *ec2Service) createSecurityGroup(_ *call, in *createSecurityGroupInput) (any, *cloud.Error) {
	if err := checkTags(in.Tags, "security-group"); err != nil {
		return nil, err
	}
	g, err := s.cloud.CreateSecurityGroup(in.Name, in.Description, in.VPC, cloud.TagsFor(in.Tags, "security-group"), in.DryRun)
	if err != nil || in.DryRun {
		return done(in.DryRun, err)
	}
	return struct {
		ID     string   `xml:"groupId"`
		ARN    string   `xml:"securityGroupArn"`
		Tags   []xmlTag `xml:"tagSet>item"`
		Return bool     `xml:"return"`
	}{g.ID, s.cloud.ARN("ec2", "security-group/"+g.ID), xmlTags(g.Tags), true}, nil
}

type deleteSecurityGroupInput struct {
	dry
	ID   string `q:"GroupId"`
	Name string `q:"GroupName"`
}

func (in *deleteSecurityGroupInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("DeleteSecurityGroup", []string{in.ID})
}

func (s *ec2Service) deleteSecurityGroup(_ *call, in *deleteSecurityGroupInput) (any, *cloud.Error) {
	id, err := s.cloud.DeleteSecurityGroup(in.ID, in.Name, in.DryRun)
	if err != nil || in.DryRun {
		return done(in.DryRun, err)
	}
	return struct {
		ID     string `xml:"groupId"`
		Return bool   `xml:"return"`
	}{id, true}, nil
}
