package shorthand

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/listing"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

const (
	fillerNS = "filler"
	never    = "never"
)

func (x *expander) nodes() error {
	for _, n := range x.in.Nodes {
		all, err := x.series(n)
		if err != nil {
			return err
		}
		for _, one := range all {
			if err := x.node(one, true); err != nil {
				return fmt.Errorf("node %s: %w", one.Name, err)
			}
		}
	}
	for _, n := range x.in.Claims {
		if n.Registered == "" {
			n.Registered = never
		}
		if err := x.node(n, false); err != nil {
			return fmt.Errorf("claim %s: %w", n.Name, err)
		}
	}
	return nil
}

// series spells "n1..n12" out, with the zones in turn.
func (x *expander) series(n Node) ([]Node, error) {
	m := regexp.MustCompile(`^(\D+)(\d+)\.\.(\D+)(\d+)$`).FindStringSubmatch(n.Name)
	if m == nil {
		return []Node{n}, nil
	}
	from, _ := strconv.Atoi(m[2])
	to, _ := strconv.Atoi(m[4])
	if m[1] != m[3] || to < from {
		return nil, fmt.Errorf("node %s: want PREFIXn..PREFIXm with n <= m", n.Name)
	}
	zones := slices.Sorted(maps.Keys(x.file.Zones))
	var out []Node
	for i := from; i <= to; i++ {
		one := n
		one.Name = m[1] + strconv.Itoa(i)
		if one.Zone == "" {
			one.Zone = zones[(i-from)%len(zones)]
		}
		out = append(out, one)
	}
	return out, nil
}

// steps are the times a claim passed its milestones; zero for those it did not.
type steps struct{ created, launched, registered, initialized, lastPodEvent time.Time }

func (x *expander) steps(n Node, hasNode bool) (steps, error) {
	var s steps
	var err error
	at := func(text string, otherwise time.Time) time.Time {
		if text == never {
			return time.Time{}
		}
		if text == "" {
			return otherwise
		}
		t, e := x.time(text, "")
		if e != nil {
			err = e
		}
		return t
	}
	s.created = at(or(n.Created, "48h"), time.Time{})
	s.launched = at(n.Launched, s.created.Add(3*time.Second))
	s.registered = at(n.Registered, s.created.Add(50*time.Second))
	s.initialized = at(n.Initialized, s.created.Add(60*time.Second))
	s.lastPodEvent = at(or(n.LastPodEvent, "1h"), time.Time{})
	if s.registered.IsZero() {
		s.initialized = time.Time{}
	}
	if !hasNode {
		s.lastPodEvent = time.Time{}
	}
	return s, err
}

func (x *expander) node(n Node, hasNode bool) error {
	it, err := x.instanceType(or(n.Type, "m5.large"))
	if err != nil {
		return err
	}
	s, err := x.steps(n, hasNode)
	if err != nil {
		return err
	}
	n.Zone, n.CT = x.zone(or(n.Zone, "a")), or(n.CT, catalog.OnDemand)
	labels := x.nodeLabels(n, it)
	providerID := "aws:///" + n.Zone + "/i-0" + strings.ReplaceAll(uid("instance", n.Name), "-", "")[16:]
	if n.Pool != nil {
		pool := x.byPool[*n.Pool]
		if pool == nil {
			return fmt.Errorf("there is no pool %q", *n.Pool)
		}
		claim, err := x.claim(n, pool, it, labels, s, hasNode, providerID)
		if err != nil {
			return err
		}
		x.add(claim)
	}
	if !hasNode {
		return nil
	}
	node, err := x.nodeObject(n, it, labels, s, providerID)
	if err != nil {
		return err
	}
	x.add(node, x.csiNode(n, s))
	for _, d := range daemons() {
		x.add(x.daemonPod(d, n.Name, s.created.Add(time.Minute)))
	}
	return x.filler(n, it)
}

func (x *expander) instanceType(name string) (*catalog.InstanceType, error) {
	all, err := x.file.InstanceTypes(nil, listing.Offerings{})
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("type %q is not in the catalogue", name)
}

// nodeLabels are those of a node of the pool, as launched.
func (x *expander) nodeLabels(n Node, it *catalog.InstanceType) map[string]string {
	labels := map[string]string{}
	for _, r := range it.Requirements {
		if r.Operator == constraint.In && len(r.Values) == 1 {
			labels[r.Key] = r.Values[0]
		}
	}
	labels[zoneLabel], labels[zoneIDLabel], labels[regionLabel] = n.Zone, x.file.Zones[n.Zone], x.file.Region
	if n.Pool != nil {
		labels[capacityLabel], labels[poolLabel] = n.CT, *n.Pool
		labels[classGroup+"/ec2nodeclass"] = className
		if p := x.byPool[*n.Pool]; p != nil {
			maps.Copy(labels, p.object.Spec.Template.ObjectMeta.Labels)
		}
	} else {
		for k := range labels {
			if len(k) > len(classGroup) && k[:len(classGroup)] == classGroup {
				delete(labels, k)
			}
		}
	}
	maps.Copy(labels, n.Labels)
	return labels
}

func (x *expander) claim(
	n Node, pool *poolFacts, it *catalog.InstanceType, labels map[string]string, s steps, hasNode bool, providerID string,
) (*karpv1.NodeClaim, error) {
	np := pool.object
	c := &karpv1.NodeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim"},
		ObjectMeta: x.meta("", n.Name, "", maps.Clone(labels)),
	}
	c.CreationTimestamp = metav1.NewTime(s.created)
	c.Finalizers = []string{"karpenter.sh/termination"}
	c.Annotations = map[string]string{
		hashNote: np.Annotations[hashNote], hashVerNote: hashVersion, clsHashNote: classHash, clsHashVerNote: classHashVer,
	}
	owner := true
	c.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: np.Name, UID: np.UID, BlockOwnerDeletion: &owner},
	}
	t := np.Spec.Template.Spec
	c.Spec = karpv1.NodeClaimSpec{
		Taints: t.Taints, StartupTaints: t.StartupTaints, NodeClassRef: t.NodeClassRef,
		TerminationGracePeriod: t.TerminationGracePeriod, ExpireAfter: t.ExpireAfter,
		Requirements: append(slices.Clone(t.Requirements),
			karpv1.Requirement{Key: poolLabel, Operator: karpv1.In, Values: []string{np.Name}}),
	}
	if s.launched.IsZero() {
		delete(c.Labels, typeLabel)
	} else {
		c.Status.ProviderID, c.Status.ImageID = providerID, or(n.ImageID, "ami-0new00000000"+labels[archLabel])
		c.Status.Capacity, c.Status.Allocatable = quantities(it.Capacity), quantities(it.Allocatable())
	}
	if !s.registered.IsZero() && hasNode {
		c.Status.NodeName = n.Name
	}
	if !s.lastPodEvent.IsZero() {
		c.Status.LastPodEventTime = metav1.NewTime(s.lastPodEvent)
	}
	if err := x.claimConditions(c, n, s, pool.static); err != nil {
		return nil, err
	}
	return merge(c, n.ClaimPatch)
}

func (x *expander) claimConditions(c *karpv1.NodeClaim, n Node, s steps, static bool) error {
	set := func(cond metav1.Condition) {
		i := slices.IndexFunc(c.Status.Conditions, func(o metav1.Condition) bool { return o.Type == cond.Type })
		if i < 0 {
			c.Status.Conditions = append(c.Status.Conditions, cond)
			return
		}
		c.Status.Conditions[i] = cond
	}
	last := s.created
	for _, step := range []struct {
		kind string
		at   time.Time
	}{{"Launched", s.launched}, {"Registered", s.registered}, {"Initialized", s.initialized}, {"Ready", s.initialized}} {
		if step.at.IsZero() {
			set(x.condition(step.kind, metav1.ConditionUnknown, "AwaitingReconciliation", "", last))
			continue
		}
		last = step.at
		set(x.condition(step.kind, metav1.ConditionTrue, "", "", step.at))
	}
	if !s.initialized.IsZero() && !static && (n.Consolidatable == nil || *n.Consolidatable) {
		set(x.condition("Consolidatable", metav1.ConditionTrue, "", "", s.lastPodEvent.Add(time.Minute)))
	}
	for _, more := range n.Conditions {
		at, err := x.time(more.Since, "10m")
		if err != nil {
			return err
		}
		set(x.condition(more.Type, metav1.ConditionStatus(or(more.Status, "True")), more.Reason, more.Message, at))
	}
	return nil
}

func (x *expander) nodeObject(n Node, it *catalog.InstanceType, labels map[string]string, s steps, providerID string) (*corev1.Node, error) {
	labels = maps.Clone(labels)
	labels[hostLabel] = n.Name
	if n.Pool != nil && !s.registered.IsZero() {
		labels[registered] = "true"
	}
	if n.Pool != nil && !s.initialized.IsZero() {
		labels[initialized] = "true"
	}
	node := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: x.meta("", n.Name, "", labels)}
	node.CreationTimestamp = metav1.NewTime(s.created.Add(45 * time.Second))
	node.Spec.ProviderID = providerID
	if n.Pool != nil {
		t := x.byPool[*n.Pool].object.Spec.Template.Spec
		node.Spec.Taints = slices.Clone(t.Taints)
		if s.initialized.IsZero() {
			node.Spec.Taints = append(node.Spec.Taints, t.StartupTaints...)
		}
	}
	var more []corev1.Taint
	if err := decode(n.Taints, &more, "taints"); err != nil {
		return nil, err
	}
	node.Spec.Taints = append(node.Spec.Taints, more...)
	node.Status.Capacity, node.Status.Allocatable = quantities(it.Capacity), quantities(it.Allocatable())
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastTransitionTime: metav1.NewTime(s.created.Add(55 * time.Second)), LastHeartbeatTime: metav1.NewTime(x.now.Add(-10 * time.Second)),
	}}
	return merge(node, n.Patch)
}

func (x *expander) csiNode(n Node, s steps) *storagev1.CSINode {
	count := int32(25)
	c := &storagev1.CSINode{
		TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "CSINode"}, ObjectMeta: x.meta("", n.Name, "", nil),
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: ebsDriver, NodeID: n.Name, TopologyKeys: []string{zoneLabel}, Allocatable: &storagev1.VolumeNodeResources{Count: &count},
		}}},
	}
	c.CreationTimestamp = metav1.NewTime(s.created.Add(time.Minute))
	return c
}

// filler adds the pod that leaves exactly the room that free names.
func (x *expander) filler(n Node, it *catalog.InstanceType) error {
	if n.Free == nil {
		return nil
	}
	left := it.Allocatable()
	for _, d := range daemons() {
		left = left.Sub(listOf(d.podSpec().Containers[0].Resources.Requests))
	}
	for _, p := range x.in.Pods {
		if p.On == n.Name {
			requests, err := p.requests()
			if err != nil {
				return err
			}
			left = left.Sub(listOf(requests))
		}
	}
	requests := corev1.ResourceList{}
	for _, r := range []string{units.CPU, units.Memory} {
		keep := int64(0)
		if text, ok := n.Free[r]; ok {
			v, err := listing.Amount(r, string(text))
			if err != nil {
				return err
			}
			keep = v
		}
		if left[r] < keep {
			return fmt.Errorf("free %s: %d is more than the %d that are left", r, keep, left[r])
		}
		requests[corev1.ResourceName(r)] = quantity(r, left[r]-keep)
	}
	pod := x.podObject(fillerNS, "filler-"+n.Name, corev1.PodSpec{NodeName: n.Name, Containers: []corev1.Container{
		{Name: "main", Image: "filler", Resources: corev1.ResourceRequirements{Requests: requests}},
	}})
	x.own(pod, "apps/v1", "ReplicaSet", "filler")
	x.running(pod, x.now.Add(-24*time.Hour))
	x.add(pod)
	return nil
}

func (x *expander) daemonPod(d daemon, node string, at time.Time) *corev1.Pod {
	spec := d.podSpec()
	spec.NodeName = node
	pod := x.podObject(controllerNS, d.name+"-"+node, spec)
	pod.Labels = map[string]string{"app": d.name}
	x.own(pod, "apps/v1", "DaemonSet", d.name)
	x.running(pod, at)
	return pod
}

func quantities(l units.List) corev1.ResourceList {
	out := corev1.ResourceList{}
	for k, v := range l {
		out[corev1.ResourceName(k)] = quantity(k, v)
	}
	return out
}

func quantity(name string, v int64) resource.Quantity {
	switch name {
	case units.CPU:
		return *resource.NewMilliQuantity(v, resource.DecimalSI)
	case units.Memory, units.EphemeralStorage:
		return *resource.NewQuantity(v, resource.BinarySI)
	}
	return *resource.NewQuantity(v, resource.DecimalSI)
}

func listOf(r corev1.ResourceList) units.List {
	out := units.List{}
	for k, q := range r {
		if k == corev1.ResourceCPU {
			out[string(k)] = q.MilliValue()
			continue
		}
		out[string(k)] = q.Value()
	}
	return out
}

// merge applies a JSON merge patch to an object.
func merge[T any](object *T, patch json.RawMessage) (*T, error) {
	if len(patch) == 0 || string(patch) == "null" {
		return object, nil
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var to, with any
	if err := json.Unmarshal(text, &to); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &with); err != nil {
		return nil, fmt.Errorf("reading the patch: %w", err)
	}
	if text, err = json.Marshal(mergeValue(to, with)); err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("applying the patch: %w", err)
	}
	return out, nil
}

// mergeValue is RFC 7386, except that lists of conditions are merged by type.
func mergeValue(to, with any) any {
	patch, isMap := with.(map[string]any)
	if !isMap {
		if merged, ok := mergeConditions(to, with); ok {
			return merged
		}
		return with
	}
	target, isMap := to.(map[string]any)
	if !isMap {
		target = map[string]any{}
	}
	for k, v := range patch {
		if v == nil {
			delete(target, k)
			continue
		}
		target[k] = mergeValue(target[k], v)
	}
	return target
}

func mergeConditions(to, with any) ([]any, bool) {
	old, ok1 := to.([]any)
	add, ok2 := with.([]any)
	if !ok1 || !ok2 || len(old) == 0 || len(add) == 0 {
		return nil, false
	}
	kind := func(v any) string {
		m, _ := v.(map[string]any)
		_, isCondition := m["status"]
		t, _ := m["type"].(string)
		if !isCondition {
			return ""
		}
		return t
	}
	out := slices.Clone(old)
	for _, c := range add {
		if kind(c) == "" {
			return nil, false
		}
		i := slices.IndexFunc(out, func(o any) bool { return kind(o) == kind(c) })
		if i < 0 {
			out = append(out, c)
			continue
		}
		out[i] = mergeValue(out[i], c)
	}
	return out, true
}

func owned(apiVersion, kind, name, uid string) metav1.OwnerReference {
	yes := true
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid), Controller: &yes}
}
