package agent

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// expiry is the loop nodeclaim.expiration: it deletes claims at the end of their life (lifecycle rules 14).
type expiry struct{ *shared }

// Step looks at one claim.
func (l *expiry) Step(ctx context.Context, c *karpv1.NodeClaim) (reconcile.Result, error) {
	if !managedRef(c.Spec.NodeClassRef) {
		return reconcile.Result{}, nil
	}
	v := claimOf(c)
	expired, after := lifecycle.Expire(&v, l.clock.Now())
	if !expired {
		return reconcile.Result{RequeueAfter: after}, nil
	}
	removed, err := l.remove(ctx, c)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("deleting expired claim %s: %w", c.Name, err)
	}
	if removed {
		l.countDisrupted(ctx, c, lifecycle.ReasonExpired)
		l.log.Debug("deleting expired nodeclaim", telemetry.Claim(c.Name))
	}
	return reconcile.Result{}, nil
}
