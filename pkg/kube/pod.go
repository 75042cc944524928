package kube

import (
	"bytes"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
)

// FieldManager is the name under which karp writes. It tells karp's own placement hints from the nominations of the scheduler.
const FieldManager = "karp-agent"

// Provisionable tells whether a pod asks for a node (scheduling rules 2.1): the scheduler found no place, nothing has been decided since, and
// it is neither a daemon's nor a node's own pod nor on its way out.
func Provisionable(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	if c := podCondition(pod, corev1.PodScheduled); c == nil || c.Reason != corev1.PodReasonUnschedulable {
		return false
	}
	if pod.Status.NominatedNodeName != "" && !nominatedByKarp(pod) {
		return false
	}
	return !daemonPod(pod) && !mirrorPod(pod)
}

// deletionCostAnnotation is Kubernetes' own.
const deletionCostAnnotation = "controller.kubernetes.io/pod-deletion-cost"

func daemonPod(pod *corev1.Pod) bool { return ownedBy(pod, "apps/v1", "DaemonSet") }
func mirrorPod(pod *corev1.Pod) bool { return ownedBy(pod, "v1", "Node") }

func ownedBy(pod *corev1.Pod, apiVersion, kind string) bool {
	for i := range pod.OwnerReferences {
		if o := &pod.OwnerReferences[i]; o.Kind == kind && o.APIVersion == apiVersion {
			return true
		}
	}
	return false
}

// nominatedByKarp tells whether the pod's nomination was written by karp, from the record of who owns the field.
func nominatedByKarp(pod *corev1.Pod) bool {
	for i := range pod.ManagedFields {
		m := &pod.ManagedFields[i]
		if m.Manager == FieldManager && m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"f:nominatedNodeName"`)) {
			return true
		}
	}
	return false
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// fillPod converts a pod of a known shape. It shares the pod's label map.
func fillPod(out *cluster.Pod, pod *corev1.Pod, shape *cluster.Shape) {
	*out = cluster.Pod{
		UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, Created: pod.CreationTimestamp.Time, Shape: shape,
		Labels: pod.Labels, Owner: owner(pod.OwnerReferences), Node: pod.Spec.NodeName, Nominated: pod.Status.NominatedNodeName,
		Phase: string(pod.Status.Phase), DoNotDisrupt: pod.Annotations[karpv1.DoNotDisruptAnnotation], Deleted: timeOf(pod.DeletionTimestamp),
		Started: timeOf(pod.Status.StartTime),
	}
	if out.Phase == "" {
		out.Phase = string(corev1.PodPending)
	}
	if v := pod.Annotations[deletionCostAnnotation]; v != "" {
		if cost, err := strconv.ParseFloat(v, 64); err == nil {
			out.DeletionCost = cost
		}
	}
	if out.Nominated != "" {
		out.NominatedByKarp = nominatedByKarp(pod)
	}
	for i := range pod.Status.Conditions {
		switch c := &pod.Status.Conditions[i]; c.Type {
		case corev1.PodScheduled:
			out.Scheduled, out.ScheduledMessage, out.Since = c.Reason, c.Message, c.LastTransitionTime.Time
		case corev1.PodReady:
			out.Ready, out.Unready = c.Status == corev1.ConditionTrue, c.Status == corev1.ConditionFalse
		default: // says nothing of the pod's place
		}
	}
}

// owner returns the controller among the owners, else the first one.
func owner(refs []metav1.OwnerReference) cluster.Owner {
	if len(refs) == 0 {
		return cluster.Owner{}
	}
	best := &refs[0]
	for i := range refs {
		if refs[i].Controller != nil && *refs[i].Controller {
			best = &refs[i]
			break
		}
	}
	return cluster.Owner{APIVersion: best.APIVersion, Kind: best.Kind, Name: best.Name, UID: string(best.UID)}
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
