package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/karp-sh/karp/test/cluster"
	"github.com/karp-sh/karp/test/cluster/control"
)

// command runs karp-sandbox on the sandbox in dir and returns its output and exit code.
func command(t *testing.T, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	program, err := cluster.Find()
	if err != nil {
		t.Fatal(err)
	}
	// Not the context of the test: it is done when the clean-up runs.
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"--dir", dir}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// succeed runs a command that has to succeed.
func succeed(t *testing.T, dir string, args ...string) string {
	t.Helper()
	stdout, stderr, code := command(t, dir, args...)
	if code != 0 {
		t.Fatalf("karp-sandbox %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

func statusOf(t *testing.T, dir string) *control.Sandbox {
	t.Helper()
	stdout, _, _ := command(t, dir, "status", "-o", "json")
	s := &control.Sandbox{}
	if err := json.Unmarshal([]byte(stdout), s); err != nil {
		t.Fatalf("status -o json: %v\n%s", err, stdout)
	}
	return s
}

func TestCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sandbox")
	t.Cleanup(func() { command(t, dir, "down") })
	succeed(t, dir, "up", "--detach", "--components", "etcd,apiserver")

	if s := statusOf(t, dir); !s.Ready || len(s.Components) != 2 || s.Token != "" {
		t.Errorf("status: got %+v, want two components, ready, and no token", s)
	}
	if got, want := succeed(t, dir, "kubeconfig", "--path"), filepath.Join(dir, "kubeconfig")+"\n"; got != want {
		t.Errorf("kubeconfig --path: got %q, want %q", got, want)
	}
	if got := succeed(t, dir, "env"); !strings.Contains(got, "export KUBECONFIG='"+dir) {
		t.Errorf("env: got %q, want it to export KUBECONFIG", got)
	}
	if got := succeed(t, dir, "logs", "apiserver"); !strings.Contains(got, "Version:") {
		t.Errorf("logs apiserver: got %q, want its log", got)
	}
	succeed(t, dir, "stop", "apiserver")
	if got := succeed(t, dir, "status"); !strings.Contains(got, "stopped") {
		t.Errorf("status after stop: got %q, want it to say stopped", got)
	}
	succeed(t, dir, "start", "apiserver")
	if _, stderr, code := command(t, dir, "up"); code == 0 || !strings.Contains(stderr, "runs in") {
		t.Errorf("a second up: exit code %d, %q; want a refusal that says that one runs", code, stderr)
	}
	succeed(t, dir, "down")
	if left := processesOf(t, dir); len(left) > 0 {
		t.Errorf("processes left behind: %v", left)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("folder left behind (%v)", err)
	}
}

// TestDetachedSandboxShowsFailure: a detached sandbox has nobody to fail before, so it stays and its status fails.
func TestDetachedSandboxShowsFailure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sandbox")
	t.Cleanup(func() { command(t, dir, "down") })
	succeed(t, dir, "up", "--detach", "--components", "etcd")
	etcd, _ := statusOf(t, dir).Component(control.Etcd)
	if err := syscall.Kill(etcd.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitTrue(t, "etcd is seen to have failed", func() bool {
		etcd, _ := statusOf(t, dir).Component(control.Etcd)
		return etcd.State == control.Failed
	})
	stdout, stderr, code := command(t, dir, "status")
	if code == 0 || !strings.Contains(stdout, "failed") || !strings.Contains(stderr, "etcd") {
		t.Errorf("status: exit code %d, %q, %q; want it to fail and name etcd", code, stdout, stderr)
	}
	succeed(t, dir, "start", "etcd")
	succeed(t, dir, "status")
}

// TestKilledSupervisor: SIGKILL leaves nobody to clean up, yet no component may survive, and the folder can be taken over.
func TestKilledSupervisor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sandbox")
	t.Cleanup(func() { command(t, dir, "down") })
	succeed(t, dir, "up", "--detach", "--components", "etcd")
	before := statusOf(t, dir)
	etcd, _ := before.Component(control.Etcd)
	succeed(t, dir, "pause", "etcd") // a suspended process cannot end itself
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, etcd.PID)
	if _, stderr, code := command(t, dir, "status"); code == 0 || !strings.Contains(stderr, "dead") {
		t.Errorf("status: exit code %d, %q; want it to say that the sandbox is dead", code, stderr)
	}
	succeed(t, dir, "up", "--detach", "--components", "etcd")
	succeed(t, dir, "down")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("folder left behind (%v)", err)
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want string
	}{
		"unknown component":           {args: []string{"up", "--components", "kubelet"}, want: `unknown component "kubelet"`},
		"component without its needs": {args: []string{"up", "--components", "kwok"}, want: "needs apiserver"},
		"folder of somebody":          {args: []string{"up", "--components", "etcd"}, want: "is not empty"},
		"no sandbox":                  {args: []string{"status"}, want: "no sandbox in"},
		"no sandbox to kill":          {args: []string{"kill", "etcd"}, want: "no sandbox in"},
		"surplus argument":            {args: []string{"status", "--output", "json", "surplus"}, want: "unknown command"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, stderr, code := command(t, dir, tt.args...)
			if code != 1 || !strings.Contains(stderr, tt.want) {
				t.Errorf("karp-sandbox %v: exit code %d, %q; want 1 and %q", tt.args, code, stderr, tt.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "mine")); err != nil {
		t.Errorf("a file that is not the sandbox's was touched: %v", err)
	}
}

// TestParentIsKilled: whoever starts a sandbox may be killed with no chance to end it.
func TestParentIsKilled(t *testing.T) {
	program, err := cluster.Find()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "sandbox")
	t.Cleanup(func() { command(t, dir, "down") })
	script := `"$0" up --die-with-parent --dir "$1" --components etcd </dev/null 2>/dev/null & wait`
	parent := exec.Command("sh", "-c", script, program, dir)
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatalf("reading what the sandbox says when it is ready: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed, as asked
	awaitTrue(t, "the folder is gone", func() bool { _, err := os.Stat(dir); return os.IsNotExist(err) })
	awaitTrue(t, "the processes are gone", func() bool { return len(processesOf(t, dir)) == 0 })
}

// awaitGone returns when the process does not exist any more.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	awaitTrue(t, "the process is gone", func() bool { return syscall.Kill(pid, 0) != nil })
}

// awaitTrue returns when done does, for what cannot be watched.
func awaitTrue(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("after 30s it is still not so that %s", what)
		case <-tick.C:
		}
	}
}
