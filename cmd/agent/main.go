// Command agent is karp's controller: it gives a cluster the nodes its pods need.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	_ "golang.org/x/crypto/x509roots/fallback" // the image has no root certificates of its own
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/karp-sh/karp/pkg/agent"
	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// Set by the linker: -ldflags "-X main.version=v1.2.3 -X main.commit=abc1234".
var (
	version = "dev"
	commit  = ""
)

// Exit codes: a wrong configuration is told apart from a failure, so that a supervisor need not repeat it.
const (
	failed  = 1
	misused = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run parses the configuration and runs the agent until ctx ends.
func run(ctx context.Context, args []string, lookup func(string) (string, bool), stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "--version" || args[0] == "version") {
		_, _ = fmt.Fprintln(stdout, version, commit)
		return 0
	}
	cfg, err := config.Parse(args, lookup)
	if errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprint(stdout, "karp-agent gives a cluster the nodes its pods need. Settings are flags or environment variables:\n\n", config.Markdown())
		return 0
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "error:", err)
		return misused
	}
	log, closeLog, err := telemetry.NewLogger(telemetry.LogOptions{
		Level: cfg.LogLevel, Paths: cfg.LogOutputPaths, ErrorPaths: cfg.LogErrorOutputPaths, Commit: revision(), Stdout: stdout, Stderr: stderr,
	})
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "error:", err)
		return misused
	}
	defer func() { _ = closeLog() }()
	log = log.With(telemetry.Logger(""))
	telemetry.Bridge(log)
	if cfg.MemoryLimit > 0 {
		// The rest is for what the runtime does not count, such as stacks of C libraries and the kernel's buffers.
		debug.SetMemoryLimit(cfg.MemoryLimit / 10 * 9)
	}
	series, err := telemetry.NewMetrics(metrics.Registry, version, revision())
	if err != nil {
		log.Error("registering metrics", telemetry.Error(err))
		return failed
	}
	log.Info("starting", "version", version)
	if err := agent.Run(ctx, cfg, agent.Options{Log: log, Version: version, Metrics: series}); err != nil {
		log.Error("agent ended", telemetry.Error(err))
		return failed
	}
	log.Info("stopped", slog.String("cause", "signal"))
	return 0
}

// revision is the commit the program was built from, if the build knows.
func revision() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(len(s.Value), 7)]
		}
	}
	return ""
}
