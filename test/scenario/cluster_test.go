package scenario_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/karp-sh/karp/pkg/kube/offline"
	"github.com/karp-sh/karp/test/scenario/fixture"
	"github.com/karp-sh/karp/test/scenario/shorthand"
)

// clusterCommand makes the cluster that the input describes:
//
//	cluster
//	pools: [{name: default}]
//	pods: [{ns: web, name: api-1, cpu: "1"}]
//	----
//	1 pool(s), 0 node(s), 1 pod(s)
func clusterCommand(t *testing.T, w *world, d *datadriven.TestData) string {
	c, err := shorthand.Parse([]byte(d.Input))
	if err != nil {
		return "error: " + err.Error()
	}
	s, err := c.Expand(fixture.Catalogue())
	if err != nil {
		return "error: " + err.Error()
	}
	w.dir = filepath.Join(t.TempDir(), "snapshot")
	if err := s.Write(w.dir); err != nil {
		t.Fatal(err)
	}
	if w.read, err = offline.Read(w.dir); err != nil {
		t.Fatal(err)
	}
	w.snapshot, w.facts = w.read.Snapshot(t.Context(), w.read.Info.At), w.read.Facts()
	return fmt.Sprintf("%d pool(s), %d node(s), %d pod(s)", len(w.snapshot.Pools), len(w.snapshot.Nodes), len(w.snapshot.Pods))
}
