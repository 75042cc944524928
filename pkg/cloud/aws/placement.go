package aws

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
)

type placementAPI interface {
	DescribePlacementGroups(context.Context, *ec2.DescribePlacementGroupsInput, ...func(*ec2.Options)) (*ec2.DescribePlacementGroupsOutput, error)
}

// errNoGroup tells that EC2 knows no such placement group.
var errNoGroup = errors.New("no such placement group")

// placement resolves placement groups. The last answer, a negative one too, serves launches while EC2 does not answer.
type placement struct {
	api   placementAPI
	fresh *memo[placementAnswer]

	mu         sync.Mutex
	generation uint64
	last       map[awsv1.PlacementGroupSelector]*ec2types.PlacementGroup
}

type placementAnswer struct{ group *ec2types.PlacementGroup }

// resolve returns the group; the error is errNoGroup when there is none.
func (p *placement) resolve(ctx context.Context, s awsv1.PlacementGroupSelector) (*ec2types.PlacementGroup, error) {
	answer, err := p.fresh.or(s.ID+"/"+s.Name, func() (placementAnswer, error) { return p.describe(ctx, s) })
	if err != nil {
		return nil, fmt.Errorf("resolving the placement group: %w", err)
	}
	p.remember(s, answer.group)
	if answer.group == nil {
		return nil, errNoGroup
	}
	return answer.group, nil
}

func (p *placement) describe(ctx context.Context, s awsv1.PlacementGroupSelector) (placementAnswer, error) {
	in := &ec2.DescribePlacementGroupsInput{}
	in.Filters = append(in.Filters, filter("state", "available"))
	if s.ID != "" {
		in.GroupIds = []string{s.ID}
	} else {
		in.GroupNames = []string{s.Name}
	}
	out, err := p.api.DescribePlacementGroups(ctx, in)
	if code(err) == codeGroupUnknown {
		return placementAnswer{}, nil
	}
	if err != nil {
		return placementAnswer{}, err
	}
	if len(out.PlacementGroups) == 0 {
		return placementAnswer{}, nil
	}
	g := out.PlacementGroups[0]
	return placementAnswer{&ec2types.PlacementGroup{ID: val(g.GroupId), Strategy: string(g.Strategy), Partitions: num(g.PartitionCount)}}, nil
}

func (p *placement) remember(s awsv1.PlacementGroupSelector, g *ec2types.PlacementGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	have, ok := p.last[s]
	if ok && (have == g || have != nil && g != nil && *have == *g) {
		return
	}
	if p.last == nil {
		p.last = map[awsv1.PlacementGroupSelector]*ec2types.PlacementGroup{}
	}
	p.last[s] = g
	p.generation++
}

// known returns the group as last resolved, nil if there is none.
func (p *placement) known(s *awsv1.PlacementGroupSelector) *ec2types.PlacementGroup {
	if s == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[*s]
}

func (p *placement) sequence() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.generation
}
