package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// hint realises the plan's placements on nodes that exist: the pods are told so, and with placement hints the scheduler too, by their
// nomination (scheduling rules 26). A nomination that the scheduler made for preemption is never touched; one of ours that the plan no
// longer holds is cleared.
func (l *provisioner) hint(ctx context.Context, s *cluster.Snapshot, p *plan.Plan) error {
	target := map[string]string{}
	var chosen []string
	for _, place := range p.Placements {
		chosen = append(chosen, place.Node, place.Claim)
		target[place.Pod] = place.Node
		name := "node/" + place.Node
		if place.Node == "" {
			name = "nodeclaim/" + place.Claim
		}
		l.nominate(ctx, []string{place.Pod}, name)
	}
	l.feed.Nominate(l.clock.Now().Add(commandNomination), chosen...)
	if !s.Settings.PlacementHints {
		return nil
	}
	closed := map[string]bool{}
	for _, n := range s.Nodes {
		_, closed[n.Name] = n.Annotations[lifecycle.OpeningAnnotation]
	}
	var errs []error
	for _, pod := range s.Pods {
		if closed[target[pod.UID]] {
			continue // it is told when the node opens: until then the scheduler would take the hint back
		}
		if pod.Node != "" || pod.Buffer != "" || pod.Nominated != "" && !pod.NominatedByKarp {
			continue
		}
		if want := target[pod.UID]; want != pod.Nominated {
			errs = append(errs, l.nominateNode(ctx, pod.UID, want))
		}
	}
	return errors.Join(errs...)
}

// hintClaim tells the scheduler which pods the node of a claim is for, just before the node takes pods: a nominated pod keeps its room there.
// Earlier would be in vain: the scheduler takes back the nomination of a pod that it tries while the node is closed. A hint that is lost or
// cannot be written costs the plan's tightness and nothing else.
func (l *provisioner) hintClaim(ctx context.Context, claim, node string) {
	if !l.hints {
		return
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, hintWriters)
	for _, uid := range l.verdicts.PodsOf(claim) {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if err := l.nominateNode(ctx, uid, node); err != nil {
				l.log.Debug("placement hint not written", telemetry.Claim(claim), telemetry.Node(node), "error", err)
			}
		})
	}
	group.Wait()
}

// hintWriters is how many hints for one node are written at a time.
const hintWriters = 10

// nominateNode writes or clears the pod's nomination, on condition that the pod has not changed. If it has, because the scheduler has just tried
// it, the newest version is taken. A nomination that the scheduler made for preemption is left alone.
func (l *provisioner) nominateNode(ctx context.Context, uid, node string) error {
	pod := l.verdicts.Pod(ctx, uid)
	for again := true; pod != nil && pod.Spec.NodeName == ""; again = false {
		if have := pod.Status.NominatedNodeName; have == node || have != "" && !kube.NominatedByKarp(pod) {
			return nil
		}
		base := pod.DeepCopy()
		pod.Status.NominatedNodeName = node
		err := l.client.Status().Patch(ctx, pod, optimistic(base), client.FieldOwner(kube.FieldManager))
		if apierrors.IsConflict(err) && again {
			err = l.live.Get(ctx, client.ObjectKeyFromObject(base), pod)
			if err == nil && string(pod.UID) == uid {
				continue
			}
		}
		if _, soft := soften(reconcile.Result{}, err); soft != nil {
			return fmt.Errorf("nominating node %s for pod %s/%s: %w", node, base.Namespace, base.Name, err)
		}
		return nil
	}
	return nil
}

// rehint is the loop pod.hint: it gives a pod its nomination back which the scheduler has taken because the pod did not fit anywhere at that moment.
// Pods that are spread find their node closed until others of them have been bound, and without a nomination nobody keeps their room meanwhile.
func (l *provisioner) rehint(ctx context.Context, pod *corev1.Pod) (reconcile.Result, error) {
	if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "" || pod.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	a, _, _, ok := l.verdicts.Of(client.ObjectKeyFromObject(pod))
	if !ok || a.uid != string(pod.UID) || a.verdict != nil {
		return reconcile.Result{}, nil
	}
	node := a.node
	if node == "" && a.claim != "" {
		var c karpv1.NodeClaim
		if err := l.client.Get(ctx, client.ObjectKey{Name: a.claim}, &c); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		node = c.Status.NodeName
	}
	if node == "" {
		return reconcile.Result{}, nil
	}
	var n corev1.Node
	if err := l.client.Get(ctx, client.ObjectKey{Name: node}, &n); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if n.Spec.Unschedulable || n.DeletionTimestamp != nil {
		return reconcile.Result{}, nil // it is told when the node opens
	}
	return reconcile.Result{}, l.nominateNode(ctx, a.uid, node)
}

// lostHint lets pass pods that wait and whose nomination by us was taken back.
func lostHint() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
			return was.Status.NominatedNodeName != "" && kube.NominatedByKarp(was) && is.Status.NominatedNodeName == "" && is.Spec.NodeName == ""
		},
	}
}

// hintRows are the controllers of placement hints.
func hintRows(s *shared, l *provisioner) []row {
	if !s.hints {
		return nil
	}
	pod := func() *corev1.Pod { return &corev1.Pod{} }
	return []row{{name: "pod.hint", kind: pod(), step: loop(s, pod, l.rehint), only: lostHint(), workers: hintWriters, from: 10 * time.Millisecond, to: time.Second}}
}
