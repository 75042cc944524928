package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/karp-sh/karp/test/scenario/fixture"
	"github.com/karp-sh/karp/test/scenario/shorthand"
)

// TestEveryScenario asks about every pending pod of every cluster that the engine's tests know: each gets a sentence of its own, in lines that fit.
func TestEveryScenario(t *testing.T) {
	files, err := filepath.Glob("../../test/scenario/testdata/pending/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	asked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		datadriven.RunTestFromString(t, string(text), func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "cluster" {
				return d.Expected
			}
			c, err := shorthand.Parse([]byte(d.Input))
			if err != nil {
				return d.Expected
			}
			s, err := c.Expand(fixture.Catalogue())
			if err != nil {
				return d.Expected
			}
			dir := filepath.Join(t.TempDir(), "cluster")
			if err := s.Write(dir); err != nil {
				t.Fatal(err)
			}
			list := run(t, nil, "why-pending", "-A", "--snapshot", dir, "-o", "jsonpath={range .items[*]}{.subject.namespace} {.subject.name}{'\\n'}{end}")
			for pod := range strings.Lines(list.out) {
				asked++
				ns, name, _ := strings.Cut(strings.TrimSpace(pod), " ")
				got := run(t, nil, "why-pending", name, "-n", ns, "--snapshot", dir, "--width", "80")
				checkReadable(t, filepath.Base(file)+" "+d.Pos, got)
			}
			return d.Expected
		})
	}
	if asked < 30 {
		t.Errorf("asked about %d pods only", asked)
	}
}

func checkReadable(t *testing.T, where string, got outcome) {
	t.Helper()
	answer, _, _ := strings.Cut(got.out, "\n\n")
	answer = flat(answer)
	for _, bad := range []string{"%!", "does not take it (", "has no node: ", "nothing", "()", " ,", "  ."} {
		if strings.Contains(answer, bad) {
			t.Errorf("%s: %q in the sentence: %s", where, bad, answer)
		}
	}
	if got.code != 0 || !strings.HasSuffix(answer, ".") {
		t.Errorf("%s: exit code %d: %s%s", where, got.code, got.out, got.err)
	}
	for l := range strings.Lines(got.out) {
		l = strings.TrimRight(l, "\n")
		copied := strings.Contains(l, "kubectl ") || strings.Contains(l, "aws ec2") || strings.Contains(l, "- {key")
		if len([]rune(l)) > 80 && !copied && strings.Contains(strings.TrimSpace(l), " ") {
			t.Errorf("%s: %d columns: %s", where, len([]rune(l)), l)
		}
	}
}
