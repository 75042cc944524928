// Command karp-sandbox is a Kubernetes cluster with a simulated AWS on one machine, in one file: etcd, the API server, the
// controller manager and the scheduler of Kubernetes as they are, kwok for the kubelets, simaws for AWS.
//
// `karp-sandbox up` starts it: every component is a child process of this same program, so that each can be stopped, killed
// and started again by itself. Called by the name kubectl, it is that: a machine with a sandbox has one of the same version. Everything it owns is in one temporary folder and listens on 127.0.0.1 only.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/karp-sh/karp/test/cluster/control"
	"github.com/karp-sh/karp/test/sandbox/component"
	"github.com/karp-sh/karp/test/sandbox/supervise"
)

func main() {
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(kubectl())
	}
	if len(os.Args) > 1 && slices.Contains(control.Components(), os.Args[1]) {
		supervise.FollowSupervisor()
		supervise.Rename("karp-" + os.Args[1])
		os.Exit(component.Run(os.Args[1], os.Args[2:], os.Stderr))
	}
	supervise.Rename("karp-sandbox")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "karp-sandbox:", err)
		os.Exit(1)
	}
}
