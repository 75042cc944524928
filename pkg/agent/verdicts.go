package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
)

// verdicts keeps the last decision: for each pod that asked for a node, where it will go or why it will not.
type verdicts struct {
	client client.Reader

	mu       sync.Mutex
	at       time.Time
	decision string
	pods     map[types.NamespacedName]*answer
	names    map[string]types.NamespacedName
}

// answer is the last decision on one pod.
type answer struct {
	uid string
	// node and claim say where the pod goes; verdict why it does not.
	node, claim string
	verdict     *plan.Verdict
	// engine is the engine's own verdict where the explanation took its place.
	engine *plan.Verdict
}

func newVerdicts(c client.Reader) *verdicts { return &verdicts{client: c} }

// Record takes the outcome of a decision. What was known before is forgotten, but for pods that have got their place since.
func (v *verdicts) Record(s *cluster.Snapshot, p *plan.Plan) {
	pods, names := map[types.NamespacedName]*answer{}, map[string]types.NamespacedName{}
	for _, pod := range s.Pods {
		if pod.Node == "" && pod.Buffer == "" { // virtual pods are nobody's business
			name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
			names[pod.UID] = name
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	decide := func(uid string) *answer {
		a := &answer{uid: uid}
		if name, ok := names[uid]; ok {
			pods[name] = a
		}
		return a
	}
	for i := range p.Verdicts {
		verdict := p.Verdicts[i]
		a := decide(verdict.Pod)
		a.verdict = &verdict
		if old := v.pods[names[verdict.Pod]]; old != nil && old.engine != nil && alike(old.engine, &verdict) {
			a.engine, a.verdict = &verdict, explained(&verdict, old.verdict.Layer, old.verdict.Code)
		}
	}
	for _, place := range p.Placements {
		a := decide(place.Pod)
		a.node, a.claim = place.Node, place.Claim
	}
	for i := range p.Claims {
		for _, uid := range p.Claims[i].Pods {
			decide(uid)
		}
	}
	v.at, v.decision, v.pods, v.names = s.At, p.Digest, pods, names
}

// Explained puts the code of an explanation in the place of that of the engine, which names the pool whose funnel went furthest. It holds as long as
// the engine finds the same.
func (v *verdicts) Explained(engine *plan.Verdict, layer reason.Layer, code reason.Code) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if a := v.pods[v.names[engine.Pod]]; a != nil && a.uid == engine.Pod {
		a.engine, a.verdict = engine, explained(engine, layer, code)
	}
}

func explained(engine *plan.Verdict, layer reason.Layer, code reason.Code) *plan.Verdict {
	out := *engine
	if out.Code != code {
		out.Layer, out.Code, out.Detail = layer, code, ""
	}
	return &out
}

// alike reports whether two verdicts found the same in every pool.
func alike(x, y *plan.Verdict) bool {
	return x.Code == y.Code && slices.EqualFunc(x.Pools, y.Pools, func(a, b plan.PoolFinding) bool { return a.Pool == b.Pool && a.Code == b.Code })
}

// Created notes the name of the claim that was created for pods.
func (v *verdicts) Created(pods []string, claim string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, uid := range pods {
		if a := v.pods[v.names[uid]]; a != nil {
			a.claim = claim
		}
	}
}

// PodsOf returns the UIDs of the pods that the last decision put on a claim, ascending.
func (v *verdicts) PodsOf(claim string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []string
	for _, a := range v.pods {
		if a.claim == claim {
			out = append(out, a.uid)
		}
	}
	slices.Sort(out)
	return out
}

// Of returns the last decision on a pod, when it was made and from what; ok is false if there was none.
func (v *verdicts) Of(name types.NamespacedName) (a answer, at time.Time, decision string, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found := v.pods[name]
	if found == nil {
		return answer{}, v.at, v.decision, false
	}
	return *found, v.at, v.decision, true
}

// Pod reads a pending pod of the last decision from the cache; nil if it is gone.
func (v *verdicts) Pod(ctx context.Context, uid string) *corev1.Pod {
	v.mu.Lock()
	name, ok := v.names[uid]
	v.mu.Unlock()
	if !ok {
		return nil
	}
	var pod corev1.Pod
	if err := v.client.Get(ctx, name, &pod); err != nil || string(pod.UID) != uid {
		return nil
	}
	return &pod
}
