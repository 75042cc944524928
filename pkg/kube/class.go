package kube

import (
	"maps"
	"slices"
	"strings"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/cluster"
)

// NewClass converts an EC2NodeClass.
func NewClass(c *awsv1.EC2NodeClass) *cluster.Class {
	out := &cluster.Class{Name: c.Name, SubnetSelector: subnetSelector(c.Spec.SubnetSelectorTerms), Deleting: c.DeletionTimestamp != nil}
	out.Ready, out.NotReady = readiness(c.Status.Conditions, c.CreationTimestamp.Time)
	for _, s := range c.Status.Subnets {
		out.Zones = append(out.Zones, s.Zone)
	}
	slices.Sort(out.Zones)
	out.Zones = slices.Compact(out.Zones)
	return out
}

// subnetSelector writes selector terms for people: tags joined by commas, terms by " or ".
func subnetSelector(terms []awsv1.SubnetSelectorTerm) string {
	var out []string
	for _, t := range terms {
		var parts []string
		if t.ID != "" {
			parts = append(parts, t.ID)
		}
		for _, k := range slices.Sorted(maps.Keys(t.Tags)) {
			parts = append(parts, k+"="+t.Tags[k])
		}
		out = append(out, strings.Join(parts, ","))
	}
	return strings.Join(out, " or ")
}
