package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/test/fault/simkube"
)

// Churn is a cluster in which much goes wrong: machines end or never join, people delete and edit things, budgets and volumes hold drains up,
// writes fail, and the agent is killed.
type Churn struct {
	*Runner
	Actors     *Actors
	Invariants *Invariants
	// Counts are how often each thing was done to the cluster.
	Counts map[string]int

	random *rand.Rand
	calm   bool
	closed map[string]time.Time
}

const tick = 10 * time.Second

// NewChurn makes a cluster with a static pool of five nodes, a pool for pending pods, and three workloads.
func NewChurn(seed uint64) (*Churn, error) {
	w, err := New(seed, func(c *config.Config) {
		c.DisableClusterStateObservability, c.Gates.NodeRepair = true, true
	})
	if err != nil {
		return nil, err
	}
	w.Cloud.Shutdown, w.Cloud.Hidden = 20*time.Second, 3*time.Second
	c := &Churn{
		Runner: NewRunner(w, seed), Actors: NewActors(w, seed), Invariants: NewInvariants(w), Counts: map[string]int{}, random: rand.New(rand.NewPCG(seed, 3)),
		closed: map[string]time.Time{},
	}
	c.Lag, c.Actors.Duds = 3, 0.1
	c.After = func(string) error { return c.Invariants.Check() }
	w.Fault = func(simkube.Write) simkube.Fault { return c.fault() }
	w.Cloud.Before = func(string) simkube.Fault { return c.fault() }
	for _, p := range []*karpv1.NodePool{
		parsePool("np", []string{"expireAfter=6h", "tgp=10m"}), parsePool("sp", []string{"replicas=5", "limit:nodes=7", "expireAfter=8h", "tgp=20m"}),
	} {
		if err := w.Server.Put(p); err != nil {
			return nil, err
		}
	}
	for _, app := range []string{"a", "b", "c"} {
		c.Actors.Replicas[app] = 4
		p := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: app}}
		p.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		if err := w.Server.Put(p); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// fault lets one write in a hundred fail in one of all ways.
func (c *Churn) fault() simkube.Fault {
	const share = 100
	if c.calm || c.random.IntN(share) > 0 {
		return simkube.None
	}
	all := []simkube.Fault{
		simkube.Conflict, simkube.Internal, simkube.Throttled, simkube.Lost, simkube.Dropped, simkube.CrashBefore, simkube.CrashAfter,
	}
	f := all[c.random.IntN(len(all))]
	c.Counts[string(f)]++
	return f
}

// Run lets time pass.
func (c *Churn) Run(ctx context.Context, d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(tick) {
		if err := c.Actors.Act(); err != nil {
			return err
		}
		if !c.calm {
			if err := c.mischief(); err != nil {
				return err
			}
		}
		if err := c.Settle(ctx, 200); err != nil {
			return err
		}
		if err := c.Invariants.Check(); err != nil {
			return err
		}
	}
	return nil
}

// mischief does something to the cluster now and then.
func (c *Churn) mischief() error {
	for app, until := range c.closed {
		if time.Now().After(until) {
			delete(c.closed, app)
			if err := c.close(app, ""); err != nil {
				return err
			}
		}
	}
	const oneIn = 30 // about every two and a half minutes
	if c.random.IntN(oneIn) > 0 {
		return nil
	}
	acts := []struct {
		name string
		do   func() error
	}{
		{"delete a claim", func() error { return c.deleteOne(&karpv1.NodeClaimList{}) }},
		{"delete a node", func() error { return c.deleteOne(&corev1.NodeList{}) }},
		{"end a machine", c.endMachine},
		{"scale a workload", func() error { c.Actors.Replicas[c.app()] = 1 + c.random.IntN(7); return nil }},
		{"scale the static pool", c.scale},
		{"close a budget", func() error {
			app := c.app()
			c.closed[app] = time.Now().Add(time.Duration(1+c.random.IntN(30)) * time.Minute)
			return c.close(app, "yes")
		}},
		{"protect a pod", c.protect},
		{"attach a volume", c.attach},
		{"kill the agent", func() error { c.API.Kill(); return nil }},
		{"run out of capacity", func() error { c.Cloud.Fail("Launch", failure("capacity", "none"), 2); return nil }},
		{"fail listings", func() error { c.Cloud.Fail("List", failure("plain", "throttled"), 3); return nil }},
	}
	act := acts[c.random.IntN(len(acts))]
	c.Counts[act.name]++
	return ignore(act.do())
}

func (c *Churn) app() string { return string(rune('a' + c.random.IntN(3))) }

// deleteOne deletes a random object of a kind.
func (c *Churn) deleteOne(list client.ObjectList) error {
	if err := c.Server.ReadAll(list); err != nil {
		return err
	}
	var all []client.Object
	switch x := list.(type) {
	case *karpv1.NodeClaimList:
		for i := range x.Items {
			all = append(all, &x.Items[i])
		}
	case *corev1.NodeList:
		for i := range x.Items {
			all = append(all, &x.Items[i])
		}
	}
	if len(all) == 0 {
		return nil
	}
	return c.Server.Delete(all[c.random.IntN(len(all))])
}

func (c *Churn) endMachine() error {
	if all := c.Cloud.Alive(); len(all) > 0 {
		c.Cloud.end(all[c.random.IntN(len(all))])
	}
	return nil
}

func (c *Churn) scale() error {
	p, key := &karpv1.NodePool{}, client.ObjectKey{Name: "sp"}
	return c.Server.Edit(key, p, func() { p.Spec.Replicas = new(int64(c.random.IntN(8))) })
}

func (c *Churn) close(app, value string) error {
	obj, key, err := c.pdb(app)
	if err != nil {
		return err
	}
	return c.Server.Edit(key, obj, func() {
		obj.SetAnnotations(edited(obj.GetAnnotations(), map[string]string{"closed": value}))
		if value != "" {
			obj.Status.DisruptionsAllowed = 0
		}
	})
}

// protect lets a random pod not be disrupted, for some minutes or for ever.
func (c *Churn) protect() error {
	var pods corev1.PodList
	if err := c.Server.ReadAll(&pods); err != nil || len(pods.Items) == 0 {
		return err
	}
	p := &pods.Items[c.random.IntN(len(pods.Items))]
	value := []string{"true", "7m"}[c.random.IntN(2)]
	return c.Server.Edit(client.ObjectKeyFromObject(p), p, func() {
		p.SetAnnotations(edited(p.GetAnnotations(), map[string]string{"karpenter.sh/do-not-disrupt": value}))
	})
}

// attach leaves a volume on a random node, until the next time.
func (c *Churn) attach() error {
	var nodes corev1.NodeList
	var list storagev1.VolumeAttachmentList
	if err := c.Server.ReadAll(&list); err != nil {
		return err
	}
	for i := range list.Items {
		if err := ignore(c.Server.Drop(&list.Items[i])); err != nil {
			return err
		}
	}
	if err := c.Server.ReadAll(&nodes); err != nil || len(nodes.Items) == 0 {
		return err
	}
	pv := "pv"
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("va-%d", c.Counts["attach a volume"])}}
	a.Spec.NodeName, a.Spec.Source.PersistentVolumeName = nodes.Items[c.random.IntN(len(nodes.Items))].Name, &pv
	return c.Server.Put(a)
}

// Calm ends all mischief: volumes are detached, budgets open, protections end, and machines join.
func (c *Churn) Calm() error {
	c.calm = true
	c.Actors.Duds = 0
	c.Cloud.Heal()
	for app := range c.closed {
		if err := c.close(app, ""); err != nil {
			return err
		}
	}
	var list storagev1.VolumeAttachmentList
	if err := c.Server.ReadAll(&list); err != nil {
		return err
	}
	for i := range list.Items {
		if err := c.Server.Drop(&list.Items[i]); err != nil {
			return err
		}
	}
	var pods corev1.PodList
	if err := c.Server.ReadAll(&pods); err != nil {
		return err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		err := c.Server.Edit(client.ObjectKeyFromObject(p), p, func() {
			p.SetAnnotations(edited(p.GetAnnotations(), map[string]string{"karpenter.sh/do-not-disrupt": ""}))
		})
		if ignore(err) != nil {
			return err
		}
	}
	return nil
}

// Agreement says where cloud, claims and nodes differ.
func (c *Churn) Agreement() error { return c.agreement() }

// Empty takes everything away.
func (c *Churn) Empty() error {
	for app := range c.Actors.Replicas {
		c.Actors.Replicas[app] = 0
	}
	for _, name := range []string{"np", "sp"} {
		p := &karpv1.NodePool{}
		if err := c.Server.Read(client.ObjectKey{Name: name}, p); err != nil {
			return err
		}
		if err := c.Server.Delete(p); err != nil {
			return err
		}
	}
	return nil
}

// Left says what is left of claims, nodes and machines.
func (c *Churn) Left() error {
	claims, nodes, err := c.both()
	if err != nil {
		return err
	}
	if n, m, i := len(claims), len(nodes), len(c.Cloud.Alive()); n+m+i > 0 {
		return fmt.Errorf("%d claims, %d nodes and %d machines are left", n, m, i)
	}
	return nil
}
