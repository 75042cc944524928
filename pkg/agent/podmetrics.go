package agent

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// podMetrics is the loop metrics.pod: how long pods take until they are bound and ready, and how they are now (lifecycle rules 26.3).
type podMetrics struct {
	*shared

	mu sync.Mutex
	// pods are those that were seen before they were ready; done are the others, which have been counted.
	pods map[types.UID]*podClock
	done map[types.UID]bool
	// decided is when the provisioner first found a place for a pod.
	decided map[types.UID]time.Time
}

// podClock is what was counted of a pod.
type podClock struct {
	name           types.NamespacedName
	created        time.Time
	bound, started bool
	decision       bool
}

const podGaugeInterval = 30 * time.Second

func newPodMetrics(s *shared) *podMetrics {
	return &podMetrics{shared: s, pods: map[types.UID]*podClock{}, done: map[types.UID]bool{}, decided: map[types.UID]time.Time{}}
}

// Decided notes which pods a decision has found a place for, and which it has looked at for the first time.
func (l *podMetrics) Decided(p *plan.Plan, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := func(uid string) {
		if _, ok := l.decided[types.UID(uid)]; !ok {
			l.decided[types.UID(uid)] = at
		}
		l.first(uid, at)
	}
	for _, x := range p.Placements {
		place(x.Pod)
	}
	for i := range p.Claims {
		for _, uid := range p.Claims[i].Pods {
			place(uid)
		}
	}
	for i := range p.Verdicts {
		l.first(p.Verdicts[i].Pod, at)
	}
}

// first counts how long the first decision on a pod took.
func (l *podMetrics) first(uid string, at time.Time) {
	c := l.pods[types.UID(uid)]
	if c == nil || c.decision {
		return
	}
	c.decision = true
	if seen := l.feed.FirstSeen(uid); !seen.IsZero() {
		l.metrics.PodsDecision.Observe(at.Sub(seen).Seconds())
	}
}

// Step looks at one pod.
func (l *podMetrics) Step(_ context.Context, p *corev1.Pod) (reconcile.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done[p.UID] {
		return reconcile.Result{}, nil
	}
	c, known := l.pods[p.UID]
	if !known {
		c = &podClock{name: client.ObjectKeyFromObject(p), created: p.CreationTimestamp.Time}
		l.pods[p.UID] = c
	}
	if at, ok := became(p, corev1.PodScheduled); ok && !c.bound {
		c.bound = true
		l.metrics.PodsBound.Observe(at.Sub(c.created).Seconds())
		if since, ok := l.decided[p.UID]; ok {
			l.metrics.PodsProvisioningBound.Observe(at.Sub(since).Seconds())
		}
	}
	if at, ok := became(p, corev1.PodReady); ok && !c.started {
		c.started = true
		l.metrics.PodsStartup.Observe(at.Sub(c.created).Seconds())
		if since, ok := l.decided[p.UID]; ok {
			l.metrics.PodsProvisioningStartup.Observe(at.Sub(since).Seconds())
		}
	}
	if view := podOf(p, nil); c.started || view.Terminal {
		l.done[p.UID] = true
		delete(l.pods, p.UID)
	}
	return reconcile.Result{}, nil
}

// became returns since when a condition of the pod is true.
func became(p *corev1.Pod, kind corev1.PodConditionType) (time.Time, bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// Show replaces the gauges of pods by what there is now, and forgets pods that are gone.
func (l *podMetrics) Show(ctx context.Context) error {
	var pods corev1.PodList
	if err := l.client.List(ctx, &pods); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	var nodes corev1.NodeList
	if err := l.client.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	byName := map[string]*corev1.Node{}
	for i := range nodes.Items {
		byName[nodes.Items[i].Name] = &nodes.Items[i]
	}
	alive := map[types.UID]bool{}
	for i := range pods.Items {
		alive[pods.Items[i].UID] = true
	}
	s := &l.metrics.State
	s.Pods.Replace(func(add func(float64, ...string)) {
		for i := range pods.Items {
			add(1, podLabels(&pods.Items[i], byName[pods.Items[i].Spec.NodeName])...)
		}
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid := range l.done {
		if !alive[uid] {
			delete(l.done, uid)
		}
	}
	for uid := range l.pods {
		if !alive[uid] {
			delete(l.pods, uid)
		}
	}
	for uid := range l.decided {
		if !alive[uid] {
			delete(l.decided, uid)
		}
	}
	l.clocks()
	return nil
}

// clocks shows how long pods have been waiting.
func (l *podMetrics) clocks() {
	s, now := &l.metrics.State, l.clock.Now()
	show := func(table *telemetry.Table, since func(types.UID, *podClock) (time.Time, bool)) {
		table.Replace(func(add func(float64, ...string)) {
			for uid, c := range l.pods {
				if at, runs := since(uid, c); runs {
					add(now.Sub(at).Seconds(), c.name.Name, c.name.Namespace)
				}
			}
		})
	}
	show(s.Unstarted, func(_ types.UID, c *podClock) (time.Time, bool) { return c.created, !c.started })
	show(s.Unbound, func(_ types.UID, c *podClock) (time.Time, bool) { return c.created, !c.bound })
	show(s.ProvisioningUnbound, func(uid types.UID, c *podClock) (time.Time, bool) {
		at, ok := l.decided[uid]
		return at, ok && !c.bound
	})
	show(s.ProvisioningUnstarted, func(uid types.UID, c *podClock) (time.Time, bool) {
		at, ok := l.decided[uid]
		return at, ok && !c.started
	})
	show(s.Undecided, func(uid types.UID, c *podClock) (time.Time, bool) {
		_, ok := l.decided[uid]
		return c.created, !ok && !c.bound
	})
}

// podLabels are the values of telemetry.PodLabels; the node may be nil.
func podLabels(p *corev1.Pod, n *corev1.Node) []string {
	of := map[string]string{}
	if n != nil {
		of = n.Labels
	}
	owner := ""
	for _, o := range p.OwnerReferences {
		owner = "/apis/" + o.APIVersion + "/namespaces/" + p.Namespace + "/" + o.Kind + "/" + o.Name
		break
	}
	_, ready := became(p, corev1.PodReady)
	_, managed := of[lifecycle.PoolLabel]
	return []string{
		p.Name, p.Namespace, owner, p.Spec.NodeName, strconv.FormatBool(p.Spec.NodeName != ""), of[lifecycle.PoolLabel], of[corev1.LabelTopologyZone],
		of[corev1.LabelArchStable], of[lifecycle.CapacityTypeLabel], of[corev1.LabelInstanceTypeStable], string(p.Status.Phase), strconv.FormatBool(ready),
		strconv.FormatBool(managed),
	}
}

// podMetricRows are the controllers of metrics of pods.
func podMetricRows(s *shared, l *podMetrics) []row {
	if s.cfg.DisableClusterStateObservability {
		return nil
	}
	empty := func() *corev1.Pod { return &corev1.Pod{} }
	return []row{{name: "metrics.pod", kind: empty(), step: loop(s, empty, l.Step), workers: 1, from: 100 * time.Millisecond, to: time.Minute}}
}
