package agent

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/reason/words"
)

// mostExplained bounds the shapes of pods that one pass explains: each is compared with every offering of every pool, which takes some milliseconds.
// Pods beyond get the engine's own verdict.
const mostExplained = 20

// explain publishes why pods were not placed, in the words of kubectl karp why-pending, and keeps that answer as the verdict on the pod.
func (l *provisioner) explain(ctx context.Context, s *cluster.Snapshot, p *plan.Plan) {
	pods := map[string]*cluster.Pod{}
	for _, pod := range s.Pods {
		pods[pod.UID] = pod
	}
	desk, shapes := explain.NewDesk(s, engine.Policy{}, explain.Facts{}), map[string]bool{}
	for i := range p.Verdicts {
		v := &p.Verdicts[i]
		if v.Silent {
			continue
		}
		pod, asked := l.verdicts.Pod(ctx, v.Pod), pods[v.Pod]
		if pod == nil || asked == nil {
			continue
		}
		l.events.WarnEveryWith(schedulingWindow, pod, "FailedScheduling", func() string {
			if shapes[asked.Shape.Key] = true; len(shapes) > mostExplained {
				return summary(v)
			}
			a := desk.WhyPending(explain.Question{Pod: asked, Bare: true})
			if v.Code == reason.Cut || !settled(a) {
				return summary(v)
			}
			l.verdicts.Explained(v, a.Layer, a.Code)
			return lifecycle.Truncate(words.Pending{Answer: a, Zone: time.UTC}.Sentence()) + " (" + string(a.Code) + ")"
		})
	}
}

// settled reports whether the snapshot alone says what stops the pod in every pool. It does not where other pods of the same pass took the room.
func settled(a reason.Pending) bool {
	return a.Code != "" && !slices.ContainsFunc(a.Pools, func(p reason.PoolAnswer) bool { return p.Code == reason.Unsupported || p.Code == "" })
}

// summary says in one line where each pool ended for a pod.
func summary(v *plan.Verdict) string {
	parts := []string{phrase(string(v.Code), v.Detail)}
	for _, f := range v.Pools {
		parts = append(parts, "pool "+f.Pool+": "+phrase(string(f.Code), f.Detail))
	}
	text := strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
	return lifecycle.Truncate("no node can be launched for the pod: " + text)
}

func phrase(code, detail string) string {
	if detail == "" {
		return code
	}
	return strings.TrimSpace(code + " " + detail)
}
