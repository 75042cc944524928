package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
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
	// spread holds the shape of each pod that is spread over more than hosts: pods of one shape depend on where the others go. Equal pods of such
	// a shape may take each other's places; owner tells them.
	spread, owner map[string]string
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
	pods, names, spread, owner := map[types.NamespacedName]*answer{}, map[string]types.NamespacedName{}, map[string]string{}, map[string]string{}
	for _, pod := range s.Pods {
		if pod.Node == "" && pod.Buffer == "" { // virtual pods are nobody's business
			name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
			names[pod.UID] = name
			if slices.ContainsFunc(pod.Shape.Spread, func(s cluster.Spread) bool { return s.Hard && s.Key != constraint.HostnameKey }) {
				spread[pod.UID], owner[pod.UID] = pod.Shape.Key, pod.Owner.UID
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
	v.at, v.decision, v.pods, v.names, v.spread, v.owner = s.At, p.Digest, pods, names, spread, owner
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

// Deal lets equal pods that are spread change places among claims, so that in the order in which the scheduler tries them they come to one zone after
// the other: a pod that comes too early for its zone would lose its hint and wait. Zones maps the claims to deal for to their zone. The scheduler takes
// pods in the order in which it last tried them, which is that of its last writes to them.
func (v *verdicts) Deal(ctx context.Context, zones map[string]string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	equal := map[string][]*answer{}
	for _, a := range v.pods {
		if _, ok := zones[a.claim]; ok && v.spread[a.uid] != "" && v.owner[a.uid] != "" {
			key := v.spread[a.uid] + "/" + v.owner[a.uid]
			equal[key] = append(equal[key], a)
		}
	}
	for _, list := range equal {
		places := dealt(list, zones)
		at := make(map[string]uint64, len(list))
		for _, a := range list {
			at[a.uid] = v.version(ctx, a.uid)
		}
		slices.SortFunc(list, func(x, y *answer) int {
			return cmp.Or(cmp.Compare(at[x.uid], at[y.uid]), strings.Compare(x.uid, y.uid))
		})
		for i, a := range list {
			a.claim = places[i]
		}
	}
}

// version is that of a pod's object in the cache, 0 if it is gone. The lock is held.
func (v *verdicts) version(ctx context.Context, uid string) uint64 {
	var pod corev1.Pod
	if err := v.client.Get(ctx, v.names[uid], &pod); err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	return n
}

// dealt are the claims of the pods, one zone after the other, again and again.
func dealt(list []*answer, zones map[string]string) []string {
	byZone := map[string][]string{}
	for _, a := range list {
		byZone[zones[a.claim]] = append(byZone[zones[a.claim]], a.claim)
	}
	order := slices.SortedFunc(maps.Keys(byZone), func(x, y string) int { // fullest first: it takes part in every round
		return cmp.Or(cmp.Compare(len(byZone[y]), len(byZone[x])), strings.Compare(x, y))
	})
	for _, claims := range byZone {
		slices.Sort(claims)
	}
	var out []string
	for round := 0; len(out) < len(list); round++ {
		for _, z := range order {
			if round < len(byZone[z]) {
				out = append(out, byZone[z][round])
			}
		}
	}
	return out
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
