package explain

import (
	"strings"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/device"
	"github.com/karp-sh/karp/pkg/reason"
)

const (
	unschedulable    = "Unschedulable"
	schedulingGated  = "SchedulingGated"
	defaultScheduler = "default-scheduler"
)

// request answers from layer 0: whether the pod asks for a node at all (scheduling rules 2.1, 2.2). The checks run in the order of the codes.
func (q *inquiry) request() (reason.Code, reason.RequestDetail, bool) {
	p, s := q.pod, q.shape
	d := reason.RequestDetail{Scheduler: s.SchedulerName, Node: p.Node, Nominated: p.Nominated}
	d.Gates = s.SchedulingGates
	switch {
	case p.Node != "" || p.Terminal() || !p.Deleted.IsZero():
		return reason.NotPending, d, true
	case len(s.SchedulingGates) > 0 || p.Scheduled == schedulingGated:
		return reason.SchedulingGated, d, true
	case p.Owner.Kind == "DaemonSet" || p.Owner.Kind == "Node":
		return reason.DaemonSetPod, d, true
	case p.Scheduled != unschedulable && s.SchedulerName != "" && s.SchedulerName != defaultScheduler:
		return reason.OtherScheduler, d, true
	case p.Scheduled != unschedulable:
		return reason.AwaitingScheduler, d, true
	case p.Nominated != "" && !p.NominatedByKarp:
		return reason.Preempting, d, true
	}
	if code, bad := q.invalid(&d); bad {
		return code, d, true
	}
	return "", d, false
}

// invalid applies the validation of scheduling rules 2.2.
func (q *inquiry) invalid(d *reason.RequestDetail) (reason.Code, bool) {
	s := q.shape
	if r, ok := q.terms[0].Get(constraint.NodePoolKey); ok && r.Operator() == constraint.DoesNotExist {
		return reason.OptedOut, true
	}
	for _, e := range required(s) {
		if p := constraint.Validate(e); p != nil {
			d.Key, d.Problem, d.ProblemDetail, d.Value = e.Key, string(p.Rule), p.Text, spell([]constraint.Expr{e})
			return reason.InvalidRequirement, true
		}
	}
	for _, t := range s.Required {
		if t.MatchFields {
			d.Problem = "V5"
			return reason.InvalidRequirement, true
		}
	}
	for _, v := range s.Volumes {
		if v.Problem != "" {
			d.Claim, d.Problem, d.ProblemDetail = v.Claim, v.Problem, v.ProblemDetail
			return reason.InvalidVolumeClaim, true
		}
	}
	if len(s.ResourceClaims) > 0 && q.s.Settings.IgnoreDRA {
		d.Claim = s.ResourceClaims[0]
		return reason.DRANotSupported, true
	}
	if refs := q.pod.DeviceClaims; len(refs) > 0 && !q.s.Settings.IgnoreDRA {
		every := func(string) bool { return true }
		need := device.NewInventory(&q.s.Devices, every, every).Resolve(s.Namespace, refs)
		if need.Problem != "" {
			d.Claim, d.Problem, _ = strings.Cut(need.Problem, ": ")
			return reason.InvalidDeviceClaim, true
		}
	}
	return "", false
}

// required lists every expression the pod requires, selector first.
func required(s *cluster.Shape) []constraint.Expr {
	var out []constraint.Expr
	for r := range constraint.FromLabels(s.NodeSelector).All() {
		out = append(out, constraint.Expr{Key: r.Key, Operator: constraint.In, Values: r.Values()})
	}
	for _, t := range s.Required {
		out = append(out, t.Exprs...)
	}
	return out
}

// blocked reports whether a code means that a person may have to act (exit codes of why-pending).
func blocked(c reason.Code) bool {
	switch c {
	case reason.CapacityComing, reason.SchedulingGated, reason.AwaitingScheduler, reason.NotPending:
		return false
	default:
		return true
	}
}
