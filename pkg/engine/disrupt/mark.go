package disrupt

import (
	"cmp"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// Quiet reports whether a claim is not (or no longer) under its pool's consolidateAfter (rules 8); if it is, until tells when that ends.
func Quiet(c *cluster.Claim, p *cluster.Pool, now time.Time) (until time.Time, quiet bool) {
	d := &p.Disruption
	if d.Never || d.After <= 0 || !c.Initialized {
		return time.Time{}, true
	}
	reference := c.LastPodEvent
	if reference.IsZero() {
		reference = c.InitializedAt
	}
	until = reference.Add(d.After)
	return until, now.Sub(reference) >= d.After
}

// Marking is what a condition should be.
type Marking struct {
	// Leave tells that the condition stays as it is.
	Leave bool
	// True is the wanted status; otherwise the condition is removed. Reason and Message belong to it.
	True            bool
	Reason, Message string
	// Again is when to look again, zero to wait for events.
	Again time.Time
}

// Consolidatable decides that condition of a claim (rules 8). The pool is nil if it is missing.
func Consolidatable(c *cluster.Claim, p *cluster.Pool, now time.Time) Marking {
	if p == nil || c.Pool == "" || !c.Deleted.IsZero() || p.Replicas != nil {
		return Marking{Leave: true}
	}
	if p.Disruption.Never || !c.Initialized {
		return Marking{}
	}
	if until, quiet := Quiet(c, p, now); !quiet {
		return Marking{Again: until}
	}
	return Marking{True: true, Reason: "Consolidatable"}
}

// Reasons of drift that the engine finds; the provider has more (rules 18).
const (
	NodePoolDrifted      = "NodePoolDrifted"
	RequirementsDrifted  = "RequirementsDrifted"
	InstanceTypeNotFound = "InstanceTypeNotFound"
)

// DriftFacts are what marking drift needs beyond the claim and its pool.
type DriftFacts struct {
	// TypeChecked is when the instance type was last found in the catalogue, zero if never.
	TypeChecked time.Time
	// Provider asks the provider for its reason (rules 18), empty for none. It is only asked when nothing else has drifted.
	Provider func() (reason string, err error)
	// Again is how often to look without an event.
	Again time.Duration
}

// Drift is the outcome of looking for drift.
type Drift struct {
	Marking
	// TypeChecked tells that the check of the instance type has passed now: remember it for 30 minutes.
	TypeChecked bool
}

// driftPeriod is how often drift is looked for, typePause how long a passed check of the type holds, typeAge from when on it is made (rules 17).
const (
	driftPeriod = 5 * time.Minute
	typePause   = 30 * time.Minute
	typeAge     = time.Hour
)

// Drifted decides the condition Drifted of a claim (rules 17): the first reason found counts. The pool is nil if it is gone. An error is the
// provider's; the condition is then left as it is.
func Drifted(c *cluster.Claim, p *cluster.Pool, f DriftFacts, now time.Time) (Drift, error) {
	if c.Pool == "" || p == nil || !c.Deleted.IsZero() {
		return Drift{Marking: Marking{Leave: true}}, nil
	}
	if !c.Launched {
		return Drift{}, nil
	}
	out := Drift{Marking: Marking{Again: now.Add(cmp.Or(f.Again, driftPeriod))}}
	drifted := func(why string) Drift {
		out.True, out.Reason, out.Message = true, why, why
		return out
	}
	if HashDiffers(c, p) {
		return drifted(NodePoolDrifted), nil
	}
	if len(Mismatches(c, p)) > 0 {
		return drifted(RequirementsDrifted), nil
	}
	if now.Sub(c.Created) > typeAge && (f.TypeChecked.IsZero() || now.Sub(f.TypeChecked) >= typePause) && p.Catalog != nil {
		if !sold(c, p.Catalog) {
			return drifted(InstanceTypeNotFound), nil
		}
		out.TypeChecked = true
	}
	if f.Provider == nil {
		return out, nil
	}
	why, err := f.Provider()
	switch {
	case err != nil:
		return Drift{Marking: Marking{Leave: true}, TypeChecked: out.TypeChecked}, err
	case why != "":
		return drifted(why), nil
	}
	return out, nil
}

// HashDiffers reports whether the claim was made from another version of its pool's template (rules 17, check 1).
func HashDiffers(c *cluster.Claim, p *cluster.Pool) bool {
	hash, version := c.Annotations[hashAnnotation], c.Annotations[hashVersionAnnotation]
	return hash != "" && version != "" && p.Hash != "" && p.HashVersion != "" && version == p.HashVersion && hash != p.Hash
}

const (
	hashAnnotation        = "karpenter.sh/nodepool-hash"
	hashVersionAnnotation = "karpenter.sh/nodepool-hash-version"
)

// Mismatches returns the keys of the pool's requirements that the claim's labels do not meet (rules 17, check 2).
func Mismatches(c *cluster.Claim, p *cluster.Pool) []string {
	var keys []string
	labels := canonical(c.Labels)
	for r := range constraint.Parse(p.Requirements).All() {
		v, ok := labels[r.Key]
		if ok && !r.Admits(v) || !ok && !r.AdmitsAbsent() {
			keys = append(keys, r.Key)
		}
	}
	return keys
}

func canonical(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels))
	for k, v := range labels {
		if c := constraint.Canonical(k); c == k || labels[c] == "" {
			out[c] = v
		}
	}
	return out
}

// sold reports whether the claim's instance type exists in its zone, to be had now or not (rules 17, check 3). A reserved claim may have lapsed
// into on-demand.
func sold(c *cluster.Claim, cat *catalog.Catalog) bool {
	labels := canonical(c.Labels)
	buyAs := []string{labels[constraint.CapacityTypeKey]}
	if buyAs[0] == catalog.Reserved {
		buyAs = append(buyAs, catalog.OnDemand)
	}
	for i := range cat.Types() {
		t := &cat.Types()[i]
		if t.Name != labels[constraint.InstanceTypeKey] {
			continue
		}
		for j := range t.Offerings {
			o := &t.Offerings[j]
			zone, zoned := labels[constraint.ZoneKey]
			if zoned && o.Zone != zone {
				continue
			}
			if buyAs[0] == "" || o.CapacityType == buyAs[0] || len(buyAs) > 1 && o.CapacityType == buyAs[1] {
				return true
			}
		}
	}
	return false
}

// Astray are objects that carry signs of a disruption which nobody is making.
type Astray struct {
	Node, Claim string
	// Taint and Condition tell which sign to remove.
	Taint, Condition bool
}

// Heal finds nodes with the disrupted taint, and claims with the condition DisruptionReason, that no command holds and that are not leaving
// (rules 2, step 3). Nodes or claims without the other are not touched.
func Heal(s *cluster.Snapshot) []Astray {
	var out []Astray
	for _, t := range s.Targets() {
		if t.Claim == nil || t.Node == nil || t.Leaving || t.Claim.Command != "" || !t.Node.Deleted.IsZero() {
			continue
		}
		a := Astray{Node: t.Node.Name, Claim: t.Claim.Name, Condition: t.Claim.DisruptionReason != "" && t.Initialized}
		for _, x := range t.Node.Taints {
			a.Taint = a.Taint || x.Key == disruptedTaint && x.Effect == constraint.NoSchedule
		}
		if a.Taint || a.Condition {
			out = append(out, a)
		}
	}
	return out
}
