package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
)

// blockEnds is how long before its end a capacity block takes no more instances.
const blockEnds = 40 * time.Minute

// reservations finds capacity reservations and keeps count of their free instances.
type reservations struct {
	api   ec2.DescribeCapacityReservationsAPIClient
	clock clock.PassiveClock
	log   *slog.Logger
	found *memo[[]et.CapacityReservation]

	mu         sync.Mutex
	generation uint64
	free       map[string]freeCount
}

type freeCount struct {
	n  int
	at time.Time // of the answer the count is from
}

func newReservations(api ec2.DescribeCapacityReservationsAPIClient, c clock.PassiveClock, log *slog.Logger) *reservations {
	return &reservations{api: api, clock: c, log: log, found: newMemo[[]et.CapacityReservation](c, time.Minute), free: map[string]freeCount{}}
}

// resolve returns the active reservations that the class selects, by id.
func (r *reservations) resolve(ctx context.Context, class *awsv1.EC2NodeClass) ([]awsv1.CapacityReservation, error) {
	return r.find(ctx, class.Spec.CapacityReservationSelectorTerms)
}

func (r *reservations) find(ctx context.Context, terms []awsv1.CapacityReservationSelectorTerm) ([]awsv1.CapacityReservation, error) {
	byID := map[string]awsv1.CapacityReservation{}
	for _, in := range reservationQueries(terms) {
		key, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("resolving capacity reservations: %w", err)
		}
		found, err := r.found.or(string(key), func() ([]et.CapacityReservation, error) { return r.describe(ctx, in) })
		if err != nil {
			return nil, fmt.Errorf("resolving capacity reservations: %w", err)
		}
		for i := range found {
			if out, ok := r.convert(ctx, &found[i]); ok {
				byID[out.ID] = out
			}
		}
	}
	return slices.SortedFunc(maps.Values(byID), func(a, b awsv1.CapacityReservation) int { return cmp.Compare(a.ID, b.ID) }), nil
}

// ExpiringBlocks returns those of the reservations that are capacity blocks about to end.
func (p *Provider) ExpiringBlocks(ctx context.Context, ids []string) ([]string, error) {
	var terms []awsv1.CapacityReservationSelectorTerm
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		terms = append(terms, awsv1.CapacityReservationSelectorTerm{ID: id})
	}
	found, err := p.reservations.find(ctx, terms)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range found {
		if r.State == awsv1.ReservationExpiring {
			out = append(out, r.ID)
		}
	}
	return out, nil
}

// reservationQueries returns one query a term, and two for a term with an id and something else.
func reservationQueries(terms []awsv1.CapacityReservationSelectorTerm) []*ec2.DescribeCapacityReservationsInput {
	var out []*ec2.DescribeCapacityReservationsInput
	for _, t := range terms {
		if t.ID != "" {
			out = append(out, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{t.ID}, Filters: []et.Filter{filter("state", "active")}})
		}
		if len(t.Tags) == 0 && t.InstanceMatchCriteria == "" {
			continue
		}
		filters := []et.Filter{filter("state", "active")}
		if t.OwnerID != "" {
			filters = append(filters, filter("owner-id", t.OwnerID))
		}
		filters = append(filters, tagFilters(t.Tags)...)
		if t.InstanceMatchCriteria != "" {
			filters = append(filters, filter("instance-match-criteria", string(t.InstanceMatchCriteria)))
		}
		out = append(out, &ec2.DescribeCapacityReservationsInput{Filters: filters, MaxResults: new(int32(1000))})
	}
	return out
}

func (r *reservations) describe(ctx context.Context, in *ec2.DescribeCapacityReservationsInput) ([]et.CapacityReservation, error) {
	asked := r.clock.Now()
	pages := ec2.NewDescribeCapacityReservationsPaginator(r.api, in)
	var out []et.CapacityReservation
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if code(err) == "InvalidCapacityReservationId.NotFound" {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, page.CapacityReservations...)
	}
	for _, found := range out {
		r.sync(val(found.CapacityReservationId), num(found.AvailableInstanceCount), asked)
	}
	return out, nil
}

// convert makes an entry of the status; ok is false for reservations that have ended or are of a kind not known here.
func (r *reservations) convert(ctx context.Context, in *et.CapacityReservation) (awsv1.CapacityReservation, bool) {
	out := awsv1.CapacityReservation{
		ID: val(in.CapacityReservationId), AvailabilityZone: val(in.AvailabilityZone), InstanceType: val(in.InstanceType), OwnerID: val(in.OwnerId),
		InstanceMatchCriteria: awsv1.InstanceMatchCriteria(in.InstanceMatchCriteria),
		ReservationType:       awsv1.ReservationType(cmp.Or(string(in.ReservationType), string(awsv1.ReservationDefault))), State: awsv1.ReservationActive,
	}
	if val(in.Interruptible) {
		out.Interruptible = new(true)
	}
	now := r.clock.Now()
	if in.EndDate != nil {
		if !in.EndDate.After(now) {
			return out, false
		}
		out.EndTime = new(metav1.NewTime(*in.EndDate))
		if out.ReservationType == awsv1.ReservationCapacityBlock && !now.Before(in.EndDate.Add(-blockEnds)) {
			out.State = awsv1.ReservationExpiring
		}
	}
	known := (out.ReservationType == awsv1.ReservationDefault || out.ReservationType == awsv1.ReservationCapacityBlock) &&
		(out.InstanceMatchCriteria == awsv1.MatchOpen || out.InstanceMatchCriteria == awsv1.MatchTargeted)
	if !known {
		r.log.WarnContext(ctx, "capacity reservation of an unknown kind is not used", "id", out.ID, "type", out.ReservationType, "match", out.InstanceMatchCriteria)
	}
	return out, known
}

// sync takes the count that EC2 reports.
func (r *reservations) sync(id string, n int, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if have, ok := r.free[id]; !ok || have.n != n {
		r.generation++
	}
	r.free[id] = freeCount{n, at}
}

// took counts an instance launched at the time; a count reported later contains it already.
func (r *reservations) took(id string, launched time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, ok := r.free[id]
	if !ok || have.n == 0 || have.at.After(launched) {
		return
	}
	have.n--
	r.free[id] = have
	r.generation++
}

// freed counts an instance of the reservation that is gone.
func (r *reservations) freed(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, ok := r.free[id]
	if !ok {
		return
	}
	have.n++
	r.free[id] = have
	r.generation++
}

// full notes that EC2 found no free instance.
func (r *reservations) full(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free[id] = freeCount{0, r.clock.Now()}
	r.generation++
}

func (r *reservations) sequence() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.generation
}

// count fills in how many instances of each reservation are free.
func (r *reservations) count(list []ec2types.Reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list {
		list[i].Count = r.free[list[i].ID].n
	}
}
