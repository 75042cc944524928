package agent

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// awaited remembers, for each object we wrote, the version the cache has to reach before we look at the object again (LX19). Without it a
// loop would decide on what it has just changed.
type awaited struct {
	mu       sync.Mutex
	versions map[types.UID]uint64
}

func newAwaited() *awaited { return &awaited{versions: map[types.UID]uint64{}} }

// Note remembers what a write returned.
func (a *awaited) Note(written client.Object) {
	version, err := strconv.ParseUint(written.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.versions[written.GetUID()] = max(a.versions[written.GetUID()], version)
}

// Stale reports whether the object, as read from the cache, is older than our last write to it.
func (a *awaited) Stale(cached client.Object) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	want, ok := a.versions[cached.GetUID()]
	if !ok {
		return false
	}
	have, err := strconv.ParseUint(cached.GetResourceVersion(), 10, 64)
	if err == nil && have < want {
		return true
	}
	delete(a.versions, cached.GetUID())
	return false
}
