package cloud

import "slices"

func (c *Cloud) group(id string) *SecurityGroup {
	for _, g := range c.groups {
		if g.ID == id {
			return g
		}
	}
	return nil
}

// AddSecurityGroup adds a security group to the VPC, or to another one when
// vpc is not empty, and returns its id.
func (c *Cloud) AddSecurityGroup(name, vpc string, tags Tags) string {
	c.lock()
	defer c.mu.Unlock()
	if vpc == "" {
		vpc = c.subnets[0].VPC
	}
	g := &SecurityGroup{ID: c.id("sg"), Name: name, VPC: vpc, Description: name, Tags: tags}
	c.groups = append(c.groups, g)
	return g.ID
}

func (g *SecurityGroup) property(name string) ([]string, bool) {
	switch name {
	case "group-id":
		return []string{g.ID}, true
	case "group-name":
		return []string{g.Name}, true
	case "vpc-id":
		return []string{g.VPC}, true
	case "owner-id":
		return nil, true
	case "description":
		return []string{g.Description}, true
	}
	return nil, false
}

// SecurityGroups is DescribeSecurityGroups.
func (c *Cloud) SecurityGroups(ids, names []string, filters []Filter) ([]SecurityGroup, *Error) {
	c.lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.group(id) == nil {
			return nil, fail("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(c.groups, func(g *SecurityGroup) bool { return g.Name == name }) {
			return nil, fail("InvalidGroup.NotFound", "The security group '%s' does not exist in default VPC", name)
		}
	}
	if err := check(filters, new(SecurityGroup).property); err != nil {
		return nil, err
	}
	var out []SecurityGroup
	for _, g := range c.groups {
		ok, err := pass(filters, g.Tags, g.property)
		if err != nil {
			return nil, err
		}
		if ok && (ids == nil || slices.Contains(ids, g.ID)) && (names == nil || slices.Contains(names, g.Name)) {
			copied := *g
			copied.Tags = cloneTags(g.Tags)
			out = append(out, copied)
		}
	}
	return out, nil
}

// CreateSecurityGroup is CreateSecurityGroup.
func (c *Cloud) CreateSecurityGroup(name, description, vpc string, tags Tags, dryRun bool) (SecurityGroup, *Error) {
	c.lock()
	defer c.mu.Unlock()
	orElse(&vpc, c.subnets[0].VPC)
	switch {
	case vpc != c.subnets[0].VPC:
		return SecurityGroup{}, fail("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", vpc)
	case name == "" || len(name) > 255 || len(name) > 3 && name[:3] == "sg-":
		return SecurityGroup{}, fail("InvalidParameterValue", "Invalid security group name.")
	case slices.ContainsFunc(c.groups, func(g *SecurityGroup) bool { return g.Name == name && g.VPC == vpc }):
		return SecurityGroup{}, fail("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", name, vpc)
	case dryRun:
		return SecurityGroup{}, nil
	}
	g := &SecurityGroup{ID: c.id("sg"), Name: name, VPC: vpc, Description: description, Tags: cloneTags(tags)}
	c.groups = append(c.groups, g)
	return *g, nil
}

// DeleteSecurityGroup is DeleteSecurityGroup.
func (c *Cloud) DeleteSecurityGroup(id, name string, dryRun bool) (string, *Error) {
	c.lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.groups, func(g *SecurityGroup) bool { return g.ID == id || id == "" && g.Name == name })
	if at < 0 {
		return "", fail("InvalidGroup.NotFound", "The security group '%s' does not exist", id+name)
	}
	g := c.groups[at]
	if g.Name == "default" {
		return "", fail("CannotDelete", "the specified group: \"%s\" name: \"default\" cannot be deleted by a user", g.ID)
	}
	for _, i := range c.instances {
		if i.State == Terminated {
			continue
		}
		for _, n := range i.Interfaces {
			if slices.Contains(n.Groups, g.ID) {
				return "", fail("DependencyViolation", "resource %s has a dependent object", g.ID)
			}
		}
	}
	if !dryRun {
		c.groups = slices.Delete(c.groups, at, at+1)
	}
	return g.ID, nil
}
