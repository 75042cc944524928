package scenario_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// expectCommand holds what must stay true of an answer whatever -rewrite does to the recorded ones. It asks as why-pending does and checks
// each line of the input against the dump of the answer:
//
//	expect pod=NS/NAME
//	TEXT            the dump has a line that contains TEXT
//	never TEXT      no line contains TEXT
//	first TEXT      the first fix contains TEXT
//	last TEXT       the last fix contains TEXT
//	then TEXT       a fix after the one matched before contains TEXT
//	----
//	ok
func expectCommand(t *testing.T, w *world, d *datadriven.TestData) string {
	text := dump(answerTo(t, w, d))
	var fixes []string
	for _, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(l, "fix ") {
			fixes = append(fixes, l)
		}
	}
	var bad []string
	at := -1
	for _, l := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		word, rest, _ := strings.Cut(l, " ")
		var ok bool
		switch word {
		case "never":
			ok = !strings.Contains(text, rest)
		case "first":
			at = 0
			ok = len(fixes) > 0 && strings.Contains(fixes[0], rest)
		case "last":
			ok = len(fixes) > 0 && strings.Contains(fixes[len(fixes)-1], rest)
		case "then":
			for at++; at < len(fixes) && !strings.Contains(fixes[at], rest); at++ {
			}
			ok = at < len(fixes)
		default:
			ok = strings.Contains(text, l)
		}
		if !ok {
			bad = append(bad, fmt.Sprintf("failed: %s", l))
		}
	}
	if len(bad) > 0 {
		// A failed expectation is an error even under -rewrite.
		t.Errorf("%s: %s\n%s", d.Pos, strings.Join(bad, "\n"), text)
	}
	return "ok"
}
