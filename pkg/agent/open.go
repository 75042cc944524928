package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// close makes a node that loses the taint of unregistered ones keep waiting pods off until its daemons are on it and its pods are told. A node
// that never had the taint, or that somebody else has cordoned, is left as it is.
func (l *claims) close(ctx context.Context, p *pass, r *lifecycle.Registration) {
	wanted := len(r.Change.RemoveTaints) > 0 && !p.nodes[0].Spec.Unschedulable
	if wanted && !l.hints {
		var list appsv1.DaemonSetList
		if err := l.client.List(ctx, &list, client.Limit(1)); err == nil && len(list.Items) == 0 {
			wanted = false
		}
	}
	r.Change.Close = wanted
	if !wanted && l.hint != nil {
		l.hint(ctx, p.claim.Name, r.Node)
	}
}

// open opens a closed node as soon as its daemons have their places, or have had their time.
func (l *claims) open(ctx context.Context, p *pass) {
	if !p.view().Is(lifecycle.Registered, lifecycle.True) || p.view().Is(lifecycle.Initialized, lifecycle.True) {
		return
	}
	if p.nodes == nil {
		nodes, err := l.nodesWith(ctx, p.claim.Status.ProviderID)
		if err != nil {
			p.fail(fmt.Errorf("finding the node of claim %s: %w", p.claim.Name, err))
			return
		}
		p.nodes = nodes
	}
	if len(p.nodes) != 1 {
		return
	}
	n := &p.nodes[0]
	v := nodeOf(n)
	if !lifecycle.Closed(&v) {
		return
	}
	o, err := l.opening(ctx, p, n)
	if err != nil {
		p.fail(err)
		return
	}
	open, after := lifecycle.Open(o)
	if !open {
		p.again(after)
		return
	}
	if o.Daemons {
		l.log.Warn("opening a node without all its daemons", telemetry.Claim(p.claim.Name), telemetry.Node(n.Name))
	}
	group, waiting := l.group(ctx, p, n)
	if waiting {
		p.again(lifecycle.OpeningInterval)
		return
	}
	l.openAll(ctx, p, group)
}

// group notes that a claim's node is ready to open and returns the nodes to open with it, by claim. Waiting tells that some are to come.
func (l *claims) group(ctx context.Context, p *pass, n *corev1.Node) (group map[string]*corev1.Node, waiting bool) {
	since := l.arrive(p.claim.Name, n.Name, p.now)
	group = map[string]*corev1.Node{p.claim.Name: n}
	if l.companions == nil {
		return group, false
	}
	for _, name := range l.companions(p.claim.Name) {
		at := l.arrival(name)
		if at.node == "" {
			waiting = waiting || l.comes(ctx, name)
			continue
		}
		var other corev1.Node
		if err := l.client.Get(ctx, types.NamespacedName{Name: at.node}, &other); err != nil {
			continue // it is gone, or will be back
		}
		if v := nodeOf(&other); lifecycle.Closed(&v) {
			group[name] = &other
		}
	}
	return group, waiting && p.now.Before(since.Add(lifecycle.CompanionPatience))
}

// comes reports whether a claim's node is still to open.
func (l *claims) comes(ctx context.Context, name string) bool {
	var c karpv1.NodeClaim
	if err := l.client.Get(ctx, types.NamespacedName{Name: name}, &c); err != nil || c.DeletionTimestamp != nil {
		return false
	}
	v := claimOf(&c)
	return !v.Is(lifecycle.Initialized, lifecycle.True)
}

func (l *claims) arrive(claim, node string, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.arrived[claim].node == "" {
		l.arrived[claim] = arrival{node: node, at: now}
	}
	return l.arrived[claim].at
}

func (l *claims) arrival(claim string) arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.arrived[claim]
}

// openAll tells the pods of all nodes and then opens these in one go: a pod that is tried while its node is closed loses its hint and takes room
// elsewhere.
func (l *claims) openAll(ctx context.Context, p *pass, nodes map[string]*corev1.Node) {
	names := slices.Sorted(maps.Keys(nodes))
	if l.deal != nil && len(nodes) > 1 {
		zones := map[string]string{}
		for claim, n := range nodes {
			zones[claim] = zoneLabel(n)
		}
		l.deal(ctx, zones)
	}
	if l.hint != nil {
		for _, claim := range names {
			l.hint(ctx, claim, nodes[claim].Name)
		}
	}
	var group sync.WaitGroup
	for _, claim := range names {
		if claim == p.claim.Name {
			continue
		}
		group.Go(func() {
			n := nodes[claim]
			base := n.DeepCopy()
			if applyChange(n, lifecycle.NodeChange{Open: true}, nil) {
				if err := l.patch(ctx, n, base); err != nil { // its own claim tries again
					l.log.Debug("companion not opened", telemetry.Claim(claim), telemetry.Node(n.Name), "error", err)
				}
			}
		})
	}
	if err := l.changeNode(ctx, nodes[p.claim.Name], lifecycle.NodeChange{Open: true}, p.claim); err != nil {
		l.refuse(p, fmt.Errorf("opening node %s: %w", nodes[p.claim.Name].Name, err))
	}
	group.Wait()
}

// opening looks at what a closed node still waits for.
func (l *claims) opening(ctx context.Context, p *pass, n *corev1.Node) (lifecycle.Opening, error) {
	o := lifecycle.Opening{Now: p.now}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			o.Ready = c.LastTransitionTime.Time
		}
	}
	v := nodeOf(n)
	lasting := lifecycle.Lasting(p.view(), &v)
	passing := slices.ContainsFunc(v.Taints, func(t constraint.Taint) bool {
		return t.Key != lifecycle.UnschedulableTaint && !slices.Contains(lasting, t)
	})
	if o.Ready.IsZero() || passing {
		return o, nil
	}
	o.Clear = l.clearSince(p.claim.UID, p.now)
	missing, err := l.lacksDaemons(ctx, n, lasting)
	if err != nil {
		return o, fmt.Errorf("looking for the daemons of node %s: %w", n.Name, err)
	}
	o.Daemons = missing
	return o, nil
}

func (l *claims) clearSince(claim types.UID, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clear[claim].IsZero() {
		l.clear[claim] = now
	}
	return l.clear[claim]
}

// lacksDaemons reports whether a DaemonSet that runs on the node has no pod there. Taints are those that the node keeps.
func (l *claims) lacksDaemons(ctx context.Context, n *corev1.Node, taints []constraint.Taint) (bool, error) {
	var sets appsv1.DaemonSetList
	if err := l.client.List(ctx, &sets); err != nil {
		return false, err
	}
	var pods corev1.PodList
	if err := l.client.List(ctx, &pods, client.MatchingFields{podsByNode: n.Name}); err != nil {
		return false, err
	}
	placed := map[types.UID]bool{}
	for i := range pods.Items {
		for _, owner := range pods.Items[i].OwnerReferences {
			placed[owner.UID] = true
		}
	}
	var shaper kube.Shaper
	for i := range sets.Items {
		set := &sets.Items[i]
		if set.DeletionTimestamp == nil && !placed[set.UID] && runsOn(kube.NewDaemonSet(&shaper, set, nil).Shape, n.Labels, taints) {
			return true, nil
		}
	}
	return false, nil
}

// runsOn reports whether the controller of a DaemonSet makes a pod of the shape for a node (scheduling rules 8.2).
func runsOn(s *cluster.Shape, labels map[string]string, taints []constraint.Taint) bool {
	if _, bad := constraint.UntoleratedHard(taints, s.Tolerations); bad {
		return false
	}
	if _, ok := constraint.FromLabels(s.NodeSelector).Match(labels); !ok {
		return false
	}
	return len(s.Required) == 0 || slices.ContainsFunc(s.Required, func(t cluster.NodeTerm) bool {
		_, ok := constraint.Parse(t.Exprs).Match(labels)
		return ok
	})
}
