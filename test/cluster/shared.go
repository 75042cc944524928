package cluster

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Shared is one sandbox for all tests of a package. It starts with the first test that asks for it:
//
//	var sandbox = cluster.Shared{Options: cluster.Options{}}
//
//	func TestMain(m *testing.M) { os.Exit(sandbox.Main(m)) }
//
//	func TestSomething(t *testing.T) { c := sandbox.Cluster(t) }
type Shared struct {
	Options Options

	mu      sync.Mutex
	started bool
	cluster *Cluster
	err     error
}

// Cluster returns the sandbox. It fails the test when there is none.
func (s *Shared) Cluster(tb testing.TB) *Cluster {
	tb.Helper()
	full(tb)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.started = true
		// Not the context of the first test: the sandbox outlives it.
		s.cluster, s.err = Launch(context.Background(), s.Options)
	}
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.cluster
}

// Main runs the tests, ends the sandbox, and returns the exit code: not 0 when a test failed or the sandbox ended early.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		return code
	}
	if err := s.cluster.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}
