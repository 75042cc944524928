package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/karp-sh/karp/test/cluster/control"
	"github.com/karp-sh/karp/test/sandbox/component"
	"github.com/karp-sh/karp/test/sandbox/instance"
	"github.com/karp-sh/karp/test/sandbox/supervise"
)

// up is a request to start a sandbox.
type up struct {
	instance.Options
	place          place
	stdout, stderr io.Writer
	kubernetesOnly bool
	detach         bool
	dieWithParent  bool
	tolerant       bool // go on when a component ends unasked: the detached supervisor
}

func newUp(p *place) *cobra.Command {
	u := &up{}
	cmd := &cobra.Command{
		Use: "up", Short: "Start a sandbox", Args: cobra.NoArgs,
		Long: "Start a sandbox and, unless --detach is given, stay in the foreground until Ctrl-C or `karp-sandbox down`.\n" +
			"In the foreground, a component that ends without being asked to ends the sandbox with an error.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			u.place, u.stdout, u.stderr = *p, cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := u.complete(); err != nil {
				return err
			}
			if u.detach {
				return u.runDetached(cmd.Context(), os.Args[1:])
			}
			return u.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&u.detach, "detach", false, "return as soon as the sandbox is ready; it ends with `karp-sandbox down`")
	f.StringSliceVar(&u.Components, "components", control.Components(), "components to start")
	f.BoolVar(&u.kubernetesOnly, "kubernetes-only", false, "all components but simaws")
	f.BoolVar(&u.dieWithParent, "die-with-parent", false, "end when the process that started this one ends, or closes the pipe that is its standard input")
	f.StringVar(&u.ClusterName, "cluster-name", "sandbox", "name of the cluster for karp and the simulated EKS")
	f.StringVar(&u.Region, "region", "us-west-2", "region of the simulated AWS")
	f.StringVar(&u.Queue, "queue", "sandbox-interruptions", "name of the simulated interruption queue")
	f.DurationVar(&u.NodeGrace, "node-grace", 40*time.Second, "silence after which a node is NotReady, at least 4s (a kubelet reports every 10s, or four times in that time)")
	f.StringVar(&u.FeatureGates, "feature-gates", "", "feature gates of Kubernetes, NAME=true,NAME=false")
	f.StringArrayVar(&u.SimAWSArgs, "simaws-arg", nil, "further argument of simaws (repeatable)")
	f.BoolVar(&u.tolerant, "tolerant", false, "")
	_ = f.MarkHidden("tolerant") // it exists: defined in the line above
	return cmd
}

// complete checks the request and fills in what follows from it.
func (u *up) complete() (err error) {
	if u.kubernetesOnly {
		u.Components = slices.DeleteFunc(slices.Clone(u.Components), func(c string) bool { return c == control.SimAWS })
	}
	if err := instance.CheckComponents(u.Components); err != nil {
		return err
	}
	if u.NodeGrace < 4*time.Second {
		return fmt.Errorf("--node-grace %s is too short; a kubelet reports every second at most, so give it 4s", u.NodeGrace)
	}
	if u.KubeVersion, err = component.KubeVersion(); err != nil {
		return err
	}
	if u.Dir, err = u.place.folder(); err != nil {
		return err
	}
	u.Name = u.place.name
	if u.place.dir != "" && u.Name == defaultName {
		u.Name = "sandbox"
	}
	return nil
}

// vacate makes sure that no sandbox is in the folder, removing what one left that was killed.
func (u *up) vacate(ctx context.Context) error {
	s, err := control.Load(u.Dir)
	switch {
	case errors.Is(err, control.ErrNone):
		return nil
	case err != nil:
		return err
	}
	switch _, err = running(ctx, s); {
	case errors.Is(err, errDead):
		fmt.Fprintf(u.stderr, "karp-sandbox: removing what a killed sandbox left in %s\n", u.Dir)
		return os.RemoveAll(u.Dir)
	case err != nil:
		return fmt.Errorf("a sandbox is in %s (process %d) but does not answer: %w", u.Dir, s.PID, err)
	}
	return fmt.Errorf("a sandbox runs in %s already; end it with `karp-sandbox down%s` or start another one with --name", u.Dir, u.place.flag())
}

// run starts the sandbox, keeps it until it has to end, and leaves nothing behind.
func (u *up) run(ctx context.Context) (err error) {
	if err := u.vacate(ctx); err != nil {
		return err
	}
	if u.dieWithParent {
		var cancel context.CancelFunc
		ctx, cancel = withParent(ctx)
		defer cancel()
	}
	in, err := instance.New(u.Options, time.Now())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	sup, err := supervise.New(supervise.Options{Info: in.Info, Specs: in.Specs, Progress: u.progress, Failed: u.failure})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sup.Close()) }()
	listener, err := net.Listen("tcp4", in.ControlAddress())
	if err != nil {
		return fmt.Errorf("listening for control: %w", err)
	}
	server := &http.Server{Handler: control.Handler(sup, in.Info.Token), ReadHeaderTimeout: 5 * time.Second}
	// It returns when the server is closed, below.
	go func() { _ = server.Serve(listener) }()
	defer func() { err = errors.Join(err, server.Close()) }()
	if err := sup.Save(); err != nil {
		return err
	}
	return u.supervise(ctx, sup)
}

func (u *up) supervise(ctx context.Context, sup *supervise.Supervisor) error {
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// A failure while starting is what StartAll returns.
		_ = sup.Wait(starting, true)
		cancel()
	}()
	err := sup.StartAll(starting)
	cancelled := starting.Err() != nil
	cancel()
	<-ended
	if cancelled && errors.Is(err, context.Canceled) {
		return nil // asked to end before it was ready
	}
	if err != nil {
		return err
	}
	u.summary(sup.Status())
	return sup.Wait(ctx, u.tolerant)
}

func (u *up) progress(c control.Component) {
	fmt.Fprintf(u.stderr, "karp-sandbox: %-18s ready in %4.1fs  %s\n", c.Name, c.Seconds, c.URL)
}

func (u *up) failure(c control.Component) {
	fmt.Fprintf(u.stderr, "karp-sandbox: %s ended unasked: %s; its last lines (of %s):\n%s\n", c.Name, c.Exit, c.Log, supervise.Tail(c.Log, 8))
}

// summary tells people how to go on, and programs, by the folder on standard output, that the sandbox is ready.
func (u *up) summary(s *control.Sandbox) {
	fmt.Fprintf(u.stderr, "karp-sandbox: Kubernetes %s is ready in %.1fs, in %s\n", s.KubeVersion, s.Seconds, s.Dir)
	if s.Kubeconfig != "" {
		fmt.Fprintf(u.stderr, "karp-sandbox: to use it:  eval \"$(karp-sandbox env%s)\"\n", u.place.flag())
	}
	fmt.Fprintln(u.stdout, s.Dir)
}

// runDetached starts the same request in a process of its own session and returns when that sandbox is ready.
func (u *up) runDetached(ctx context.Context, args []string) error {
	if err := u.vacate(ctx); err != nil {
		return err
	}
	log, err := os.CreateTemp("", "karp-sandbox-*.log")
	if err != nil {
		return fmt.Errorf("making the log of the supervisor: %w", err)
	}
	defer log.Close()
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "--detach") })
	child, err := supervise.Detach(append(args, "--tolerant"), log)
	if err != nil {
		return errors.Join(err, os.Remove(log.Name()))
	}
	if err := u.awaitReady(ctx, child); err != nil {
		raw, _ := os.ReadFile(log.Name()) // what it says is part of the error if it can be read
		return errors.Join(fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(raw))), os.Remove(log.Name()))
	}
	if err := os.Rename(log.Name(), filepath.Join(u.Dir, "logs", "supervisor.log")); err != nil {
		return fmt.Errorf("moving the log of the supervisor: %w", err)
	}
	s, err := control.Load(u.Dir)
	if err != nil {
		return err
	}
	u.summary(s)
	return nil
}

// awaitReady waits until the sandbox in u.Dir says that it is ready. When ctx ends first, so does the sandbox.
func (u *up) awaitReady(ctx context.Context, child *supervise.Detached) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-child.Done:
			return errors.New("the sandbox ended before it was ready:")
		case <-ctx.Done():
			return errors.Join(ctx.Err(), child.End())
		case <-tick.C:
			if s, err := control.Load(u.Dir); err == nil && s.PID == child.PID && s.Ready {
				return nil
			}
		}
	}
}

// withParent returns a context that is done when the parent process is gone, or has closed the pipe that is our standard
// input.
func withParent(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// A process without parent is given to another one.
				if os.Getppid() != parent {
					cancel()
					return
				}
			}
		}
	}()
	if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		go func() {
			// Whatever comes is of no interest, only the end.
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	return ctx, cancel
}
