package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/karp-sh/karp/pkg/cli"
	"github.com/karp-sh/karp/test/scenario/fixture"
	"github.com/karp-sh/karp/test/scenario/shorthand"
)

// TestCommands runs the conversations below testdata through the real command line. A file first makes a cluster, then runs commands on it:
//
//	cluster                       the input is a cluster in shorthand, written out as files
//	scenario NAME                 as cluster, from a scenario file of the engine's tests
//	file NAME                     the input becomes a file, which commands name as DIR/NAME
//	run [env=(K=V,...)]           the input is a command line on --snapshot of the cluster
//	bare                          as run, without --snapshot
//
// The output is standard output, then standard error, then the exit code if it is not 0. To accept new outputs run
//
//	go test ./pkg/cli -run TestCommands -rewrite
func TestCommands(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimPrefix(filepath.ToSlash(file), "testdata/"), func(t *testing.T) {
			// The path must not vary, since it is part of what is printed.
			home := t.TempDir()
			snapshot, files := filepath.Join(home, "cluster"), filepath.Join(home, "files")
			if err := os.MkdirAll(files, 0o755); err != nil {
				t.Fatal(err)
			}
			short := strings.NewReplacer(snapshot, "CLUSTER", files, "DIR", home, "HOME")
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "cluster":
					expand(t, []byte(d.Input), snapshot)
				case "scenario":
					expandScenario(t, d.CmdArgs[0].Key, snapshot)
				case "file":
					if err := os.WriteFile(filepath.Join(files, d.CmdArgs[0].Key), []byte(d.Input+"\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				case "run", "bare":
					args := words(t, strings.ReplaceAll(d.Input, "DIR/", files+"/"))
					if d.Cmd == "run" {
						args = append(args, "--snapshot", snapshot)
					}
					return short.Replace(run(t, environment(home, d), args...).text())
				default:
					d.Fatalf(t, "unknown command %q", d.Cmd)
				}
				return "ok"
			})
		})
	}
}

// outcome is what a command did.
type outcome struct {
	out, err string
	code     int
}

func (o outcome) text() string {
	text := o.out
	if o.err != "" {
		text += "-- stderr --\n" + o.err
	}
	if o.code != 0 {
		text += fmt.Sprintf("-- exit code %d --\n", o.code)
	}
	return text
}

// run runs the plugin in this process.
func run(t *testing.T, env []string, args ...string) outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	code := cli.Main(t.Context(), cli.Program{
		Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, Version: "v0.0.0-test",
		Environ: env,
		Getenv: func(name string) string {
			for _, e := range env {
				if v, ok := strings.CutPrefix(e, name+"="); ok {
					return v
				}
			}
			return ""
		},
	}, args)
	return outcome{out.String(), errOut.String(), code}
}

func environment(home string, d *datadriven.TestData) []string {
	env := []string{"HOME=" + home, "LANG=en_US.UTF-8", "TERM=xterm-256color"}
	for _, a := range d.CmdArgs {
		if a.Key == "env" {
			env = append(a.Vals, env...)
		}
	}
	return env
}

func expand(t *testing.T, text []byte, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	c, err := shorthand.ParseFile(text)
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Expand(fixture.Catalogue())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
}

// expandScenario writes out the first cluster of the scenario file whose name begins so.
func expandScenario(t *testing.T, name, dir string) {
	t.Helper()
	found, err := filepath.Glob("../../test/scenario/testdata/why/" + name + "-*")
	if err != nil || len(found) != 1 {
		t.Fatalf("scenario %s: found %v, %v", name, found, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	expand(t, text, dir)
}

// words splits a command line as a shell does: at spaces and line ends, single quotes keep text together.
func words(t *testing.T, line string) []string {
	t.Helper()
	var out []string
	current, quoted, started := "", false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, started = !quoted, true
		case !quoted && (r == ' ' || r == '\n'):
			if started {
				out = append(out, current)
			}
			current, started = "", false
		default:
			current, started = current+string(r), true
		}
	}
	if quoted {
		t.Fatalf("unfinished quote in %s", line)
	}
	if started {
		out = append(out, current)
	}
	return out
}
