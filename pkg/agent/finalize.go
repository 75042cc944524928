package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// finalize brings a deleted claim to its end: deadline, nodes, instance, finalizer (lifecycle rules 17.3).
func (l *claims) finalize(ctx context.Context, c *karpv1.NodeClaim) (reconcile.Result, error) {
	v := claimOf(c)
	intent, err := lifecycle.ParseIntent(c.Annotations[lifecycle.IntentAnnotation])
	if err != nil {
		return reconcile.Result{}, err
	}
	nodes, err := l.nodesWith(ctx, c.Status.ProviderID)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("finding the nodes of claim %s: %w", c.Name, err)
	}
	switch lifecycle.Finalize(&v, nodesOf(nodes), intent.Of(v.UID)) {
	case lifecycle.FinalizeDeadline:
		return l.annotateDeadline(ctx, c, lifecycle.NewDeadline(&v))
	case lifecycle.FinalizeNodes:
		return reconcile.Result{}, l.removeNodes(ctx, nodes)
	case lifecycle.FinalizeLaunch:
		return l.learn(ctx, c, intent)
	case lifecycle.FinalizeInstance:
		return l.removeInstance(ctx, c, &v)
	case lifecycle.FinalizeDone:
		return reconcile.Result{}, l.release(ctx, c)
	default:
		return reconcile.Result{}, nil
	}
}

// annotateDeadline writes the claim's deadline. A conflict may mean that somebody has written an earlier one, so all is looked at again.
func (l *claims) annotateDeadline(ctx context.Context, c *karpv1.NodeClaim, deadline string) (reconcile.Result, error) {
	base := c.DeepCopy()
	c.Annotations = annotate(c.Annotations, lifecycle.DeadlineAnnotation, deadline)
	if err := l.patch(ctx, c, base); err != nil {
		return reconcile.Result{}, err
	}
	l.log.Info("annotated nodeclaim", telemetry.Claim(c.Name), lifecycle.DeadlineAnnotation, deadline)
	l.events.Warn(c, "TerminationGracePeriodExpiring", "all pods will be deleted by "+deadline)
	return reconcile.Result{RequeueAfter: conflictRetry}, nil
}

// removeNodes deletes the claim's nodes that are not being deleted yet. Their end wakes the claim up.
func (l *claims) removeNodes(ctx context.Context, nodes []corev1.Node) error {
	var errs []error
	for i := range nodes {
		if nodes[i].DeletionTimestamp != nil {
			continue
		}
		if _, err := l.remove(ctx, &nodes[i]); err != nil {
			errs = append(errs, fmt.Errorf("deleting node %s: %w", nodes[i].Name, err))
		}
	}
	return errors.Join(errs...)
}

// learn finds out what became of a launch that was promised and never concluded, by repeating it with its token. What it yields is stored
// and then terminated like any instance.
func (l *claims) learn(ctx context.Context, c *karpv1.NodeClaim, intent *lifecycle.Intent) (reconcile.Result, error) {
	instance := l.record(c.UID)
	if instance == nil {
		var request cloud.Request
		if err := json.Unmarshal(intent.Request, &request); err != nil {
			return reconcile.Result{}, fmt.Errorf("reading the recorded request of claim %s: %w", c.Name, err)
		}
		if err := l.fence.Check(); err != nil {
			return reconcile.Result{}, err
		}
		launched, err := l.cloud.Launch(ctx, &request)
		switch outcomeOf(launched, err).Kind {
		case lifecycle.Created:
			instance = launched
		case lifecycle.OpenOutcome:
			return reconcile.Result{}, fmt.Errorf("finding out what was launched for claim %s: %w", c.Name, err)
		default:
			return reconcile.Result{}, l.release(ctx, c)
		}
		l.remember(c.UID, instance)
	}
	base := c.DeepCopy()
	c.Status.ProviderID, c.Status.ImageID = instance.ProviderID, instance.ImageID
	setClaim(c, l.clock.Now(), lifecycle.Condition{Type: lifecycle.Launched, Status: lifecycle.True, Reason: lifecycle.Launched})
	return reconcile.Result{RequeueAfter: conflictRetry}, l.patchStatus(ctx, c, base)
}

// removeInstance asks for the instance's end until it is not found.
func (l *claims) removeInstance(ctx context.Context, c *karpv1.NodeClaim, v *lifecycle.Claim) (reconcile.Result, error) {
	gone, err := l.terminate(ctx, v)
	if err != nil {
		return reconcile.Result{}, err
	}
	base := c.DeepCopy()
	setClaim(c, l.clock.Now(), lifecycle.InstanceCalled())
	if !apiequality.Semantic.DeepEqual(base.Status, c.Status) {
		if err := l.patchStatus(ctx, c, base); err != nil {
			return reconcile.Result{}, err
		}
	}
	if !gone {
		return reconcile.Result{RequeueAfter: lifecycle.InstanceInterval}, nil
	}
	l.countInstanceEnd(c)
	return reconcile.Result{}, l.release(ctx, c)
}

// terminate asks for the end of the claim's instance and reports whether it is gone for good.
func (l *claims) terminate(ctx context.Context, v *lifecycle.Claim) (gone bool, err error) {
	id, ok := instanceID(v.ProviderID)
	if !ok {
		return false, fmt.Errorf("claim %s has provider ID %q, which is not of the form aws:///<zone>/<instance>; correct its status or remove its finalizer", v.Name, v.ProviderID)
	}
	if err := l.fence.Check(); err != nil {
		return false, err
	}
	err = l.cloud.Terminate(ctx, id)
	var notFound *cloud.NotFound
	switch {
	case errors.As(err, &notFound):
		launched := v.Conditions[lifecycle.Launched].Since
		seen := v.Is(lifecycle.Registered, lifecycle.True) || l.wasSeen(v.ProviderID)
		return lifecycle.InstanceGone(launched, seen, l.clock.Now()), nil
	case err != nil:
		return false, fmt.Errorf("terminating instance %s of claim %s: %w", id, v.Name, err)
	default:
		l.saw(v.ProviderID)
		return false, nil
	}
}

// release removes our finalizer, and ours only.
func (l *claims) release(ctx context.Context, c *karpv1.NodeClaim) error {
	base := c.DeepCopy()
	if !controllerutil.RemoveFinalizer(c, lifecycle.Finalizer) {
		return nil
	}
	if err := l.client.Patch(ctx, c, optimistic(base)); err != nil {
		if apierrors.IsNotFound(err) {
			l.forget(c)
		}
		return client.IgnoreNotFound(err)
	}
	l.forget(c)
	l.countClaimEnd(c)
	l.log.Info("deleted nodeclaim", telemetry.Claim(c.Name), "provider-id", c.Status.ProviderID)
	return nil
}

func (l *claims) wasSeen(providerID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[providerID]
}

func (l *claims) saw(providerID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[providerID] = true
}
