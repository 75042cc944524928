package cloud

import (
	"maps"
	"slices"
	"strconv"
)

// PlacementGroup is a placement group.
type PlacementGroup struct {
	ID, Name   string
	Strategy   string // cluster, spread, partition
	Partitions int
	State      string
	ARN        string
	// SpreadLevel of a spread group: rack.
	SpreadLevel string
	Tags        Tags
}

// AddPlacementGroup adds a placement group and returns its id.
func (c *Cloud) AddPlacementGroup(g PlacementGroup) string {
	c.lock()
	defer c.mu.Unlock()
	g.ID = c.id("pg")
	orElse(&g.State, "available")
	orElse(&g.ARN, c.arn("ec2", "placement-group/"+g.Name))
	if g.Tags == nil {
		g.Tags = Tags{}
	}
	c.placements[g.ID] = &g
	return g.ID
}

func (g *PlacementGroup) property(name string) ([]string, bool) {
	switch name {
	case "state":
		return []string{g.State}, true
	case "strategy":
		return []string{g.Strategy}, true
	case "group-name":
		return []string{g.Name}, true
	case "group-arn":
		return []string{g.ARN}, true
	case "spread-level":
		return []string{g.SpreadLevel}, true
	case "partition-count":
		return []string{strconv.Itoa(g.Partitions)}, true
	}
	return nil, false
}

// PlacementGroups is DescribePlacementGroups.
func (c *Cloud) PlacementGroups(ids, names []string, filters []Filter) ([]PlacementGroup, *Error) {
	c.lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.placements[id] == nil {
			return nil, fail("InvalidPlacementGroup.Unknown", "The placement group '%s' is unknown.", id)
		}
	}
	for _, name := range names {
		if c.placementNamed(name) == nil {
			return nil, fail("InvalidPlacementGroup.Unknown", "The placement group '%s' is unknown.", name)
		}
	}
	if err := check(filters, new(PlacementGroup).property); err != nil {
		return nil, err
	}
	var out []PlacementGroup
	for _, id := range slices.Sorted(maps.Keys(c.placements)) {
		g := c.placements[id]
		ok, err := pass(filters, g.Tags, g.property)
		if err != nil {
			return nil, err
		}
		if ok && (ids == nil || slices.Contains(ids, id)) && (names == nil || slices.Contains(names, g.Name)) {
			copied := *g
			copied.Tags = cloneTags(g.Tags)
			out = append(out, copied)
		}
	}
	return out, nil
}

func (c *Cloud) placementNamed(name string) *PlacementGroup {
	for _, g := range c.placements {
		if g.Name == name {
			return g
		}
	}
	return nil
}

// CreatePlacementGroup is CreatePlacementGroup.
func (c *Cloud) CreatePlacementGroup(g PlacementGroup, dryRun bool) (PlacementGroup, *Error) {
	c.lock()
	defer c.mu.Unlock()
	orElse(&g.Strategy, "cluster")
	switch {
	case g.Name == "":
		return g, fail("MissingParameter", "The request must contain the parameter GroupName")
	case c.placementNamed(g.Name) != nil:
		return g, fail("InvalidPlacementGroup.Duplicate", "The placement group '%s' already exists.", g.Name)
	case !slices.Contains([]string{"cluster", "spread", "partition"}, g.Strategy):
		return g, fail("InvalidParameterValue", "Value (%s) for parameter strategy is invalid.", g.Strategy)
	case g.Strategy != "partition" && g.Partitions != 0:
		return g, fail("InvalidParameterCombination", "The parameter PartitionCount is valid only with the strategy partition.")
	case g.Partitions < 0 || g.Partitions > 7:
		return g, fail("InvalidParameterValue", "PartitionCount must be between 1 and 7.")
	case dryRun:
		return g, nil
	}
	if g.Strategy == "partition" {
		orElse(&g.Partitions, 2)
	}
	if g.Strategy == "spread" {
		orElse(&g.SpreadLevel, "rack")
	}
	g.ID, g.State = c.id("pg"), "available"
	g.ARN = c.arn("ec2", "placement-group/"+g.Name)
	g.Tags = cloneTags(g.Tags)
	c.placements[g.ID] = &g
	return g, nil
}

// DeletePlacementGroup is DeletePlacementGroup.
func (c *Cloud) DeletePlacementGroup(name string, dryRun bool) *Error {
	c.lock()
	defer c.mu.Unlock()
	g := c.placementNamed(name)
	if g == nil {
		return fail("InvalidPlacementGroup.Unknown", "The placement group '%s' is unknown.", name)
	}
	for _, i := range c.instances {
		if i.PlacementGroup == g.ID && i.State != Terminated {
			return fail("InvalidPlacementGroup.InUse", "The placement group '%s' is in use and may not be deleted.", name)
		}
	}
	if !dryRun {
		delete(c.placements, g.ID)
	}
	return nil
}
