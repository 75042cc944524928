package arch_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/karp-sh/karp/"

// layer is one row of the layer table: what packages below dir may import, directly or through others.
type layer struct {
	name string
	dirs []string
	// own lists the project's packages that may be imported, as prefixes; a trailing "!" means exactly that package.
	own []string
	// external lists prefixes of modules outside the project and the standard library that may be imported directly.
	external []string
	// std lists packages of the standard library that must not be imported directly.
	forbidden []string
	// closed also forbids everything external in the transitive closure except the prefixes of external.
	closed bool
}

func table() []layer {
	bits := "github.com/bits-and-blooms/bitset"
	impure := []string{"context", "log", "log/slog", "net", "net/http", "os", "os/exec", "math/rand", "math/rand/v2", "crypto/rand", "unsafe"}
	values := []string{"pkg/units", "pkg/constraint", "pkg/reason", "pkg/catalog", "pkg/cluster", "pkg/plan"}
	decisions := []string{"pkg/engine", "pkg/lifecycle"}
	contracts := []string{"pkg/apis", "pkg/cloud!", "pkg/config"}
	below := join(values, decisions, contracts)
	edges := []string{"pkg/kube", "pkg/cloud/aws", "pkg/status", "pkg/telemetry"}
	return []layer{
		{name: "values", dirs: values, own: values, external: []string{bits}, forbidden: impure, closed: true},
		{name: "decisions", dirs: decisions, own: join(values, decisions), external: []string{bits}, forbidden: impure, closed: true},
		{name: "contracts: apis", dirs: []string{"pkg/apis"}, own: []string{"pkg/apis"}, external: []string{"k8s.io/apimachinery", "k8s.io/api/"}},
		{name: "contracts: cloud", dirs: []string{"pkg/cloud!"}, own: join(values, []string{"pkg/apis"}), external: []string{"k8s.io/apimachinery", "k8s.io/api/"}},
		{name: "contracts: config", dirs: []string{"pkg/config"}, own: join(values, []string{"pkg/config"}), external: []string{"github.com/spf13/pflag", "sigs.k8s.io/yaml", "k8s.io/component-base/featuregate", "k8s.io/apimachinery", "k8s.io/api/"}},
		{name: "edge: kube", dirs: []string{"pkg/kube"}, own: join(below, []string{"pkg/kube"}), external: []string{"k8s.io/", "sigs.k8s.io/"}},
		{name: "edge: aws", dirs: []string{"pkg/cloud/aws"}, own: join(below, []string{"pkg/cloud/aws"}), external: []string{"k8s.io/apimachinery", "k8s.io/api/", "k8s.io/utils", "github.com/aws/", "golang.org/x/", "sigs.k8s.io/yaml", "github.com/pelletier/go-toml"}},
		{name: "edge: status", dirs: []string{"pkg/status"}, own: join(below, []string{"pkg/status"}), external: []string{"k8s.io/", "sigs.k8s.io/", "golang.org/x/"}},
		{name: "edge: telemetry", dirs: []string{"pkg/telemetry"}, own: join(below, []string{"pkg/telemetry"}), external: []string{"k8s.io/", "sigs.k8s.io/", "github.com/prometheus/", "github.com/go-logr/"}},
		{name: "program: agent", dirs: []string{"pkg/agent"}, own: join(below, edges, []string{"pkg/agent"}), external: []string{"k8s.io/", "sigs.k8s.io/", "golang.org/x/", "github.com/prometheus/", "github.com/go-logr/"}},
		{name: "program: cli", dirs: []string{"pkg/cli"}, own: join(below, []string{"pkg/kube", "pkg/status", "pkg/view", "pkg/cli"}), external: []string{"k8s.io/", "sigs.k8s.io/", "golang.org/x/", "github.com/spf13/", "charm.land/", "github.com/charmbracelet/", "github.com/mattn/"}},
		{name: "program: view", dirs: []string{"pkg/view"}, own: join(values, []string{"pkg/engine", "pkg/view"}), external: []string{"charm.land/", "github.com/charmbracelet/", "github.com/mattn/", "sigs.k8s.io/yaml"}},
	}
}

func join(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// pkgInfo is what `go list -json` says of a package.
type pkgInfo struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

func list(t *testing.T, args ...string) map[string]pkgInfo {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-json=ImportPath,Standard,Imports,Deps"}, args...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	pkgs := map[string]pkgInfo{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkgInfo
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs
		}
		if err != nil {
			t.Fatal(err)
		}
		pkgs[p.ImportPath] = p
	}
}

// within reports whether the project's package path lies in one of the directories.
func within(path string, dirs []string) bool {
	rel, ok := strings.CutPrefix(path, module)
	if !ok {
		return false
	}
	for _, d := range dirs {
		if exact, yes := strings.CutSuffix(d, "!"); yes {
			if rel == exact {
				return true
			}
			continue
		}
		if rel == d || strings.HasPrefix(rel, d+"/") {
			return true
		}
	}
	return false
}

func hasPrefix(path string, prefixes []string) bool {
	for _, p := range prefixes {
		if path == strings.TrimSuffix(p, "/") || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return false
}

// generator reports whether the package is a program run by `make gen` or by hand, outside the layers.
func generator(path string) bool { return strings.HasSuffix(path, "/gen") }

// TestLayers checks every package against the layer table of the architecture.
func TestLayers(t *testing.T) {
	pkgs := list(t, "./pkg/...", "./cmd/...")
	for _, l := range table() {
		t.Run(l.name, func(t *testing.T) {
			for path, p := range pkgs {
				if !within(path, l.dirs) || generator(path) {
					continue
				}
				checkImports(t, l, p, pkgs)
				if l.closed {
					checkClosure(t, l, p, pkgs)
				}
			}
		})
	}
}

func checkImports(t *testing.T, l layer, p pkgInfo, pkgs map[string]pkgInfo) {
	t.Helper()
	for _, imp := range p.Imports {
		switch {
		case strings.HasPrefix(imp, module):
			if !within(imp, l.own) {
				t.Errorf("%s imports %s, which its layer may not", p.ImportPath, imp)
			}
		case pkgs[imp].Standard:
			for _, f := range l.forbidden {
				if imp == f {
					t.Errorf("%s imports %s: values and decisions are pure", p.ImportPath, imp)
				}
			}
		case !hasPrefix(imp, l.external):
			t.Errorf("%s imports %s, which is not on its layer's list", p.ImportPath, imp)
		}
	}
}

// checkClosure forbids Kubernetes, AWS and every other module anywhere below the package.
func checkClosure(t *testing.T, l layer, p pkgInfo, pkgs map[string]pkgInfo) {
	t.Helper()
	for _, dep := range p.Deps {
		if pkgs[dep].Standard || strings.HasPrefix(dep, module) || hasPrefix(dep, l.external) {
			continue
		}
		t.Errorf("%s depends on %s", p.ImportPath, dep)
	}
}

// TestCliWithoutAgent keeps the two programs apart: neither links the other.
func TestCliWithoutAgent(t *testing.T) {
	pkgs := list(t, "./pkg/...", "./cmd/...")
	for path, p := range pkgs {
		for _, dep := range p.Deps {
			if within(path, []string{"pkg/cli", "cmd/kubectl-karp"}) && within(dep, []string{"pkg/agent", "pkg/cloud/aws"}) {
				t.Errorf("%s depends on %s", path, dep)
			}
			if within(path, []string{"pkg/agent", "cmd/agent"}) && (within(dep, []string{"pkg/cli", "pkg/view"}) || hasPrefix(dep, []string{"k8s.io/kubectl", "k8s.io/cli-runtime"})) {
				t.Errorf("%s depends on %s", path, dep)
			}
			if within(path, []string{"pkg", "cmd"}) && within(dep, []string{"test"}) {
				t.Errorf("%s depends on %s", path, dep)
			}
		}
	}
}
