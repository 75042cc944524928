package aws

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/apis/conditions"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/units"
)

// verdict is the outcome of a validation, good or bad.
type verdict struct{ condition metav1.Condition }

func invalid(reason, text string) *verdict {
	return &verdict{conditions.False(awsv1.ConditionValidationSucceeded, reason, text)}
}

// validate decides the condition ValidationSucceeded. An error leaves the condition as it is.
func (o *observation) validate(ctx context.Context) error {
	if cloud.Family(&o.class.Spec) == ec2types.AL2023 {
		if _, err := o.cluster.serviceCIDR(ctx); err != nil {
			if !serverFault(err) {
				o.set(conditions.False(awsv1.ConditionValidationSucceeded, awsv1.ReasonClusterCIDRResolutionFailed, conditions.Truncate(err.Error())))
			}
			return err
		}
	}
	if c := o.dependencies(); c != nil {
		o.set(*c)
		return nil
	}
	if v := o.inputs(); v != nil {
		o.set(v.condition)
		return nil
	}
	key, err := o.verdictKey()
	if err != nil {
		return err
	}
	v, err := o.verdicts.or(key, func() (verdict, error) { return o.tryOut(ctx) })
	if err != nil {
		return fmt.Errorf("validating by trial calls: %w", err)
	}
	o.set(v.condition)
	return nil
}

// dependencies returns the condition while something that a launch needs is not there.
func (o *observation) dependencies() *metav1.Condition {
	var unknown, failed []string
	for _, t := range []string{awsv1.ConditionAMIsReady, awsv1.ConditionInstanceProfileReady, awsv1.ConditionSecurityGroupsReady, awsv1.ConditionSubnetsReady} {
		c, _ := conditions.Find(o.class.Status.Conditions, t)
		switch {
		case c.Status == metav1.ConditionFalse:
			failed = append(failed, t)
		case c.Status != metav1.ConditionTrue || c.ObservedGeneration != o.class.Generation:
			unknown = append(unknown, t)
		}
	}
	if len(failed) > 0 {
		return new(conditions.False(awsv1.ConditionValidationSucceeded, awsv1.ReasonDependenciesNotReady, strings.Join(failed, ", ")+" False"))
	}
	if len(unknown) > 0 {
		return new(conditions.Unknown(awsv1.ConditionValidationSucceeded, awsv1.ReasonDependenciesNotReady, strings.Join(unknown, ", ")+" Unknown"))
	}
	return nil
}

// inputs checks what needs no call.
func (o *observation) inputs() *verdict {
	if err := o.class.ValidateTags(); err != nil {
		return invalid(awsv1.ReasonTagValidationFailed, err.Error())
	}
	c := o.typesOf(o.class)
	if err := ec2types.Check(&c); err != nil {
		return invalid(awsv1.ReasonInvalidKubeletConfiguration, err.Error())
	}
	return nil
}

func (o *observation) verdictKey() (string, error) {
	s := o.class.Status
	text, err := json.Marshal([]any{s.Subnets, s.SecurityGroups, s.AMIs, s.InstanceProfile, o.class.Spec, o.class.Annotations})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s/%x", o.class.Name, sha256.Sum256(text)), nil
}

// tryOut asks EC2 whether a launch would be allowed, with one type and no instance.
func (o *observation) tryOut(ctx context.Context) (verdict, error) {
	passed := verdict{conditions.True(awsv1.ConditionValidationSucceeded)}
	if o.opts.DisableDryRun {
		return passed, nil
	}
	sample, err := o.sample(ctx)
	if err != nil {
		return verdict{}, err
	}
	name, err := o.sampleTemplate(ctx, sample)
	if v, err := o.judge(err, awsv1.ReasonCreateLaunchTemplateAuthCheckFailed, "ec2:CreateLaunchTemplate"); v != nil || err != nil {
		return orZero(v), err
	}
	_, err = o.api.launch.CreateFleet(ctx, o.sampleFleet(name, sample.typ.Name), once)
	if v, err := o.judge(err, awsv1.ReasonCreateFleetAuthCheckFailed, "ec2:CreateFleet"); v != nil || err != nil {
		return orZero(v), err
	}
	err = o.tryRun(ctx, name, sample.typ.Name)
	if v, err := o.judge(err, awsv1.ReasonRunInstancesAuthCheckFailed, "ec2:RunInstances"); v != nil || err != nil {
		return orZero(v), err
	}
	return passed, nil
}

func orZero(v *verdict) verdict {
	if v == nil {
		return verdict{}
	}
	return *v
}

// judge turns the outcome of a trial call into a verdict, or into an error when it proves nothing; both nil is a pass.
func (o *observation) judge(err error, reason, action string) (*verdict, error) {
	switch {
	case err == nil || code(err) == codeDryRun:
		return nil, nil
	case code(err) == codeUnauthorized:
		return invalid(reason, fmt.Sprintf("%s: %s", action, denial(message(err)))), nil
	case strings.Contains(message(err), "User data is limited to"):
		return invalid(awsv1.ReasonUserDataSizeLimitExceeded, message(err)), nil
	}
	return nil, fmt.Errorf("trying %s: %w", action, err)
}

// trial is what a validation tries to launch.
type trial struct {
	typ     *catalog.InstanceType
	image   string
	tenancy string
}

// sample chooses what to try: a type that a pool of the class admits; without one a usual type, else any. Among these the first one whose image
// is a standard one.
func (o *observation) sample(ctx context.Context) (trial, error) {
	all, err := o.InstanceTypes(ctx, o.class)
	if err != nil {
		return trial{}, err
	}
	usable := slices.DeleteFunc(slices.Clone(all), func(t catalog.InstanceType) bool {
		return !slices.ContainsFunc(t.Offerings, func(f catalog.Offering) bool { return f.Unavailable.Reason != ec2types.ReasonIncompatible })
	})
	wishes, err := o.poolWishes(ctx)
	if err != nil {
		return trial{}, err
	}
	out := trial{tenancy: awsv1.TenancyDefault}
	for _, w := range wishes {
		if r, ok := w.requirements.Get(ec2types.LabelTenancy); ok && r.Admits(awsv1.TenancyDedicated) {
			out.tenancy = awsv1.TenancyDedicated
		}
	}
	wanted := slices.DeleteFunc(slices.Clone(usable), func(t catalog.InstanceType) bool {
		return !slices.ContainsFunc(wishes, func(w wish) bool { return w.admitsType(&t) })
	})
	if cloud.Family(&o.class.Spec).Windows() {
		wanted = nil // the pools' types may be of an architecture that Windows does not run on
	}
	usual := slices.DeleteFunc(slices.Clone(usable), func(t catalog.InstanceType) bool { return t.Name != "m5.large" && t.Name != "m6g.large" })
	for _, list := range [][]catalog.InstanceType{wanted, usual, usable} {
		if out.typ, out.image = firstStandard(list, o.class.Status.AMIs); out.typ != nil {
			return out, nil
		}
	}
	return trial{}, errors.New("no instance type fits the images of the class")
}

// firstStandard returns the first type that has an image, preferring a standard one; nil if none has an image.
func firstStandard(list []catalog.InstanceType, amis []awsv1.AMI) (best *catalog.InstanceType, id string) {
	for i := range list {
		image, ok := imageFor(amis, &list[i])
		switch {
		case !ok:
			continue
		case standard(image):
			return &list[i], image.ID
		case best == nil:
			best, id = &list[i], image.ID
		}
	}
	return best, id
}

// poolWishes are what the pools of the class ask for.
func (o *observation) poolWishes(ctx context.Context) ([]wish, error) {
	if o.opts.Pools == nil {
		return nil, nil
	}
	pools, err := o.opts.Pools(ctx, o.class.Name)
	if err != nil {
		return nil, fmt.Errorf("reading the pools of the class: %w", err)
	}
	var out []wish
	for i := range pools {
		template := &pools[i].Spec.Template
		var c karpv1.NodeClaim
		c.Spec.Requirements = slices.Clone(template.Spec.Requirements)
		for key, value := range template.ObjectMeta.Labels {
			c.Spec.Requirements = append(c.Spec.Requirements, karpv1.Requirement{Key: key, Operator: "In", Values: []string{value}})
		}
		out = append(out, wishOf(&c))
	}
	return out, nil
}

// standard reports whether an image serves types without accelerators.
func standard(a awsv1.AMI) bool {
	for _, r := range a.Requirements {
		if (r.Key == keyGPUs || r.Key == keyAccelerators) && r.Operator == "Exists" {
			return false
		}
	}
	return true
}

func (o *observation) sampleTemplate(ctx context.Context, t trial) (string, error) {
	in, err := o.templateInput(ctx, nodeSpec{class: o.class, image: t.image, capacityType: catalog.OnDemand, tenancy: t.tenancy, pods: t.typ.Capacity[units.Pods]})
	if err != nil {
		return "", err
	}
	return *in.LaunchTemplateName, o.templates.ensure(ctx, in)
}

func (o *observation) sampleFleet(template, typ string) *ec2.CreateFleetInput {
	var overrides []et.FleetLaunchTemplateOverridesRequest
	for _, s := range o.class.Status.Subnets {
		overrides = append(overrides, et.FleetLaunchTemplateOverridesRequest{InstanceType: et.InstanceType(typ), SubnetId: new(s.ID)})
	}
	tags := o.launchTags(o.class, "")
	return &ec2.CreateFleetInput{
		DryRun: new(true), Type: et.FleetTypeInstant,
		LaunchTemplateConfigs: []et.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &et.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &template, Version: new("$Latest")}, Overrides: overrides,
		}},
		TargetCapacitySpecification: &et.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: new(int32(1)), DefaultTargetCapacityType: et.DefaultTargetCapacityTypeOnDemand,
		},
		OnDemandOptions:   &et.OnDemandOptionsRequest{AllocationStrategy: et.FleetOnDemandAllocationStrategyLowestPrice},
		TagSpecifications: tagSpecs(tags, et.ResourceTypeInstance, et.ResourceTypeVolume, et.ResourceTypeFleet),
	}
}

// tryRun tries RunInstances in one subnet after the other until one passes. If none does, the first error counts.
func (o *observation) tryRun(ctx context.Context, template, typ string) error {
	var first error
	for _, s := range o.class.Status.Subnets {
		_, err := o.api.launch.RunInstances(ctx, &ec2.RunInstancesInput{
			DryRun: new(true), MinCount: new(int32(1)), MaxCount: new(int32(1)), InstanceType: et.InstanceType(typ),
			LaunchTemplate:    &et.LaunchTemplateSpecification{LaunchTemplateName: &template, Version: new("$Latest")},
			NetworkInterfaces: trialInterfaces(o.class, s.ID),
			TagSpecifications: tagSpecs(o.launchTags(o.class, ""), et.ResourceTypeInstance, et.ResourceTypeVolume, et.ResourceTypeNetworkInterface),
		}, once)
		if err == nil || code(err) == codeDryRun {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func trialInterfaces(class *awsv1.EC2NodeClass, subnet string) []et.InstanceNetworkInterfaceSpecification {
	if len(class.Spec.NetworkInterfaces) == 0 {
		return []et.InstanceNetworkInterfaceSpecification{{DeviceIndex: new(int32(0)), SubnetId: &subnet}}
	}
	var out []et.InstanceNetworkInterfaceSpecification
	for _, n := range class.Spec.NetworkInterfaces {
		out = append(out, et.InstanceNetworkInterfaceSpecification{
			NetworkCardIndex: new(n.NetworkCardIndex), DeviceIndex: new(n.DeviceIndex), InterfaceType: new(string(n.InterfaceType)), SubnetId: &subnet,
		})
	}
	return out
}
