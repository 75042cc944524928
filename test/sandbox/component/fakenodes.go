package component

import (
	"context"
	"slices"
	"strings"
	"sync"

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

func isFake(node *corev1.Node) bool { return node.Annotations[FakeNodeAnnotation] == FakeNodeValue }

// onlyFakeNodes is a client to whose user a node without the annotation does not exist, and who is told by an event of every
// node that goes. kwok can select nodes by annotation itself, but it goes on with a node that loses the annotation, and with
// one that went while its watch was interrupted.
type onlyFakeNodes struct {
	kubernetes.Interface
	seen *seenNodes
}

func newOnlyFakeNodes(client kubernetes.Interface) onlyFakeNodes {
	return onlyFakeNodes{client, &seenNodes{nodes: map[string]*corev1.Node{}}}
}

func (o onlyFakeNodes) CoreV1() typedv1.CoreV1Interface {
	return fakeNodesCore{o.Interface.CoreV1(), o.seen}
}

type fakeNodesCore struct {
	typedv1.CoreV1Interface
	seen *seenNodes
}

func (c fakeNodesCore) Nodes() typedv1.NodeInterface {
	return fakeNodes{c.CoreV1Interface.Nodes(), c.seen}
}

type fakeNodes struct {
	typedv1.NodeInterface
	seen *seenNodes
}

// List returns the nodes with the annotation, and those that went since they were last seen: the watch that follows the list
// says that they are gone.
func (n fakeNodes) List(ctx context.Context, opts metav1.ListOptions) (*corev1.NodeList, error) {
	opts.Limit, opts.Continue = 0, "" // what is missing is seen in a whole list only
	list, err := n.NodeInterface.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(node corev1.Node) bool { return !isFake(&node) })
	if opts.FieldSelector == "" {
		list.Items = append(list.Items, n.seen.listed(list.Items)...)
	}
	return list, nil
}

func (n fakeNodes) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	inner, err := n.NodeInterface.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	w := &fakeNodeWatch{inner: inner, seen: n.seen, events: make(chan watch.Event), stop: make(chan struct{})}
	go w.run()
	return w, nil
}

// seenNodes are the nodes that kwok has been told of and not yet told that they are gone.
type seenNodes struct {
	mu     sync.Mutex
	nodes  map[string]*corev1.Node
	ghosts []string // of nodes, those missing in the last list
}

// listed takes in a whole list and returns the nodes that were seen before and are not in it.
func (s *seenNodes) listed(items []corev1.Node) []corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	present := map[string]bool{}
	for i := range items {
		present[items[i].Name] = true
		s.nodes[items[i].Name] = items[i].DeepCopy()
	}
	s.ghosts = nil
	var gone []corev1.Node
	for name, node := range s.nodes {
		if !present[name] {
			s.ghosts = append(s.ghosts, name)
			gone = append(gone, *node.DeepCopy())
		}
	}
	slices.Sort(s.ghosts)
	slices.SortFunc(gone, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return gone
}

// takeGhosts returns the nodes that a watch has to report gone, once.
func (s *seenNodes) takeGhosts() []*corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*corev1.Node
	for _, name := range s.ghosts {
		out = append(out, s.nodes[name])
	}
	s.ghosts = nil
	return out
}

func (s *seenNodes) put(node *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[node.Name] = node.DeepCopy()
}

func (s *seenNodes) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, name)
}

// fakeNodeWatch reports first the nodes that went before it began.
type fakeNodeWatch struct {
	inner  watch.Interface
	seen   *seenNodes
	events chan watch.Event
	stop   chan struct{}
	once   sync.Once
}

func (w *fakeNodeWatch) ResultChan() <-chan watch.Event { return w.events }

func (w *fakeNodeWatch) Stop() {
	w.once.Do(func() { close(w.stop) })
	w.inner.Stop()
}

func (w *fakeNodeWatch) run() {
	defer close(w.events)
	for _, node := range w.seen.takeGhosts() {
		if !w.gone(node) {
			return
		}
	}
	for event := range w.inner.ResultChan() {
		if !w.pass(event) {
			return
		}
	}
}

// pass reports whether to go on.
func (w *fakeNodeWatch) pass(event watch.Event) bool {
	node, ok := event.Object.(*corev1.Node)
	switch {
	case !ok || event.Type == watch.Bookmark: // or an error with a status
		return w.send(event)
	case event.Type == watch.Deleted || event.Type == watch.Modified && !isFake(node):
		return w.gone(node)
	case !isFake(node):
		return true
	}
	w.seen.put(node)
	return w.send(event)
}

func (w *fakeNodeWatch) gone(node *corev1.Node) bool {
	node = node.DeepCopy()
	// kwok looks at the annotation of a deleted node too.
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, FakeNodeAnnotation, FakeNodeValue)
	if !w.send(watch.Event{Type: watch.Deleted, Object: node}) {
		return false
	}
	w.seen.forget(node.Name)
	return true
}

func (w *fakeNodeWatch) send(event watch.Event) bool {
	select {
	case w.events <- event:
		return true
	case <-w.stop:
		return false
	}
}
