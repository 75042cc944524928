package simaws

import (
	"strings"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

type describeInstancesInput struct {
	dry
	filtering
	paging
	IDs     []string `q:"InstanceId"`
	Managed bool     `q:"IncludeManagedResources"`
}

type reservationXML struct {
	ID        string        `xml:"reservationId"`
	Owner     string        `xml:"ownerId"`
	Groups    []struct{}    `xml:"groupSet>item"`
	Instances []instanceXML `xml:"instancesSet>item"`
}

type stateXML struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

type groupXML struct {
	ID   string `xml:"groupId"`
	Name string `xml:"groupName,omitempty"`
}

type placementXML struct {
	Zone      string `xml:"availabilityZone"`
	ZoneID    string `xml:"availabilityZoneId"`
	Tenancy   string `xml:"tenancy"`
	Group     string `xml:"groupId,omitempty"`
	GroupName string `xml:"groupName"`
	Partition int    `xml:"partitionNumber,omitempty"`
}

type instanceXML struct {
	ID           string              `xml:"instanceId"`
	Image        string              `xml:"imageId"`
	State        stateXML            `xml:"instanceState"`
	DNS          string              `xml:"privateDnsName"`
	PublicDNS    string              `xml:"dnsName"`
	Reason       string              `xml:"reason"`
	Key          string              `xml:"keyName,omitempty"`
	Index        int                 `xml:"amiLaunchIndex"`
	Type         string              `xml:"instanceType"`
	Launched     string              `xml:"launchTime"`
	Placement    placementXML        `xml:"placement"`
	Platform     string              `xml:"platform,omitempty"`
	Details      string              `xml:"platformDetails"`
	Usage        string              `xml:"usageOperation"`
	Monitoring   string              `xml:"monitoring>state"`
	Subnet       string              `xml:"subnetId,omitempty"`
	VPC          string              `xml:"vpcId,omitempty"`
	IP           string              `xml:"privateIpAddress,omitempty"`
	PublicIP     string              `xml:"ipAddress,omitempty"`
	IPv6         string              `xml:"ipv6Address,omitempty"`
	SourceCheck  bool                `xml:"sourceDestCheck"`
	Groups       []groupXML          `xml:"groupSet>item"`
	StateReason  *stateReasonXML     `xml:"stateReason"`
	Architecture string              `xml:"architecture"`
	RootType     string              `xml:"rootDeviceType"`
	RootName     string              `xml:"rootDeviceName"`
	Devices      []attachedXML       `xml:"blockDeviceMapping>item"`
	Virt         string              `xml:"virtualizationType"`
	Token        string              `xml:"clientToken"`
	Lifecycle    string              `xml:"instanceLifecycle,omitempty"`
	SpotRequest  string              `xml:"spotInstanceRequestId,omitempty"`
	Hypervisor   string              `xml:"hypervisor"`
	ENA          bool                `xml:"enaSupport"`
	EBSOptimized bool                `xml:"ebsOptimized"`
	Interfaces   []interfaceXML      `xml:"networkInterfaceSet>item"`
	Profile      *profileXML         `xml:"iamInstanceProfile"`
	CPU          cpuXML              `xml:"cpuOptions"`
	Hibernation  configuredXML       `xml:"hibernationOptions"`
	Enclave      enabledXML          `xml:"enclaveOptions"`
	Reservation  string              `xml:"capacityReservationId,omitempty"`
	Block        string              `xml:"capacityBlockId,omitempty"`
	Preference   *reservationSpecXML `xml:"capacityReservationSpecification"`
	Metadata     metadataXML         `xml:"metadataOptions"`
	Maintenance  string              `xml:"maintenanceOptions>autoRecovery"`
	DNSOptions   dnsOptionsXML       `xml:"privateDnsNameOptions"`
	BootMode     string              `xml:"currentInstanceBootMode,omitempty"`
	Tags         []xmlTag            `xml:"tagSet>item"`
}

type attachedXML struct {
	Device string `xml:"deviceName"`
	EBS    struct {
		ID     string `xml:"volumeId"`
		Status string `xml:"status"`
		At     string `xml:"attachTime"`
		Delete bool   `xml:"deleteOnTermination"`
	} `xml:"ebs"`
}

type cpuXML struct {
	Cores   int    `xml:"coreCount"`
	Threads int    `xml:"threadsPerCore"`
	SEVSNP  string `xml:"amdSevSnp,omitempty"`
	Nested  string `xml:"nestedVirtualization,omitempty"`
}

type configuredXML struct {
	Configured bool `xml:"configured"`
}

type enabledXML struct {
	Enabled bool `xml:"enabled"`
}

type metadataXML struct {
	State string `xml:"state"`
	cloud.MetadataOptions
}

type dnsOptionsXML struct {
	Host string `xml:"hostnameType"`
	A    bool   `xml:"enableResourceNameDnsARecord"`
	AAAA bool   `xml:"enableResourceNameDnsAAAARecord"`
}

type stateReasonXML struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

type profileXML struct {
	ARN string `xml:"arn"`
	ID  string `xml:"id"`
}

type reservationSpecXML struct {
	Preference string                `xml:"capacityReservationPreference,omitempty"`
	Target     *reservationTargetXML `xml:"capacityReservationTarget"`
}

type reservationTargetXML struct {
	ID string `xml:"capacityReservationId"`
}

func (s *ec2Service) describeInstances(_ *call, in *describeInstancesInput) (any, *cloud.Error) {
	if err := notPagedByID(in.paging, in.IDs, "instancesSet"); err != nil {
		return nil, err
	}
	all, err := s.cloud.Instances(given(in.IDs), in.filters())
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{5, 1000, 1000, false}, func(i *cloud.Instance) string { return i.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Reservations []reservationXML `xml:"reservationSet>item"`
		Next         string           `xml:"nextToken,omitempty"`
	}
	out.Next = next
	owner := s.cloud.Options().AccountID
	at := map[string]int{}
	for _, i := range part {
		n, ok := at[i.Reservation]
		if !ok {
			n = len(out.Reservations)
			at[i.Reservation] = n
			out.Reservations = append(out.Reservations, reservationXML{ID: i.Reservation, Owner: owner})
		}
		out.Reservations[n].Instances = append(out.Reservations[n].Instances, describeInstance(i, owner))
	}
	return out, nil
}

func describeInstance(i *cloud.Instance, owner string) instanceXML {
	x := instanceXML{
		ID: i.ID, Image: i.ImageID, State: stateXML{cloud.StateCode(i.State), i.State}, DNS: i.PrivateDNS, Type: i.Type, Key: i.KeyName,
		Launched: timestamp(i.LaunchedAt), Placement: placementXML{i.Zone, i.ZoneID, i.Tenancy, i.PlacementGroup, i.PlacementGroupName, i.Partition},
		Platform: i.Platform, Details: "Linux/UNIX", Usage: "RunInstances", Monitoring: "disabled", Subnet: i.Subnet, VPC: i.VPC, IP: i.PrivateIP,
		PublicIP: i.PublicIP, IPv6: i.IPv6, SourceCheck: true, Architecture: i.Architecture, RootType: "ebs", RootName: i.RootDevice, Virt: "hvm",
		Hypervisor: "xen", ENA: true, EBSOptimized: i.EBSOptimized, Token: i.Token, Lifecycle: i.Lifecycle, SpotRequest: i.SpotRequest,
		CPU: cpuXML{i.Cores, i.ThreadsPerCore, i.AMDSEVSNP, i.NestedVirtualization}, Enclave: enabledXML{i.Enclave},
		Reservation: i.CapacityReservation, Preference: &reservationSpecXML{Preference: i.ReservationPreference}, Maintenance: "default",
		Metadata: metadataXML{"applied", i.Metadata}, DNSOptions: dnsOptionsXML{Host: "ip-name"}, BootMode: "uefi", Tags: xmlTags(i.Tags),
	}
	if i.ReservationTarget != "" {
		x.Preference.Target = &reservationTargetXML{i.ReservationTarget}
	}
	if i.Lifecycle == "capacity-block" {
		x.Block = "cb-" + strings.TrimPrefix(i.CapacityReservation, "cr-")
	}
	if i.Platform == "windows" {
		x.Details, x.Usage = "Windows", "RunInstances:0002"
	}
	if i.Monitoring {
		x.Monitoring = "enabled"
	}
	if code, message, ok := strings.Cut(i.StateReason, ": "); ok {
		x.StateReason, x.Reason = &stateReasonXML{code, i.StateReason}, message
	}
	if i.ProfileARN != "" {
		x.Profile = &profileXML{i.ProfileARN, i.ProfileID}
	}
	for _, g := range i.Groups {
		x.Groups = append(x.Groups, groupXML{ID: g})
	}
	if i.State == cloud.Terminated { // network and volumes are gone by then
		x.DNS, x.IP, x.PublicIP, x.IPv6, x.Subnet, x.VPC, x.Groups = "", "", "", "", "", "", nil
		return x
	}
	for _, v := range i.Volumes {
		d := attachedXML{Device: v.Device}
		d.EBS.ID, d.EBS.Status, d.EBS.At, d.EBS.Delete = v.ID, "attached", timestamp(v.AttachedAt), v.DeleteOnTermination
		x.Devices = append(x.Devices, d)
	}
	for _, n := range i.Interfaces {
		x.Interfaces = append(x.Interfaces, describeInterface(n, i, owner))
	}
	return x
}

type terminateInstancesInput struct {
	dry
	IDs   []string `q:"InstanceId,required"`
	Force bool     `q:"Force"`
	Skip  bool     `q:"SkipOsShutdown"`
}

type stateChangeXML struct {
	ID       string   `xml:"instanceId"`
	Current  stateXML `xml:"currentState"`
	Previous stateXML `xml:"previousState"`
}

func (in *terminateInstancesInput) needs(s *ec2Service) []cloud.Demand {
	return s.onResources("TerminateInstances", in.IDs)
}

func (s *ec2Service) terminateInstances(_ *call, in *terminateInstancesInput) (any, *cloud.Error) {
	if len(in.IDs) > 1000 {
		return nil, apiError("InvalidParameterValue", "At most 1000 instances can be terminated in one call.")
	}
	changes, err := s.cloud.Terminate(in.IDs, in.DryRun)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	return stateChanges(changes), nil
}

type stateChangesXML struct {
	Instances []stateChangeXML `xml:"instancesSet>item"`
}

func stateChanges(changes []cloud.StateChange) (out stateChangesXML) {
	for _, c := range changes {
		out.Instances = append(out.Instances, stateChangeXML{
			c.ID, stateXML{cloud.StateCode(c.Current), c.Current}, stateXML{cloud.StateCode(c.Previous), c.Previous}})
	}
	return out
}
