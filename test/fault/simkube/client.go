package simkube

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Fault is what happens to a write.
type Fault string

// The faults. Lost takes effect and is answered by an error, Dropped takes none; CrashBefore and CrashAfter kill the process that writes.
const (
	None        Fault = ""
	Conflict    Fault = "conflict"
	NotFound    Fault = "not-found"
	Internal    Fault = "500"
	Throttled   Fault = "429"
	Lost        Fault = "lost"
	Dropped     Fault = "dropped"
	CrashBefore Fault = "crash-before"
	CrashAfter  Fault = "crash-after"
)

// Write is one write: its site, such as "PATCH nodeclaims/status", and the object.
type Write struct {
	Site   string
	Object client.Object
}

// ErrDead is what a killed process gets for whatever it does.
var ErrDead = errors.New("this process was killed")

// Client is one process's connection. Its methods are those of a client that reads from a cache.
type Client struct {
	server *Server
	// Before decides about each write of this process; nil lets all pass.
	Before func(Write) Fault
	// Seen is told each event once the cache shows it.
	Seen func(Event)

	cache    map[schema.GroupVersionKind]map[types.NamespacedName]client.Object
	pending  []Event
	indexes  map[schema.GroupVersionKind]map[string]client.IndexerFunc
	handlers map[string][]toolscache.ResourceEventHandler
	frozen   map[string]bool
	dead     bool
	// Unsynced tells handlers that the first list was not delivered yet.
	Unsynced bool
}

var _ client.Client = (*Client)(nil)

// Connect starts a process: its cache holds all there is. Events are delivered by Deliver.
func (s *Server) Connect() *Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &Client{
		server: s, cache: map[schema.GroupVersionKind]map[types.NamespacedName]client.Object{}, indexes: map[schema.GroupVersionKind]map[string]client.IndexerFunc{},
		handlers: map[string][]toolscache.ResourceEventHandler{}, frozen: map[string]bool{},
	}
	for _, gvk := range s.kinds() {
		for _, key := range s.keys(gvk) {
			c.pending = append(c.pending, Event{Kind: gvk.Kind, New: s.objects[gvk][key]})
		}
	}
	s.clients = append(s.clients, c)
	return c
}

// Kill ends the process: whatever it tries from now on fails.
func (c *Client) Kill() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.kill()
}

func (c *Client) kill() {
	c.dead = true
	for i, other := range c.server.clients {
		if other == c {
			c.server.clients = append(c.server.clients[:i:i], c.server.clients[i+1:]...)
			return
		}
	}
}

// Dead reports whether the process was killed.
func (c *Client) Dead() bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.dead
}

// Freeze stops the delivery of events of a kind, or resumes it.
func (c *Client) Freeze(kind string, on bool) { c.frozen[kind] = on }

// Lag is the number of events not yet delivered.
func (c *Client) Lag() int {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return len(c.pending)
}

// Deliver shows the cache up to n events, in order, and tells handlers. It returns how many.
func (c *Client) Deliver(n int) int {
	var rest, due []Event
	c.server.mu.Lock()
	for _, e := range c.pending {
		if len(due) < n && !c.frozen[e.Kind] {
			due = append(due, e)
		} else {
			rest = append(rest, e)
		}
	}
	c.pending = rest
	c.server.mu.Unlock()
	for _, e := range due {
		c.show(e)
	}
	return len(due)
}

func (c *Client) show(e Event) {
	gvk, key := c.server.kindOf(e.Object()), client.ObjectKeyFromObject(e.Object())
	if c.cache[gvk] == nil {
		c.cache[gvk] = map[types.NamespacedName]client.Object{}
	}
	old := c.cache[gvk][key]
	if e.New == nil {
		delete(c.cache[gvk], key)
	} else {
		c.cache[gvk][key] = e.New
	}
	for _, h := range c.handlers[e.Kind] {
		switch {
		case e.New == nil:
			h.OnDelete(copyOf(e.Old))
		case old == nil:
			h.OnAdd(copyOf(e.New), false)
		default:
			h.OnUpdate(copyOf(old), copyOf(e.New))
		}
	}
	if c.Seen != nil {
		c.Seen(Event{Kind: e.Kind, Old: old, New: e.New})
	}
}

// IndexField implements client.FieldIndexer.
func (c *Client) IndexField(_ context.Context, obj client.Object, field string, value client.IndexerFunc) error {
	gvk := c.server.kindOf(obj)
	if c.indexes[gvk] == nil {
		c.indexes[gvk] = map[string]client.IndexerFunc{}
	}
	c.indexes[gvk][field] = value
	return nil
}

// Get implements client.Reader on the cache.
func (c *Client) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if c.Dead() {
		return ErrDead
	}
	gvk := c.server.kindOf(obj)
	have := c.cache[gvk][key]
	if have == nil {
		return apierrors.NewNotFound(resource(gvk), key.Name)
	}
	assign(obj, have)
	return nil
}

// List implements client.Reader on the cache.
func (c *Client) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if c.Dead() {
		return ErrDead
	}
	return fill(c.server, list, c.cache, c.indexes, opts)
}

// fill puts the objects that match into a list.
func fill(s *Server, list client.ObjectList, from map[schema.GroupVersionKind]map[types.NamespacedName]client.Object,
	indexes map[schema.GroupVersionKind]map[string]client.IndexerFunc, opts []client.ListOption,
) error {
	gvk := s.kindOf(list)
	gvk.Kind = gvk.Kind[:len(gvk.Kind)-len("List")]
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	var items []runtime.Object
	for _, key := range sortedKeys(from[gvk]) {
		obj := from[gvk][key]
		ok, err := matches(obj, &o, indexes[gvk])
		if err != nil {
			return err
		}
		if ok {
			items = append(items, copyOf(obj))
		}
	}
	return meta.SetList(list, items)
}

func matches(obj client.Object, o *client.ListOptions, indexes map[string]client.IndexerFunc) (bool, error) {
	if o.Namespace != "" && obj.GetNamespace() != o.Namespace {
		return false, nil
	}
	if o.LabelSelector != nil && !o.LabelSelector.Matches(labelSet(obj.GetLabels())) {
		return false, nil
	}
	if o.FieldSelector == nil {
		return true, nil
	}
	for _, r := range o.FieldSelector.Requirements() {
		index := indexes[r.Field]
		if index == nil {
			return false, fmt.Errorf("no index on %s", r.Field)
		}
		found := false
		for _, v := range index(obj) {
			found = found || v == r.Value
		}
		if !found {
			return false, nil
		}
	}
	return true, nil
}

// labelSet implements labels.Labels.
type labelSet map[string]string

func (l labelSet) Has(k string) bool              { _, ok := l[k]; return ok }
func (l labelSet) Get(k string) string            { return l[k] }
func (l labelSet) Lookup(k string) (string, bool) { v, ok := l[k]; return v, ok }

// Live reads past the cache.
func (c *Client) Live() client.Reader { return live{c} }

type live struct{ c *Client }

func (l live) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	s := l.c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.c.dead {
		return ErrDead
	}
	have, err := s.get(s.kindOf(obj), key)
	if err != nil {
		return err
	}
	assign(obj, have)
	return nil
}

func (l live) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	s := l.c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.c.dead {
		return ErrDead
	}
	return fill(s, list, s.objects, l.c.indexes, opts)
}

// write makes one write under the fault that is due.
func (c *Client) write(verb, sub string, obj client.Object, do func() error) error {
	if c.Dead() {
		return ErrDead
	}
	r := resource(c.server.kindOf(obj))
	site := verb + " " + r.Resource
	if sub != "" {
		site += "/" + sub
	}
	fault := None
	if c.Before != nil {
		fault = c.Before(Write{Site: site, Object: obj})
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.dead {
		return ErrDead
	}
	broken := fmt.Errorf("%s %s: connection reset by peer", site, obj.GetName())
	switch fault {
	case Conflict:
		return apierrors.NewConflict(r, obj.GetName(), errors.New("the object has been modified"))
	case NotFound:
		return apierrors.NewNotFound(r, obj.GetName())
	case Internal:
		return apierrors.NewInternalError(errors.New("injected"))
	case Throttled:
		return apierrors.NewTooManyRequests("injected", 1)
	case Dropped:
		return broken
	case Lost:
		_ = do()
		return broken
	case CrashBefore:
		c.kill()
		return ErrDead
	case CrashAfter:
		_ = do()
		c.kill()
		return ErrDead
	default:
		return do()
	}
}

// Create implements client.Writer.
func (c *Client) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return c.write("POST", "", obj, func() error { return c.server.create(obj, false) })
}

// Delete implements client.Writer.
func (c *Client) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	o := client.DeleteOptions{}
	o.ApplyOptions(opts)
	return c.write("DELETE", "", obj, func() error { return c.server.remove(obj, o) })
}

// Update implements client.Writer.
func (c *Client) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return c.write("PUT", "", obj, func() error { return c.server.update(obj, false) })
}

// Patch implements client.Writer.
func (c *Client) Patch(_ context.Context, obj client.Object, p client.Patch, _ ...client.PatchOption) error {
	return c.write("PATCH", "", obj, func() error { return c.server.patch(obj, p, false) })
}

// Apply is not known.
func (c *Client) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errors.New("simkube does not apply")
}

// DeleteAllOf deletes what matches in the server.
func (c *Client) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	o := client.DeleteAllOfOptions{}
	o.ApplyOptions(opts)
	c.server.mu.Lock()
	gvk := c.server.kindOf(obj)
	var found []client.Object
	for _, key := range c.server.keys(gvk) {
		if have := c.server.objects[gvk][key]; o.Namespace == "" || have.GetNamespace() == o.Namespace {
			found = append(found, copyOf(have))
		}
	}
	c.server.mu.Unlock()
	for _, have := range found {
		if err := client.IgnoreNotFound(c.Delete(ctx, have)); err != nil {
			return err
		}
	}
	return nil
}

// Status implements client.StatusClient.
func (c *Client) Status() client.SubResourceWriter { return sub{c, "status"} }

// SubResource implements client.SubResourceClientConstructor: status, and eviction of pods.
func (c *Client) SubResource(name string) client.SubResourceClient { return sub{c, name} }

type sub struct {
	c    *Client
	name string
}

func (s sub) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return errors.New("simkube does not read subresources")
}

func (s sub) Create(_ context.Context, obj client.Object, body client.Object, _ ...client.SubResourceCreateOption) error {
	pod, isPod := obj.(*corev1.Pod)
	e, isEviction := body.(*policyv1.Eviction)
	if !isPod || !isEviction {
		return fmt.Errorf("simkube does not create %s of %s", s.name, reflect.TypeOf(obj))
	}
	return s.c.write("POST", s.name, obj, func() error { return s.c.server.evict(pod, e) })
}

func (s sub) Update(_ context.Context, obj client.Object, _ ...client.SubResourceUpdateOption) error {
	return s.c.write("PUT", s.name, obj, func() error { return s.c.server.update(obj, true) })
}

func (s sub) Patch(_ context.Context, obj client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.c.write("PATCH", s.name, obj, func() error { return s.c.server.patch(obj, p, true) })
}

func (s sub) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	return errors.New("simkube does not apply")
}

// Scheme implements client.Client.
func (c *Client) Scheme() *runtime.Scheme { return c.server.scheme }

// RESTMapper implements client.Client; nobody may need it.
func (c *Client) RESTMapper() meta.RESTMapper { return nil }

// GroupVersionKindFor implements client.Client.
func (c *Client) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return c.server.kindOf(obj), nil
}

// IsObjectNamespaced implements client.Client.
func (c *Client) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	return namespaced(c.server.kindOf(obj).Kind), nil
}

func namespaced(kind string) bool {
	switch kind {
	case "Pod", "PersistentVolumeClaim", "PodDisruptionBudget", "Lease", "Event", "CapacityBuffer", "Service":
		return true
	}
	return false
}
