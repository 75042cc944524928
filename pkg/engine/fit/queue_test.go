package fit_test

import (
	"strings"
	"testing"

	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/engine/scenario"
)

// S-046, S-047: pods are tried by falling CPU and memory, then by age, then by UID.
func TestQueueOrder(t *testing.T) {
	for row, tc := range map[string]struct{ pods, want string }{
		"S-046": {"pod A: cpu 2; mem 1Gi\npod B: cpu 1; mem 8Gi\npod C: cpu 2; mem 4Gi", "C A B"},
		"S-047": {"pod young: created 2\npod old: created 1\npod two: created 3; uid b\npod one: created 3; uid a", "old young one two"},
	} {
		w := scenario.New()
		if err := w.Apply("pool np:\n" + tc.pods); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range fit.New(w.Snapshot()).Groups {
			for _, p := range g.Pods {
				got = append(got, p.Name)
			}
		}
		if order := strings.Join(got, " "); order != tc.want {
			t.Errorf("%s: order %s, want %s; pods:\n%s", row, order, tc.want, tc.pods)
		}
	}
}
