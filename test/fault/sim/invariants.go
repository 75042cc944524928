package sim

import (
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/test/fault/simkube"
)

// Invariants of the reliability promise that hold after every step, in virtual time.
type Invariants struct {
	*World
	// Checks counts how often they were checked.
	Checks int
	// lone is since when a machine has had no claim, marked since when a node has had a taint that nobody has promised.
	lone, marked map[string]time.Time
	broken       []error
	watch        *simkube.Client
	// seen is the server's version at the last look, looked when that was.
	seen   uint64
	looked time.Time
}

// Limits of what may last for a while.
const (
	orphanLimit = 15 * time.Minute // I1
	markLimit   = 2 * time.Minute  // I12
)

// NewInvariants watches a world.
func NewInvariants(w *World) *Invariants {
	v := &Invariants{World: w, lone: map[string]time.Time{}, marked: map[string]time.Time{}, watch: w.Server.Connect()}
	v.watch.Seen = v.event
	w.Cloud.OnLaunch = v.launch
	return v
}

func (v *Invariants) fail(id, format string, args ...any) {
	v.broken = append(v.broken, fmt.Errorf(id+": "+format, args...))
}

// launch checks the birth of a machine: write-ahead (I15), and one machine a claim (I2).
func (v *Invariants) launch(m *Machine) {
	var list karpv1.NodeClaimList
	if err := v.Server.ReadAll(&list); err != nil {
		v.fail("I15", "%v", err)
		return
	}
	promised := false
	for i := range list.Items {
		promised = promised || strings.Contains(list.Items[i].Annotations[lifecycle.IntentAnnotation], `"token":"`+m.Token+`"`)
	}
	if !promised {
		v.fail("I15", "machine %s was launched with token %s, which no claim has recorded", m.ID, m.Token)
	}
	for _, other := range v.Cloud.Alive() {
		if other != m && other.Claim() == m.Claim() {
			v.fail("I2", "claim %s has machines %s and %s", m.Claim(), other.ID, m.ID)
		}
	}
}

// event checks one change of the API.
func (v *Invariants) event(e simkube.Event) {
	switch x := e.Object().(type) {
	case *karpv1.NodeClaim:
		if e.New != nil {
			return
		}
		for _, m := range v.Cloud.Alive() {
			if m.Claim() == string(x.UID) {
				v.fail("I18", "claim %s is gone, its machine %s runs", x.Name, m.ID)
			}
		}
	case *corev1.Pod:
		if e.New != nil && x.DeletionTimestamp != nil && x.DeletionGracePeriodSeconds != nil && *x.DeletionGracePeriodSeconds < 1 {
			v.fail("I10", "pod %s was deleted with a grace of %d s", x.Name, *x.DeletionGracePeriodSeconds)
		}
	}
}

// both reads claims and nodes.
func (w *World) both() ([]karpv1.NodeClaim, []corev1.Node, error) {
	var claims karpv1.NodeClaimList
	var nodes corev1.NodeList
	err := errors.Join(w.Server.ReadAll(&claims), w.Server.ReadAll(&nodes))
	return claims.Items, nodes.Items, err
}

// Check returns the first violation since the last check.
func (v *Invariants) Check() error {
	v.Checks++
	for v.watch.Deliver(1<<30) > 0 {
	}
	// What only time can break needs no look after each step.
	const often = 10 * time.Second
	if now := v.Server.Version(); now == v.seen && len(v.broken) == 0 && time.Since(v.looked) < often {
		return nil
	}
	v.seen, v.looked = v.Server.Version(), time.Now()
	claims, nodes, err := v.both()
	if err != nil {
		return err
	}
	v.orphans(claims)
	v.taints(claims, nodes)
	v.limits(claims)
	err = errors.Join(v.broken...)
	v.broken = nil
	return err
}

// orphans: every live machine has a claim, or has not been without for long (I1).
func (v *Invariants) orphans(claims []karpv1.NodeClaim) {
	alive := map[string]bool{}
	for i := range claims {
		alive[string(claims[i].UID)] = true
	}
	seen := map[string]bool{}
	for _, m := range v.Cloud.Alive() {
		if alive[m.Claim()] {
			continue
		}
		seen[m.ID] = true
		if v.lone[m.ID].IsZero() {
			v.lone[m.ID] = time.Now()
		}
		if since := time.Since(v.lone[m.ID]); since > orphanLimit {
			v.fail("I1", "machine %s has had no claim for %v", m.ID, since)
		}
	}
	for id := range v.lone {
		if !seen[id] {
			delete(v.lone, id)
		}
	}
}

// taints: a node that nobody deletes and nobody has promised to disrupt is not marked for long (I12).
func (v *Invariants) taints(claims []karpv1.NodeClaim, nodes []corev1.Node) {
	promised := map[string]bool{}
	for i := range claims {
		c := &claims[i]
		promised[c.Status.ProviderID] = c.DeletionTimestamp != nil || strings.Contains(c.Annotations[lifecycle.IntentAnnotation], lifecycle.IntentDisrupt)
	}
	seen := map[string]bool{}
	for i := range nodes {
		n := &nodes[i]
		tainted := false
		for _, t := range n.Spec.Taints {
			tainted = tainted || t.Key == lifecycle.DisruptedTaint
		}
		if !tainted || n.DeletionTimestamp != nil || promised[n.Spec.ProviderID] {
			continue
		}
		seen[n.Name] = true
		if v.marked[n.Name].IsZero() {
			v.marked[n.Name] = time.Now()
		}
		if since := time.Since(v.marked[n.Name]); since > markLimit {
			v.fail("I12", "node %s has been marked without a promise for %v", n.Name, since)
		}
	}
	for name := range v.marked {
		if !seen[name] {
			delete(v.marked, name)
		}
	}
}

// limits: a static pool never has more claims than limits.nodes (I5).
func (v *Invariants) limits(claims []karpv1.NodeClaim) {
	var pools karpv1.NodePoolList
	if err := v.Server.ReadAll(&pools); err != nil {
		v.fail("I5", "%v", err)
		return
	}
	for i := range pools.Items {
		limit, ok := pools.Items[i].Spec.Limits["nodes"]
		if !ok {
			continue
		}
		n := int64(0)
		for j := range claims {
			if claims[j].Labels[lifecycle.PoolLabel] == pools.Items[i].Name {
				n++
			}
		}
		if n > limit.Value() {
			v.fail("I5", "pool %s has %d claims, its limit is %d", pools.Items[i].Name, n, limit.Value())
		}
	}
}

func claimIs(c *karpv1.NodeClaim, kind string) bool {
	for _, cond := range c.Status.Conditions {
		if cond.Type == kind {
			return cond.Status == "True"
		}
	}
	return false
}

// pdb reads the budget of a workload.
func (w *World) pdb(app string) (*policyv1.PodDisruptionBudget, client.ObjectKey, error) {
	key := types.NamespacedName{Namespace: "ns", Name: app}
	obj := &policyv1.PodDisruptionBudget{}
	return obj, key, w.Server.Read(key, obj)
}
