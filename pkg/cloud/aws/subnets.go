package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/utils/clock"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
)

// subnets finds subnets and keeps count of their free addresses.
type subnets struct {
	api   ec2.DescribeSubnetsAPIClient
	found *memo[[]subnetFound]

	mu    sync.Mutex
	count map[string]*addresses
}

type subnetFound struct {
	awsv1.Subnet
	free int
}

// addresses are those of one subnet.
type addresses struct {
	// free is what EC2 last reported, inflight what launches since then leave of it.
	free, inflight int
	// reported counts the reports.
	reported int
}

// hold is what one launch may take from one subnet.
type hold struct {
	subnet   string
	n        int
	reported int
}

func newSubnets(api ec2.DescribeSubnetsAPIClient, c clock.PassiveClock, keep time.Duration) *subnets {
	return &subnets{api: api, found: newMemo[[]subnetFound](c, keep), count: map[string]*addresses{}}
}

// resolve returns the subnets that the class selects, the one with most free addresses first.
func (s *subnets) resolve(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.Subnet, error) {
	found, err := s.found.or(classKey(class), func() ([]subnetFound, error) { return s.find(ctx, class.Spec.SubnetSelectorTerms) })
	if err != nil {
		return nil, fmt.Errorf("resolving subnets: %w", err)
	}
	var out []awsv1.Subnet
	for _, f := range found {
		out = append(out, f.Subnet)
	}
	return out, nil
}

func (s *subnets) find(ctx context.Context, terms []awsv1.SubnetSelectorTerm) ([]subnetFound, error) {
	byID := map[string]subnetFound{}
	for _, filters := range subnetFilters(terms) {
		pages := ec2.NewDescribeSubnetsPaginator(s.api, &ec2.DescribeSubnetsInput{Filters: filters, MaxResults: new(int32(500))})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, sub := range page.Subnets {
				f := subnetFound{awsv1.Subnet{ID: val(sub.SubnetId), Zone: val(sub.AvailabilityZone), ZoneID: val(sub.AvailabilityZoneId)}, num(sub.AvailableIpAddressCount)}
				byID[f.ID] = f
			}
		}
	}
	out := slices.SortedFunc(maps.Values(byID), func(a, b subnetFound) int {
		return cmp.Or(cmp.Compare(b.free, a.free), cmp.Compare(a.ID, b.ID))
	})
	s.report(out)
	return out, nil
}

// subnetFilters returns one query for all ids together and one for each term of tags.
func subnetFilters(terms []awsv1.SubnetSelectorTerm) [][]et.Filter {
	var ids []string
	var out [][]et.Filter
	for _, t := range terms {
		if t.ID != "" {
			ids = append(ids, t.ID)
			continue
		}
		out = append(out, tagFilters(t.Tags))
	}
	if len(ids) > 0 {
		out = append([][]et.Filter{{filter("subnet-id", ids...)}}, out...)
	}
	return out
}

// tagFilters asks for all the tags, by ascending key; the value "*" for any value.
func tagFilters(tags map[string]string) []et.Filter {
	var out []et.Filter
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if tags[k] == "*" {
			out = append(out, filter("tag-key", k))
			continue
		}
		out = append(out, filter("tag:"+k, tags[k]))
	}
	return out
}

// classKey names a class and the generation of its spec.
func classKey(class *awsv1.EC2NodeClass) string {
	return string(class.UID) + "/" + class.Name + "/" + strconv.FormatInt(class.Generation, 10)
}

// report takes fresh counts; what was in flight is contained in them.
func (s *subnets) report(found []subnetFound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range found {
		a := s.count[f.ID]
		if a == nil {
			a = &addresses{}
			s.count[f.ID] = a
		}
		a.free, a.inflight = f.free, f.free
		a.reported++
	}
}

// exhausted notes that EC2 found no free address in the subnet.
func (s *subnets) exhausted(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count[id] = &addresses{reported: s.reportedLocked(id) + 1}
}

func (s *subnets) reportedLocked(id string) int {
	if a := s.count[id]; a != nil {
		return a.reported
	}
	return 0
}

// take chooses in each zone the subnet with most addresses left, the first of the list on a tie, and subtracts what the launch may use there.
func (s *subnets) take(list []awsv1.Subnet, perZone map[string]int) (map[string]awsv1.Subnet, []hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := func(id string) int {
		if a := s.count[id]; a != nil {
			return a.inflight
		}
		return 0
	}
	chosen := map[string]awsv1.Subnet{}
	for _, sub := range list {
		if have, ok := chosen[sub.Zone]; !ok || left(sub.ID) > left(have.ID) {
			chosen[sub.Zone] = sub
		}
	}
	var holds []hold
	for _, zone := range slices.Sorted(maps.Keys(chosen)) {
		id, n := chosen[zone].ID, perZone[zone]
		if a := s.count[id]; a != nil && n > 0 {
			a.inflight -= n
			holds = append(holds, hold{id, n, a.reported})
		}
	}
	return chosen, holds
}

// giveBack returns what a launch held, except in the subnet it used. Subnets reported since are right already.
func (s *subnets) giveBack(holds []hold, used string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range holds {
		if a := s.count[h.subnet]; h.subnet != used && a != nil && a.reported == h.reported {
			a.inflight += h.n
		}
	}
}
