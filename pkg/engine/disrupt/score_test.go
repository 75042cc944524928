package disrupt_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/disrupt"
	"github.com/karp-sh/karp/pkg/engine/scenario"
	"github.com/karp-sh/karp/pkg/units"
)

func snapshot(t *testing.T, lines string) *cluster.Snapshot {
	t.Helper()
	w := scenario.New()
	if err := w.Apply("catalog F:\n" + lines); err != nil {
		t.Fatal(err)
	}
	return w.Snapshot()
}

// eight is eight nodes f.l of pool A with four pods each: totals 2.0 an hour and a disruption of 40.
func eight() string {
	var b strings.Builder
	b.WriteString("pool A: policy Balanced\npool B: policy Balanced\npool W:\n")
	for i := range 8 {
		fmt.Fprintf(&b, "n%d: f.l {0.5,0.5,0.5,0.5}@A\n", i)
	}
	return b.String()
}

func TestScores(t *testing.T) {
	for _, tt := range []struct {
		id, lines string
		saving    float64
		nodes     []string
		want      []float64
		approved  bool
	}{
		{"D-185", eight(), 0.25, []string{"n0"}, []float64{1}, true},
		{"D-186", eight(), 0.125, []string{"n0"}, []float64{0.5}, true},
		{"D-187", eight(), 0.1, []string{"n0"}, []float64{0.4}, false},
		{"D-194", eight(), 0, []string{"n0"}, []float64{0}, false},
		{"D-194 negative", eight(), -1, []string{"n0"}, []float64{0}, false},
		// 0.4 are saved by 1.0 of sources, a quarter of it in A: 0.1 of 0.25, with all of its disruption.
		{"D-191", "pool A: policy Balanced\npool W:\nn1: f.l {1}@A\nn2: f.x {1}@W\nn3: f.l {1}@W", 0.4, []string{"n1", "n2", "n3"}, []float64{0.4}, false},
		{"D-192", "pool A: policy Balanced\npool B: policy Balanced\nn1: f.l {1}@A\nn2: f.l {1}@B\nn3: f.l {1,1,1,1,1,1,1,1,1}@B", 0.4, []string{"n1", "n3"}, []float64{0.8, 0.48}, false},
		{"D-200: the other pool is not scored", "pool A: policy Balanced\npool W:\nn1: f.l {1}@A\nn2: f.l {1}@W", 0.5, []string{"n1", "n2"}, []float64{1}, true},
		// Eight of ten nodes are no candidates, and count all the same.
		{"D-193", eight() + "m0: f.l {0.5,0.5,0.5,0.5}@A; pods notdisrupt true\nm1: f.l {0.5,0.5,0.5,0.5}@A; pods notdisrupt true", 0.25, []string{"n0"}, []float64{1}, true},
	} {
		scores, approved := disrupt.Judge(snapshot(t, tt.lines), units.FromDollars(tt.saving), tt.nodes...)
		var got []float64
		for _, s := range scores {
			got = append(got, s.Value)
		}
		equal := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
		if diff := cmp.Diff(tt.want, got, equal); diff != "" || approved != tt.approved {
			t.Errorf("%s: approved %v, want %v; scores (-want +got):\n%s", tt.id, approved, tt.approved, diff)
		}
	}
	if !disrupt.Hopeless(snapshot(t, eight()+"x: f.s {0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1}@A"), "x") {
		t.Error("D-188: a node with nine pods at 0.0625 is tried")
	}
}

func TestOrder(t *testing.T) {
	for _, tt := range []struct {
		id, lines string
		want      []string
		costs     []float64
	}{
		{"D-061", "pool P:\nn1: f.x {1}\nn2: f.2x {1,1,1,1,1,1,1,1,1}\nn3: f.l {1}", []string{"n1", "n3", "n2"}, []float64{2, 2, 10}},
		{"D-064", "pool P:\nn1: f.x {1}; old 719h\nn0: f.x {1}", []string{"n0", "n1"}, []float64{2, 2}},
		{"D-197", "pool P:\nn1: f.x {}\nbound a x3 on n1: cost 2147483647; owner apps/v1 ReplicaSet\nbound b on n1: owner apps/v1 ReplicaSet", []string{"n1"}, []float64{32}},
		{"D-060", "pool P:\nn1: f.x {}\nbound a on n1: cost -2147483647; owner apps/v1 ReplicaSet\nbound b on n1: owner apps/v1 ReplicaSet", []string{"n1"}, []float64{2}},
	} {
		names, costs := disrupt.Order(snapshot(t, tt.lines))
		if diff := cmp.Diff(tt.want, names); diff != "" {
			t.Errorf("%s: order (-want +got):\n%s", tt.id, diff)
		}
		if diff := cmp.Diff(tt.costs, costs); diff != "" {
			t.Errorf("%s: costs (-want +got):\n%s", tt.id, diff)
		}
	}
}

// D-170: one command never takes too many nodes, but there can be several.
func TestManyNodes(t *testing.T) {
	var b strings.Builder
	b.WriteString("pool P: req ct In on-demand\n")
	for i := range 250 {
		fmt.Fprintf(&b, "n%03d: f.x {0.1}\n", i)
	}
	d := disrupt.Decide(snapshot(t, b.String()), disrupt.Options{})
	gone := 0
	for _, c := range d.Commands {
		if gone += len(c.Candidates); len(c.Candidates) > 101 {
			t.Errorf("a command takes %d nodes", len(c.Candidates))
		}
	}
	if gone < 240 {
		t.Errorf("%d nodes go with %d commands, want nearly all of 250", gone, len(d.Commands))
	}
}
