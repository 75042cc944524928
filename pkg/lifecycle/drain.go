package lifecycle

import (
	"slices"
	"time"

	"github.com/karp-sh/karp/pkg/constraint"
)

// Pod is what draining needs to know of a pod on a node.
type Pod struct {
	UID, Namespace, Name, ResourceVersion string
	// Terminal is phase Succeeded or Failed.
	Terminal bool
	// Deleted is the deletion timestamp, which contains the pod's grace period; zero while the pod is not terminating. Started is its start time.
	Deleted, Started time.Time
	// Grace is spec.terminationGracePeriodSeconds, nil if unset.
	Grace *time.Duration
	// Mirror is a static pod, Daemon a pod of a DaemonSet, Critical one of a system-critical priority class.
	Mirror, Daemon, Critical bool
	Tolerations              []constraint.Toleration
	// DoNotDisrupt is the value of the annotation, empty if absent.
	DoNotDisrupt string
	// Claims are the persistent volumes the pod uses, by PV name.
	Volumes []string
}

// Key identifies a pod beyond its name.
func (p *Pod) Key() PodKey { return PodKey{Namespace: p.Namespace, Name: p.Name, UID: p.UID} }

// PodKey is a pod's identity; the UID tells a pod from another one of the same name.
type PodKey struct{ Namespace, Name, UID string }

// Terminating reports whether somebody asked for the pod's end.
func (p *Pod) Terminating() bool { return !p.Deleted.IsZero() }

// Stuck reports whether the pod is terminating for more than a minute longer than it was given.
func (p *Pod) Stuck(now time.Time) bool {
	return p.Terminating() && now.Sub(p.Deleted) > StuckTerminating
}

// Drainable reports whether the pod has to leave a node that goes (lifecycle rules 17.1).
func (p *Pod) Drainable(now time.Time) bool {
	return !ToleratesDisrupted(p.Tolerations) && !p.Stuck(now) && !p.Mirror
}

// Waiting reports whether the pod holds the drain open.
func (p *Pod) Waiting(now time.Time) bool { return p.Drainable(now) && !p.Terminal }

// ToleratesDisrupted reports whether some toleration tolerates the taint karpenter.sh/disrupted:NoSchedule (L-173, L-177).
func ToleratesDisrupted(list []constraint.Toleration) bool {
	return slices.ContainsFunc(list, func(t constraint.Toleration) bool {
		if t.Effect != "" && t.Effect != constraint.NoSchedule {
			return false
		}
		if t.Operator == "Exists" {
			return t.Key == "" || t.Key == DisruptedTaint
		}
		return (t.Operator == "" || t.Operator == "Equal") && t.Key == DisruptedTaint && t.Value == ""
	})
}

// Protection is what a do-not-disrupt annotation says at one moment.
type Protection struct {
	Active bool
	// Until is the end of a protection for a time, zero otherwise. Ended tells that such a protection is over, Invalid that the value is
	// not understood and ignored.
	Until          time.Time
	Ended, Invalid bool
}

// Protected reads the pod's do-not-disrupt annotation (lifecycle rules 17.1).
func (p *Pod) Protected(now time.Time) Protection {
	switch p.DoNotDisrupt {
	case "":
		return Protection{}
	case "true":
		return Protection{Active: true}
	}
	d, err := time.ParseDuration(p.DoNotDisrupt)
	if err != nil || d <= 0 {
		return Protection{Invalid: true}
	}
	if p.Started.IsZero() {
		return Protection{Active: true}
	}
	until := p.Started.Add(d)
	return Protection{Active: now.Before(until), Until: until, Ended: !now.Before(until)}
}

// Forced reports whether the pod is to be deleted by force now to meet the deadline (lifecycle rules 17.2). No deadline, no force.
func (p *Pod) Forced(deadline, now time.Time) bool {
	if deadline.IsZero() || p.Grace == nil || !p.Waiting(now) {
		return false
	}
	return now.After(deadline.Add(-*p.Grace)) && (!p.Terminating() || p.Deleted.After(deadline))
}

// ForcedGrace is the grace period of a forced deletion, in seconds: what is left until the deadline, but at least 1, because 0 would
// orphan the pod's containers (invariant I10).
func ForcedGrace(deadline, now time.Time) int64 {
	return max(int64(deadline.Sub(now)/time.Second), 1)
}

// tier is the order in which pods leave: critical ones last, DaemonSets after what may need them.
func (p *Pod) tier() int {
	t := 0
	if p.Daemon {
		t++
	}
	if p.Critical {
		t += 2
	}
	return t
}

// Drain is what one look at a node's pods leads to (lifecycle rules 17.5).
type Drain struct {
	// Enqueue are the pods to evict, or to delete by force.
	Enqueue []PodKey
	// Waiting is the number of pods that hold the drain open.
	Waiting int
}

// DrainPods decides which pods go next: all that are to be deleted by force, and of the others the first tier that is not empty. A zero
// deadline means none.
func DrainPods(pods []Pod, deadline, now time.Time) Drain {
	var d Drain
	var tiers [4][]*Pod
	for i := range pods {
		p := &pods[i]
		if !p.Waiting(now) {
			continue
		}
		d.Waiting++
		if p.Forced(deadline, now) {
			d.Enqueue = append(d.Enqueue, p.Key())
			continue
		}
		tiers[p.tier()] = append(tiers[p.tier()], p)
	}
	for _, tier := range tiers {
		if len(tier) == 0 {
			continue
		}
		for _, p := range tier {
			if !p.Terminating() {
				d.Enqueue = append(d.Enqueue, p.Key())
			}
		}
		break
	}
	return d
}

// Effect of one attempt on a queued pod.
type Effect int

// The effects of an attempt.
const (
	// Drop the entry: nothing is left to do for the pod.
	Drop Effect = iota
	// Hold the entry and look again after back-off.
	Hold
	// Evict through the eviction API with UID and resourceVersion preconditions.
	Evict
	// Force deletion with a UID precondition and the grace of ForcedGrace.
	Force
)

// Attempt decides what to do with a queued pod now; pod is nil when it is gone or replaced. Everything is looked at anew on each attempt,
// so a protection that appears or ends in between counts (L-188 to L-204).
func Attempt(pod *Pod, deadline, now time.Time) Effect {
	switch {
	case pod == nil:
		return Drop
	case pod.Forced(deadline, now):
		return Force
	case pod.Terminal || pod.Terminating() || pod.Mirror || ToleratesDisrupted(pod.Tolerations):
		return Drop
	case pod.Protected(now).Active:
		return Hold
	default:
		return Evict
	}
}

// EarlierDeadline merges the deadlines of two entries for one pod: the earlier one stands, and any is earlier than none (L-192, L-193).
func EarlierDeadline(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
