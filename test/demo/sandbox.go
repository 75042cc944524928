package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/karp-sh/karp/test/cluster/control"
)

const (
	sandboxName = "karp-demo"
	clusterName = "karp-demo"
)

// folder of the demo's sandbox.
func folder() string { return filepath.Join(control.Base(), sandboxName) }

// bin is the path of one of the programs built by make.
func bin(name string) (string, error) {
	path, err := filepath.Abs(filepath.Join("bin", name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is missing; run `make demo` at the top of the repository: %w", path, err)
	}
	return path, nil
}

// startSandbox starts a sandbox that outlives this program, after removing an earlier one.
func startSandbox(ctx context.Context) (*control.Sandbox, error) {
	program, err := bin("karp-sandbox")
	if err != nil {
		return nil, err
	}
	if _, err := control.Load(folder()); err == nil {
		say("A demo is running already; it makes room for a new one.")
		if err := down(ctx); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, program, "up", "--detach", "--name", sandboxName, "--cluster-name", clusterName, "--region", "us-east-1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("starting the sandbox: %w\n%s", err, out)
	}
	return control.Load(folder())
}

// agentLog and agentPID are files in the sandbox's folder, so that they go with it.
func agentLog() string { return filepath.Join(folder(), "logs", "agent.log") }
func agentPID() string { return filepath.Join(folder(), "agent.pid") }

// startAgent starts the agent as a process of its own, with the kubeconfig of its service account.
func startAgent(s *control.Sandbox, kubeconfig string) (int, error) {
	program, err := bin("karp-agent")
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Dir(agentLog()), 0o755); err != nil {
		return 0, err
	}
	log, err := os.Create(agentLog())
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }() // the child writes to its own copy
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(program)
	cmd.Env = append(environment(s), "KUBECONFIG="+kubeconfig, "SYSTEM_NAMESPACE=kube-system", "METRICS_PORT=0", "HEALTH_PROBE_PORT=0", "STATUS_PORT="+port)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting the agent: %w", err)
	}
	pid := cmd.Process.Pid
	if err := os.WriteFile(agentPID(), []byte(strconv.Itoa(pid)), 0o600); err != nil {
		return 0, err
	}
	return pid, cmd.Process.Release()
}

// freePort is a port for the agent's status endpoint that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }() // only its port was wanted
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// environment is what the agent sees: that of the sandbox, and what programs need at all.
func environment(s *control.Sandbox) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir()}
	for _, e := range s.Env {
		if !strings.HasPrefix(e, "KUBECONFIG=") {
			env = append(env, e)
		}
	}
	return env
}

// alive reports whether the agent's process is there.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// down ends the agent and the sandbox, if they run.
func down(ctx context.Context) error {
	stopAgent(ctx)
	if _, err := control.Load(folder()); errors.Is(err, control.ErrNone) {
		say("No demo is running.")
		return nil
	}
	program, err := bin("karp-sandbox")
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, program, "down", "--name", sandboxName).CombinedOutput(); err != nil {
		return fmt.Errorf("stopping the sandbox: %w\n%s", err, out)
	}
	say("The demo is down and its files are removed.")
	return nil
}

// stopAgent asks the agent to end and waits for it, as its pod's termination would.
func stopAgent(ctx context.Context) {
	raw, err := os.ReadFile(agentPID())
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || !isAgent(pid) || syscall.Kill(pid, syscall.SIGTERM) != nil {
		return
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(10 * time.Second)
	for alive(pid) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		case <-limit:
			_ = syscall.Kill(pid, syscall.SIGKILL) // nothing more to do if that fails
			return
		}
	}
}

// isAgent guards against a process number that was given away again.
func isAgent(pid int) bool {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if os.IsNotExist(err) {
		_, noProc := os.Stat("/proc/self")
		return noProc != nil && alive(pid)
	}
	return err == nil && strings.Contains(string(raw), "karp-agent")
}
