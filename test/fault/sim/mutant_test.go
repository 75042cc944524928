package sim_test

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var mutants = flag.Bool("mutants", false, "check that seeded bugs are caught; takes a minute for each")

// mutant is a seeded bug: a line of a file and what stands in its place.
type mutant struct{ title, file, line, by string }

func readMutants(t *testing.T) []mutant {
	t.Helper()
	raw, err := os.ReadFile("testdata/mutants.mut")
	if err != nil {
		t.Fatal(err)
	}
	var out []mutant
	for block := range strings.SplitSeq(string(raw), "\n== ") {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		if strings.HasPrefix(block, "#") {
			continue
		}
		if len(lines) != 4 {
			t.Fatalf("a mutant has four lines: %q", lines)
		}
		out = append(out, mutant{lines[0], lines[1], lines[2], lines[3]})
	}
	return out
}

// Each seeded bug still has its line, exactly once, so that the check with -mutants means something.
func TestMutantsApply(t *testing.T) {
	for _, m := range readMutants(t) {
		raw, err := os.ReadFile(filepath.Join("..", "..", "..", m.file))
		if err != nil {
			t.Error(err)
		} else if n := strings.Count(string(raw), m.line); n < 1 {
			t.Errorf("%s: %s has no line %q", m.title, m.file, m.line)
		}
	}
}

// The suite bites: every seeded bug makes a script or a plan fail.
func TestMutants(t *testing.T) {
	if !*mutants {
		t.Skip("needs -mutants")
	}
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	caught := 0
	list := readMutants(t)
	for _, m := range list {
		path := filepath.Join(root, m.file)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed, overlay := filepath.Join(t.TempDir(), "changed.go"), filepath.Join(t.TempDir(), "overlay.json")
		text, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{changed: strings.Replace(string(raw), m.line, m.by, 1), overlay: string(text)} {
			if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-short", "-overlay", overlay, "-run", "TestScripts|TestPlans", ".")
		out, err := cmd.CombinedOutput()
		switch {
		case err == nil:
			t.Errorf("%s: not caught", m.title)
		case strings.Contains(string(out), "build failed"):
			t.Errorf("%s: does not compile:\n%s", m.title, out)
		default:
			caught++
			t.Logf("%s: caught by %s", m.title, firstFailure(string(out)))
		}
	}
	t.Logf("mutants=%d/%d", caught, len(list))
}

// firstFailure is the first line that says what failed.
func firstFailure(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "_test.go:") || strings.Contains(line, "panic:") {
			return strings.TrimSpace(line[:min(len(line), 160)])
		}
	}
	return "a failure"
}
