package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/apis/conditions"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	karpv1alpha1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1alpha1"
	"github.com/karp-sh/karp/pkg/engine/overlay"
)

const (
	// overlayInterval is how often overlays are judged again although nothing they refer to has changed: the types on sale may have (scheduling
	// rules 23).
	overlayInterval = 6 * time.Hour
	// overlayWait is how soon they are judged again while the types of some pool are not known.
	overlayWait = 5 * time.Second
	// overlayRetry is how soon a verdict on an older state of the overlay is asked for again.
	overlayRetry = 250 * time.Millisecond
)

// overlays is the loop nodeoverlay.controller (gate NodeOverlay): it writes the verdict on each overlay. What overlays do is in every snapshot;
// this loop only tells.
type overlays struct{ *shared }

// Step judges one overlay. The evaluation is that of all; while nothing changes it costs nothing to ask for it.
func (l *overlays) Step(ctx context.Context, o *karpv1alpha1.NodeOverlay) (reconcile.Result, error) {
	if o.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	verdicts, complete, err := l.feed.Overlays(ctx)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("evaluating node overlays: %w", err)
	}
	i := slices.IndexFunc(verdicts, func(v overlay.Verdict) bool { return v.Name == o.Name })
	if i < 0 || verdicts[i].Generation != o.Generation {
		return reconcile.Result{RequeueAfter: overlayRetry}, nil
	}
	c := conditions.True(karpv1.ConditionValidationSucceeded)
	if v := verdicts[i]; v.Reason != "" {
		c = conditions.False(karpv1.ConditionValidationSucceeded, string(v.Reason), conditions.Truncate(v.Message))
	}
	again := overlayInterval
	if !complete {
		again = overlayWait
	}
	base := o.DeepCopy()
	setOverlay(o, l.clock.Now(), c)
	if conditions.Equal(base.Status.Conditions, o.Status.Conditions) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return reconcile.Result{RequeueAfter: again}, l.patchStatus(ctx, o, base)
}

// overlayRows are the controllers of the gate NodeOverlay.
func overlayRows(s *shared) []row {
	if !s.cfg.Gates.NodeOverlay {
		return nil
	}
	empty := func() *karpv1alpha1.NodeOverlay { return &karpv1alpha1.NodeOverlay{} }
	changed := predicate.GenerationChangedPredicate{}
	return []row{{
		name: "nodeoverlay.controller", kind: empty(), step: loop(s, empty, (&overlays{s}).Step), only: changed, workers: 1,
		watches: []watch{
			// A change of one overlay can end or begin a conflict of another.
			{kind: empty(), to: s.allOverlays, only: changed}, {kind: &karpv1.NodePool{}, to: s.allOverlays, only: changed},
			{kind: &awsv1.EC2NodeClass{}, to: s.allOverlays, only: changed},
		},
		from: 100 * time.Millisecond, to: time.Minute,
	}}
}

// allOverlays wakes all overlays.
func (s *shared) allOverlays(ctx context.Context, _ client.Object) []reconcile.Request {
	var list karpv1alpha1.NodeOverlayList
	if err := s.client.List(ctx, &list); err != nil {
		return nil
	}
	out := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		out[i].Name = list.Items[i].Name
	}
	return out
}
