package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

// partitionRetry is how soon an instance is asked again for its partition.
const partitionRetry = 5 * time.Second

// hooks asks what else has to be known of the instance before its node may be used. On AWS that is its partition, if EC2 was to choose one
// (lifecycle rules 8, AWS rules 15.5).
func (l *claims) hooks(ctx context.Context, p *pass) []lifecycle.Hook {
	group, partition := p.claim.Labels[awsv1.LabelPlacementGroupID], awsv1.LabelPlacementGroupPartition
	if value, open := p.claim.Labels[partition]; group == "" || !open || value != "" {
		return nil
	}
	hook := lifecycle.Hook{Name: "PlacementGroupRegistrationHook", After: partitionRetry}
	id, ok := instanceID(p.claim.Status.ProviderID)
	if !ok {
		return nil // not launched yet, so there is no node either
	}
	instance, err := l.cloud.Get(ctx, id)
	var notFound *cloud.NotFound
	switch {
	case errors.As(err, &notFound):
		p.fail(fmt.Errorf("asking for the partition of claim %s: %w", p.claim.Name, err))
	case err != nil:
		p.fail(fmt.Errorf("reading instance %s: %w", id, err))
	case instance.Labels[partition] != "":
		p.claim.Labels = annotate(p.claim.Labels, partition, instance.Labels[partition])
		hook.Done = true
	}
	return []lifecycle.Hook{hook}
}
