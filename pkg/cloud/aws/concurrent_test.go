package aws_test

import (
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/karp-sh/karp/pkg/cloud"
)

// TestConcurrentLaunches launches, lists, refreshes and sells out at the same time; every claim gets an instance of its own.
func TestConcurrentLaunches(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	const claims = 12
	ids := make([]string, claims)
	errs := make([]error, claims)
	var wg sync.WaitGroup
	for i := range claims {
		wg.Go(func() {
			c := order([]string{"spot", "on-demand"}, "m5.large", "c5.large", "r5.large")
			c.UID = types.UID(string(rune('a' + i)))
			r, err := w.Resolve(t.Context(), c, class, cloud.Identity{ClusterUID: "cluster-1", ClaimUID: string(c.UID), Attempt: 1})
			if err != nil {
				errs[i] = err
				return
			}
			instance, err := w.Launch(t.Context(), r)
			if err != nil {
				errs[i] = err
				return
			}
			ids[i] = instance.ID
		})
	}
	for _, r := range w.Refreshers() {
		wg.Go(func() {
			if err := r.Refresh(t.Context()); err != nil {
				t.Errorf("%s: %v", r.Name, err)
			}
		})
	}
	wg.Go(func() { w.MarkUnavailable("spot", "c5.large", "us-west-2a", "SpotInterruption") })
	wg.Go(func() {
		if _, err := w.Observe(t.Context(), class, start()); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	distinct := map[string]bool{}
	for i := range claims {
		if errs[i] != nil {
			t.Errorf("claim %d: %v", i, errs[i])
		}
		distinct[ids[i]] = true
	}
	list, err := w.List(t.Context())
	if err != nil || len(list.Instances) != claims || len(distinct) != claims {
		t.Errorf("%d instances for %d claims, %d distinct, %v", len(list.Instances), claims, len(distinct), err)
	}
}
