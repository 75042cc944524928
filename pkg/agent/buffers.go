package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	autoscalingv1beta1 "github.com/karp-sh/karp/pkg/apis/autoscaling/v1beta1"
	"github.com/karp-sh/karp/pkg/apis/conditions"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/buffer"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/plan"
)

// bufferInterval is how often a buffer is counted again: workloads scale without touching it (scheduling rules 24.1).
const bufferInterval = 30 * time.Second

// buffers is the loop capacitybuffer (gate CapacityBuffer): it finds what a buffer's copies are made of, counts them, and asks for a pass.
type buffers struct{ *shared }

// Step resolves one buffer.
func (l *buffers) Step(ctx context.Context, b *autoscalingv1beta1.CapacityBuffer) (reconcile.Result, error) {
	if b.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	resolved, resolveErr := kube.ResolveBuffer(b, func(obj client.Object, namespace, name string) (bool, error) {
		err := l.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, obj)
		return err == nil, client.IgnoreNotFound(err)
	})
	base := b.DeepCopy()
	applyResolution(b, resolved, l.clock.Now())
	if !apiequality.Semantic.DeepEqual(base.Status, b.Status) {
		if err := l.patchStatus(ctx, b, base); err != nil {
			return reconcile.Result{}, errors.Join(resolveErr, err)
		}
	}
	if resolveErr != nil {
		return reconcile.Result{}, fmt.Errorf("resolving CapacityBuffer %s/%s: %w", b.Namespace, b.Name, resolveErr)
	}
	l.feed.Trigger(string(b.UID))
	return reconcile.Result{RequeueAfter: bufferInterval}, nil
}

// applyResolution writes what a buffer comes to into its status.
func applyResolution(b *autoscalingv1beta1.CapacityBuffer, r kube.Resolution, now time.Time) {
	st := &b.Status
	st.ProvisioningStrategy = b.Spec.ProvisioningStrategy
	if !r.Ready {
		setBuffer(b, now, conditions.False(autoscalingv1beta1.ConditionReadyForProvisioning, r.Reason, r.Message))
		return
	}
	st.Replicas, st.PodTemplateRef, st.PodTemplateGeneration = &r.Replicas, nil, nil
	if r.Template != "" {
		st.PodTemplateRef, st.PodTemplateGeneration = &autoscalingv1beta1.LocalObjectRef{Name: r.Template}, &r.Generation
	}
	setBuffer(b, now, conditions.TrueBecause(autoscalingv1beta1.ConditionReadyForProvisioning, r.Reason, r.Message))
}

// bufferRows are the controllers of the gate CapacityBuffer.
func bufferRows(s *shared) []row {
	if !s.cfg.Gates.CapacityBuffer {
		return nil
	}
	empty := func() *autoscalingv1beta1.CapacityBuffer { return &autoscalingv1beta1.CapacityBuffer{} }
	return []row{{
		name: "capacitybuffer", kind: empty(), step: loop(s, empty, (&buffers{s}).Step), only: predicate.GenerationChangedPredicate{}, workers: 10,
		watches: []watch{{kind: &corev1.PodTemplate{}, to: s.buffersOfTemplate}}, from: 100 * time.Millisecond, to: time.Minute,
	}}
}

// buffersOfTemplate wakes the buffers that a PodTemplate is for.
func (s *shared) buffersOfTemplate(ctx context.Context, o client.Object) []reconcile.Request {
	var list autoscalingv1beta1.CapacityBufferList
	if err := s.client.List(ctx, &list, client.InNamespace(o.GetNamespace())); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if ref := list.Items[i].Spec.PodTemplateRef; ref != nil && ref.Name == o.GetName() {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// hold takes from a pass what it says about capacity buffers: which nodes keep room for them, and whether each has its room (scheduling rules 24.4).
// It is done after every pass, also one with nothing to place.
func (l *provisioner) hold(ctx context.Context, s *cluster.Snapshot, p *plan.Plan) error {
	if !l.cfg.Gates.CapacityBuffer {
		return nil
	}
	l.feed.Hold(buffer.Held(s, p))
	var list autoscalingv1beta1.CapacityBufferList
	if err := l.client.List(ctx, &list); err != nil {
		return fmt.Errorf("listing capacity buffers: %w", err)
	}
	outcomes := buffer.Outcomes(s, p)
	var errs []error
	for i := range list.Items {
		b := &list.Items[i]
		if b.DeletionTimestamp != nil {
			continue
		}
		if err := l.judge(ctx, b, outcomes[b.Namespace+"/"+b.Name]); err != nil {
			errs = append(errs, fmt.Errorf("writing the status of CapacityBuffer %s/%s: %w", b.Namespace, b.Name, err))
		}
	}
	return errors.Join(errs...)
}

// judge writes the condition Provisioning. A buffer that somebody else has written since is judged by the next pass.
func (l *provisioner) judge(ctx context.Context, b *autoscalingv1beta1.CapacityBuffer, o buffer.Outcome) error {
	ready, replicas := conditions.IsTrue(b.Status.Conditions, autoscalingv1beta1.ConditionReadyForProvisioning), int32(0)
	if b.Status.Replicas != nil {
		replicas = *b.Status.Replicas
	}
	state, ok := buffer.Judge(ready, replicas, o)
	if !ok {
		return nil
	}
	c := conditions.False(autoscalingv1beta1.ConditionProvisioning, state.Reason, state.Message)
	if state.OK {
		c = conditions.TrueBecause(autoscalingv1beta1.ConditionProvisioning, state.Reason, state.Message)
	}
	base := b.DeepCopy()
	setBuffer(b, l.clock.Now(), c)
	if conditions.Equal(base.Status.Conditions, b.Status.Conditions) {
		return nil
	}
	err := l.patchStatus(ctx, b, base)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
