package simaws

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

type describeVolumesInput struct {
	dry
	filtering
	paging
	IDs     []string `q:"VolumeId"`
	Managed bool     `q:"IncludeManagedResources"`
}

type volumeXML struct {
	ID          string                `xml:"volumeId"`
	Size        int64                 `xml:"size"`
	Snapshot    string                `xml:"snapshotId"`
	Zone        string                `xml:"availabilityZone"`
	ZoneID      string                `xml:"availabilityZoneId"`
	Status      string                `xml:"status"`
	Created     string                `xml:"createTime"`
	Attachments []volumeAttachmentXML `xml:"attachmentSet>item"`
	Type        string                `xml:"volumeType"`
	IOPS        int                   `xml:"iops,omitempty"`
	Throughput  int                   `xml:"throughput,omitempty"`
	Rate        int                   `xml:"volumeInitializationRate,omitempty"`
	Encrypted   bool                  `xml:"encrypted"`
	Key         string                `xml:"kmsKeyId,omitempty"`
	Multi       bool                  `xml:"multiAttachEnabled"`
	Tags        []xmlTag              `xml:"tagSet>item"`
}

type volumeAttachmentXML struct {
	Volume   string `xml:"volumeId"`
	Instance string `xml:"instanceId"`
	Device   string `xml:"device"`
	Status   string `xml:"status"`
	At       string `xml:"attachTime"`
	Delete   bool   `xml:"deleteOnTermination"`
}

func (s *ec2Service) describeVolumes(_ *call, in *describeVolumesInput) (any, *cloud.Error) {
	if err := notPagedByID(in.paging, in.IDs, "volumeIds"); err != nil {
		return nil, err
	}
	all, err := s.cloud.Volumes(given(in.IDs), in.filters())
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{5, 1000, 1000, false}, func(v cloud.VolumeRecord) string { return v.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Volumes []volumeXML `xml:"volumeSet>item"`
		Next    string      `xml:"nextToken,omitempty"`
	}
	out.Next = next
	for _, v := range part {
		out.Volumes = append(out.Volumes, volumeXML{
			ID: v.ID, Size: v.SizeGiB, Snapshot: v.Snapshot, Zone: v.Zone, ZoneID: v.ZoneID, Status: "in-use", Created: timestamp(v.AttachedAt),
			Attachments: []volumeAttachmentXML{{v.ID, v.Instance, v.Device, "attached", timestamp(v.AttachedAt), v.DeleteOnTermination}},
			Type:        v.Type, IOPS: v.IOPS, Throughput: v.Throughput, Rate: v.InitializationRate, Encrypted: v.Encrypted, Key: v.KMSKey, Tags: xmlTags(v.Tags),
		})
	}
	return out, nil
}

type describeSpotRequestsInput struct {
	dry
	filtering
	paging
	IDs []string `q:"SpotInstanceRequestId"`
}

type spotRequestXML struct {
	ID       string `xml:"spotInstanceRequestId"`
	Kind     string `xml:"type"`
	State    string `xml:"state"`
	Status   string `xml:"status>code"`
	Instance string `xml:"instanceId"`
	Zone     string `xml:"launchedAvailabilityZone"`
	Created  string `xml:"createTime"`
	Product  string `xml:"productDescription"`
	Behavior string `xml:"instanceInterruptionBehavior"`
	Launch   struct {
		Type  string `xml:"instanceType"`
		Image string `xml:"imageId"`
	} `xml:"launchSpecification"`
	Tags []xmlTag `xml:"tagSet>item"`
}

func (s *ec2Service) describeSpotInstanceRequests(_ *call, in *describeSpotRequestsInput) (any, *cloud.Error) {
	if err := notPagedByID(in.paging, in.IDs, "spotInstanceRequestIds"); err != nil {
		return nil, err
	}
	all, err := s.cloud.SpotRequests(given(in.IDs), in.filters())
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{5, 1000, 1000, false}, func(r cloud.SpotRecord) string { return r.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Requests []spotRequestXML `xml:"spotInstanceRequestSet>item"`
		Next     string           `xml:"nextToken,omitempty"`
	}
	out.Next = next
	for _, r := range part {
		i := r.Instance
		x := spotRequestXML{
			ID: r.ID, Kind: "one-time", State: r.State(), Status: "fulfilled", Instance: i.ID, Zone: i.Zone, Created: timestamp(i.LaunchedAt),
			Product: cloud.SpotProduct, Behavior: "terminate", Tags: xmlTags(i.SpotTags),
		}
		if x.State == "closed" {
			x.Status = "instance-terminated-by-user"
			if strings.HasPrefix(i.StateReason, "Server.SpotInstanceTermination") {
				x.Status = "instance-terminated-no-capacity"
			}
		}
		x.Launch.Type, x.Launch.Image = i.Type, i.ImageID
		out.Requests = append(out.Requests, x)
	}
	return out, nil
}

type describeFleetsInput struct {
	dry
	filtering
	paging
	IDs []string `q:"FleetId"`
}

type fleetDataXML struct {
	ID        string             `xml:"fleetId"`
	State     string             `xml:"fleetState"`
	Activity  string             `xml:"activityStatus"`
	Created   string             `xml:"createTime"`
	Token     string             `xml:"clientToken"`
	Kind      string             `xml:"type"`
	Fulfilled int                `xml:"fulfilledCapacity"`
	Total     int                `xml:"targetCapacitySpecification>totalTargetCapacity"`
	Default   string             `xml:"targetCapacitySpecification>defaultTargetCapacityType"`
	Instances []fleetInstanceXML `xml:"fleetInstanceSet>item"`
	Errors    []fleetErrorXML    `xml:"errorSet>item"`
	Tags      []xmlTag           `xml:"tagSet>item"`
}

func (s *ec2Service) describeFleets(_ *call, in *describeFleetsInput) (any, *cloud.Error) {
	all, err := s.cloud.Fleets(given(in.IDs), in.filters())
	if err != nil {
		return nil, err
	}
	var out struct {
		Fleets []fleetDataXML `xml:"fleetSet>item"`
	}
	for _, f := range all {
		answer := describeFleet(f.Result)
		x := fleetDataXML{
			ID: f.ID, State: "active", Activity: "fulfilled", Created: timestamp(f.CreatedAt), Token: f.Request.Token, Kind: "instant",
			Default: f.Request.Want[0].Market, Instances: answer.Instances, Errors: answer.Errors, Tags: xmlTags(f.Tags),
		}
		for _, w := range f.Request.Want {
			x.Total += w.Count
		}
		for _, g := range f.Result.Groups {
			x.Fulfilled += len(g.Instances)
		}
		out.Fleets = append(out.Fleets, x)
	}
	return out, nil
}

type instanceAttributeInput struct {
	dry
	ID        string `q:"InstanceId,required"`
	Attribute string `q:"Attribute,required"`
}

func (in *instanceAttributeInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("DescribeInstanceAttribute", []string{in.ID})
}

type valueXML struct {
	Value string `xml:"value"`
}

type instanceAttributeXML struct {
	ID          string    `xml:"instanceId"`
	UserData    *valueXML `xml:"userData"`
	Type        *valueXML `xml:"instanceType"`
	Shutdown    *valueXML `xml:"instanceInitiatedShutdownBehavior"`
	Termination *valueXML `xml:"disableApiTermination"`
	EBS         *valueXML `xml:"ebsOptimized"`
	Root        *valueXML `xml:"rootDeviceName"`
	Enclave     *struct {
		Enabled bool `xml:"enabled"`
	} `xml:"enclaveOptions"`
	Groups []groupXML `xml:"groupSet>item,omitempty"`
}

func (s *ec2Service) describeInstanceAttribute(_ *call, in *instanceAttributeInput) (any, *cloud.Error) {
	found, err := s.cloud.Instances([]string{in.ID}, nil)
	if err != nil || in.DryRun {
		return done(in.DryRun, err)
	}
	i := found[0]
	out := instanceAttributeXML{ID: i.ID}
	switch in.Attribute {
	case "userData":
		out.UserData = &valueXML{base64.StdEncoding.EncodeToString(i.UserData)}
	case "instanceType":
		out.Type = &valueXML{i.Type}
	case "instanceInitiatedShutdownBehavior":
		out.Shutdown = &valueXML{i.Shutdown}
	case "disableApiTermination":
		out.Termination = &valueXML{"false"}
	case "ebsOptimized":
		out.EBS = &valueXML{strconv.FormatBool(i.EBSOptimized)}
	case "rootDeviceName":
		out.Root = &valueXML{i.RootDevice}
	case "enclaveOptions":
		out.Enclave = &struct {
			Enabled bool `xml:"enabled"`
		}{i.Enclave}
	case "groupSet":
		for _, g := range i.Groups {
			out.Groups = append(out.Groups, groupXML{ID: g})
		}
	default:
		return nil, apiError("UnsupportedOperation", "simaws does not tell the attribute "+in.Attribute)
	}
	return out, nil
}

type describeVPCsInput struct {
	dry
	filtering
	paging
	IDs []string `q:"VpcId"`
}

type vpcXML struct {
	ID      string    `xml:"vpcId"`
	Owner   string    `xml:"ownerId"`
	State   string    `xml:"state"`
	CIDR    string    `xml:"cidrBlock"`
	IPv6    []cidrXML `xml:"ipv6CidrBlockAssociationSet>item"`
	Tenancy string    `xml:"instanceTenancy"`
	Default bool      `xml:"isDefault"`
	Tags    []xmlTag  `xml:"tagSet>item"`
}

type cidrXML struct {
	ID    string `xml:"associationId"`
	CIDR  string `xml:"ipv6CidrBlock"`
	State string `xml:"ipv6CidrBlockState>state"`
}

func (s *ec2Service) describeVPCs(_ *call, in *describeVPCsInput) (any, *cloud.Error) {
	id, cidr, ipv6, tags := s.cloud.VPC()
	var out struct {
		VPCs []vpcXML `xml:"vpcSet>item"`
	}
	for _, want := range in.IDs {
		if want != id {
			return nil, apiError("InvalidVpcID.NotFound", "The vpc ID '"+want+"' does not exist")
		}
	}
	ok, err := cloud.Pass(in.filters(), tags, map[string]string{"vpc-id": id, "cidr": cidr, "cidr-block-association.cidr-block": cidr, "state": "available", "is-default": "false"})
	if err != nil || !ok {
		return out, err
	}
	x := vpcXML{ID: id, Owner: s.cloud.Options().AccountID, State: "available", CIDR: cidr, Tenancy: "default", Tags: xmlTags(tags)}
	if ipv6 != "" {
		x.IPv6 = []cidrXML{{"vpc-cidr-assoc-" + strings.TrimPrefix(id, "vpc-"), ipv6, "associated"}}
	}
	out.VPCs = []vpcXML{x}
	return out, nil
}
