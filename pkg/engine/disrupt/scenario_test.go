package disrupt_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/disrupt"
	"github.com/karp-sh/karp/pkg/engine/scenario"
	"github.com/karp-sh/karp/pkg/plan"
)

// TestScenarios runs the conversations in testdata, one file a part of section 32 of the disruption specification. The fixture is that of the
// specification: types f, pool P with on-demand capacity and no limits. The commands:
//
//	pass      one decision on the cluster described
//	again     more lines, and another decision
//	carry     the commands of the last decision are carried out (nodes gone, new ones up with their pods), more lines, another decision
//	settle    carry until nothing is left to do; prints every decision
//	recheck   more lines, and the last decision's commands validated
//	why NODE [REASON]   gates that are not open
//	heal      what self-healing removes
//	order     the candidates' costs, best first
//
// With events a decision also prints its objections, with pool its budgets that block, with scores what Balanced pools judged.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "scenarios"), func(t *testing.T, path string) {
		r := &run{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "pass" {
				*r = run{world: scenario.New()}
				r.prepare(t, d)
			}
			if d.Cmd == "carry" || d.Cmd == "settle" {
				if d.Cmd == "settle" {
					return r.settle(t, d)
				}
				r.carry(t, d)
			}
			r.apply(t, d, d.Input)
			switch d.Cmd {
			case "pass", "again", "carry":
				return r.decide(t, d)
			case "recheck":
				return r.recheck(d)
			case "why":
				return r.why(t, d)
			case "heal":
				return r.heal()
			}
			d.Fatalf(t, "command %q does not exist", d.Cmd)
			return ""
		})
	})
}

type run struct {
	world    *scenario.World
	snapshot *cluster.Snapshot
	last     plan.Disruption
	serial   int
	turn     int
}

// prepare sets up the fixture. Arguments of the command change it: types=S, alone (without P), and settings.
func (r *run) prepare(t *testing.T, d *datadriven.TestData) {
	types := "F"
	if d.HasArg("types") {
		types = argument(d, "types")[0]
	}
	lines := "catalog " + types + ":\n"
	for _, s := range []string{"ignore-preferences", "best-effort", "spot-to-spot", "no-reservations"} {
		if d.HasArg(s) {
			lines += "setting " + s + ":\n"
		}
	}
	r.apply(t, d, lines)
	if !strings.Contains(d.Input, "pool P:") && !d.HasArg("alone") {
		r.apply(t, d, "pool P: req ct In on-demand")
	}
}

func argument(d *datadriven.TestData, key string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func (r *run) apply(t *testing.T, d *datadriven.TestData, text string) {
	if err := r.world.Apply(text); err != nil {
		d.Fatalf(t, "%v", err)
	}
}

func (r *run) options(d *datadriven.TestData) disrupt.Options {
	o := disrupt.Options{Turn: r.turn, Resting: argument(d, "resting")}
	if from := argument(d, "from"); from != nil {
		o.From = plan.Method(from[0])
	}
	return o
}

func (r *run) decide(t *testing.T, d *datadriven.TestData) string {
	r.snapshot = r.world.Snapshot()
	r.last = disrupt.Decide(r.snapshot, r.options(d))
	if diff := gocmp.Diff(r.last, disrupt.Decide(r.world.Snapshot(), r.options(d))); diff != "" {
		t.Errorf("%s: deciding twice (-first +second):\n%s\ninput:\n%s", d.Pos, diff, d.Input)
	}
	r.promises(t, d)
	return r.render(d)
}

// promises are the invariants of every decision (rules 31).
func (r *run) promises(t *testing.T, d *datadriven.TestData) {
	seen := map[string]bool{}
	for i := range r.last.Commands {
		c := &r.last.Commands[i]
		for _, x := range c.Candidates {
			if seen[x.Claim] {
				t.Errorf("%s: node %s is in two commands", d.Pos, x.Node)
			}
			seen[x.Claim] = true
		}
		if c.Method.Consolidates() && len(c.Replacements) > 0 && c.Saving*50 < c.Price {
			t.Errorf("%s: command of %s saves %s of %s, less than 2 %%", d.Pos, c.Candidates[0].Node, c.Saving.Decimal(), c.Price.Decimal())
		}
	}
	for _, c := range disrupt.Recheck(r.snapshot, r.last.Commands...) {
		if !c.OK {
			t.Errorf("%s: a command does not hold in its own snapshot: %s %v", d.Pos, c.Cause, c.Dropped)
		}
	}
}

func (r *run) render(d *datadriven.TestData) string {
	var b strings.Builder
	for i := range r.last.Commands {
		b.WriteString(show(&r.last.Commands[i]) + "\n")
	}
	if d.HasArg("events") {
		for _, o := range r.last.Objections {
			fmt.Fprintf(&b, "%s %s: %s\n", cmp.Or(o.Event, "-"), cmp.Or(o.Node, o.Claim), strings.TrimSpace(string(o.Code)+" "+o.Detail))
		}
		for _, p := range r.last.Malformed {
			fmt.Fprintf(&b, "malformed %s\n", p.Pool)
		}
	}
	if d.HasArg("pool") {
		for _, p := range r.last.Pools {
			fmt.Fprintf(&b, "%s %s: %d nodes, %d allowed, %d disrupting, blocked %v\n", p.Pool, p.Reason, p.Nodes, p.Allowed, p.Disrupting, p.Blocked())
		}
	}
	if d.HasArg("eligible") {
		for _, e := range r.last.Eligible {
			fmt.Fprintf(&b, "eligible %s %d\n", e.Method, e.Nodes)
		}
	}
	if d.HasArg("memo") {
		fmt.Fprintf(&b, "exhausted %v\n", r.last.Exhausted)
	}
	if d.HasArg("scores") {
		for _, m := range r.last.Scored {
			fmt.Fprintf(&b, "move of %v approved %v", m.Pools, m.Approved)
			for _, s := range m.Scores {
				fmt.Fprintf(&b, "; %s %.4f", s.Pool, s.Value)
			}
			b.WriteString("\n")
		}
	}
	if b.Len() == 0 {
		return "none\n"
	}
	return b.String()
}

// show writes a command as the specification does, with what narrows the replacements.
func show(c *plan.Command) string {
	var names []string
	for _, x := range c.Candidates {
		names = append(names, cmp.Or(x.Node, x.Claim))
	}
	if c.Method != plan.Emptiness {
		slices.Sort(names)
	}
	out := c.Decision() + "[" + strings.Join(names, ",")
	for i := range c.Replacements {
		sep := " + "
		if i == 0 {
			sep = " -> "
		}
		out += sep + types(c.Replacements[i].Types)
	}
	out += "] " + string(c.Method)
	for i := range c.Replacements {
		if s := narrowed(&c.Replacements[i]); s != "" {
			out += "; " + s
		}
	}
	return out
}

func types(list []string) string {
	if len(list) > 8 {
		return fmt.Sprintf("%s...%s (%d)", list[0], list[len(list)-1], len(list))
	}
	return strings.Join(list, ",")
}

func narrowed(c *plan.Claim) string {
	var out []string
	if c.Pool != "P" {
		out = append(out, c.Pool)
	}
	for _, e := range c.Requirements {
		switch {
		case e.Key == constraint.CapacityTypeKey && !slices.Equal(e.Values, []string{"on-demand"}):
			out = append(out, strings.Join(e.Values, ","))
		case e.Key == constraint.ZoneKey, e.Key == constraint.ReservationIDKey:
			out = append(out, strings.Join(e.Values, ","))
		}
	}
	return strings.Join(out, " ")
}

// carry lets the last commands happen.
func (r *run) carry(t *testing.T, d *datadriven.TestData) {
	pods := map[string]*cluster.Pod{}
	for _, p := range r.snapshot.Pods {
		pods[p.UID] = p
	}
	for i := range r.last.Commands {
		c := &r.last.Commands[i]
		to := map[string]string{}
		for _, p := range c.Placements {
			to[p.Pod] = p.Node
		}
		for j := range c.Replacements {
			r.serial++
			name := "r" + strconv.Itoa(r.serial)
			k := &c.Replacements[j]
			line := fmt.Sprintf("node %s: type %s; pool %s; zone %s; ct %s", name, k.CheapestType, k.Pool, k.CheapestZone, k.CheapestBuyAs)
			if k.CheapestType == "" { // from a template
				line = fmt.Sprintf("node %s: type f.s; pool %s; zone z1; ct on-demand", name, k.Pool)
			}
			r.apply(t, d, line)
			for _, uid := range k.Pods {
				to[uid] = name
			}
		}
		for _, x := range c.Candidates {
			r.world.Builder.DeleteNode(x.Node)
			r.world.Builder.DeleteClaim(x.Claim)
		}
		for _, p := range r.snapshot.Pods {
			if node, ok := to[p.UID]; ok {
				moved := *p
				moved.Node = node
				r.world.Builder.SetPod(&moved)
			} else if slices.ContainsFunc(c.Candidates, func(x plan.Candidate) bool { return x.Node == p.Node && p.Node != "" }) {
				r.world.Builder.DeletePod(p.UID)
			}
		}
	}
	r.turn++
}

func (r *run) settle(t *testing.T, d *datadriven.TestData) string {
	var b strings.Builder
	for range 50 {
		r.carry(t, d)
		out := r.decide(t, d)
		b.WriteString(out)
		if len(r.last.Commands) == 0 {
			return b.String()
		}
	}
	d.Fatalf(t, "it does not come to rest:\n%s", b.String())
	return ""
}

func (r *run) recheck(d *datadriven.TestData) string {
	var b strings.Builder
	for _, c := range disrupt.Recheck(r.world.Snapshot(), r.last.Commands...) {
		fmt.Fprintf(&b, "%s", strings.TrimSpace(fmt.Sprintf("%v %s", c.OK, c.Cause)))
		if c.OK {
			b.WriteString(" " + show(&c.Command))
		}
		fmt.Fprintf(&b, ", failed %d\n", c.Failed)
		for _, x := range c.Dropped {
			fmt.Fprintf(&b, "  %s: %s\n", x.Candidate.Node, strings.TrimSpace(string(x.Code)+" "+x.Detail))
		}
	}
	return b.String()
}

func (r *run) why(t *testing.T, d *datadriven.TestData) string {
	reason := ""
	if len(d.CmdArgs) > 1 {
		reason = d.CmdArgs[1].Key
	}
	k, ok := disrupt.Inquire(r.world.Snapshot(), r.options(d)).Why(d.CmdArgs[0].Key, reason)
	if !ok {
		return "no such node\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", k.Reason, k.Code, k.Detail)
	if !k.Until.IsZero() {
		fmt.Fprintf(&b, " for %s", k.Until.Sub(k.At).Round(time.Second))
	}
	b.WriteString("\n")
	for _, g := range k.Gates {
		if g.State != "open" && g.State != "skipped" {
			fmt.Fprintf(&b, "  %s %s %s\n", g.Name, g.State, strings.TrimSpace(string(g.Code)+" "+g.Detail+" "+strings.Join(g.Objects, " ")))
		}
	}
	if x := k.Replace; x != nil {
		fmt.Fprintf(&b, "  replace: %d nodes, %d types cheaper of %d, saving %s\n", x.Nodes, len(x.Types), x.Fitting, x.Saving.Decimal())
	}
	return b.String()
}

func (r *run) heal() string {
	var b strings.Builder
	for _, a := range disrupt.Heal(r.world.Snapshot()) {
		fmt.Fprintf(&b, "%s: taint %v, condition %v\n", a.Node, a.Taint, a.Condition)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}
