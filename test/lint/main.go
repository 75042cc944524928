// Command lint runs golangci-lint and, where the vulnerability database can be had, govulncheck. `make lint` calls it.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if err := tool(ctx, os.Stdout, "golangci-lint", "run", "./..."); err != nil {
		return fmt.Errorf("golangci-lint: %w", err)
	}
	var out bytes.Buffer
	args := []string{"./cmd/..."}
	if db := os.Getenv("GOVULNDB"); db != "" {
		args = append([]string{"-db", db}, args...)
	}
	err := tool(ctx, &out, "govulncheck", args...)
	if err != nil && unreachable(out.String()) {
		fmt.Println("govulncheck: skipped, its database cannot be reached; set GOVULNDB=file:///DIR to use a copy")
		return nil
	}
	fmt.Print(out.String())
	if err != nil {
		return fmt.Errorf("govulncheck: %w", err)
	}
	return nil
}

// tool runs a tool of the tools' module.
func tool(ctx context.Context, out interface{ Write([]byte) (int, error) }, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"tool", "-modfile=test/tools/lint/go.mod", name}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run()
}

// unreachable tells a missing network from a finding.
func unreachable(out string) bool {
	for _, text := range []string{"dial tcp", "no such host", "connection refused", "Forbidden", "fetching vulnerabilities", "i/o timeout"} {
		if strings.Contains(out, text) {
			return true
		}
	}
	return false
}
