package differential

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// containers gives the pod containers, sometimes init containers, sidecars, overhead, pod-level requests and host ports. Percent is how
// likely a container asks for much.
func (g *generator) containers(p *corev1.Pod, percent int) {
	for i := range g.some(1, 2) {
		p.Spec.Containers = append(p.Spec.Containers, g.container(fmt.Sprintf("c%d", i), percent))
	}
	if g.chance(15) {
		for i := range g.some(1, 3) {
			c := g.container(fmt.Sprintf("i%d", i), percent)
			if g.chance(50) {
				c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}
			if g.chance(20) {
				c.Ports = g.ports()
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	if g.chance(15) {
		p.Spec.Containers[0].Ports = g.ports()
	}
	if g.chance(8) {
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(int64(g.some(1, 4))*125, resource.DecimalSI)}
	}
	if g.chance(8) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: podLevel(p)}
		if g.chance(30) {
			delete(p.Spec.Resources.Requests, corev1.ResourceMemory)
		}
	}
}

// podLevel returns requests for the pod as a whole that are not less than those of its containers together, as the API server demands.
func podLevel(p *corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("125m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for _, c := range list {
			for name := range sum {
				q := sum[name]
				q.Add(c.Resources.Requests[name])
				sum[name] = q
			}
		}
	}
	return sum
}

func (g *generator) container(name string, percent int) corev1.Container {
	c := corev1.Container{Name: name, Image: "image", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	r := c.Resources.Requests
	most := 2
	if g.chance(percent) {
		most = 6
	}
	if g.chance(80) {
		r[corev1.ResourceCPU] = *resource.NewMilliQuantity(int64(g.some(0, most))*125, resource.DecimalSI)
	}
	if g.chance(70) {
		r[corev1.ResourceMemory] = *resource.NewQuantity(int64(g.some(0, most))<<28, resource.BinarySI)
	}
	if g.chance(8) {
		r[corev1.ResourceEphemeralStorage] = gibibytes(g.some(0, 2))
	}
	if g.chance(4) {
		r[gpu] = *resource.NewQuantity(int64(g.some(0, 1)), resource.DecimalSI)
	}
	return c
}

func (g *generator) ports() []corev1.ContainerPort {
	return many(g, 1, 2, func() corev1.ContainerPort {
		n := pick(g, int32(0), 80, 80, 443)
		return corev1.ContainerPort{
			ContainerPort: 80, HostPort: n, Protocol: pick(g, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP),
			HostIP: pick(g, "", "", "0.0.0.0", "10.0.0.1", "10.0.0.2", "::"),
		}
	})
}

// resize puts the pod in the middle of a change of its containers' resources.
func (g *generator) resize(p *corev1.Pod) {
	for _, c := range p.Spec.Containers {
		actual := g.container(c.Name, 50)
		status := corev1.ContainerStatus{Name: c.Name, AllocatedResources: actual.Resources.Requests}
		if g.chance(70) {
			status.Resources = &corev1.ResourceRequirements{Requests: g.container(c.Name, 50).Resources.Requests}
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, status)
	}
	if g.chance(50) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: pick(g, corev1.PodReasonInfeasible, corev1.PodReasonDeferred),
		})
	}
}
