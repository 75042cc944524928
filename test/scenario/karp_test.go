package scenario_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/karp-sh/karp/pkg/cli"
)

// karpCommand runs the plugin on the cluster's snapshot directory, as a user would, and prints what it prints. A line for the exit code follows if it
// is not 0. Words in double quotes are one argument:
//
//	karp
//	why-pending web-1 -n web --width 80
//	----
//
// The arguments are the input: those of a command have rules of their own.
func karpCommand(t *testing.T, w *world, d *datadriven.TestData) string {
	if w.dir == "" {
		d.Fatalf(t, "there is no cluster yet")
	}
	// A path of fixed length, because the text is wrapped.
	t.Chdir(filepath.Dir(w.dir))
	var out, errs bytes.Buffer
	args := append(words(strings.TrimSpace(d.Input)), "--snapshot", filepath.Base(w.dir), "--color", "never")
	code := cli.Main(t.Context(), cli.Program{
		Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs},
		Version: "v0.0.0-scenario",
		Getenv: func(name string) string {
			if name == "LANG" {
				return "C.UTF-8"
			}
			return ""
		},
		Environ: []string{"LANG=C.UTF-8", "TERM=dumb"},
	}, args)
	text := out.String() + errs.String()
	if code != 0 {
		text += fmt.Sprintf("exit %d\n", code)
	}
	return text
}

// words splits at spaces outside of double quotes.
func words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}
