package disrupt

import (
	"cmp"
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/fit"
	"github.com/karp-sh/karp/pkg/engine/pack"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
)

// outcome is what a simulation without some nodes comes to (rules 13).
type outcome struct {
	set []*node
	// claims are all new nodes, those for pods that wait anyway included; placements those of the nodes' pods on what exists.
	claims     []plan.Claim
	placements []plan.Placement
	// failed are the pods that are not waiting anyway and have no place.
	failed []reason.PodMiss
	// code says why the outcome is none: no pool may launch, or pods do not fit.
	code reason.Code
}

func (o *outcome) ok() bool { return o.code == "" }

// simulate takes nodes away and looks for places for their pods. The closed targets take none of them.
func (v *survey) simulate(s *cluster.Snapshot, set []*node, closed []string) outcome {
	names := make(map[string]bool, len(set))
	moved := make([]string, len(set))
	for i, n := range set {
		names[n.Name], moved[i] = true, n.Name
	}
	m := fit.Simulate(s.Leaving(names), fit.Simulation{Moved: moved, Closed: closed})
	p := pack.Run(m, pack.Options{Steps: simulationSteps, Fallback: true, Quick: true})
	*v.steps += p.Steps + int64(len(s.Targets()))
	out := outcome{set: set, claims: p.Claims}
	if !m.Candidates {
		out.code = reason.NoNodePools
		return out
	}
	v.keepPlacements(&out, s, &p)
	v.collectFailures(&out, s, &p)
	return out
}

// simulationSteps bounds one simulation: it is reached only where a cluster is far beyond what packs in seconds.
const simulationSteps = 20_000_000

// keepPlacements keeps the placements of pods on the set's nodes and objects to those on nodes that are not initialized (rules 13).
func (v *survey) keepPlacements(out *outcome, s *cluster.Snapshot, p *plan.Plan) {
	mine := map[string]*cluster.Pod{}
	for _, n := range out.set {
		for _, pod := range n.moving {
			mine[pod.UID] = pod
		}
	}
	waiting := map[string]bool{}
	for _, t := range s.Targets() {
		if !t.Initialized {
			waiting[t.Name] = true
		}
	}
	for _, x := range p.Placements {
		pod := mine[x.Pod]
		if pod == nil {
			continue
		}
		out.placements = append(out.placements, x)
		if name := cmp.Or(x.Node, x.Claim); waiting[name] || x.Node == "" {
			out.code = reason.UninitializedTarget
			out.failed = append(out.failed, reason.PodMiss{Pod: objectOf(pod), Code: reason.UninitializedTarget, Detail: name})
		}
	}
}

// collectFailures is the success test: pods that wait anyway may go on waiting.
func (v *survey) collectFailures(out *outcome, s *cluster.Snapshot, p *plan.Plan) {
	for i := range p.Verdicts {
		x := &p.Verdicts[i]
		pod := podByUID(s, x.Pod)
		if pod == nil || pod.Node == "" {
			continue
		}
		out.code = reason.PodsWouldNotFit
		out.failed = append(out.failed, reason.PodMiss{Pod: objectOf(pod), Code: x.Code, Detail: x.Detail})
	}
}

func podByUID(s *cluster.Snapshot, uid string) *cluster.Pod {
	i, ok := slices.BinarySearchFunc(s.Pods, uid, func(p *cluster.Pod, uid string) int { return cmp.Compare(p.UID, uid) })
	if !ok {
		return nil
	}
	return s.Pods[i]
}

func objectOf(p *cluster.Pod) reason.Object {
	return reason.Object{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}
