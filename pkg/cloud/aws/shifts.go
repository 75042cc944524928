package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	zt "github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
	"k8s.io/utils/clock"

	"github.com/karp-sh/karp/pkg/catalog"
)

// reasonShifted is why an offering in a shifted zone cannot be bought.
const reasonShifted = "ZonalShift"

type shiftAPI interface {
	GetManagedResource(context.Context, *arczonalshift.GetManagedResourceInput, ...func(*arczonalshift.Options)) (*arczonalshift.GetManagedResourceOutput, error)
}

// shifts are the zones that traffic was shifted away from by ARC (AWS rules 14). A shift ends by itself at its time.
type shifts struct {
	api   shiftAPI
	clock clock.PassiveClock
	// resource is the ARN of the cluster.
	resource func(context.Context) (string, error)

	mu         sync.Mutex
	generation uint64
	until      map[string]time.Time // by zone id
}

// refresh replaces the set by what ARC says now. On an error the former one stays.
func (s *shifts) refresh(ctx context.Context) error {
	arn, err := s.resource(ctx)
	if err != nil {
		return fmt.Errorf("reading zonal shifts: %w", err)
	}
	out, err := s.api.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: &arn})
	if err != nil {
		return fmt.Errorf("reading the zonal shifts of %s: %w", arn, err)
	}
	fresh := map[string]time.Time{}
	now := s.clock.Now()
	for _, z := range out.ZonalShifts {
		if zone, end := val(z.AwayFrom), val(z.ExpiryTime); z.AppliedStatus == zt.AppliedStatusApplied && end.After(now) && end.After(fresh[zone]) {
			fresh[zone] = end
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.EqualFunc(fresh, s.until, time.Time.Equal) {
		s.until = fresh
		s.generation++
	}
	return nil
}

// end returns when the shift away from the zone ends; ok is false if there is none.
func (s *shifts) end(zoneID string) (at time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok = s.until[zoneID]
	return at, ok && s.clock.Now().Before(at)
}

// away reports whether traffic was shifted away from the zone.
func (s *shifts) away(zoneID string) bool {
	_, ok := s.end(zoneID)
	return ok
}

// unavailable says why offerings in the zone cannot be bought, nil if they can.
func (s *shifts) unavailable(zoneID string) *catalog.Unavailability {
	if at, ok := s.end(zoneID); ok {
		return &catalog.Unavailability{Reason: reasonShifted, Until: at}
	}
	return nil
}

// zones lists the ids of the shifted zones.
func (s *shifts) zones() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropEnded()
	return slices.Sorted(maps.Keys(s.until))
}

// sequence changes with every change of the set, the end of a shift included.
func (s *shifts) sequence() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropEnded()
	return s.generation
}

func (s *shifts) dropEnded() {
	now := s.clock.Now()
	before := len(s.until)
	maps.DeleteFunc(s.until, func(_ string, at time.Time) bool { return !now.Before(at) })
	s.generation += uint64(before - len(s.until))
}

// ShiftedZones returns the ids of the zones that traffic was shifted away from, ascending.
func (p *Provider) ShiftedZones() []string { return p.shifts.zones() }

// clusterARN returns the cluster's ARN, which EKS tells.
func (c *cluster) clusterARN(ctx context.Context) (string, error) {
	if arn := c.knownARN(); arn != "" {
		return arn, nil
	}
	if err := c.describe(ctx); err != nil {
		return "", err
	}
	if arn := c.knownARN(); arn != "" {
		return arn, nil
	}
	return "", errors.New("EKS reports no ARN of the cluster")
}

func (c *cluster) knownARN() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.arn
}
