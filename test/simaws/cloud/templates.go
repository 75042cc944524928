package cloud

import (
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxUserData is EC2's limit in decoded bytes.
const MaxUserData = 16384

// Template is a launch template with its one version.
type Template struct {
	ID, Name  string
	CreatedAt time.Time
	Tags      Tags
	Data      LaunchData

	visibleAt time.Time
}

var templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)

// CreateTemplate is CreateLaunchTemplate; params is what a client token must
// be repeated with.
func (c *Cloud) CreateTemplate(name string, data LaunchData, tags Tags, token, params string) (*Template, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	return once(c, "CreateLaunchTemplate", token, params, func() (*Template, *Error) {
		if err := c.checkTemplate(name, data); err != nil {
			return nil, err
		}
		t := &Template{ID: c.id("lt"), Name: name, CreatedAt: now, Tags: cloneTags(tags), Data: data, visibleAt: now.Add(c.opts.TemplateDelay)}
		c.templates[t.ID] = t
		return t.clone(), nil
	})
}

func (t *Template) clone() *Template {
	copied := *t
	copied.Tags = cloneTags(t.Tags)
	return &copied
}

// CheckTemplate makes the checks of CreateTemplate, for dry runs.
func (c *Cloud) CheckTemplate(name string, data LaunchData) *Error {
	c.lock()
	defer c.mu.Unlock()
	return c.checkTemplate(name, data)
}

func (c *Cloud) checkTemplate(name string, data LaunchData) *Error {
	if !templateName.MatchString(name) {
		return fail("InvalidLaunchTemplateName.MalformedException", "The launch template name %q is not valid: 3 to 128 letters, digits and ().-/_", name)
	}
	if c.templateNamed(name) != nil {
		return fail("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	}
	raw, err := base64.StdEncoding.DecodeString(data.UserData)
	if err != nil {
		return fail("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(raw) > MaxUserData {
		return fail("InvalidUserData.Malformed", "User data is limited to %d bytes", MaxUserData)
	}
	if data.ImageID != "" && !strings.HasPrefix(data.ImageID, "ami-") {
		return fail("InvalidAMIID.Malformed", "Invalid id: %q (expecting \"ami-...\")", data.ImageID)
	}
	if len(data.Interfaces) > 0 && len(data.SecurityGroupIDs) > 0 {
		return fail("InvalidParameterCombination", "Network interfaces and an instance-level security groups may not be specified on the same request")
	}
	return nil
}

// checkInterfaces is made at launch: a template may hold what never launches.
func (d *LaunchData) checkInterfaces() *Error {
	seen := map[[2]int]bool{}
	for _, n := range d.Interfaces {
		if n.DeviceIndex == nil {
			return fail("InvalidParameterValue", "Each network interface requires a device index.")
		}
		if n.AssociatePublicIP != nil && *n.AssociatePublicIP && len(d.Interfaces) > 1 {
			return fail("InvalidParameterCombination", "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.")
		}
		at := [2]int{deref(n.Card), *n.DeviceIndex}
		if seen[at] {
			return fail("InvalidParameterValue", "Network card %d has two network interfaces with device index %d.", at[0], at[1])
		}
		seen[at] = true
		switch n.Type {
		case "", "interface", "efa", "efa-only":
		default:
			return fail("InvalidParameterValue", "Value (%s) for parameter interfaceType is invalid.", n.Type)
		}
		for _, g := range n.Groups {
			if !strings.HasPrefix(g, "sg-") {
				return fail("InvalidGroupId.Malformed", "Invalid id: %q (expecting \"sg-...\")", g)
			}
		}
	}
	return nil
}

func deref[T any](p *T) T {
	if p == nil {
		return *new(T)
	}
	return *p
}

func (c *Cloud) templateNamed(name string) *Template {
	for _, t := range c.templates {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// seen returns a template if calls see it already.
func (c *Cloud) seen(t *Template) *Template {
	if t == nil || t.visibleAt.After(c.opts.Clock.Now()) {
		return nil
	}
	return t
}

func (t *Template) property(name string) ([]string, bool) {
	switch name {
	case "launch-template-name":
		return []string{t.Name}, true
	case "create-time":
		return []string{t.CreatedAt.Format(time.RFC3339)}, true
	}
	return nil, false
}

// Templates is DescribeLaunchTemplates, ordered by id.
func (c *Cloud) Templates(ids, names []string, filters []Filter) ([]*Template, *Error) {
	c.lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.seen(c.templates[id]) == nil {
			return nil, fail("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
		}
	}
	for _, name := range names {
		if c.seen(c.templateNamed(name)) == nil {
			return nil, fail("InvalidLaunchTemplateName.NotFoundException", "At least one of the launch templates specified in the request does not exist.")
		}
	}
	if err := check(filters, new(Template).property); err != nil {
		return nil, err
	}
	var out []*Template
	for _, id := range slices.Sorted(maps.Keys(c.templates)) {
		t := c.templates[id]
		ok, err := pass(filters, t.Tags, t.property)
		if err != nil {
			return nil, err
		}
		if ok && c.seen(t) != nil && (ids == nil && names == nil || slices.Contains(ids, t.ID) || slices.Contains(names, t.Name)) {
			out = append(out, t.clone())
		}
	}
	return out, nil
}

// DeleteTemplate is DeleteLaunchTemplate by id or name.
func (c *Cloud) DeleteTemplate(id, name string, dryRun bool) (*Template, *Error) {
	c.lock()
	defer c.mu.Unlock()
	t, err := c.findTemplate(id, name)
	if err != nil {
		return nil, err
	}
	if dryRun {
		return t, nil
	}
	delete(c.templates, t.ID)
	return t, nil
}

func (c *Cloud) findTemplate(id, name string) (*Template, *Error) {
	switch {
	case id == "" && name == "":
		return nil, fail("MissingParameter", "Either LaunchTemplateId or LaunchTemplateName must be specified")
	case id != "" && name != "":
		return nil, fail("InvalidParameterCombination", "LaunchTemplateId and LaunchTemplateName must not be given together")
	case id != "":
		if t := c.seen(c.templates[id]); t != nil {
			return t, nil
		}
		return nil, fail("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
	}
	if t := c.seen(c.templateNamed(name)); t != nil {
		return t, nil
	}
	return nil, fail("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
}

// TemplateRef names a template version in a launch.
type TemplateRef struct {
	ID      string `q:"LaunchTemplateId"`
	Name    string `q:"LaunchTemplateName"`
	Version string `q:"Version"`

	UserData string `q:"LaunchTemplateSpecificationUserData,refuse"`
}

// resolve finds the version: templates have one version here.
func (c *Cloud) resolve(ref TemplateRef) (*Template, *Error) {
	t, err := c.findTemplate(ref.ID, ref.Name)
	if err != nil {
		return nil, err
	}
	switch ref.Version {
	case "", "$Latest", "$Default", "1":
		return t, nil
	}
	if n, err := strconv.Atoi(ref.Version); err == nil && n > 0 {
		return nil, fail("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template with ID %s.", ref.Version, t.ID)
	}
	return nil, fail("InvalidParameterValue", "Value (%s) for parameter version is invalid.", ref.Version)
}
