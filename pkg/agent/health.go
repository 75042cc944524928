package agent

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

// registrationHealthy is the pool condition that sums up its last registrations.
const registrationHealthy = "NodeRegistrationHealthy"

// health keeps the registration health of pools (lifecycle rules 11).
type health struct {
	*shared

	mu    sync.Mutex
	rings map[types.UID]*lifecycle.Ring
}

func newHealth(s *shared) *health {
	return &health{shared: s, rings: map[types.UID]*lifecycle.Ring{}}
}

// Success records a registration.
func (h *health) Success(ctx context.Context, c *karpv1.NodeClaim) error {
	return h.record(ctx, c, true, lifecycle.Condition{Type: registrationHealthy, Status: lifecycle.True, Reason: registrationHealthy})
}

// Failure records that a claim never became a node, for the cause.
func (h *health) Failure(ctx context.Context, c *karpv1.NodeClaim, cause lifecycle.Condition) error {
	return h.record(ctx, c, false, cause)
}

// record counts an outcome for the claim's pool, if the claim is really the pool's: condition first, ring second.
func (h *health) record(ctx context.Context, c *karpv1.NodeClaim, success bool, cond lifecycle.Condition) error {
	name := c.Labels[lifecycle.PoolLabel]
	if name == "" {
		return nil
	}
	var pool karpv1.NodePool
	if err := h.client.Get(ctx, types.NamespacedName{Name: name}, &pool); err != nil {
		return client.IgnoreNotFound(err)
	}
	if poolOwner(c) != string(pool.UID) {
		return nil
	}
	stored := findCondition(pool.Status.Conditions, registrationHealthy)
	var next lifecycle.Status
	h.with(pool.UID, func(r *lifecycle.Ring) {
		r.Seed(statusOf(stored))
		next = r.With(success)
	})
	if next == cond.Status && statusOf(stored) != cond.Status {
		base := pool.DeepCopy()
		setPool(&pool, h.clock.Now(), cond)
		if err := h.patchStatus(ctx, &pool, base); err != nil {
			return err
		}
	}
	h.with(pool.UID, func(r *lifecycle.Ring) { r.Record(success) })
	return nil
}

func (h *health) with(uid types.UID, f func(*lifecycle.Ring)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ring := h.rings[uid]
	if ring == nil {
		ring = &lifecycle.Ring{}
		h.rings[uid] = ring
	}
	f(ring)
}

// Step is the loop nodepool.registrationhealth: it forgets outcomes that an edit of pool or class has made meaningless.
func (h *health) Step(ctx context.Context, pool *karpv1.NodePool) (reconcile.Result, error) {
	if !managedRef(pool.Spec.Template.Spec.NodeClassRef) {
		return reconcile.Result{}, nil
	}
	class, err := h.class(ctx, pool.Spec.Template.Spec.NodeClassRef.Name)
	if err != nil || class == nil {
		return reconcile.Result{}, err
	}
	stored := findCondition(pool.Status.Conditions, registrationHealthy)
	h.with(pool.UID, func(r *lifecycle.Ring) { r.Seed(statusOf(stored)) })
	base := pool.DeepCopy()
	if stored == nil || pool.Status.NodeClassObservedGeneration != class.Generation || stored.ObservedGeneration != pool.Generation {
		setPool(pool, h.clock.Now(), lifecycle.Condition{
			Type: registrationHealthy, Status: lifecycle.Unknown, Reason: "AwaitingReconciliation", Message: "object is awaiting reconciliation",
		})
		h.with(pool.UID, (*lifecycle.Ring).Reset)
	}
	pool.Status.NodeClassObservedGeneration = class.Generation
	return h.writePool(ctx, pool, base, 0)
}

func findCondition(list []metav1.Condition, kind string) *metav1.Condition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}

func statusOf(c *metav1.Condition) lifecycle.Status {
	if c == nil {
		return lifecycle.Unknown
	}
	return lifecycle.Status(c.Status)
}

// writePool stores the status of a pool if it changed.
func (s *shared) writePool(ctx context.Context, pool, base *karpv1.NodePool, after time.Duration) (reconcile.Result, error) {
	result := reconcile.Result{RequeueAfter: after}
	if sameStatus(pool.Status, base.Status) {
		return result, nil
	}
	return result, s.patchStatus(ctx, pool, base)
}
