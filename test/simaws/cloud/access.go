package cloud

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// AccessEntry lets an IAM principal into the cluster.
type AccessEntry struct {
	Principal, Kind, User string
	Groups, Policies      []string
	CreatedAt             time.Time
	Tags                  Tags
}

// ClusterARN is the ARN of the EKS cluster.
func (c *Cloud) ClusterARN() string { return c.arn("eks", "cluster/"+c.opts.ClusterName) }

// ClusterNetwork is what the cluster says of its VPC.
func (c *Cloud) ClusterNetwork() (vpc string, groups, subnets []string) {
	c.lock()
	defer c.mu.Unlock()
	for _, g := range c.groups {
		if g.Name == c.opts.ClusterName+"-cluster" {
			groups = append(groups, g.ID)
		}
	}
	if groups == nil { // deleted
		groups = []string{c.groups[0].ID}
	}
	for _, s := range c.subnets {
		subnets = append(subnets, s.ID)
	}
	return c.subnets[0].VPC, groups, subnets
}

func accessKinds() []string {
	return []string{"STANDARD", "EC2_LINUX", "EC2_WINDOWS", "FARGATE_LINUX", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX"}
}

func noEntry(principal string) *Error {
	return fail("ResourceNotFoundException", "The specified principalArn could not be found. You can view your available access entries with 'list-access-entries'. principalArn: %s", principal)
}

// CreateAccessEntry is CreateAccessEntry.
func (c *Cloud) CreateAccessEntry(e AccessEntry) (AccessEntry, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	orElse(&e.Kind, "STANDARD")
	switch {
	case !strings.HasPrefix(e.Principal, "arn:") || !strings.Contains(e.Principal, ":iam:"):
		return e, fail("InvalidParameterException", "The principalArn parameter format is not valid")
	case !slices.Contains(accessKinds(), e.Kind):
		return e, fail("InvalidParameterException", "The specified type is not valid")
	case c.access[e.Principal] != nil:
		return e, fail("ResourceInUseException", "The specified access entry resource is already in use on this cluster.")
	case e.Kind != "STANDARD" && len(e.Groups) > 0:
		return e, fail("InvalidRequestException", "Kubernetes groups can be given for entries of type STANDARD only")
	}
	e.CreatedAt, e.Tags, e.Groups = now, cloneTags(e.Tags), slices.Clone(e.Groups)
	if strings.HasPrefix(e.Kind, "EC2") {
		orElse(&e.User, "system:node:{{EC2PrivateDNSName}}")
		e.Groups = []string{"system:nodes"}
	}
	orElse(&e.User, e.Principal)
	c.access[e.Principal] = &e
	return e, nil
}

// AccessEntry is DescribeAccessEntry.
func (c *Cloud) AccessEntry(principal string) (AccessEntry, *Error) {
	c.lock()
	defer c.mu.Unlock()
	if e := c.access[principal]; e != nil {
		return *e, nil
	}
	return AccessEntry{}, noEntry(principal)
}

// AccessEntries is ListAccessEntries, by principal.
func (c *Cloud) AccessEntries() []AccessEntry {
	c.lock()
	defer c.mu.Unlock()
	var out []AccessEntry
	for _, arn := range slices.Sorted(maps.Keys(c.access)) {
		out = append(out, *c.access[arn])
	}
	return out
}

// DeleteAccessEntry is DeleteAccessEntry: nodes of the role join no more.
func (c *Cloud) DeleteAccessEntry(principal string) *Error {
	c.lock()
	defer c.mu.Unlock()
	if c.access[principal] == nil {
		return noEntry(principal)
	}
	delete(c.access, principal)
	return nil
}

// AssociateAccess is AssociateAccessPolicy and its opposite.
func (c *Cloud) AssociateAccess(principal, policy string, on bool) (AccessEntry, *Error) {
	c.lock()
	defer c.mu.Unlock()
	e := c.access[principal]
	if e == nil {
		return AccessEntry{}, noEntry(principal)
	}
	at := slices.Index(e.Policies, policy)
	switch {
	case on && at < 0:
		e.Policies = append(slices.Clone(e.Policies), policy)
	case !on && at < 0:
		return AccessEntry{}, fail("ResourceNotFoundException", "The access policy %s is not associated with %s", policy, principal)
	case !on:
		e.Policies = slices.Delete(slices.Clone(e.Policies), at, at+1)
	}
	return *e, nil
}

// admitted tells whether nodes of a role may join.
func (c *Cloud) admitted(r *Role) bool {
	e := c.access[r.ARN]
	return e != nil && (strings.HasPrefix(e.Kind, "EC2") || slices.Contains(e.Groups, "system:nodes"))
}
