package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/karp-sh/karp/pkg/units"
)

// Resources converts a resource list. CPU becomes millicores, everything else base units, both rounded up.
func Resources(list corev1.ResourceList) units.List {
	if list == nil {
		return nil
	}
	out := make(units.List, len(list))
	for name, q := range list {
		out[string(name)] = amount(name, &q)
	}
	return out
}

// amount converts one quantity to the unit of units.List.
func amount(name corev1.ResourceName, q *resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// Quantities is the reverse of Resources, for writing to the API.
func Quantities(list units.List) corev1.ResourceList {
	if list == nil {
		return nil
	}
	out := make(corev1.ResourceList, len(list))
	for name, v := range list {
		switch {
		case name == units.CPU:
			out[corev1.ResourceName(name)] = *resource.NewMilliQuantity(v, resource.DecimalSI)
		case powersOfTwo(name):
			out[corev1.ResourceName(name)] = *resource.NewQuantity(v, resource.BinarySI)
		default:
			out[corev1.ResourceName(name)] = *resource.NewQuantity(v, resource.DecimalSI)
		}
	}
	return out
}

// powersOfTwo tells that people write the resource in Ki, Mi and Gi.
func powersOfTwo(name string) bool {
	return name == units.Memory || name == units.EphemeralStorage || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
}

// Requests returns the pod's effective requests, including one unit of "pods" (scheduling rules 5.1): the larger of what all containers
// and sidecars need together and of the highest peak while init containers run, replaced by pod-level requests where given, plus the
// runtime's overhead. A container that is being resized counts with the largest of what it asks for, was granted and has.
func Requests(pod *corev1.Pod) units.List {
	infeasible := resizeInfeasible(pod)
	run, sidecars, peak := units.List{}, units.List{}, units.List{}
	for i := range pod.Spec.Containers {
		addTo(run, containerRequests(pod, &pod.Spec.Containers[i], infeasible))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		need := containerRequests(pod, c, infeasible)
		if sidecar(c) {
			addTo(run, need)
			addTo(sidecars, need)
			maxTo(peak, sidecars)
			continue
		}
		maxTo(peak, need.Add(sidecars))
	}
	maxTo(run, peak)
	for name, v := range podLevelRequests(pod, infeasible) {
		run[name] = v
	}
	addTo(run, Resources(pod.Spec.Overhead))
	run[units.Pods] = 1
	return run
}

// containerRequests is what one container counts.
func containerRequests(pod *corev1.Pod, c *corev1.Container, infeasible bool) units.List {
	status := containerStatus(pod, c.Name)
	if status == nil || status.Resources == nil && status.AllocatedResources == nil {
		if infeasible {
			return nil
		}
		return Resources(c.Resources.Requests)
	}
	out := units.List{}
	if !infeasible {
		maxTo(out, Resources(c.Resources.Requests))
	}
	if status.Resources != nil {
		maxTo(out, Resources(status.Resources.Requests))
	}
	maxTo(out, Resources(status.AllocatedResources))
	return out
}

// podLevelRequests are the pod's own requests of the resources that can be given there, or nil.
func podLevelRequests(pod *corev1.Pod, infeasible bool) units.List {
	if pod.Spec.Resources == nil || len(pod.Spec.Resources.Requests) == 0 {
		return nil
	}
	out := units.List{}
	granted := pod.Status.Resources
	if granted == nil || !infeasible {
		maxTo(out, Resources(pod.Spec.Resources.Requests))
	}
	if granted != nil {
		maxTo(out, Resources(granted.Requests))
		maxTo(out, Resources(pod.Status.AllocatedResources))
	}
	for name := range out {
		if !podLevel(name) {
			delete(out, name)
		}
	}
	return out
}

// podLevel tells whether a resource can be requested for the pod as a whole.
func podLevel(name string) bool {
	return name == units.CPU || name == units.Memory || strings.HasPrefix(name, corev1.ResourceHugePagesPrefix)
}

func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// resizeInfeasible tells that the pending resize of the pod can never be granted on its node.
func resizeInfeasible(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodResizePending {
			return c.Reason == corev1.PodReasonInfeasible
		}
	}
	return false
}

func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [...][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func addTo(sum, more units.List) {
	for k, v := range more {
		sum[k] += v
	}
}

func maxTo(most, other units.List) {
	for k, v := range other {
		if have, ok := most[k]; !ok || v > have {
			most[k] = v
		}
	}
}
