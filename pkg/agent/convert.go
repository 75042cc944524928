package agent

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

// claimOf translates a NodeClaim for the rules.
func claimOf(c *karpv1.NodeClaim) lifecycle.Claim {
	out := lifecycle.Claim{
		Name: c.Name, UID: string(c.UID), Pool: c.Labels[lifecycle.PoolLabel], Owner: poolOwner(c),
		Created: c.CreationTimestamp.Time, Deleted: deletedAt(c),
		Labels: c.Labels, Annotations: c.Annotations,
		Taints: kube.Taints(c.Spec.Taints), StartupTaints: kube.Taints(c.Spec.StartupTaints),
		Requests: kube.Resources(c.Spec.Resources.Requests), Capacity: kube.Resources(c.Status.Capacity),
		ProviderID: c.Status.ProviderID, NodeName: c.Status.NodeName,
		Finalized:  controllerutil.ContainsFinalizer(c, lifecycle.Finalizer),
		Conditions: make(map[string]lifecycle.Condition, len(c.Status.Conditions)),
	}
	if d := c.Spec.TerminationGracePeriod; d != nil {
		value := d.Value()
		out.GracePeriod = &value
	}
	if d := c.Spec.ExpireAfter; d != nil {
		if value, ends := d.Value(); ends {
			out.ExpireAfter = &value
		}
	}
	for _, cond := range c.Status.Conditions {
		out.Conditions[cond.Type] = conditionOf(cond)
	}
	return out
}

// poolOwner is the UID of the pool that owns the claim.
func poolOwner(c *karpv1.NodeClaim) string {
	for _, o := range c.OwnerReferences {
		if o.Kind == karpv1.NodePoolKind && strings.HasPrefix(o.APIVersion, karpv1.Group+"/") {
			return string(o.UID)
		}
	}
	return ""
}

func conditionOf(c metav1.Condition) lifecycle.Condition {
	return lifecycle.Condition{
		Type: c.Type, Status: lifecycle.Status(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
	}
}

// nodeOf translates a Node for the rules.
func nodeOf(n *corev1.Node) lifecycle.Node {
	out := lifecycle.Node{
		Name: n.Name, UID: string(n.UID), ProviderID: n.Spec.ProviderID,
		Labels: n.Labels, Annotations: n.Annotations, Taints: kube.Taints(n.Spec.Taints), Ready: lifecycle.Unknown,
		Capacity: kube.Resources(n.Status.Capacity), Allocatable: kube.Resources(n.Status.Allocatable),
		Created: n.CreationTimestamp.Time, Deleted: deletedAt(n),
		Finalized: controllerutil.ContainsFinalizer(n, lifecycle.Finalizer),
	}
	out.Conditions = make(map[string]lifecycle.Condition, len(n.Status.Conditions))
	for _, c := range n.Status.Conditions {
		out.Conditions[string(c.Type)] = lifecycle.Condition{
			Type: string(c.Type), Status: lifecycle.Status(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
		}
		if c.Type == corev1.NodeReady {
			out.Ready = lifecycle.Status(c.Status)
		}
	}
	for _, o := range n.OwnerReferences {
		out.Owners = append(out.Owners, string(o.UID))
	}
	return out
}

func nodesOf(list []corev1.Node) []lifecycle.Node {
	out := make([]lifecycle.Node, len(list))
	for i := range list {
		out[i] = nodeOf(&list[i])
	}
	return out
}

// podOf translates a pod for draining; volumes are the names of the persistent volumes it uses.
func podOf(p *corev1.Pod, volumes []string) lifecycle.Pod {
	out := lifecycle.Pod{
		UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, ResourceVersion: p.ResourceVersion,
		Terminal: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Deleted:  deletedAt(p), DoNotDisrupt: p.Annotations[lifecycle.DoNotDisruptAnnotation], Volumes: volumes,
		Critical: p.Spec.PriorityClassName == "system-cluster-critical" || p.Spec.PriorityClassName == "system-node-critical",
	}
	if p.Status.StartTime != nil {
		out.Started = p.Status.StartTime.Time
	}
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		grace := time.Duration(*s) * time.Second
		out.Grace = &grace
	}
	for _, o := range p.OwnerReferences {
		out.Mirror = out.Mirror || o.APIVersion == "v1" && o.Kind == "Node"
		out.Daemon = out.Daemon || o.APIVersion == "apps/v1" && o.Kind == "DaemonSet"
	}
	for _, t := range p.Spec.Tolerations {
		out.Tolerations = append(out.Tolerations, constraint.Toleration{
			Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: constraint.Effect(t.Effect),
		})
	}
	return out
}

func deletedAt(o client.Object) time.Time {
	if t := o.GetDeletionTimestamp(); t != nil {
		return t.Time
	}
	return time.Time{}
}

// applyChange writes a change into a Node object and reports whether it did anything.
func applyChange(n *corev1.Node, change lifecycle.NodeChange, owner *metav1.OwnerReference) bool {
	if change.Empty() {
		return false
	}
	n.Labels = merged(n.Labels, change.Labels)
	n.Annotations = merged(n.Annotations, change.Annotations)
	if change.Finalize {
		controllerutil.AddFinalizer(n, lifecycle.Finalizer)
	}
	if change.Own && owner != nil {
		n.OwnerReferences = append(n.OwnerReferences, *owner)
	}
	n.Spec.Taints = changeTaints(n.Spec.Taints, change)
	switch {
	case change.Close:
		n.Spec.Unschedulable = true
		n.Annotations = merged(n.Annotations, map[string]string{lifecycle.OpeningAnnotation: "true"})
	case change.Open:
		n.Spec.Unschedulable = false
		n.Annotations = maps.Clone(n.Annotations)
		delete(n.Annotations, lifecycle.OpeningAnnotation)
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == lifecycle.UnschedulableTaint })
	}
	return true
}

func changeTaints(have []corev1.Taint, change lifecycle.NodeChange) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range have {
		remove := false
		for _, r := range change.RemoveTaints {
			remove = remove || t.Key == r.Key && string(t.Effect) == string(r.Effect)
		}
		if !remove {
			out = append(out, t)
		}
	}
	return append(out, kube.APITaints(change.AddTaints)...)
}

func merged(have, set map[string]string) map[string]string {
	if len(set) == 0 {
		return have
	}
	if have == nil {
		have = make(map[string]string, len(set))
	}
	for k, v := range set {
		have[k] = v
	}
	return have
}

// instanceID takes the instance's ID out of a provider ID of the form <provider>:///<zone>/<id>; ok is false for anything else.
func instanceID(providerID string) (id string, ok bool) {
	_, rest, ok := strings.Cut(providerID, ":///")
	if !ok {
		return "", false
	}
	zone, id, ok := strings.Cut(rest, "/")
	if !ok || zone == "" || id == "" || strings.Contains(id, "/") {
		return "", false
	}
	return id, true
}
