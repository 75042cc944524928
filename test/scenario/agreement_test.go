package scenario_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/kube/offline"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/test/scenario/fixture"
	"github.com/karp-sh/karp/test/scenario/shorthand"
)

// TestExplanationsAgreeWithTheEngine asks about many random clusters. The funnel and the engine judge by code of their own, so whenever they disagree
// one of them is wrong: a pod the engine leaves alone must have a pool code, and the best set of every pool must be confirmed by the engine.
func TestExplanationsAgreeWithTheEngine(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 20
	}
	for seed := range rounds {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		text := randomCluster(r)
		w := open(t, text)
		again := open(t, text)
		for _, p := range w.snapshot.Pods {
			if p.Node != "" {
				continue
			}
			a := explain.WhyPending(w.snapshot, engine.Policy{}, w.facts, explain.Question{Pod: p})
			checkAnswer(t, a, text)
			checkBare(t, w, p, a, text)
			b := explain.WhyPending(again.snapshot, engine.Policy{}, again.facts, explain.Question{Pod: podNamed(t, again.snapshot, a.Pod.String())})
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("two answers to the same question:\n%s\n%s\n%s", text, dump(a), dump(b))
			}
		}
	}
}

func checkAnswer(t *testing.T, a reason.Pending, text string) {
	t.Helper()
	if a.Code == "" || a.Code == reason.Unsupported {
		t.Errorf("no code:\n%s\n%s", text, dump(a))
	}
	for _, p := range a.Pools {
		if p.Code == "" || p.Code == reason.Unsupported {
			t.Errorf("pool %s has no code:\n%s\n%s", p.Pool, text, dump(a))
		}
		if p.Distance.Reachable && len(a.Fixes) == 0 {
			t.Errorf("the engine confirms none of the sets:\n%s\n%s", text, dump(a))
			return
		}
	}
	// A set can be met in several ways, of which one suffices: giving up a selector also makes a spread constraint count more nodes.
	if len(a.Pools) > 0 && len(a.Pools[0].Sets) > 0 && a.Fixes[0].Distance != a.Pools[0].Distance {
		t.Errorf("the engine does not confirm the nearest miss:\n%s\n%s", text, dump(a))
	}
}

// checkBare compares with the answer that the agent makes for its events: the same code and the same pool, without a simulation.
func checkBare(t *testing.T, w *world, p *cluster.Pod, full reason.Pending, text string) {
	t.Helper()
	if full.Code == reason.CapacityComing || full.Code == reason.SchedulerDisagrees {
		return // the agent has a place for the pod and asks nothing
	}
	bare := explain.WhyPending(w.snapshot, engine.Policy{}, w.facts, explain.Question{Pod: p, Bare: true})
	if bare.Code != full.Code && bare.Code != reason.Unsupported || bare.Nearest != full.Nearest || len(bare.Fixes) > 0 {
		t.Errorf("the agent would say %s of pool %s:\n%s\n%s", bare.Code, bare.Nearest, text, dump(full))
	}
}

func open(t *testing.T, text string) *world {
	t.Helper()
	c, err := shorthand.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	s, err := c.Expand(fixture.Catalogue())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	w := &world{dir: t.TempDir()}
	if err := s.Write(w.dir); err != nil {
		t.Fatal(err)
	}
	if w.read, err = offline.Read(w.dir); err != nil {
		t.Fatal(err)
	}
	w.snapshot, w.facts = w.read.Snapshot(t.Context(), w.read.Info.At), w.read.Facts()
	return w
}

// randomCluster writes a cluster whose pods mostly do not fit.
func randomCluster(r *rand.Rand) string {
	var b strings.Builder
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	some := func(list ...string) string { return pick(append(list, "")...) }
	b.WriteString("pools:\n")
	pools := 1 + r.IntN(3)
	for i := range pools {
		fmt.Fprintf(&b, "- {name: p%d%s%s%s%s%s%s}\n", i,
			some(", zones: [a]", ", zones: [a, b]"), some(", types: [m5.large]", ", types: [g5.xlarge, g4dn.xlarge]", ", types: [t3.medium, m5.2xlarge]"),
			some(", ct: [spot]", ", ct: [spot, on-demand]"), some(", labels: {team: blue}", ", labels: {team: red}"),
			some(", taints: [{key: team, value: blue, effect: NoSchedule}]", ", taints: [{key: soft, effect: PreferNoSchedule}]"),
			some(`, limits: {cpu: "4"}`, ", weight: 10", ", replicas: 1",
				", require: [{key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: ['8']}]",
				", require: [{key: karpenter.k8s.aws/instance-gpu-count, operator: DoesNotExist}]",
				", require: [{key: squad, operator: In, values: [one, two]}]"))
	}
	b.WriteString("nodes:\n")
	for i := range 1 + r.IntN(3) {
		fmt.Fprintf(&b, "- {name: n%d, pool: p%d, type: m5.large, zone: %s, free: {cpu: 10m, memory: 10Mi}}\n", i, r.IntN(pools), pick("a", "b", "c"))
	}
	b.WriteString("pods:\n- {ns: x, name: web-0, on: n0, labels: {app: web}}\n")
	for i := range 3 {
		fmt.Fprintf(&b, "- {ns: x, name: web-%d, labels: {app: web}, cpu: %s, memory: %s%s%s%s%s}\n", i+1,
			pick("500m", "1700m", "3800m", "9"), pick("512Mi", "7Gi", "29100Mi", "80Gi"),
			some(", gpu: 1", ", gpu: 2"),
			some(", select: {team: blue}", ", select: {topology.kubernetes.io/zone: us-east-1c}", ", select: {kubernetes.io/arch: arm64}",
				", select: {karpenter.sh/capacity-type: spot}", ", select: {squad: three}", ", select: {squad: one, team: red}"),
			some(", tolerate: [{key: team, operator: Exists}]"),
			some(", spread: [{topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]",
				", anti: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}]",
				", anti: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]",
				", pvc: {zone: b}"))
	}
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "unavailable:\n- {type: %s, zone: %s, ct: %s, reason: InsufficientInstanceCapacity}\n- {zone: b, ct: spot, reason: UnfulfillableCapacity}\n",
			pick("m5.large", "t3.medium", "g4dn.xlarge"), pick("a", "b"), pick("spot", "on-demand"))
	}
	return b.String()
}
