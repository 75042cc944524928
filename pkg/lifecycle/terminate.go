package lifecycle

import (
	"time"

	"github.com/karp-sh/karp/pkg/constraint"
)

// Cordon returns what a node lacks to be one that is going: the disrupted taint and the label that takes it out of load balancers. The
// same key with another effect is replaced (L-150, L-158, L-159).
func Cordon(n *Node) NodeChange {
	want := constraint.Taint{Key: DisruptedTaint, Effect: constraint.NoSchedule}
	var change NodeChange
	for _, t := range n.Taints {
		if t.Key == DisruptedTaint && t.Effect != want.Effect {
			change.RemoveTaints = append(change.RemoveTaints, t)
		}
	}
	if !hasTaint(n.Taints, want) {
		change.AddTaints = []constraint.Taint{want}
	}
	change.Labels = missing(map[string]string{ExcludeBalancersLabel: ExcludeBalancersValue}, n.Labels)
	return change
}

// Attachment is a VolumeAttachment of a node. Volume is the PV's name, empty for an inline volume.
type Attachment struct{ Name, Volume string }

// Departure is what is known of a node that is being deleted, after it was tainted.
type Departure struct {
	// Claim is nil when no claim, or more than one, belongs to the node.
	Claim *Claim
	Pods  []Pod
	// Attachments of the node.
	Attachments []Attachment
	// Deadline is zero when there is none.
	Deadline, Now time.Time
}

// Phase of a departure.
type Phase int

// The phases of lifecycle rules 17.4, in order.
const (
	PhaseDrain Phase = iota
	PhaseVolumes
	// PhaseInstance: the instance has to be terminated; the caller calls the cloud and, once it is gone, removes the finalizer.
	PhaseInstance
	// PhaseDone: the finalizer can go at once, because there is no claim whose instance would have to be awaited.
	PhaseDone
)

// DepartureStep is what one look at a departing node leads to.
type DepartureStep struct {
	Phase Phase
	// Conditions to set on the claim.
	Conditions []Condition
	Drain      Drain
	// Blocking are the names of attachments that are waited for.
	Blocking []string
	// After is when to look again, if the phase is not final.
	After time.Duration
}

// Depart decides the next step of a node's departure: pods first, then volumes, then the instance.
func Depart(d Departure) DepartureStep {
	step := DepartureStep{Phase: PhaseDrain, Drain: DrainPods(d.Pods, d.Deadline, d.Now), After: DrainInterval}
	if step.Drain.Waiting > 0 {
		step.note(d.Claim, waiting(Drained, "Draining", ""))
		return step
	}
	if d.Claim != nil && !d.Claim.Is(Drained, True) {
		have, begun := d.Claim.Conditions[Drained]
		if !begun || d.Now.Sub(have.Since) < MinimumDrainTime {
			step.note(d.Claim, waiting(Drained, "Draining", ""))
			return step
		}
		step.note(d.Claim, done(Drained))
	}
	step.Phase, step.After = PhaseVolumes, VolumeInterval
	step.Blocking = Blocking(d.Attachments, d.Pods, d.Now)
	switch overdue := !d.Deadline.IsZero() && d.Now.After(d.Deadline); {
	case len(step.Blocking) > 0 && !overdue:
		step.note(d.Claim, waiting(VolumesDetached, "AwaitingVolumeDetachment", ""))
		return step
	case len(step.Blocking) > 0:
		step.note(d.Claim, Condition{Type: VolumesDetached, Status: False, Reason: "TerminationGracePeriodElapsed"})
	default:
		step.note(d.Claim, done(VolumesDetached))
	}
	step.Phase, step.After = PhaseInstance, InstanceInterval
	if d.Claim == nil {
		step.Phase, step.After = PhaseDone, 0
	}
	return step
}

// note adds a condition for a claim that exists.
func (s *DepartureStep) note(c *Claim, cond Condition) {
	if c != nil {
		s.Conditions = append(s.Conditions, cond)
	}
}

// InstanceCalled is the condition to set once the termination of the instance was asked for.
func InstanceCalled() Condition { return done(InstanceTerminating) }

// Blocking returns the names of the attachments that have to go before the instance may: those with a volume that no pod uses which stays
// until the instance dies (lifecycle rules 17.6).
func Blocking(attachments []Attachment, pods []Pod, now time.Time) []string {
	staying := map[string]bool{}
	for i := range pods {
		if !pods[i].Drainable(now) {
			for _, v := range pods[i].Volumes {
				staying[v] = true
			}
		}
	}
	var out []string
	for _, a := range attachments {
		if a.Volume != "" && !staying[a.Volume] {
			out = append(out, a.Name)
		}
	}
	return out
}

// Disrupted returns the node's taints that say that it is being disrupted.
func Disrupted(n *Node) []constraint.Taint {
	var out []constraint.Taint
	for _, t := range n.Taints {
		if t.Key == DisruptedTaint {
			out = append(out, t)
		}
	}
	return out
}
