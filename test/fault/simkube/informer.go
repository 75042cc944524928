package simkube

import (
	"context"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GetInformer gives an informer of the cache; its handlers are told what Deliver shows. Register handlers before the first Deliver.
func (c *Client) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return &informer{client: c, kind: c.server.kindOf(obj).Kind}, nil
}

type informer struct {
	client *Client
	kind   string
}

var _ cache.Informer = (*informer)(nil)

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	i.client.handlers[i.kind] = append(i.client.handlers[i.kind], h)
	return registration{i.client}, nil
}

// AddEventHandlerWithResyncPeriod implements cache.Informer; nothing is resynced.
func (i *informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// RemoveEventHandler implements cache.Informer.
func (i *informer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

// AddIndexers implements cache.Informer.
func (i *informer) AddIndexers(toolscache.Indexers) error { return nil }

// HasSynced implements cache.Informer.
func (i *informer) HasSynced() bool { return true }

// HasSyncedChecker implements cache.Informer.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker { return synced{} }

// IsStopped implements cache.Informer.
func (i *informer) IsStopped() bool { return i.client.Dead() }

type registration struct{ client *Client }

// HasSynced implements the registration: the first list was delivered when nothing of it is pending.
func (r registration) HasSynced() bool { return !r.client.Unsynced }

// HasSyncedChecker implements the registration.
func (r registration) HasSyncedChecker() toolscache.DoneChecker { return synced{} }

type synced struct{}

func (synced) Name() string { return "simkube" }
func (synced) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
