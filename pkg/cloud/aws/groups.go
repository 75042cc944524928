package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
)

// groups finds security groups.
type groups struct {
	api   ec2.DescribeSecurityGroupsAPIClient
	found *memo[[]groupFound]
}

type groupFound = awsv1.SecurityGroup

// resolve returns the security groups that the class selects, by id.
func (g *groups) resolve(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.SecurityGroup, error) {
	found, err := g.found.or(classKey(class), func() ([]groupFound, error) { return g.find(ctx, class.Spec.SecurityGroupSelectorTerms) })
	if err != nil {
		return nil, fmt.Errorf("resolving security groups: %w", err)
	}
	return found, nil
}

func (g *groups) find(ctx context.Context, terms []awsv1.SecurityGroupSelectorTerm) ([]groupFound, error) {
	byID := map[string]groupFound{}
	for _, filters := range groupFilters(terms) {
		pages := ec2.NewDescribeSecurityGroupsPaginator(g.api, &ec2.DescribeSecurityGroupsInput{Filters: filters, MaxResults: new(int32(500))})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, sg := range page.SecurityGroups {
				byID[val(sg.GroupId)] = groupFound{ID: val(sg.GroupId), Name: val(sg.GroupName)}
			}
		}
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b groupFound) int { return cmp.Compare(a.ID, b.ID) }), nil
}

// groupFilters returns one query for all ids, one for all names and one for each term of tags.
func groupFilters(terms []awsv1.SecurityGroupSelectorTerm) [][]et.Filter {
	var ids, names []string
	var tags, out [][]et.Filter
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case t.Name != "":
			names = append(names, t.Name)
		default:
			tags = append(tags, tagFilters(t.Tags))
		}
	}
	if len(ids) > 0 {
		out = append(out, []et.Filter{filter("group-id", ids...)})
	}
	if len(names) > 0 {
		out = append(out, []et.Filter{filter("group-name", names...)})
	}
	return append(out, tags...)
}
