// Command demo shows karp at work on one machine: it starts a sandbox and the agent, applies two NodePools and some workloads, tells what happens,
// and ends with the explanation of the one pod that cannot run. The sandbox stays up for playing; `demo down` removes it.
//
// It is run from the top of the repository by `make demo` and `make demo-down`, which build the programs first.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard()) // the story is told on standard output
	klog.SetLogger(logr.Discard())
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: demo up|down")
	}
	switch args[0] {
	case "up":
		return up(ctx)
	case "down":
		return down(ctx)
	}
	return fmt.Errorf("unknown command %q: it is up or down", args[0])
}
