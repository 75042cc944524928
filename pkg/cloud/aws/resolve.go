package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/apis/conditions"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/units"
)

// fewTypes is below how many types an on-demand launch that could have been spot is worth a warning.
const fewTypes = 5

// nipSlots is the resource whose request turns enclaves on.
const nipSlots = "eks.amazonaws.com/nip-slots"

// Resolve turns a claim into the CreateFleet call that Launch will send, and makes the launch templates it names.
func (p *Provider) Resolve(ctx context.Context, claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass, identity cloud.Identity) (*cloud.Request, error) {
	if err := ready(class); err != nil {
		return nil, err
	}
	types, err := p.InstanceTypes(ctx, class)
	if err != nil {
		return nil, &cloud.CreateFailed{Reason: karpv1.ReasonInstanceTypeResolutionFailed, Err: err}
	}
	if pool := claim.Labels[karpv1.NodePoolLabel]; p.opts.Overlay != nil && pool != "" {
		if types, err = p.opts.Overlay(ctx, pool, types); err != nil {
			return nil, &cloud.CreateFailed{Reason: karpv1.ReasonInstanceTypeResolutionFailed, Err: fmt.Errorf("applying node overlays: %w", err)}
		}
	}
	w := wishOf(claim)
	relaxed := claim.Annotations[karpv1.MinValuesRelaxedAnnotation] == "true"
	list, err := candidates(types, &w, relaxed)
	if err != nil {
		return nil, err
	}
	capacityType := capacityTypeOf(list)
	if capacityType == catalog.OnDemand && w.admits(ec2types.LabelCapacityType, catalog.Spot) && len(list) < fewTypes {
		p.log.WarnContext(ctx, "launching on-demand although spot is admitted, and few types are: allow more types", "claim", claim.Name, "types", len(list))
	}
	list = restrict(list, func(o *catalog.Offering) bool { return o.CapacityType == capacityType })
	r := &resolution{Provider: p, claim: claim, class: class, wish: &w, capacityType: capacityType, relaxed: relaxed}
	body, holds, err := r.payload(ctx, list)
	if err != nil {
		p.subnets.giveBack(holds, "")
		return nil, err
	}
	request, err := freeze(body, capacityType, identity)
	if err != nil {
		return nil, err
	}
	p.holds.put(request.Token, holds)
	return request, nil
}

// ready checks that the class can be launched from now.
func ready(class *awsv1.EC2NodeClass) error {
	if class.DeletionTimestamp != nil {
		return &cloud.NoCapacity{Detail: fmt.Sprintf("node class %s is being deleted", class.Name)}
	}
	c, _ := conditions.Find(class.Status.Conditions, karpv1.ConditionReady)
	switch {
	case c.Status == metav1.ConditionFalse:
		return &cloud.ClassNotReady{Detail: fmt.Sprintf("%s: %s", class.Name, c.Message)}
	case c.Status != metav1.ConditionTrue:
		return &cloud.CreateFailed{Reason: karpv1.ReasonNodeClassReadinessUnknown, Err: fmt.Errorf("node class %s: %s", class.Name, cmp.Or(c.Message, "not looked at yet"))}
	case c.ObservedGeneration != class.Generation:
		return &cloud.ClassNotReady{Detail: fmt.Sprintf("%s: its last change has not been looked at yet", class.Name)}
	}
	if err := class.ValidateTags(); err != nil {
		return &cloud.ClassNotReady{Detail: fmt.Sprintf("%s: %v", class.Name, err)}
	}
	return nil
}

// resolution is one claim on its way to a request.
type resolution struct {
	*Provider
	claim        *karpv1.NodeClaim
	class        *awsv1.EC2NodeClass
	wish         *wish
	capacityType string
	relaxed      bool
}

func (r *resolution) payload(ctx context.Context, list []candidate) (*payload, []hold, error) {
	if len(r.class.Status.Subnets) == 0 {
		return nil, nil, &cloud.CreateFailed{Reason: karpv1.ReasonSubnetResolutionFailed, Err: errors.New("the node class has no subnets in its status")}
	}
	if len(r.class.Status.SecurityGroups) == 0 || len(r.class.Status.AMIs) == 0 {
		return nil, nil, &cloud.CreateFailed{Reason: karpv1.ReasonLaunchFailed, Err: errors.New("the node class has no images or no security groups in its status")}
	}
	groups := r.group(list)
	if len(groups) == 0 {
		return nil, nil, &cloud.CreateFailed{Reason: karpv1.ReasonLaunchFailed, Err: errors.New("no image of the node class fits a type of the claim")}
	}
	chosen, holds := r.subnets.take(r.class.Status.Subnets, podsPerZone(list))
	out := &payload{
		Version: payloadVersion, Tenancy: r.wish.tenancy(), Partition: r.wish.partition(),
		Prioritized: r.claim.Annotations[karpv1.PriceOverlayAppliedAnnotation] == "true",
		Pool:        r.claim.Labels[karpv1.NodePoolLabel], ClassName: r.class.Name,
		Tags: r.launchTags(r.class, r.claim.Labels[karpv1.NodePoolLabel]),
		Annotations: map[string]string{
			awsv1.HashAnnotation: r.class.Hash(r.CABundle()), awsv1.HashVersionAnnotation: awsv1.HashVersion,
			awsv1.InstanceProfileAnnotation: r.class.Status.InstanceProfile,
		},
		Images: imagesKey(r.class.Status.AMIs), Class: r.typesOf(r.class),
	}
	if !r.relaxed {
		out.Context = val(r.class.Spec.Context)
	}
	out.Class.Reservations = nil // those that count are in the templates
	index := r.usedSubnets(out, list, chosen)
	for _, key := range slices.SortedFunc(maps.Keys(groups), templateKey.compare) {
		t, err := r.template(ctx, key, groups[key], index)
		if err != nil {
			return nil, holds, err
		}
		if len(t.Types) > 0 {
			out.Templates = append(out.Templates, t)
		}
	}
	if len(out.Templates) == 0 {
		return nil, holds, &cloud.CreateFailed{Reason: karpv1.ReasonLaunchFailed, Err: errors.New("no subnet of the node class is in a zone of an available offering")}
	}
	return out, holds, nil
}

// usedSubnets lists the chosen subnets that an offering can use, by zone, and returns their index by zone.
func (r *resolution) usedSubnets(out *payload, list []candidate, chosen map[string]awsv1.Subnet) map[string]int {
	used := podsPerZone(list)
	index := map[string]int{}
	for _, zone := range slices.Sorted(maps.Keys(chosen)) {
		if _, ok := used[zone]; ok {
			index[zone] = len(out.Subnets)
			out.Subnets = append(out.Subnets, payloadSubnet{chosen[zone].ID, zone, chosen[zone].ZoneID})
		}
	}
	return index
}

// podsPerZone is for each zone of an offering the least number of pods of a type that may be launched there.
func podsPerZone(list []candidate) map[string]int {
	out := map[string]int{}
	for _, c := range list {
		for _, o := range c.offers {
			n := int(c.Capacity[units.Pods])
			if have, ok := out[o.Zone]; !ok || n < have {
				out[o.Zone] = n
			}
		}
	}
	return out
}

// group sorts the candidates into launch templates. Types without image are left out.
func (r *resolution) group(list []candidate) map[templateKey][]candidate {
	out := map[templateKey][]candidate{}
	for _, c := range list {
		image, ok := imageFor(r.class.Status.AMIs, c.InstanceType)
		if !ok {
			continue
		}
		key := templateKey{image: image.ID, pods: c.Capacity[units.Pods]}
		if r.wish.requests[ec2types.EFA] > 0 && len(r.class.Spec.NetworkInterfaces) == 0 {
			key.efas = int(c.Capacity[ec2types.EFA])
		}
		if r.capacityType != catalog.Reserved {
			out[key] = append(out[key], c)
			continue
		}
		for _, o := range c.offers {
			key.booking = bookingOf(&o)
			out[key] = append(out[key], candidate{c.InstanceType, []catalog.Offering{o}})
		}
	}
	return out
}

// template makes sure that the launch template of a group exists, and lists its types.
func (r *resolution) template(ctx context.Context, key templateKey, list []candidate, index map[string]int) (payloadTemplate, error) {
	out := payloadTemplate{Image: key.image, EFAs: key.efas, Booking: key.booking}
	for _, c := range list {
		if t := overrides(c, index); len(t.Subnets) > 0 {
			out.Types = append(out.Types, t)
		}
	}
	if len(out.Types) == 0 {
		return out, nil
	}
	in, err := r.templateInput(ctx, nodeSpec{
		class: r.class, image: key.image, capacityType: r.capacityType, tenancy: r.wish.tenancy(), pods: key.pods, efas: key.efas,
		pool: r.claim.Labels[karpv1.NodePoolLabel], labels: r.claim.Labels, taints: r.claim.Spec.Taints, startup: r.claim.Spec.StartupTaints,
		enclave: r.wish.requests[nipSlots] > 0, partition: r.wish.partition(), booking: key.booking,
	})
	if notReady, ok := errors.AsType[*cloud.ClassNotReady](err); ok {
		return out, notReady
	}
	if err == nil {
		err = r.templates.ensure(ctx, in)
	}
	if err != nil {
		return out, failed(err)
	}
	out.Name = *in.LaunchTemplateName
	return out, nil
}

// overrides lists the subnets of a type by zone; of several offerings in a zone (partitions) the cheapest counts.
func overrides(c candidate, index map[string]int) payloadType {
	prices := map[int]units.Money{}
	for _, o := range c.offers {
		i, ok := index[o.Zone]
		if !ok {
			continue
		}
		if have, known := prices[i]; !known || o.Price < have {
			prices[i] = o.Price
		}
	}
	out := payloadType{Name: c.Name}
	for _, i := range slices.Sorted(maps.Keys(prices)) {
		out.Subnets, out.Prices = append(out.Subnets, i), append(out.Prices, prices[i])
	}
	if len(slices.Compact(slices.Clone(out.Prices))) == 1 {
		out.Prices = out.Prices[:1]
	}
	return out
}

func minValues(r karpv1.Requirement) int { return val(r.MinValues) }
