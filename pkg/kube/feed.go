package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
)

const (
	// triggerInterval is how often a pod that still waits, or a node that is still disrupted, asks again (scheduling rules 1.1).
	triggerInterval = 10 * time.Second
	// phantomAge is how old an own write must be before its absence from the cache counts as a deletion (scheduling rules 1.3).
	phantomAge = 15 * time.Second
	// blindFor is how long a failed watch makes its kind unknown. The reflector tries again at least every 30 s (plus up to as much jitter), so
	// that a watch which stays broken renews this in time.
	blindFor = 70 * time.Second
)

// ErrNotSynced is returned by Feed.Snapshot until every object that the API server had at the start has arrived.
var ErrNotSynced = errors.New("cluster state is not synced yet")

// Informers is the part of a controller-runtime cache that the feed uses.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Feed keeps a State current from informers. It is safe for concurrent use.
type Feed struct {
	catalogs Catalogs
	now      func() time.Time

	mu    sync.Mutex
	state *State
	// synced holds, by kind, whether the kind's first list was delivered.
	synced map[string]func() bool
	// position holds, by kind, the version up to which the cache has read.
	position map[string]func() string
	// written are own writes that the cache has not shown yet, gone the objects that it has shown to be deleted.
	written map[types.UID]write
	gone    map[types.UID]time.Time
	blind   map[string]time.Time
	// nominated says until when nodes and claims count as chosen for a pod.
	nominated map[string]time.Time
	// waiting maps what asks for a pass (pods without a place, nodes that are being disrupted) to when it first did.
	waiting map[types.UID]time.Time
	fired   map[types.UID]struct{}
	wake    chan struct{}
}

// write is an own write that was put into the state before the cache showed it.
type write struct {
	kind, name, version string
	at                  time.Time
}

// NewFeed returns a feed without informers. Now is the clock, time.Now in a program.
func NewFeed(settings cluster.Settings, catalogs Catalogs, now func() time.Time) *Feed {
	return &Feed{
		catalogs: catalogs, now: now, state: NewState(settings), synced: map[string]func() bool{}, position: map[string]func() string{},
		written: map[types.UID]write{}, gone: map[types.UID]time.Time{}, blind: map[string]time.Time{}, nominated: map[string]time.Time{},
		waiting: map[types.UID]time.Time{}, fired: map[types.UID]struct{}{}, wake: make(chan struct{}, 1),
	}
}

// Register adds the feed's handlers to the informers. It does not wait for them.
func (f *Feed) Register(ctx context.Context, informers Informers) error {
	return errors.Join(
		watch(ctx, f, informers, PodKind, f.setPod, f.deletePod),
		watch(ctx, f, informers, NodeKind, f.setNode, f.deleteNode),
		watch(ctx, f, informers, NodeClaimKind, f.state.SetNodeClaim, func(c *karpv1.NodeClaim) { f.state.DeleteNodeClaim(c.Name) }),
		watch(ctx, f, informers, NodePoolKind, f.state.SetNodePool, func(p *karpv1.NodePool) { f.state.DeleteNodePool(p.Name) }),
		watch(ctx, f, informers, EC2NodeClassKind, f.state.SetClass, func(c *awsv1.EC2NodeClass) { f.state.DeleteClass(c.Name) }),
		watch(ctx, f, informers, DaemonSetKind, f.state.SetDaemonSet, func(d *appsv1.DaemonSet) { f.state.DeleteDaemonSet(string(d.UID)) }),
		watch(ctx, f, informers, NamespaceKind, f.state.SetNamespace, func(n *corev1.Namespace) { f.state.DeleteNamespace(n.Name) }),
		watch(ctx, f, informers, PersistentVolumeClaimKind, f.state.SetPersistentVolumeClaim, func(c *corev1.PersistentVolumeClaim) {
			f.state.DeletePersistentVolumeClaim(c.Namespace, c.Name)
		}),
		watch(ctx, f, informers, PersistentVolumeKind, f.state.SetPersistentVolume, func(v *corev1.PersistentVolume) { f.state.DeletePersistentVolume(v.Name) }),
		watch(ctx, f, informers, StorageClassKind, f.state.SetStorageClass, func(c *storagev1.StorageClass) { f.state.DeleteStorageClass(c.Name) }),
		watch(ctx, f, informers, CSINodeKind, f.state.SetCSINode, func(c *storagev1.CSINode) { f.state.DeleteCSINode(c.Name) }),
		watch(ctx, f, informers, PodDisruptionBudgetKind, f.state.SetPodDisruptionBudget, func(p *policyv1.PodDisruptionBudget) {
			f.state.DeletePodDisruptionBudget(p.Namespace, p.Name)
		}),
		f.registerGated(ctx, informers),
	)
}

// object is a pointer to an API type.
type object[T any] interface {
	*T
	client.Object
}

// watch connects one kind. Set and del run under the feed's lock.
func watch[T any, P object[T]](ctx context.Context, f *Feed, informers Informers, kind string, set, del func(P)) error {
	informer, err := informers.GetInformer(ctx, P(new(T)), cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching %s: %w", kind, err)
	}
	changed := func(o any) {
		if obj, ok := o.(P); ok {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.fresh(obj) {
				set(obj)
			}
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, o any) { changed(o) },
		DeleteFunc: func(o any) {
			if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if obj, ok := o.(P); ok {
				f.mu.Lock()
				defer f.mu.Unlock()
				delete(f.written, obj.GetUID())
				f.gone[obj.GetUID()] = f.now()
				del(obj)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching %s: %w", kind, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced[kind] = registration.HasSynced
	if p, ok := informer.(interface{ LastSyncResourceVersion() string }); ok {
		f.position[kind] = p.LastSyncResourceVersion
	}
	return nil
}

// fresh tells whether an object from the cache is at least as new as what we wrote ourselves. An older one would undo our own write.
func (f *Feed) fresh(obj client.Object) bool {
	w, ok := f.written[obj.GetUID()]
	if !ok {
		return true
	}
	if older(obj.GetResourceVersion(), w.version) {
		return false
	}
	delete(f.written, obj.GetUID())
	return true
}

// older compares resource versions; ones that cannot be compared are taken for new.
func older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// reached tells that a position is known to be at or past a version.
func reached(position, version string) bool {
	c, err := resourceversion.CompareResourceVersion(position, version)
	return err == nil && c >= 0
}

// Put takes an object as a write of ours returned it, before the cache shows it, so that the next snapshot already counts it. Pods, Nodes and
// NodeClaims can be put. What the cache has shown to be deleted stays deleted.
func (f *Feed) Put(obj client.Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.gone[obj.GetUID()]; ok {
		return
	}
	if w, ok := f.written[obj.GetUID()]; ok && older(obj.GetResourceVersion(), w.version) {
		return
	}
	var kind string
	switch x := obj.(type) {
	case *corev1.Pod:
		if seen := f.state.pods.get(string(x.UID)); seen != nil && f.shows(x.UID, seen.ResourceVersion, x.ResourceVersion) {
			return
		}
		kind = PodKind
		f.setPod(x)
	case *corev1.Node:
		if seen := f.state.nodes[x.Name]; seen != nil && f.shows(x.UID, seen.ResourceVersion, x.ResourceVersion) {
			return
		}
		kind = NodeKind
		f.setNode(x)
	case *karpv1.NodeClaim:
		if seen := f.state.claims[x.Name]; seen != nil && f.shows(x.UID, seen.ResourceVersion, x.ResourceVersion) {
			return
		}
		kind = NodeClaimKind
		f.state.SetNodeClaim(x)
	default:
		return
	}
	f.written[obj.GetUID()] = write{kind: kind, name: obj.GetName(), version: obj.GetResourceVersion(), at: f.now()}
}

// shows reports whether the cache has shown an object of this version, or a newer one, if it is at the version known: the write's own answer may come
// after the cache's.
func (f *Feed) shows(uid types.UID, known, version string) bool {
	_, waits := f.written[uid]
	return older(version, known) || !waits && known == version
}

// Seen reports whether the cache has shown our last Put of the object, or has shown that it is gone.
func (f *Feed) Seen(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, waits := f.written[uid]
	return !waits
}

// Mark records whether a running disruption will remove the node of a claim.
func (f *Feed) Mark(claim string, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.Mark(claim, on)
}

// Nominate makes a node count as chosen for a pod until then (disruption rules 1). It is named by its Node and, where there may be none yet, by its
// claim; empty names are left out.
func (f *Feed) Nominate(until time.Time, names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, t := range f.nominated {
		if t.Before(f.now()) {
			delete(f.nominated, name)
		}
	}
	for _, name := range names {
		if name != "" && f.nominated[name].Before(until) {
			f.nominated[name] = until
		}
	}
	f.state.Nominate(maps.Clone(f.nominated))
}

// SetSettings replaces the settings of future snapshots.
func (f *Feed) SetSettings(s cluster.Settings) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.SetSettings(s)
}

func (f *Feed) setPod(pod *corev1.Pod) {
	f.state.SetPod(pod)
	if Provisionable(pod) {
		f.ask(pod.UID)
	} else {
		delete(f.waiting, pod.UID)
	}
}

func (f *Feed) deletePod(pod *corev1.Pod) {
	f.state.DeletePod(string(pod.UID))
	delete(f.waiting, pod.UID)
}

func (f *Feed) setNode(n *corev1.Node) {
	f.state.SetNode(n)
	taint := karpv1.DisruptedTaint()
	if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		f.ask(n.UID)
	} else {
		delete(f.waiting, n.UID)
	}
}

func (f *Feed) deleteNode(n *corev1.Node) {
	f.state.DeleteNode(n.Name)
	delete(f.waiting, n.UID)
}

// ask wants a pass on behalf of a pod or node.
func (f *Feed) ask(uid types.UID) {
	if _, ok := f.waiting[uid]; !ok {
		f.waiting[uid] = f.now()
	}
	f.fired[uid] = struct{}{}
	f.signal()
}

func (f *Feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default: // a signal that nobody has taken yet says it already
	}
}

// Wake yields a value when there may be triggers to take. It never blocks the feed.
func (f *Feed) Wake() <-chan struct{} { return f.wake }

// Triggers returns the UIDs of the pods and nodes that asked for a pass since the last call, ascending (scheduling rules 1.1).
func (f *Feed) Triggers() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]string, 0, len(f.fired))
	for uid := range f.fired {
		out = append(out, string(uid))
	}
	clear(f.fired)
	slices.Sort(out)
	return out
}

// Trigger asks for a pass on behalf of something else, such as a capacity buffer.
func (f *Feed) Trigger(uid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fired[types.UID(uid)] = struct{}{}
	f.signal()
}

// FirstSeen returns since when a pod or node has been asking; zero if it is not.
func (f *Feed) FirstSeen(uid string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting[types.UID(uid)]
}

// Run repeats the triggers of all that still waits, until ctx ends.
func (f *Feed) Run(ctx context.Context) error {
	t := time.NewTicker(triggerInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			f.Repeat()
		}
	}
}

// Repeat triggers all that still waits once more, and forgets deletions that are old.
func (f *Feed) Repeat() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid := range f.waiting {
		f.fired[uid] = struct{}{}
	}
	if len(f.waiting) > 0 {
		f.signal()
	}
	for uid, at := range f.gone {
		if f.now().Sub(at) > 5*time.Minute {
			delete(f.gone, uid)
		}
	}
}

// Unsynced names the kinds whose first list has not been delivered yet, ascending.
func (f *Feed) Unsynced() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unsynced()
}

func (f *Feed) unsynced() []string {
	var out []string
	for kind, done := range f.synced {
		if !done() {
			out = append(out, kind)
		}
	}
	slices.Sort(out)
	return out
}

// Synced reports whether every object that the API server had when the feed was registered has arrived.
func (f *Feed) Synced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.synced) > 0 && len(f.unsynced()) == 0
}

// Snapshot returns the cluster as it stands. The error wraps ErrNotSynced until the feed is synced, and is that of ctx if it ended while the
// catalogues were read, or context.DeadlineExceeded if one of them was late.
func (f *Feed) Snapshot(ctx context.Context, at time.Time) (*cluster.Snapshot, error) {
	priced, corrected, err := f.price(ctx)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropPhantoms()
	f.refreshBlind()
	f.state.applyPools(priced, corrected)
	f.state.refresh()
	out := f.state.sink.Snapshot(at)
	f.state.trim(out)
	return out, nil
}

// price reads the catalogues of all pools, as overlays correct them.
func (f *Feed) price(ctx context.Context) (map[string]pricing, *overlaid, error) {
	f.mu.Lock()
	missing := f.unsynced()
	ready := len(f.synced) > 0 && len(missing) == 0
	classes, overlays := f.state.classesInUse(), f.state.overlayInputs()
	f.mu.Unlock()
	if !ready {
		return nil, nil, fmt.Errorf("%w: waiting for %s", ErrNotSynced, strings.Join(missing, ", "))
	}
	// The cloud may take its time; events must not wait for it.
	priced, late := price(ctx, f.catalogs, classes)
	if late != nil {
		return nil, nil, late
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("reading catalogues: %w", err)
	}
	return priced, f.state.overlayer.evaluate(overlays, priced), nil
}

// dropPhantoms takes back own claims that the cache has passed without showing them: they were deleted before it looked.
func (f *Feed) dropPhantoms() {
	for uid, w := range f.written {
		position := f.position[w.kind]
		if position == nil || f.now().Sub(w.at) < phantomAge || !reached(position(), w.version) {
			continue
		}
		delete(f.written, uid)
		if c := f.state.claims[w.name]; w.kind == NodeClaimKind && c != nil && c.UID == uid && c.ResourceVersion == w.version {
			f.state.DeleteNodeClaim(w.name)
		}
	}
}

// WatchErrorHandler returns a handler for the cache that makes a kind unknown while it cannot be watched, so that nothing is concluded from
// a view that may be old, and then does what the default handler does.
func (f *Feed) WatchErrorHandler() toolscache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *toolscache.Reflector, err error) {
		// A watch that ends or begins anew is no failure.
		if !errors.Is(err, io.EOF) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			f.Blind(kindOf(r.TypeDescription()), err)
		}
		toolscache.DefaultWatchErrorHandler(ctx, r, err)
	}
}

// kindOf takes the kind out of a Go type such as "*v1.Pod".
func kindOf(description string) string {
	return description[strings.LastIndexByte(description, '.')+1:]
}

// Blind notes that a kind could not be read just now.
func (f *Feed) Blind(kind string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blind[kind] = f.now()
	f.state.SetUnknown(kind, "", err.Error())
}

func (f *Feed) refreshBlind() {
	for kind, at := range f.blind {
		if f.now().Sub(at) > blindFor {
			delete(f.blind, kind)
			f.state.SetUnknown(kind, "", "")
		}
	}
}
