package sim

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

// words are the arguments of a line: bare ones, and key=value pairs whose key may end in :sub (label:a=1).
type words struct {
	bare map[string]bool
	list []string
	with map[string][]string
	subs map[string]map[string]string
}

func parseWords(args []string) words {
	w := words{bare: map[string]bool{}, with: map[string][]string{}, subs: map[string]map[string]string{}}
	for _, a := range args {
		key, value, ok := strings.Cut(a, "=")
		if !ok {
			w.bare[a] = true
			w.list = append(w.list, a)
			continue
		}
		if kind, sub, has := strings.Cut(key, ":"); has {
			if w.subs[kind] == nil {
				w.subs[kind] = map[string]string{}
			}
			w.subs[kind][sub] = value
			continue
		}
		w.with[key] = append(w.with[key], value)
	}
	return w
}

func (w words) one(key, def string) string {
	if v := w.with[key]; len(v) > 0 {
		return v[0]
	}
	return def
}

// parseTaint reads key=value:Effect or key:Effect.
func parseTaint(text string) corev1.Taint {
	head, effect, _ := strings.Cut(text, ":")
	key, value, _ := strings.Cut(head, "=")
	return corev1.Taint{Key: expandKey(key), Value: value, Effect: corev1.TaintEffect(effect)}
}

// expandKey spells out abbreviated taint keys.
func expandKey(key string) string {
	switch key {
	case "unregistered", "disrupted":
		return "karpenter.sh/" + key
	}
	return key
}

func quantities(m map[string]string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for k, v := range m {
		out[corev1.ResourceName(k)] = resource.MustParse(v)
	}
	return out
}

// instant is now plus a duration such as +5s or -30m.
func instant(text string) time.Time {
	d, err := time.ParseDuration(strings.TrimPrefix(text, "+"))
	if err != nil {
		panic(fmt.Sprintf("sim: %v", err)) // a mistake in a script
	}
	return time.Now().Add(d)
}

func parsePool(name string, args []string) *karpv1.NodePool {
	w := parseWords(args)
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-np-" + name)}}
	kind := w.one("kind", awsv1.EC2NodeClassKind)
	p.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassRef{Group: awsv1.Group, Kind: kind, Name: w.one("class", "default")}
	p.Spec.Template.ObjectMeta.Labels = map[string]string{"team": "a"}
	for k, v := range w.subs["annotation"] {
		if p.Spec.Template.ObjectMeta.Annotations == nil {
			p.Spec.Template.ObjectMeta.Annotations = map[string]string{}
		}
		p.Spec.Template.ObjectMeta.Annotations[k] = v
	}
	for k, v := range w.subs["meta"] {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[k] = v
	}
	if v := w.one("replicas", ""); v != "" {
		n := int64(0)
		_, _ = fmt.Sscan(v, &n)
		p.Spec.Replicas = &n
	}
	p.Spec.Limits = quantities(w.subs["limit"])
	expire := karpv1.DurationOrNever(w.one("expireAfter", "Never"))
	p.Spec.Template.Spec.ExpireAfter = &expire
	if v := w.one("tgp", ""); v != "" {
		d := karpv1.Duration(v)
		p.Spec.Template.Spec.TerminationGracePeriod = &d
	}
	for _, t := range w.with["taint"] {
		p.Spec.Template.Spec.Taints = append(p.Spec.Template.Spec.Taints, parseTaint(t))
	}
	for k, v := range w.subs["require"] {
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, karpv1.Requirement{Key: k, Operator: karpv1.In, Values: strings.Split(v, ",")})
	}
	if w.bare["bare"] {
		return p
	}
	ready := metav1.ConditionTrue
	if w.bare["notready"] {
		ready = metav1.ConditionFalse
	}
	for _, kind := range []string{"ValidationSucceeded", "NodeClassReady", "Ready"} {
		p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{
			Type: kind, Status: ready, Reason: kind, ObservedGeneration: 1, LastTransitionTime: metav1.Now(),
		})
	}
	return p
}

// parseClaim builds a claim in a phase of its life.
func parseClaim(name string, args []string) *karpv1.NodeClaim {
	w := parseWords(args)
	pool := w.one("pool", "np")
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{}, Annotations: map[string]string{}, Finalizers: []string{lifecycle.Finalizer},
	}}
	c.Spec.NodeClassRef = karpv1.NodeClassRef{Group: awsv1.Group, Kind: w.one("kind", awsv1.EC2NodeClassKind), Name: w.one("class", "default")}
	c.Labels[awsv1.Group+"/ec2nodeclass"] = c.Spec.NodeClassRef.Name
	if !w.bare["standalone"] {
		c.Labels[lifecycle.PoolLabel] = pool
		yes := true
		c.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: pool, UID: types.UID(w.one("owner", "uid-np-"+pool)), BlockOwnerDeletion: &yes,
		}}
	}
	if w.bare["nofinalizer"] {
		c.Finalizers = nil
	}
	c.Finalizers = append(c.Finalizers, w.with["finalizer"]...)
	for k, v := range w.subs["label"] {
		c.Labels[k] = v
	}
	if w.bare["noclasslabel"] {
		delete(c.Labels, awsv1.Group+"/ec2nodeclass")
	}
	for k, v := range w.subs["annotation"] {
		c.Annotations[k] = v
	}
	for _, t := range w.with["taint"] {
		c.Spec.Taints = append(c.Spec.Taints, parseTaint(t))
	}
	for _, t := range w.with["startup"] {
		c.Spec.StartupTaints = append(c.Spec.StartupTaints, parseTaint(t))
	}
	c.Spec.Resources.Requests = quantities(w.subs["request"])
	expire := karpv1.DurationOrNever(w.one("expireAfter", "Never"))
	c.Spec.ExpireAfter = &expire
	if v := w.one("tgp", ""); v != "" {
		d := karpv1.Duration(v)
		c.Spec.TerminationGracePeriod = &d
	}
	if v := w.one("deadline", ""); v != "" {
		c.Annotations[lifecycle.DeadlineAnnotation] = v
		if strings.HasPrefix(v, "+") || strings.HasPrefix(v, "-") {
			c.Annotations[lifecycle.DeadlineAnnotation] = instant(v).UTC().Format(time.RFC3339)
		}
	}
	for _, phase := range []string{"initialized", "registered", "launched"} {
		if w.bare[phase] {
			bear(c, phase, w)
			break
		}
	}
	if w.with["age"] != nil {
		c.CreationTimestamp = metav1.NewTime(instant("-" + w.one("age", "")))
	}
	for kind, v := range w.subs["cond"] {
		status, reason, _ := strings.Cut(v, "/")
		setCondition(&c.Status.Conditions, kind, metav1.ConditionStatus(status), reason)
	}
	return c
}

// bear lets a claim be launched, registered or initialized already.
func bear(c *karpv1.NodeClaim, phase string, w words) {
	c.Status.ProviderID = "fake:///z1/" + w.one("id", "i-1")
	c.Status.ImageID, c.Status.Capacity, c.Status.Allocatable = "img", kube.Quantities(capacity()), kube.Quantities(allocatable())
	for k, v := range quantities(w.subs["capacity"]) {
		c.Status.Capacity[k] = v
	}
	for k, v := range map[string]string{"node.kubernetes.io/instance-type": "m1", "topology.kubernetes.io/zone": "z1", "karpenter.sh/capacity-type": "spot"} {
		if c.Labels[k] == "" {
			c.Labels[k] = v
		}
	}
	setCondition(&c.Status.Conditions, "Launched", metav1.ConditionTrue, "Launched")
	if phase == "launched" {
		return
	}
	c.Status.NodeName = w.one("node", "n1")
	setCondition(&c.Status.Conditions, "Registered", metav1.ConditionTrue, "Registered")
	if phase == "initialized" {
		setCondition(&c.Status.Conditions, "Initialized", metav1.ConditionTrue, "Initialized")
		setCondition(&c.Status.Conditions, "Ready", metav1.ConditionTrue, "Ready")
	}
}

func setCondition(list *[]metav1.Condition, kind string, status metav1.ConditionStatus, reason string) {
	at := metav1.Now()
	if head, since, ok := strings.Cut(reason, "@"); ok {
		reason, at = head, metav1.NewTime(instant(since))
	}
	c := metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: at, ObservedGeneration: 1}
	for i := range *list {
		if (*list)[i].Type == kind {
			(*list)[i] = c
			return
		}
	}
	*list = append(*list, c)
}

// parseNode builds a node: as it joins, registered or initialized.
func parseNode(name string, args []string, claim *karpv1.NodeClaim) *corev1.Node {
	w := parseWords(args)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	n.Spec.ProviderID = "fake:///z1/" + w.one("id", "i-1")
	if w.bare["noid"] {
		n.Spec.ProviderID = ""
	}
	if !w.bare["unmanaged"] {
		n.Labels[awsv1.Group+"/ec2nodeclass"] = "default"
		n.Labels[lifecycle.PoolLabel] = w.one("pool", "np")
	}
	n.Status.Capacity, n.Status.Allocatable = kube.Quantities(capacity()), kube.Quantities(allocatable())
	for k, v := range quantities(w.subs["capacity"]) {
		n.Status.Capacity[k] = v
	}
	for k, v := range quantities(w.subs["allocatable"]) {
		n.Status.Allocatable[k] = v
	}
	switch {
	case w.bare["registered"], w.bare["initialized"]:
		n.Finalizers = []string{lifecycle.Finalizer}
		n.Labels[lifecycle.RegisteredLabel] = "true"
		for k, v := range map[string]string{"node.kubernetes.io/instance-type": "m1", "topology.kubernetes.io/zone": "z1", "karpenter.sh/capacity-type": "spot"} {
			n.Labels[k] = v
		}
		if w.bare["initialized"] {
			n.Labels[lifecycle.InitializedLabel] = "true"
		}
		if claim != nil {
			yes := true
			n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claim.Name, UID: claim.UID, BlockOwnerDeletion: &yes}}
		}
	case !w.bare["untainted"]:
		n.Spec.Taints = []corev1.Taint{parseTaint("unregistered:NoExecute")}
	}
	if w.bare["nofinalizer"] {
		n.Finalizers = nil
	}
	if w.bare["finalizer"] {
		n.Finalizers = []string{lifecycle.Finalizer}
	}
	for k, v := range w.subs["label"] {
		n.Labels[k] = v
	}
	for _, t := range w.with["taint"] {
		n.Spec.Taints = append(n.Spec.Taints, parseTaint(t))
	}
	if owner := w.one("owned", ""); owner != "" {
		n.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: owner, UID: types.UID("uid-" + owner)}}
	}
	setNodeCondition(n, "Ready", w.one("ready", "True"))
	for kind, v := range w.subs["cond"] {
		setNodeCondition(n, kind, v)
	}
	return n
}

// setNodeCondition sets a condition given as Status or Status@since.
func setNodeCondition(n *corev1.Node, kind, text string) {
	status, since, ok := strings.Cut(text, "@")
	at := metav1.Now()
	if ok {
		at = metav1.NewTime(instant(since))
	}
	c := corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Status: corev1.ConditionStatus(status), LastTransitionTime: at}
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == c.Type {
			n.Status.Conditions[i] = c
			return
		}
	}
	n.Status.Conditions = append(n.Status.Conditions, c)
}

func parsePod(name string, args []string) *corev1.Pod {
	w := parseWords(args)
	seconds := int64(30)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}}
	p.Spec.NodeName = w.one("node", "n1")
	p.Status.Phase = corev1.PodPhase(w.one("phase", "Running"))
	if w.bare["pending"] {
		p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: quantities(w.subs["request"]), Limits: quantities(w.subs["limit"]),
	}}}
	started := metav1.Now()
	if v := w.one("started", ""); v != "" {
		started = metav1.NewTime(instant(v))
	}
	p.Status.StartTime = &started
	p.Spec.TerminationGracePeriodSeconds = &seconds
	switch v := w.one("tgps", ""); v {
	case "":
	case "none":
		p.Spec.TerminationGracePeriodSeconds = nil
	default:
		_, _ = fmt.Sscan(v, &seconds)
	}
	for k, v := range w.subs["label"] {
		p.Labels[k] = v
	}
	for k, v := range w.subs["annotation"] {
		p.Annotations[k] = v
	}
	if v := w.one("dnd", ""); v != "" {
		p.Annotations[lifecycle.DoNotDisruptAnnotation] = v
	}
	if w.bare["ds"] {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ds", UID: "uid-ds"}}
	}
	if w.bare["mirror"] {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: p.Spec.NodeName, UID: "uid-n"}}
	}
	if w.bare["critical"] {
		p.Spec.PriorityClassName = "system-cluster-critical"
	}
	if v := w.one("class", ""); v != "" {
		p.Spec.PriorityClassName = v
	}
	if v := w.one("priority", ""); v != "" {
		n := int32(0)
		_, _ = fmt.Sscan(v, &n)
		p.Spec.Priority = &n
	}
	for _, v := range w.with["tolerates"] {
		key, rest, _ := strings.Cut(v, ":")
		op, value, _ := strings.Cut(rest, "/")
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: expandKey(key), Operator: corev1.TolerationOperator(op), Value: value})
	}
	for _, v := range w.with["pvc"] {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: v, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v},
		}})
	}
	if v := w.one("deleted", ""); v != "" {
		at := metav1.NewTime(instant(v))
		p.DeletionTimestamp = &at
	}
	return p
}

// addMachine adds a machine that was not launched by a process of this world.
func (c *Cloud) addMachine(id string, args []string) {
	w := parseWords(args)
	launched := time.Now()
	if v := w.one("age", ""); v != "" {
		launched = instant("-" + v)
	}
	claim := w.one("claim", "nc")
	identity := cloud.Identity{ClusterUID: w.one("cluster", "cluster"), ClaimUID: "uid-" + claim, Attempt: 1}
	m := &Machine{Instance: cloud.Instance{
		ID: id, ProviderID: "fake:///z1/" + id, Type: "m1", Zone: "z1", CapacityType: "spot", ImageID: "img", State: "running", Launched: launched,
		LaunchID: identity.LaunchID(), Token: identity.Token(), Tags: map[string]string{},
		Labels: map[string]string{}, Capacity: capacity(), Allocatable: allocatable(),
	}}
	if w.bare["foreign"] {
		m.LaunchID, m.Token = "", ""
		m.Tags = map[string]string{
			karpv1.NodePoolLabel: "np", awsv1.TagEC2NodeClass: "default", "kubernetes.io/cluster/c": "owned", "eks:eks-cluster-name": "c",
		}
	}
	if v := w.one("token", ""); v != "" {
		m.Token = v
	}
	for k, v := range w.subs["tag"] {
		m.Tags[k] = v
	}
	if v := w.one("capacityType", ""); v != "" {
		m.CapacityType = v
	}
	c.machines[id] = m
}
