package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/karp-sh/karp/pkg/apis/conditions"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/disrupt"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// marks is the loop nodeclaim.disruption: it keeps the conditions Drifted and Consolidatable of all claims (disruption rules 8 and 17). One run
// looks at every claim of a snapshot; what costs a call to the cloud is asked again when something it depends on has changed, else every five
// minutes.
type marks struct {
	*shared
	seen map[types.UID]sight
}

// sight is the last look at a claim's drift.
type sight struct {
	// of is what the answer depends on.
	of string
	// again is when to look without a change, typed when the instance type was last found in the catalogue.
	again, typed time.Time
	failures     int
}

// marksPeriod is how often all claims are looked at.
const marksPeriod = 2 * time.Second

func newMarks(s *shared) *marks { return &marks{shared: s, seen: map[types.UID]sight{}} }

// Step looks at all claims once. One that cannot be judged or written does not hold up the others.
func (l *marks) Step(ctx context.Context) (time.Duration, error) {
	s, err := l.feed.Snapshot(ctx, l.clock.Now())
	if errors.Is(err, kube.ErrNotSynced) {
		return disruptUnsynced, nil
	}
	if err != nil {
		return marksPeriod, fmt.Errorf("observing the cluster: %w", err)
	}
	if err := l.fence.Check(); err != nil {
		return marksPeriod, nil
	}
	pools := map[string]*cluster.Pool{}
	for _, p := range s.Pools {
		pools[p.Name] = p
	}
	alive := make(map[types.UID]sight, len(s.Claims))
	var errs []error
	for _, c := range s.Claims {
		errs = append(errs, l.mark(ctx, c, pools[c.Pool]))
		if x, ok := l.seen[types.UID(c.UID)]; ok {
			alive[types.UID(c.UID)] = x
		}
	}
	l.seen = alive
	return marksPeriod, errors.Join(errs...)
}

// mark brings both conditions of one claim up to date.
func (l *marks) mark(ctx context.Context, c *cluster.Claim, pool *cluster.Pool) error {
	now := l.clock.Now()
	quiet := disrupt.Consolidatable(c, pool, now)
	drift, look := l.drift(ctx, c, pool, now)
	changed := !quiet.Leave && quiet.True != c.Consolidatable
	driftChanged := look && !drift.Leave && (drift.True != c.Drifted || drift.True && drift.Reason != c.Drift.Reason)
	if !changed && !driftChanged {
		return nil
	}
	var claim karpv1.NodeClaim
	if err := l.client.Get(ctx, types.NamespacedName{Name: c.Name}, &claim); err != nil || string(claim.UID) != c.UID || l.awaited.Stale(&claim) {
		return nil // the next run sees it as it is
	}
	base := claim.DeepCopy()
	var err error
	if changed {
		err = l.set(&claim, karpv1.ConditionConsolidatable, quiet, now)
	}
	if driftChanged {
		err = errors.Join(err, l.set(&claim, karpv1.ConditionDrifted, drift.Marking, now))
	}
	if err == nil {
		err = l.patchStatus(ctx, &claim, base)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("marking claim %s: %w", c.Name, err)
	}
	return nil
}

// set writes or removes a condition.
func (l *marks) set(c *karpv1.NodeClaim, kind string, m disrupt.Marking, now time.Time) (err error) {
	of := conditions.Of(c)
	if !m.True {
		c.Status.Conditions, err = conditions.NodeClaim().Clear(c.Status.Conditions, of, kind, now)
		return err
	}
	c.Status.Conditions = conditions.NodeClaim().Set(c.Status.Conditions, of, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: m.Reason, Message: m.Message}, now)
	return nil
}

// drift looks for drift if it is time to; look is false if it is not, or if it cannot be told now.
func (l *marks) drift(ctx context.Context, c *cluster.Claim, pool *cluster.Pool, now time.Time) (_ disrupt.Drift, look bool) {
	if pool == nil {
		return disrupt.Drift{}, false
	}
	uid := types.UID(c.UID)
	was, of := l.seen[uid], l.dependsOn(ctx, c, pool)
	if was.of == of && now.Before(was.again) {
		return disrupt.Drift{}, false
	}
	d, err := disrupt.Drifted(c, pool, disrupt.DriftFacts{TypeChecked: was.typed, Provider: func() (string, error) { return l.ask(ctx, c) }}, now)
	is := sight{of: of, again: d.Again, typed: was.typed}
	if d.TypeChecked {
		is.typed = now
	}
	if err != nil {
		is.failures = was.failures + 1
		is.again = now.Add(min(time.Second<<min(is.failures, 9), 5*time.Minute))
		l.log.Debug("drift cannot be told now", telemetry.Claim(c.Name), "error", err)
	}
	l.seen[uid] = is
	return d, err == nil
}

// dependsOn names what the drift of a claim follows from, other than the cloud.
func (l *marks) dependsOn(ctx context.Context, c *cluster.Claim, pool *cluster.Pool) string {
	class, err := l.class(ctx, c.NodeClass.Name)
	version := ""
	if err == nil && class != nil {
		version = class.ResourceVersion
	}
	return fmt.Sprint(c.Launched, c.Drifted, c.Annotations[karpv1.NodePoolHashAnnotation], pool.Hash, pool.Generation, version)
}

// ask asks the cloud whether the claim's instance is still what its class wants.
func (l *marks) ask(ctx context.Context, c *cluster.Claim) (string, error) {
	if l.drifts == nil {
		return "", nil
	}
	class, err := l.class(ctx, c.NodeClass.Name)
	if err != nil {
		return "", err
	}
	if class == nil || class.DeletionTimestamp != nil {
		return "", nil
	}
	var claim karpv1.NodeClaim
	if err := l.client.Get(ctx, types.NamespacedName{Name: c.Name}, &claim); err != nil {
		return "", err
	}
	why, err := l.drifts.Drift(ctx, &claim, class)
	var gone *cloud.NotFound
	if errors.As(err, &gone) {
		return "", nil // collected elsewhere
	}
	return string(why), err
}
