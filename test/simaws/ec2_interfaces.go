package simaws

import "github.com/karp-sh/karp/test/simaws/cloud"

type interfaceXML struct {
	ID          string              `xml:"networkInterfaceId"`
	Subnet      string              `xml:"subnetId"`
	VPC         string              `xml:"vpcId"`
	Zone        string              `xml:"availabilityZone,omitempty"` // of DescribeNetworkInterfaces
	Description string              `xml:"description"`
	Owner       string              `xml:"ownerId"`
	Status      string              `xml:"status"`
	MAC         string              `xml:"macAddress"`
	IP          string              `xml:"privateIpAddress,omitempty"`
	Name        string              `xml:"privateDnsName,omitempty"`
	SourceCheck bool                `xml:"sourceDestCheck"`
	Type        string              `xml:"interfaceType"`
	Groups      []groupXML          `xml:"groupSet>item"`
	Public      *publicXML          `xml:"association"`
	Addresses   []addressXML        `xml:"privateIpAddressesSet>item"`
	IPv6        []ipv6XML           `xml:"ipv6AddressesSet>item"`
	Prefixes    []prefixXML         `xml:"ipv4PrefixSet>item"`
	IPv6Pfx     []ipv6PrefixXML     `xml:"ipv6PrefixSet>item"`
	Tracking    *trackingXML        `xml:"connectionTrackingConfiguration"`
	Attach      interfaceAttachment `xml:"attachment"`
	Tags        []xmlTag            `xml:"tagSet>item,omitempty"` // of DescribeNetworkInterfaces
}

type interfaceAttachment struct {
	ID       string `xml:"attachmentId"`
	Device   int    `xml:"deviceIndex"`
	Card     int    `xml:"networkCardIndex"`
	Status   string `xml:"status"`
	At       string `xml:"attachTime"`
	Delete   bool   `xml:"deleteOnTermination"`
	Instance string `xml:"instanceId,omitempty"` // of DescribeNetworkInterfaces
	Owner    string `xml:"instanceOwnerId,omitempty"`
}

type publicXML struct {
	IP    string `xml:"publicIp"`
	Owner string `xml:"ipOwnerId"`
}

type addressXML struct {
	IP      string     `xml:"privateIpAddress"`
	Primary bool       `xml:"primary"`
	Public  *publicXML `xml:"association"`
}

type ipv6XML struct {
	IP      string `xml:"ipv6Address"`
	Primary bool   `xml:"isPrimaryIpv6"`
}

type prefixXML struct {
	Prefix string `xml:"ipv4Prefix"`
}

type ipv6PrefixXML struct {
	Prefix string `xml:"ipv6Prefix"`
}

type trackingXML struct {
	TCP *int `xml:"tcpEstablishedTimeout,omitempty"`
	UDP *int `xml:"udpTimeout,omitempty"`
	Str *int `xml:"udpStreamTimeout,omitempty"`
}

func describeInterface(n cloud.Interface, i *cloud.Instance, owner string) interfaceXML {
	x := interfaceXML{
		ID: n.ID, Subnet: i.Subnet, VPC: i.VPC, Description: n.Description, Owner: owner, Status: "in-use", MAC: n.MAC, IP: n.PrivateIP,
		SourceCheck: true, Type: n.Type, Attach: interfaceAttachment{
			ID: "eni-attach-" + n.ID[len("eni-"):], Device: n.Device, Card: n.Card, Status: "attached", At: timestamp(i.LaunchedAt), Delete: n.DeleteOnTermination},
	}
	if n.PublicIP != "" {
		x.Public = &publicXML{n.PublicIP, "amazon"}
	}
	if n.PrivateIP != "" {
		x.Addresses = append(x.Addresses, addressXML{n.PrivateIP, true, x.Public})
	}
	for _, ip := range n.Secondary {
		x.Addresses = append(x.Addresses, addressXML{IP: ip})
	}
	for k, ip := range n.IPv6 {
		x.IPv6 = append(x.IPv6, ipv6XML{ip, n.PrimaryIPv6 && k == 0})
	}
	for _, p := range n.IPv4Prefixes {
		x.Prefixes = append(x.Prefixes, prefixXML{p})
	}
	for _, p := range n.IPv6Prefixes {
		x.IPv6Pfx = append(x.IPv6Pfx, ipv6PrefixXML{p})
	}
	if t := n.ConnectionTracking; t != nil {
		x.Tracking = &trackingXML{t.TCPEstablished, t.UDP, t.UDPStream}
	}
	for _, g := range n.Groups {
		x.Groups = append(x.Groups, groupXML{ID: g})
	}
	return x
}

type describeInterfacesInput struct {
	dry
	filtering
	paging
	IDs     []string `q:"NetworkInterfaceId"`
	Managed bool     `q:"IncludeManagedResources"`
}

func (s *ec2Service) describeNetworkInterfaces(_ *call, in *describeInterfacesInput) (any, *cloud.Error) {
	if err := notPagedByID(in.paging, in.IDs, "networkInterfaceIds"); err != nil {
		return nil, err
	}
	all, err := s.cloud.Interfaces(given(in.IDs), in.filters())
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{5, 1000, 1000, false}, func(n cloud.InterfaceRecord) string { return n.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Interfaces []interfaceXML `xml:"networkInterfaceSet>item"`
		Next       string         `xml:"nextToken,omitempty"`
	}
	out.Next = next
	owner := s.cloud.Options().AccountID
	for _, n := range part {
		x := describeInterface(n.Interface, n.Instance, owner)
		x.Zone, x.Attach.Instance, x.Attach.Owner, x.Tags = n.Instance.Zone, n.Instance.ID, owner, xmlTags(n.Tags)
		out.Interfaces = append(out.Interfaces, x)
	}
	return out, nil
}
