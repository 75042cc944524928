package explain_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/reason"
)

// A desk answers equal pods once; nobody may see that.
func TestDeskAnswersAsIfAskedAlone(t *testing.T) {
	s := large(t, 3, 2, 4)
	desk := explain.NewDesk(s, engine.Policy{}, explain.Facts{})
	var all []explain.PendingAnswer
	for _, q := range pendingPods(s) {
		got := desk.WhyPending(q)
		want := explain.WhyPending(s, engine.Policy{}, explain.Facts{}, q)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pod %s (-alone +desk):\n%s", q.Pod.Name, diff)
		}
		if got.Code != reason.LabelUnknown || len(got.Fixes) == 0 || got.Fixes[0].Changes[0].Object.Name != q.Pod.Name {
			t.Errorf("pod %s: %s, fixes %+v", q.Pod.Name, got.Code, got.Fixes)
		}
		all = append(all, got)
	}
	groups := explain.Group(all)
	if len(groups) != 1 || len(groups[0].Pods) != 4 {
		t.Errorf("four equal pods are one group: %+v", groups)
	}
}

func TestMaxFixesEndsTheSimulation(t *testing.T) {
	s := large(t, 1, 1, 1)
	q := pendingPods(s)[0]
	all := explain.WhyPending(s, engine.Policy{}, explain.Facts{}, q)
	q.MaxFixes = 2
	some := explain.WhyPending(s, engine.Policy{}, explain.Facts{}, q)
	if len(all.Fixes) <= 2 {
		t.Fatalf("the case has only %d fixes", len(all.Fixes))
	}
	if diff := cmp.Diff(all.Fixes[:2], some.Fixes); diff != "" {
		t.Errorf("the first two fixes (-all +some):\n%s", diff)
	}
}
