package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

// Actors are what a cluster has beside the agent: kubelets, the scheduler, workloads, and the controllers that clean up.
type Actors struct {
	*World
	random *rand.Rand
	// Joins is how long after its launch a machine's kubelet registers, Ready how long after that the node is ready.
	Joins, Ready time.Duration
	// Duds is the share of machines that never join.
	Duds float64
	// Replicas is how many pods each workload has, by name.
	Replicas map[string]int
	// PodsPerNode bounds what the scheduler puts on a node.
	PodsPerNode int

	dud    map[string]bool
	joined map[string]bool
	silent map[string]time.Time
	n      int
}

// NewActors makes actors whose choices a seed decides.
func NewActors(w *World, seed uint64) *Actors {
	return &Actors{
		World: w, random: rand.New(rand.NewPCG(seed, 2)), Joins: 40 * time.Second, Ready: 15 * time.Second, PodsPerNode: 4, Replicas: map[string]int{},
		dud: map[string]bool{}, joined: map[string]bool{}, silent: map[string]time.Time{},
	}
}

// Act lets all of them act once.
func (a *Actors) Act() error {
	a.Server.Collect()
	for _, act := range []func() error{a.kubelets, a.pods, a.workloads, a.schedule, a.budgets} {
		if err := act(); err != nil {
			return err
		}
	}
	return nil
}

// ignore drops the errors that races among actors give.
func ignore(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// kubelets register nodes, report their readiness, and fall silent when their machine ends.
func (a *Actors) kubelets() error {
	a.Cloud.settle()
	var nodes corev1.NodeList
	if err := a.Server.ReadAll(&nodes); err != nil {
		return err
	}
	for _, m := range a.Cloud.Alive() {
		if _, rolled := a.dud[m.ID]; !rolled {
			a.dud[m.ID] = a.random.Float64() < a.Duds
		}
		if !a.joined[m.ID] && !a.dud[m.ID] && time.Since(m.Launched) >= a.Joins {
			a.joined[m.ID] = true
			if err := ignore(a.Server.Put(a.newNode(m))); err != nil {
				return err
			}
		}
	}
	for i := range nodes.Items {
		if err := a.report(&nodes.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a *Actors) newNode(m *Machine) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + m.ID, Labels: map[string]string{
		"kubernetes.io/hostname": "node-" + m.ID, awsv1.Group + "/ec2nodeclass": "default",
	}}}
	n.Spec.ProviderID = m.ProviderID
	n.Spec.Taints = []corev1.Taint{parseTaint("unregistered:NoExecute"), parseTaint("node.kubernetes.io/not-ready:NoSchedule")}
	n.Status.Capacity, n.Status.Allocatable = kube.Quantities(capacity()), kube.Quantities(allocatable())
	setNodeCondition(n, "Ready", "False")
	return n
}

// report keeps one node's condition: ready some time after it joined, unknown 40 s after its machine has ended.
func (a *Actors) report(n *corev1.Node) error {
	const graceOfNodes = 40 * time.Second
	_, id, _ := strings.Cut(strings.TrimPrefix(n.Spec.ProviderID, "fake:///"), "/")
	m := a.Cloud.machines[id]
	ready := n.Status.Conditions[0].Status
	switch {
	case m == nil || m.Gone():
		if a.silent[n.Name].IsZero() {
			a.silent[n.Name] = time.Now()
		}
		if ready == corev1.ConditionUnknown || time.Since(a.silent[n.Name]) < graceOfNodes {
			return nil
		}
		return a.setReady(n, "Unknown")
	case ready == corev1.ConditionFalse && time.Since(n.CreationTimestamp.Time) >= a.Ready:
		return a.setReady(n, "True")
	}
	return nil
}

func (a *Actors) setReady(n *corev1.Node, to string) error {
	return ignore(a.Server.Edit(client.ObjectKeyFromObject(n), n, func() {
		setNodeCondition(n, "Ready", to)
		if to == "True" {
			editNode(n, words{with: map[string][]string{"untaint": {"node.kubernetes.io/not-ready:NoSchedule"}}})
		}
	}))
}

// pods end when their grace is over and their kubelet lives, or when their node is gone.
func (a *Actors) pods() error {
	var pods corev1.PodList
	var nodes corev1.NodeList
	if err := a.Server.ReadAll(&pods); err != nil {
		return err
	}
	if err := a.Server.ReadAll(&nodes); err != nil {
		return err
	}
	alive, there := map[string]bool{}, map[string]bool{}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		there[n.Name] = true
		alive[n.Name] = a.silent[n.Name].IsZero()
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		// Well-behaved pods end after some seconds, within their grace.
		over := p.DeletionTimestamp != nil && alive[p.Spec.NodeName] && !time.Now().Before(p.DeletionTimestamp.Add(-time.Duration(*p.DeletionGracePeriodSeconds)*time.Second+5*time.Second))
		if over || p.Spec.NodeName != "" && !there[p.Spec.NodeName] {
			if err := ignore(a.Server.Drop(p)); err != nil {
				return err
			}
		}
	}
	return nil
}

// workloads keep their number of pods.
func (a *Actors) workloads() error {
	var pods corev1.PodList
	if err := a.Server.ReadAll(&pods); err != nil {
		return err
	}
	have := map[string][]*corev1.Pod{}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp == nil {
			have[p.Labels["app"]] = append(have[p.Labels["app"]], p)
		}
	}
	for app, want := range a.Replicas {
		for n := len(have[app]); n < want; n++ {
			a.n++
			p := parsePod(app+"-"+strconv.Itoa(a.n), []string{"pending", "label:app=" + app, "request:cpu=900m", "request:memory=1Gi"})
			if err := ignore(a.Server.Put(p)); err != nil {
				return err
			}
		}
		for n := len(have[app]); n > want; n-- {
			if err := ignore(a.Server.Delete(have[app][n-1])); err != nil {
				return err
			}
		}
	}
	return nil
}

// schedule binds pods to ready nodes without taints.
func (a *Actors) schedule() error {
	var pods corev1.PodList
	var nodes corev1.NodeList
	if err := a.Server.ReadAll(&pods); err != nil {
		return err
	}
	if err := a.Server.ReadAll(&nodes); err != nil {
		return err
	}
	on := map[string]int{}
	for i := range pods.Items {
		on[pods.Items[i].Spec.NodeName]++
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
			continue
		}
		at := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool {
			return len(n.Spec.Taints) == 0 && n.Status.Conditions[0].Status == corev1.ConditionTrue && on[n.Name] < a.PodsPerNode
		})
		if at < 0 {
			continue
		}
		name := nodes.Items[at].Name
		on[name]++
		err := a.Server.Edit(client.ObjectKeyFromObject(p), p, func() {
			p.Spec.NodeName, p.Status.Phase = name, corev1.PodRunning
			now := metav1.Now()
			p.Status.StartTime = &now
			p.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now},
			}
		})
		if ignore(err) != nil {
			return err
		}
	}
	return nil
}

// budgets let one pod of each workload go at a time: a PDB named after a workload allows one disruption while all its pods run.
func (a *Actors) budgets() error {
	var pods corev1.PodList
	if err := a.Server.ReadAll(&pods); err != nil {
		return err
	}
	running := map[string]int{}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp == nil && p.Spec.NodeName != "" {
			running[p.Labels["app"]]++
		}
	}
	for app, want := range a.Replicas {
		obj, key, err := a.pdb(app)
		if err != nil {
			continue
		}
		allowed := 0
		if running[app] >= want {
			allowed = 1
		}
		err = a.Server.Edit(key, obj, func() {
			if obj.Annotations["closed"] == "" {
				obj.Status.DisruptionsAllowed = int32(allowed)
			}
		})
		if ignore(err) != nil {
			return err
		}
	}
	return nil
}

// agreement compares cloud, claims and nodes, and says where they differ.
func (w *World) agreement() error {
	claims, nodes, err := w.both()
	if err != nil {
		return err
	}
	byProvider := map[string]string{}
	for i := range claims {
		c := &claims[i]
		byProvider[c.Status.ProviderID] = c.Name
		if c.DeletionTimestamp != nil || !claimIs(c, lifecycle.Initialized) {
			return fmt.Errorf("claim %s is not initialized, or is being deleted: %v", c.Name, c.Status.Conditions)
		}
	}
	machines := w.Cloud.Alive()
	for _, m := range machines {
		if byProvider[m.ProviderID] == "" {
			return fmt.Errorf("machine %s of claim %s has no claim", m.ID, m.Claim())
		}
	}
	for i := range nodes {
		if byProvider[nodes[i].Spec.ProviderID] == "" || nodes[i].DeletionTimestamp != nil || len(nodes[i].Spec.Taints) > 0 {
			return fmt.Errorf("node %s has no claim, is being deleted, or is tainted: %v", nodes[i].Name, nodes[i].Spec.Taints)
		}
	}
	if len(machines) != len(claims) || len(nodes) != len(claims) {
		return fmt.Errorf("%d machines, %d claims, %d nodes", len(machines), len(claims), len(nodes))
	}
	return nil
}
