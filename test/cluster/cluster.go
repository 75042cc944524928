// Package cluster gives Go tests a real Kubernetes API with a simulated AWS: it starts karp-sandbox, hands out what is needed
// to talk to it, lets a test kill and restart its components, and removes everything afterwards.
//
// It builds nothing: `make sandbox` does. The program is bin/karp-sandbox of this module, or what KARP_SANDBOX names.
//
// A test with a sandbox of its own calls Start. Tests of one package that can share one use Shared.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/karp-sh/karp/test/cluster/control"
)

// Options of a sandbox. The zero value is one with all components.
type Options struct {
	Components  []string      // names of package control; nil for all
	ClusterName string        // default "sandbox"
	Region      string        // default "us-west-2"
	NodeGrace   time.Duration // silence after which a node is NotReady; default 40 s
	Args        []string      // further arguments of `karp-sandbox up`
}

func (o Options) args(dir string) []string {
	args := []string{"up", "--die-with-parent", "--dir", dir}
	for flag, value := range map[string]string{
		"--components": strings.Join(o.Components, ","), "--cluster-name": o.ClusterName, "--region": o.Region,
	} {
		if value != "" {
			args = append(args, flag, value)
		}
	}
	if o.NodeGrace > 0 {
		args = append(args, "--node-grace", o.NodeGrace.String())
	}
	return append(args, o.Args...)
}

// Cluster is a sandbox that runs.
type Cluster struct {
	Config     *rest.Config // of an administrator, without rate limit; nil without API server
	Kubeconfig string       // the same, as a file
	Env        []string     // NAME=value: what karp and the AWS SDK need
	SimAWS     string       // URL of the simulated AWS; "" without
	Dir        string       // folder of the sandbox; gone after Close

	process *process
	control *control.Client
}

// Start starts a sandbox that ends with the test. It fails the test when the sandbox does not start, or when it ends before
// the test.
func Start(tb testing.TB, o Options) *Cluster {
	tb.Helper()
	full(tb)
	c, err := Launch(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Log(c.Logs(20))
		}
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// Launch starts a sandbox outside a test and returns when it is ready. Close has to be called.
func Launch(ctx context.Context, o Options) (*Cluster, error) {
	program, err := Find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "karp-sandbox-test-")
	if err != nil {
		return nil, fmt.Errorf("making the folder of the sandbox: %w", err)
	}
	p, err := startProcess(program, o.args(dir))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	c := &Cluster{Dir: dir, process: p}
	if err := p.awaitReady(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting karp-sandbox: %w", err), c.Close())
	}
	if err := c.read(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) read() error {
	s, err := control.Load(c.Dir)
	if err != nil {
		return err
	}
	c.control = control.NewClient(s)
	c.Env, c.SimAWS, c.Kubeconfig = s.Env, s.SimAWS, s.Kubeconfig
	if c.Kubeconfig == "" {
		return nil
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return fmt.Errorf("reading the kubeconfig of the sandbox: %w", err)
	}
	c.Config.QPS = -1 // no limit: a test waits for nothing but the cluster
	return nil
}

// Close ends the sandbox. It returns an error when the sandbox had ended before, or left its folder behind.
func (c *Cluster) Close() error {
	err := c.process.end()
	if _, stat := os.Stat(c.Dir); stat == nil {
		err = errors.Join(err, fmt.Errorf("the sandbox left its folder %s behind", c.Dir), os.RemoveAll(c.Dir))
	}
	return err
}

// Logs returns the last lines of every component's log, for the report of a test that failed.
func (c *Cluster) Logs(lines int) string {
	var out strings.Builder
	for _, component := range control.Components() {
		raw, err := os.ReadFile(filepath.Join(c.Dir, "logs", component+".log"))
		if err != nil {
			continue // a component that this sandbox does not have, or that was never started
		}
		all := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
		fmt.Fprintf(&out, "last lines of %s:\n  %s\n", component, strings.Join(all[max(0, len(all)-lines):], "\n  "))
	}
	return out.String()
}

// AwaitEnd returns when the sandbox has ended by itself: a test that makes it end waits with it before it calls Close.
func (c *Cluster) AwaitEnd() { <-c.process.done }

// Status returns the state of the components now.
func (c *Cluster) Status(tb testing.TB) *control.Sandbox {
	tb.Helper()
	s, err := c.control.Status(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// Stop ends a component by SIGTERM. It returns when the process is gone, and the component stays down.
func (c *Cluster) Stop(tb testing.TB, component string) {
	tb.Helper()
	c.do(tb, control.Stop, component)
}

// Kill ends a component by SIGKILL. It returns when the process is gone, and the component stays down.
func (c *Cluster) Kill(tb testing.TB, component string) {
	tb.Helper()
	c.do(tb, control.Kill, component)
}

// Start starts a component that does not run and returns when it is ready.
func (c *Cluster) Start(tb testing.TB, component string) {
	tb.Helper()
	c.do(tb, control.Start, component)
}

// Restart stops and starts a component and returns when it is ready.
func (c *Cluster) Restart(tb testing.TB, component string) {
	tb.Helper()
	c.do(tb, control.Restart, component)
}

// Pause suspends a component (SIGSTOP): it hangs, its connections stay open.
func (c *Cluster) Pause(tb testing.TB, component string) {
	tb.Helper()
	c.do(tb, control.Pause, component)
}

// Resume lets a paused component go on and returns when it answers.
func (c *Cluster) Resume(tb testing.TB, component string) {
	tb.Helper()
	c.do(tb, control.Resume, component)
}

func (c *Cluster) do(tb testing.TB, verb control.Verb, component string) {
	tb.Helper()
	if _, err := c.control.Do(tb.Context(), verb, component); err != nil {
		tb.Fatal(err)
	}
}

// WaitReady starts every component that does not run, resumes every paused one, and returns when all are ready.
func (c *Cluster) WaitReady(tb testing.TB) {
	tb.Helper()
	for _, component := range c.Status(tb).Components {
		if component.State == control.Paused {
			c.Resume(tb, component.Name)
			continue
		}
		c.Start(tb, component.Name)
	}
}

// module is the module whose folder holds bin/karp-sandbox.
const module = "module github.com/karp-sh/karp\n"

// full skips a test that needs a control plane when only short ones are wanted (make unit).
func full(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("needs a sandbox; left out by -short")
	}
}

// Find returns the path of karp-sandbox: KARP_SANDBOX, or bin/karp-sandbox of the module around the working directory.
func Find() (string, error) {
	if path := os.Getenv("KARP_SANDBOX"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("KARP_SANDBOX names a file that cannot be used: %w", err)
		}
		return filepath.Abs(path)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding karp-sandbox: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		raw, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.Contains(string(raw), module) {
			break
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("finding karp-sandbox: the working directory is not inside karp's repository; set KARP_SANDBOX to its path")
		}
	}
	path := filepath.Join(dir, "bin", "karp-sandbox")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("karp-sandbox is not built: run `make sandbox` (some minutes the first time), or set KARP_SANDBOX to its path: %w", err)
	}
	return path, nil
}
