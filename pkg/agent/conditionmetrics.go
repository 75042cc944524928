package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	autoscalingv1beta1 "github.com/karp-sh/karp/pkg/apis/autoscaling/v1beta1"
	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/apis/conditions"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// conditionMetrics is the loop operatorpkg.<kind>.status: it tells by metrics and events how the conditions of objects change (lifecycle rules 25,
// 26.6). It compares with what it saw before, so a change that nobody saw is not told.
type conditionMetrics struct {
	*shared
	metrics *telemetry.Conditions
	empty   func() client.Object

	mu   sync.Mutex
	seen map[types.NamespacedName]sighting
}

// sighting is an object as it was last seen.
type sighting struct {
	obj        client.Object
	subject    telemetry.Subject
	conditions []telemetry.Observed
}

// conditionInterval is how often gauges of conditions are refreshed.
const conditionInterval = 10 * time.Second

// Reconcile looks at one object, which may be gone.
func (l *conditionMetrics) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	obj := l.empty()
	err := l.client.Get(ctx, request.NamespacedName, obj)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	l.mu.Lock()
	before, known := l.seen[request.NamespacedName]
	l.mu.Unlock()
	if known && (err != nil || before.obj.GetUID() != obj.GetUID()) {
		l.end(request.NamespacedName, before)
		before, known = sighting{}, false
	}
	if err != nil {
		return reconcile.Result{}, nil
	}
	now := sighting{obj: obj, subject: subjectOf(obj), conditions: conditionsOf(obj)}
	l.compare(before, now, known)
	l.mu.Lock()
	l.seen[request.NamespacedName] = now
	l.mu.Unlock()
	return reconcile.Result{RequeueAfter: conditionInterval}, nil
}

// compare tells what has changed between two sightings.
func (l *conditionMetrics) compare(before, now sighting, known bool) {
	at := l.clock.Now()
	moved := known && !before.subject.Same(now.subject)
	if moved {
		l.metrics.Moved(before.subject)
	}
	for _, old := range before.conditions {
		if c := observed(now.conditions, old.Type); moved || c == nil || c.Status != old.Status || c.Reason != old.Reason {
			l.metrics.Past(before.subject, old)
		}
	}
	for _, c := range now.conditions {
		old := observed(before.conditions, c.Type)
		if old == nil || old.Status != c.Status {
			l.metrics.Transition(now.subject, old, c)
		}
		if old != nil && old.Status != c.Status {
			l.tell(now.obj, *old, c)
		}
		l.metrics.Present(now.subject, c, at)
	}
	if deleted := deletedAt(now.obj); !deleted.IsZero() {
		l.metrics.Deleting(now.subject, deleted, at)
	}
	if known && lost(before.obj.GetFinalizers(), now.obj.GetFinalizers()) {
		l.finalized(now.obj)
	}
}

// end forgets an object that is gone. Its last finalizer went with it.
func (l *conditionMetrics) end(name types.NamespacedName, last sighting) {
	l.mu.Lock()
	delete(l.seen, name)
	l.mu.Unlock()
	for _, c := range last.conditions {
		l.metrics.Past(last.subject, c)
	}
	l.metrics.Gone(last.subject, deletedAt(last.obj), l.clock.Now())
	if len(last.obj.GetFinalizers()) > 0 {
		l.finalized(last.obj)
	}
}

func (l *conditionMetrics) tell(obj client.Object, was, is telemetry.Observed) {
	text := fmt.Sprintf("status condition transitioned, Type: %s, Status: %s -> %s, Reason: %s", is.Type, was.Status, is.Status, is.Reason)
	if c := message(obj, is.Type); c != "" {
		text += ", Message: " + c
	}
	l.events.Normal(obj, is.Type, lifecycle.Truncate(text), is.Status, is.Since.String())
}

func (l *conditionMetrics) finalized(obj client.Object) {
	l.events.Normal(obj, "Finalized", "a finalizer was removed")
}

// lost reports whether a finalizer that was there is not any more.
func lost(before, now []string) bool {
	return slices.ContainsFunc(before, func(f string) bool { return !slices.Contains(now, f) })
}

func observed(list []telemetry.Observed, kind string) *telemetry.Observed {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}

// statusConditions are the conditions of an object of our kinds; those that every object of the kind has and that are not stored yet are Unknown.
func statusConditions(obj client.Object) []metav1.Condition {
	switch x := obj.(type) {
	case *karpv1.NodeClaim:
		return conditions.NodeClaim().Init(x.Status.Conditions, conditions.Of(x))
	case *karpv1.NodePool:
		return conditions.NodePool().Init(x.Status.Conditions, conditions.Of(x))
	case *awsv1.EC2NodeClass:
		return x.Status.Conditions
	case *autoscalingv1beta1.CapacityBuffer:
		return x.Status.Conditions
	}
	return nil
}

func conditionsOf(obj client.Object) []telemetry.Observed {
	var out []telemetry.Observed
	if n, ok := obj.(*corev1.Node); ok {
		for _, c := range n.Status.Conditions {
			out = append(out, telemetry.Observed{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Since: c.LastTransitionTime.Time})
		}
		return out
	}
	for _, c := range statusConditions(obj) {
		out = append(out, telemetry.Observed{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Since: c.LastTransitionTime.Time})
	}
	return out
}

func message(obj client.Object, kind string) string {
	if n, ok := obj.(*corev1.Node); ok {
		for _, c := range n.Status.Conditions {
			if string(c.Type) == kind {
				return c.Message
			}
		}
	}
	if c := findCondition(statusConditions(obj), kind); c != nil {
		return c.Message
	}
	return ""
}

// subjectOf are the labels of an object's series.
func subjectOf(obj client.Object) telemetry.Subject {
	s := telemetry.Subject{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	labels := obj.GetLabels()
	switch obj.(type) {
	case *karpv1.NodeClaim:
		s.Extra = []string{labels[lifecycle.PoolLabel], labels[classLabel]}
	case *corev1.Node:
		s.Extra = []string{labels[lifecycle.PoolLabel], labels[classLabel], labels[lifecycle.InitializedLabel]}
	}
	return s
}

// conditionRows are the controllers that tell about conditions. Without observability only that of node classes runs.
func conditionRows(s *shared) []row {
	kinds := []client.Object{&awsv1.EC2NodeClass{}}
	if !s.cfg.DisableClusterStateObservability {
		kinds = append(kinds, &karpv1.NodeClaim{}, &karpv1.NodePool{}, &corev1.Node{})
		if s.cfg.Gates.CapacityBuffer {
			kinds = append(kinds, &autoscalingv1beta1.CapacityBuffer{})
		}
	}
	var out []row
	for _, kind := range kinds {
		name := strings.ToLower(kindName(kind))
		l := &conditionMetrics{
			shared: s, metrics: s.metrics.Conditions[name], empty: func() client.Object { return kind.DeepCopyObject().(client.Object) },
			seen: map[types.NamespacedName]sighting{},
		}
		out = append(out, row{name: "operatorpkg." + name + ".status", kind: kind, step: l.Reconcile, workers: 10, from: 100 * time.Millisecond, to: time.Minute})
	}
	return out
}

func kindName(obj client.Object) string {
	switch obj.(type) {
	case *karpv1.NodeClaim:
		return karpv1.NodeClaimKind
	case *karpv1.NodePool:
		return karpv1.NodePoolKind
	case *awsv1.EC2NodeClass:
		return awsv1.EC2NodeClassKind
	case *autoscalingv1beta1.CapacityBuffer:
		return "CapacityBuffer"
	default:
		return "Node"
	}
}
