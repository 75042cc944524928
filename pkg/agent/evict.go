package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// evictions is the queue of pods that have to leave their nodes, shared by all nodes (lifecycle rules 17.5). It lives in memory: after a
// restart the next look at each deleted node fills it again.
type evictions struct {
	*shared
	workers int
	// queue is nil until Start.
	queue workqueue.TypedRateLimitingInterface[lifecycle.PodKey]

	mu      sync.Mutex
	entries map[lifecycle.PodKey]eviction
}

// eviction is one entry: the node the pod has to leave and the deadline by which it has to.
type eviction struct {
	node     string
	deadline time.Time
}

func newEvictions(s *shared, workers int) *evictions {
	return &evictions{shared: s, workers: workers, entries: map[lifecycle.PodKey]eviction{}}
}

// Add queues a pod. Adding it again keeps the earlier deadline.
func (q *evictions) Add(key lifecycle.PodKey, node string, deadline time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if have, ok := q.entries[key]; ok {
		q.entries[key] = eviction{node: node, deadline: lifecycle.EarlierDeadline(have.deadline, deadline)}
		return
	}
	q.entries[key] = eviction{node: node, deadline: deadline}
	if q.queue != nil {
		q.queue.Add(key)
	}
}

// Start works on the queue until the context ends.
func (q *evictions) Start(ctx context.Context) error {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[lifecycle.PodKey](100*time.Millisecond, 10*time.Second)
	q.mu.Lock()
	q.queue = workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[lifecycle.PodKey]{Name: "eviction-queue"})
	for key := range q.entries {
		q.queue.Add(key)
	}
	q.mu.Unlock()
	var group sync.WaitGroup
	for range q.workers {
		group.Go(func() { q.work(ctx) })
	}
	<-ctx.Done()
	q.queue.ShutDown()
	group.Wait()
	return nil
}

// NeedLeaderElection tells the manager that only the leader evicts.
func (q *evictions) NeedLeaderElection() bool { return true }

func (q *evictions) work(ctx context.Context) {
	for {
		key, shutdown := q.queue.Get()
		if shutdown {
			return
		}
		if q.step(ctx, key) {
			q.queue.AddRateLimited(key)
		} else {
			q.queue.Forget(key)
		}
		q.queue.Done(key)
	}
}

// step makes one try at an entry, drops the entry if nothing is left to do, and reports whether another try is due.
func (q *evictions) step(ctx context.Context, key lifecycle.PodKey) (again bool) {
	if again = q.attempt(ctx, key); !again {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.entries, key)
	}
	return again
}

// keys returns the entries.
func (q *evictions) keys() []lifecycle.PodKey {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.entries))
}

// attempt makes one try at a pod and reports whether another one is due.
func (q *evictions) attempt(ctx context.Context, key lifecycle.PodKey) (again bool) {
	q.mu.Lock()
	entry := q.entries[key]
	q.mu.Unlock()
	pod, err := q.pod(ctx, key)
	if err != nil {
		q.log.Error("reading a pod to evict", telemetry.Pod(key.Namespace, key.Name), "error", err)
		return true
	}
	now := q.clock.Now()
	var view *lifecycle.Pod
	if pod != nil {
		v := podOf(pod, nil)
		view = &v
		q.explain(pod, v.Protected(now))
	}
	switch lifecycle.Attempt(view, entry.deadline, now) {
	case lifecycle.Force:
		return q.force(ctx, pod, entry, now)
	case lifecycle.Evict:
		return q.evict(ctx, pod, entry)
	case lifecycle.Hold:
		return true
	default:
		return false
	}
}

// pod reads the pod; nil when it is gone or another one has its name.
func (q *evictions) pod(ctx context.Context, key lifecycle.PodKey) (*corev1.Pod, error) {
	var pod corev1.Pod
	err := q.client.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, &pod)
	if apierrors.IsNotFound(err) || err == nil && string(pod.UID) != key.UID {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &pod, nil
}

// explain publishes what a do-not-disrupt annotation means at the moment.
func (q *evictions) explain(pod *corev1.Pod, p lifecycle.Protection) {
	switch {
	case p.Invalid:
		q.events.Warn(pod, "InvalidDoNotDisruptAnnotation",
			"annotation "+lifecycle.DoNotDisruptAnnotation+" is neither \"true\" nor a positive duration and is ignored: "+pod.Annotations[lifecycle.DoNotDisruptAnnotation])
	case p.Active && !p.Until.IsZero():
		q.events.Normal(pod, "DoNotDisruptUntil", "protected until "+p.Until.Format(time.RFC3339), p.Until.Format(time.RFC3339))
	case p.Ended:
		q.events.Normal(pod, "DoNotDisruptGracePeriodElapsed", "the protection has ended at "+p.Until.Format(time.RFC3339))
	}
}

// force deletes a pod to meet its node's deadline. The grace period is never zero.
func (q *evictions) force(ctx context.Context, pod *corev1.Pod, entry eviction, now time.Time) (again bool) {
	grace := lifecycle.ForcedGrace(entry.deadline, now)
	q.log.Debug("deleting pod", telemetry.Pod(pod.Namespace, pod.Name), telemetry.Node(entry.node), "grace", grace, "deadline", entry.deadline)
	removed, err := q.remove(ctx, pod, client.GracePeriodSeconds(grace))
	if err != nil {
		q.log.Error("deleting a pod by force", telemetry.Pod(pod.Namespace, pod.Name), "error", err)
		return true
	}
	if removed {
		q.metrics.PodsDrained.WithLabelValues(q.reason(ctx, entry.node)).Inc()
		q.events.Normal(pod, "Disrupted", fmt.Sprintf("deleted with a grace period of %d s, the node ends at %s", grace, entry.deadline.Format(time.RFC3339)))
	}
	return false
}

// evict asks the API server to evict the pod as it was looked at: a pod that changed meanwhile is looked at again.
func (q *evictions) evict(ctx context.Context, pod *corev1.Pod, entry eviction) (again bool) {
	uid, version := pod.UID, pod.ResourceVersion
	err := q.client.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}},
	})
	q.countEviction(err)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		q.metrics.PodsDrained.WithLabelValues(q.reason(ctx, entry.node)).Inc()
		q.events.Normal(pod, "Evicted", "evicted, because node "+entry.node+" is being removed")
		return false
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return false
	case apierrors.IsTooManyRequests(err):
		q.blocked(ctx, pod, entry, "a PodDisruptionBudget does not allow pod "+pod.Namespace+"/"+pod.Name+" to be evicted", "PDB")
	case errors.As(err, &status) && status.Status().Code == 500 && strings.Contains(status.Status().Message, "more than one PodDisruptionBudget"):
		q.blocked(ctx, pod, entry, "multiple PodDisruptionBudgets match pod "+pod.Namespace+"/"+pod.Name+", so it cannot be evicted", "multi PDB")
	default:
		q.log.Error("evicting a pod", telemetry.Pod(pod.Namespace, pod.Name), "error", err)
	}
	return true
}

// reason is why the node goes: its claim's disruption reason, or that it was asked for; empty if node or claim can't be found.
func (q *evictions) reason(ctx context.Context, name string) string {
	var node corev1.Node
	if q.client.Get(ctx, types.NamespacedName{Name: name}, &node) != nil {
		return ""
	}
	list, err := q.claimsWith(ctx, node.Spec.ProviderID)
	if err != nil || len(list) != 1 {
		return ""
	}
	if c := findCondition(list[0].Status.Conditions, lifecycle.DisruptionReason); statusOf(c) == lifecycle.True {
		return c.Reason
	}
	return "Forceful Termination"
}

// blocked tells on the node what holds its drain up.
func (q *evictions) blocked(ctx context.Context, pod *corev1.Pod, entry eviction, message, cause string) {
	var node corev1.Node
	if err := q.client.Get(ctx, types.NamespacedName{Name: entry.node}, &node); err != nil {
		return
	}
	q.events.Warn(&node, "FailedDraining", message, cause, string(pod.UID))
}
