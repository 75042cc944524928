package disrupt

import (
	"time"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/lifecycle"
)

// This file holds the classes of pods (rules 4) and what moving them costs (rules 6).

func active(p *cluster.Pod) bool { return !p.Terminal() && p.Deleted.IsZero() }

func daemon(p *cluster.Pod) bool {
	return p.Owner.APIVersion == "apps/v1" && p.Owner.Kind == "DaemonSet"
}

func mirror(p *cluster.Pod) bool { return p.Owner.APIVersion == "v1" && p.Owner.Kind == "Node" }

func stateful(p *cluster.Pod) bool {
	return p.Owner.APIVersion == "apps/v1" && p.Owner.Kind == "StatefulSet"
}

// reschedulable pods have to run somewhere else when their node goes.
func reschedulable(p *cluster.Pod) bool {
	if p.Terminal() || daemon(p) || mirror(p) {
		return false
	}
	return p.Deleted.IsZero() || stateful(p)
}

// Protection is what a do-not-disrupt annotation on a pod means at an instant.
type Protection struct {
	// Active tells that it is in force; Until is when it lapses, zero if it never does.
	Active bool
	Until  time.Time
	// Lapsed tells that it was in force until Until; Invalid that the value is neither "true" nor a positive duration and so ignored.
	Lapsed, Invalid bool
}

// Protect reads a pod's do-not-disrupt annotation (rules 4). Terminal and terminating pods protect nothing.
func Protect(p *cluster.Pod, now time.Time) Protection {
	if p.DoNotDisrupt == "" || !active(p) {
		return Protection{}
	}
	if p.DoNotDisrupt == "true" {
		return Protection{Active: true}
	}
	d, err := time.ParseDuration(p.DoNotDisrupt)
	switch {
	case err != nil || d <= 0:
		return Protection{Invalid: true}
	case p.Started.IsZero():
		return Protection{Active: true}
	case now.Sub(p.Started) < d:
		return Protection{Active: true, Until: p.Started.Add(d)}
	}
	return Protection{Lapsed: true, Until: p.Started.Add(d)}
}

// evictable pods are those that PodDisruptionBudgets have a say about.
func (v *survey) evictable(p *cluster.Pod) bool {
	return active(p) && !mirror(p) && !v.tolerates(p.Shape) && !Protect(p, v.s.At).Active
}

func (v *survey) tolerates(s *cluster.Shape) bool {
	if len(s.Tolerations) == 0 {
		return false
	}
	return constraint.Tolerates(s.Tolerations, constraint.Taint{Key: disruptedTaint, Effect: constraint.NoSchedule})
}

// EvictionCost is what it costs to evict a pod (rules 6.1).
func EvictionCost(p *cluster.Pod) float64 {
	return lifecycle.EvictionCost(p.DeletionCost, p.Shape.Priority)
}

// costOf is the cost of moving the pods of a node (rules 6.2): 1 for touching it at all.
func costOf(pods []*cluster.Pod) float64 {
	sum := 1.0
	for _, p := range pods {
		sum += max(0, EvictionCost(p))
	}
	return sum
}
