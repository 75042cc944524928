package aws

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/iam"
	it "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"k8s.io/utils/clock"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
)

// profileAPI is what managing instance profiles takes.
type profileAPI interface {
	profileReader
	CreateInstanceProfile(context.Context, *iam.CreateInstanceProfileInput, ...func(*iam.Options)) (*iam.CreateInstanceProfileOutput, error)
	AddRoleToInstanceProfile(context.Context, *iam.AddRoleToInstanceProfileInput, ...func(*iam.Options)) (*iam.AddRoleToInstanceProfileOutput, error)
	RemoveRoleFromInstanceProfile(context.Context, *iam.RemoveRoleFromInstanceProfileInput, ...func(*iam.Options)) (*iam.RemoveRoleFromInstanceProfileOutput, error)
	DeleteInstanceProfile(context.Context, *iam.DeleteInstanceProfileInput, ...func(*iam.Options)) (*iam.DeleteInstanceProfileOutput, error)
}

type profileReader interface {
	GetInstanceProfile(context.Context, *iam.GetInstanceProfileInput, ...func(*iam.Options)) (*iam.GetInstanceProfileOutput, error)
	ListInstanceProfiles(context.Context, *iam.ListInstanceProfilesInput, ...func(*iam.Options)) (*iam.ListInstanceProfilesOutput, error)
}

type profileScope struct{ region, cluster string }

// profileName is what IAM admits as a name.
var profileName = regexp.MustCompile(`^[\w+=,.@-]{1,128}$`)

// profiles makes an instance profile for each role of a class. A profile is never edited: nodes keep the one they were launched with.
type profiles struct {
	api   profileAPI
	scope profileScope
	// roles of profiles that exist.
	roles *memo[string]
	// missing roles are not tried again for a while.
	missing *memo[error]
	// kept are profiles that are not collected for a while, although nothing may refer to them yet or any more.
	kept *memo[struct{}]
}

func newProfiles(api profileAPI, c clock.PassiveClock, scope profileScope) *profiles {
	return &profiles{api: api, scope: scope, roles: newMemo[string](c, 15*time.Minute), missing: newMemo[error](c, time.Minute), kept: newMemo[struct{}](c, protected)}
}

// resolve returns the profile for the class's instances and makes one if the present one has not the role wanted.
func (p *profiles) resolve(ctx context.Context, class *awsv1.EC2NodeClass) (string, error) {
	present := class.Status.InstanceProfile
	if own := class.Spec.InstanceProfile; own != nil {
		if present != "" && present != *own {
			p.kept.put(present, struct{}{})
		}
		return *own, nil
	}
	role := lastSegment(class.Spec.Role)
	if present != "" {
		have, err := p.roleOf(ctx, present)
		if err != nil {
			return "", err
		}
		if have == role {
			return present, nil
		}
	}
	if err, ok := p.missing.get(role); ok {
		return "", err
	}
	name := p.newName(class, present)
	if err := p.make(ctx, class, name, role); err != nil {
		return "", err
	}
	p.roles.put(name, role)
	p.kept.put(name, struct{}{})
	if present != "" {
		p.kept.put(present, struct{}{})
	}
	return name, nil
}

func lastSegment(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// roleOf returns the role of a profile, "" when the profile is gone or has none.
func (p *profiles) roleOf(ctx context.Context, name string) (string, error) {
	return p.roles.or(name, func() (string, error) {
		out, err := p.api.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
		if code(err) == codeNoSuchEntity {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("reading instance profile %s: %w", name, err)
		}
		if out.InstanceProfile == nil || len(out.InstanceProfile.Roles) == 0 {
			return "", nil
		}
		return val(out.InstanceProfile.Roles[0].RoleName), nil
	})
}

// newName is the name of the profile that replaces the present one. It depends on the class, the role and the present name alone, so that
// a repetition after a lost status finds the profile it has made.
func (p *profiles) newName(class *awsv1.EC2NodeClass, present string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{p.scope.region, class.Name, string(class.UID), class.Spec.Role, present}, "\x00")))
	return p.scope.cluster + "_" + strconv.FormatUint(binary.BigEndian.Uint64(sum[:8]), 10)
}

// make creates the profile and gives it the role. One that exists already is ours (see newName) and is completed.
func (p *profiles) make(ctx context.Context, class *awsv1.EC2NodeClass, name, role string) error {
	_, err := p.api.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{
		InstanceProfileName: &name, Path: new(p.path(string(class.UID))), Tags: p.tags(class),
	})
	if err != nil && code(err) != "EntityAlreadyExists" {
		return fmt.Errorf("creating instance profile %s: %w", name, err)
	}
	if err != nil {
		p.roles.drop(name)
		if have, err := p.roleOf(ctx, name); err != nil || have == role {
			return err
		}
	}
	_, err = p.api.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: &name, RoleName: &role})
	if err == nil {
		return nil
	}
	err = fmt.Errorf("adding role %s to instance profile %s: %w", role, name, err)
	if code(err) == codeNoSuchEntity && strings.Contains(message(err), "role") {
		p.missing.put(role, err)
	}
	if deleted := p.delete(ctx, name); deleted != nil {
		return errors.Join(err, deleted)
	}
	return err
}

func (p *profiles) path(uid string) string {
	return fmt.Sprintf("/karpenter/%s/%s/%s/", p.scope.region, p.scope.cluster, uid)
}

func (p *profiles) tags(class *awsv1.EC2NodeClass) []it.Tag {
	tags := maps.Clone(class.Spec.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	tags[awsv1.TagClusterPrefix+p.scope.cluster] = "owned"
	tags[awsv1.TagClusterName] = p.scope.cluster
	tags[awsv1.TagEC2NodeClass] = class.Name
	tags["topology.kubernetes.io/region"] = p.scope.region
	var out []it.Tag
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, it.Tag{Key: new(k), Value: new(tags[k])})
	}
	return out
}

// delete removes a profile; that there is none is success at each step.
func (p *profiles) delete(ctx context.Context, name string) error {
	p.roles.drop(name)
	out, err := p.api.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: &name})
	if code(err) == codeNoSuchEntity {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading instance profile %s: %w", name, err)
	}
	if out.InstanceProfile != nil {
		for _, r := range out.InstanceProfile.Roles {
			_, err := p.api.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: &name, RoleName: r.RoleName})
			if err != nil && code(err) != codeNoSuchEntity {
				return fmt.Errorf("removing the role of instance profile %s: %w", name, err)
			}
		}
	}
	_, err = p.api.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: &name})
	if err != nil && code(err) != codeNoSuchEntity {
		return fmt.Errorf("deleting instance profile %s: %w", name, err)
	}
	return nil
}

// release deletes every profile of the class, and the one that old releases named after region and class alone.
func (p *profiles) release(ctx context.Context, class *awsv1.EC2NodeClass) error {
	found, err := p.list(ctx, p.path(string(class.UID)))
	if err != nil {
		return err
	}
	var names []string
	for _, profile := range found {
		names = append(names, val(profile.InstanceProfileName))
	}
	if legacy := p.legacyName(class.Name); profileName.MatchString(legacy) {
		names = append(names, legacy)
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, p.delete(ctx, name))
	}
	return errors.Join(errs...)
}

// protected is how long a profile that was made or replaced is kept although nothing refers to it.
const protected = time.Hour

// CollectProfiles deletes the instance profiles of this cluster that keep does not name and that were neither made nor replaced within the last
// hour. Keep names those in the status of a class or in the annotation of a claim. In an isolated VPC there is nothing to call.
func (p *Provider) CollectProfiles(ctx context.Context, keep map[string]bool) error {
	if p.opts.IsolatedVPC {
		return nil
	}
	found, err := p.profiles.list(ctx, fmt.Sprintf("/karpenter/%s/%s/", p.region, p.opts.ClusterName))
	if err != nil {
		return err
	}
	var errs []error
	for _, profile := range found {
		name := val(profile.InstanceProfileName)
		if _, kept := p.profiles.kept.get(name); kept {
			continue
		}
		if !keep[name] && p.clock.Now().Sub(val(profile.CreateDate)) > protected {
			errs = append(errs, p.profiles.delete(ctx, name))
		}
	}
	return errors.Join(errs...)
}

func (p *profiles) list(ctx context.Context, path string) ([]it.InstanceProfile, error) {
	pages := iam.NewListInstanceProfilesPaginator(p.api, &iam.ListInstanceProfilesInput{PathPrefix: &path})
	var out []it.InstanceProfile
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing instance profiles: %w", err)
		}
		out = append(out, page.InstanceProfiles...)
	}
	return out, nil
}

func (p *profiles) legacyName(class string) string {
	h := fnv.New64()
	_, _ = h.Write([]byte(p.scope.region + class)) // a hash takes everything
	return p.scope.cluster + "_" + strconv.FormatUint(h.Sum64(), 10)
}
