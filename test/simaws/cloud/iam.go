package cloud

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Profile is an instance profile.
type Profile struct {
	Name, Path, ID, ARN string
	Role                string // empty: none
	CreatedAt           time.Time
	Tags                Tags
}

var profileName = regexp.MustCompile(`^[\w+=,.@-]{1,128}$`)

// CreateProfile is CreateInstanceProfile.
func (c *Cloud) CreateProfile(name, path string, tags Tags) (Profile, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	orElse(&path, "/")
	if !profileName.MatchString(name) {
		return Profile{}, fail("ValidationError", "The specified value for instanceProfileName is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_-")
	}
	if !strings.HasPrefix(path, "/") || !strings.HasSuffix(path, "/") {
		return Profile{}, fail("ValidationError", "The specified value for path is invalid. It must begin and end with / and contain only alphanumeric characters and/or / characters.")
	}
	if c.profiles[name] != nil {
		return Profile{}, fail("EntityAlreadyExists", "Instance Profile %s already exists.", name)
	}
	p := &Profile{Name: name, Path: path, ARN: c.arn("iam", "instance-profile"+path+name), CreatedAt: now, Tags: cloneTags(tags)}
	p.ID = "AIPA" + strings.ToUpper(digest(p.ARN, now.String())[:17])
	c.profiles[name] = p
	return p.clone(), nil
}

func (p *Profile) clone() Profile {
	copied := *p
	copied.Tags = cloneTags(p.Tags)
	return copied
}

func (c *Cloud) profile(name string) (*Profile, *Error) {
	p := c.profiles[name]
	if p == nil {
		return nil, fail("NoSuchEntity", "Instance Profile %s cannot be found.", name)
	}
	return p, nil
}

// Profile is GetInstanceProfile.
func (c *Cloud) Profile(name string) (Profile, *Error) {
	c.lock()
	defer c.mu.Unlock()
	p, err := c.profile(name)
	if err != nil {
		return Profile{}, err
	}
	return p.clone(), nil
}

// AddRoleToProfile is AddRoleToInstanceProfile.
func (c *Cloud) AddRoleToProfile(name, role string) *Error {
	c.lock()
	defer c.mu.Unlock()
	p, err := c.profile(name)
	switch {
	case err != nil:
		return err
	case c.roles[role] == nil:
		return fail("NoSuchEntity", "The role with name %s cannot be found.", role)
	case p.Role != "":
		return fail("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
	}
	p.Role = role
	return nil
}

// RemoveRoleFromProfile is RemoveRoleFromInstanceProfile.
func (c *Cloud) RemoveRoleFromProfile(name, role string) *Error {
	c.lock()
	defer c.mu.Unlock()
	p, err := c.profile(name)
	if err != nil {
		return err
	}
	if p.Role != role {
		return fail("NoSuchEntity", "The role with name %s cannot be found.", role)
	}
	p.Role = ""
	return nil
}

// DeleteProfile is DeleteInstanceProfile.
func (c *Cloud) DeleteProfile(name string) *Error {
	c.lock()
	defer c.mu.Unlock()
	p, err := c.profile(name)
	if err != nil {
		return err
	}
	if p.Role != "" {
		return fail("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
	}
	delete(c.profiles, name)
	return nil
}

// TagProfile is TagInstanceProfile.
func (c *Cloud) TagProfile(name string, tags Tags) *Error {
	c.lock()
	defer c.mu.Unlock()
	p, err := c.profile(name)
	if err != nil {
		return err
	}
	maps.Copy(p.Tags, tags)
	return nil
}

// UntagProfile is UntagInstanceProfile.
func (c *Cloud) UntagProfile(name string, keys []string) *Error {
	c.lock()
	defer c.mu.Unlock()
	p, err := c.profile(name)
	if err != nil {
		return err
	}
	for _, k := range keys {
		delete(p.Tags, k)
	}
	return nil
}

// Profiles is ListInstanceProfiles, by name.
func (c *Cloud) Profiles(pathPrefix string) []Profile {
	c.lock()
	defer c.mu.Unlock()
	var out []Profile
	for _, name := range slices.Sorted(maps.Keys(c.profiles)) {
		if p := c.profiles[name]; strings.HasPrefix(p.Path, pathPrefix) {
			out = append(out, p.clone())
		}
	}
	return out
}

// profileForLaunch finds the profile a launch names, as EC2 sees it.
func (c *Cloud) profileForLaunch(ref *ProfileRef, now time.Time) (*Profile, *Error) {
	if ref == nil || ref.Name == "" && ref.ARN == "" {
		return nil, nil
	}
	name, param := ref.Name, "name"
	if name == "" {
		name, param = ref.ARN[strings.LastIndex(ref.ARN, "/")+1:], "arn"
	}
	p := c.profiles[name]
	if p == nil || p.CreatedAt.Add(c.opts.ProfileDelay).After(now) || ref.ARN != "" && ref.ARN != p.ARN {
		return nil, fail("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.%s is invalid. Invalid IAM Instance Profile %s", name, param, param)
	}
	return p, nil
}
