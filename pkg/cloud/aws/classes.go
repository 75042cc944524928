package aws

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/apis/conditions"
)

// observation is one pass over what a class refers to. Its class is a private copy whose status is filled.
type observation struct {
	*Provider
	class *awsv1.EC2NodeClass
	now   time.Time
}

// Observe resolves what the class refers to and returns the status that follows. Every part is looked at even if an earlier one failed; a
// part that AWS does not answer about keeps its former value and condition, and the error tells.
func (p *Provider) Observe(ctx context.Context, class *awsv1.EC2NodeClass, now time.Time) (awsv1.EC2NodeClassStatus, error) {
	o := &observation{Provider: p, class: class.DeepCopy(), now: now}
	o.class.Status.Conditions = o.classKind().Init(o.class.Status.Conditions, conditions.Of(class))
	var errs []error
	for _, step := range []struct {
		condition string
		run       func(context.Context) error
	}{
		{awsv1.ConditionAMIsReady, o.observeImages}, {awsv1.ConditionCapacityReservationsReady, o.observeReservations}, {awsv1.ConditionPlacementGroupReady, o.observePlacement},
		{awsv1.ConditionSubnetsReady, o.observeSubnets}, {awsv1.ConditionSecurityGroupsReady, o.observeGroups}, {awsv1.ConditionInstanceProfileReady, o.observeProfile},
		{awsv1.ConditionValidationSucceeded, o.validate},
	} {
		if err := step.run(ctx); err != nil {
			o.unresolved(step.condition, err)
			errs = append(errs, err)
		}
	}
	err := errors.Join(errs...)
	if err != nil {
		err = fmt.Errorf("observing node class %s: %w", class.Name, err)
	}
	return o.class.Status, err
}

// classKind is the set of conditions of a class.
func (p *Provider) classKind() conditions.Kind {
	return conditions.EC2NodeClass(p.opts.ReservedCapacity)
}

func (o *observation) set(c metav1.Condition) {
	o.class.Status.Conditions = o.classKind().Set(o.class.Status.Conditions, conditions.Of(o.class), c, o.now)
}

// unresolved says on the class why a condition could not be decided. One that is decided for this generation stays: a call that fails now and then
// must not stop launches from a class that was found good.
func (o *observation) unresolved(condition string, err error) {
	c, _ := conditions.Find(o.class.Status.Conditions, condition)
	if c.Status != metav1.ConditionUnknown && c.ObservedGeneration == o.class.Generation {
		return
	}
	o.set(conditions.Unknown(condition, conditions.ReasonAwaitingReconciliation, conditions.Truncate(err.Error())))
}

func (o *observation) observeImages(ctx context.Context) error {
	found, err := o.images.resolve(ctx, o.class, o.cluster.kubeVersion())
	if e, ok := errors.AsType[*unsupportedAlias](err); ok {
		o.class.Status.AMIs = nil
		o.set(conditions.False(awsv1.ConditionAMIsReady, awsv1.ReasonUnsupportedAlias, e.text))
		return nil
	}
	if err != nil {
		return err
	}
	o.class.Status.AMIs = found
	if len(found) == 0 {
		o.set(conditions.False(awsv1.ConditionAMIsReady, awsv1.ReasonAMINotFound, "amiSelectorTerms match no available image for amd64 or arm64"))
		return nil
	}
	o.set(conditions.True(awsv1.ConditionAMIsReady))
	return nil
}

func (o *observation) observeReservations(ctx context.Context) error {
	if !o.opts.ReservedCapacity {
		return nil
	}
	found, err := o.reservations.resolve(ctx, o.class)
	if err != nil {
		return err
	}
	o.class.Status.CapacityReservations = found
	o.set(conditions.True(awsv1.ConditionCapacityReservationsReady))
	return nil
}

func (o *observation) observePlacement(ctx context.Context) error {
	selector := o.class.Spec.PlacementGroupSelector
	if selector == nil {
		o.set(conditions.True(awsv1.ConditionPlacementGroupReady))
		return nil
	}
	_, err := o.placement.resolve(ctx, *selector)
	switch {
	case errors.Is(err, errNoGroup):
		o.set(conditions.False(awsv1.ConditionPlacementGroupReady, awsv1.ReasonPlacementGroupNotFound, "placementGroupSelector matches no available placement group"))
		return nil
	case err != nil:
		o.set(conditions.False(awsv1.ConditionPlacementGroupReady, awsv1.ReasonPlacementGroupResolutionFailed, conditions.Truncate(err.Error())))
		return err
	}
	o.set(conditions.True(awsv1.ConditionPlacementGroupReady))
	return nil
}

func (o *observation) observeSubnets(ctx context.Context) error {
	found, err := o.subnets.resolve(ctx, o.class)
	if err != nil {
		return err
	}
	o.class.Status.Subnets = found
	if len(found) == 0 {
		o.set(conditions.False(awsv1.ConditionSubnetsReady, awsv1.ReasonSubnetsNotFound, "subnetSelectorTerms match no subnet"))
		return nil
	}
	o.set(conditions.True(awsv1.ConditionSubnetsReady))
	return nil
}

func (o *observation) observeGroups(ctx context.Context) error {
	found, err := o.groups.resolve(ctx, o.class)
	if err != nil {
		return err
	}
	o.class.Status.SecurityGroups = found
	if len(found) == 0 {
		o.class.Status.SecurityGroups = nil
		o.set(conditions.False(awsv1.ConditionSecurityGroupsReady, awsv1.ReasonSecurityGroupsNotFound, "securityGroupSelectorTerms match no security group"))
		return nil
	}
	o.set(conditions.True(awsv1.ConditionSecurityGroupsReady))
	return nil
}

func (o *observation) observeProfile(ctx context.Context) error {
	if o.class.Spec.Role == "" && o.class.Spec.InstanceProfile == nil {
		return nil // an object without spec: nothing to resolve, and never ready
	}
	name, err := o.profiles.resolve(ctx, o.class)
	if err != nil {
		return err
	}
	o.class.Status.InstanceProfile = name
	o.set(conditions.True(awsv1.ConditionInstanceProfileReady))
	return nil
}

// Release removes the class's instance profiles and launch templates. What cannot be removed is in the error; done is true when nothing is left.
func (p *Provider) Release(ctx context.Context, class *awsv1.EC2NodeClass) (bool, error) {
	var errs []error
	if !p.opts.IsolatedVPC {
		errs = append(errs, p.profiles.release(ctx, class))
	}
	errs = append(errs, p.templates.release(ctx, class.Name))
	if err := errors.Join(errs...); err != nil {
		return false, fmt.Errorf("releasing node class %s: %w", class.Name, err)
	}
	p.types.drop(class.Name)
	p.opts.Observer.UserData(class.Name, -1)
	return true, nil
}

// CABundle returns the cluster's certificate authority as nodes get it; it is part of a class's hash.
func (p *Provider) CABundle() string {
	_, ca := p.cluster.address()
	return ca
}
