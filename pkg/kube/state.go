package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	karpv1alpha1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1alpha1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
)

// Catalogs gives the catalogue of instance types that a class can launch. FromCloud makes one from the cloud provider; the plugin brings an
// offline one.
type Catalogs interface {
	Catalog(ctx context.Context, class *awsv1.EC2NodeClass) (*catalog.Catalog, error)
}

// CatalogFunc makes a function a Catalogs.
type CatalogFunc func(ctx context.Context, class *awsv1.EC2NodeClass) (*catalog.Catalog, error)

// Catalog calls the function.
func (f CatalogFunc) Catalog(ctx context.Context, class *awsv1.EC2NodeClass) (*catalog.Catalog, error) {
	return f(ctx, class)
}

// State holds API objects by deltas and yields cluster snapshots. It resolves what one object says about another: which volumes a pod mounts,
// which budget blocks it, which pod represents a DaemonSet, so objects may come in any order. Objects given to it must not change afterwards.
// It is not safe for concurrent use.
type State struct {
	sink    *cluster.Builder
	shaper  Shaper
	volumes volumes
	budgets budgets

	pods    podTable
	spare   []cluster.Pod                  // for pods to come
	mounts  map[string]map[string]struct{} // namespace/claim -> pod UIDs
	nodes   map[string]*corev1.Node
	csi     map[string]*storagev1.CSINode
	daemons map[string]*daemon // by DaemonSet UID
	pools   map[string]*cluster.Pool
	classes map[string]*awsv1.EC2NodeClass
	claims  map[string]*karpv1.NodeClaim
	marked  map[string]bool // claim names
	applied map[string]appliedPool
	// settings tell which of the following are looked at.
	settings       cluster.Settings
	overlays       map[string]*karpv1alpha1.NodeOverlay
	overlayVersion int
	overlayer      overlayer
	workloads      workloads
	buffers        buffers
	devices        devices
	// still tells that all objects were read at once and nothing more is coming.
	still bool
	// kept is the number of encodings that the last trim left.
	kept int
}

// appliedPool is what a pool was last handed on with.
type appliedPool struct {
	pool *cluster.Pool
	with pricing
}

// daemon collects what is known about one DaemonSet, whichever comes first.
type daemon struct {
	object *appsv1.DaemonSet
	pods   map[string]*corev1.Pod
	newest *corev1.Pod
}

// NewState returns an empty state.
func NewState(settings cluster.Settings) *State {
	sink := cluster.NewBuilder()
	sink.SetSettings(settings)
	return &State{
		sink: sink, volumes: newVolumes(), budgets: budgets{},
		mounts: map[string]map[string]struct{}{}, nodes: map[string]*corev1.Node{},
		csi: map[string]*storagev1.CSINode{}, daemons: map[string]*daemon{}, pools: map[string]*cluster.Pool{},
		classes: map[string]*awsv1.EC2NodeClass{}, claims: map[string]*karpv1.NodeClaim{}, marked: map[string]bool{},
		applied: map[string]appliedPool{}, settings: settings, overlays: map[string]*karpv1alpha1.NodeOverlay{},
		workloads: newWorkloads(settings.DefaultSpread), buffers: newBuffers(), devices: newDevices(),
	}
}

// grow makes room for so many pods in a new state.
func (s *State) grow(pods int) {
	s.spare = make([]cluster.Pod, pods)
	s.sink.GrowPods(pods)
}

// SetSettings replaces the settings.
func (s *State) SetSettings(settings cluster.Settings) {
	s.settings = settings
	s.workloads.defaults = settings.DefaultSpread
	s.sink.SetSettings(settings)
}

// SetPod takes a new or changed pod.
func (s *State) SetPod(pod *corev1.Pod) {
	uid := string(pod.UID)
	if s.still {
		s.pods.add(pod)
	} else {
		s.unmount(s.pods.get(uid))
		s.pods.set(pod)
	}
	for _, name := range claimNames(pod) {
		key := pod.Namespace + "/" + name
		if s.mounts[key] == nil {
			s.mounts[key] = map[string]struct{}{}
		}
		s.mounts[key][uid] = struct{}{}
	}
	s.convertPod(pod)
	if daemonPod(pod) {
		s.setDaemonPod(pod)
	}
}

// convertPod hands the pod on with all that other objects say about it.
func (s *State) convertPod(pod *corev1.Pod) {
	var out *cluster.Pod
	if len(s.spare) > 0 {
		out, s.spare = &s.spare[0], s.spare[1:]
	} else {
		out = &cluster.Pod{}
	}
	fillPod(out, pod, s.workloads.shape(pod, s.shaper.Shape(pod, s.volumes.of(pod))))
	out.EvictionBlocked = s.budgets.blocked(pod)
	if len(pod.Spec.ResourceClaims) > 0 && !s.settings.IgnoreDRA {
		out.DeviceClaims = deviceClaims(pod)
	}
	if s.still {
		s.sink.AddPod(out)
	} else {
		s.sink.SetPod(out)
	}
}

// DeletePod takes a pod away.
func (s *State) DeletePod(uid string) {
	pod := s.pods.get(uid)
	if pod == nil {
		return
	}
	s.unmount(pod)
	s.pods.delete(uid)
	s.sink.DeletePod(uid)
	if daemonPod(pod) {
		s.dropDaemonPod(pod)
	}
}

func (s *State) unmount(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	for _, name := range claimNames(pod) {
		key := pod.Namespace + "/" + name
		delete(s.mounts[key], string(pod.UID))
		if len(s.mounts[key]) == 0 {
			delete(s.mounts, key)
		}
	}
}

// remount converts the pods again that mount a claim.
func (s *State) remount(key string) {
	for uid := range s.mounts[key] {
		s.convertPod(s.pods.get(uid))
	}
}

// SetPersistentVolumeClaim takes a claim for storage.
func (s *State) SetPersistentVolumeClaim(c *corev1.PersistentVolumeClaim) {
	s.volumes.claims[c.Namespace+"/"+c.Name] = c
	s.remount(c.Namespace + "/" + c.Name)
}

// DeletePersistentVolumeClaim takes a claim for storage away.
func (s *State) DeletePersistentVolumeClaim(namespace, name string) {
	delete(s.volumes.claims, namespace+"/"+name)
	s.remount(namespace + "/" + name)
}

// SetPersistentVolume takes a volume.
func (s *State) SetPersistentVolume(v *corev1.PersistentVolume) {
	s.volumes.vols[v.Name] = v
	if ref := v.Spec.ClaimRef; ref != nil {
		s.remount(ref.Namespace + "/" + ref.Name)
	}
}

// DeletePersistentVolume takes a volume away.
func (s *State) DeletePersistentVolume(name string) {
	v, ok := s.volumes.vols[name]
	delete(s.volumes.vols, name)
	if ok && v.Spec.ClaimRef != nil {
		s.remount(v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name)
	}
}

// SetStorageClass takes a storage class.
func (s *State) SetStorageClass(c *storagev1.StorageClass) {
	s.volumes.classes[c.Name] = c
	s.remountAll()
}

// DeleteStorageClass takes a storage class away.
func (s *State) DeleteStorageClass(name string) {
	delete(s.volumes.classes, name)
	s.remountAll()
}

func (s *State) remountAll() {
	for key := range s.mounts {
		s.remount(key)
	}
}

// SetPodDisruptionBudget takes a budget. Its status does not matter for whether pods are blocked for ever.
func (s *State) SetPodDisruptionBudget(p *policyv1.PodDisruptionBudget) {
	old, ok := s.budgets[p.Namespace][p.Name]
	s.budgets.set(p)
	now := s.budgets[p.Namespace][p.Name]
	s.sink.SetPDB(now.value())
	if ok && equality.Semantic.DeepEqual(old.object.Spec, p.Spec) {
		return
	}
	s.rebudget(p.Namespace)
}

// DeletePodDisruptionBudget takes a budget away.
func (s *State) DeletePodDisruptionBudget(namespace, name string) {
	s.budgets.remove(namespace, name)
	s.sink.DeletePDB(namespace, name)
	s.rebudget(namespace)
}

func (s *State) rebudget(namespace string) {
	for pod := range s.pods.all() {
		if pod.Namespace == namespace {
			s.convertPod(pod)
		}
	}
}

// SetNode takes a Node.
func (s *State) SetNode(n *corev1.Node) {
	s.nodes[n.Name] = n
	s.sink.SetNode(NewNode(n, s.csi[n.Name]))
}

// DeleteNode takes a Node away.
func (s *State) DeleteNode(name string) {
	delete(s.nodes, name)
	s.sink.DeleteNode(name)
}

// SetCSINode takes the attach limits of a node.
func (s *State) SetCSINode(c *storagev1.CSINode) {
	s.csi[c.Name] = c
	if n := s.nodes[c.Name]; n != nil {
		s.SetNode(n)
	}
}

// DeleteCSINode takes the attach limits of a node away.
func (s *State) DeleteCSINode(name string) {
	delete(s.csi, name)
	if n := s.nodes[name]; n != nil {
		s.SetNode(n)
	}
}

// SetNodeClaim takes a NodeClaim. One of another provider's class is invisible.
func (s *State) SetNodeClaim(c *karpv1.NodeClaim) {
	if !managed(c.Spec.NodeClassRef) {
		s.DeleteNodeClaim(c.Name)
		return
	}
	s.claims[c.Name] = c
	out := NewClaim(c)
	out.Marked = s.marked[c.Name]
	s.sink.SetClaim(out)
}

// DeleteNodeClaim takes a NodeClaim away.
func (s *State) DeleteNodeClaim(name string) {
	delete(s.claims, name)
	delete(s.marked, name)
	s.sink.DeleteClaim(name)
}

// Mark records whether a running disruption will remove the node of a claim.
func (s *State) Mark(claim string, on bool) {
	if on == s.marked[claim] {
		return
	}
	if on {
		s.marked[claim] = true
	} else {
		delete(s.marked, claim)
	}
	if c := s.claims[claim]; c != nil {
		s.SetNodeClaim(c)
	}
}

// Nominate replaces until when nodes count as chosen for a pod (disruption rules 1), by name of the Node or, while there is none, of the claim.
func (s *State) Nominate(until map[string]time.Time) { s.sink.SetNominated(until) }

// managed tells whether the class is of a kind that the provider supports.
func managed(ref karpv1.NodeClassRef) bool {
	group, kind := ClassKind()
	return ref.Group == group && ref.Kind == kind
}

// SetNodePool takes a NodePool. One of another provider's class is invisible.
func (s *State) SetNodePool(p *karpv1.NodePool) {
	if !managed(p.Spec.Template.Spec.NodeClassRef) {
		s.DeleteNodePool(p.Name)
		return
	}
	s.pools[p.Name] = NewPool(p)
}

// DeleteNodePool takes a NodePool away.
func (s *State) DeleteNodePool(name string) {
	delete(s.pools, name)
	delete(s.applied, name)
	s.sink.DeletePool(name)
}

// SetClass takes an EC2NodeClass.
func (s *State) SetClass(c *awsv1.EC2NodeClass) { s.classes[c.Name] = c }

// DeleteClass takes an EC2NodeClass away.
func (s *State) DeleteClass(name string) { delete(s.classes, name) }

// SetNamespace takes a namespace.
func (s *State) SetNamespace(n *corev1.Namespace) { s.sink.SetNamespace(n.Name, n.Labels) }

// DeleteNamespace takes a namespace away.
func (s *State) DeleteNamespace(name string) { s.sink.DeleteNamespace(name) }

// SetDaemonSet takes a DaemonSet.
func (s *State) SetDaemonSet(d *appsv1.DaemonSet) {
	x := s.daemon(string(d.UID))
	x.object = d
	s.sink.SetDaemonSet(NewDaemonSet(&s.shaper, d, x.newest))
}

// DeleteDaemonSet takes a DaemonSet away.
func (s *State) DeleteDaemonSet(uid string) {
	if x := s.daemons[uid]; x != nil && x.object != nil {
		s.sink.DeleteDaemonSet(x.object.Namespace, x.object.Name)
		x.object = nil
		if len(x.pods) == 0 {
			delete(s.daemons, uid)
		}
	}
}

func (s *State) daemon(uid string) *daemon {
	x := s.daemons[uid]
	if x == nil {
		x = &daemon{pods: map[string]*corev1.Pod{}}
		s.daemons[uid] = x
	}
	return x
}

func (s *State) setDaemonPod(pod *corev1.Pod) {
	x := s.daemon(owner(pod.OwnerReferences).UID)
	x.pods[string(pod.UID)] = pod
	if x.newest == nil || newer(pod, x.newest) || x.newest.UID == pod.UID {
		x.newest = pod
		if x.object != nil {
			s.SetDaemonSet(x.object)
		}
	}
}

func (s *State) dropDaemonPod(pod *corev1.Pod) {
	uid := owner(pod.OwnerReferences).UID
	x := s.daemons[uid]
	if x == nil {
		return
	}
	delete(x.pods, string(pod.UID))
	if x.newest != nil && x.newest.UID == pod.UID {
		x.newest = nil
		for _, p := range x.pods {
			if x.newest == nil || newer(p, x.newest) {
				x.newest = p
			}
		}
		if x.object != nil {
			s.SetDaemonSet(x.object)
		}
	}
	if x.object == nil && len(x.pods) == 0 {
		delete(s.daemons, uid)
	}
}

// newer orders pods by creation, then by UID, so that the choice does not depend on the order of events.
func newer(a, b *corev1.Pod) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return b.CreationTimestamp.Before(&a.CreationTimestamp)
	}
	return a.UID > b.UID
}

// SetUnknown records that something could not be read; an empty problem takes the record back. An empty name stands for the whole kind.
func (s *State) SetUnknown(kind, name, problem string) {
	if problem == "" {
		s.sink.DeleteUnknown(kind, name)
	} else {
		s.sink.SetUnknown(cluster.Unknown{Kind: kind, Name: name, Problem: problem})
	}
	if name == "" {
		s.volumes.unreadable[kind] = problem
	}
}

// pricing is what Snapshot needs to know of one pool outside the state.
type pricing struct {
	class   *awsv1.EC2NodeClass
	catalog *catalog.Catalog
	problem string
}

// classesInUse returns the classes that pools refer to, by name; nil where there is no such object.
func (s *State) classesInUse() map[string]*awsv1.EC2NodeClass {
	out := map[string]*awsv1.EC2NodeClass{}
	for _, p := range s.pools {
		out[p.NodeClass.Name] = s.classes[p.NodeClass.Name]
	}
	return out
}

// price asks for the catalogue of every class. It does not touch the state. The error tells that one was not answered in time (S-066).
func price(ctx context.Context, catalogs Catalogs, classes map[string]*awsv1.EC2NodeClass) (out map[string]pricing, late error) {
	out = make(map[string]pricing, len(classes))
	for name, class := range classes {
		x := pricing{class: class}
		switch {
		case class == nil:
			x.problem = fmt.Sprintf("no such class: %s", name)
		case catalogs == nil:
			x.problem = "no catalogue is configured"
		default:
			var err error
			if x.catalog, err = catalogs.Catalog(ctx, class); err != nil {
				x.catalog, x.problem = nil, err.Error()
			}
			if errors.Is(err, context.DeadlineExceeded) {
				late = fmt.Errorf("reading the catalogue of class %s: %w", name, err)
			}
		}
		out[name] = x
	}
	return out, late
}

// applyPools hands on the pools with their classes and catalogues, those that changed.
func (s *State) applyPools(priced map[string]pricing, corrected *overlaid) {
	for name, p := range s.pools {
		now := appliedPool{pool: p, with: corrected.of(name, priced[p.NodeClass.Name])}
		if s.applied[name] == now {
			continue
		}
		s.applied[name] = now
		out := *p
		if now.with.class != nil {
			out.Class = NewClass(now.with.class)
		}
		out.Catalog, out.CatalogProblem = now.with.catalog, now.with.problem
		s.sink.SetPool(&out)
	}
}

// Snapshot yields the cluster as it stands, with the catalogues of this moment.
func (s *State) Snapshot(ctx context.Context, at time.Time, catalogs Catalogs) *cluster.Snapshot {
	priced, _ := price(ctx, catalogs, s.classesInUse()) // what was late is a problem of its pools
	s.applyPools(priced, s.overlayer.evaluate(s.overlayInputs(), priced))
	s.refresh()
	return s.sink.Snapshot(at)
}

// trim forgets shapes of pods that are gone, once they outnumber those in use.
func (s *State) trim(now *cluster.Snapshot) {
	if s.shaper.Len() < max(1000, 2*s.kept) {
		return
	}
	used := map[*cluster.Shape]bool{}
	for _, p := range now.Pods {
		used[p.Shape] = true
		if base := s.workloads.base[p.Shape]; base != nil {
			used[base] = true
		}
	}
	for _, d := range now.DaemonSets {
		used[d.Shape] = true
	}
	s.shaper.Retain(func(x *cluster.Shape) bool { return used[x] })
	s.kept = s.shaper.Len()
	s.workloads.retain(used)
}

// refresh converts again what depends on objects that came, changed or went since the last time.
func (s *State) refresh() {
	s.respread()
	s.rebuffer()
	if !s.settings.IgnoreDRA {
		s.evaluateSelectors()
	}
}
