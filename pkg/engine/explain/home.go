package explain

import (
	"slices"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/reason"
)

// keepOut marks the pools that are not meant for the pod. A taint is there to keep pods out; where another pool would take the pod but for its
// state, that state is the answer, and tolerating a stranger's taint is not.
func (q *inquiry) keepOut(ranked []*rankedPool) {
	if !slices.ContainsFunc(ranked, (*rankedPool).isHome) {
		return
	}
	for _, r := range ranked {
		r.answer.Distance.Blind = r.suitsBlindly()
		for i := range r.sets {
			r.sets[i].distance.Stranger = q.strange(r.sets[i].misses)
		}
		if len(r.sets) > 0 {
			r.answer.Distance.Stranger = r.sets[0].distance.Stranger
		}
	}
}

// isHome reports whether the pool would take the pod as it is, were it not for the pool's limits, its readiness or the cloud.
func (r *rankedPool) isHome() bool {
	if r.suitsBlindly() {
		return true
	}
	return slices.ContainsFunc(r.c.cands, func(x *candidate) bool {
		return len(x.misses) > 0 && !slices.ContainsFunc(x.misses, func(m *miss) bool { return m.hard || !m.isState() })
	})
}

// isState reports whether a condition is about how the pool stands at the moment: its limits, its readiness, what the cloud sells.
func (m *miss) isState() bool {
	return m.code == reason.LimitReached || m.code == reason.NodePoolNotReady || m.kind == reason.WaitsForTheSky
}

// suitsBlindly reports whether the pool is not ready, what it would launch is unknown, and neither its taints nor its labels object to the pod.
func (r *rankedPool) suitsBlindly() bool {
	p := r.c.pool
	if p.Ready && p.Catalog != nil || len(r.c.cands) > 0 || p.Deleting || p.Replicas != nil || len(r.c.taints()) > 0 {
		return false
	}
	return slices.ContainsFunc(r.c.q.terms, func(term constraint.Requirements) bool {
		_, ok := r.c.template.Compatible(term, constraint.WellKnownOptional)
		return ok
	})
}

// strange reports whether a set has the pod tolerate a taint that is not about a resource it asks for: extended resources and the taints that guard
// them share a name (Kubernetes, admission plug-in ExtendedResourceToleration).
func (q *inquiry) strange(ms []*miss) bool {
	return slices.ContainsFunc(ms, func(m *miss) bool { return m.code == reason.TaintNotTolerated && q.shape.Requests[m.key] == 0 })
}
