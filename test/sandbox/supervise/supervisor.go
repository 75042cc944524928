// Package supervise runs the components of one sandbox as child processes: it starts them in the order of their needs,
// reports one that ends unasked, and never leaves a child behind, however it ends itself.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/karp-sh/karp/test/cluster/control"
)

// Options of a supervisor.
type Options struct {
	Info  control.Sandbox // all but the components; its Dir is where the state file goes
	Specs []Spec          // in the order in which they are listed
	// Progress is told of every component that has become ready.
	Progress func(control.Component)
	// Failed is told, at once, of every component that ended without being asked to.
	Failed func(control.Component)
}

// Supervisor runs the components of one sandbox.
type Supervisor struct {
	opts       Options
	components []*component
	lifeline   *os.File // the end that only the supervisor holds
	env        *environment
	failures   chan string
	shutdown   chan struct{}
	once       sync.Once

	mu   sync.Mutex
	info control.Sandbox
}

var _ control.Supervisor = (*Supervisor)(nil)

// New returns a supervisor; nothing runs yet. Close has to be called.
func New(opts Options) (*Supervisor, error) {
	path, err := program()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making the lifeline: %w", err)
	}
	s := &Supervisor{opts: opts, info: opts.Info, lifeline: w, failures: make(chan string, 16), shutdown: make(chan struct{})}
	s.env = &environment{dir: opts.Info.Dir, program: path, lifeline: r, spawn: newSpawner(), failed: s.onFailure}
	for _, spec := range opts.Specs {
		s.components = append(s.components, &component{spec: spec, env: s.env, state: control.Pending})
	}
	return s, nil
}

// StartAll starts every component as soon as those it needs are ready, and returns when all are. On an error, the first
// one, the others may be in any state.
func (s *Supervisor) StartAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ready := map[string]chan struct{}{}
	for _, c := range s.components {
		ready[c.spec.Name] = make(chan struct{})
	}
	var all sync.WaitGroup
	for _, c := range s.components {
		all.Go(func() {
			if err := s.startWhenNeedsAre(ctx, c, ready); err != nil {
				cancel(fmt.Errorf("starting %s: %w", c.spec.Name, err))
				return
			}
			close(ready[c.spec.Name])
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.info.Ready = true
	s.info.Seconds = time.Since(s.info.Started).Seconds()
	return s.save()
}

func (s *Supervisor) startWhenNeedsAre(ctx context.Context, c *component, ready map[string]chan struct{}) error {
	for _, need := range c.spec.Needs {
		select {
		case <-ready[need]:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := c.do(ctx, control.Start); err != nil {
		return err
	}
	s.opts.Progress(c.view())
	return nil
}

// Save writes the state file.
func (s *Supervisor) Save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.save()
}

func (s *Supervisor) save() error {
	out := s.info
	out.Components = s.views()
	return out.Save()
}

func (s *Supervisor) views() []control.Component {
	var out []control.Component
	for _, c := range s.components {
		out = append(out, c.view())
	}
	return out
}

// Status returns the state of the sandbox now, without its token.
func (s *Supervisor) Status() *control.Sandbox {
	s.mu.Lock()
	out := s.info
	s.mu.Unlock()
	out.Token = ""
	out.Components = s.views()
	return &out
}

// Do performs a verb on a component and returns when it is done.
func (s *Supervisor) Do(ctx context.Context, verb control.Verb, name string) (control.Component, error) {
	for _, c := range s.components {
		if c.spec.Name != name {
			continue
		}
		err := c.do(ctx, verb)
		if err == nil {
			err = s.Save()
		}
		return c.view(), err
	}
	return control.Component{}, fmt.Errorf("component %q: %w to this sandbox", name, control.ErrUnknown)
}

// Shutdown makes Wait return nil.
func (s *Supervisor) Shutdown() { s.once.Do(func() { close(s.shutdown) }) }

func (s *Supervisor) onFailure(name, exit string) {
	for _, c := range s.components {
		if c.spec.Name == name {
			s.opts.Failed(c.view())
		}
	}
	select {
	case s.failures <- fmt.Sprintf("%s ended unasked (%s)", name, exit):
	default: // nobody reads them any more; the state says it
	}
}

// Wait returns nil when a shutdown was asked for or ctx is done, and an error when a component ended unasked and
// tolerant is false.
func (s *Supervisor) Wait(ctx context.Context, tolerant bool) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.shutdown:
			return nil
		case failure := <-s.failures:
			if !tolerant {
				return errors.New(failure)
			}
		}
	}
}

// Close kills every component and waits for it. The data of a sandbox is thrown away, so there is nothing to save by
// asking politely, and a suspended component could not hear it.
func (s *Supervisor) Close() error {
	s.env.closing.Store(true)
	var all sync.WaitGroup
	errs := make([]error, len(s.components))
	for i, c := range s.components {
		all.Go(func() {
			if err := c.end(syscall.SIGKILL, control.Killed); err != nil {
				errs[i] = fmt.Errorf("ending %s: %w", c.spec.Name, err)
			}
		})
	}
	all.Wait()
	s.env.spawn.close()
	return errors.Join(append(errs, s.lifeline.Close(), s.env.lifeline.Close())...)
}
