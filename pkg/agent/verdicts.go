package agent

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
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
	// spread holds the shape of each pod that is spread over more than hosts: pods of one shape depend on where the others go.
	spread map[string]string
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
	pods, names, spread := map[types.NamespacedName]*answer{}, map[string]types.NamespacedName{}, map[string]string{}
	for _, pod := range s.Pods {
		if pod.Node == "" && pod.Buffer == "" { // virtual pods are nobody's business
			name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
			names[pod.UID] = name
			if slices.ContainsFunc(pod.Shape.Spread, func(s cluster.Spread) bool { return s.Hard && s.Key != constraint.HostnameKey }) {
				spread[pod.UID] = pod.Shape.Key
			}
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
	v.at, v.decision, v.pods, v.names, v.spread = s.At, p.Digest, pods, names, spread
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

// Placements returns where the last decision put pods, by pod, claims that were created for it included.
func (v *verdicts) Placements() []plan.Placement {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []plan.Placement
	for _, a := range v.pods {
		if a.node != "" || a.claim != "" {
			out = append(out, plan.Placement{Pod: a.uid, Node: a.node, Claim: a.claim})
		}
	}
	slices.SortFunc(out, func(x, y plan.Placement) int { return strings.Compare(x.Pod, y.Pod) })
	return out
}

// Companions returns the claims whose pods are spread together with those of the claim, or with those of a companion: where some may go depends
// on where the others are. The claim itself is left out; the order is ascending.
func (v *verdicts) Companions(claim string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	shapes, claims := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, a := range v.pods {
		if shape := v.spread[a.uid]; shape != "" && a.claim != "" {
			link(shapes, a.claim, shape)
			link(claims, shape, a.claim)
		}
	}
	found, next := map[string]bool{claim: true}, []string{claim}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		for shape := range shapes[at] {
			for c := range claims[shape] {
				if !found[c] {
					found[c], next = true, append(next, c)
				}
			}
		}
	}
	delete(found, claim)
	return slices.Sorted(maps.Keys(found))
}

func link(to map[string]map[string]bool, from, name string) {
	if to[from] == nil {
		to[from] = map[string]bool{}
	}
	to[from][name] = true
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
