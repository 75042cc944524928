package kube

import (
	"cmp"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

// NewNode converts a Node. CSI is its CSINode, nil if there is none.
func NewNode(n *corev1.Node, csi *storagev1.CSINode) *cluster.Node {
	out := &cluster.Node{
		Name: n.Name, UID: string(n.UID), ProviderID: n.Spec.ProviderID, Labels: n.Labels, Annotations: n.Annotations,
		Taints: Taints(n.Spec.Taints), Capacity: Resources(n.Status.Capacity), Allocatable: Resources(n.Status.Allocatable),
		Created: n.CreationTimestamp.Time, Deleted: timeOf(n.DeletionTimestamp), AttachLimits: attachLimits(csi),
	}
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			out.Ready = c.Status == corev1.ConditionTrue
		}
	}
	return out
}

// attachLimits are the drivers that state a count; a driver without one has no limit (scheduling rules 19.4).
func attachLimits(csi *storagev1.CSINode) map[string]int64 {
	if csi == nil {
		return nil
	}
	out := map[string]int64{}
	for i := range csi.Spec.Drivers {
		if d := &csi.Spec.Drivers[i]; d.Allocatable != nil && d.Allocatable.Count != nil {
			out[d.Name] = int64(*d.Allocatable.Count)
		}
	}
	return out
}

// NewClaim converts a NodeClaim. Marked is left false: only the owner of a running disruption knows.
func NewClaim(c *karpv1.NodeClaim) *cluster.Claim {
	out := &cluster.Claim{
		Name: c.Name, UID: string(c.UID), ProviderID: c.Status.ProviderID, NodeName: c.Status.NodeName, Pool: c.Labels[karpv1.NodePoolLabel],
		NodeClass: ClassRef(c.Spec.NodeClassRef), Labels: c.Labels, Annotations: c.Annotations, Requirements: Requirements(c.Spec.Requirements),
		Requests: Resources(c.Spec.Resources.Requests), Taints: Taints(c.Spec.Taints), StartupTaints: Taints(c.Spec.StartupTaints),
		Capacity: Resources(c.Status.Capacity), Allocatable: Resources(c.Status.Allocatable),
		Created: c.CreationTimestamp.Time, Deleted: timeOf(c.DeletionTimestamp),
	}
	if c.Spec.ExpireAfter != nil {
		out.ExpireAfter = string(*c.Spec.ExpireAfter)
	}
	if c.Spec.TerminationGracePeriod != nil {
		out.TerminationGracePeriod = string(*c.Spec.TerminationGracePeriod)
	}
	for i := range c.Status.Conditions {
		x := &c.Status.Conditions[i]
		yes := x.Status == metav1.ConditionTrue
		switch x.Type {
		case karpv1.ConditionLaunched:
			out.Launched = yes
			if !yes {
				out.LaunchProblem = condition(x)
			}
		case karpv1.ConditionRegistered:
			out.Registered = yes
		case karpv1.ConditionInitialized:
			if out.Initialized = yes; yes {
				out.InitializedAt = x.LastTransitionTime.Time
			}
		case karpv1.ConditionInstanceTerminating:
			out.Terminating = yes
		case karpv1.ConditionConsolidatable:
			out.Consolidatable = yes
		case karpv1.ConditionDrifted:
			if out.Drifted = yes; yes {
				out.Drift = condition(x)
			}
		case karpv1.ConditionDisruptionReason:
			if yes {
				out.DisruptionReason = x.Reason
			}
		}
	}
	out.LastPodEvent = c.Status.LastPodEventTime.Time
	out.Command = commandOf(c)
	return out
}

// commandOf is the disruption command whose recorded intent holds the claim. What cannot be read holds it, too.
func commandOf(c *karpv1.NodeClaim) string {
	i, err := lifecycle.ParseIntent(c.Annotations[karpv1.IntentAnnotation])
	switch {
	case err != nil:
		return "unreadable"
	case i.Of(string(c.UID)) == nil || i.Kind != lifecycle.IntentDisrupt:
		return ""
	}
	return i.Decision
}

// ClassRef converts a reference to a node class.
func ClassRef(r karpv1.NodeClassRef) cluster.ClassRef {
	return cluster.ClassRef{Group: r.Group, Kind: r.Kind, Name: r.Name}
}

func condition(c *metav1.Condition) cluster.Condition {
	return cluster.Condition{Type: c.Type, Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time}
}

// readiness splits the Ready condition. Without one the object has not been looked at yet.
func readiness(list []metav1.Condition, created time.Time) (bool, cluster.Condition) {
	for i := range list {
		if list[i].Type != karpv1.ConditionReady {
			continue
		}
		if list[i].Status == metav1.ConditionTrue {
			return true, cluster.Condition{}
		}
		return false, condition(&list[i])
	}
	return false, cluster.Condition{Type: karpv1.ConditionReady, Reason: "AwaitingReconciliation", Message: "object has no Ready condition yet", Since: created}
}

// NewPool converts a NodePool without its class and catalogue.
func NewPool(p *karpv1.NodePool) *cluster.Pool {
	t := &p.Spec.Template
	out := &cluster.Pool{
		Name: p.Name, UID: string(p.UID), Generation: p.Generation, Replicas: p.Spec.Replicas, Deleting: p.DeletionTimestamp != nil,
		NodeClass: ClassRef(t.Spec.NodeClassRef), Labels: t.ObjectMeta.Labels, Annotations: t.ObjectMeta.Annotations,
		Requirements: Requirements(t.Spec.Requirements), Taints: Taints(t.Spec.Taints), StartupTaints: Taints(t.Spec.StartupTaints),
		Limits: Resources(p.Spec.Limits),
		Hash:   p.Annotations[karpv1.NodePoolHashAnnotation], HashVersion: p.Annotations[karpv1.NodePoolHashVersionAnnotation],
	}
	out.Ready, out.NotReady = readiness(p.Status.Conditions, p.CreationTimestamp.Time)
	if p.Spec.Weight != nil {
		out.Weight = *p.Spec.Weight
	}
	if t.Spec.ExpireAfter != nil {
		out.ExpireAfter = string(*t.Spec.ExpireAfter)
	}
	if t.Spec.TerminationGracePeriod != nil {
		out.TerminationGracePeriod = string(*t.Spec.TerminationGracePeriod)
	}
	out.Disruption = disruption(&p.Spec.Disruption)
	return out
}

// disruption converts the limits on disruption; without budgets the default of 10 % holds (disruption rules 7).
func disruption(d *karpv1.Disruption) cluster.Disruption {
	out := cluster.Disruption{Policy: string(d.ConsolidationPolicy)}
	if d.ConsolidateAfter != nil {
		after, ok := d.ConsolidateAfter.Value()
		out.After, out.Never = after, !ok
	}
	if d.Budgets == nil {
		out.Budgets = []cluster.Budget{{Nodes: "10%"}}
	}
	for _, b := range d.Budgets {
		x := cluster.Budget{Nodes: cmp.Or(b.Nodes, "10%")}
		if b.Reasons != nil {
			x.Reasons = []string{}
			for _, r := range b.Reasons {
				x.Reasons = append(x.Reasons, string(r))
			}
		}
		if b.Schedule != nil {
			x.Schedule = *b.Schedule
		}
		if b.Duration != nil {
			x.Duration = *b.Duration
		}
		out.Budgets = append(out.Budgets, x)
	}
	return out
}

// NewDaemonSet converts a DaemonSet. Pod is the newest pod it controls, nil if there is none; then the template stands in, with limits
// copied to requests that are missing, as the API server does for pods (scheduling rules 8.1).
func NewDaemonSet(s *Shaper, d *appsv1.DaemonSet, pod *corev1.Pod) *cluster.DaemonSet {
	model := &corev1.Pod{}
	if pod != nil {
		// A copy of the top level is enough: only fields of it are replaced below.
		model.ObjectMeta, model.Spec = pod.ObjectMeta, pod.Spec
	} else {
		model.Namespace, model.Labels = d.Namespace, d.Spec.Template.Labels
		model.Spec = *d.Spec.Template.Spec.DeepCopy()
		defaultRequests(model.Spec.Containers)
		defaultRequests(model.Spec.InitContainers)
	}
	model.Spec.Affinity = templateAffinity(model.Spec.Affinity, d.Spec.Template.Spec.Affinity)
	return &cluster.DaemonSet{Namespace: d.Namespace, Name: d.Name, UID: string(d.UID), Shape: s.Shape(model, nil)}
}

// templateAffinity is the affinity of a pod with the required node affinity of its template: the pod's own pins it to one node.
func templateAffinity(pod, template *corev1.Affinity) *corev1.Affinity {
	if pod == nil || pod.NodeAffinity == nil {
		return template
	}
	out := *pod
	node := *pod.NodeAffinity
	node.RequiredDuringSchedulingIgnoredDuringExecution = nil
	if template != nil && template.NodeAffinity != nil {
		node.RequiredDuringSchedulingIgnoredDuringExecution = template.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	out.NodeAffinity = &node
	return &out
}

func defaultRequests(list []corev1.Container) {
	for i := range list {
		r := &list[i].Resources
		for name, q := range r.Limits {
			if _, ok := r.Requests[name]; ok {
				continue
			}
			if r.Requests == nil {
				r.Requests = corev1.ResourceList{}
			}
			r.Requests[name] = q
		}
	}
}

// ClassKind is the group and kind of the classes the AWS provider supports.
func ClassKind() (group, kind string) { return awsv1.Group, awsv1.EC2NodeClassKind }
