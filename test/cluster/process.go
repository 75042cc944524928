package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// process is the supervisor of a sandbox as a child of the test.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser // it ends the sandbox when it is closed, by us or by our death
	stderr *syncBuffer
	ready  chan struct{} // closed when the sandbox says that it is ready
	done   chan struct{} // closed when the process has ended
	err    error         // how it ended; valid after done
}

// endWithin is much longer than the second that an end takes.
const endWithin = time.Minute

func startProcess(program string, args []string) (*process, error) {
	p := &process{cmd: exec.Command(program, args...), stderr: &syncBuffer{}, ready: make(chan struct{}), done: make(chan struct{})}
	p.cmd.Stderr = p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting karp-sandbox: %w", err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting karp-sandbox: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting karp-sandbox: %w", err)
	}
	go p.follow(stdout)
	return p, nil
}

// follow waits for the first output, which comes when the sandbox is ready, and for the end.
func (p *process) follow(stdout io.Reader) {
	if n, _ := stdout.Read(make([]byte, 1)); n == 1 {
		close(p.ready)
	}
	// The rest has to be read before Wait; an error means its end as well.
	_, _ = io.Copy(io.Discard, stdout)
	p.err = p.cmd.Wait()
	close(p.done)
}

func (p *process) awaitReady(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.done:
		return errors.New("it ended before it was ready")
	}
}

// end lets the sandbox end and waits for it. What the sandbox said is part of an error.
func (p *process) end() error {
	early := false
	select {
	case <-p.done:
		early = true
	default:
	}
	// It fails only when the process is gone, which is seen below.
	_ = p.stdin.Close()
	timer := time.NewTimer(endWithin)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		err := p.cmd.Process.Signal(os.Kill)
		<-p.done
		return errors.Join(fmt.Errorf("karp-sandbox did not end within %s\n%s", endWithin, p.stderr), err)
	}
	switch {
	case p.err != nil:
		return fmt.Errorf("karp-sandbox: %w\n%s", p.err, p.stderr)
	case early:
		return fmt.Errorf("karp-sandbox ended before it was asked to\n%s", p.stderr)
	}
	return nil
}

// syncBuffer is a buffer that is written by one goroutine and read by another.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
