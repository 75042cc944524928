package disrupt

import (
	"slices"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
)

// Cause is why a command does not hold any more, as events and metrics name it (rules 16).
type Cause string

// The causes.
const (
	// Churn: a node is no candidate any more.
	Churn Cause = "churn"
	// Budget: a node has been nominated, or its pool's budget is used up.
	Budget Cause = "budget"
	// Scheduling: the pods would not find their places, or something better has become possible.
	Scheduling Cause = "scheduling"
)

// Checked is what became of a command in a newer snapshot.
type Checked struct {
	// Command is what is left of it: all of it, or of a command that only deletes empty nodes those that still may go.
	Command plan.Command
	// OK tells that it may be started; otherwise Cause says why not.
	OK    bool
	Cause Cause
	// Failed is by how much failed_validations_total grows.
	Failed int
	// Dropped are the nodes that are not part of the command any more, or that made it fail.
	Dropped []Drop
}

// Drop is a node that a check has taken out.
type Drop struct {
	Candidate plan.Candidate
	Cause     Cause
	Code      reason.Code
	Detail    string
}

// Recheck validates commands that were decided together against a newer snapshot, in their order: each finds the cluster as those before it will
// leave it (rules 16). Commands of drift are not validated.
func Recheck(s *cluster.Snapshot, commands ...plan.Command) []Checked {
	var steps int64
	v := look(s, &steps)
	purses := map[string]purse{}
	out := make([]Checked, len(commands))
	for i, c := range commands {
		why := c.Method.Reason()
		if purses[why] == nil {
			purses[why] = v.purse(why)
		}
		switch {
		case c.Method == plan.Emptiness:
			out[i] = v.recheckEmpty(c, purses[why])
		case c.Method.Consolidates():
			out[i] = v.recheckMove(c, purses[why])
		default:
			out[i] = Checked{Command: c, OK: true}
		}
	}
	return out
}

// find returns the node of a candidate, if it is still the same.
func (v *survey) find(c *plan.Candidate) *node {
	for _, n := range v.nodes {
		if n.Claim.Name == c.Claim && n.Claim.UID == c.ClaimUID {
			return n
		}
	}
	return nil
}

// fresh returns the node of a candidate if it would still be one of the method.
func (v *survey) fresh(c *plan.Candidate, m plan.Method) (*node, Drop) {
	d := Drop{Candidate: *c, Cause: Churn}
	n := v.find(c)
	if n == nil {
		d.Code = reason.TargetGone
		return nil, d
	}
	x, ok := n.candidate(m.Eventual())
	if ok {
		x = n.refusal(m)
	}
	if x == nil {
		return n, Drop{}
	}
	d.Code, d.Detail = x.code, x.detail
	return nil, d
}

// recheckEmpty keeps the nodes that are still empty and within budget.
func (v *survey) recheckEmpty(c plan.Command, p purse) Checked {
	out := Checked{Command: c}
	var kept []*node
	planned := len(c.Candidates)
	for i := range c.Candidates {
		n, d := v.fresh(&c.Candidates[i], c.Method)
		if n == nil {
			out.Dropped = append(out.Dropped, d)
			continue
		}
		kept = append(kept, n)
	}
	out.Command.Candidates, out.Command.Price = nil, 0
	if len(kept) == 0 {
		out.Cause, out.Failed = Churn, planned
		return out
	}
	for _, n := range kept {
		if !p.spend(n.pool.Name) {
			out.Dropped = append(out.Dropped, Drop{Candidate: v.asCandidate(n), Cause: Budget, Code: reason.NoBudget})
			out.Failed++
			continue
		}
		out.Command.Candidates = append(out.Command.Candidates, v.asCandidate(n))
		out.Command.Price += n.price
	}
	out.Command.Saving = out.Command.Price
	if out.OK = len(out.Command.Candidates) > 0; !out.OK {
		out.Cause = Budget
	}
	return out
}

// recheckMove validates a command of consolidation: all or nothing.
func (v *survey) recheckMove(c plan.Command, p purse) Checked {
	out := Checked{Command: c}
	fail := func(cause Cause, d ...Drop) Checked {
		out.Cause, out.Dropped = cause, d
		if cause != Scheduling {
			out.Failed = len(c.Candidates)
		}
		return out
	}
	var set []*node
	spent := purse{}
	for i := range c.Candidates {
		n, d := v.fresh(&c.Candidates[i], c.Method)
		if n == nil {
			return fail(Churn, d)
		}
		if spent[n.pool.Name]++; spent[n.pool.Name] > p[n.pool.Name] {
			return fail(Budget, Drop{Candidate: c.Candidates[i], Cause: Budget, Code: reason.NoBudget})
		}
		set = append(set, n)
	}
	o := v.simulate(v.s, set, slices.Concat(v.closed(), c.Avoided))
	if !o.ok() || !holds(c.Replacements, o.claims) {
		return fail(Scheduling)
	}
	for name, n := range spent {
		p[name] -= n
	}
	v.apply(set, o)
	out.OK = true
	return out
}

// holds reports whether the planned claims can be paired with the simulated ones so that each lists only types that its partner has, too.
func holds(planned, simulated []plan.Claim) bool {
	if len(planned) != len(simulated) {
		return false
	}
	taken := make([]bool, len(simulated))
	var pair func(i int) bool
	pair = func(i int) bool {
		if i == len(planned) {
			return true
		}
		for j := range simulated {
			if taken[j] || planned[i].Pool != simulated[j].Pool || !subset(planned[i].Types, simulated[j].Types) {
				continue
			}
			taken[j] = true
			if pair(i + 1) {
				return true
			}
			taken[j] = false
		}
		return false
	}
	return pair(0)
}

func subset(a, b []string) bool {
	return !slices.ContainsFunc(a, func(x string) bool { return !slices.Contains(b, x) })
}

// Preflight is the last look before a command is recorded, on a snapshot that shows the taints of its nodes: each must still be a candidate and
// within budget, by which the nodes that the command itself holds already do not count (rules 21.1). A command that only deletes goes on without
// those that fail, any other does not.
func Preflight(s *cluster.Snapshot, c plan.Command) Checked {
	var steps int64
	v := lookFor(s, c.ID, &steps)
	p := v.purse(c.Method.Reason())
	out := Checked{Command: c}
	out.Command.Candidates = nil
	for i := range c.Candidates {
		x := &c.Candidates[i]
		d := Drop{Candidate: *x, Cause: Churn, Code: reason.TargetGone}
		n := v.find(x)
		if n != nil {
			if o, ok := n.candidate(c.Method.Eventual()); !ok {
				d.Code, d.Detail = o.code, o.detail
				n = nil
			}
		}
		if n != nil && !p.spend(n.pool.Name) {
			d.Cause, d.Code, n = Budget, reason.NoBudget, nil
		}
		if n == nil {
			out.Dropped = append(out.Dropped, d)
			continue
		}
		out.Command.Candidates = append(out.Command.Candidates, *x)
	}
	if len(out.Dropped) > 0 {
		out.Cause = out.Dropped[0].Cause
	}
	out.OK = len(out.Dropped) == 0 || len(c.Replacements) == 0 && len(out.Command.Candidates) > 0
	return out
}
