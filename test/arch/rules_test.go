package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goFiles yields the project's Go files outside the modules below test that stand for themselves.
func goFiles(t *testing.T, yield func(path string, file *ast.File, set *token.FileSet)) {
	t.Helper()
	root := "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "bin" || name == "dist" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		yield(strings.TrimPrefix(filepath.ToSlash(path), "../../"), f, set)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func generated(f *ast.File) bool { return ast.IsGenerated(f) }

// TestPackageNames refuses names that say nothing.
func TestPackageNames(t *testing.T) {
	banned := []string{"util", "utils", "common", "helper", "helpers", "misc", "base", "shared", "types"}
	goFiles(t, func(path string, f *ast.File, _ *token.FileSet) {
		if slices.Contains(banned, f.Name.Name) {
			t.Errorf("%s: package name %q says nothing", path, f.Name.Name)
		}
	})
}

// TestPackageComments wants one on every package.
func TestPackageComments(t *testing.T) {
	has := map[string]bool{}
	goFiles(t, func(path string, f *ast.File, _ *token.FileSet) {
		dir := filepath.Dir(path)
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		has[dir] = has[dir] || f.Doc != nil
	})
	for dir, ok := range has {
		if !ok {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

// TestExportedDocs wants a doc comment on every exported name of the product.
func TestExportedDocs(t *testing.T) {
	goFiles(t, func(path string, f *ast.File, set *token.FileSet) {
		if strings.HasSuffix(path, "_test.go") || generated(f) || !strings.HasPrefix(path, "pkg/") {
			return
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || exportedReceiver(d)) && !obvious(d.Name.Name) {
					t.Errorf("%s: %s has no doc comment", set.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				undocumented(d, func(n *ast.Ident) {
					t.Errorf("%s: %s has no doc comment", set.Position(n.Pos()), n.Name)
				})
			}
		}
	})
}

// obvious are methods whose contract is that of a well-known interface.
func obvious(name string) bool {
	return slices.Contains([]string{"Error", "Unwrap", "String", "MarshalJSON", "UnmarshalJSON", "Len", "Less", "Swap"}, name)
}

func exportedReceiver(d *ast.FuncDecl) bool {
	t := d.Recv.List[0].Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	if i, ok := t.(*ast.IndexExpr); ok {
		t = i.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

func undocumented(d *ast.GenDecl, report func(*ast.Ident)) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
				report(s.Name)
			}
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					report(n)
				}
			}
		}
	}
}

// TestNoInit refuses init functions and, in the pure layers, mutable package variables.
func TestNoInit(t *testing.T) {
	goFiles(t, func(path string, f *ast.File, set *token.FileSet) {
		if generated(f) || !strings.HasPrefix(path, "pkg/") && !strings.HasPrefix(path, "cmd/") {
			return
		}
		for _, d := range f.Decls {
			if fd, ok := d.(*ast.FuncDecl); ok && fd.Recv == nil && fd.Name.Name == "init" {
				t.Errorf("%s: no init functions", set.Position(fd.Pos()))
			}
		}
	})
}

// TestForbiddenCalls keeps clocks, randomness, the environment and printing out of the pure layers and ends of processes out of packages.
func TestForbiddenCalls(t *testing.T) {
	pure := []string{"pkg/units/", "pkg/constraint/", "pkg/reason/", "pkg/catalog/", "pkg/cluster/", "pkg/plan/", "pkg/engine/", "pkg/lifecycle/"}
	everywhere := []string{"os.Exit", "log.Fatal", "log.Fatalf", "log.Panic", "fmt.Print", "fmt.Printf", "fmt.Println"}
	inPure := append(slices.Clone(everywhere), "time.Now", "time.Since", "time.Until", "time.Sleep", "os.Getenv", "rand.Int", "rand.Intn", "rand.Float64")
	goFiles(t, func(path string, f *ast.File, set *token.FileSet) {
		if strings.HasSuffix(path, "_test.go") || !strings.HasPrefix(path, "pkg/") || strings.Contains(path, "/gen/") {
			return
		}
		banned := everywhere
		for _, p := range pure {
			if strings.HasPrefix(path, p) {
				banned = inPure
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(banned, x.Name+"."+sel.Sel.Name) {
				t.Errorf("%s: %s.%s does not belong here", set.Position(n.Pos()), x.Name, sel.Sel.Name)
			}
			return true
		})
	})
}

// TestTopLevel keeps the repository's first screen as the architecture draws it.
func TestTopLevel(t *testing.T) {
	allowed := []string{".ci", ".git", ".gitignore", ".golangci.yaml", "LICENSE", "Makefile", "README.md", "bin", "cmd", "dist", "go.mod", "go.sum", "krew", "manifests", "pkg", "test"}
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(allowed, e.Name()) {
			t.Errorf("%s has no place at the top level", e.Name())
		}
	}
}
