package agent

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// Cloud is all the agent asks of a cloud.
type Cloud interface {
	cloud.Provider
	cloud.Catalogs
	cloud.Classes
}

// shared is what the loops have in common.
type shared struct {
	cfg config.Config
	// client reads from the cache and writes to the API server; live reads from the API server.
	client client.Client
	live   client.Reader
	cloud  Cloud
	// drifts and news are further questions to the cloud; nil where it cannot answer.
	drifts cloud.Drifts
	news   News
	// feed keeps the cluster's state for decisions.
	feed    *kube.Feed
	clock   clock.PassiveClock
	log     *slog.Logger
	events  *events
	metrics *telemetry.Metrics
	fence   *fence
	// awaited versions of objects we wrote.
	awaited *awaited
	// clusterUID is the UID of namespace kube-system.
	clusterUID string
	// classHash is the static hash of a class as launches stamp it.
	classHash func(*awsv1.EC2NodeClass) string
	// hints tells that placements are written as nominations.
	hints bool
}

// Indexes of the cache.
const (
	podsByNode        = "spec.nodeName"
	nodesByProvider   = "spec.providerID"
	claimsByProvider  = "status.providerID"
	claimsByClass     = "spec.nodeClassRef.name"
	attachmentsByNode = "spec.nodeName"
	conflictRetry     = 100 * time.Millisecond
	staleRetry        = 250 * time.Millisecond
	eventSource       = "karpenter"
	classLabel        = awsv1.Group + "/ec2nodeclass"
)

// managedRef reports whether a node class reference is to a kind of ours.
func managedRef(ref karpv1.NodeClassRef) bool {
	return ref.Group == awsv1.Group && ref.Kind == awsv1.EC2NodeClassKind
}

// managedNode reports whether the node is one of ours: it carries the label of a node class.
func managedNode(n client.Object) bool {
	_, ok := n.GetLabels()[classLabel]
	return ok
}

// optimistic is a merge patch that the API server refuses if the object changed since base was read.
func optimistic(base client.Object) client.Patch {
	return client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
}

// patch writes what changed between base and obj, status aside, and notes the version written.
func (s *shared) patch(ctx context.Context, obj, base client.Object) error {
	if err := s.client.Patch(ctx, obj, optimistic(base)); err != nil {
		return err
	}
	s.awaited.Note(obj)
	return nil
}

// patchStatus writes what changed of the status between base and obj.
func (s *shared) patchStatus(ctx context.Context, obj, base client.Object) error {
	if err := s.client.Status().Patch(ctx, obj, optimistic(base)); err != nil {
		return err
	}
	s.awaited.Note(obj)
	return nil
}

// remove deletes an object with its UID as precondition. It reports whether the API server accepted the deletion; an object that is gone is
// no error.
func (s *shared) remove(ctx context.Context, obj client.Object, options ...client.DeleteOption) (bool, error) {
	uid := obj.GetUID()
	options = append(options, client.Preconditions{UID: &uid})
	err := s.client.Delete(ctx, obj, options...)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsConflict(err) && !s.still(ctx, obj, uid):
		return false, nil // another object has taken the name
	}
	return err == nil, err
}

// still reports whether the object, and not another one of its name, is there.
func (s *shared) still(ctx context.Context, obj client.Object, uid types.UID) bool {
	now := obj.DeepCopyObject().(client.Object)
	err := s.live.Get(ctx, client.ObjectKeyFromObject(obj), now)
	return err == nil && now.GetUID() == uid || client.IgnoreNotFound(err) != nil
}

// nodesWith returns the nodes that carry the provider ID. An empty one matches nothing.
func (s *shared) nodesWith(ctx context.Context, providerID string) ([]corev1.Node, error) {
	if providerID == "" {
		return nil, nil
	}
	var list corev1.NodeList
	err := s.client.List(ctx, &list, client.MatchingFields{nodesByProvider: providerID})
	return list.Items, err
}

// claimsWith returns the managed claims that carry the provider ID. An empty one matches nothing.
func (s *shared) claimsWith(ctx context.Context, providerID string) ([]karpv1.NodeClaim, error) {
	if providerID == "" {
		return nil, nil
	}
	var list karpv1.NodeClaimList
	if err := s.client.List(ctx, &list, client.MatchingFields{claimsByProvider: providerID}); err != nil {
		return nil, err
	}
	return managedClaims(list.Items), nil
}

func managedClaims(list []karpv1.NodeClaim) []karpv1.NodeClaim {
	var out []karpv1.NodeClaim
	for _, c := range list {
		if managedRef(c.Spec.NodeClassRef) {
			out = append(out, c)
		}
	}
	return out
}

// soften turns what is no failure into a plain repetition: a conflict means that somebody else wrote first, NotFound that the object is gone. A
// failure is repeated by the queue's own backoff; the runtime would ignore a result beside it, and say so in the log.
func soften(result reconcile.Result, err error) (reconcile.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return result, nil
}

// loop adapts a step function on one kind of object to the runtime: it reads the object, waits for our own writes, and softens the result.
func loop[T client.Object](s *shared, empty func() T, step func(context.Context, T) (reconcile.Result, error)) reconcile.Func {
	return func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		obj := empty()
		if err := s.client.Get(ctx, request.NamespacedName, obj); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		if s.awaited.Stale(obj) {
			return reconcile.Result{RequeueAfter: staleRetry}, nil
		}
		return soften(step(ctx, obj))
	}
}

// ownerOf is a reference to an object that waits for what it owns.
func ownerOf(obj client.Object, apiVersion, kind string) metav1.OwnerReference {
	block := true
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: obj.GetName(), UID: obj.GetUID(), BlockOwnerDeletion: &block}
}

// class reads the claim's node class; nil if there is none.
func (s *shared) class(ctx context.Context, name string) (*awsv1.EC2NodeClass, error) {
	var class awsv1.EC2NodeClass
	err := s.client.Get(ctx, types.NamespacedName{Name: name}, &class)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &class, err
}
