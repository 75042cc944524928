package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Builder keeps the cluster's state by deltas and yields snapshots. Setting an object costs its own size and that of the node it is on; a
// snapshot shares everything that did not change with the one before. Objects handed in must not be changed afterwards: to
// change one, set another under the same name. The zero value is an empty cluster. A Builder is not safe for concurrent use.
type Builder struct {
	pools      index[*Pool]
	nodes      index[*Node]
	claims     index[*Claim]
	pods       index[*podEntry]
	podList    []*Pod
	loading    []*podEntry // added, not listed yet
	spare      []podEntry  // for pods to be added
	daemonSets index[*DaemonSet]
	pdbs       index[*PDB]
	namespaces map[string]map[string]string
	unknown    index[Unknown]
	settings   Settings

	deviceSlices  index[*DeviceSlice]
	deviceClaims  index[*DeviceClaim]
	deviceClasses index[*DeviceClass]
	selectors     map[string]*DeviceSelector

	digests map[string]Digest // by kind and key
	total   Digest
	shapes  map[string]*knownShape
	labels  map[uint64][]*counted[*LabelSet]
	unbound map[groupKey]*memberSet
	onNode  map[string]*memberSet // by node name
	shared  bool                  // namespaces map is in a snapshot
	// Names of nodes and of claims whose targets must be rebuilt.
	dirtyNodes, dirtyClaims map[string]bool
	allDirty                bool
	targets                 map[string]*Target // by target key
	list                    []*Target
	groups                  []*Group
	regroup                 bool
	buffered                map[string]int       // virtual pods by name of the Node or claim
	nominated               map[string]time.Time // until when, by name of the Node or claim
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder { return &Builder{} }

// podEntry is a pod with what setting it computed, and where it is listed.
type podEntry struct {
	*Pod
	labels *LabelSet
	digest Digest
	in     *memberSet
	at     int // index in the list of in
}

// labelPair is a label of an interned set: comparing such a list with a map is faster than two maps.
type labelPair struct{ k, v string }

func (k *knownShape) labelled(labels map[string]string) bool {
	if len(k.pairs) != len(labels) {
		return false
	}
	for _, p := range k.pairs {
		if v, ok := labels[p.k]; !ok || v != p.v {
			return false
		}
	}
	return true
}

// expect makes the labels those that the next pod of the shape is looked for with first.
func (k *knownShape) expect(c *counted[*LabelSet]) {
	k.labels, k.pairs = c, k.pairs[:0]
	for key, v := range c.v.Labels {
		k.pairs = append(k.pairs, labelPair{key, v})
	}
}

// counted is an interned value with the number of its users.
type counted[T any] struct {
	v T
	n int
}

// knownShape is a shape with the number of its users and the labels that the last of them had: pods of one owner come with the same.
type knownShape struct {
	counted[*Shape]
	labels *counted[*LabelSet]
	pairs  []labelPair // of labels
}

type groupKey struct {
	shape  *Shape
	labels *LabelSet
}

// memberSet is the pods without a node of one group, or all pods of one node, in no order. Group is the cached snapshot form of the
// former, nil when stale.
type memberSet struct {
	list  []*podEntry
	group *Group
}

func (m *memberSet) add(e *podEntry) {
	e.in, e.at = m, len(m.list)
	m.list = append(m.list, e)
}

func (m *memberSet) remove(e *podEntry) {
	last := len(m.list) - 1
	moved := m.list[last]
	m.list[e.at], moved.at = moved, e.at
	m.list[last], m.list = nil, m.list[:last]
}

// SetPool adds a pool or replaces the one of the same name.
func (b *Builder) SetPool(p *Pool) {
	b.pools.set(p.Name, p)
	b.note("pool/"+p.Name, digestPool(p))
	b.allDirty = true
}

// DeletePool removes a pool.
func (b *Builder) DeletePool(name string) {
	b.pools.delete(name)
	b.note("pool/"+name, Digest{})
	b.allDirty = true
}

// SetNode adds a Node or replaces the one of the same name.
func (b *Builder) SetNode(n *Node) {
	b.touchNode(n.Name)
	b.nodes.set(n.Name, n)
	b.note("node/"+n.Name, digestNode(n))
	b.touchNode(n.Name)
}

// DeleteNode removes a Node; its pods stay, bound to a node that does not exist.
func (b *Builder) DeleteNode(name string) {
	b.touchNode(name)
	b.nodes.delete(name)
	b.note("node/"+name, Digest{})
}

// SetClaim adds a NodeClaim or replaces the one of the same name.
func (b *Builder) SetClaim(c *Claim) {
	b.touchClaim(c.Name)
	b.claims.set(c.Name, c)
	b.note("claim/"+c.Name, digestClaim(c))
	b.touchClaim(c.Name)
}

// DeleteClaim removes a NodeClaim.
func (b *Builder) DeleteClaim(name string) {
	b.touchClaim(name)
	b.claims.delete(name)
	b.note("claim/"+name, Digest{})
}

// SetPod adds a pod or replaces the one of the same UID.
func (b *Builder) SetPod(p *Pod) {
	b.load()
	b.forgetPod(p.UID)
	entry := &podEntry{}
	b.fill(entry, p)
	b.pods.set(p.UID, entry)
	b.enlist(entry)
}

// fill makes the entry one of the pod.
func (b *Builder) fill(entry *podEntry, p *Pod) {
	known := b.internShape(p.Shape)
	shape := known.v
	labels := b.internLabels(p.Labels, known)
	if p.Shape != shape {
		q := *p
		q.Shape, p = shape, &q
	}
	*entry = podEntry{Pod: p, labels: labels, digest: digestPod(p, labels)}
	b.total = b.total.plus(entry.digest)
}

// enlist puts the pod among those of its node or group.
func (b *Builder) enlist(entry *podEntry) {
	if entry.Node != "" {
		m := memberOf(&b.onNode, entry.Node)
		if m.add(entry); len(m.list) == 1 || !b.dirtyNodes[entry.Node] {
			b.touchNode(entry.Node)
		}
		return
	}
	m := memberOf(&b.unbound, groupKey{entry.Shape, entry.labels})
	m.add(entry)
	m.group, b.regroup = nil, true
}

// memberOf returns the set for a key, a new one if there is none.
func memberOf[K comparable](sets *map[K]*memberSet, key K) *memberSet {
	m := (*sets)[key]
	if m == nil {
		m = &memberSet{}
		if *sets == nil {
			*sets = map[K]*memberSet{}
		}
		(*sets)[key] = m
	}
	return m
}

// DeletePod removes the pod with this UID.
func (b *Builder) DeletePod(uid string) {
	b.load()
	b.forgetPod(uid)
	b.pods.delete(uid)
}

func (b *Builder) forgetPod(uid string) {
	p, ok := b.pods.get(uid)
	if !ok {
		return
	}
	p.in.remove(p)
	if p.Node != "" {
		if len(p.in.list) == 0 {
			delete(b.onNode, p.Node)
		}
		b.touchNode(p.Node)
	} else {
		p.in.group, b.regroup = nil, true
		if len(p.in.list) == 0 {
			delete(b.unbound, groupKey{p.Shape, p.labels})
		}
	}
	b.release(p)
}

// release takes back what fill counted.
func (b *Builder) release(p *podEntry) {
	b.total = b.total.minus(p.digest)
	b.releaseShape(p.Shape)
	b.releaseLabels(p.labels)
}

// SetDaemonSet adds a DaemonSet or replaces the one of the same namespace and name.
func (b *Builder) SetDaemonSet(d *DaemonSet) {
	key := d.Namespace + "/" + d.Name
	b.daemonSets.set(key, d)
	b.note("daemonset/"+key, digestDaemonSet(d))
}

// DeleteDaemonSet removes a DaemonSet.
func (b *Builder) DeleteDaemonSet(namespace, name string) {
	b.daemonSets.delete(namespace + "/" + name)
	b.note("daemonset/"+namespace+"/"+name, Digest{})
}

// SetNamespace records a namespace and its labels.
func (b *Builder) SetNamespace(name string, labels map[string]string) {
	b.ownNamespaces()
	b.namespaces[name] = labels
	b.note("namespace/"+name, digestOf(func(h *hasher) { h.str(name); h.labels(labels) }))
}

// DeleteNamespace removes a namespace.
func (b *Builder) DeleteNamespace(name string) {
	b.ownNamespaces()
	delete(b.namespaces, name)
	b.note("namespace/"+name, Digest{})
}

func (b *Builder) ownNamespaces() {
	if b.shared || b.namespaces == nil {
		b.namespaces = maps.Clone(b.namespaces)
		b.shared = false
	}
	if b.namespaces == nil {
		b.namespaces = map[string]map[string]string{}
	}
}

// SetBuffered replaces the number of virtual pods that nodes hold, by name of the Node or, while there is none, of the claim.
func (b *Builder) SetBuffered(counts map[string]int) {
	if maps.Equal(b.buffered, counts) {
		return
	}
	for _, m := range []map[string]int{b.buffered, counts} {
		for name := range m {
			b.touchNode(name)
			b.touchClaim(name)
		}
	}
	b.buffered = maps.Clone(counts)
	if len(counts) == 0 {
		b.note("buffered", Digest{})
		return
	}
	b.note("buffered", digestOf(func(h *hasher) {
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			h.str(name)
			h.int(int64(counts[name]))
		}
	}))
}

// SetNominated replaces until when nodes count as nominated, by name of the Node or of the claim.
func (b *Builder) SetNominated(until map[string]time.Time) {
	if maps.EqualFunc(b.nominated, until, time.Time.Equal) {
		return
	}
	for _, m := range []map[string]time.Time{b.nominated, until} {
		for name := range m {
			if !b.nominated[name].Equal(until[name]) {
				b.touchNode(name)
				b.touchClaim(name)
			}
		}
	}
	b.nominated = maps.Clone(until)
	if len(until) == 0 {
		b.note("nominated", Digest{})
		return
	}
	b.note("nominated", digestOf(func(h *hasher) {
		for _, name := range slices.Sorted(maps.Keys(until)) {
			h.str(name)
			h.time(until[name])
		}
	}))
}

// SetPDB adds a PodDisruptionBudget or replaces the one of the same namespace and name.
func (b *Builder) SetPDB(p *PDB) {
	key := p.Namespace + "/" + p.Name
	b.pdbs.set(key, p)
	b.note("pdb/"+key, digestPDB(p))
}

// DeletePDB removes a PodDisruptionBudget.
func (b *Builder) DeletePDB(namespace, name string) {
	b.pdbs.delete(namespace + "/" + name)
	b.note("pdb/"+namespace+"/"+name, Digest{})
}

// SetSettings replaces the settings.
func (b *Builder) SetSettings(s Settings) {
	b.settings = s
	b.note("settings", digestSettings(s))
}

// SetUnknown records that something could not be read.
func (b *Builder) SetUnknown(u Unknown) {
	b.unknown.set(u.Kind+"/"+u.Name, u)
	b.note("unknown/"+u.Kind+"/"+u.Name, digestOf(func(h *hasher) { h.str(u.Kind, u.Name, u.Problem) }))
}

// DeleteUnknown tells that it can be read again.
func (b *Builder) DeleteUnknown(kind, name string) {
	b.unknown.delete(kind + "/" + name)
	b.note("unknown/"+kind+"/"+name, Digest{})
}

// Snapshot returns the state as of now. The time is for ages and deadlines; the builder does not look at any clock.
func (b *Builder) Snapshot(at time.Time) *Snapshot {
	b.load()
	b.refreshTargets()
	b.refreshGroups()
	b.shared = true
	return &Snapshot{
		At: at, Pools: b.pools.sorted(), Nodes: b.nodes.sorted(), Claims: b.claims.sorted(), Pods: b.sortedPods(),
		DaemonSets: b.daemonSets.sorted(), PDBs: b.pdbs.sorted(), Namespaces: b.namespaces, Unknown: b.unknown.sorted(), Settings: b.settings,
		Devices: b.devices(),
		targets: b.list, unbound: b.groups, digest: b.total,
	}
}

func (b *Builder) sortedPods() []*Pod {
	if b.pods.stale {
		entries := b.pods.sorted()
		b.podList = make([]*Pod, len(entries))
		for i := range entries {
			b.podList[i] = entries[i].Pod
		}
	}
	return b.podList
}

// note replaces an object's share in the digest of everything.
func (b *Builder) note(key string, d Digest) {
	if b.digests == nil {
		b.digests = map[string]Digest{}
	}
	old := b.digests[key]
	b.total = b.total.minus(old).plus(d)
	if d == (Digest{}) {
		delete(b.digests, key)
		return
	}
	b.digests[key] = d
}

func (b *Builder) internShape(s *Shape) *knownShape {
	if s == nil {
		s = &Shape{}
	}
	if s.Key == "" {
		s = NewShape(*s)
	}
	if c := b.shapes[s.Key]; c != nil {
		c.n++
		return c
	}
	if b.shapes == nil {
		b.shapes = map[string]*knownShape{}
	}
	c := &knownShape{counted: counted[*Shape]{s, 1}}
	b.shapes[s.Key] = c
	return c
}

func (b *Builder) releaseShape(s *Shape) {
	if c := b.shapes[s.Key]; c != nil {
		if c.n--; c.n == 0 {
			delete(b.shapes, s.Key)
		}
	}
}

func (b *Builder) internLabels(labels map[string]string, by *knownShape) *LabelSet {
	if c := by.labels; c != nil && c.n > 0 && by.labelled(labels) {
		c.n++
		return c.v
	}
	h := hashLabels(labels)
	for _, c := range b.labels[h] {
		if maps.Equal(c.v.Labels, labels) {
			c.n++
			by.expect(c)
			return c.v
		}
	}
	if b.labels == nil {
		b.labels = map[uint64][]*counted[*LabelSet]{}
	}
	by.expect(&counted[*LabelSet]{&LabelSet{Labels: labels, hash: h}, 1})
	b.labels[h] = append(b.labels[h], by.labels)
	return by.labels.v
}

func (b *Builder) releaseLabels(l *LabelSet) {
	for i, c := range b.labels[l.hash] {
		if c.v != l {
			continue
		}
		if c.n--; c.n == 0 {
			b.labels[l.hash] = slices.Delete(b.labels[l.hash], i, i+1)
			if len(b.labels[l.hash]) == 0 {
				delete(b.labels, l.hash)
			}
		}
		return
	}
}

func (b *Builder) refreshGroups() {
	if !b.regroup {
		return
	}
	b.groups = make([]*Group, 0, len(b.unbound))
	for k, m := range b.unbound {
		if m.group == nil {
			m.group = newGroup(k.shape, k.labels, m.pods())
		}
		b.groups = append(b.groups, m.group)
	}
	slices.SortFunc(b.groups, func(x, y *Group) int {
		return cmp.Or(cmp.Compare(x.Shape.Key, y.Shape.Key), comparePods(x.Pods[0], y.Pods[0]))
	})
	b.regroup = false
}

func (m *memberSet) pods() []*Pod {
	out := make([]*Pod, len(m.list))
	for i, e := range m.list {
		out[i] = e.Pod
	}
	return out
}

func newGroup(s *Shape, l *LabelSet, pods []*Pod) *Group {
	sortPods(pods)
	return &Group{Shape: s, Labels: l, Pods: pods}
}

// sortPods sorts by creation, then UID. Most pods of a list are of the same second, and often they are in order already.
func sortPods(pods []*Pod) {
	if !slices.IsSortedFunc(pods, comparePods) {
		slices.SortFunc(pods, comparePods)
	}
}

func comparePods(a, b *Pod) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	return cmp.Compare(a.UID, b.UID)
}

// index is a set of objects by key that yields them in order of the keys and remembers that list until something changes.
type index[T any] struct {
	byKey map[string]T // nil while keys and list say everything
	keys  []string     // ascending; may hold keys that were deleted, never one twice
	added []string     // keys not in keys yet
	stale bool
	list  []T
}

// fill puts objects into an empty index. Keys are ascending, none twice.
func (x *index[T]) fill(keys []string, list []T) {
	*x = index[T]{keys: keys, list: list}
}

// expand makes the map of what the index was filled with.
func (x *index[T]) expand() {
	if x.byKey != nil {
		return
	}
	x.byKey = make(map[string]T, len(x.keys))
	for i, k := range x.keys {
		x.byKey[k] = x.list[i]
	}
}

func (x *index[T]) get(key string) (T, bool) {
	if len(x.keys)+len(x.added) > 0 {
		x.expand()
	}
	v, ok := x.byKey[key]
	return v, ok
}

func (x *index[T]) set(key string, v T) {
	x.expand()
	if _, ok := x.byKey[key]; !ok {
		x.added = append(x.added, key)
	}
	x.byKey[key] = v
	x.stale = true
}

func (x *index[T]) delete(key string) {
	if _, ok := x.get(key); ok {
		delete(x.byKey, key)
		x.stale = true
	}
}

// sorted returns the objects by ascending key in a slice that is never written to again.
func (x *index[T]) sorted() []T {
	if !x.stale {
		return x.list
	}
	x.keys = mergeKeys(x.keys, x.added, func(k string) bool { _, ok := x.byKey[k]; return ok })
	x.added, x.stale = nil, false
	x.list = make([]T, len(x.keys))
	for i, k := range x.keys {
		x.list[i] = x.byKey[k]
	}
	return x.list
}

// sortKeys sorts by the first eight bytes before it looks at whole strings.
func sortKeys(keys []string) {
	type item struct {
		head uint64
		key  string
	}
	items := make([]item, len(keys))
	for i, k := range keys {
		items[i] = item{beginning(k), k}
	}
	slices.SortFunc(items, func(a, b item) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return cmp.Compare(a.key, b.key)
	})
	for i := range items {
		keys[i] = items[i].key
	}
}

// mergeKeys merges added into the ascending keys, without those that do not live any more.
func mergeKeys(keys, added []string, live func(string) bool) []string {
	sortKeys(added)
	added = slices.Compact(added)
	out := make([]string, 0, len(keys)+len(added))
	i, j := 0, 0
	for i < len(keys) || j < len(added) {
		var k string
		switch {
		case j == len(added) || i < len(keys) && keys[i] < added[j]:
			k, i = keys[i], i+1
		case i == len(keys) || added[j] < keys[i]:
			k, j = added[j], j+1
		default: // deleted and added again
			k, i, j = keys[i], i+1, j+1
		}
		if live(k) {
			out = append(out, k)
		}
	}
	return out
}
