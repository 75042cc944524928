package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
	"github.com/karp-sh/karp/pkg/units"
)

// statics holds the loops of pools with replicas: they create and delete claims until there are as many as wanted (lifecycle rules 21). They take
// turns on a pool, and always count what the API server has at that moment, so that neither a stale cache nor a crash can make them create twice.
type statics struct {
	*shared

	mu       sync.Mutex
	backoffs map[string]*lifecycle.LaunchBackoff
	// locks by pool.
	locks map[string]*sync.Mutex
}

func newStatics(s *shared) *statics {
	return &statics{shared: s, backoffs: map[string]*lifecycle.LaunchBackoff{}, locks: map[string]*sync.Mutex{}}
}

// Launched tells how a launch for the pool ended, for the back-off.
func (l *statics) Launched(pool string, ok bool) {
	l.backoff(pool, func(b *lifecycle.LaunchBackoff) {
		if ok {
			b.Succeeded()
		} else {
			b.Failed(l.clock.Now())
		}
	})
}

func (l *statics) backoff(pool string, f func(*lifecycle.LaunchBackoff)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.backoffs[pool] == nil {
		l.backoffs[pool] = &lifecycle.LaunchBackoff{}
	}
	f(l.backoffs[pool])
}

// staticPool reports whether the pool keeps a number of nodes, and is ours.
func staticPool(pool *karpv1.NodePool) bool {
	return pool.Spec.Replicas != nil && pool.DeletionTimestamp == nil && managedRef(pool.Spec.Template.Spec.NodeClassRef)
}

// mine reads the claims of a pool past the cache. The lock of the pool must be held until what was decided on them is done.
func (l *statics) mine(ctx context.Context, pool *karpv1.NodePool) ([]karpv1.NodeClaim, error) {
	var list karpv1.NodeClaimList
	if err := l.live.List(ctx, &list, client.MatchingLabels{lifecycle.PoolLabel: pool.Name}); err != nil {
		return nil, fmt.Errorf("listing the claims of pool %s: %w", pool.Name, err)
	}
	return managedClaims(list.Items), nil
}

// hold takes the lock of a pool: counting its claims and changing their number must not overlap (R14).
func (l *statics) hold(pool string) func() {
	l.mu.Lock()
	lock := l.locks[pool]
	if lock == nil {
		lock = &sync.Mutex{}
		l.locks[pool] = lock
	}
	l.mu.Unlock()
	lock.Lock()
	return lock.Unlock
}

// Provision is the loop static.provisioning: it creates what is missing.
func (l *statics) Provision(ctx context.Context, pool *karpv1.NodePool) (reconcile.Result, error) {
	idle := reconcile.Result{RequeueAfter: lifecycle.StaticInterval}
	if ready := findCondition(pool.Status.Conditions, karpv1.ConditionReady); !staticPool(pool) || statusOf(ready) != lifecycle.True {
		return reconcile.Result{}, nil
	}
	if !l.feed.Synced() {
		return reconcile.Result{RequeueAfter: unsyncedRetry}, nil
	}
	defer l.hold(pool.Name)()
	mine, err := l.mine(ctx, pool)
	if err != nil {
		return reconcile.Result{}, err
	}
	n, limited := replicasOf(pool, mine).Missing()
	if n == 0 && !limited {
		return idle, nil
	}
	wait := lifecycle.StaticInterval
	l.backoff(pool.Name, func(b *lifecycle.LaunchBackoff) { wait = b.Left(pool.Generation, l.clock.Now()) })
	switch {
	case wait > 0:
		return reconcile.Result{RequeueAfter: wait}, nil
	case n == 0:
		l.log.Info("nodepool node limit reached", telemetry.Pool(pool.Name))
		return reconcile.Result{RequeueAfter: lifecycle.StaticLimitedInterval}, nil
	}
	return idle, l.grow(ctx, pool, mine, int(n))
}

// Deprovision is the loop static.deprovisioning: it deletes what is too much.
func (l *statics) Deprovision(ctx context.Context, pool *karpv1.NodePool) (reconcile.Result, error) {
	if !staticPool(pool) {
		return reconcile.Result{}, nil
	}
	defer l.hold(pool.Name)()
	mine, err := l.mine(ctx, pool)
	if err != nil {
		return reconcile.Result{}, err
	}
	idle := reconcile.Result{RequeueAfter: lifecycle.StaticInterval}
	if n := replicasOf(pool, mine).Excess(); n > 0 {
		return idle, l.shrink(ctx, pool, mine, int(n))
	}
	return idle, nil
}

func replicasOf(pool *karpv1.NodePool, mine []karpv1.NodeClaim) lifecycle.Replicas {
	views := make([]lifecycle.Claim, len(mine))
	replaced := map[string]bool{}
	for i := range mine {
		views[i] = claimOf(&mine[i])
		replaced[mine[i].Name] = disrupting(&mine[i])
	}
	r := lifecycle.CountReplicas(views, replaced)
	r.Want = *pool.Spec.Replicas
	if limit, ok := kube.Resources(pool.Spec.Limits)[units.Nodes]; ok {
		r.Limit = &limit
	}
	return r
}

// grow creates claims. One that fails does not stop the others. Their names follow from the claims there are: another leader that has seen the same
// ones and is about to create the same claims finds the names taken, so that the pool's limit holds while leaders overlap (R12, I5).
func (l *statics) grow(ctx context.Context, pool *karpv1.NodePool, mine []karpv1.NodeClaim, n int) error {
	if err := l.fence.Check(); err != nil {
		return err
	}
	l.log.Info("provisioning nodeclaims to satisfy replica count", telemetry.Pool(pool.Name), "count", n)
	seen := []string{string(pool.UID)}
	for i := range mine {
		seen = append(seen, string(mine[i].UID))
	}
	slices.Sort(seen)
	var errs []error
	for i := range n {
		c, err := l.createStatic(ctx, pool, pool.Name+"-"+suffix(strings.Join(seen, "/")+"/"+strconv.Itoa(i)))
		if err != nil {
			errs = append(errs, fmt.Errorf("creating claim for pool %s: %w", pool.Name, err))
			continue
		}
		if c == nil {
			continue
		}
		l.feed.Put(c)
		l.countCreated(c, "provisioned")
		l.log.Info("created nodeclaim", telemetry.Pool(pool.Name), telemetry.Claim(c.Name))
	}
	return errors.Join(errs...)
}

// createStatic creates one claim; nil if the pool has it already. A name that something else has taken is replaced by a generated one.
func (l *statics) createStatic(ctx context.Context, pool *karpv1.NodePool, name string) (*karpv1.NodeClaim, error) {
	c := staticClaim(pool)
	c.Name, c.GenerateName = name, ""
	err := l.client.Create(ctx, c)
	if !apierrors.IsAlreadyExists(err) {
		return c, err
	}
	var other karpv1.NodeClaim
	if err := l.live.Get(ctx, client.ObjectKey{Name: name}, &other); err != nil || poolLabel(&other) == pool.Name {
		return nil, client.IgnoreNotFound(err)
	}
	c = staticClaim(pool)
	return c, l.client.Create(ctx, c)
}

// staticClaim builds a claim straight from the pool's template: its labels are requirements too, and nothing limits the types.
func staticClaim(pool *karpv1.NodePool) *karpv1.NodeClaim {
	t := &pool.Spec.Template
	all := kube.Requirements(t.Spec.Requirements)
	for r := range constraint.FromLabels(t.ObjectMeta.Labels).All() {
		all = append(all, r.Exprs()...)
	}
	labels := mapOf(t.ObjectMeta.Labels)
	for r := range constraint.Parse(all).All() {
		if constraint.WellKnown(r.Key) || constraint.Restricted(r.Key) {
			continue
		}
		if v, ok := r.Sample(); ok {
			labels[r.Key] = v
		}
	}
	labels[lifecycle.PoolLabel], labels[classLabel] = pool.Name, t.Spec.NodeClassRef.Name
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: pool.Name + "-", Labels: labels,
			Annotations: merged(mapOf(t.ObjectMeta.Annotations), map[string]string{
				karpv1.NodePoolHashAnnotation: pool.Hash(), karpv1.NodePoolHashVersionAnnotation: karpv1.HashVersion,
				karpv1.MinValuesRelaxedAnnotation: "false",
			}),
			OwnerReferences: []metav1.OwnerReference{ownerOf(pool, karpv1.GroupVersion().String(), karpv1.NodePoolKind)},
		},
		Spec: karpv1.NodeClaimSpec{
			Taints: t.Spec.Taints, StartupTaints: t.Spec.StartupTaints, Requirements: kube.APIRequirements(all),
			NodeClassRef: t.Spec.NodeClassRef, ExpireAfter: t.Spec.ExpireAfter, TerminationGracePeriod: t.Spec.TerminationGracePeriod,
		},
	}
}

// shrink deletes the claims whose end costs least.
func (l *statics) shrink(ctx context.Context, pool *karpv1.NodePool, mine []karpv1.NodeClaim, excess int) error {
	byName := map[string]*karpv1.NodeClaim{}
	var candidates []lifecycle.StaticNode
	for i := range mine {
		c := &mine[i]
		if c.DeletionTimestamp != nil {
			// On its way out already: one that was never launched is counted as active until it is gone, but must not be replaced by another victim.
			if c.Status.ProviderID == "" {
				excess--
			}
			continue
		}
		if disrupting(c) {
			continue // it is being replaced already (LX6)
		}
		n, err := l.candidate(ctx, c)
		if err != nil {
			return err
		}
		byName[c.Name] = c
		candidates = append(candidates, n)
	}
	victims := lifecycle.ScaleDown(candidates, excess, l.clock.Now())
	if len(victims) == 0 {
		return nil
	}
	l.log.Info("deprovisioning nodeclaims to satisfy replica count", telemetry.Pool(pool.Name), "count", len(victims))
	var errs []error
	for _, v := range victims {
		if _, err := l.remove(ctx, byName[v.Claim]); err != nil {
			errs = append(errs, fmt.Errorf("deleting claim %s: %w", v.Claim, err))
		}
	}
	return errors.Join(errs...)
}

// candidate is what the end of a claim would cost.
func (l *statics) candidate(ctx context.Context, c *karpv1.NodeClaim) (lifecycle.StaticNode, error) {
	out := lifecycle.StaticNode{Claim: c.Name, Launched: c.Status.ProviderID != "", Empty: true, Created: c.CreationTimestamp.Time}
	if d := c.Spec.ExpireAfter; d != nil {
		out.ExpireAfter, _ = d.Value()
	}
	if c.Status.NodeName == "" {
		return out, nil
	}
	var list corev1.PodList
	if err := l.client.List(ctx, &list, client.MatchingFields{podsByNode: c.Status.NodeName}); err != nil {
		return out, fmt.Errorf("listing the pods of node %s: %w", c.Status.NodeName, err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		view := podOf(p, nil)
		protected := view.Protected(l.clock.Now()).Active && !view.Terminal && !view.Terminating()
		out.Protected = out.Protected || protected
		out.Empty = out.Empty && view.Daemon && !protected
		cost, priority := 0.0, int32(0)
		if text := p.Annotations[corev1.PodDeletionCost]; text != "" {
			cost, _ = strconv.ParseFloat(text, 64)
		}
		if p.Spec.Priority != nil {
			priority = *p.Spec.Priority
		}
		out.EvictionCost += lifecycle.EvictionCost(cost, priority)
	}
	return out, nil
}

// poolOfClaim wakes the pool of a claim.
func poolOfClaim(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[lifecycle.PoolLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
}
