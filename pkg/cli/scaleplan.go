package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/view"
)

// poolState is what scaling a pool has to know.
type poolState struct {
	pool   *karpv1.NodePool
	claims []karpv1.NodeClaim
	// pods by node name.
	pods map[string][]corev1.Pod
	pdbs []policyv1.PodDisruptionBudget
	// gateOff tells that StaticCapacity is off; settings says why that is not known, empty if it is.
	gateOff  bool
	settings string
	// partial names what could not be read.
	partial []string
}

// scaleReport is the JSON form of scale nodepool.
type scaleReport struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	NodePool   string        `json:"nodePool"`
	From       int64         `json:"from"`
	To         int64         `json:"to"`
	Add        int64         `json:"add"`
	Remove     []scaleNode   `json:"remove"`
	Refusals   []scaleNotice `json:"refusals"`
	Warnings   []scaleNotice `json:"warnings"`
	Partial    bool          `json:"partial"`
	Missing    []string      `json:"missing,omitempty"`
}

// scaleNode is a node that would leave.
type scaleNode struct {
	NodeClaim string `json:"nodeClaim"`
	Node      string `json:"node,omitempty"`
	Type      string `json:"instanceType,omitempty"`
	Zone      string `json:"zone,omitempty"`
	Pods      int    `json:"pods"`
	Protected bool   `json:"doNotDisrupt"`
}

// scaleNotice is a refusal or a warning.
type scaleNotice struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (r scaleReport) podsMoving() int {
	n := 0
	for _, s := range r.Remove {
		n += s.Pods
	}
	return n
}

func readPool(ctx context.Context, c client.Client, name string) (poolState, error) {
	s := poolState{pool: &karpv1.NodePool{}, pods: map[string][]corev1.Pod{}}
	if err := c.Get(ctx, types.NamespacedName{Name: name}, s.pool); err != nil {
		if apierrors.IsNotFound(err) {
			return s, fmt.Errorf("NodePool %q not found%s", name, nearest(ctx, c, name))
		}
		return s, fmt.Errorf("reading NodePool %s: %w", name, err)
	}
	claims, err := poolClaims(ctx, c, name)
	if err != nil {
		return s, fmt.Errorf("listing the pool's NodeClaims: %w", err)
	}
	s.claims = claims
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods); err != nil {
		s.partial = append(s.partial, "pods: "+clause(err))
	}
	pdbs := &policyv1.PodDisruptionBudgetList{}
	if err := c.List(ctx, pdbs); err != nil {
		s.partial = append(s.partial, "poddisruptionbudgets: "+clause(err))
	}
	s.pdbs = pdbs.Items
	for _, p := range pods.Items {
		if p.Spec.NodeName != "" {
			s.pods[p.Spec.NodeName] = append(s.pods[p.Spec.NodeName], p)
		}
	}
	return s, nil
}

func poolClaims(ctx context.Context, c client.Client, pool string) ([]karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	err := c.List(ctx, list, client.MatchingLabels{karpv1.NodePoolLabel: pool})
	return list.Items, err
}

func claimReady(c *karpv1.NodeClaim) bool {
	return slices.ContainsFunc(c.Status.Conditions, func(cond karpv1.ClaimCondition) bool {
		return cond.Type == "Ready" && cond.Status == "True"
	})
}

// nearest suggests up to three existing names.
func nearest(ctx context.Context, c client.Client, name string) string {
	list := &karpv1.NodePoolList{}
	if c.List(ctx, list) != nil || len(list.Items) == 0 {
		return ""
	}
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	return suggest(name, names)
}

// planScale decides what a new number of replicas means, without writing anything.
func planScale(s poolState, a *scaleArgs, now time.Time) scaleReport {
	r := scaleReport{APIVersion: reportVersion, Kind: "ScaleReport", NodePool: s.pool.Name, To: a.replicas,
		Remove: []scaleNode{}, Refusals: []scaleNotice{}, Warnings: []scaleNotice{}, Partial: len(s.partial) > 0, Missing: s.partial}
	if s.pool.Spec.Replicas == nil {
		r.refuse("NotStatic", "%s is a dynamic pool: it has no `replicas`, and one cannot be added later; use limits or create a static pool", s.pool.Name)
		return r
	}
	r.From = *s.pool.Spec.Replicas
	if s.gateOff {
		r.refuse("GateOff", "the feature gate StaticCapacity is off in the running controller: the number would be stored and nothing launched; turn it on with StaticCapacity=true in FEATURE_GATES (Helm value settings.featureGates.staticCapacity=true)")
	}
	if a.current >= 0 && a.current != r.From {
		r.refuse("CurrentReplicasMismatch", "%s has %d replicas, not %d", s.pool.Name, r.From, a.current)
	}
	if a.resourceVersion != "" && a.resourceVersion != s.pool.ResourceVersion {
		r.refuse("ResourceVersionMismatch", "%s is at resource version %s, not %s", s.pool.Name, s.pool.ResourceVersion, a.resourceVersion)
	}
	r.warnings(s)
	active := activeNodes(s, now)
	r.Add = max(a.replicas-int64(len(active)), 0)
	for _, n := range lifecycle.ScaleDown(active, len(active)-int(a.replicas), now) {
		r.Remove = append(r.Remove, leaving(s, n))
	}
	for _, n := range r.Remove {
		for _, b := range heldBy(s, n.Node) {
			r.warn("LastPodOfPDB", "%s leaves only when PodDisruptionBudget %s allows it; it allows no eviction now", n.Node, b)
		}
	}
	return r
}

func (r *scaleReport) refuse(code, format string, args ...any) {
	r.Refusals = append(r.Refusals, scaleNotice{code, fmt.Sprintf(format, args...)})
}

func (r *scaleReport) warn(code, format string, args ...any) {
	r.Warnings = append(r.Warnings, scaleNotice{code, fmt.Sprintf(format, args...)})
}

// heldBy names the budgets that allow no eviction and select a pod on the node.
func heldBy(s poolState, node string) []string {
	var out []string
	for i := range s.pdbs {
		b := &s.pdbs[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || b.Status.DisruptionsAllowed > 0 {
			continue
		}
		if slices.ContainsFunc(s.pods[node], func(p corev1.Pod) bool { return p.Namespace == b.Namespace && selector.Matches(labels.Set(p.Labels)) }) {
			out = append(out, b.Namespace+"/"+b.Name)
		}
	}
	return out
}

func (r *scaleReport) warnings(s poolState) {
	warn := r.warn
	if s.settings != "" {
		warn("SettingsUnknown", "whether StaticCapacity is on could not be read (%s): if it is off, the number is stored and nothing happens", s.settings)
	}
	if q, ok := s.pool.Spec.Limits["nodes"]; ok {
		switch limit := q.Value(); {
		case limit < r.To:
			warn("LimitBelowReplicas", "limits.nodes is %d: only so many nodes will be made", limit)
		case limit == r.To && r.To > 0:
			warn("NoSpareForDrift", "limits.nodes equals the replicas: drifted nodes cannot be replaced one by one")
		}
	}
	ready := slices.ContainsFunc(s.pool.Status.Conditions, func(c condition) bool { return c.Type == "Ready" && c.Status == "True" })
	if !ready {
		warn("NotReady", "the pool is not Ready: nothing is added until it is (nodes are removed all the same)")
	}
}

// activeNodes are the pool's claims that are not on their way out.
func activeNodes(s poolState, now time.Time) []lifecycle.StaticNode {
	var out []lifecycle.StaticNode
	for i := range s.claims {
		c := &s.claims[i]
		if !c.DeletionTimestamp.IsZero() {
			continue
		}
		n := lifecycle.StaticNode{Claim: c.Name, Launched: c.Status.ProviderID != "", Empty: true, Created: c.CreationTimestamp.Time}
		if c.Spec.ExpireAfter != nil {
			n.ExpireAfter, _ = c.Spec.ExpireAfter.Value()
		}
		for _, p := range s.pods[c.Status.NodeName] {
			addPod(&n, &p, now)
		}
		out = append(out, n)
	}
	return out
}

func addPod(n *lifecycle.StaticNode, p *corev1.Pod, now time.Time) {
	done := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	protected := !done && p.DeletionTimestamp.IsZero() && protectedNow(p, now)
	n.Protected = n.Protected || protected
	if !ownedByDaemonSet(p) || protected {
		n.Empty = false
	}
	if done || ownedByDaemonSet(p) {
		return
	}
	var priority int32
	if p.Spec.Priority != nil {
		priority = *p.Spec.Priority
	}
	cost, err := strconv.ParseFloat(p.Annotations["controller.kubernetes.io/pod-deletion-cost"], 64)
	if err != nil {
		cost = 0
	}
	n.EvictionCost += lifecycle.EvictionCost(cost, priority)
}

func ownedByDaemonSet(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o ownerReference) bool {
		return o.Kind == "DaemonSet" && o.APIVersion == "apps/v1"
	})
}

func protectedNow(p *corev1.Pod, now time.Time) bool {
	value := p.Annotations[lifecycle.DoNotDisruptAnnotation]
	if value == "true" {
		return true
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return false
	}
	return p.Status.StartTime == nil || now.Sub(p.Status.StartTime.Time) < d
}

func leaving(s poolState, n lifecycle.StaticNode) scaleNode {
	i := slices.IndexFunc(s.claims, func(c karpv1.NodeClaim) bool { return c.Name == n.Claim })
	c := &s.claims[i]
	out := scaleNode{NodeClaim: c.Name, Node: c.Status.NodeName, Type: c.Labels[corev1.LabelInstanceTypeStable], Zone: c.Labels[corev1.LabelTopologyZone], Protected: n.Protected}
	for _, p := range s.pods[c.Status.NodeName] {
		if !ownedByDaemonSet(&p) && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			out.Pods++
		}
	}
	return out
}

// doc tells the plan to people.
func (r scaleReport) doc() view.Doc {
	d := view.Doc{Answer: r.sentence()}
	var rows []view.Row
	for _, n := range r.Remove {
		what := n.Node
		if what == "" {
			what = n.NodeClaim
		}
		rows = append(rows, view.Row{Cells: []string{"leaves", fmt.Sprintf("%s (%s): %s move", what, strings.Join(nonEmpty(n.Type, n.Zone), ", "), plural(n.Pods, "pod"))}, Marked: n.Protected})
	}
	if len(r.Remove) > 0 {
		rows = append(rows, view.Row{Cells: []string{"budgets", "do not apply to scaling a static pool; PDBs and grace periods do"}})
	}
	for _, w := range r.Warnings {
		rows = append(rows, view.Row{Cells: []string{"warning", w.Code + ": " + w.Message}, Marked: true})
	}
	if len(rows) > 0 {
		d.Sections = []view.Section{{Table: &view.Table{Columns: []view.Column{{}, {}}, Rows: rows}}}
	}
	d.Sources = []string{"API server now"}
	for _, m := range r.Missing {
		d.Sources = append(d.Sources, "missing: "+m)
	}
	return d
}

func (r scaleReport) sentence() string {
	switch {
	case r.From == r.To && r.Add == 0 && len(r.Remove) == 0:
		return fmt.Sprintf("NodePool %s has %s already.", r.NodePool, plural(int(r.To), "node"))
	case len(r.Remove) > 0:
		var names []string
		for _, n := range r.Remove {
			names = append(names, nonEmpty(n.Node, n.NodeClaim)[0])
		}
		verb := "leave"
		if len(names) == 1 {
			verb = "leaves (cheapest to move)"
		}
		return fmt.Sprintf("NodePool %s will go from %d to %s: %s %s.", r.NodePool, r.From, plural(int(r.To), "node"), strings.Join(names, ", "), verb)
	}
	return fmt.Sprintf("NodePool %s will go from %d to %s: %d more.", r.NodePool, r.From, plural(int(r.To), "node"), r.Add)
}
