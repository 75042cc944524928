package agent

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

// hydration holds the loops nodeclaim.hydration and node.hydration: claims and nodes carry the label of their node class, whatever somebody
// did to it, because it is what makes a node ours (lifecycle rules 13).
type hydration struct{ *shared }

// Claim labels one claim.
func (l *hydration) Claim(ctx context.Context, c *karpv1.NodeClaim) (reconcile.Result, error) {
	if !managedRef(c.Spec.NodeClassRef) {
		return reconcile.Result{}, nil
	}
	return l.label(ctx, c, c.Spec.NodeClassRef.Name)
}

// Node labels the node of exactly one claim.
func (l *hydration) Node(ctx context.Context, n *corev1.Node) (reconcile.Result, error) {
	list, err := l.claimsWith(ctx, n.Spec.ProviderID)
	if err != nil || len(list) != 1 {
		return reconcile.Result{}, err
	}
	return l.label(ctx, n, list[0].Spec.NodeClassRef.Name)
}

func (l *hydration) label(ctx context.Context, obj client.Object, class string) (reconcile.Result, error) {
	if obj.GetLabels()[classLabel] == class {
		return reconcile.Result{}, nil
	}
	base := obj.DeepCopyObject().(client.Object)
	obj.SetLabels(annotate(obj.GetLabels(), classLabel, class))
	return reconcile.Result{}, l.patch(ctx, obj, base)
}

// nodesOfClaim wakes the nodes that belong to a claim.
func (s *shared) nodesOfClaim(ctx context.Context, o client.Object) []reconcile.Request {
	list, err := s.nodesWith(ctx, o.(*karpv1.NodeClaim).Status.ProviderID)
	if err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list[i])})
	}
	return out
}
