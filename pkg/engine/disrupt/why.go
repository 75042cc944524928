package disrupt

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// Inquiry answers why nodes of one snapshot are kept.
type Inquiry struct {
	d       *decision
	opts    Options
	planned map[string]plan.Disruption // by reason
}

// Inquire prepares a snapshot for questions.
func Inquire(s *cluster.Snapshot, o Options) *Inquiry {
	out := &plan.Disruption{}
	o.Steps = cmp.Or(o.Steps, DefaultSteps)
	return &Inquiry{d: &decision{survey: look(s, &out.Steps), opts: o, out: out}, opts: o, planned: map[string]plan.Disruption{}}
}

// Nodes returns the names of all nodes with a claim, and of claims without a Node.
func (q *Inquiry) Nodes() []string {
	out := make([]string, len(q.d.nodes))
	for i, n := range q.d.nodes {
		out[i] = n.Name
	}
	return out
}

// Reason is the reason for which a node would go first: because it is empty, drifted, or else underutilized.
func (q *Inquiry) Reason(name string) string {
	n := q.node(name)
	switch {
	case n != nil && n.empty() && (n.Claim.Consolidatable || !n.Claim.Drifted):
		return plan.Emptiness.Reason()
	case n != nil && n.Claim.Drifted:
		return plan.Drift.Reason()
	}
	return plan.MultiNode.Reason()
}

func (q *Inquiry) node(name string) *node {
	i := slices.IndexFunc(q.d.nodes, func(n *node) bool { return n.Name == name || n.Claim.Name == name })
	if i < 0 {
		return nil
	}
	return q.d.nodes[i]
}

// Why evaluates all gates between a node and its disruption for a reason (Empty, Drifted or Underutilized; empty for the first that applies). The
// name is that of the Node or of the claim. A node without a claim is NotManaged; ok is false if there is no such node.
func (q *Inquiry) Why(name, why string) (_ reason.Kept, ok bool) {
	n := q.node(name)
	if n == nil {
		return q.unmanaged(name, why)
	}
	if why == "" {
		why = q.Reason(name)
	}
	k := &kept{q: q, n: n, out: reason.Kept{Node: n.Name, Claim: n.Claim.Name, Pool: n.Pool, At: q.d.s.At, Reason: why, InstanceType: n.typeName,
		Zone: n.zone, CapacityType: n.buyAs, Price: n.price, Empty: n.empty(), Drifted: n.Claim.Drifted, Drift: n.Claim.Drift.Reason,
		Pods: len(n.moving), Cost: n.cost}}
	if n.Node == nil {
		k.out.Node = ""
	}
	k.nodeGates()
	k.podGates()
	k.ruleGates()
	k.budgetGate()
	if n.pool != nil && n.Node != nil {
		k.simulationGates()
	}
	k.conclude()
	return k.out, true
}

func (q *Inquiry) unmanaged(name, why string) (reason.Kept, bool) {
	for _, t := range q.d.s.Targets() {
		if t.Claim == nil && t.Name == name {
			g := reason.Gate{Name: reason.GateManaged, State: reason.GateClosed, Code: reason.NotManaged}
			return reason.Kept{Node: name, At: q.d.s.At, Reason: why, Code: reason.NotManaged, Gates: []reason.Gate{g}}, true
		}
	}
	return reason.Kept{}, false
}

// kept is one answer in the making.
type kept struct {
	q   *Inquiry
	n   *node
	out reason.Kept
}

func (k *kept) gate(g reason.Gate) {
	if g.State == "" {
		g.State = reason.GateOpen
		if g.Code != "" {
			g.State = reason.GateClosed
		}
	}
	k.out.Gates = append(k.out.Gates, g)
}

// closeIf adds a gate that the objection closes if it has one of the codes.
func (k *kept) closeIf(name reason.GateName, x *objection, count int, codes ...reason.Code) {
	g := reason.Gate{Name: name, Count: count}
	if x != nil && slices.Contains(codes, x.code) {
		g.Code, g.Detail, g.Until, g.Objects = x.code, x.detail, x.until, x.objects
	}
	k.gate(g)
}

// nodeGates are tests 1 to 9 of rules 3, each by itself.
func (k *kept) nodeGates() {
	n, v := k.n, k.q.d.survey
	k.gate(reason.Gate{Name: reason.GateManaged})
	held := reason.Gate{Name: reason.GateHeld}
	if n.Claim.Command != "" {
		held.Code, held.Detail = reason.HeldByCommand, n.Claim.Command
	}
	k.gate(held)
	init := reason.Gate{Name: reason.GateInitialized}
	switch {
	case n.Node == nil:
		init.Code = reason.NoNode
	case !n.Initialized:
		init.Code = reason.NotInitialized
	}
	k.gate(init)
	deleting := reason.Gate{Name: reason.GateDeleting}
	if n.Leaving || n.Node != nil && !n.Node.Deleted.IsZero() {
		deleting.Code = reason.Deleting
	}
	k.gate(deleting)
	nominated := reason.Gate{Name: reason.GateNominated}
	if n.Nominated.After(v.s.At) {
		nominated.Code, nominated.Until = reason.Nominated, n.Nominated
	}
	k.gate(nominated)
	mark := reason.Gate{Name: reason.GateNode}
	if n.Node != nil && n.Node.Annotations[doNotDisruptMark] == "true" {
		mark.Code = reason.DoNotDisruptNode
	}
	k.gate(mark)
	k.closeIf(reason.GatePool, n.objection, 0, reason.NoSuchPool, reason.CatalogUnknown)
	readable := reason.Gate{Name: reason.GateReadable}
	if n.pool != nil {
		if x := v.unread.objection(n); x != nil {
			readable.State, readable.Code, readable.Detail = reason.GateUnknown, x.code, x.detail
		}
	}
	k.gate(readable)
}

// podGates is test 10, with all pods and budgets that object.
func (k *kept) podGates() {
	v := k.q.d.survey
	waived := k.out.Reason == plan.Drift.Reason() && k.n.Claim.TerminationGracePeriod != ""
	pods, pdbs := reason.Gate{Name: reason.GatePods}, reason.Gate{Name: reason.GatePDBs}
	seen := map[string]bool{}
	forever := false
	for _, g := range k.n.Residents {
		hits := v.guards.of(g)
		for _, p := range hits {
			seen[p.Namespace+"/"+p.Name] = true
		}
		for _, p := range g.Pods {
			pods.Count++
			name := p.Namespace + "/" + p.Name
			if x := Protect(p, v.s.At); x.Active {
				pods.Code = reason.DoNotDisruptPod
				pods.Objects = append(pods.Objects, name)
				forever = forever || x.Until.IsZero()
				pods.Until = later(pods.Until, x.Until)
				continue
			}
			stop := blocking(p, hits)
			if len(stop) == 0 || !v.evictable(p) {
				continue
			}
			code := reason.PDBBlocks
			if len(stop) > 1 {
				code = reason.MultiplePDBs
			}
			pdbs.Code = cmp.Or(pdbs.Code, code)
			pdbs.Detail = cmp.Or(pdbs.Detail, name)
			pdbs.Objects = append(pdbs.Objects, pdbNames(stop)...)
		}
	}
	if forever {
		pods.Until = time.Time{}
	}
	if pods.Detail = ""; len(pods.Objects) > 0 {
		pods.Detail = pods.Objects[0]
	}
	slices.Sort(pdbs.Objects)
	pdbs.Objects, pdbs.Count = slices.Compact(pdbs.Objects), len(seen)
	for _, g := range []*reason.Gate{&pods, &pdbs} {
		if waived && g.Code != "" {
			g.State = reason.GateOpen // the grace period waives it for drift
		}
		k.gate(*g)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// ruleGates are what the method asks (rules 10).
func (k *kept) ruleGates() {
	n := k.n
	if n.pool == nil {
		return
	}
	static := n.pool.Replicas != nil
	applies := reason.Gate{Name: reason.GateApplies}
	timer := reason.Gate{Name: reason.GateTimer}
	if until, quiet := Quiet(n.Claim, n.pool, k.q.d.s.At); !quiet {
		timer.Code, timer.Until = reason.TimerRunning, until
	} else if !n.Claim.Consolidatable && !n.pool.Disruption.Never {
		timer.State, timer.Code = reason.GateUnknown, reason.NotEvaluatedYet
	}
	typ := reason.Gate{Name: reason.GateType, State: reason.GateSkipped}
	switch {
	case k.out.Reason == plan.Drift.Reason():
		timer = reason.Gate{Name: reason.GateTimer, State: reason.GateSkipped}
		if !n.Claim.Drifted {
			applies.Code = reason.NotDrifted
		}
	case static:
		applies.Code, applies.Detail = reason.StaticPool, n.pool.Name
	case n.pool.Disruption.Never:
		applies.Code, applies.Detail = reason.ConsolidationOff, n.pool.Name
	case n.Buffered > 0 && n.empty():
		applies.Code, applies.Detail = reason.BufferPods, strconv.Itoa(n.Buffered)
	case k.out.Reason == plan.Emptiness.Reason():
		if !n.empty() {
			applies.Code, applies.Count = reason.NotEmpty, len(n.moving)
		}
	case policyOf(n.pool) == cluster.WhenEmpty && !n.empty():
		applies.Code, applies.Detail = reason.PolicyWhenEmpty, n.pool.Name
	}
	if k.out.Reason == plan.MultiNode.Reason() && !static {
		typ = reason.Gate{Name: reason.GateType}
		switch {
		case !n.known:
			typ.Code, typ.Detail = reason.TypeUnknown, n.typeName
		case n.buyAs == "":
			typ.Code, typ.Detail = reason.LabelMissing, capacityTypeKey
		case n.zone == "":
			typ.Code, typ.Detail = reason.LabelMissing, zoneKey
		}
	}
	k.gate(applies)
	k.gate(typ)
	k.gate(timer)
}

func (k *kept) budgetGate() {
	n, v := k.n, k.q.d.survey
	if n.pool == nil {
		return
	}
	b, u := v.budgets[n.pool.Name], v.usage[n.pool.Name]
	allowed, by := b.Allowed(k.out.Reason, u.Nodes, v.s.At)
	k.out.Allowed, k.out.Used = allowed, u.Disrupting
	g := reason.Gate{Name: reason.GateBudget, Count: allowed}
	switch {
	case b.Problem != nil:
		g.Code, g.Detail = reason.BudgetMalformed, b.Problem.Error()
	case u.Remaining(allowed) == 0:
		g.Code = reason.NoBudget
		if by >= 0 {
			g.Detail = strconv.Itoa(by)
		}
		if until, opens := b.Opening(k.out.Reason, u.Nodes, u.Disrupting, v.s.At); opens && until.After(v.s.At) {
			g.Until = until
		}
	}
	k.gate(g)
}

// simulationGates try what the method would: places for the pods, a cheaper node, a score.
func (k *kept) simulationGates() {
	if k.out.Reason == plan.Emptiness.Reason() || k.n.empty() && k.out.Reason != plan.Drift.Reason() {
		return
	}
	d, consolidating := k.q.d, k.out.Reason == plan.MultiNode.Reason()
	var closed []string
	if consolidating {
		closed = d.closed()
	}
	o := d.simulate(d.s, []*node{k.n}, closed)
	k.deleteGate(o)
	if !consolidating {
		g := reason.Gate{Name: reason.GateReplace, Count: len(o.claims)}
		if !o.ok() {
			g.Code, g.Objects = o.code, missed(o.failed)
		}
		k.gate(g)
		return
	}
	c, no := d.deal(o)
	k.replaceGate(o, c, no)
	saving := c.Saving
	if no.code != "" {
		saving = 0
	}
	scores, approved := d.judge([]*node{k.n}, saving)
	g := reason.Gate{Name: reason.GateScore}
	for _, s := range scores {
		k.out.Score = &reason.KeptScore{Saving: s.Saving, Disruption: s.Disruption, Value: s.Value, Threshold: scoreThreshold}
	}
	switch {
	case len(scores) == 0 || no.code != "":
		g.State = reason.GateSkipped
	case !approved:
		g.Code = reason.ScoreTooLow
	}
	k.gate(g)
}

func (k *kept) deleteGate(o outcome) {
	t := &reason.DeleteTrial{Fits: o.ok() && len(o.claims) == 0, Pods: o.failed}
	k.out.Delete = t
	g := reason.Gate{Name: reason.GateDelete, Count: len(k.n.moving), Objects: missed(o.failed)}
	if !t.Fits {
		// Only a fact: a replacement may do.
		g.Code, g.State = reason.PodsWouldNotFit, reason.GateOpen
		for i := range o.claims {
			g.Objects = append(g.Objects, k.onlyNew(&o.claims[i])...)
		}
	}
	k.gate(g)
}

// onlyNew names the node's pods for which a new claim would be needed.
func (k *kept) onlyNew(c *plan.Claim) []string {
	var out []string
	for _, p := range k.n.moving {
		if slices.Contains(c.Pods, p.UID) {
			out = append(out, p.Namespace+"/"+p.Name)
			k.out.Delete.Pods = append(k.out.Delete.Pods, reason.PodMiss{Pod: objectOf(p), Code: reason.PodsWouldNotFit})
		}
	}
	return out
}

func (k *kept) replaceGate(o outcome, c plan.Command, no verdict) {
	g := reason.Gate{Name: reason.GateReplace, Count: len(o.claims)}
	spot := reason.Gate{Name: reason.GateSpot, State: reason.GateSkipped}
	if o.ok() && len(o.claims) == 0 {
		g.State = reason.GateSkipped
		k.gate(g)
		k.gate(spot)
		return
	}
	if o.ok() {
		k.out.Replace = k.trial(o, c, no)
	}
	switch no.code {
	case reason.SpotToSpotOff, reason.SpotFlexibility:
		spot = reason.Gate{Name: reason.GateSpot, Code: no.code, Count: no.found}
	case reason.NoCheaperReplacement:
		if g.Code = no.code; len(o.claims) > 1 {
			g.Code, g.Detail = reason.NeedsMoreThanOneNode, strconv.Itoa(len(o.claims))
		}
	default:
		g.Code = no.code
		if no.code == reason.PodsWouldNotFit {
			g.Objects = missed(o.failed)
		}
	}
	k.gate(g)
	k.gate(spot)
}

// trial describes what would take the node's place, also when it is not good enough.
func (k *kept) trial(o outcome, c plan.Command, no verdict) *reason.ReplaceTrial {
	t := &reason.ReplaceTrial{Nodes: len(o.claims)}
	sum := units.Money(0)
	for i := range o.claims {
		claim := &o.claims[i]
		options := optionsOf(k.q.d.pools[claim.Pool].Catalog, claim)
		t.Fitting += len(options)
		for _, x := range options {
			if x.worst < k.n.price {
				t.Types = append(t.Types, x.name)
			}
		}
		sum += claim.Price
		t.CapacityType = claim.CheapestBuyAs
	}
	if len(c.Replacements) == len(o.claims) && no.code == "" {
		sum = priceOfClaims(c.Replacements)
		t.Types, t.CapacityType = c.Replacements[0].Types, c.Replacements[0].CheapestBuyAs
	}
	if t.Cheapest, t.Saving = sum, k.n.price-sum; k.n.buyAs == catalog.Spot && len(o.claims) == 1 {
		t.Wanted = spotTypes
	}
	return t
}

// conclude picks the first closed gate. A node that no gate keeps goes, now or after others.
func (k *kept) conclude() {
	end := reason.Gate{Name: reason.GateOpportunities, State: reason.GateSkipped}
	first := slices.IndexFunc(k.out.Gates, func(g reason.Gate) bool { return g.State == reason.GateClosed || g.State == reason.GateUnknown })
	if first >= 0 {
		g := k.out.Gates[first]
		k.out.Code, k.out.Detail, k.out.Until = g.Code, g.Detail, g.Until
		if k.searched(first) && k.q.goes(k.n, k.out.Reason) {
			// What a node cannot do alone it may do with others.
			k.out.Code, k.out.Detail, k.out.Until = reason.WillGo, "", time.Time{}
			end = reason.Gate{Name: reason.GateOpportunities}
		}
		k.gate(end)
		return
	}
	k.out.Code = reason.WillGo
	if end.State = reason.GateOpen; !k.q.goes(k.n, k.out.Reason) {
		k.out.Code = reason.InQueue
		if k.q.nearOptimal(k.out.Reason) {
			k.out.Code = reason.NearOptimal
		}
		end.State, end.Code = reason.GateClosed, k.out.Code
	}
	k.gate(end)
}

// searched tells that the first closed gate is one that the search over sets of nodes can get round.
func (k *kept) searched(first int) bool {
	return k.out.Reason == plan.MultiNode.Reason() && slices.Contains([]reason.GateName{reason.GateDelete, reason.GateReplace, reason.GateSpot,
		reason.GateScore}, k.out.Gates[first].Name)
}

// goes reports whether a node is in a command that would be started now for the reason.
func (q *Inquiry) goes(n *node, why string) bool {
	d := q.plan(why)
	for i := range d.Commands {
		if slices.ContainsFunc(d.Commands[i].Candidates, func(c plan.Candidate) bool { return c.ClaimUID == n.Claim.UID && c.Claim == n.Claim.Name }) {
			return d.Commands[i].Method.Reason() == why
		}
	}
	return false
}

func (q *Inquiry) plan(why string) plan.Disruption {
	d, ok := q.planned[why]
	if !ok {
		o := q.opts
		for _, m := range plan.Methods() {
			if m.Reason() != why {
				o.Skip = append(slices.Clone(o.Skip), m)
			}
		}
		d = Decide(q.d.s, o)
		q.planned[why] = d
	}
	return d
}

func (q *Inquiry) nearOptimal(why string) bool { return q.plan(why).NearOptimal }
