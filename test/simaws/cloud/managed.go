package cloud

import (
	"slices"
	"strings"

	"github.com/karp-sh/karp/test/simaws/policy"
)

// ManagedPolicy is a policy of its own.
type ManagedPolicy struct {
	Name, Path, ARN, ID string
	Text                string

	document *policy.Document // nil for AWS's own, whose text is not known here
}

// awsPolicy tells whether an ARN is of a policy AWS manages.
func awsPolicy(arn string) bool {
	parts := strings.SplitN(arn, ":", 6)
	return len(parts) == 6 && parts[4] == "aws" && strings.HasPrefix(parts[5], "policy/")
}

// CreatePolicy is CreatePolicy.
func (c *Cloud) CreatePolicy(name, path, text string) (ManagedPolicy, *Error) {
	c.lock()
	defer c.mu.Unlock()
	orElse(&path, "/")
	d, err := policy.Parse([]byte(text))
	if err != nil {
		return ManagedPolicy{}, fail("MalformedPolicyDocument", "%s", err)
	}
	p := &ManagedPolicy{Name: name, Path: path, ARN: c.arn("iam", "policy"+path+name), Text: text, document: d}
	if c.policies[p.ARN] != nil {
		return ManagedPolicy{}, fail("EntityAlreadyExists", "A policy called %s already exists. Duplicate names are not allowed.", name)
	}
	p.ID = "ANPA" + strings.ToUpper(digest(p.ARN)[:17])
	c.policies[p.ARN] = p
	return *p, nil
}

// DeletePolicy is DeletePolicy.
func (c *Cloud) DeletePolicy(arn string) *Error {
	c.lock()
	defer c.mu.Unlock()
	if c.policies[arn] == nil {
		return fail("NoSuchEntity", "Policy %s was not found.", arn)
	}
	for _, r := range c.roles {
		if slices.Contains(r.Attached, arn) {
			return fail("DeleteConflict", "Cannot delete a policy attached to entities.")
		}
	}
	delete(c.policies, arn)
	return nil
}

// AttachPolicy is AttachRolePolicy. AWS's policies all exist; of their texts
// only AdministratorAccess is known, the others allow nothing here.
func (c *Cloud) AttachPolicy(role, arn string) *Error {
	c.lock()
	defer c.mu.Unlock()
	r, err := c.role(role)
	if err != nil {
		return err
	}
	if c.policies[arn] == nil {
		if !awsPolicy(arn) {
			return fail("NoSuchEntity", "Policy %s does not exist or is not attachable.", arn)
		}
		p := &ManagedPolicy{Name: arn[strings.LastIndex(arn, "/")+1:], ARN: arn}
		if p.Name == "AdministratorAccess" {
			p.document = administrator()
		}
		c.policies[arn] = p
	}
	if !slices.Contains(r.Attached, arn) {
		r.Attached = append(r.Attached, arn)
	}
	return nil
}

// DetachPolicy is DetachRolePolicy.
func (c *Cloud) DetachPolicy(role, arn string) *Error {
	c.lock()
	defer c.mu.Unlock()
	r, err := c.role(role)
	if err != nil {
		return err
	}
	i := slices.Index(r.Attached, arn)
	if i < 0 {
		return fail("NoSuchEntity", "Policy %s was not found.", arn)
	}
	r.Attached = slices.Delete(r.Attached, i, i+1)
	return nil
}
