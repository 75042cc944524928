package differential

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/plan"
)

// noCatalog is a cloud without instance types, so that nodes that exist are all there is.
var noCatalog = kube.CatalogFunc(func(context.Context, *awsv1.EC2NodeClass) (*catalog.Catalog, error) {
	return nil, errors.New("no instance types here")
})

// Karp returns the nodes that karp lets the pod onto. The engine names one node per decision, so each node is asked for alone: the others
// get no room for pods, which closes them and leaves labels, taints and pods as they are. At last all nodes are open, and the engine has to
// choose one of those it accepted, if there is one.
func Karp(c *Case) (Verdict, error) {
	s := load(c)
	for _, n := range c.Nodes {
		s.SetNode(closed(n))
	}
	var out Verdict
	for _, n := range c.Nodes {
		s.SetNode(n)
		at, err := placed(s, c.Pod)
		if err != nil {
			return nil, err
		}
		if at == n.Name {
			out = append(out, at)
		} else if at != "" {
			return nil, fmt.Errorf("karp placed the pod on %s, which has no room for pods", at)
		}
		s.SetNode(closed(n))
	}
	slices.Sort(out)
	for _, n := range c.Nodes {
		s.SetNode(n)
	}
	at, err := placed(s, c.Pod)
	switch {
	case err != nil:
		return nil, err
	case at == "" && len(out) > 0:
		return nil, fmt.Errorf("karp accepts %v one by one, but none of them when all have room", out)
	case at != "" && !slices.Contains(out, at):
		return nil, fmt.Errorf("karp chose %s, which it refused when asked for it alone", at)
	}
	return out, nil
}

func load(c *Case) *kube.State {
	s := kube.NewState(cluster.Settings{StaticCapacity: true, ReservedCapacity: true, IgnoreDRA: true})
	for _, n := range namespaces() {
		s.SetNamespace(n)
	}
	s.SetNodePool(pool(c.SoftPool))
	for _, v := range c.Volumes.PVs {
		s.SetPersistentVolume(v)
	}
	for _, v := range c.Volumes.Claims {
		s.SetPersistentVolumeClaim(v)
	}
	for _, p := range c.Bound {
		s.SetPod(p)
	}
	s.SetPod(c.Pod)
	return s
}

// pool is ready and has nothing to launch. Without a pool the engine would not look at the nodes at all.
func pool(soft bool) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: "pool"}}
	group, kind := kube.ClassKind()
	p.Spec.Template.Spec.NodeClassRef = karpv1.NodeClassRef{Group: group, Kind: kind, Name: "class"}
	p.Status.Conditions = []metav1.Condition{{Type: karpv1.ConditionReady, Status: metav1.ConditionTrue}}
	if soft {
		p.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "pool", Value: "soft", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	return p
}

// closed is the node without room for pods.
func closed(n *corev1.Node) *corev1.Node {
	out := *n
	out.Status.Allocatable = corev1.ResourceList{}
	for k, v := range n.Status.Allocatable {
		out.Status.Allocatable[k] = v
	}
	out.Status.Allocatable[corev1.ResourcePods] = resource.Quantity{}
	return &out
}

// placed decides and returns the node that the pod gets, or nothing.
func placed(s *kube.State, pod *corev1.Pod) (string, error) {
	p := engine.Decide(s.Snapshot(context.Background(), now, noCatalog), engine.Policy{})
	if len(p.Claims) > 0 {
		return "", errors.New("karp launches a node without instance types")
	}
	for _, x := range p.Placements {
		if x.Pod == string(pod.UID) {
			return x.Node, nil
		}
	}
	if !slices.ContainsFunc(p.Verdicts, func(v plan.Verdict) bool { return v.Pod == string(pod.UID) }) {
		return "", errors.New("karp has neither a place nor a verdict for the pod")
	}
	return "", nil
}
