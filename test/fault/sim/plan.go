package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/test/fault/simkube"
)

// Overlap is a fault beyond those of simkube: at the write, another process takes over and works for a while; then the write is made all the
// same, as by a leader that was asleep, and its process ends.
const Overlap simkube.Fault = "overlap"

// Workload is what happens in a plan, beside its fault.
type Workload string

// The workloads. Static is the life of a static pool: two nodes come for its replicas, two pods run on them under a budget; one claim is deleted,
// drained and replaced; the pool is scaled to one; everything is taken away. Pods is that of a node for pending pods: it comes for three of them,
// is deleted by its Node, drained under a budget and replaced; everything is taken away.
const (
	Static Workload = "static"
	Pods   Workload = "pods"
)

// Plan is a workload with one fault at one write.
type Plan struct {
	Workload Workload
	// Site and Nth say which write: the nth (from 1) at the site. An empty site is no fault.
	Site  string
	Nth   int
	Fault simkube.Fault
}

// String writes the plan in one line.
func (p Plan) String() string {
	return fmt.Sprintf("(workload %s) (at (%s) #%d %s)", p.Workload, p.Site, p.Nth, p.Fault)
}

// Outcome of a plan.
type Outcome struct {
	// Writes are how often each site was written at.
	Writes map[string]int
	// Machines were launched, Checks made, Lives lived.
	Machines, Checks, Lives int
	// Reached tells that the fault happened.
	Reached bool
}

// life is a plan that runs.
type life struct {
	*Churn
	plan Plan
	out  Outcome
	ctx  context.Context
}

// RunPlan carries out a plan. In the end nothing may be left. Call it in a bubble.
func RunPlan(ctx context.Context, p Plan) (Outcome, error) {
	w, err := New(1, func(c *config.Config) { c.DisableClusterStateObservability = true })
	if err != nil {
		return Outcome{}, err
	}
	w.Cloud.Shutdown, w.Cloud.Hidden = 6*time.Second, time.Second
	c := &Churn{Runner: NewRunner(w, 1), Actors: NewActors(w, 1), Invariants: NewInvariants(w), calm: true}
	c.Actors.Joins, c.Actors.Ready = 4*time.Second, 4*time.Second
	c.After = func(string) error { return c.Invariants.Check() }
	l := &life{Churn: c, plan: p, out: Outcome{Writes: map[string]int{}}, ctx: ctx}
	w.Fault = func(write simkube.Write) simkube.Fault { return l.write(write.Site) }
	w.Cloud.Before = func(call string) simkube.Fault { return l.write("cloud " + call) }
	if p.Workload == Pods {
		err = l.pods()
	} else {
		err = l.static()
	}
	l.out.Machines, l.out.Checks, l.out.Lives = w.Cloud.n, c.Invariants.Checks, w.Lives
	if err != nil {
		err = fmt.Errorf("%v: %w\ntrace: %s", p, err, strings.Join(w.Trace[max(0, len(w.Trace)-60):], "; "))
	}
	return l.out, err
}

// write counts a write and returns the fault that is due.
func (l *life) write(site string) simkube.Fault {
	l.out.Writes[site]++
	if site != l.plan.Site || l.out.Writes[site] != l.plan.Nth || l.out.Reached {
		return simkube.None
	}
	l.out.Reached = true
	if l.plan.Fault != Overlap {
		return l.plan.Fault
	}
	if err := l.overtake(); err != nil {
		l.Invariants.fail("overlap", "%v", err)
	}
	return simkube.CrashAfter
}

// overtake lets another process work for some seconds while the present one stands still.
func (l *life) overtake() error {
	if err := l.Join(); err != nil {
		return err
	}
	l.reset()
	for range 5 {
		if err := errors.Join(l.Actors.Act(), l.Settle(l.ctx, 100)); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return nil
}

// until runs the world until a condition holds.
func (l *life) until(what string, holds func() error) error {
	const patience = 20 * time.Minute
	var last error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Second) {
		if err := l.Actors.Act(); err != nil {
			return err
		}
		if err := l.Settle(l.ctx, 300); err != nil {
			return err
		}
		if last = holds(); last == nil {
			return nil
		}
	}
	return fmt.Errorf("waiting for %s: %w", what, last)
}

// prepare puts a pool and a workload of pods with a budget into the world.
func (l *life) prepare(pool *karpv1.NodePool, pods, perNode int) error {
	pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	pdb.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	l.Actors.Replicas["a"], l.Actors.PodsPerNode = pods, perNode
	return errors.Join(l.Server.Put(pool), l.Server.Put(pdb))
}

func (l *life) static() error {
	if err := l.prepare(parsePool("sp", []string{"replicas=2", "limit:nodes=3"}), 2, 1); err != nil {
		return err
	}
	if err := l.until("two nodes", func() error { return l.agree(2) }); err != nil {
		return err
	}
	claims, _, err := l.both()
	if err != nil {
		return err
	}
	old := &claims[0]
	if err := l.Server.Delete(old); err != nil {
		return err
	}
	if err := l.until("a claim to be replaced", func() error {
		if l.Server.Read(client.ObjectKeyFromObject(old), &karpv1.NodeClaim{}) == nil {
			return errors.New("the old claim is there")
		}
		return l.agree(2)
	}); err != nil {
		return err
	}
	l.Actors.Replicas["a"] = 1
	p := &karpv1.NodePool{}
	if err := l.Server.Edit(client.ObjectKey{Name: "sp"}, p, func() { p.Spec.Replicas = new(int64(1)) }); err != nil {
		return err
	}
	if err := l.until("one node", func() error { return l.agree(1) }); err != nil {
		return err
	}
	l.Actors.Replicas["a"] = 0
	if err := l.Server.Delete(p); err != nil {
		return err
	}
	return l.until("nothing to be left", l.Left)
}

// agree asks for exactly so many claims, nodes and machines, in agreement.
func (l *life) agree(n int) error {
	if got := len(l.Cloud.Alive()); got != n {
		return fmt.Errorf("%d machines, want %d", got, n)
	}
	return l.agreement()
}

func (l *life) pods() error {
	if err := l.prepare(parsePool("np", nil), 3, 4); err != nil {
		return err
	}
	if err := l.until("a node with three pods", func() error { return errors.Join(l.agree(1), l.running(3)) }); err != nil {
		return err
	}
	_, nodes, err := l.both()
	if err != nil {
		return err
	}
	old := &nodes[0]
	if err := l.Server.Delete(old); err != nil {
		return err
	}
	if err := l.until("a node to be replaced", func() error {
		if l.Server.Read(client.ObjectKeyFromObject(old), &corev1.Node{}) == nil {
			return errors.New("the old node is there")
		}
		return errors.Join(l.agree(1), l.running(3))
	}); err != nil {
		return err
	}
	l.Actors.Replicas["a"] = 0
	p := &karpv1.NodePool{}
	if err := l.Server.Read(client.ObjectKey{Name: "np"}, p); err != nil {
		return err
	}
	if err := l.Server.Delete(p); err != nil {
		return err
	}
	return l.until("nothing to be left", l.Left)
}

// running asks for so many pods on nodes, and none elsewhere.
func (l *life) running(want int) error {
	var pods corev1.PodList
	if err := l.Server.ReadAll(&pods); err != nil {
		return err
	}
	n := 0
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName != "" && pods.Items[i].DeletionTimestamp == nil {
			n++
		}
	}
	if n != want || len(pods.Items) != want {
		return fmt.Errorf("%d of %d pods run, want %d", n, len(pods.Items), want)
	}
	return nil
}
