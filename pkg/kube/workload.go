package kube

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/karp-sh/karp/pkg/apis/autoscaling/v1beta1"
	karpv1alpha1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1alpha1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/spread"
)

// slot names a namespaced object of a kind.
type slot struct{ kind, namespace, name string }

// workloads keeps what selects pods: Services and the controllers of pods, for default spread constraints (scheduling rules 18).
type workloads struct {
	defaults []cluster.Spread
	services map[string]map[string]*corev1.Service // namespace, name
	owners   map[slot]spread.Owner
	// dirty are the controllers, dirtyNamespaces the namespaces whose pods must be converted again.
	dirty           map[slot]bool
	dirtyNamespaces map[string]bool
	// made maps a shape and a selector to the shape with defaults, base the latter to the former.
	made map[madeKey]*cluster.Shape
	base map[*cluster.Shape]*cluster.Shape
}

type madeKey struct {
	shape    *cluster.Shape
	selector string
}

func newWorkloads(defaults []cluster.Spread) workloads {
	return workloads{
		defaults: defaults, services: map[string]map[string]*corev1.Service{}, owners: map[slot]spread.Owner{}, dirty: map[slot]bool{},
		dirtyNamespaces: map[string]bool{}, made: map[madeKey]*cluster.Shape{}, base: map[*cluster.Shape]*cluster.Shape{},
	}
}

// shape returns the pod's shape with the default constraints that apply to it.
func (w *workloads) shape(pod *corev1.Pod, s *cluster.Shape) *cluster.Shape {
	if !spread.Applies(s, w.defaults) {
		return s
	}
	var selectors []map[string]string
	services := w.services[pod.Namespace]
	for _, name := range slices.Sorted(maps.Keys(services)) {
		selectors = append(selectors, services[name].Spec.Selector)
	}
	var o spread.Owner
	if at, ok := controllerOf(pod); ok {
		o = w.owners[at]
	}
	sel := spread.Selector(pod.Labels, selectors, o)
	if sel == nil {
		return s
	}
	key := madeKey{s, selectorText(sel)}
	out := w.made[key]
	if out == nil {
		out = spread.Shape(s, w.defaults, sel)
		w.made[key], w.base[out] = out, s
	}
	return out
}

// selectorText spells a selector so that different ones differ.
func selectorText(s *cluster.Selector) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(s.MatchLabels)) {
		b.WriteString(k + "=" + s.MatchLabels[k] + "\n")
	}
	for _, e := range s.Exprs {
		b.WriteString(e.Key + " " + string(e.Operator) + " " + strings.Join(e.Values, ",") + "\n")
	}
	return b.String()
}

// retain forgets shapes whose base is not in use.
func (w *workloads) retain(used map[*cluster.Shape]bool) {
	for key, out := range w.made {
		if !used[key.shape] {
			delete(w.made, key)
			delete(w.base, out)
		}
	}
}

// controllerOf names the pod's controller if its selector counts.
func controllerOf(pod *corev1.Pod) (slot, bool) {
	c := metav1.GetControllerOfNoCopy(pod)
	if c == nil {
		return slot{}, false
	}
	switch c.APIVersion + "/" + c.Kind {
	case "v1/" + ReplicationControllerKind, "apps/v1/" + ReplicaSetKind, "apps/v1/" + StatefulSetKind:
		return slot{c.Kind, pod.Namespace, c.Name}, true
	}
	return slot{}, false
}

// SetService takes a Service.
func (s *State) SetService(x *corev1.Service) {
	w := &s.workloads
	if w.services[x.Namespace] == nil {
		w.services[x.Namespace] = map[string]*corev1.Service{}
	}
	old, ok := w.services[x.Namespace][x.Name]
	w.services[x.Namespace][x.Name] = x
	if !ok || !maps.Equal(old.Spec.Selector, x.Spec.Selector) {
		w.dirtyNamespaces[x.Namespace] = true
	}
}

// DeleteService takes a Service away.
func (s *State) DeleteService(namespace, name string) {
	delete(s.workloads.services[namespace], name)
	s.workloads.dirtyNamespaces[namespace] = true
}

// SetReplicationController takes a ReplicationController.
func (s *State) SetReplicationController(x *corev1.ReplicationController) {
	s.setOwner(slot{ReplicationControllerKind, x.Namespace, x.Name}, &metav1.LabelSelector{MatchLabels: x.Spec.Selector})
}

// DeleteReplicationController takes a ReplicationController away.
func (s *State) DeleteReplicationController(namespace, name string) {
	s.dropOwner(slot{ReplicationControllerKind, namespace, name})
}

// SetReplicaSet takes a ReplicaSet.
func (s *State) SetReplicaSet(x *appsv1.ReplicaSet) {
	at := slot{ReplicaSetKind, x.Namespace, x.Name}
	s.setOwner(at, x.Spec.Selector)
	s.setTemplate(at, template{spec: &x.Spec.Template, replicas: x.Spec.Replicas, generation: x.Generation})
}

// DeleteReplicaSet takes a ReplicaSet away.
func (s *State) DeleteReplicaSet(namespace, name string) {
	s.dropOwner(slot{ReplicaSetKind, namespace, name})
	s.dropTemplate(slot{ReplicaSetKind, namespace, name})
}

// SetStatefulSet takes a StatefulSet.
func (s *State) SetStatefulSet(x *appsv1.StatefulSet) {
	at := slot{StatefulSetKind, x.Namespace, x.Name}
	s.setOwner(at, x.Spec.Selector)
	s.setTemplate(at, template{spec: &x.Spec.Template, replicas: x.Spec.Replicas, generation: x.Generation})
}

// DeleteStatefulSet takes a StatefulSet away.
func (s *State) DeleteStatefulSet(namespace, name string) {
	s.dropOwner(slot{StatefulSetKind, namespace, name})
	s.dropTemplate(slot{StatefulSetKind, namespace, name})
}

func (s *State) setOwner(at slot, sel *metav1.LabelSelector) {
	now := spread.Owner{Kind: at.kind, Selector: selector(sel)}
	if old, ok := s.workloads.owners[at]; ok && equality.Semantic.DeepEqual(old, now) {
		return
	}
	s.workloads.owners[at] = now
	s.workloads.dirty[at] = true
}

func (s *State) dropOwner(at slot) {
	delete(s.workloads.owners, at)
	s.workloads.dirty[at] = true
}

// respread converts the pods again whose default constraints may have changed.
func (s *State) respread() {
	w := &s.workloads
	if len(w.dirty)+len(w.dirtyNamespaces) == 0 {
		return
	}
	if len(w.defaults) > 0 {
		for pod := range s.pods.all() {
			at, _ := controllerOf(pod)
			if w.dirtyNamespaces[pod.Namespace] || w.dirty[at] {
				s.convertPod(pod)
			}
		}
		// Virtual pods are selected by Services, too.
		for namespace := range w.dirtyNamespaces {
			s.buffers.touch(namespace)
		}
	}
	clear(w.dirty)
	clear(w.dirtyNamespaces)
}

// setGated takes an object of a kind that only gates and settings need.
func (s *State) setGated(o client.Object) {
	switch x := o.(type) {
	case *karpv1alpha1.NodeOverlay:
		s.SetNodeOverlay(x)
	case *autoscalingv1beta1.CapacityBuffer:
		s.SetCapacityBuffer(x)
	case *corev1.PodTemplate:
		s.SetPodTemplate(x)
	case *appsv1.Deployment:
		s.SetDeployment(x)
	case *appsv1.ReplicaSet:
		s.SetReplicaSet(x)
	case *appsv1.StatefulSet:
		s.SetStatefulSet(x)
	case *corev1.ReplicationController:
		s.SetReplicationController(x)
	case *corev1.Service:
		s.SetService(x)
	}
	if s.settings.IgnoreDRA {
		return
	}
	switch x := o.(type) {
	case *resourcev1.ResourceSlice:
		s.SetResourceSlice(x)
	case *resourcev1.ResourceClaim:
		s.SetResourceClaim(x)
	case *resourcev1.DeviceClass:
		s.SetDeviceClass(x)
	}
}

// registerGated adds the handlers for what only gates and settings need.
func (f *Feed) registerGated(ctx context.Context, informers Informers) error {
	s, gates := f.state, f.state.settings
	var errs []error
	if gates.NodeOverlay {
		errs = append(errs, watch(ctx, f, informers, NodeOverlayKind, s.SetNodeOverlay, func(o *karpv1alpha1.NodeOverlay) { s.DeleteNodeOverlay(o.Name) }))
	}
	if gates.CapacityBuffer {
		errs = append(errs,
			watch(ctx, f, informers, CapacityBufferKind, s.SetCapacityBuffer, func(b *autoscalingv1beta1.CapacityBuffer) { s.DeleteCapacityBuffer(b.Namespace, b.Name) }),
			watch(ctx, f, informers, PodTemplateKind, s.SetPodTemplate, func(t *corev1.PodTemplate) { s.DeletePodTemplate(t.Namespace, t.Name) }),
			watch(ctx, f, informers, DeploymentKind, s.SetDeployment, func(d *appsv1.Deployment) { s.DeleteDeployment(d.Namespace, d.Name) }))
	}
	if !gates.IgnoreDRA {
		errs = append(errs,
			watch(ctx, f, informers, ResourceSliceKind, s.SetResourceSlice, func(x *resourcev1.ResourceSlice) { s.DeleteResourceSlice(x.Name) }),
			watch(ctx, f, informers, ResourceClaimKind, s.SetResourceClaim, func(x *resourcev1.ResourceClaim) { s.DeleteResourceClaim(x.Namespace, x.Name) }),
			watch(ctx, f, informers, DeviceClassKind, s.SetDeviceClass, func(x *resourcev1.DeviceClass) { s.DeleteDeviceClass(x.Name) }))
	}
	if len(gates.DefaultSpread) > 0 {
		errs = append(errs,
			watch(ctx, f, informers, ServiceKind, s.SetService, func(x *corev1.Service) { s.DeleteService(x.Namespace, x.Name) }),
			watch(ctx, f, informers, ReplicationControllerKind, s.SetReplicationController, func(x *corev1.ReplicationController) {
				s.DeleteReplicationController(x.Namespace, x.Name)
			}))
	}
	if gates.CapacityBuffer || len(gates.DefaultSpread) > 0 {
		errs = append(errs,
			watch(ctx, f, informers, ReplicaSetKind, s.SetReplicaSet, func(x *appsv1.ReplicaSet) { s.DeleteReplicaSet(x.Namespace, x.Name) }),
			watch(ctx, f, informers, StatefulSetKind, s.SetStatefulSet, func(x *appsv1.StatefulSet) { s.DeleteStatefulSet(x.Namespace, x.Name) }))
	}
	return errors.Join(errs...)
}
