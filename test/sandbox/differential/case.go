package differential

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Now is the instant of every case.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Case is a cluster and the pod that waits in it. Its objects are never changed once it is judged; see Clone.
type Case struct {
	Nodes []*corev1.Node
	// Bound pods, each with a node of the case.
	Bound []*corev1.Pod
	// Pod is the one that waits.
	Pod *corev1.Pod
	// SoftPool tells that karp has a NodePool with a PreferNoSchedule taint, so that it may relax such taints.
	SoftPool bool
	// Volumes of the case.
	Volumes Volumes
}

// Clone returns a copy that shares nothing.
func (c *Case) Clone() *Case {
	out := &Case{Pod: c.Pod.DeepCopy(), SoftPool: c.SoftPool, Volumes: c.Volumes.clone()}
	for _, n := range c.Nodes {
		out.Nodes = append(out.Nodes, n.DeepCopy())
	}
	for _, p := range c.Bound {
		out.Bound = append(out.Bound, p.DeepCopy())
	}
	return out
}

// namespaces are the namespaces of every case with their labels.
func namespaces() []*corev1.Namespace {
	make := func(name, team string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name, "team": team}}}
	}
	return []*corev1.Namespace{make("default", "x"), make("ns-a", "x"), make("ns-b", "y")}
}

// String renders the case as YAML.
func (c *Case) String() string {
	var b strings.Builder
	add := func(kind string, o any) {
		text, err := yaml.Marshal(o)
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&b, "---\n# %s\n%s", kind, text)
	}
	for _, n := range c.Nodes {
		add("Node", map[string]any{"name": n.Name, "labels": n.Labels, "spec": n.Spec, "allocatable": n.Status.Allocatable})
	}
	pod := func(kind string, p *corev1.Pod) {
		add(kind, map[string]any{
			"name": p.Namespace + "/" + p.Name, "labels": p.Labels, "terminating": p.DeletionTimestamp != nil, "spec": p.Spec, "status": p.Status,
		})
	}
	for _, p := range c.Bound {
		pod("Pod, bound", p)
	}
	pod("Pod, waiting", c.Pod)
	for _, v := range c.Volumes.Claims {
		add("PersistentVolumeClaim", v)
	}
	for _, v := range c.Volumes.PVs {
		add("PersistentVolume", v)
	}
	fmt.Fprintf(&b, "---\n# NodePool with a PreferNoSchedule taint: %v\n", c.SoftPool)
	return b.String()
}

// alive tells that the pod still counts on its node.
func alive(p *corev1.Pod) bool {
	return p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// Verdict is the nodes that take the pod, ascending by name.
type Verdict []string

// Equal tells whether two verdicts name the same nodes.
func (v Verdict) Equal(o Verdict) bool { return slices.Equal(v, o) }

func (v Verdict) String() string { return "[" + strings.Join(v, " ") + "]" }
