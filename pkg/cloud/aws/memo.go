package aws

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// memo remembers answers for a while, to save calls. It holds nothing that correctness rests on.
type memo[V any] struct {
	clock   clock.PassiveClock
	keep    time.Duration
	mu      sync.Mutex
	entries map[string]memoEntry[V]
}

type memoEntry[V any] struct {
	value V
	until time.Time
}

func newMemo[V any](c clock.PassiveClock, keep time.Duration) *memo[V] {
	return &memo[V]{clock: c, keep: keep, entries: map[string]memoEntry[V]{}}
}

func (m *memo[V]) get(key string) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if !ok || !m.clock.Now().Before(e.until) {
		var zero V
		return zero, false
	}
	return e.value, true
}

func (m *memo[V]) put(key string, v V) { m.putFor(key, v, m.keep) }

// putFor stores the value and forgets what has expired.
func (m *memo[V]) putFor(key string, v V, keep time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	for k, e := range m.entries {
		if !now.Before(e.until) {
			delete(m.entries, k)
		}
	}
	m.entries[key] = memoEntry[V]{v, now.Add(keep)}
}

func (m *memo[V]) drop(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

// or returns the remembered value, or fetches and remembers it. Errors are not remembered.
func (m *memo[V]) or(key string, fetch func() (V, error)) (V, error) {
	if v, ok := m.get(key); ok {
		return v, nil
	}
	v, err := fetch()
	if err == nil {
		m.put(key, v)
	}
	return v, err
}
