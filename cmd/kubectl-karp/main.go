// Command kubectl-karp is a kubectl plugin that explains what the node autoscaler does and plans what it would do.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // cloud login helpers, as in kubectl

	"github.com/karp-sh/karp/pkg/cli"
)

// version is stamped by the build.
var version = "v0.0.0-unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, cli.Program{
		Streams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Version: version,
		Getenv:  os.Getenv,
		Environ: os.Environ(),
	}, os.Args[1:])
	stop()
	os.Exit(code)
}
