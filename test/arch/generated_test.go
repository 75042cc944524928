package arch_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGeneratedFiles runs the generators into a scratch directory and compares: what is committed is what `make gen` makes.
func TestGeneratedFiles(t *testing.T) {
	dir := t.TempDir()
	run(t, "go", "tool", "-modfile=test/tools/go.mod", "controller-gen", "crd", "paths=./pkg/apis/...", "output:crd:dir="+dir)
	same(t, dir, "../../manifests/crds", ".yaml")
	for _, group := range []string{"karpenter/v1", "karpenter/v1alpha1", "aws/v1", "autoscaling/v1beta1", "karp/v1alpha1"} {
		code := t.TempDir()
		run(t, "go", "tool", "-modfile=test/tools/go.mod", "controller-gen", "object", "paths=./pkg/apis/"+group, "output:object:dir="+code)
		same(t, code, "../../pkg/apis/"+group, "zz_generated.deepcopy.go")
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// same compares all files of two directories whose names end in suffix.
func same(t *testing.T, made, committed, suffix string) {
	t.Helper()
	for _, pair := range [][2]string{{made, committed}, {committed, made}} {
		err := filepath.WalkDir(pair[0], func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) || d.Name() == "kustomization.yaml" {
				return err
			}
			rel, err := filepath.Rel(pair[0], path)
			if err != nil {
				return err
			}
			a, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b, err := os.ReadFile(filepath.Join(pair[1], rel))
			if err != nil || !bytes.Equal(a, b) {
				t.Errorf("%s is not what `make gen` makes; run it and commit the result", rel)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFormatted wants gofmt's form everywhere.
func TestFormatted(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "gofmt", "-l", "cmd", "pkg", "test")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if len(out) > 0 {
		t.Errorf("not formatted:\n%s", out)
	}
}
