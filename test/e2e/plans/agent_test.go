package plans_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/test/bench/workload"
	"github.com/karp-sh/karp/test/cluster"
	theatre "github.com/karp-sh/karp/test/e2e/stage"
	"github.com/karp-sh/karp/test/simaws"
)

// The agent itself gives the pods of a workload their nodes on a simulated AWS, and the real scheduler binds them.
func TestAgentReachesPlans(t *testing.T) {
	if !*enabled {
		t.Skip("takes minutes: run make plans")
	}
	types, err := workload.Types([]string{"z-a"}).InstanceTypes()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []workload.Kind{workload.Homogeneous, workload.Heterogeneous, workload.Constrained} {
		for _, hints := range []string{"on", "off"} {
			t.Run(string(kind)+"/hints "+hints, func(t *testing.T) {
				w := workload.Generate(kind, *pods, *seed, nil, nil)
				b := &birth{Stage: theatre.New(t, cluster.Start(t, theatre.Shared())), first: map[string]string{}}
				b.run(t, w, catalog.New(types), hints)
			})
		}
	}
}

// birth is a workload's start on an empty cluster.
type birth struct {
	*theatre.Stage
	mu sync.Mutex
	// first is the node that a pod was first nominated to.
	first map[string]string
}

func (b *birth) run(t *testing.T, w *workload.Workload, c *catalog.Catalog, hints string) {
	t.Helper()
	objects, err := w.API(c)
	if err != nil {
		t.Fatal(err)
	}
	var pool karpv1.NodePool
	if err := b.Client.Get(t.Context(), client.ObjectKey{Name: "default"}, &pool); err != nil {
		t.Fatal(err)
	}
	pool.Spec.Template.Spec.Requirements = objects.NodePools[0].Spec.Template.Spec.Requirements
	if err := b.Client.Update(t.Context(), &pool); err != nil {
		t.Fatal(err)
	}
	boot := simaws.Duration(3 * time.Second)
	b.AWS.Change(simaws.Settings{BootDelay: &boot})
	clients, err := kubernetes.NewForConfig(b.Cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	g := &stage{t: t, client: clients, rand: rand.New(rand.NewPCG(*seed, 1))}
	g.rand.Shuffle(len(objects.Pods), func(i, j int) { objects.Pods[i], objects.Pods[j] = objects.Pods[j], objects.Pods[i] })
	each(g, objects.Pods, g.createPod)
	g.await("pods to be found unschedulable", func(pods []corev1.Pod) string {
		for i := range pods {
			if !kube.Provisionable(&pods[i]) {
				return pods[i].Name + " was not tried yet"
			}
		}
		return ""
	})
	b.follow(t, clients)
	begun := time.Now()
	b.StartAgent(t, "PLACEMENT_HINTS="+hints)
	var list []corev1.Pod
	b.EventuallyWithin(t, patience, "pods to be bound", func(context.Context) (string, error) {
		list = g.pods()
		pending := 0
		for i := range list {
			if list[i].Spec.NodeName == "" {
				pending++
			}
		}
		if pending > 0 {
			return fmt.Sprintf("%d pods are pending", pending), nil
		}
		return "", nil
	})
	took := time.Since(begun)
	asPlanned := 0
	b.mu.Lock()
	for i := range list {
		if b.first[list[i].Name] == list[i].Spec.NodeName {
			asPlanned++
		}
	}
	b.mu.Unlock()
	claims := b.Claims(t)
	planned := b.firstPlan(t, claims)
	slices.SortFunc(claims, func(x, y karpv1.NodeClaim) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
	var plan, end float64
	for i := range claims {
		price := b.price(t, &claims[i])
		if end += price; i < planned {
			plan += price
		}
	}
	t.Logf("%d pods in %s, %d bound as planned; %d nodes planned, %d more; %.3f $/h planned, %.3f in the end (%.4f of the plan)",
		len(list), took.Round(time.Second), asPlanned, planned, len(claims)-planned, plan, end, end/plan)
	if end > most*plan {
		t.Errorf("the cluster costs %.3f $/h, %.4f times the plan; want at most %.2f", end, end/plan, most)
	}
	if hints == "on" && len(claims) > planned {
		t.Errorf("with hints %d nodes were added; want none", len(claims)-planned)
	}
}

// follow notes the nominations of all pods until the test ends.
func (b *birth) follow(t *testing.T, clients kubernetes.Interface) {
	t.Helper()
	w, err := clients.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || e.Type == watch.Deleted || pod.Status.NominatedNodeName == "" {
				continue
			}
			b.mu.Lock()
			if b.first[pod.Name] == "" {
				b.first[pod.Name] = pod.Status.NominatedNodeName
			}
			b.mu.Unlock()
		}
	}()
}

// price is what the claim's instance costs, in dollars per hour.
func (b *birth) price(t *testing.T, c *karpv1.NodeClaim) float64 {
	t.Helper()
	typ, zone := c.Labels[corev1.LabelInstanceTypeStable], c.Labels[corev1.LabelTopologyZone]
	nanos, ok := b.AWS.Cloud().OnDemandPrice(typ)
	if c.Labels[karpv1.CapacityTypeLabel] == karpv1.CapacityTypeSpot {
		nanos, ok = b.AWS.Cloud().SpotPrice(typ, zone)
	}
	if !ok {
		t.Fatalf("claim %s of type %q in %q has no price", c.Name, typ, zone)
	}
	return float64(nanos) / 1e9
}

// firstPlan is the number of claims that were made before the first node came.
func (b *birth) firstPlan(t *testing.T, claims []karpv1.NodeClaim) int {
	t.Helper()
	var nodes corev1.NodeList
	if err := b.Client.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	first := slices.MinFunc(nodes.Items, func(x, y corev1.Node) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
	n := 0
	for i := range claims {
		if claims[i].CreationTimestamp.Before(&first.CreationTimestamp) {
			n++
		}
	}
	return n
}
