package component

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// A node whose kubelet is simulated carries this annotation. When it is taken away, or changed, the kubelet stops: no more
// heartbeats, its pods stay as they are, and the node controller finds the node unreachable.
const (
	FakeNodeAnnotation = "kwok.x-k8s.io/node"
	FakeNodeValue      = "fake"
)

// onlyFakeNodes is a client to whose user a node without the annotation does not exist. kwok itself can select nodes by
// annotation, but it goes on with a node that loses it.
type onlyFakeNodes struct{ kubernetes.Interface }

func (o onlyFakeNodes) CoreV1() typedv1.CoreV1Interface { return fakeNodesCore{o.Interface.CoreV1()} }

type fakeNodesCore struct{ typedv1.CoreV1Interface }

func (c fakeNodesCore) Nodes() typedv1.NodeInterface { return fakeNodes{c.CoreV1Interface.Nodes()} }

type fakeNodes struct{ typedv1.NodeInterface }

func (n fakeNodes) List(ctx context.Context, opts metav1.ListOptions) (*corev1.NodeList, error) {
	list, err := n.NodeInterface.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	kept := list.Items[:0]
	for _, node := range list.Items {
		if isFake(&node) {
			kept = append(kept, node)
		}
	}
	list.Items = kept
	return list, nil
}

func (n fakeNodes) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := n.NodeInterface.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		node, ok := e.Object.(*corev1.Node)
		switch {
		case !ok: // bookmark's or error's own type
			return e, true
		case e.Type == watch.Bookmark:
			return e, true
		case e.Type == watch.Deleted || e.Type == watch.Modified && !isFake(node):
			// kwok looks at the annotation of a deleted node too.
			gone := node.DeepCopy()
			metav1.SetMetaDataAnnotation(&gone.ObjectMeta, FakeNodeAnnotation, FakeNodeValue)
			return watch.Event{Type: watch.Deleted, Object: gone}, true
		}
		return e, isFake(node)
	}), nil
}

func isFake(node *corev1.Node) bool { return node.Annotations[FakeNodeAnnotation] == FakeNodeValue }
