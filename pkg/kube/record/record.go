// Package record collects what API objects say beside the snapshot: events, containers that do not start, when claims passed their
// milestones, what a class lacks. Explanations rest on it; decisions never do.
package record

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/reason"
)

// Objects are what the facts are read from; any of them may be missing.
type Objects struct {
	Events  []*corev1.Event
	Pods    []*corev1.Pod
	Claims  []*karpv1.NodeClaim
	Classes []*awsv1.EC2NodeClass
	Pools   []*karpv1.NodePool
}

// Facts returns what the objects record.
func Facts(o Objects) explain.Facts {
	f := explain.Facts{
		Failing: map[string][]reason.FailingPod{}, Claims: map[string]explain.Milestones{}, Classes: map[string][]cluster.Condition{},
		Pools: map[string][]cluster.Condition{},
	}
	for _, e := range o.Events {
		f.Events = append(f.Events, event(e))
	}
	for _, p := range o.Pods {
		if x, bad := failing(p); bad {
			f.Failing[p.Spec.NodeName] = append(f.Failing[p.Spec.NodeName], x)
		}
	}
	for _, c := range o.Claims {
		f.Claims[c.Name] = milestones(c)
	}
	for _, c := range o.Classes {
		f.Classes[c.Name] = missing(c.Status.Conditions)
	}
	for _, p := range o.Pools {
		// That the class is not ready is for the class to tell, and the health of registrations does not count.
		f.Pools[p.Name] = slices.DeleteFunc(missing(p.Status.Conditions), func(c cluster.Condition) bool { return c.Type != karpv1.ConditionValidationSucceeded })
	}
	return f
}

func event(e *corev1.Event) explain.Event {
	i := e.InvolvedObject
	out := explain.Event{
		Object: reason.Object{Kind: i.Kind, Namespace: i.Namespace, Name: i.Name, UID: string(i.UID)}, Reason: e.Reason, Message: e.Message,
		First: e.FirstTimestamp.Time, Last: e.LastTimestamp.Time, Count: int(e.Count),
	}
	if e.Series != nil {
		out.Last, out.Count = e.Series.LastObservedTime.Time, int(e.Series.Count)
	}
	if out.First.IsZero() {
		out.First = e.EventTime.Time
	}
	if out.Last.IsZero() {
		out.Last = out.First
	}
	return out
}

// failing tells a pod that is on a node and whose container waits for anything but its creation.
func failing(p *corev1.Pod) (reason.FailingPod, bool) {
	if p.Spec.NodeName == "" {
		return reason.FailingPod{}, false
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			w := list[i].State.Waiting
			if w == nil || w.Reason == "" || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing" {
				continue
			}
			return reason.FailingPod{
				Pod: reason.Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}, Owner: owner(p),
				Reason: w.Reason, Restarts: int(list[i].RestartCount),
			}, true
		}
	}
	return reason.FailingPod{}, false
}

func owner(p *corev1.Pod) reason.Object {
	r := metav1.GetControllerOf(p)
	if r == nil {
		return reason.Object{}
	}
	return reason.Object{Kind: r.Kind, Namespace: p.Namespace, Name: r.Name, UID: string(r.UID)}
}

func milestones(c *karpv1.NodeClaim) explain.Milestones {
	at := func(kind string) time.Time {
		for i := range c.Status.Conditions {
			if x := &c.Status.Conditions[i]; x.Type == kind && x.Status == metav1.ConditionTrue {
				return x.LastTransitionTime.Time
			}
		}
		return time.Time{}
	}
	return explain.Milestones{
		Launched: at(karpv1.ConditionLaunched), Registered: at(karpv1.ConditionRegistered), Initialized: at(karpv1.ConditionInitialized),
	}
}

// missing lists the conditions that are False, except Ready, which only sums them up.
func missing(conditions []metav1.Condition) []cluster.Condition {
	var out []cluster.Condition
	for i := range conditions {
		c := &conditions[i]
		if c.Status == metav1.ConditionFalse && c.Type != karpv1.ConditionReady {
			out = append(out, cluster.Condition{Type: c.Type, Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time})
		}
	}
	return out
}
