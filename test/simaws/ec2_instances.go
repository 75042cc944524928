package simaws

import (
	"strings"
	"time"

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
	Partition int    `xml:"partitionNumber,omitempty"`
}

type interfaceXML struct {
	ID     string     `xml:"networkInterfaceId"`
	Subnet string     `xml:"subnetId"`
	VPC    string     `xml:"vpcId"`
	Owner  string     `xml:"ownerId"`
	Status string     `xml:"status"`
	MAC    string     `xml:"macAddress"`
	IP     string     `xml:"privateIpAddress,omitempty"`
	Type   string     `xml:"interfaceType"`
	Groups []groupXML `xml:"groupSet>item"`
	Attach struct {
		Device int    `xml:"deviceIndex"`
		Card   int    `xml:"networkCardIndex"`
		Status string `xml:"status"`
	} `xml:"attachment"`
}

type instanceXML struct {
	ID           string                 `xml:"instanceId"`
	Image        string                 `xml:"imageId"`
	State        stateXML               `xml:"instanceState"`
	DNS          string                 `xml:"privateDnsName"`
	Reason       string                 `xml:"reason"`
	Type         string                 `xml:"instanceType"`
	Launched     string                 `xml:"launchTime"`
	Placement    placementXML           `xml:"placement"`
	Platform     string                 `xml:"platform,omitempty"`
	Monitoring   string                 `xml:"monitoring>state"`
	Subnet       string                 `xml:"subnetId,omitempty"`
	VPC          string                 `xml:"vpcId,omitempty"`
	IP           string                 `xml:"privateIpAddress,omitempty"`
	Groups       []groupXML             `xml:"groupSet>item"`
	StateReason  *stateReasonXML        `xml:"stateReason"`
	Architecture string                 `xml:"architecture"`
	RootType     string                 `xml:"rootDeviceType"`
	Devices      []deviceXML            `xml:"blockDeviceMapping>item"`
	Virt         string                 `xml:"virtualizationType"`
	Token        string                 `xml:"clientToken"`
	Lifecycle    string                 `xml:"instanceLifecycle,omitempty"`
	SpotRequest  string                 `xml:"spotInstanceRequestId,omitempty"`
	Hypervisor   string                 `xml:"hypervisor"`
	Interfaces   []interfaceXML         `xml:"networkInterfaceSet>item"`
	Profile      *profileXML            `xml:"iamInstanceProfile"`
	Reservation  string                 `xml:"capacityReservationId,omitempty"`
	Preference   *reservationSpecXML    `xml:"capacityReservationSpecification"`
	Metadata     *cloud.MetadataOptions `xml:"metadataOptions"`
	Tags         []xmlTag               `xml:"tagSet>item"`
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
	Preference string `xml:"capacityReservationPreference,omitempty"`
	Target     string `xml:"capacityReservationTarget>capacityReservationId,omitempty"`
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
		ID: i.ID, Image: i.ImageID, State: stateXML{cloud.StateCode(i.State), i.State}, DNS: i.PrivateDNS, Type: i.Type,
		Launched: timestamp(i.LaunchedAt), Placement: placementXML{i.Zone, i.ZoneID, i.Tenancy, i.PlacementGroup, i.Partition},
		Platform: i.Platform, Monitoring: "disabled", Subnet: i.Subnet, VPC: i.VPC, IP: i.PrivateIP, Architecture: i.Architecture,
		RootType: "ebs", Virt: "hvm", Hypervisor: "xen", Token: i.Token, Lifecycle: i.Lifecycle, SpotRequest: i.SpotRequest,
		Reservation: i.CapacityReservation, Preference: &reservationSpecXML{i.ReservationPreference, i.CapacityReservation},
		Metadata: &i.Metadata, Tags: xmlTags(i.Tags),
	}
	for _, g := range i.Groups {
		x.Groups = append(x.Groups, groupXML{ID: g})
	}
	if code, message, ok := strings.Cut(i.StateReason, ": "); ok {
		x.StateReason, x.Reason = &stateReasonXML{code, i.StateReason}, message
	}
	if i.ProfileARN != "" {
		x.Profile = &profileXML{i.ProfileARN, i.ProfileID}
	}
	if i.State == cloud.Terminated { // network and volumes are gone by then
		x.DNS, x.IP, x.Subnet, x.VPC, x.Groups = "", "", "", "", nil
		return x
	}
	for _, v := range i.Volumes {
		d := deviceXML{Name: v.Device}
		d.EBS.ID, d.EBS.Status, d.EBS.Delete = v.ID, "attached", true
		x.Devices = append(x.Devices, d)
	}
	for _, n := range i.Interfaces {
		x.Interfaces = append(x.Interfaces, describeInterface(n, i, owner))
	}
	return x
}

func describeInterface(n cloud.Interface, i *cloud.Instance, owner string) interfaceXML {
	x := interfaceXML{
		ID: n.ID, Subnet: i.Subnet, VPC: i.VPC, Owner: owner, Status: "in-use", MAC: n.MAC, IP: n.PrivateIP, Type: n.Type,
	}
	x.Attach.Device, x.Attach.Card, x.Attach.Status = n.Device, n.Card, "attached"
	for _, g := range n.Groups {
		x.Groups = append(x.Groups, groupXML{ID: g})
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
	var out struct {
		Instances []stateChangeXML `xml:"instancesSet>item"`
	}
	for _, c := range changes {
		out.Instances = append(out.Instances, stateChangeXML{
			c.ID, stateXML{cloud.StateCode(c.Current), c.Current}, stateXML{cloud.StateCode(c.Previous), c.Previous}})
	}
	return out, nil
}

type createTagsInput struct {
	dry
	IDs  []string    `q:"ResourceId,required"`
	Tags []cloud.Tag `q:"Tag,required"`
}

func (s *ec2Service) createTags(_ *call, in *createTagsInput) (any, *cloud.Error) {
	tags := cloud.Tags{}
	for _, t := range in.Tags {
		if err := checkTag(t); err != nil {
			return nil, err
		}
		tags[t.Key] = t.Value
	}
	for _, id := range in.IDs {
		if !strings.HasPrefix(id, "i-") {
			return nil, apiError("InvalidID", "simaws tags instances only; the ID '"+id+"' is not valid")
		}
	}
	if err := s.cloud.TagInstances(in.IDs, tags, in.DryRun); err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	return struct {
		Return bool `xml:"return"`
	}{true}, nil
}

type runInstancesInput struct {
	dry
	Min        int                      `q:"MinCount,required"`
	Max        int                      `q:"MaxCount,required"`
	Template   cloud.TemplateRef        `q:"LaunchTemplate"`
	Type       string                   `q:"InstanceType"`
	ImageID    string                   `q:"ImageId"`
	Subnet     string                   `q:"SubnetId"`
	Interfaces []cloud.InterfaceSpec    `q:"NetworkInterface"`
	Tags       []cloud.TagSpecification `q:"TagSpecification"`
	Token      string                   `q:"ClientToken"`
}

func (s *ec2Service) runInstances(_ *call, in *runInstancesInput) (any, *cloud.Error) {
	if in.Min < 1 || in.Max < in.Min {
		return nil, apiError("InvalidParameterValue", "MinCount must be at least 1 and MaxCount at least MinCount.")
	}
	if err := checkTags(in.Tags, "instance", "volume", "network-interface", "spot-instances-request"); err != nil {
		return nil, err
	}
	if len(in.Interfaces) > 0 && in.Subnet != "" {
		return nil, apiError("InvalidParameterCombination", "Network interfaces and an instance-level subnet ID may not be specified on the same request")
	}
	if err := s.cloud.CheckRun(in.Template, in.Type, in.ImageID, in.Interfaces, in.Subnet); err != nil {
		return nil, err
	}
	if !in.DryRun {
		return nil, apiError("UnsupportedOperation", "simaws implements RunInstances as a dry run only; launch with CreateFleet")
	}
	return nil, dryRun()
}

type describeStatusInput struct {
	dry
	filtering
	paging
	IDs     []string `q:"InstanceId"`
	All     bool     `q:"IncludeAllInstances"`
	Managed bool     `q:"IncludeManagedResources"`
}

type checkXML struct {
	Status  string `xml:"status"`
	Details []struct {
		Name   string `xml:"name"`
		Status string `xml:"status"`
		Since  string `xml:"impairedSince,omitempty"`
	} `xml:"details>item"`
}

type statusXML struct {
	ID       string     `xml:"instanceId"`
	Zone     string     `xml:"availabilityZone"`
	State    stateXML   `xml:"instanceState"`
	System   checkXML   `xml:"systemStatus"`
	Instance checkXML   `xml:"instanceStatus"`
	Events   []eventXML `xml:"eventsSet>item"`
}

type eventXML struct {
	ID          string `xml:"instanceEventId"`
	Code        string `xml:"code"`
	Description string `xml:"description"`
	NotBefore   string `xml:"notBefore"`
}

func (s *ec2Service) describeInstanceStatus(_ *call, in *describeStatusInput) (any, *cloud.Error) {
	if err := notPagedByID(in.paging, in.IDs, "instancesSet"); err != nil {
		return nil, err
	}
	all, err := s.cloud.Statuses(given(in.IDs), in.filters(), in.All)
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{5, 1000, 1000, false}, func(s cloud.Status) string { return s.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Statuses []statusXML `xml:"instanceStatusSet>item"`
		Next     string      `xml:"nextToken,omitempty"`
	}
	out.Next = next
	for _, st := range part {
		x := statusXML{
			ID: st.ID, Zone: st.Zone, State: stateXML{cloud.StateCode(st.State), st.State},
			System: describeCheck(st.SystemCheck(), st.Impairment.Since), Instance: describeCheck(st.InstanceCheck(), st.Impairment.Since),
		}
		if w := st.Impairment; w.EventCode != "" {
			x.Events = []eventXML{{"instance-event-" + strings.TrimPrefix(st.ID, "i-"), w.EventCode, "scheduled event", timestamp(w.EventAt)}}
		}
		out.Statuses = append(out.Statuses, x)
	}
	return out, nil
}

func describeCheck(status string, since time.Time) checkXML {
	x := checkXML{Status: status}
	x.Details = append(x.Details, struct {
		Name   string `xml:"name"`
		Status string `xml:"status"`
		Since  string `xml:"impairedSince,omitempty"`
	}{Name: "reachability", Status: "passed"})
	if status != "ok" {
		x.Details[0].Status, x.Details[0].Since = "failed", timestamp(since)
	}
	return x
}

type describeReservationsInput struct {
	dry
	filtering
	paging
	IDs []string `q:"CapacityReservationId"`
}

type capacityReservationXML struct {
	ID            string   `xml:"capacityReservationId"`
	Owner         string   `xml:"ownerId"`
	Type          string   `xml:"instanceType"`
	Platform      string   `xml:"instancePlatform"`
	Zone          string   `xml:"availabilityZone"`
	ZoneID        string   `xml:"availabilityZoneId"`
	Tenancy       string   `xml:"tenancy"`
	Total         int      `xml:"totalInstanceCount"`
	Available     int      `xml:"availableInstanceCount"`
	State         string   `xml:"state"`
	Start         string   `xml:"startDate"`
	End           string   `xml:"endDate,omitempty"`
	EndType       string   `xml:"endDateType"`
	Match         string   `xml:"instanceMatchCriteria"`
	Kind          string   `xml:"reservationType"`
	Interruptible bool     `xml:"interruptible"`
	Tags          []xmlTag `xml:"tagSet>item"`
}

func (s *ec2Service) describeCapacityReservations(_ *call, in *describeReservationsInput) (any, *cloud.Error) {
	if err := notPagedByID(in.paging, in.IDs, "capacityReservationIds"); err != nil {
		return nil, err
	}
	all, err := s.cloud.Reservations(given(in.IDs), in.filters())
	if err != nil {
		return nil, err
	}
	part, next, err := page(all, in.paging, pageLimits{1, 1000, 1000, false}, func(r cloud.CapacityReservation) string { return r.ID })
	if err != nil {
		return nil, err
	}
	var out struct {
		Reservations []capacityReservationXML `xml:"capacityReservationSet>item"`
		Next         string                   `xml:"nextToken,omitempty"`
	}
	out.Next = next
	for _, r := range part {
		x := capacityReservationXML{
			ID: r.ID, Owner: r.OwnerID, Type: r.Type, Platform: "Linux/UNIX", Zone: r.Zone, ZoneID: r.ZoneID, Tenancy: r.Tenancy,
			Total: r.Total, Available: r.Available, State: r.State, Start: timestamp(r.StartAt), EndType: "unlimited",
			Match: r.MatchCriteria, Kind: r.Kind, Interruptible: r.Interruptible, Tags: xmlTags(r.Tags),
		}
		if !r.EndAt.IsZero() {
			x.End, x.EndType = timestamp(r.EndAt), "limited"
		}
		out.Reservations = append(out.Reservations, x)
	}
	return out, nil
}

type describePlacementGroupsInput struct {
	dry
	filtering
	IDs   []string `q:"GroupId"`
	Names []string `q:"GroupName"`
}

type placementGroupXML struct {
	ID         string   `xml:"groupId"`
	Name       string   `xml:"groupName"`
	Strategy   string   `xml:"strategy"`
	State      string   `xml:"state"`
	Partitions int      `xml:"partitionCount,omitempty"`
	Tags       []xmlTag `xml:"tagSet>item"`
}

func (s *ec2Service) describePlacementGroups(_ *call, in *describePlacementGroupsInput) (any, *cloud.Error) {
	all, err := s.cloud.PlacementGroups(given(in.IDs), given(in.Names), in.filters())
	if err != nil {
		return nil, err
	}
	var out struct {
		Groups []placementGroupXML `xml:"placementGroupSet>item"`
	}
	for _, g := range all {
		out.Groups = append(out.Groups, placementGroupXML{g.ID, g.Name, g.Strategy, g.State, g.Partitions, xmlTags(g.Tags)})
	}
	return out, nil
}
