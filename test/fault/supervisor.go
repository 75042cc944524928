package fault

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/karp-sh/karp/test/e2e/stage"
)

// supervisor keeps one agent alive: one that ends is started again.
type supervisor struct {
	stage *stage.Stage
	log   string

	mu    sync.Mutex
	agent *stage.Agent
	lives int
	ended bool
	err   error
	done  chan struct{}
}

func supervise(tb testing.TB, s *stage.Stage) *supervisor {
	tb.Helper()
	v := &supervisor{stage: s, log: filepath.Join(tb.TempDir(), "agent.log"), done: make(chan struct{})}
	if err := v.start(); err != nil {
		tb.Fatal(err)
	}
	go v.run()
	tb.Cleanup(func() {
		v.mu.Lock()
		v.ended = true
		a := v.agent
		v.mu.Unlock()
		a.Kill()
		<-v.done
		if v.err != nil {
			tb.Error(v.err)
		}
		if tb.Failed() {
			tb.Logf("log of %d lives:\n%s", v.lives, a.Log())
		}
	})
	return v
}

func (v *supervisor) start() error {
	a, err := v.stage.Spawn(v.log)
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.agent = a
	v.lives++
	if v.ended {
		go a.Kill()
	}
	return nil
}

func (v *supervisor) run() {
	defer close(v.done)
	for {
		v.mu.Lock()
		a := v.agent
		v.mu.Unlock()
		<-a.Done()
		v.mu.Lock()
		ended := v.ended
		v.mu.Unlock()
		if ended {
			return
		}
		if err := v.start(); err != nil {
			v.err = err
			return
		}
	}
}

// kill ends the life that runs now.
func (v *supervisor) kill() {
	v.mu.Lock()
	a := v.agent
	v.mu.Unlock()
	if a != nil {
		a.Kill()
	}
}

func (v *supervisor) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lives
}
