package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

// pools holds the loops that keep NodePools: nodepool.readiness, nodepool.validation, nodepool.hash and nodepool.counter (lifecycle rules 22).
type pools struct{ *shared }

func sameStatus(a, b karpv1.NodePoolStatus) bool { return apiequality.Semantic.DeepEqual(a, b) }

// Ready copies the readiness of the pool's node class.
func (l *pools) Ready(ctx context.Context, pool *karpv1.NodePool) (reconcile.Result, error) {
	ref := pool.Spec.Template.Spec.NodeClassRef
	if !managedRef(ref) {
		return reconcile.Result{}, nil
	}
	class, err := l.class(ctx, ref.Name)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading EC2NodeClass %s: %w", ref.Name, err)
	}
	base := pool.DeepCopy()
	setPool(pool, l.clock.Now(), lifecycle.ClassReady(classView(class)))
	return l.writePool(ctx, pool, base, 0)
}

func classView(class *awsv1.EC2NodeClass) lifecycle.Class {
	if class == nil {
		return lifecycle.Class{}
	}
	out := lifecycle.Class{Found: true, Deleting: class.DeletionTimestamp != nil}
	if ready := findCondition(class.Status.Conditions, "Ready"); ready != nil {
		out.HasReady, out.Ready = true, conditionOf(*ready)
	}
	return out
}

// Validate checks what the schema cannot.
func (l *pools) Validate(ctx context.Context, pool *karpv1.NodePool) (reconcile.Result, error) {
	if !managedRef(pool.Spec.Template.Spec.NodeClassRef) {
		return reconcile.Result{}, nil
	}
	cond := lifecycle.Condition{Type: "ValidationSucceeded", Status: lifecycle.True, Reason: "ValidationSucceeded"}
	if err := pool.RuntimeValidate(); err != nil {
		cond.Status, cond.Reason, cond.Message = lifecycle.False, "NodePoolValidationFailed", lifecycle.Truncate(err.Error())
	}
	base := pool.DeepCopy()
	setPool(pool, l.clock.Now(), cond)
	return l.writePool(ctx, pool, base, 0)
}

// Hash stamps the pool with the hash of its template. Where another version is stored, its claims are stamped first (api rules 8.5).
func (l *pools) Hash(ctx context.Context, pool *karpv1.NodePool) (reconcile.Result, error) {
	if !managedRef(pool.Spec.Template.Spec.NodeClassRef) {
		return reconcile.Result{}, nil
	}
	hash := pool.Hash()
	if pool.Annotations[karpv1.NodePoolHashVersionAnnotation] != karpv1.HashVersion {
		var list karpv1.NodeClaimList
		if err := l.client.List(ctx, &list, client.MatchingLabels{lifecycle.PoolLabel: pool.Name}); err != nil {
			return reconcile.Result{}, err
		}
		if err := l.restamp(ctx, list.Items, karpv1.NodePoolHashAnnotation, karpv1.NodePoolHashVersionAnnotation, hash); err != nil {
			return reconcile.Result{}, err
		}
	}
	if pool.Annotations[karpv1.NodePoolHashVersionAnnotation] == karpv1.HashVersion && pool.Annotations[karpv1.NodePoolHashAnnotation] == hash {
		return reconcile.Result{}, nil
	}
	base := pool.DeepCopy()
	pool.Annotations = annotate(annotate(pool.Annotations, karpv1.NodePoolHashAnnotation, hash), karpv1.NodePoolHashVersionAnnotation, karpv1.HashVersion)
	return reconcile.Result{}, l.patch(ctx, pool, base)
}

// restamp gives claims of another hash version our version, and our hash unless they are Drifted already: those stay so.
func (s *shared) restamp(ctx context.Context, list []karpv1.NodeClaim, hashKey, versionKey, hash string) error {
	var errs []error
	for i := range list {
		c := &list[i]
		if c.Annotations[versionKey] == karpv1.HashVersion || !managedRef(c.Spec.NodeClassRef) {
			continue
		}
		base := c.DeepCopy()
		c.Annotations = annotate(c.Annotations, versionKey, karpv1.HashVersion)
		if findCondition(c.Status.Conditions, lifecycle.Drifted) == nil {
			c.Annotations = annotate(c.Annotations, hashKey, hash)
		}
		if err := client.IgnoreNotFound(s.patch(ctx, c, base)); err != nil {
			errs = append(errs, fmt.Errorf("stamping claim %s: %w", c.Name, err))
		}
	}
	return errors.Join(errs...)
}

// countInterval is how often a pool's resources are counted.
const countInterval = 5 * time.Second

// unsyncedRetry is how soon what needs the whole cluster state is tried again.
const unsyncedRetry = time.Second

// Count sums up what the pool's nodes amount to.
func (l *pools) Count(ctx context.Context, pool *karpv1.NodePool) (reconcile.Result, error) {
	if !managedRef(pool.Spec.Template.Spec.NodeClassRef) {
		return reconcile.Result{}, nil
	}
	if !l.feed.Synced() {
		return reconcile.Result{RequeueAfter: unsyncedRetry}, nil
	}
	usage, err := l.usage(ctx, pool.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	base := pool.DeepCopy()
	pool.Status.Resources, pool.Status.Nodes = kube.Quantities(usage.Resources), usage.Nodes
	return l.writePool(ctx, pool, base, countInterval)
}

// usage is what the pool's nodes amount to now.
func (s *shared) usage(ctx context.Context, pool string) (lifecycle.Usage, error) {
	var list karpv1.NodeClaimList
	if err := s.client.List(ctx, &list, client.MatchingLabels{lifecycle.PoolLabel: pool}); err != nil {
		return lifecycle.Usage{}, err
	}
	var views []lifecycle.Claim
	nodes := map[string][]lifecycle.Node{}
	for _, c := range managedClaims(list.Items) {
		at, err := s.nodesWith(ctx, c.Status.ProviderID)
		if err != nil {
			return lifecycle.Usage{}, err
		}
		nodes[c.Status.ProviderID] = nodesOf(at)
		views = append(views, claimOf(&c))
	}
	return lifecycle.CountPool(pool, views, nodes), nil
}
