package cloud

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/policy"
)

// Role is an IAM role.
//
// A role that the test's hand made (Options.Roles, AddRole) may do everything
// until a policy grants it something, so that policies are tested only where a
// test asks for it. A policy that only denies takes away from everything. It
// also has an access entry for nodes. A role made by CreateRole may do what its
// policies allow, and needs an access entry, as in AWS.
type Role struct {
	Name, Path, ID, ARN string
	Description         string
	Trust               string // JSON
	MaxSession          int    // seconds
	CreatedAt           time.Time
	Tags                Tags
	Inline              map[string]string // policy documents by name
	Attached            []string          // ARNs of managed policies
	BoundaryARN         string

	unrestricted bool
	given        []policy.Named // by the test's hand
	inline       map[string]*policy.Document
	ledger       *policy.Ledger
}

func (r *Role) clone() Role {
	copied := *r
	copied.Tags, copied.Inline, copied.Attached = cloneTags(r.Tags), maps.Clone(r.Inline), slices.Clone(r.Attached)
	return copied
}

var roleName = regexp.MustCompile(`^[\w+=,.@-]{1,64}$`)

// ServiceTrust is the trust policy that lets EC2 use a role.
const ServiceTrust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

func (c *Cloud) newRole(name, path string, now time.Time) *Role {
	orElse(&path, "/")
	r := &Role{
		Name: name, Path: path, ARN: c.arn("iam", "role"+path+name), CreatedAt: now, MaxSession: 3600, Tags: Tags{},
		Inline: map[string]string{}, inline: map[string]*policy.Document{}, ledger: &policy.Ledger{}, Trust: ServiceTrust,
	}
	r.ID = "AROA" + strings.ToUpper(digest(r.ARN, now.String())[:17])
	return r
}

// AddRole makes a role exist that may do everything.
func (c *Cloud) AddRole(name string) {
	now := c.lock()
	defer c.mu.Unlock()
	if c.roles[name] == nil {
		c.addRole(name, now)
	}
}

func (c *Cloud) addRole(name string, now time.Time) *Role {
	r := c.newRole(name, "", now)
	r.unrestricted = true
	c.roles[name] = r
	delete(c.gone, name)
	c.access[r.ARN] = &AccessEntry{
		Principal: r.ARN, Kind: "EC2_LINUX", User: "system:node:{{EC2PrivateDNSName}}", Groups: []string{"system:nodes"}, CreatedAt: now, Tags: Tags{}}
	return r
}

// RemoveRole makes a role not exist; profiles keep naming it, as in IAM.
func (c *Cloud) RemoveRole(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.roles, name)
	c.gone[name] = true
}

// CreateRole is CreateRole.
func (c *Cloud) CreateRole(want Role) (Role, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	orElse(&want.Path, "/")
	switch {
	case !roleName.MatchString(want.Name):
		return Role{}, fail("ValidationError", "The specified value for roleName is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_-")
	case !strings.HasPrefix(want.Path, "/") || !strings.HasSuffix(want.Path, "/"):
		return Role{}, fail("ValidationError", "The specified value for path is invalid. It must begin and end with / and contain only alphanumeric characters and/or / characters.")
	case c.roles[want.Name] != nil:
		return Role{}, fail("EntityAlreadyExists", "Role with name %s already exists.", want.Name)
	}
	if _, err := policy.Parse([]byte(want.Trust)); err != nil {
		return Role{}, fail("MalformedPolicyDocument", "%s", err)
	}
	r := c.newRole(want.Name, want.Path, now)
	r.Trust, r.Description, r.Tags = want.Trust, want.Description, cloneTags(want.Tags)
	if want.MaxSession != 0 {
		r.MaxSession = want.MaxSession
	}
	c.roles[r.Name] = r
	delete(c.gone, r.Name)
	return r.clone(), nil
}

func (c *Cloud) role(name string) (*Role, *Error) {
	if r := c.roles[name]; r != nil {
		return r, nil
	}
	return nil, fail("NoSuchEntity", "The role with name %s cannot be found.", name)
}

// Role is GetRole.
func (c *Cloud) Role(name string) (Role, *Error) {
	c.lock()
	defer c.mu.Unlock()
	r, err := c.role(name)
	if err != nil {
		return Role{}, err
	}
	return r.clone(), nil
}

// RoleList is ListRoles, by name.
func (c *Cloud) RoleList(pathPrefix string) []Role {
	c.lock()
	defer c.mu.Unlock()
	var out []Role
	for _, name := range slices.Sorted(maps.Keys(c.roles)) {
		if r := c.roles[name]; strings.HasPrefix(r.Path, pathPrefix) {
			out = append(out, r.clone())
		}
	}
	return out
}

// DeleteRole is DeleteRole: policies and profiles must be gone before.
func (c *Cloud) DeleteRole(name string) *Error {
	c.lock()
	defer c.mu.Unlock()
	r, err := c.role(name)
	if err != nil {
		return err
	}
	if len(r.Attached) > 0 {
		return fail("DeleteConflict", "Cannot delete entity, must detach all policies first.")
	}
	if len(r.Inline) > 0 {
		return fail("DeleteConflict", "Cannot delete entity, must delete policies first.")
	}
	for _, p := range c.profiles {
		if p.Role == name {
			return fail("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
		}
	}
	delete(c.roles, name)
	c.gone[name] = true
	return nil
}

// PutRolePolicy adds or replaces an inline policy; it decides on the next call.
func (c *Cloud) PutRolePolicy(role, name, document string) *Error {
	c.lock()
	defer c.mu.Unlock()
	r, err := c.role(role)
	if err != nil {
		return err
	}
	d, parseErr := policy.Parse([]byte(document))
	if parseErr != nil {
		return fail("MalformedPolicyDocument", "%s", parseErr)
	}
	r.Inline[name], r.inline[name] = document, d
	return nil
}

// RolePolicy is GetRolePolicy: the document, percent-encoded as IAM answers.
func (c *Cloud) RolePolicy(role, name string) (string, *Error) {
	c.lock()
	defer c.mu.Unlock()
	r, err := c.role(role)
	if err != nil {
		return "", err
	}
	text, ok := r.Inline[name]
	if !ok {
		return "", fail("NoSuchEntity", "The role policy with name %s cannot be found.", name)
	}
	return url.PathEscape(text), nil
}

// DeleteRolePolicy removes an inline policy.
func (c *Cloud) DeleteRolePolicy(role, name string) *Error {
	c.lock()
	defer c.mu.Unlock()
	r, err := c.role(role)
	if err != nil {
		return err
	}
	if _, ok := r.Inline[name]; !ok {
		return fail("NoSuchEntity", "The role policy with name %s cannot be found.", name)
	}
	delete(r.Inline, name)
	delete(r.inline, name)
	return nil
}

// Give sets the policies a role has by the test's hand, by name; with none it
// has only those IAM gave it. The role is made if it does not exist.
func (c *Cloud) Give(role string, documents map[string][]byte) error {
	now := c.lock()
	defer c.mu.Unlock()
	var given []policy.Named
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		d, err := policy.Parse(documents[name])
		if err != nil {
			return err
		}
		given = append(given, policy.Named{Name: name, Document: d})
	}
	r := c.roles[role]
	if r == nil {
		r = c.addRole(role, now)
	}
	r.given = given
	return nil
}

// GiveBoundary sets the permissions boundary of a role; nil removes it.
func (c *Cloud) GiveBoundary(role string, document []byte) error {
	c.lock()
	defer c.mu.Unlock()
	r, refusal := c.role(role)
	if refusal != nil {
		return refusal
	}
	if document == nil {
		r.BoundaryARN = ""
		return nil
	}
	d, err := policy.Parse(document)
	if err != nil {
		return err
	}
	r.BoundaryARN = c.arn("iam", "policy/boundary-of-"+role)
	c.policies[r.BoundaryARN] = &ManagedPolicy{Name: "boundary-of-" + role, ARN: r.BoundaryARN, document: d}
	return nil
}

// GiveOrganization sets the service control policies of the account, by name.
func (c *Cloud) GiveOrganization(documents map[string][]byte) error {
	c.lock()
	defer c.mu.Unlock()
	c.organization = nil
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		d, err := policy.Parse(documents[name])
		if err != nil {
			return err
		}
		c.organization = append(c.organization, policy.Named{Name: name, Document: d})
	}
	return nil
}

// policySet puts together what decides on a role's calls.
func (c *Cloud) policySet(r *Role) *policy.Set {
	set := &policy.Set{Service: c.organization, Identity: slices.Clone(r.given)}
	for _, name := range slices.Sorted(maps.Keys(r.inline)) {
		set.Identity = append(set.Identity, policy.Named{Name: name, Document: r.inline[name]})
	}
	for _, arn := range r.Attached {
		if p := c.policies[arn]; p != nil && p.document != nil {
			set.Identity = append(set.Identity, policy.Named{Name: p.Name, Document: p.document})
		}
	}
	if p := c.policies[r.BoundaryARN]; p != nil && p.document != nil {
		set.Boundary = &policy.Named{Name: p.Name, Document: p.document}
	}
	grants := func(n policy.Named) bool { return n.Grants() }
	if r.unrestricted && !slices.ContainsFunc(set.Identity, grants) {
		set.Identity = append(set.Identity, policy.Named{Name: "AdministratorAccess", Document: administrator()})
	}
	return set
}

// administrator is AWS's policy AdministratorAccess.
func administrator() *policy.Document {
	d, err := policy.Parse([]byte(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`))
	if err != nil {
		return &policy.Document{} // a constant; tested
	}
	return d
}

// Ledger reports what a role's policies were asked since the last reset; the
// role "" stands for callers without a role.
func (c *Cloud) Ledger(role string) (policy.Report, error) {
	c.lock()
	defer c.mu.Unlock()
	if role == "" {
		return c.ledger.Report(&policy.Set{}), nil
	}
	r, err := c.role(role)
	if err != nil {
		return policy.Report{}, err
	}
	set := c.policySet(r)
	set.Identity = slices.DeleteFunc(set.Identity, func(n policy.Named) bool { return n.Name == "AdministratorAccess" })
	return r.ledger.Report(set), nil
}

// ResetLedgers forgets what was asked of all roles.
func (c *Cloud) ResetLedgers() {
	c.lock()
	defer c.mu.Unlock()
	c.ledger.Reset()
	for _, r := range c.roles {
		r.ledger.Reset()
	}
}
