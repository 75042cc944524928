package plans_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	kcluster "github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/check"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/test/bench/workload"
	"github.com/karp-sh/karp/test/cluster"
)

const (
	// settled is how long nothing must be bound until what is pending counts as left over: the scheduler tries again after at most 10 s.
	settled = 15 * time.Second
	// patience bounds every wait.
	patience = 3 * time.Minute
	// maxRounds is how often karp decides.
	maxRounds = 6
	writers   = 8
)

// unregistered keeps pods away from a node until the agent has registered it and told the pods.
func unregistered() corev1.Taint {
	return corev1.Taint{Key: karpv1.UnregisteredTaintKey, Effect: corev1.TaintEffectNoExecute}
}

// stage is one cluster with one workload.
type stage struct {
	t       *testing.T
	client  *kubernetes.Clientset
	catalog *catalog.Catalog
	w       *workload.Workload
	hints   bool
	rand    *rand.Rand

	base   *kube.Objects // pool, class, namespace
	claims []*karpv1.NodeClaim
	serial int
	price  float64
	// hinted of waiting pods still had their nomination when their node opened for pods.
	hinted, waiting int
	// where holds the planned node by pod name.
	where map[string]string
}

// result is what became of a plan.
type result struct {
	pods, asPlanned, planned, added, rounds, pending int
	plan, end, bound                                 float64
}

func newStage(t *testing.T, c *cluster.Cluster, cat *catalog.Catalog, w *workload.Workload, hints bool, r *rand.Rand) *stage {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	g := &stage{t: t, client: client, catalog: cat, w: w, hints: hints, rand: r, where: map[string]string{}}
	objects, err := w.API(cat)
	if err != nil {
		t.Fatal(err)
	}
	g.base = &kube.Objects{NodePools: objects.NodePools, Classes: objects.Classes, Namespaces: objects.Namespaces}
	g.claims = objects.NodeClaims
	t.Cleanup(g.clear)
	for _, n := range objects.Nodes {
		g.createNode(n)
	}
	g.awaitNodes()
	r.Shuffle(len(objects.Pods), func(i, j int) { objects.Pods[i], objects.Pods[j] = objects.Pods[j], objects.Pods[i] })
	each(g, objects.Pods, g.createPod)
	g.await("pods to be bound or found unschedulable", func(pods []corev1.Pod) string {
		for i := range pods {
			if pods[i].Spec.NodeName == "" && !kube.Provisionable(&pods[i]) {
				return pods[i].Name + " was not tried yet"
			}
		}
		return ""
	})
	return g
}

// each runs write for every object, some at a time; the order of the starts is that of the list.
func each[T any](g *stage, list []T, write func(T) error) {
	g.t.Helper()
	var wg sync.WaitGroup
	next := make(chan T)
	errs := make(chan error, len(list))
	for range writers {
		wg.Go(func() {
			for x := range next {
				if err := write(x); err != nil {
					errs <- err
				}
			}
		})
	}
	for _, x := range list {
		next <- x
	}
	close(next)
	wg.Wait()
	close(errs)
	for err := range errs {
		g.t.Fatal(err)
	}
}

// createPod creates a workload's pod; pods of the cluster as it was are bound from the start.
func (g *stage) createPod(p *corev1.Pod) error {
	clean := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Labels: p.Labels}, Spec: *p.Spec.DeepCopy()}
	clean.Spec.Volumes, clean.Spec.Containers[0].VolumeMounts, clean.Spec.Tolerations = nil, nil, nil // admission adds them
	_, err := g.client.CoreV1().Pods(p.Namespace).Create(g.t.Context(), clean, metav1.CreateOptions{})
	return err
}

func (g *stage) createNode(n *corev1.Node) {
	g.t.Helper()
	n = n.DeepCopy()
	n.UID, n.CreationTimestamp = "", metav1.Time{}
	n.Annotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
	if _, err := g.client.CoreV1().Nodes().Create(g.t.Context(), n, metav1.CreateOptions{}); err != nil {
		g.t.Fatal(err)
	}
}

// play decides and builds until no pod is pending.
func (g *stage) play() result {
	g.t.Helper()
	r := result{bound: g.w.FluidBound(g.catalog)}
	for r.rounds = 0; r.rounds < maxRounds; r.rounds++ {
		s := g.observe()
		p := engine.Decide(s, engine.Policy{})
		for _, problem := range check.Plan(s, p) {
			g.t.Error(problem)
		}
		if len(p.Claims)+len(p.Placements) == 0 {
			break
		}
		g.build(s, p, r.rounds == 0)
		if r.rounds == 0 {
			r.planned, r.plan = len(p.Claims), g.price
		} else {
			r.added += len(p.Claims)
		}
		left := g.settle()
		g.left(r.rounds)
		if left == 0 {
			r.rounds++
			break
		}
	}
	r.end = g.price
	for _, pod := range g.pods() {
		want, pending := g.where[pod.Name]
		if !pending {
			continue
		}
		r.pods++
		switch pod.Spec.NodeName {
		case "":
			r.pending++
		case want:
			r.asPlanned++
		}
	}
	return r
}

// nominated counts the pods of a claim that are pending, and those of them whose nomination still stands.
func (g *stage) nominated(node string, uids []string) (kept, pending int) {
	for _, pod := range g.pods() {
		if pod.Spec.NodeName == "" && slices.Contains(uids, string(pod.UID)) {
			pending++
			if pod.Status.NominatedNodeName == node {
				kept++
			}
		}
	}
	return kept, pending
}

// left tells what became of the pods of the plan that are not bound where they should be.
func (g *stage) left(round int) {
	elsewhere, kept, lost := 0, 0, 0
	for _, pod := range g.pods() {
		want, ours := g.where[pod.Name]
		switch {
		case !ours || pod.Spec.NodeName == want:
		case pod.Spec.NodeName != "":
			elsewhere++
		case pod.Status.NominatedNodeName != "":
			kept++
		default:
			lost++
		}
	}
	g.t.Logf("round %d: %d pods bound elsewhere than planned, pending with a nomination %d, pending without %d; when their nodes opened %d of %d pending pods still had theirs",
		round+1, elsewhere, kept, lost, g.hinted, g.waiting)
}

// observe reads the cluster as the agent does.
func (g *stage) observe() *kcluster.Snapshot {
	g.t.Helper()
	nodes, err := g.client.CoreV1().Nodes().List(g.t.Context(), metav1.ListOptions{})
	if err != nil {
		g.t.Fatal(err)
	}
	o := *g.base
	o.NodeClaims = g.claims
	for i := range nodes.Items {
		o.Nodes = append(o.Nodes, &nodes.Items[i])
	}
	for _, pod := range g.pods() {
		o.Pods = append(o.Pods, &pod)
	}
	catalogs := kube.CatalogFunc(func(context.Context, *awsv1.EC2NodeClass) (*catalog.Catalog, error) { return g.catalog, nil })
	return o.Snapshot(g.t.Context(), workload.Epoch(), workload.Settings(), catalogs)
}

// build makes the nodes of a plan, one after the other in random order, and nominates the pods of each before it takes any.
func (g *stage) build(s *kcluster.Snapshot, p plan.Plan, first bool) {
	g.t.Helper()
	byUID := map[string]*kcluster.Pod{}
	for _, pod := range s.Pods {
		byUID[pod.UID] = pod
	}
	note := func(uid, node string) {
		if first {
			g.where[byUID[uid].Name] = node
		}
	}
	for _, x := range p.Placements {
		note(x.Pod, x.Node)
	}
	if g.hints {
		each(g, p.Placements, func(x plan.Placement) error { return g.nominate(byUID[x.Pod], x.Node) })
	}
	for _, i := range g.rand.Perm(len(p.Claims)) {
		cl := &p.Claims[i]
		g.serial++
		node := g.node(cl, fmt.Sprintf("new-%03d", g.serial))
		for _, uid := range cl.Pods {
			note(uid, node.Name)
		}
		g.price += cl.Price.Dollars()
		node.Spec.Taints = []corev1.Taint{unregistered()}
		g.createNode(node)
		if g.hints {
			each(g, cl.Pods, func(uid string) error { return g.nominate(byUID[uid], node.Name) })
		}
		if g.hints {
			kept, pending := g.nominated(node.Name, cl.Pods)
			g.hinted, g.waiting = g.hinted+kept, g.waiting+pending
		}
		g.register(node.Name)
	}
}

// node is the node that a claim becomes when the cheapest offering is bought.
func (g *stage) node(cl *plan.Claim, name string) *corev1.Node {
	types := g.catalog.Types()
	t := &types[slices.IndexFunc(types, func(t catalog.InstanceType) bool { return t.Name == cl.CheapestType })]
	labels := maps.Clone(cl.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, e := range t.Requirements {
		if len(e.Values) == 1 {
			labels[e.Key] = e.Values[0]
		}
	}
	labels[constraint.ZoneKey], labels[constraint.CapacityTypeKey], labels[constraint.HostnameKey] = cl.CheapestZone, cl.CheapestBuyAs, name
	labels[constraint.NodePoolKey], labels[constraint.RegisteredKey], labels[constraint.InitializedKey] = cl.Pool, "true", "true"
	node := workload.APINode(&kcluster.Node{Name: name, ProviderID: "aws:///" + cl.CheapestZone + "/i-" + name, Labels: labels, Capacity: t.Capacity, Allocatable: t.Allocatable()})
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c-" + name, UID: claimUID(name), Labels: labels}}
	claim.Spec.NodeClassRef = g.base.NodePools[0].Spec.Template.Spec.NodeClassRef
	claim.Status.ProviderID, claim.Status.NodeName = node.Spec.ProviderID, name
	claim.Status.Capacity, claim.Status.Allocatable = node.Status.Capacity, node.Status.Allocatable
	for _, c := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized} {
		claim.Status.Conditions = append(claim.Status.Conditions, metav1.Condition{Type: c, Status: metav1.ConditionTrue})
	}
	g.claims = append(g.claims, claim)
	return node
}

func claimUID(name string) types.UID { return types.UID("c-" + name) }

// nominate writes the hint as the agent does. A pod that was bound in the meantime needs none.
func (g *stage) nominate(p *kcluster.Pod, node string) error {
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"nominatedNodeName": node}})
	if err != nil {
		return err
	}
	_, err = g.client.CoreV1().Pods(p.Namespace).Patch(g.t.Context(), p.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kube.FieldManager}, "status")
	if apierrors.IsInvalid(err) { // what the API server says of a pod that is bound
		return nil
	}
	return err
}

// register takes the taint away that kept pods off; the one of a node that is not ready stays until it is.
func (g *stage) register(name string) {
	g.t.Helper()
	nodes := g.client.CoreV1().Nodes()
	for {
		n, err := nodes.Get(g.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			g.t.Fatal(err)
		}
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == unregistered().Key })
		if _, err = nodes.Update(g.t.Context(), n, metav1.UpdateOptions{}); err == nil {
			return
		}
		if !conflict(err) {
			g.t.Fatal(err)
		}
	}
}
