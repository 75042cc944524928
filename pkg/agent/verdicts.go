package agent

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/plan"
)

// verdicts keeps the last answer for each pod that asked for a node, and how to find the pod.
type verdicts struct {
	client client.Reader

	mu    sync.Mutex
	at    time.Time
	plan  plan.Plan
	names map[string]types.NamespacedName
	pods  map[string]int // UID to index in plan.Verdicts
}

func newVerdicts(c client.Reader) *verdicts { return &verdicts{client: c} }

// Record takes the outcome of a decision.
func (v *verdicts) Record(s *cluster.Snapshot, p *plan.Plan) {
	names := make(map[string]types.NamespacedName, len(s.Pods))
	for _, pod := range s.Pods {
		if pod.Node == "" {
			names[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		}
	}
	pods := make(map[string]int, len(p.Verdicts))
	for i := range p.Verdicts {
		pods[p.Verdicts[i].Pod] = i
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.at, v.plan, v.names, v.pods = s.At, *p, names, pods
}

// Last returns the last decision and its time.
func (v *verdicts) Last() (plan.Plan, time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.plan, v.at
}

// Of returns the last verdict on a pod; ok is false if it was placed or not considered.
func (v *verdicts) Of(uid string) (verdict plan.Verdict, at time.Time, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i, ok := v.pods[uid]
	if !ok {
		return plan.Verdict{}, v.at, false
	}
	return v.plan.Verdicts[i], v.at, true
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
