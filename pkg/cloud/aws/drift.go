package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
)

// Drift returns the first reason for which the claim's instance is no longer what the class asks for. What needs the instance is evaluated as a
// whole: an error in one respect hides a hit in another, because the instance cannot be judged.
func (p *Provider) Drift(ctx context.Context, claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass) (cloud.DriftReason, error) {
	if claim.Labels[karpv1.NodePoolLabel] == "" || class == nil || class.DeletionTimestamp != nil {
		return "", nil
	}
	if cloud.HashDrift(claim, class) {
		return cloud.NodeClassDrift, nil
	}
	drifted, err := p.imageDrift(ctx, claim, class)
	if err != nil {
		return "", fmt.Errorf("comparing claim %s with node class %s: %w", claim.Name, class.Name, err)
	}
	if drifted {
		return cloud.AMIDrift, nil
	}
	reason, err := p.instanceDrift(ctx, claim, class)
	if err != nil {
		return "", fmt.Errorf("comparing claim %s with node class %s: %w", claim.Name, class.Name, err)
	}
	return reason, nil
}

// imageDrift reports whether a launch would now use another image for the claim's type.
func (p *Provider) imageDrift(ctx context.Context, claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass) (bool, error) {
	name := claim.Labels[ec2types.LabelInstanceType]
	switch {
	case len(class.Status.AMIs) == 0:
		return false, errors.New("the node class has no images in its status")
	case claim.Status.ImageID == "":
		return false, errors.New("the claim does not tell its image yet")
	}
	types, err := p.InstanceTypes(ctx, class)
	if err != nil {
		return false, err
	}
	for i := range types {
		if types[i].Name != name {
			continue
		}
		image, ok := imageFor(class.Status.AMIs, &types[i])
		if !ok {
			return false, fmt.Errorf("no image of the node class fits %s", name)
		}
		return image.ID != claim.Status.ImageID, nil
	}
	return false, fmt.Errorf("instance type %q is not among those of the node class", name)
}

// instanceDrift compares what EC2 says about the instance.
func (p *Provider) instanceDrift(ctx context.Context, claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass) (cloud.DriftReason, error) {
	id, err := InstanceID(claim.Status.ProviderID)
	if err != nil {
		return "", err
	}
	instance, err := p.recent(ctx, id)
	if err != nil {
		return "", err
	}
	if len(class.Status.SecurityGroups) == 0 || len(class.Status.Subnets) == 0 {
		return "", errors.New("the node class has no subnets or no security groups in its status")
	}
	reserved, err := p.reservationDrift(ctx, instance, class)
	if err != nil {
		return "", err
	}
	switch {
	case !cloud.SameSet(instance.SecurityGroups, groupIDs(class)):
		return cloud.SecurityGroupDrift, nil
	case !slices.ContainsFunc(class.Status.Subnets, func(s awsv1.Subnet) bool { return s.ID == instance.SubnetID }):
		return cloud.SubnetDrift, nil
	case reserved:
		return cloud.CapacityReservationDrift, nil
	case claim.Labels[ec2types.LabelPlacementGroup] != p.groupID(class):
		return cloud.PlacementGroupDrift, nil
	}
	return "", nil
}

// reservationDrift reports whether the instance sits in a reservation that the class does not select. EC2 moves instances of ended reservations
// to on-demand; therefore it is asked again before the answer is yes.
func (p *Provider) reservationDrift(ctx context.Context, instance *cloud.Instance, class *awsv1.EC2NodeClass) (bool, error) {
	foreign := func(i *cloud.Instance) bool {
		return i.ReservationID != "" && !slices.ContainsFunc(class.Status.CapacityReservations, func(r awsv1.CapacityReservation) bool { return r.ID == i.ReservationID })
	}
	if !p.opts.ReservedCapacity || !foreign(instance) {
		return false, nil
	}
	now, err := p.Get(ctx, instance.ID)
	if err != nil {
		return false, err
	}
	return foreign(now), nil
}

// groupID is the placement group that the class launches into, "" if none.
func (p *Provider) groupID(class *awsv1.EC2NodeClass) string {
	if g := p.placement.known(class.Spec.PlacementGroupSelector); g != nil {
		return g.ID
	}
	return ""
}
