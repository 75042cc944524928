package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// existing passes every state but terminated.
func existing() et.Filter {
	return filter("instance-state-name", "pending", "running", "stopping", "stopped", "shutting-down")
}

// youngFor is how long after its launch an instance that EC2 does not show is taken to be invisible yet rather than gone.
const youngFor = 5 * time.Minute

// Get reads one instance from EC2. One that this process has launched a moment ago and that EC2 does not show yet is an error, not
// *cloud.NotFound: nothing may be concluded from it. In a zone that traffic was shifted away from, the last answer counts.
func (p *Provider) Get(ctx context.Context, id string) (*cloud.Instance, error) {
	if known, shifted := p.seen.shifted(id, p.shifts); shifted {
		return known, nil
	}
	found, err := p.describing.do(ctx, id)
	if _, missing := errors.AsType[*cloud.NotFound](err); missing {
		return nil, p.missing(id, false)
	}
	if err != nil {
		return nil, err
	}
	if found.State != nil && found.State.Name == et.InstanceStateNameTerminated {
		return nil, p.missing(id, true)
	}
	p.young.drop(id)
	i := p.instance(found)
	p.seen.put(i)
	return i, nil
}

// missing notes that an instance is not there, and says what that means. The place it had in a reservation is free again.
func (p *Provider) missing(id string, terminated bool) error {
	if _, young := p.young.get(id); young && !terminated {
		return fmt.Errorf("describing instance %s: it was launched a moment ago and EC2 does not show it yet", id)
	}
	if gone := p.seen.drop(id); gone != nil && gone.ReservationID != "" {
		p.reservations.freed(gone.ReservationID)
	}
	return &cloud.NotFound{ID: id}
}

// recent returns the instance as it was at most two minutes ago.
func (p *Provider) recent(ctx context.Context, id string) (*cloud.Instance, error) {
	if known := p.seen.get(id); known != nil {
		return known, nil
	}
	return p.Get(ctx, id)
}

// describeSome reads several instances at once. EC2 refuses the whole call when one of them does not exist.
func (p *Provider) describeSome(ctx context.Context, ids []string) (map[string]*et.Instance, error) {
	pages := ec2.NewDescribeInstancesPaginator(p.api.describe, &ec2.DescribeInstancesInput{InstanceIds: ids})
	out := map[string]*et.Instance{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("describing %d instances: %w", len(ids), err)
		}
		for _, r := range page.Reservations {
			for i := range r.Instances {
				out[val(r.Instances[i].InstanceId)] = &r.Instances[i]
			}
		}
	}
	return out, nil
}

// describeOne reads one instance; *cloud.NotFound if there is none.
func (p *Provider) describeOne(ctx context.Context, id string) (*et.Instance, error) {
	out, err := p.api.describe.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if code(err) == codeInstanceNotFound {
		return nil, &cloud.NotFound{ID: id}
	}
	if err != nil {
		return nil, fmt.Errorf("describing instance %s: %w", id, err)
	}
	var found []*et.Instance
	for _, r := range out.Reservations {
		for i := range r.Instances {
			found = append(found, &r.Instances[i])
		}
	}
	switch len(found) {
	case 0:
		return nil, &cloud.NotFound{ID: id}
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("describing instance %s: EC2 returned %d instances", id, len(found))
}

// List returns every instance with our cluster's tags. When a page fails, the listing holds what was read, Complete is false and the error
// tells why.
func (p *Provider) List(ctx context.Context) (cloud.Listing, error) {
	out, err := p.list(ctx, filter("tag-key", awsv1.TagNodePool), filter("tag-key", awsv1.TagEC2NodeClass), filter("tag:"+awsv1.TagClusterName, p.opts.ClusterName))
	if err == nil {
		p.seen.replace(out.Instances, p.shifts)
	}
	return out, err
}

func (p *Provider) list(ctx context.Context, filters ...et.Filter) (cloud.Listing, error) {
	out := cloud.Listing{At: p.clock.Now()}
	pages := ec2.NewDescribeInstancesPaginator(p.api.describe, &ec2.DescribeInstancesInput{Filters: append(filters, existing()), MaxResults: new(int32(1000))})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return out, fmt.Errorf("listing instances: %w", err)
		}
		for _, r := range page.Reservations {
			for i := range r.Instances {
				out.Instances = append(out.Instances, *p.instance(&r.Instances[i]))
			}
		}
	}
	slices.SortFunc(out.Instances, func(a, b cloud.Instance) int { return cmp.Compare(a.ID, b.ID) })
	out.Complete = true
	return out, nil
}

// byLaunchID returns the instance that carries the identity tag, nil if there is none.
func (p *Provider) byLaunchID(ctx context.Context, launchID string) (*cloud.Instance, error) {
	found, err := p.list(ctx, filter("tag:"+awsv1.TagLaunchID, launchID), filter("tag:"+awsv1.TagClusterName, p.opts.ClusterName))
	if err != nil || len(found.Instances) == 0 {
		return nil, err
	}
	return &found.Instances[0], nil
}

// Terminate asks for the end of an instance. It may be repeated; once the instance has ended the answer is *cloud.NotFound. In a zone that
// traffic was shifted away from, it is a *cloud.ZoneShifted.
func (p *Provider) Terminate(ctx context.Context, id string) error {
	have, err := p.Get(ctx, id)
	if err != nil {
		return err
	}
	if have.Gone() {
		return nil
	}
	if p.shifts.away(have.Labels[ec2types.LabelZoneID]) {
		return &cloud.ZoneShifted{ID: id, Zone: have.Zone}
	}
	_, err = p.terminating.do(ctx, id)
	if err != nil && code(err) != codeInstanceNotFound {
		p.opts.Observer.TerminationFailed(have.Zone, have.Labels[ec2types.LabelZoneID])
	}
	if code(err) == codeInstanceNotFound {
		return p.missing(id, true)
	}
	return err
}

// terminateSome ends several instances at once and returns those that are ending.
func (p *Provider) terminateSome(ctx context.Context, ids []string) (map[string]struct{}, error) {
	out, err := p.api.terminate.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	if err != nil {
		return nil, fmt.Errorf("terminating %d instances: %w", len(ids), err)
	}
	ending := map[string]struct{}{}
	for _, t := range out.TerminatingInstances {
		if s := t.CurrentState; s != nil && (s.Name == et.InstanceStateNameShuttingDown || s.Name == et.InstanceStateNameTerminated) {
			ending[val(t.InstanceId)] = struct{}{}
		}
	}
	return ending, nil
}

func (p *Provider) terminateOne(ctx context.Context, id string) (struct{}, error) {
	_, err := p.api.terminate.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		err = fmt.Errorf("terminating instance %s: %w", id, err)
	}
	return struct{}{}, err
}

// Tag adds tags to an instance; those of the same keys are replaced.
func (p *Provider) Tag(ctx context.Context, id string, tags map[string]string) error {
	if len(tags) == 0 {
		return nil
	}
	if err := p.untouchable(ctx, id); err != nil {
		return err
	}
	_, err := p.api.tag.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: tagList(tags)})
	if code(err) == codeInstanceNotFound {
		return &cloud.NotFound{ID: id}
	}
	if err != nil {
		return fmt.Errorf("tagging instance %s: %w", id, err)
	}
	return nil
}

// untouchable returns a *cloud.ZoneShifted for an instance in a zone that traffic was shifted away from.
func (p *Provider) untouchable(ctx context.Context, id string) error {
	if len(p.shifts.zones()) == 0 {
		return nil
	}
	have, err := p.recent(ctx, id)
	if err != nil {
		return err
	}
	if p.shifts.away(have.Labels[ec2types.LabelZoneID]) {
		return &cloud.ZoneShifted{ID: id, Zone: have.Zone}
	}
	return nil
}

// ProviderID is the id of a node in Kubernetes.
func ProviderID(zone, id string) string { return "aws:///" + zone + "/" + id }

// InstanceID reads the instance id of a provider ID, which is <anything>:///<zone>/<id>.
func InstanceID(providerID string) (string, error) {
	_, path, ok := strings.Cut(providerID, ":///")
	zone, id, slash := strings.Cut(path, "/")
	if !ok || !slash || zone == "" || id == "" || strings.Contains(id, "/") {
		return "", fmt.Errorf("provider ID %q is not of the form aws:///zone/instance", providerID)
	}
	return id, nil
}

// instance reads what EC2 describes. Capacity is not known then: it depends on the class.
func (p *Provider) instance(in *et.Instance) *cloud.Instance {
	tags := map[string]string{}
	for _, t := range in.Tags {
		tags[val(t.Key)] = val(t.Value)
	}
	out := &cloud.Instance{
		ID: val(in.InstanceId), Type: string(in.InstanceType), ImageID: val(in.ImageId), SubnetID: val(in.SubnetId), Launched: val(in.LaunchTime),
		CapacityType: capacityTypeOfInstance(in), Tags: tags, LaunchID: tags[awsv1.TagLaunchID], Token: tags[awsv1.TagLaunchToken],
		Annotations: map[string]string{},
	}
	for _, g := range in.SecurityGroups {
		out.SecurityGroups = append(out.SecurityGroups, val(g.GroupId))
	}
	if in.State != nil {
		out.State = string(in.State.Name)
	}
	zone := ec2types.Zone{}
	tenancy, group := "", ""
	if l := in.Placement; l != nil {
		zone = ec2types.Zone{Name: val(l.AvailabilityZone), ID: val(l.AvailabilityZoneId)}
		tenancy, group = string(l.Tenancy), val(l.GroupId)
	}
	out.Zone, out.ProviderID, out.PlacementGroupID = zone.Name, ProviderID(zone.Name, out.ID), group
	if out.CapacityType == catalog.Reserved {
		out.ReservationID = val(in.CapacityReservationId)
	}
	class := ec2types.Class{Family: ec2types.Custom, Zones: []ec2types.Zone{zone}}
	if t := p.derived(out.Type, &class, 0); t != nil {
		out.Labels = instanceLabels(t, out.CapacityType, cmp.Or(tenancy, awsv1.TenancyDefault), tags[awsv1.TagNodePool])
	}
	if in.Platform != "" {
		delete(out.Labels, ec2types.LabelOS)
		delete(out.Labels, ec2types.LabelWindowsBuild)
	}
	if out.CapacityType == catalog.Reserved && out.Labels != nil {
		b := booking{val(in.CapacityReservationId), string(awsv1.ReservationDefault), in.InstanceLifecycle == et.InstanceLifecycleTypeInterruptibleCapacityReservation}
		if in.InstanceLifecycle == et.InstanceLifecycleTypeCapacityBlock {
			b.Kind = string(awsv1.ReservationCapacityBlock)
		}
		maps.Copy(out.Labels, b.labels())
	}
	if group != "" && out.Labels != nil {
		out.Labels[ec2types.LabelPlacementGroup] = group
		if n := in.Placement.PartitionNumber; n != nil {
			out.Labels[ec2types.LabelPartition] = strconv.Itoa(int(*n))
		}
	}
	return out
}

func capacityTypeOfInstance(in *et.Instance) string {
	if val(in.SpotInstanceRequestId) != "" || in.InstanceLifecycle == et.InstanceLifecycleTypeSpot {
		return catalog.Spot
	}
	if s := in.CapacityReservationSpecification; val(in.CapacityReservationId) != "" && s != nil &&
		s.CapacityReservationPreference == et.CapacityReservationPreferenceCapacityReservationsOnly {
		return catalog.Reserved
	}
	return catalog.OnDemand
}

// derived returns the type as a class of one zone runs it, nil if nothing is known about it.
func (p *Provider) derived(name string, class *ec2types.Class, memory int64) *catalog.InstanceType {
	facts, ok := p.facts.typeOf(name)
	if !ok || facts.Partial {
		return nil
	}
	offered := make([]string, 0, 1)
	for _, z := range class.Zones {
		offered = append(offered, z.Name)
	}
	t, err := ec2types.Derive(ec2types.Input{
		Type: facts, Settings: p.settings(), Class: class, Offered: offered, ObservedMemory: memory,
		Market: func(ec2types.Ask) ec2types.Quote { return ec2types.Quote{} },
	})
	if err != nil {
		return nil
	}
	return &t
}

// instanceLabels are the labels of the type that have one value, and what was chosen at the launch.
func instanceLabels(t *catalog.InstanceType, capacityType, tenancy, pool string) map[string]string {
	out := map[string]string{}
	for _, e := range t.Requirements {
		if e.Operator == constraint.In && len(e.Values) == 1 {
			out[e.Key] = e.Values[0]
		}
	}
	for _, key := range []string{ec2types.LabelReservationID, ec2types.LabelReservationType, ec2types.LabelInterruptible, ec2types.LabelPartition} {
		delete(out, key)
	}
	out[ec2types.LabelCapacityType], out[ec2types.LabelTenancy] = capacityType, tenancy
	if pool != "" {
		out[karpv1.NodePoolLabel] = pool
	}
	return out
}

// fleetInstance reads the instance of a fleet's answer, nil if it has none. What the answer does not tell comes from the recorded request.
func (p *Provider) fleetInstance(request *cloud.Request, body *payload, out *ec2.CreateFleetOutput) *cloud.Instance {
	i := slices.IndexFunc(out.Instances, func(f et.CreateFleetInstance) bool { return len(f.InstanceIds) > 0 })
	if i < 0 {
		return nil
	}
	in := &out.Instances[i]
	typ, subnet, zone := fleetTarget(body, in.LaunchTemplateAndOverrides)
	typ = cmp.Or(string(in.InstanceType), typ)
	subnet, zone = cmp.Or(val(in.SubnetId), subnet), cmp.Or(val(in.AvailabilityZone), zone)
	result := &cloud.Instance{
		ID: slices.Min(in.InstanceIds), Type: typ, Zone: zone, SubnetID: subnet, CapacityType: request.CapacityType, State: "pending",
		Launched: p.clock.Now().Truncate(time.Second), Tags: body.allTags(request), LaunchID: request.LaunchID, Token: request.Token,
		Annotations: maps.Clone(body.Annotations), Price: body.price(typ, zone),
	}
	result.ProviderID = ProviderID(zone, result.ID)
	if o := in.LaunchTemplateAndOverrides; o != nil && o.Overrides != nil {
		result.ImageID = val(o.Overrides.ImageId)
	}
	template := body.template(typ, zone)
	if template != nil {
		result.ImageID = cmp.Or(result.ImageID, template.Image)
	}
	p.describeNode(result, body, template)
	return result
}

// describeNode adds labels and capacity, as the class recorded in the request runs the type.
func (p *Provider) describeNode(i *cloud.Instance, body *payload, template *payloadTemplate) {
	class := body.Class
	class.Zones = []ec2types.Zone{{Name: i.Zone}}
	for _, s := range body.Subnets {
		if s.Zone == i.Zone {
			class.Zones[0].ID = s.ZoneID
		}
	}
	t := p.derived(i.Type, &class, p.memory.get(i.Type, body.Images))
	if t == nil {
		return
	}
	i.Labels = instanceLabels(t, i.CapacityType, body.Tenancy, body.Pool)
	if template != nil && template.Booking.ID != "" {
		maps.Copy(i.Labels, template.Booking.labels())
	}
	if g := class.PlacementGroup; g != nil && g.Strategy == "partition" {
		i.Labels[ec2types.LabelPartition] = body.Partition
	}
	i.Capacity, i.Allocatable = nonZero(t.Capacity), nonZero(t.Allocatable())
	if len(class.NICs) == 0 && (template == nil || template.EFAs == 0) {
		delete(i.Capacity, ec2types.EFA)
		delete(i.Allocatable, ec2types.EFA)
	}
}

func nonZero(l units.List) units.List {
	out := l.Clone()
	maps.DeleteFunc(out, func(_ string, v int64) bool { return v == 0 })
	return out
}
