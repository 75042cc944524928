package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/karp-sh/karp/test/cluster/control"
)

// place says which sandbox a command is about.
type place struct{ name, dir string }

// folder of the sandbox.
func (p place) folder() (string, error) {
	if p.dir != "" {
		return filepath.Abs(p.dir)
	}
	if err := control.CheckName(p.name); err != nil {
		return "", err
	}
	return filepath.Join(control.Base(), p.name), nil
}

// flag is how to name the sandbox on the command line, for hints.
func (p place) flag() string {
	switch {
	case p.dir != "":
		return " --dir " + p.dir
	case p.name != defaultName:
		return " --name " + p.name
	}
	return ""
}

const defaultName = "default"

func newRoot() *cobra.Command {
	p := &place{}
	root := &cobra.Command{
		Use:           "karp-sandbox",
		Short:         "A Kubernetes cluster with a simulated AWS on one machine",
		SilenceUsage:  true,
		SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{
			HiddenDefaultCmd: true,
		},
	}
	root.PersistentFlags().StringVar(&p.name, "name", defaultName, "name of the sandbox")
	root.PersistentFlags().StringVar(&p.dir, "dir", "", "folder of the sandbox, instead of one by its name below "+control.Base())
	root.AddCommand(newUp(p), newDown(p), newStatus(p), newList(), newKubeconfig(p), newEnv(p), newLogs(p))
	for _, verb := range control.Verbs() {
		root.AddCommand(newVerb(p, verb))
	}
	return root
}

// open reads the state file and says what to do when there is none.
func (p place) open() (*control.Sandbox, error) {
	dir, err := p.folder()
	if err != nil {
		return nil, err
	}
	s, err := control.Load(dir)
	if errors.Is(err, control.ErrNone) {
		return nil, fmt.Errorf("no sandbox in %s; start one with `karp-sandbox up%s`", dir, p.flag())
	}
	return s, err
}

// running returns the state of a sandbox now. An error wraps errDead when its supervisor is gone.
func running(ctx context.Context, s *control.Sandbox) (*control.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	now, err := control.NewClient(s).Status(ctx)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, errDead
	}
	return now, err
}

var errDead = errors.New("its supervisor is gone")

func newDown(p *place) *cobra.Command {
	return &cobra.Command{
		Use: "down", Short: "End the sandbox and remove its folder", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := p.folder()
			if err != nil {
				return err
			}
			return down(cmd.Context(), dir)
		},
	}
}

// down ends the sandbox in dir and returns when its folder is gone. Of a sandbox whose supervisor is gone only the folder is
// left: the components end with the supervisor.
func down(ctx context.Context, dir string) error {
	s, err := control.Load(dir)
	switch {
	case errors.Is(err, control.ErrNone):
		return nil
	case err != nil:
		return err
	}
	err = control.NewClient(s).Shutdown(ctx)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return os.RemoveAll(dir)
	}
	if err != nil {
		return err
	}
	return gone(ctx, dir)
}

// gone returns when dir does not exist any more.
func gone(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s is removed: %w", dir, ctx.Err())
		case <-tick.C:
		}
	}
}
