// Command build builds karp-sandbox, stamps it with the version of Kubernetes it contains, and shows how far it is: a
// build without Go's build cache compiles some 3,000 packages and takes several minutes.
//
// It is run in the folder of the sandbox's module: go run ./build [-o FILE].
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	out := flag.String("o", filepath.Join("..", "..", "bin", "karp-sandbox"), "`file` to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := build(ctx, *out, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "building karp-sandbox:", err)
		os.Exit(1)
	}
}

func build(ctx context.Context, out string, stderr io.Writer) error {
	flags, err := stamp(ctx)
	if err != nil {
		return err
	}
	// -v names each package when its compilation starts; packages from the build cache are not named.
	cmd := exec.CommandContext(ctx, "go", "build", "-v", "-ldflags", flags, "-o", out, ".")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	pipe, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	p := &progress{out: stderr, began: time.Now(), terminal: isTerminal(stderr)}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.total = countPackages(ctx)
	problems := p.follow(pipe)
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w\n%s", err, problems)
	}
	p.finish(out)
	return linkKubectl(out)
}

// linkKubectl gives the program its second name in the same folder.
func linkKubectl(out string) error {
	link := filepath.Join(filepath.Dir(out), "kubectl")
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(filepath.Base(out), link)
}

// stamp returns the linker flags that set the version variables of Kubernetes to the version in go.mod, as Kubernetes' own
// build does. -s and -w leave the debug information away, which halves the file.
func stamp(ctx context.Context) (string, error) {
	raw, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return "", fmt.Errorf("asking for the version of k8s.io/kubernetes (run this in the folder test/sandbox): %w", explain(err))
	}
	version := strings.TrimSpace(string(raw))
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 3 {
		return "", fmt.Errorf("version %q of k8s.io/kubernetes is not MAJOR.MINOR.PATCH", version)
	}
	flags := []string{"-s", "-w"}
	for _, kv := range []string{"gitVersion=" + version, "gitMajor=" + parts[0], "gitMinor=" + parts[1],
		"gitCommit=" + version, "gitTreeState=clean"} {
		flags = append(flags, "-X", "k8s.io/component-base/version."+kv)
	}
	return strings.Join(flags, " "), nil
}

func explain(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}

// countPackages is how many packages there are to compile at most; 0 when unknown.
func countPackages(ctx context.Context) int {
	raw, err := exec.CommandContext(ctx, "go", "list", "-deps", ".").Output()
	if err != nil {
		return 0
	}
	return bytes.Count(raw, []byte("\n"))
}

type progress struct {
	out      io.Writer
	terminal bool
	began    time.Time
	total    int
	count    int
	shown    time.Time
}

// follow reads the output of go build until its end and returns what is not the name of a package.
func (p *progress) follow(r io.Reader) string {
	var problems strings.Builder
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if strings.ContainsAny(line, " :#") {
			fmt.Fprintln(&problems, line)
			continue
		}
		p.count++
		p.show(line)
	}
	return problems.String()
}

// show prints at most every 100 ms on a terminal, where the line is overwritten, and every 15 s elsewhere.
func (p *progress) show(pkg string) {
	every := 15 * time.Second
	if p.terminal {
		every = 100 * time.Millisecond
	}
	now := time.Now()
	if now.Sub(p.shown) < every {
		return
	}
	p.shown = now
	line := fmt.Sprintf("karp-sandbox: compiled %d of at most %d packages in %s: %s", p.count, p.total,
		now.Sub(p.began).Round(time.Second), pkg)
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	if len(line) > 110 {
		line = line[:107] + "..."
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", line)
}

func (p *progress) finish(file string) {
	if p.terminal && p.count > 0 {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
	size := int64(0)
	if info, err := os.Stat(file); err == nil {
		size = info.Size()
	}
	fmt.Fprintf(p.out, "karp-sandbox: built %s (%d MiB, %d packages compiled) in %s\n", file, size>>20, p.count,
		time.Since(p.began).Round(time.Second))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
