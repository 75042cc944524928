package scenario_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// saysCommand holds what the plugin's text must and must not say whatever -rewrite does. The first line are the arguments as for karp; each
// further one must occur in the output, or must not if it begins with "never". Line breaks do not matter.
//
//	says
//	why-pending web-1 -n web
//	the facts
//	never the mistakes
//	----
//	ok
func saysCommand(t *testing.T, w *world, d *datadriven.TestData) string {
	args, wants, _ := strings.Cut(d.Input, "\n")
	for _, width := range []string{" --width 80", " --width 100"} {
		run := *d
		run.Input = args + width
		text := karpCommand(t, w, &run)
		flat := strings.Join(strings.Fields(text), " ")
		for _, want := range strings.Split(strings.TrimSpace(wants), "\n") {
			rest, never := strings.CutPrefix(want, "never ")
			if strings.Contains(flat, rest) == never {
				t.Errorf("%s: %s:\n%s", d.Pos, want, text)
			}
		}
	}
	return "ok"
}
