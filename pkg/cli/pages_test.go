package cli_test

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/karp-sh/karp/pkg/cli"
)

var update = flag.Bool("update", false, "write the pages of the commands")

// TestEveryCodeHasPage compares the help pages with the codes that package reason declares.
func TestEveryCodeHasPage(t *testing.T) {
	pages := cli.Codes()
	files, err := filepath.Glob("../reason/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources of package reason: %v", err)
	}
	declared := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		for _, code := range codesIn(t, f) {
			declared++
			known := slices.ContainsFunc(pages, func(p string) bool {
				_, sub, _ := strings.Cut(p, ".")
				return p == code || sub == code
			})
			if !known {
				t.Errorf("%s has no help page", code)
			}
		}
	}
	if declared < 40 {
		t.Errorf("found only %d codes", declared)
	}
	if bad := cli.IncompletePages(); len(bad) > 0 {
		t.Errorf("pages lack a part: %v", bad)
	}
	slices.Sort(pages)
	if n := len(pages); len(slices.Compact(pages)) != n {
		t.Error("a code has two pages")
	}
}

// codesIn lists the values of all constants of type Code in a file.
func codesIn(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == "Code" && len(v.Values) == 1 {
			if lit, ok := v.Values[0].(*ast.BasicLit); ok {
				out = append(out, strings.Trim(lit.Value, `"`))
			}
		}
		return true
	})
	return out
}

// TestPages keeps one page for every command up to date. To write them run
//
//	go test ./pkg/cli -run TestPages -update
func TestPages(t *testing.T) {
	root := cli.New(cli.Program{Streams: genericiooptions.NewTestIOStreamsDiscard(), Version: "v0.0.0-test", Getenv: func(string) string { return "" }})
	want := map[string]string{}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			want[c.Name()+".md"] = commandPage(c)
		}
	}
	want["README.md"] = index(root)
	for name, text := range want {
		if *update {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("%v; run with -update", err)
		}
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("%s is out of date, run with -update (-want +got):\n%s", name, diff)
		}
	}
	present, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range present {
		if want[name] == "" {
			t.Errorf("%s is the page of no command", name)
		}
	}
}

// index lists commands, shared flags, exit codes and the codes of reports.
func index(root *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# kubectl karp\n\n```\n%s\n```\n\n%s\n\n## Commands\n\n", root.Example, root.Long)
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			fmt.Fprintf(&b, "- [%s](%s.md): %s\n", c.Name(), c.Name(), c.Short)
		}
	}
	b.WriteString("\n## Flags of all commands\n\nAll of kubectl's connection flags (`--context`, `--kubeconfig`, `-n`, `--as`, `--request-timeout`, ...), and:\n\n")
	var own []*pflag.Flag
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !connection(f.Name) {
			own = append(own, f)
		}
	})
	flagTable(&b, own)
	b.WriteString("\nA default can be kept as `KARP_<FLAG>` in the environment or in `~/.config/kubectl-karp/config.yaml`; `kubectl karp options` shows what is in force.\n")
	b.WriteString("\n## Exit codes\n\n| Code | Meaning |\n|---|---|\n| 0 | answered |\n| 1 | error: not found, forbidden, unreachable |\n| 2 | usage |\n| 3 | a finding, with `--exit-code` |\n| 4 | a partial answer, with `--strict` |\n| 5 | `--wait` timed out |\n| 130 | interrupted |\n")
	b.WriteString("\n## Codes of reports\n\n`kubectl karp help CODE` explains each, `kubectl karp help codes` lists them with their meaning: ")
	b.WriteString(strings.Join(cli.Codes(), ", ") + ".\n")
	return b.String()
}

// connection reports whether the flag is one of kubectl's.
func connection(name string) bool {
	return slices.Contains([]string{"as", "as-group", "as-uid", "as-user-extra", "cache-dir", "certificate-authority", "client-certificate", "client-key", "cluster", "context", "disable-compression",
		"insecure-skip-tls-verify", "kubeconfig", "namespace", "password", "proxy-url", "request-timeout", "server", "tls-server-name", "token", "user", "username"}, name)
}

func commandPage(c *cobra.Command) string {
	var b strings.Builder
	c.InitDefaultHelpFlag()
	fmt.Fprintf(&b, "# %s\n\n%s.\n", c.CommandPath(), strings.TrimRight(c.Short, ".?"))
	if c.Example != "" {
		fmt.Fprintf(&b, "\n```\n%s\n```\n", c.Example)
	}
	if c.Runnable() {
		fmt.Fprintf(&b, "\n```\n%s\n```\n", c.UseLine())
	}
	if c.Long != "" {
		fmt.Fprintf(&b, "\n%s\n", c.Long)
	}
	var flags []*pflag.Flag
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			flags = append(flags, f)
		}
	})
	if len(flags) > 0 {
		b.WriteString("\n")
		flagTable(&b, flags)
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && c.Name() != "completion" {
			b.WriteString("\n" + strings.Replace(commandPage(sub), "# ", "## ", 1))
		}
	}
	return b.String()
}

func flagTable(b *strings.Builder, flags []*pflag.Flag) {
	b.WriteString("| Flag | Default | Meaning |\n|---|---|---|\n")
	for _, f := range flags {
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value := f.DefValue
		if value == "[]" {
			value = ""
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, value, strings.ReplaceAll(f.Usage, "|", "\\|"))
	}
}

// TestExamples wants every help text to begin with two real examples.
func TestExamples(t *testing.T) {
	root := cli.New(cli.Program{Streams: genericiooptions.NewTestIOStreamsDiscard(), Getenv: func(string) string { return "" }})
	for _, c := range root.Commands() {
		if strings.Count(c.Example, "# ") < 2 {
			t.Errorf("%s has fewer than two examples", c.Name())
		}
		got := run(t, nil, c.Name(), "--help")
		if got.code != 0 || !strings.HasPrefix(got.out, c.Example) {
			t.Errorf("%s --help does not begin with its examples: exit code %d\n%s%s", c.Name(), got.code, got.out, got.err)
		}
	}
}

func TestVersion(t *testing.T) {
	if got := run(t, nil, "version"); !strings.HasPrefix(got.out, "kubectl-karp v0.0.0-test (go") {
		t.Errorf("version says %q", got.out)
	}
	if got := run(t, nil, "version", "-o", "jsonpath={.kind} {.version}"); got.out != "Version v0.0.0-test" {
		t.Errorf("version as jsonpath says %q", got.out)
	}
}

// TestCompletion asks as the shells do.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := run(t, nil, "completion", shell); got.code != 0 || !strings.Contains(got.out, "kubectl-karp") {
			t.Errorf("completion %s: exit code %d, %d bytes", shell, got.code, len(got.out))
		}
	}
	l := newLive(t, "W08")
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"why-pending", "-n", "edge", ""}, "gw-5\n:4\n"},
		{[]string{"scale-static", ""}, "ingress\t2 replicas\n:4\n"},
		{[]string{"scale", "nodepool", ""}, "ingress\t2 replicas\n:4\n"},
		{[]string{"why-pending", "--nodepool", ""}, "default\ningress\n:4\n"},
		{[]string{"why-pending", "--color", ""}, "auto\nalways\nnever\n:4\n"},
	}
	for _, tt := range tests {
		got := run(t, []string{"KUBECONFIG=" + l.config}, append([]string{"__complete", "--kubeconfig", l.config}, tt.args...)...)
		if got.out != tt.want {
			t.Errorf("completing %v: %q, want %q", tt.args, got.out, tt.want)
		}
	}
}

func TestClause(t *testing.T) {
	tests := []struct{ in, want string }{
		{`pods is forbidden: User "dana" cannot list resource "pods" in API group "" at the cluster scope`, "dana may not list pods"},
		{`nodeclaims.karpenter.sh is forbidden: User "dana" cannot list resource "nodeclaims" in API group "karpenter.sh" at the cluster scope`, "dana may not list nodeclaims.karpenter.sh"},
		{`services "https:karp-agent:status" is forbidden: User "dana" cannot get resource "services/proxy" in API group "" in the namespace "kube-system"`, "dana may not get services/proxy in namespace kube-system"},
		{`only namespace shop could be read: pods is forbidden: User "dana" cannot list resource "pods" in API group "" at the cluster scope`, "only namespace shop could be read: dana may not list pods"},
		{"no answer within 1.5s", "no answer within 1.5s"},
	}
	for _, tt := range tests {
		if got := cli.Clause(errors.New(tt.in)); got != tt.want {
			t.Errorf("%q becomes %q, want %q", tt.in, got, tt.want)
		}
	}
}
