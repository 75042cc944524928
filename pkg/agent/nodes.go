package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// nodes is the loop node.termination: it drains a deleted node, waits for its volumes, terminates its instance and lets the node go
// (lifecycle rules 17.4).
type nodes struct {
	*shared
	claims *claims
	queue  *evictions
}

// Step handles one node.
func (l *nodes) Step(ctx context.Context, n *corev1.Node) (reconcile.Result, error) {
	if !managedNode(n) || n.DeletionTimestamp == nil || !controllerutil.ContainsFinalizer(n, lifecycle.Finalizer) {
		return reconcile.Result{}, nil
	}
	claim, err := l.claimOf(ctx, n)
	if err != nil {
		return reconcile.Result{}, err
	}
	if claim != nil && l.awaited.Stale(claim) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	if claim != nil && claim.DeletionTimestamp == nil {
		if _, err := l.remove(ctx, claim); err != nil {
			return reconcile.Result{}, fmt.Errorf("deleting claim %s of node %s: %w", claim.Name, n.Name, err)
		}
	}
	if gone, err := l.dead(ctx, n); gone || err != nil {
		return reconcile.Result{}, err
	}
	deadline, err := l.deadline(n, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := l.cordon(ctx, n); err != nil {
		return reconcile.Result{}, err
	}
	return l.depart(ctx, n, claim, deadline)
}

// claimOf returns the one claim that belongs to the node; none or several give nil.
func (l *nodes) claimOf(ctx context.Context, n *corev1.Node) (*karpv1.NodeClaim, error) {
	list, err := l.claimsWith(ctx, n.Spec.ProviderID)
	if err != nil || len(list) != 1 {
		return nil, err
	}
	return &list[0], nil
}

// dead lets a node go at once whose kubelet is silent and whose instance no longer exists.
func (l *nodes) dead(ctx context.Context, n *corev1.Node) (bool, error) {
	v := nodeOf(n)
	id, ok := instanceID(n.Spec.ProviderID)
	if v.Ready == lifecycle.True || !ok {
		return false, nil
	}
	_, err := l.cloud.Get(ctx, id)
	var notFound *cloud.NotFound
	switch {
	case errors.As(err, &notFound):
		return true, l.release(ctx, n)
	case err != nil:
		return false, fmt.Errorf("reading instance %s of node %s: %w", id, n.Name, err)
	}
	l.claims.saw(n.Spec.ProviderID)
	return false, nil
}

// deadline reads the node's hard deadline; zero if there is none.
func (l *nodes) deadline(n *corev1.Node, claim *karpv1.NodeClaim) (time.Time, error) {
	if claim == nil {
		return time.Time{}, nil
	}
	v := claimOf(claim)
	at, ok, err := lifecycle.Deadline(&v)
	if ok {
		l.events.Warn(n, "TerminationGracePeriodExpiring", "all pods will be deleted by "+at.Format(time.RFC3339))
	}
	return at, err
}

// cordon taints the node and takes it out of load balancers.
func (l *nodes) cordon(ctx context.Context, n *corev1.Node) error {
	v := nodeOf(n)
	base := n.DeepCopy()
	if !applyChange(n, lifecycle.Cordon(&v), nil) {
		return nil
	}
	if err := l.patch(ctx, n, base); err != nil {
		return fmt.Errorf("tainting node %s: %w", n.Name, err)
	}
	l.log.Info("tainted node", telemetry.Node(n.Name), "taint.Key", lifecycle.DisruptedTaint, "taint.Effect", corev1.TaintEffectNoSchedule)
	return nil
}

// depart runs the phases drain, volumes and instance as far as they go.
func (l *nodes) depart(ctx context.Context, n *corev1.Node, claim *karpv1.NodeClaim, deadline time.Time) (reconcile.Result, error) {
	d := lifecycle.Departure{Deadline: deadline, Now: l.clock.Now()}
	if claim != nil {
		v := claimOf(claim)
		d.Claim = &v
	}
	var err error
	if d.Pods, err = l.pods(ctx, n.Name); err != nil {
		return reconcile.Result{}, err
	}
	if d.Attachments, err = l.attachments(ctx, n.Name); err != nil {
		return reconcile.Result{}, err
	}
	step := lifecycle.Depart(d)
	l.announce(n, step)
	for _, key := range step.Drain.Enqueue {
		l.queue.Add(key, n.Name, deadline)
	}
	gone, phaseErr := step.Phase == lifecycle.PhaseDone, error(nil)
	if step.Phase == lifecycle.PhaseInstance {
		if gone, phaseErr = l.claims.terminate(ctx, d.Claim); phaseErr == nil {
			step.Conditions = append(step.Conditions, lifecycle.InstanceCalled())
		}
	}
	if err := l.note(ctx, claim, step.Conditions, d.Now); err != nil || phaseErr != nil {
		return reconcile.Result{}, errors.Join(err, phaseErr)
	}
	if !gone {
		return reconcile.Result{RequeueAfter: step.After}, nil
	}
	return reconcile.Result{}, l.release(ctx, n)
}

// announce publishes what the node waits for.
func (l *nodes) announce(n *corev1.Node, step lifecycle.DepartureStep) {
	if step.Drain.Waiting > 0 {
		l.events.Warn(n, "FailedDraining", "waiting for "+strconv.Itoa(step.Drain.Waiting)+" pods to leave the node", "waiting")
	}
	if step.Phase == lifecycle.PhaseVolumes {
		names := step.Blocking[:min(len(step.Blocking), 5)]
		l.events.Normal(n, "AwaitingVolumeDetachment", "waiting for volume attachments to be deleted: "+strings.Join(names, ", "))
	}
}

// note writes conditions to the claim, once, if they change anything.
func (l *nodes) note(ctx context.Context, claim *karpv1.NodeClaim, list []lifecycle.Condition, now time.Time) error {
	if claim == nil || len(list) == 0 {
		return nil
	}
	base := claim.DeepCopy()
	setClaim(claim, now, list...)
	if apiequality.Semantic.DeepEqual(base.Status, claim.Status) {
		return nil
	}
	if err := l.patchStatus(ctx, claim, base); err != nil {
		return err
	}
	was, is := findCondition(base.Status.Conditions, lifecycle.Drained), findCondition(claim.Status.Conditions, lifecycle.Drained)
	if statusOf(is) == lifecycle.True && statusOf(was) != lifecycle.True {
		l.metrics.NodesDrained.WithLabelValues(poolLabel(claim)).Inc()
	}
	return nil
}

// release removes our finalizer from the node, and ours only.
func (l *nodes) release(ctx context.Context, n *corev1.Node) error {
	base := n.DeepCopy()
	if !controllerutil.RemoveFinalizer(n, lifecycle.Finalizer) {
		return nil
	}
	if err := l.client.Patch(ctx, n, optimistic(base)); err != nil {
		return client.IgnoreNotFound(err)
	}
	l.countNodeEnd(n)
	l.log.Info("deleted node", telemetry.Node(n.Name), "provider-id", n.Spec.ProviderID)
	return nil
}

// pods returns the pods of the node with the volumes that those use which stay.
func (l *nodes) pods(ctx context.Context, node string) ([]lifecycle.Pod, error) {
	var list corev1.PodList
	if err := l.client.List(ctx, &list, client.MatchingFields{podsByNode: node}); err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	out := make([]lifecycle.Pod, 0, len(list.Items))
	for i := range list.Items {
		volumes, err := l.volumes(ctx, &list.Items[i])
		if err != nil {
			return nil, err
		}
		out = append(out, podOf(&list.Items[i], volumes))
	}
	return out, nil
}

// volumes returns the persistent volumes that the pod uses. A claim that does not exist is skipped.
func (l *nodes) volumes(ctx context.Context, p *corev1.Pod) ([]string, error) {
	var out []string
	for _, v := range p.Spec.Volumes {
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = p.Name + "-" + v.Name
		default:
			continue
		}
		var claim corev1.PersistentVolumeClaim
		err := l.client.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: name}, &claim)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading volume claim %s/%s: %w", p.Namespace, name, err)
		case claim.Spec.VolumeName != "":
			out = append(out, claim.Spec.VolumeName)
		}
	}
	return out, nil
}

func (l *nodes) attachments(ctx context.Context, node string) ([]lifecycle.Attachment, error) {
	var list storagev1.VolumeAttachmentList
	if err := l.client.List(ctx, &list, client.MatchingFields{attachmentsByNode: node}); err != nil {
		return nil, fmt.Errorf("listing the volume attachments of node %s: %w", node, err)
	}
	var out []lifecycle.Attachment
	for _, a := range list.Items {
		entry := lifecycle.Attachment{Name: a.Name}
		if v := a.Spec.Source.PersistentVolumeName; v != nil {
			entry.Volume = *v
		}
		out = append(out, entry)
	}
	return out, nil
}
