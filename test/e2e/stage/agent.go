package stage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Agent is the agent's process.
type Agent struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
	log  string
}

// StartAgent starts the agent with further settings of the form NAME=value. Leader election is off unless a setting turns it on. A process that
// still runs at the end of the test is killed; its log is shown if the test has failed.
func (s *Stage) StartAgent(tb testing.TB, settings ...string) *Agent {
	tb.Helper()
	a, err := s.Spawn(filepath.Join(tb.TempDir(), fmt.Sprintf("agent-%d.log", s.agents)), settings...)
	if err != nil {
		tb.Fatal(err)
	}
	s.agents++
	tb.Cleanup(func() {
		a.Kill()
		if tb.Failed() {
			tb.Logf("log of an agent:\n%s", a.Log())
		}
	})
	return a
}

// Spawn starts the agent outside of what a test cleans up, with its log in a file.
func (s *Stage) Spawn(log string, settings ...string) (*Agent, error) {
	program := os.Getenv("KARP_AGENT")
	if program == "" {
		dir, err := root()
		if err != nil {
			return nil, err
		}
		program = filepath.Join(dir, "bin", "karp-agent")
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("no agent to test: %w; run make build, or set KARP_AGENT", err)
	}
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	a := &Agent{cmd: exec.Command(program), done: make(chan struct{}), log: log}
	a.cmd.Env = append(s.environment(), settings...)
	a.cmd.Stdout, a.cmd.Stderr = file, file
	// The agent must not outlive a test process that is killed.
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := a.cmd.Start(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	go func() {
		defer close(a.done)
		a.err = a.cmd.Wait()
		_ = file.Close()
	}()
	return a, nil
}

// environment is all that the agent is told.
func (s *Stage) environment() []string {
	return []string{
		"KUBECONFIG=" + s.Kubeconfig, "CLUSTER_NAME=" + clusterName, "CLUSTER_ENDPOINT=" + s.endpoint, "CLUSTER_CA_BUNDLE=" + s.ca,
		"AWS_ENDPOINT_URL=" + s.AWSURL, "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + s.AWSURL, "AWS_REGION=" + region,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "HOME=" + s.Cluster.Dir,
		"METRICS_PORT=0", "HEALTH_PROBE_PORT=0", "STATUS_PORT=0", "DISABLE_LEADER_ELECTION=true", "BATCH_IDLE_DURATION=100ms", "LOG_LEVEL=debug",
	}
}

// Kill ends the process at once, as a crash would.
func (a *Agent) Kill() {
	_ = a.cmd.Process.Kill()
	<-a.done
}

// Stop asks the process to end and returns how it did: nil is exit code 0.
func (a *Agent) Stop() error {
	_ = a.cmd.Process.Signal(syscall.SIGTERM)
	<-a.done
	return a.err
}

// Done is closed when the process has ended.
func (a *Agent) Done() <-chan struct{} { return a.done }

// Log is what the agent has written so far, without the noise of its libraries.
func (a *Agent) Log() string {
	data, err := os.ReadFile(a.log)
	if err != nil {
		return err.Error()
	}
	var out []string
	for line := range strings.SplitSeq(string(data), "\n") {
		if !strings.Contains(line, "reflector") && !strings.Contains(line, "Starting") {
			out = append(out, line)
		}
	}
	return strings.Join(out[max(0, len(out)-200):], "\n")
}
