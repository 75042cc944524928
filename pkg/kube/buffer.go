package kube

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/karp-sh/karp/pkg/apis/autoscaling/v1beta1"
	"github.com/karp-sh/karp/pkg/apis/conditions"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/buffer"
	"github.com/karp-sh/karp/pkg/units"
)

// buffers keeps CapacityBuffers and what their copies are made of (scheduling rules 24).
type buffers struct {
	objects   map[slot]*autoscalingv1beta1.CapacityBuffer
	templates map[slot]template
	// dirty are the buffers whose virtual pods must be made again.
	dirty map[slot]bool
	// made is what the builder has of each buffer.
	made map[slot]*madeBuffer
}

type madeBuffer struct {
	shape  *cluster.Shape
	labels map[string]string
	uid    string
	pods   []*cluster.Pod
}

// template is what the copies of a pod are made of: a PodTemplate or a workload.
type template struct {
	spec       *corev1.PodTemplateSpec
	replicas   *int32
	generation int64
}

func newBuffers() buffers {
	return buffers{
		objects: map[slot]*autoscalingv1beta1.CapacityBuffer{}, templates: map[slot]template{}, dirty: map[slot]bool{}, made: map[slot]*madeBuffer{},
	}
}

// touch makes the virtual pods of a namespace's buffers anew.
func (b *buffers) touch(namespace string) {
	for at := range b.objects {
		if at.namespace == namespace {
			b.dirty[at] = true
		}
	}
}

// SetCapacityBuffer takes a CapacityBuffer.
func (s *State) SetCapacityBuffer(x *autoscalingv1beta1.CapacityBuffer) {
	at := slot{CapacityBufferKind, x.Namespace, x.Name}
	s.buffers.objects[at], s.buffers.dirty[at] = x, true
}

// DeleteCapacityBuffer takes a CapacityBuffer away.
func (s *State) DeleteCapacityBuffer(namespace, name string) {
	at := slot{CapacityBufferKind, namespace, name}
	delete(s.buffers.objects, at)
	s.buffers.dirty[at] = true
}

// SetPodTemplate takes a PodTemplate.
func (s *State) SetPodTemplate(x *corev1.PodTemplate) {
	s.setTemplate(slot{PodTemplateKind, x.Namespace, x.Name}, template{spec: &x.Template, generation: x.Generation})
}

// DeletePodTemplate takes a PodTemplate away.
func (s *State) DeletePodTemplate(namespace, name string) {
	s.dropTemplate(slot{PodTemplateKind, namespace, name})
}

// SetDeployment takes a Deployment.
func (s *State) SetDeployment(x *appsv1.Deployment) {
	s.setTemplate(slot{DeploymentKind, x.Namespace, x.Name}, template{spec: &x.Spec.Template, replicas: x.Spec.Replicas, generation: x.Generation})
}

// DeleteDeployment takes a Deployment away.
func (s *State) DeleteDeployment(namespace, name string) {
	s.dropTemplate(slot{DeploymentKind, namespace, name})
}

func (s *State) setTemplate(at slot, t template) {
	if !s.settings.CapacityBuffer {
		return
	}
	s.buffers.templates[at] = t
	s.buffers.touch(at.namespace)
}

func (s *State) dropTemplate(at slot) {
	delete(s.buffers.templates, at)
	s.buffers.touch(at.namespace)
}

// templateOf names what a buffer's copies are made of; ok is false if the rules know no such kind.
func templateOf(x *autoscalingv1beta1.CapacityBuffer) (at slot, ok bool) {
	switch pod, scalable := x.Spec.PodTemplateRef, x.Spec.ScalableRef; {
	case pod != nil:
		return slot{PodTemplateKind, x.Namespace, pod.Name}, true
	case scalable != nil && (scalable.APIGroup == "" || scalable.APIGroup == appsv1.GroupName):
		at = slot{scalable.Kind, x.Namespace, scalable.Name}
		return at, slices.Contains([]string{DeploymentKind, StatefulSetKind, ReplicaSetKind}, scalable.Kind)
	}
	return slot{}, false
}

// rebuffer makes the virtual pods of buffers that changed.
func (s *State) rebuffer() {
	for at := range s.buffers.dirty {
		s.replaceVirtual(at, s.virtual(at))
	}
	clear(s.buffers.dirty)
}

// virtual makes the virtual pods of a buffer; nil if it has none.
func (s *State) virtual(at slot) *madeBuffer {
	x := s.buffers.objects[at]
	if x == nil || !s.settings.CapacityBuffer || x.DeletionTimestamp != nil || x.Status.Replicas == nil || *x.Status.Replicas <= 0 ||
		!conditions.IsTrue(x.Status.Conditions, autoscalingv1beta1.ConditionReadyForProvisioning) {
		return nil
	}
	from, _ := templateOf(x)
	t, ok := s.buffers.templates[from]
	if !ok {
		return nil
	}
	pod := copyOf(x.Namespace, t.spec)
	shape := s.workloads.shape(pod, s.shaper.Shape(pod, nil))
	b := buffer.Buffer{
		Namespace: x.Namespace, Name: x.Name, UID: string(x.UID), Created: x.CreationTimestamp.Time, Shape: shape, Labels: t.spec.Labels, Replicas: *x.Status.Replicas,
	}
	if old := s.buffers.made[at]; old != nil && old.shape == shape && old.uid == b.UID && maps.Equal(old.labels, b.Labels) &&
		len(old.pods) == int(min(b.Replicas, buffer.MaxPods)) {
		return old
	}
	return &madeBuffer{shape: shape, labels: b.Labels, uid: b.UID, pods: b.Pods()}
}

func (s *State) replaceVirtual(at slot, now *madeBuffer) {
	old := s.buffers.made[at]
	if old == now {
		return
	}
	if old != nil {
		for _, p := range old.pods {
			s.sink.DeletePod(p.UID)
		}
		delete(s.buffers.made, at)
	}
	if now != nil {
		for _, p := range now.pods {
			s.sink.SetPod(p)
		}
		s.buffers.made[at] = now
	}
}

// copyOf is a pod as the template would make it, with limits copied to requests that are missing.
func copyOf(namespace string, t *corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: t.Labels}, Spec: *t.Spec.DeepCopy()}
	defaultRequests(pod.Spec.Containers)
	defaultRequests(pod.Spec.InitContainers)
	priority := int32(buffer.Priority)
	pod.Spec.Priority, pod.Spec.NodeName, pod.Spec.Volumes = &priority, "", nil
	return pod
}

// Resolution is what a CapacityBuffer comes to: the condition ReadyForProvisioning and, if it is True, the rest of the status.
type Resolution struct {
	Ready           bool
	Reason, Message string
	Replicas        int32
	// Template is the PodTemplate's name, empty for a workload; Generation its generation.
	Template   string
	Generation int64
}

// ResolveBuffer finds what a buffer's copies are made of and counts them (scheduling rules 24.1, 24.2). Get reads an object by namespace and name and
// reports whether it exists.
func ResolveBuffer(x *autoscalingv1beta1.CapacityBuffer, get func(obj client.Object, namespace, name string) (bool, error)) (Resolution, error) {
	at, ok := templateOf(x)
	if !ok {
		return Resolution{Reason: autoscalingv1beta1.ReasonResolutionFailed, Message: unresolvable(x)}, nil
	}
	t, err := readTemplate(at, get)
	switch {
	case err != nil:
		return Resolution{Reason: autoscalingv1beta1.ReasonResolutionFailed, Message: conditions.Truncate(err.Error())}, err
	case t == nil && at.kind == PodTemplateKind:
		return Resolution{Reason: autoscalingv1beta1.ReasonPodTemplateNotFound, Message: fmt.Sprintf("no PodTemplate %q in namespace %s", at.name, at.namespace)}, nil
	case t == nil:
		return Resolution{Reason: autoscalingv1beta1.ReasonScalableRefNotFound, Message: fmt.Sprintf("no %s %q in namespace %s", at.kind, at.name, at.namespace)}, nil
	}
	wish := buffer.Wish{
		Replicas: x.Spec.Replicas, Percentage: x.Spec.Percentage, Limits: Resources(x.Spec.Limits), Request: Requests(copyOf(x.Namespace, t.spec)).Sub(units.List{units.Pods: 1}),
	}
	out := Resolution{Ready: true, Reason: autoscalingv1beta1.ReasonResolved}
	if at.kind == PodTemplateKind {
		out.Template, out.Generation = at.name, t.generation
	} else {
		one := int32(1)
		if wish.Scalable = t.replicas; wish.Scalable == nil {
			wish.Scalable = &one
		}
	}
	out.Replicas = wish.Size()
	if out.Replicas > buffer.MaxPods {
		out.Message = "only the first " + strconv.Itoa(buffer.MaxPods) + " copies are planned for"
	}
	return out, nil
}

func unresolvable(x *autoscalingv1beta1.CapacityBuffer) string {
	if r := x.Spec.ScalableRef; r != nil {
		return fmt.Sprintf("scalableRef is to a %s of group %q; supported are Deployment, StatefulSet and ReplicaSet of group apps", r.Kind, r.APIGroup)
	}
	return "neither podTemplateRef nor scalableRef is set"
}

// readTemplate reads a template; nil if there is none.
func readTemplate(at slot, get func(client.Object, string, string) (bool, error)) (*template, error) {
	var (
		obj client.Object
		out template
	)
	switch at.kind {
	case PodTemplateKind:
		x := &corev1.PodTemplate{}
		obj, out.spec = x, &x.Template
	case DeploymentKind:
		x := &appsv1.Deployment{}
		obj, out.spec = x, &x.Spec.Template
	case StatefulSetKind:
		x := &appsv1.StatefulSet{}
		obj, out.spec = x, &x.Spec.Template
	default:
		x := &appsv1.ReplicaSet{}
		obj, out.spec = x, &x.Spec.Template
	}
	found, err := get(obj, at.namespace, at.name)
	if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", at.kind, at.namespace, at.name, err)
	}
	if !found {
		return nil, nil
	}
	switch x := obj.(type) {
	case *appsv1.Deployment:
		out.replicas = x.Spec.Replicas
	case *appsv1.StatefulSet:
		out.replicas = x.Spec.Replicas
	case *appsv1.ReplicaSet:
		out.replicas = x.Spec.Replicas
	}
	out.generation = obj.GetGeneration()
	return &out, nil
}

// Hold records how many virtual pods the last pass put on each node, by name of the Node or of the claim.
func (f *Feed) Hold(counts map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.sink.SetBuffered(counts)
}
