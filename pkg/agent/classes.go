package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

const (
	classFinalizer = awsv1.Group + "/termination"
	// classInterval is how often what a class refers to is looked up again (AWS rules 4).
	classInterval = time.Minute
	classWaiting  = 10 * time.Minute
)

// classes holds the loops that keep EC2NodeClasses: nodeclass and nodeclass.hash (AWS rules 3.4, 4).
type classes struct {
	*shared
	// hash is the static hash of a class, with what the cluster adds to it.
	hash func(*awsv1.EC2NodeClass) string
}

// Step resolves what a class refers to and writes its status, or ends the class.
func (l *classes) Step(ctx context.Context, class *awsv1.EC2NodeClass) (reconcile.Result, error) {
	if class.DeletionTimestamp != nil {
		return l.finalize(ctx, class)
	}
	if !controllerutil.ContainsFinalizer(class, classFinalizer) {
		base := class.DeepCopy()
		controllerutil.AddFinalizer(class, classFinalizer)
		if err := l.patch(ctx, class, base); err != nil {
			return reconcile.Result{}, err
		}
	}
	status, observeErr := l.cloud.Observe(ctx, class, l.clock.Now())
	if observeErr != nil {
		observeErr = fmt.Errorf("observing EC2NodeClass %s: %w", class.Name, observeErr)
	}
	base := class.DeepCopy()
	class.Status = status
	if !apiequality.Semantic.DeepEqual(base.Status, class.Status) {
		if err := l.patchStatus(ctx, class, base); err != nil {
			return reconcile.Result{}, errors.Join(observeErr, err)
		}
	}
	return reconcile.Result{RequeueAfter: classInterval}, observeErr
}

// finalize waits for the claims of the class and removes what it owns in the cloud.
func (l *classes) finalize(ctx context.Context, class *awsv1.EC2NodeClass) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(class, classFinalizer) {
		return reconcile.Result{}, nil
	}
	list, err := l.claimsOf(ctx, class.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(list) > 0 {
		var names []string
		for _, c := range list[:min(len(list), 10)] {
			names = append(names, c.Name)
		}
		l.events.Normal(class, "WaitingOnNodeClaimTermination", fmt.Sprintf("waiting for %d claims to end: %s", len(list), strings.Join(names, ", ")))
		return reconcile.Result{RequeueAfter: classWaiting}, nil
	}
	done, err := l.cloud.Release(ctx, class)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("releasing what EC2NodeClass %s owns: %w", class.Name, err)
	}
	if !done {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	base := class.DeepCopy()
	controllerutil.RemoveFinalizer(class, classFinalizer)
	return reconcile.Result{}, client.IgnoreNotFound(l.client.Patch(ctx, class, optimistic(base)))
}

func (l *classes) claimsOf(ctx context.Context, class string) ([]karpv1.NodeClaim, error) {
	var list karpv1.NodeClaimList
	err := l.client.List(ctx, &list, client.MatchingFields{claimsByClass: class})
	return managedClaims(list.Items), err
}

// Hash stamps the class with its static hash. Where another version is stored, its claims are stamped first.
func (l *classes) Hash(ctx context.Context, class *awsv1.EC2NodeClass) (reconcile.Result, error) {
	hash := l.hash(class)
	if class.Annotations[awsv1.HashVersionAnnotation] != awsv1.HashVersion {
		list, err := l.claimsOf(ctx, class.Name)
		if err != nil {
			return reconcile.Result{}, err
		}
		if err := l.restamp(ctx, list, awsv1.HashAnnotation, awsv1.HashVersionAnnotation, hash); err != nil {
			return reconcile.Result{}, err
		}
	}
	if class.Annotations[awsv1.HashVersionAnnotation] == awsv1.HashVersion && class.Annotations[awsv1.HashAnnotation] == hash {
		return reconcile.Result{}, nil
	}
	base := class.DeepCopy()
	class.Annotations = annotate(annotate(class.Annotations, awsv1.HashAnnotation, hash), awsv1.HashVersionAnnotation, awsv1.HashVersion)
	return reconcile.Result{}, l.patch(ctx, class, base)
}
