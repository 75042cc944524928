package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/telemetry"
)

const (
	taggedAnnotation  = awsv1.TaggedAnnotation
	clusterAnnotation = awsv1.ClusterNameTaggedAnnotation
	tagInterval       = time.Second
)

// tags is the loop nodeclaim.tagging: once a node is registered its instance gets the names of node and claim (lifecycle rules 19.3).
type tags struct{ *shared }

// Step tags the instance of one claim.
func (l *tags) Step(ctx context.Context, c *karpv1.NodeClaim) (reconcile.Result, error) {
	done := c.Annotations[taggedAnnotation] == "true" && c.Annotations[clusterAnnotation] == "true"
	if !managedRef(c.Spec.NodeClassRef) || c.Status.NodeName == "" || c.DeletionTimestamp != nil || done {
		return reconcile.Result{}, nil
	}
	id, ok := instanceID(c.Status.ProviderID)
	if !ok {
		l.log.Error("claim has no valid provider ID, its instance is not tagged", telemetry.Claim(c.Name), "provider-id", c.Status.ProviderID)
		return reconcile.Result{}, nil
	}
	if gone, err := l.tag(ctx, c, id); gone || err != nil {
		return reconcile.Result{}, err
	}
	base := c.DeepCopy()
	c.Annotations = annotate(annotate(c.Annotations, taggedAnnotation, "true"), clusterAnnotation, "true")
	return reconcile.Result{}, l.patch(ctx, c, base)
}

// tag creates the tags that the instance lacks; a tag that somebody set keeps its value.
func (l *tags) tag(ctx context.Context, c *karpv1.NodeClaim, id string) (gone bool, err error) {
	instance, err := l.cloud.Get(ctx, id)
	var notFound *cloud.NotFound
	if errors.As(err, &notFound) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading instance %s: %w", id, err)
	}
	want := map[string]string{"Name": c.Status.NodeName, karpv1.Group + "/nodeclaim": c.Name, "eks:eks-cluster-name": l.cfg.AWS.ClusterName}
	for key := range want {
		if _, has := instance.Tags[key]; has {
			delete(want, key)
		}
	}
	if len(want) == 0 {
		return false, nil
	}
	if err := l.fence.Check(); err != nil {
		return false, err
	}
	if err := l.cloud.Tag(ctx, id, want); err != nil {
		return false, fmt.Errorf("tagging instance %s: %w", id, err)
	}
	// One worker that pauses after each call keeps CreateTags below one a second.
	select {
	case <-ctx.Done():
	case <-time.After(tagInterval):
	}
	return false, nil
}
