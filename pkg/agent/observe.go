package agent

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// podEvents is the loop nodeclaim.podevents: it notes on the claim when a pod last came to its node or left it, which is what consolidateAfter
// counts from (lifecycle rules 15).
type podEvents struct{ *shared }

// Step notes one event.
func (l *podEvents) Step(ctx context.Context, p *corev1.Pod) (reconcile.Result, error) {
	if p.Spec.NodeName == "" || podOf(p, nil).Daemon {
		return reconcile.Result{}, nil
	}
	var node corev1.Node
	if err := l.client.Get(ctx, types.NamespacedName{Name: p.Spec.NodeName}, &node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	list, err := l.claimsWith(ctx, node.Spec.ProviderID)
	if err != nil || len(list) != 1 {
		return reconcile.Result{}, err
	}
	c := &list[0]
	now := l.clock.Now()
	if now.Sub(c.Status.LastPodEventTime.Time) < lifecycle.PodEventInterval {
		return reconcile.Result{}, nil
	}
	base := c.DeepCopy()
	c.Status.LastPodEventTime = metav1.NewTime(now)
	return reconcile.Result{}, l.patchStatus(ctx, c, base)
}

// podCameOrWent lets pass what changes which pods run on a node.
func podCameOrWent() predicate.Predicate {
	terminal := func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return e.Object.(*corev1.Pod).Spec.NodeName != "" },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
			return was.Spec.NodeName != is.Spec.NodeName || terminal(was) != terminal(is) ||
				was.DeletionTimestamp == nil && is.DeletionTimestamp != nil
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// consistency is the loop nodeclaim.consistency: it compares nodes with what their instance types promise (lifecycle rules 12).
type consistency struct {
	*shared

	mu   sync.Mutex
	last map[types.UID]time.Time
}

// Step checks one claim, at most once in its interval.
func (l *consistency) Step(ctx context.Context, c *karpv1.NodeClaim) (reconcile.Result, error) {
	if !managedRef(c.Spec.NodeClassRef) || c.Status.ProviderID == "" || c.DeletionTimestamp != nil {
		l.forget(c.UID)
		return reconcile.Result{}, nil
	}
	now := l.clock.Now()
	if left := l.due(c.UID, now); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	nodes, err := l.nodesWith(ctx, c.Status.ProviderID)
	if err != nil || len(nodes) != 1 {
		return reconcile.Result{RequeueAfter: lifecycle.ConsistencyInterval}, err
	}
	v, n := claimOf(c), nodeOf(&nodes[0])
	issues := lifecycle.Inconsistencies(&v, &n)
	if len(issues) > 0 {
		text := strings.Join(issues, "; ")
		l.log.Info("failed consistency check", telemetry.Claim(c.Name), "issues", text)
		l.events.Warn(c, "FailedConsistencyCheck", lifecycle.Truncate(text), text)
	}
	if cond, ok := lifecycle.Consistent(&v, issues); ok {
		base := c.DeepCopy()
		setClaim(c, now, cond)
		if err := l.patchStatus(ctx, c, base); err != nil {
			l.forget(c.UID)
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: lifecycle.ConsistencyInterval}, nil
}

// due notes a check and returns zero, or the time until the next one is due.
func (l *consistency) due(uid types.UID, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, ok := l.last[uid]; ok {
		if left := last.Add(lifecycle.ConsistencyInterval).Sub(now); left > 0 {
			return left
		}
	}
	l.last[uid] = now
	return 0
}

func (l *consistency) forget(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.last, uid)
}
