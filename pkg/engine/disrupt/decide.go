package disrupt

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
)

// DefaultSteps is the step budget of zero Options: enough for a cluster of ten thousand nodes.
const DefaultSteps = 400_000_000

// Options of a decision.
type Options struct {
	// Steps limits the search; 0 means DefaultSteps.
	Steps int64
	// From is the method to begin with, empty for the first: after commands of one method were found not to hold, the pass goes on with the next.
	From plan.Method
	// Skip lists methods that need not be tried, because nothing has changed since they were exhausted (rules 11).
	Skip []plan.Method
	// Turn counts passes: where a large cluster is not searched through in one, the next turn begins where this one ends.
	Turn int
	// Resting are pools whose drift is left alone for the moment, after failures (rules 19).
	Resting []string
}

// Decide returns the commands of the first method that finds any.
func Decide(s *cluster.Snapshot, o Options) plan.Disruption {
	out := plan.Disruption{}
	d := &decision{survey: look(s, &out.Steps), opts: o, out: &out}
	if d.opts.Steps == 0 {
		d.opts.Steps = DefaultSteps
	}
	out.Pools, out.Malformed = d.poolBudgets()
	d.object()
	for _, m := range plan.Methods() {
		if slices.Index(plan.Methods(), m) < slices.Index(plan.Methods(), o.From) {
			continue
		}
		d.method = m
		eligible := d.eligible(m)
		out.Eligible = append(out.Eligible, plan.Eligible{Method: m, Nodes: len(eligible)})
		if len(eligible) == 0 || slices.Contains(o.Skip, m) {
			continue
		}
		if m == plan.SingleNode && d.tried { // consolidation of several nodes has looked at single ones, too
			if slices.Contains(out.Exhausted, plan.MultiNode) {
				d.exhausted()
			}
			continue
		}
		if d.try(m, eligible); len(out.Commands) > 0 {
			break
		}
	}
	for i := range out.Commands {
		out.Commands[i] = seal(out.Commands[i])
	}
	out.Cut = out.Steps >= d.opts.Steps
	out.Digest = s.Digest().String() + "/disrupt/" + strconv.FormatInt(d.opts.Steps, 10) + "/" + string(o.From) + "/" + strconv.Itoa(o.Turn)
	return out
}

// decision is one run of Decide.
type decision struct {
	*survey
	opts   Options
	out    *plan.Disruption
	method plan.Method
	tried  bool              // consolidation
	totals map[string]totals // of Balanced pools, see score.go
}

func (d *decision) try(m plan.Method, eligible []*node) {
	switch m {
	case plan.Emptiness:
		d.emptiness(eligible)
	case plan.StaticDrift:
		d.staticDrift(eligible)
	case plan.Drift:
		d.drift(eligible)
	default:
		d.tried = true
		d.consolidate(eligible, m == plan.SingleNode)
	}
}

func (d *decision) spent() bool { return d.out.Steps >= d.opts.Steps }

// exhausted notes that the method found nothing for want of opportunity.
func (d *decision) exhausted() { d.out.Exhausted = append(d.out.Exhausted, d.method) }

// object reports why nodes are no candidates at all.
func (d *decision) object() {
	for _, n := range d.nodes {
		x, ok := n.candidate(false)
		if ok || x.silent {
			continue
		}
		d.report(n, "DisruptionBlocked", "", *x)
	}
}

func (d *decision) report(n *node, event string, m plan.Method, x objection) {
	o := plan.Objection{Claim: n.Claim.Name, ClaimUID: n.Claim.UID, Pool: n.Pool, Event: event, Method: m, Code: x.code, Detail: x.detail, Until: x.until}
	if n.Node != nil {
		o.Node, o.NodeUID = n.Node.Name, n.Node.UID
	}
	for i, name := range x.objects {
		if i > 0 || x.detail != "" {
			o.Detail += " "
		}
		if name != x.detail {
			o.Detail += name
		}
	}
	d.out.Objections = append(d.out.Objections, o)
}

// eligible returns the candidates that a method accepts (rules 10), and reports why it does not accept others.
func (d *decision) eligible(m plan.Method) []*node {
	var out []*node
	for _, n := range d.nodes {
		if _, ok := n.candidate(m.Eventual()); !ok {
			continue
		}
		x := n.refusal(m)
		switch {
		case x == nil:
			out = append(out, n)
		case !x.silent && m != plan.SingleNode: // multi and single ask for the same
			d.report(n, "Unconsolidatable", m, *x)
		}
	}
	return out
}

// refusal says why a method does not accept a candidate (rules 10); silent ones are no event.
func (n *node) refusal(m plan.Method) *objection {
	static := n.pool.Replicas != nil
	switch m {
	case plan.StaticDrift, plan.Drift:
		if !n.Claim.Drifted {
			return &objection{code: reason.NotDrifted, silent: true}
		}
		if static != (m == plan.StaticDrift) {
			return &objection{code: reason.StaticPool, detail: n.pool.Name, silent: true}
		}
		return nil
	default: // what consolidates does not ask for drift
	}
	if static {
		return &objection{code: reason.StaticPool, detail: n.pool.Name, silent: true}
	}
	if m == plan.Emptiness {
		return n.notEmptied()
	}
	return n.notConsolidated()
}

func (n *node) notEmptied() *objection {
	switch {
	case n.pool.Disruption.Never:
		return &objection{code: reason.ConsolidationOff, detail: n.pool.Name}
	case n.Buffered > 0:
		return &objection{code: reason.BufferPods, detail: strconv.Itoa(n.Buffered)}
	case !n.empty():
		return &objection{code: reason.NotEmpty, detail: strconv.Itoa(len(n.moving)), silent: true}
	}
	return n.notQuiet()
}

func (n *node) notConsolidated() *objection {
	switch {
	case !n.known:
		return &objection{code: reason.TypeUnknown, detail: n.typeName}
	case n.buyAs == "":
		return &objection{code: reason.LabelMissing, detail: capacityTypeKey}
	case n.zone == "":
		return &objection{code: reason.LabelMissing, detail: zoneKey}
	case n.pool.Disruption.Never:
		return &objection{code: reason.ConsolidationOff, detail: n.pool.Name, silent: n.empty()} // Emptiness has said so
	case n.empty():
		return &objection{code: reason.NotEmpty, silent: true}
	case policyOf(n.pool) == cluster.WhenEmpty:
		return &objection{code: reason.PolicyWhenEmpty, detail: cluster.WhenEmpty}
	}
	return n.notQuiet()
}

// notQuiet objects while the condition Consolidatable is not True.
func (n *node) notQuiet() *objection {
	if n.Claim.Consolidatable {
		return nil
	}
	return &objection{code: reason.TimerRunning, silent: true}
}

// emptiness deletes empty nodes as far as budgets go, all with one command (rules 12).
func (d *decision) emptiness(eligible []*node) {
	c := plan.Command{Method: plan.Emptiness}
	purse, held := d.purse(plan.Emptiness.Reason()), false
	for _, n := range slices.SortedFunc(slices.Values(eligible), byRatio) {
		if !purse.spend(n.pool.Name) {
			held = true
			continue
		}
		c.Candidates = append(c.Candidates, d.asCandidate(n))
		c.Price += n.price
	}
	if len(c.Candidates) == 0 {
		if !held {
			d.exhausted()
		}
		return
	}
	c.Saving = c.Price
	d.out.Commands = []plan.Command{c}
}

// drift replaces the node that drifted first and can go, those without pods before all others (rules 19).
func (d *decision) drift(eligible []*node) {
	order := slices.SortedFunc(slices.Values(eligible), func(a, b *node) int {
		return cmp.Or(a.Claim.Drift.Since.Compare(b.Claim.Drift.Since), cmp.Compare(a.Claim.Name, b.Claim.Name))
	})
	slices.SortStableFunc(order, func(a, b *node) int { return cmp.Compare(min(len(a.moving), 1), min(len(b.moving), 1)) })
	for _, n := range order {
		if d.spent() || slices.Contains(d.opts.Resting, n.pool.Name) || d.remaining(n.pool.Name, plan.Drift.Reason()) == 0 {
			continue
		}
		o := d.simulate(d.s, []*node{n}, nil)
		if o.code == reason.NoNodePools {
			return // nothing can be launched anywhere: the method stops with that (rules 13)
		}
		if !o.ok() {
			d.report(n, "DisruptionBlocked", plan.Drift, objection{code: o.code, objects: missed(o.failed)})
			continue
		}
		d.out.Commands = []plan.Command{{Method: plan.Drift, Candidates: []plan.Candidate{d.asCandidate(n)}, Replacements: o.claims,
			Placements: o.placements, Price: n.price, Saving: n.price - priceOfClaims(o.claims)}}
		return
	}
}

// missed names pods without a place: at most five, then how many more.
func missed(failed []reason.PodMiss) []string {
	const most = 5
	var out []string
	for i, x := range failed {
		if i == most {
			return append(out, "and "+strconv.Itoa(len(failed)-most)+" more")
		}
		out = append(out, x.Pod.String()+" ("+string(x.Code)+")")
	}
	return out
}
