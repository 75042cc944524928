package cli

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

// Codes of all help pages.
func Codes() []string {
	var out []string
	for _, p := range codePages() {
		out = append(out, p.Code)
	}
	return out
}

// IncompletePages names the pages that lack a part.
func IncompletePages() []string {
	var out []string
	for _, p := range codePages() {
		if len(nonEmpty(p.Where, p.Meaning, p.Detected, p.Causes, p.Fix)) < 5 {
			out = append(out, p.Code)
		}
	}
	return out
}

// Plan is what a test says of a pool that is to be scaled.
type Plan struct {
	Pool    *karpv1.NodePool
	Claims  []karpv1.NodeClaim
	Pods    map[string][]corev1.Pod
	PDBs    []policyv1.PodDisruptionBudget
	GateOff bool
	To      int64
	// Current and Version are the flags, -1 and empty if not given.
	Current int64
	Version string
	Now     time.Time
}

// Planned is the report of a plan.
type Planned = scaleReport

// PlanScale makes the plan.
func PlanScale(p Plan) Planned {
	s := poolState{pool: p.Pool, claims: p.Claims, pods: p.Pods, pdbs: p.PDBs, gateOff: p.GateOff}
	return planScale(s, &scaleArgs{name: p.Pool.Name, replicas: p.To, current: p.Current, resourceVersion: p.Version}, p.Now)
}

// Sentence is the plan's first line.
func (r scaleReport) Sentence() string { return r.sentence() }

// Clause cuts an error down.
func Clause(err error) string { return clause(err) }
