package cluster_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/karp-sh/karp/pkg/cluster"
)

// Pods that are added at once, some several times, are what they are when set one by one, then and after later changes.
func TestAddPod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, added := cluster.NewBuilder(), cluster.NewBuilder()
		draw := func() *cluster.Pod {
			uid := rapid.SampledFrom([]string{"", "8charact-", "other"}).Draw(t, "prefix") + fmt.Sprint(rapid.IntRange(0, 20).Draw(t, "uid"))
			return pod(uid, rapid.SampledFrom([]string{"n1", "n2", ""}).Draw(t, "on"), rapid.SampledFrom([]int64{100, 200}).Draw(t, "cpu"))
		}
		for _, b := range []*cluster.Builder{set, added} {
			b.SetNode(node("n1", 1))
		}
		added.GrowPods(rapid.IntRange(0, 10).Draw(t, "room"))
		for range rapid.IntRange(0, 40).Draw(t, "pods") {
			p := draw()
			set.SetPod(p)
			added.AddPod(p)
		}
		if rapid.Bool().Draw(t, "snapshot") {
			if diff := cmp.Diff(view(set.Snapshot(epoch())), view(added.Snapshot(epoch()))); diff != "" {
				t.Fatalf("first snapshot (-set +added):\n%s", diff)
			}
		}
		for range rapid.IntRange(0, 10).Draw(t, "changes") {
			p := draw()
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				set.DeletePod(p.UID)
				added.DeletePod(p.UID)
			case 1:
				set.SetPod(p)
				added.SetPod(p)
			default:
				set.SetPod(p)
				added.AddPod(p)
			}
		}
		if diff := cmp.Diff(view(set.Snapshot(epoch())), view(added.Snapshot(epoch()))); diff != "" {
			t.Fatalf("last snapshot (-set +added):\n%s", diff)
		}
	})
}
