package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/karp-sh/karp/test/cluster/control"
)

// Spec says how to run one component and how to see that it works.
type Spec struct {
	Name string
	Args []string // of this program
	Env  []string // NAME=value, added to the environment
	URL  string   // where it serves, for people
	Log  string   // path of the log file
	// Needs are components that have to be ready before the first start.
	Needs []string
	// Ready returns nil as soon as the component does its work. It is asked again and again until then, so it has to
	// be quick.
	Ready func(context.Context) error
}

const (
	readyEvery   = 40 * time.Millisecond // much shorter than the fastest start (etcd, 300 ms)
	readyWithin  = 3 * time.Minute       // twenty times the slowest start on two idle cores
	readyAttempt = 2 * time.Second
	stopWithin   = 15 * time.Second // then SIGKILL
)

// component is one child process over its restarts. op serialises the verbs; mu guards the fields below it.
type component struct {
	spec Spec
	env  *environment
	op   sync.Mutex

	mu      sync.Mutex
	state   control.State
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the process of cmd is reaped
	intent  control.State // state to enter when the process ends; "" when nobody asked for it
	exit    string
	starts  int
	seconds float64
}

// environment is what all components of a supervisor share.
type environment struct {
	dir      string
	program  string
	lifeline *os.File
	spawn    *spawner
	closing  atomic.Bool // no more starts
	failed   func(name, exit string)
}

func (c *component) view() control.Component {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := control.Component{Name: c.spec.Name, State: c.state, URL: c.spec.URL, Starts: c.starts, Seconds: c.seconds,
		Exit: c.exit, Log: c.spec.Log}
	if c.alive() {
		v.PID = c.cmd.Process.Pid
		v.Memory = ownMemory(v.PID)
	}
	return v
}

// alive is called with mu held.
func (c *component) alive() bool {
	return c.state == control.Starting || c.state == control.Running || c.state == control.Paused
}

func (c *component) do(ctx context.Context, verb control.Verb) error {
	c.op.Lock()
	defer c.op.Unlock()
	switch verb {
	case control.Start:
		return c.start(ctx)
	case control.Stop:
		return c.end(syscall.SIGTERM, control.Stopped)
	case control.Kill:
		return c.end(syscall.SIGKILL, control.Killed)
	case control.Restart:
		if err := c.end(syscall.SIGTERM, control.Stopped); err != nil {
			return err
		}
		return c.start(ctx)
	case control.Pause:
		return c.pause()
	case control.Resume:
		return c.resume(ctx)
	}
	return fmt.Errorf("verb %q: %w", verb, control.ErrUnknown)
}

// start launches the process and waits until it is ready. A component that runs is left alone.
func (c *component) start(ctx context.Context) error {
	c.mu.Lock()
	state := c.state
	c.mu.Unlock()
	switch state {
	case control.Running, control.Starting:
		return nil
	case control.Paused:
		return errors.New("it is paused; resume it instead")
	}
	began := time.Now()
	exited, err := c.launch()
	if err != nil {
		return err
	}
	if err := c.waitReady(ctx, exited); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == control.Starting {
		c.state = control.Running
		c.seconds = time.Since(began).Seconds()
	}
	return nil
}

func (c *component) launch() (exited chan struct{}, err error) {
	log, err := os.OpenFile(c.spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening its log: %w", err)
	}
	defer log.Close()
	cmd := &exec.Cmd{
		Path: c.env.program, Args: append([]string{"karp-sandbox"}, c.spec.Args...), Dir: c.env.dir,
		Env:    append(os.Environ(), append(c.spec.Env, lifelineVariable+"=3")...),
		Stdout: log, Stderr: log, ExtraFiles: []*os.File{c.env.lifeline}, SysProcAttr: attributes(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.env.closing.Load() {
		return nil, errors.New("the sandbox is ending")
	}
	if err := c.env.spawn.start(cmd); err != nil {
		return nil, fmt.Errorf("starting its process: %w", err)
	}
	c.cmd, c.state, c.intent, c.exit = cmd, control.Starting, "", ""
	c.exited = make(chan struct{})
	c.starts++
	go c.reap(cmd, c.exited)
	return c.exited, nil
}

func (c *component) reap(cmd *exec.Cmd, exited chan struct{}) {
	// Its error repeats what ProcessState says.
	_ = cmd.Wait()
	c.mu.Lock()
	c.exit = cmd.ProcessState.String()
	c.state = c.intent
	unasked := c.intent == ""
	if unasked {
		c.state = control.Failed
	}
	exit := c.exit
	close(exited)
	c.mu.Unlock()
	if unasked {
		c.env.failed(c.spec.Name, exit)
	}
}

// waitReady polls the component's endpoint until it answers, the process ends, or the time is up.
func (c *component) waitReady(ctx context.Context, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	last := errors.New("not asked yet")
	for {
		select {
		case <-exited:
			return fmt.Errorf("it ended before it was ready (%s); its last lines:\n%s", c.view().Exit, Tail(c.spec.Log, 12))
		case <-ctx.Done():
			return fmt.Errorf("it is not ready (%w): %w; its last lines:\n%s", ctx.Err(), last, Tail(c.spec.Log, 12))
		case <-tick.C:
			attempt, done := context.WithTimeout(ctx, readyAttempt)
			err := c.spec.Ready(attempt)
			done()
			if err == nil {
				return nil
			}
			last = err
		}
	}
}

// end sends the signal and waits until the process is reaped. A component that does not run is left as it is.
func (c *component) end(sig syscall.Signal, intent control.State) error {
	c.mu.Lock()
	if !c.alive() {
		c.mu.Unlock()
		return nil
	}
	paused := c.state == control.Paused
	c.intent = intent
	exited, pid := c.exited, c.cmd.Process.Pid
	err := signalGroup(pid, sig)
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("sending %v: %w", sig, err)
	}
	if paused && sig != syscall.SIGKILL {
		// A stopped process sees the signal only when it goes on. The first signal got through, so this one does.
		_ = signalGroup(pid, syscall.SIGCONT)
	}
	timer := time.NewTimer(stopWithin)
	defer timer.Stop()
	select {
	case <-exited:
		return nil
	case <-timer.C:
		// It may have ended between the two; the wait below is what counts.
		_ = signalGroup(pid, syscall.SIGKILL)
		<-exited
		return nil
	}
}

func (c *component) pause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != control.Running {
		return fmt.Errorf("it is %s; only a running component can be paused", c.state)
	}
	if err := signalGroup(c.cmd.Process.Pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("sending SIGSTOP: %w", err)
	}
	c.state = control.Paused
	return nil
}

func (c *component) resume(ctx context.Context) error {
	c.mu.Lock()
	if c.state != control.Paused {
		defer c.mu.Unlock()
		return fmt.Errorf("it is %s, not paused", c.state)
	}
	if err := signalGroup(c.cmd.Process.Pid, syscall.SIGCONT); err != nil {
		defer c.mu.Unlock()
		return fmt.Errorf("sending SIGCONT: %w", err)
	}
	c.state = control.Running
	exited := c.exited
	c.mu.Unlock()
	return c.waitReady(ctx, exited)
}

// Tail returns the last n lines of a log file, or why it cannot be read.
func Tail(path string, n int) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return "    " + strings.Join(lines, "\n    ")
}
