package kube

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lastApplied is a copy of the object that kubectl keeps in it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Transform drops from a cached object what karp never reads: the record of field managers (but karp's own, by which it knows its placement
// hints), and of pods and their templates all that does not matter for scheduling, such as environment variables and commands. It is a cache transform: the
// object is its own. A trimmed object may be the base of a patch, never of an update.
func Transform(in any) (any, error) {
	obj, ok := in.(client.Object)
	if !ok {
		return in, nil
	}
	obj.SetManagedFields(slices.DeleteFunc(obj.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager != FieldManager || m.Subresource != "status"
	}))
	if annotations := obj.GetAnnotations(); annotations[lastApplied] != "" {
		delete(annotations, lastApplied)
	}
	switch x := obj.(type) {
	case *corev1.PodTemplate:
		trimSpec(&x.Template.Spec)
	case *appsv1.Deployment:
		trimSpec(&x.Spec.Template.Spec)
	case *appsv1.ReplicaSet:
		trimSpec(&x.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		trimSpec(&x.Spec.Template.Spec)
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		trimSpec(&pod.Spec)
		pod.Spec.EphemeralContainers, pod.Status.EphemeralContainerStatuses = nil, nil
		trimStatuses(pod.Status.ContainerStatuses)
		trimStatuses(pod.Status.InitContainerStatuses)
	}
	return obj, nil
}

func trimSpec(s *corev1.PodSpec) {
	trimContainers(s.Containers)
	trimContainers(s.InitContainers)
}

func trimContainers(list []corev1.Container) {
	for i, c := range list {
		list[i] = corev1.Container{Name: c.Name, Resources: c.Resources, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
	}
}

func trimStatuses(list []corev1.ContainerStatus) {
	for i, c := range list {
		list[i] = corev1.ContainerStatus{Name: c.Name, AllocatedResources: c.AllocatedResources, Resources: c.Resources, Ready: c.Ready}
	}
}
