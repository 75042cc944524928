package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Detached is a supervisor in a process of its own session.
type Detached struct {
	PID  int
	Done chan struct{} // closed when the process has ended
}

// Detach runs this program with args in a session of its own, its output going to log.
func Detach(args []string, log *os.File) (*Detached, error) {
	path, err := program()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	cmd := &exec.Cmd{Path: path, Args: append([]string{"karp-sandbox"}, args...), Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the supervisor: %w", err)
	}
	d := &Detached{PID: cmd.Process.Pid, Done: make(chan struct{})}
	go func() {
		// How it ended is in its log.
		_ = cmd.Wait()
		close(d.Done)
	}()
	return d, nil
}

// End asks the process to end and waits until it has.
func (d *Detached) End() error {
	if err := syscall.Kill(d.PID, syscall.SIGTERM); err != nil {
		return fmt.Errorf("ending the supervisor: %w", err)
	}
	<-d.Done
	return nil
}
