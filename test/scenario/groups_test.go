package scenario_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/reason"
)

// groupsCommand asks about all pods without a node and groups them by answer:
//
//	groups
func groupsCommand(t *testing.T, w *world, d *datadriven.TestData) string {
	t.Helper()
	var answers []reason.Pending
	for _, p := range w.snapshot.Pods {
		if p.Node == "" {
			answers = append(answers, explain.WhyPending(w.snapshot, engine.Policy{}, w.facts, explain.Question{Pod: p}))
		}
	}
	var b strings.Builder
	for _, g := range explain.Group(answers) {
		fmt.Fprintf(&b, "%d %s, nearest %q, since %s, example %s\n", len(g.Pods), g.Code, g.Nearest, clock(g.Since), g.Example.Pod)
	}
	return b.String()
}
