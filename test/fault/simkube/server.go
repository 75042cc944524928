package simkube

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Event is one change: Old is nil for an object that was created, New for one that is gone.
type Event struct {
	Kind     string
	Old, New client.Object
}

// Object is what the event is about.
func (e Event) Object() client.Object {
	if e.New != nil {
		return e.New
	}
	return e.Old
}

// Server holds the objects. It is safe for concurrent use.
type Server struct {
	scheme *runtime.Scheme
	now    func() time.Time

	mu      sync.Mutex
	random  *rand.Rand
	version uint64
	drops   uint64
	uids    int
	objects map[schema.GroupVersionKind]map[types.NamespacedName]client.Object
	clients []*Client
}

// New makes an empty server. The seed decides generated names.
func New(scheme *runtime.Scheme, now func() time.Time, seed uint64) *Server {
	return &Server{scheme: scheme, now: now, random: rand.New(rand.NewPCG(seed, 0)), objects: map[schema.GroupVersionKind]map[types.NamespacedName]client.Object{}}
}

// kindOf is the kind of an object.
func (s *Server) kindOf(obj runtime.Object) schema.GroupVersionKind {
	gvk, err := apiutil.GVKForObject(obj, s.scheme)
	if err != nil {
		panic(fmt.Sprintf("simkube: %v", err)) // a test that uses an unknown kind
	}
	return gvk
}

// resource is a kind's name in errors and write sites, e.g. nodeclaims.
func resource(gvk schema.GroupVersionKind) schema.GroupResource {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural.GroupResource()
}

// emit stores a change and tells all clients. Both objects are owned by the server from here on.
func (s *Server) emit(gvk schema.GroupVersionKind, old, obj client.Object) {
	e := Event{Kind: gvk.Kind, Old: old, New: obj}
	key := client.ObjectKeyFromObject(e.Object())
	if obj == nil {
		s.drops++
		delete(s.objects[gvk], key)
	} else {
		if s.objects[gvk] == nil {
			s.objects[gvk] = map[types.NamespacedName]client.Object{}
		}
		s.objects[gvk][key] = obj
	}
	for _, c := range s.clients {
		c.pending = append(c.pending, e)
	}
}

func (s *Server) next() string {
	s.version++
	return strconv.FormatUint(s.version, 10)
}

// copyOf is a deep copy with its kind filled in, as a server returns objects.
func copyOf(obj client.Object) client.Object { return obj.DeepCopyObject().(client.Object) }

// assign copies src into dst, both pointers to the same type.
func assign(dst, src client.Object) {
	reflect.ValueOf(dst).Elem().Set(reflect.ValueOf(copyOf(src)).Elem())
}

// status is the field Status of an object; ok is false if its kind has none.
func status(obj client.Object) (reflect.Value, bool) {
	v := reflect.ValueOf(obj).Elem().FieldByName("Status")
	return v, v.IsValid()
}

func spec(obj client.Object) any {
	if v := reflect.ValueOf(obj).Elem().FieldByName("Spec"); v.IsValid() {
		return v.Interface()
	}
	return nil
}

// create adds an object. What the server assigns is written back to obj.
func (s *Server) create(obj client.Object, withStatus bool) error {
	gvk := s.kindOf(obj)
	if obj.GetName() == "" {
		obj.SetName(obj.GetGenerateName() + s.suffix())
	}
	key := client.ObjectKeyFromObject(obj)
	if s.objects[gvk][key] != nil {
		return apierrors.NewAlreadyExists(resource(gvk), key.Name)
	}
	s.uids++
	if obj.GetUID() == "" {
		obj.SetUID(types.UID(fmt.Sprintf("uid-%s-%d", strings.ToLower(gvk.Kind), s.uids)))
	}
	if at := obj.GetCreationTimestamp(); at.IsZero() {
		obj.SetCreationTimestamp(metav1.NewTime(s.now().Truncate(time.Second)))
	}
	obj.SetGeneration(1)
	obj.SetResourceVersion(s.next())
	if v, ok := status(obj); ok && !withStatus {
		v.SetZero()
	}
	if p, ok := obj.(*corev1.Pod); ok && p.Spec.TerminationGracePeriodSeconds == nil && !withStatus {
		seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
		p.Spec.TerminationGracePeriodSeconds = &seconds
	}
	s.emit(gvk, nil, copyOf(obj))
	return nil
}

// suffix is five characters as the API server generates them.
func (s *Server) suffix() string {
	const alphabet = "bcdfghjklmnpqrstvwxz2456789"
	out := make([]byte, 5)
	for i := range out {
		out[i] = alphabet[s.random.IntN(len(alphabet))]
	}
	return string(out)
}

// get returns the stored object, not a copy.
func (s *Server) get(gvk schema.GroupVersionKind, key types.NamespacedName) (client.Object, error) {
	if obj := s.objects[gvk][key]; obj != nil {
		return obj, nil
	}
	return nil, apierrors.NewNotFound(resource(gvk), key.Name)
}

// update replaces the object, or only its status. A resource version is a precondition.
func (s *Server) update(obj client.Object, statusOnly bool) error {
	gvk := s.kindOf(obj)
	old, err := s.get(gvk, client.ObjectKeyFromObject(obj))
	if err != nil {
		return err
	}
	if v := obj.GetResourceVersion(); v != "" && v != old.GetResourceVersion() || obj.GetUID() != "" && obj.GetUID() != old.GetUID() {
		return apierrors.NewConflict(resource(gvk), obj.GetName(), fmt.Errorf("the object has been modified"))
	}
	written := copyOf(obj)
	if statusOnly {
		written = copyOf(old)
		to, ok := status(written)
		if !ok {
			return apierrors.NewNotFound(resource(gvk), obj.GetName())
		}
		from, _ := status(copyOf(obj))
		to.Set(from)
	} else {
		s.keep(written, old)
	}
	written.SetResourceVersion(old.GetResourceVersion())
	if apiequality.Semantic.DeepEqual(written, old) {
		assign(obj, old)
		return nil
	}
	if !apiequality.Semantic.DeepEqual(spec(written), spec(old)) {
		written.SetGeneration(old.GetGeneration() + 1)
	}
	written.SetResourceVersion(s.next())
	assign(obj, written)
	if written.GetDeletionTimestamp() != nil && len(written.GetFinalizers()) == 0 && gone(written) {
		s.emit(gvk, old, nil)
		return nil
	}
	s.emit(gvk, old, written)
	return nil
}

// gone reports whether a deleted object without finalizers leaves at once. A pod that runs somewhere stays until its kubelet lets it go.
func gone(obj client.Object) bool {
	p, ok := obj.(*corev1.Pod)
	return !ok || p.Spec.NodeName == ""
}

// keep restores what a write to the main resource cannot change.
func (s *Server) keep(written, old client.Object) {
	if to, ok := status(written); ok {
		from, _ := status(copyOf(old))
		to.Set(from)
	}
	written.SetUID(old.GetUID())
	written.SetCreationTimestamp(old.GetCreationTimestamp())
	written.SetGeneration(old.GetGeneration())
	written.SetDeletionTimestamp(old.GetDeletionTimestamp())
	written.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
}

// patch merges a JSON merge patch into the object.
func (s *Server) patch(obj client.Object, p client.Patch, statusOnly bool) error {
	if p.Type() != types.MergePatchType {
		return apierrors.NewBadRequest("simkube knows merge patches only")
	}
	data, err := p.Data(obj)
	if err != nil {
		return err
	}
	gvk := s.kindOf(obj)
	old, err := s.get(gvk, client.ObjectKeyFromObject(obj))
	if err != nil {
		return err
	}
	patched, err := merge(old, data)
	if err != nil {
		return err
	}
	if err := s.update(patched, statusOnly); err != nil {
		return err
	}
	assign(obj, patched)
	return nil
}

// merge applies a JSON merge patch (RFC 7386) to a copy of an object.
func merge(obj client.Object, data []byte) (client.Object, error) {
	raw, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var have, change map[string]any
	if err := json.Unmarshal(raw, &have); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &change); err != nil {
		return nil, err
	}
	if raw, err = json.Marshal(mergeMaps(have, change)); err != nil {
		return nil, err
	}
	out := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	return out, json.Unmarshal(raw, out)
}

func mergeMaps(have, change map[string]any) map[string]any {
	if have == nil {
		have = map[string]any{}
	}
	for k, v := range change {
		switch sub, isMap := v.(map[string]any); {
		case v == nil:
			delete(have, k)
		case isMap:
			old, _ := have[k].(map[string]any)
			have[k] = mergeMaps(old, sub)
		default:
			have[k] = v
		}
	}
	return have
}

// remove deletes an object: at once, or by a deletion timestamp if finalizers or a grace period hold it.
func (s *Server) remove(obj client.Object, o client.DeleteOptions) error {
	gvk := s.kindOf(obj)
	old, err := s.get(gvk, client.ObjectKeyFromObject(obj))
	if err != nil {
		return err
	}
	if p := o.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return apierrors.NewConflict(resource(gvk), obj.GetName(), fmt.Errorf("the precondition of the deletion does not hold"))
		}
	}
	grace := int64(0)
	if p, ok := old.(*corev1.Pod); ok && p.Spec.NodeName != "" {
		grace = corev1.DefaultTerminationGracePeriodSeconds
		if p.Spec.TerminationGracePeriodSeconds != nil {
			grace = *p.Spec.TerminationGracePeriodSeconds
		}
		if o.GracePeriodSeconds != nil {
			grace = *o.GracePeriodSeconds
		}
	}
	if grace == 0 && len(old.GetFinalizers()) == 0 {
		s.emit(gvk, old, nil)
		return nil
	}
	at := metav1.NewTime(s.now().Truncate(time.Second).Add(time.Duration(grace) * time.Second))
	if have := old.GetDeletionTimestamp(); have != nil && !at.Before(have) {
		return nil
	}
	written := copyOf(old)
	written.SetDeletionTimestamp(&at)
	written.SetDeletionGracePeriodSeconds(&grace)
	written.SetGeneration(old.GetGeneration() + 1)
	written.SetResourceVersion(s.next())
	s.emit(gvk, old, written)
	return nil
}

// evict is the eviction subresource of a pod.
func (s *Server) evict(pod *corev1.Pod, e *policyv1.Eviction) error {
	gvk := s.kindOf(pod)
	stored, err := s.get(gvk, client.ObjectKeyFromObject(pod))
	if err != nil {
		return err
	}
	have := stored.(*corev1.Pod)
	o := client.DeleteOptions{}
	if e.DeleteOptions != nil {
		o.Preconditions, o.GracePeriodSeconds = e.DeleteOptions.Preconditions, e.DeleteOptions.GracePeriodSeconds
	}
	var budgets []*policyv1.PodDisruptionBudget
	for _, obj := range s.objects[policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget")] {
		pdb := obj.(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector)
		if err == nil && pdb.Namespace == have.Namespace && selector.Matches(labels.Set(have.Labels)) {
			budgets = append(budgets, pdb)
		}
	}
	switch {
	case len(budgets) > 1:
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError, Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}}
	case len(budgets) == 1 && have.DeletionTimestamp == nil:
		if budgets[0].Status.DisruptionsAllowed <= 0 {
			return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
		}
		spent := budgets[0].DeepCopy()
		spent.Status.DisruptionsAllowed--
		if err := s.update(spent, true); err != nil {
			return err
		}
	}
	return s.remove(have, o)
}

// Collect deletes objects all of whose owners are gone, as the garbage collector of a cluster does, and reports how many.
func (s *Server) Collect() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive := map[types.UID]bool{}
	for _, kind := range s.objects {
		for _, obj := range kind {
			alive[obj.GetUID()] = true
		}
	}
	n := 0
	for _, gvk := range s.kinds() {
		for _, key := range s.keys(gvk) {
			obj := s.objects[gvk][key]
			owned := func(o metav1.OwnerReference) bool { return alive[o.UID] }
			if refs := obj.GetOwnerReferences(); obj.GetDeletionTimestamp() == nil && len(refs) > 0 && !slices.ContainsFunc(refs, owned) && collectable(refs) {
				if s.remove(obj, client.DeleteOptions{}) == nil {
					n++
				}
			}
		}
	}
	return n
}

// collectable leaves alone what names owners of kinds that tests do not create, such as a DaemonSet that stands for its pods only.
func collectable(refs []metav1.OwnerReference) bool {
	return !slices.ContainsFunc(refs, func(o metav1.OwnerReference) bool {
		return o.Kind == "DaemonSet" || o.Kind == "ReplicaSet" || o.Kind == "Node"
	})
}

func (s *Server) kinds() []schema.GroupVersionKind {
	return slices.SortedFunc(maps.Keys(s.objects), func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
}

func (s *Server) keys(gvk schema.GroupVersionKind) []types.NamespacedName {
	return sortedKeys(s.objects[gvk])
}

func sortedKeys(m map[types.NamespacedName]client.Object) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(m), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}
