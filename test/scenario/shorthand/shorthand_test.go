package shorthand_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/kube/offline"
	"github.com/karp-sh/karp/pkg/units"
	"github.com/karp-sh/karp/test/scenario/fixture"
	"github.com/karp-sh/karp/test/scenario/shorthand"
)

func snapshot(t *testing.T, text string) (*cluster.Snapshot, *offline.Directory) {
	t.Helper()
	c, err := shorthand.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Expand(fixture.Catalogue())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	d, err := offline.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d.Snapshot(t.Context(), d.Info.At), d
}

// The room of a type is its allocatable without the DaemonSets: 280m and 300Mi. These numbers are what the cases are calculated with.
func TestRoomOfTheFixture(t *testing.T) {
	want := map[string]units.List{}
	for name, room := range map[string][3]int64{
		"t3.medium": {1650, 2946, 17}, "c5.large": {1650, 2814, 29}, "m5.large": {1650, 6603, 29}, "m6i.large": {1650, 6603, 29},
		"m7g.large": {1650, 6544, 29}, "r5.large": {1650, 14181, 29}, "c5.xlarge": {3640, 6284, 58}, "m5.xlarge": {3640, 13862, 58},
		"m6i.xlarge": {3640, 13862, 58}, "m7g.xlarge": {3640, 13803, 58}, "c7g.xlarge": {3640, 6225, 58}, "r5.xlarge": {3640, 29017, 58},
		"c5.2xlarge": {7630, 13862, 58}, "m5.2xlarge": {7630, 29017, 58}, "m6i.2xlarge": {7630, 29017, 58}, "m6a.2xlarge": {7630, 29017, 58},
		"r5.2xlarge": {7630, 59327, 58}, "c6i.4xlarge": {15610, 27081, 234}, "m6i.4xlarge": {15610, 57391, 234}, "g4dn.xlarge": {3640, 14181, 29},
		"g5.xlarge": {3640, 13862, 58}, "g5.2xlarge": {7630, 29017, 58},
	} {
		want[name] = units.List{units.CPU: room[0], units.Memory: room[1] << 20, units.Pods: room[2]}
	}
	s, _ := snapshot(t, "pools: [{name: default}]")
	got := map[string]units.List{}
	for _, it := range s.Pools[0].Catalog.Types() {
		a := it.Allocatable()
		got[it.Name] = units.List{units.CPU: a[units.CPU] - 280, units.Memory: a[units.Memory] - 300<<20, units.Pods: a[units.Pods]}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("room by type (-want +got):\n%s", diff)
	}
	sum := units.List{}
	for _, d := range s.DaemonSets {
		sum = sum.Add(d.Shape.Requests)
	}
	if diff := cmp.Diff(units.List{units.CPU: 280, units.Memory: 300 << 20, units.Pods: 4}, sum); diff != "" {
		t.Errorf("daemon sets (-want +got):\n%s", diff)
	}
}

func TestFreeIsWhatIsLeft(t *testing.T) {
	s, _ := snapshot(t, `
pools: [{name: default, labels: {team: a}, taints: [{key: t, effect: NoSchedule}]}]
nodes:
- {name: n1..n3, pool: default, type: m5.large, free: {cpu: 100m, memory: 200Mi}}
- {name: own, zone: c, free: {cpu: 0, memory: 0}}
pods: [{ns: a, name: web-1, on: n2, cpu: 500m, memory: 1Gi}]`)
	type facts struct {
		CPU, Memory int64
		Zone, Pool  string
		Team, CT    string
		Ready       bool
	}
	got := map[string]facts{}
	for _, x := range s.Targets() {
		left := x.Allocatable.Sub(x.Used)
		got[x.Name] = facts{
			left[units.CPU], left[units.Memory] >> 20, x.Labels["topology.kubernetes.io/zone"], x.Pool, x.Labels["team"],
			x.Labels["karpenter.sh/capacity-type"], x.Initialized,
		}
	}
	want := map[string]facts{
		"n1":  {100, 200, "us-east-1a", "default", "a", catalog.OnDemand, true},
		"n2":  {100, 200, "us-east-1b", "default", "a", catalog.OnDemand, true},
		"n3":  {100, 200, "us-east-1c", "default", "a", catalog.OnDemand, true},
		"own": {0, 0, "us-east-1c", "", "", "", true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}

// What is written is what a cluster would hold: the loader understands all of it but the three files that are ours.
func TestEveryFileIsUnderstood(t *testing.T) {
	files, err := filepath.Glob("../testdata/why/*")
	if err != nil || len(files) != 25 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := shorthand.ParseFile(text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		s, err := c.Expand(fixture.Catalogue())
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		dir := t.TempDir()
		if err := s.Write(dir); err != nil {
			t.Fatal(err)
		}
		d, err := offline.Read(dir)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for _, n := range d.Objects.Notes {
			// Nothing reads CronJobs yet: only why-kept will want their schedule.
			if !strings.Contains(n.Text, "cli.karp.sh/v1alpha1") && !strings.Contains(n.Text, "CronJob") {
				t.Errorf("%s: %s: %s", file, n.Where, n.Text)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"pools: [{nam: x}]", `unknown field "nam"`},
		{"pools: {", "reading the scenario"},
	} {
		if _, err := shorthand.Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.text, err, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"nodes: [{name: n1, pool: nope}]", `node n1: there is no pool "nope"`},
		{"nodes: [{name: n1, type: x9.large}]", `type "x9.large" is not in the catalogue`},
		{"nodes: [{name: n1, free: {cpu: 99}}]", "node n1: free cpu"},
		{"nodes: [{name: n9..n1}]", "want PREFIXn..PREFIXm"},
		{"pods: [{ns: a, name: p, since: yesterday}]", `pod a/p: reading time "yesterday"`},
		{"events: [{on: web, reason: x}]", `event on "web"`},
	} {
		p, err := shorthand.Parse([]byte(c.text))
		if err == nil {
			_, err = p.Expand(fixture.Catalogue())
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.text, err, c.want)
		}
	}
}
