package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/karp-sh/karp/pkg/agent"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

// Equal pods that are spread get places of one zone after the other, in the order in which the scheduler will try them; every claim keeps as many
// pods as it was planned for, and pods of others keep their places.
func TestDeal(t *testing.T) {
	zones := cluster.Spread{Key: constraint.ZoneKey, MaxSkew: 1, Hard: true}
	shape := cluster.NewShape(cluster.Shape{Namespace: "default", Requests: units.List{units.Pods: 1}, Spread: []cluster.Spread{zones}})
	b := cluster.NewBuilder()
	objects := fake.NewClientBuilder()
	var p plan.Plan
	add := func(name, owner, claim, version string) {
		b.SetPod(&cluster.Pod{Namespace: "default", Name: name, UID: name, Phase: "Pending", Scheduled: "Unschedulable", Shape: shape, Owner: cluster.Owner{UID: owner}})
		objects.WithObjects(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "", ResourceVersion: version}})
		p.Placements = append(p.Placements, plan.Placement{Pod: name, Claim: claim})
	}
	for i, claim := range []string{"a1", "a1", "a2", "b1", "b1", "c1"} {
		add(fmt.Sprintf("web-%d", i), "web", claim, fmt.Sprint(100-i)) // the last one was tried first
	}
	add("other", "other", "b1", "50")
	v := agent.NewVerdicts(objects.Build())
	v.Record(b.Snapshot(time.Time{}), &p)
	v.Deal(t.Context(), map[string]string{"a1": "a", "a2": "a", "b1": "b", "c1": "c"})
	var got []string
	for _, claim := range []string{"a1", "a2", "b1", "c1"} {
		got = append(got, claim+": "+strings.Join(v.PodsOf(claim), " "))
	}
	want := []string{"a1: web-2 web-5", "a2: web-0", "b1: other web-1 web-4", "c1: web-3"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
