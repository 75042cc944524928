package scenario_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// whyPendingCommand asks about one pod and prints the whole answer as data:
//
//	why-pending pod=NS/NAME [assume=(key=value,...)] [pool=NAME] [no-events]
func whyPendingCommand(t *testing.T, w *world, d *datadriven.TestData) string {
	return dump(answerTo(t, w, d))
}

func answerTo(t *testing.T, w *world, d *datadriven.TestData) reason.Pending {
	t.Helper()
	if w.snapshot == nil {
		d.Fatalf(t, "there is no cluster yet")
	}
	var name, pool string
	d.ScanArgs(t, "pod", &name)
	q := explain.Question{Pod: podNamed(t, w.snapshot, name)}
	if d.MaybeScanArgs(t, "pool", &pool) {
		q.Pools = []string{pool}
	}
	for _, arg := range d.CmdArgs {
		if arg.Key == "assume" {
			q.Assume = map[string]string{}
			for _, v := range arg.Vals {
				k, value, _ := strings.Cut(v, "=")
				q.Assume[k] = value
			}
		}
	}
	return explain.WhyPending(w.snapshot, engine.Policy{}, w.facts, q)
}

func podNamed(t *testing.T, s *cluster.Snapshot, name string) *cluster.Pod {
	t.Helper()
	for _, p := range s.Pods {
		if p.Namespace+"/"+p.Name == name {
			return p
		}
	}
	t.Fatalf("there is no pod %s", name)
	return nil
}

// dump writes an answer line by line. It leaves nothing out that a report could show.
func dump(a reason.Pending) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	code := string(a.Code)
	if a.Sub != "" {
		code += "." + string(a.Sub)
	}
	line("%s: %s, %s, %s, blocked %t", a.Pod, code, a.Layer, a.Certainty, a.Blocked)
	if !a.Since.IsZero() {
		line("pending for %s", a.At.Sub(a.Since))
	}
	if a.Owner.Name != "" {
		line("owner %s %s", a.Owner.Kind, a.Owner.Name)
	}
	dumpRequest(line, a)
	dumpComing(line, a)
	if a.Nearest != "" {
		line("nearest %s", a.Nearest)
	}
	for _, p := range a.CloudClosed {
		line("closed by the cloud %s", p)
	}
	if x := a.Attempts; x != nil {
		line("attempts in %s: %d with %d claims, %s to %s, %s %v", x.Pool, x.Count, x.Claims, clock(x.First), clock(x.Last), x.Reason, x.What)
	}
	for _, r := range a.Records {
		line("record %s %s: %s %q", r.Object.Kind, r.Object, r.Reason, r.Message)
	}
	for i := range a.Pools {
		dumpPool(line, &a.Pools[i])
	}
	for i, f := range a.Fixes {
		line("fix %d %s", i+1, fixText(f))
	}
	for _, x := range a.Dropped {
		line("dropped %s", x)
	}
	for _, u := range a.Unknown {
		line("unknown %s", u)
	}
	return b.String()
}

type printer func(format string, args ...any)

func dumpRequest(line printer, a reason.Pending) {
	if len(a.Request.Gates) > 0 {
		line("gates %v", a.Request.Gates)
	}
	if a.Request.Problem != "" {
		line("problem %s %s %s %q", a.Request.Key, a.Request.Claim, a.Request.Problem, a.Request.ProblemDetail)
	}
	if a.WhenReleased != nil {
		line("when released: %s", purchaseText(*a.WhenReleased))
	}
	if a.RoomOn != "" {
		line("room on %s", a.RoomOn)
	}
}

func dumpComing(line printer, a reason.Pending) {
	c := a.Coming
	if c == nil {
		return
	}
	line("coming claim=%s node=%s pool=%s %s %s %s %s", c.Claim, c.Node, c.Pool, c.Type, c.Zone, c.CapacityType, c.Price.PerHour())
	since := func(what string, t time.Time) {
		if !t.IsZero() {
			line("  %s %s, %s ago", what, t.UTC().Format(time.TimeOnly), a.At.Sub(t))
		}
	}
	since("created", c.Created)
	since("launched", c.Launched)
	since("registered", c.Registered)
	if !c.RegisterBy.IsZero() {
		line("  register by %s", c.RegisterBy.UTC().Format(time.TimeOnly))
	}
	if !c.ExpiresAt.IsZero() {
		line("  expires in %dd", int(c.ExpiresAt.Sub(a.At).Hours()/24))
	}
	if c.Problem != "" {
		line("  problem %s %q", c.Problem, c.ProblemDetail)
	}
	for _, t := range c.Taints {
		line("  taint %s", t)
	}
	for _, f := range c.Failing {
		line("  failing %s %s, %d restarts, owner %s", f.Pod, f.Reason, f.Restarts, f.Owner)
	}
}

func dumpPool(line printer, p *reason.PoolAnswer) {
	line("pool %s: %s, %s, %s, weight %d, order %d", p.Pool, p.Code, p.Layer, p.Certainty, p.Weight, p.Order)
	for _, f := range p.Funnel {
		line("  funnel %-20s %3d types %3d offerings  %s", f.Code, f.Types, f.Offerings, f.Detail)
	}
	for _, x := range p.Constraints {
		line("  %s %s %s: pod wants %q, pool has %q", x.Kind, x.Code, x.Key, x.PodWants, x.PoolHas)
		if x.Unknown {
			line("    nothing has it, nearest %v", x.Near)
		}
	}
	for _, r := range p.Resources {
		line("  resource %s: wants %s, best %s on %s, short %s; on %d of %d types", r.Name, amount(r.Name, r.Wants), amount(r.Name, r.Best), r.BestType,
			amount(r.Name, r.Short), r.Having, r.Types)
		b := r.Breakdown
		n := func(v int64) string { return amount(r.Name, v) }
		line("    %s - %s (%d ppm) - %s - %s - %s = %s; - %s = %s; live %d", n(b.Raw), n(b.VMOverhead), b.VMOverheadPPM, n(b.KubeReserved), n(b.SystemReserved),
			n(b.Eviction), n(b.Allocatable), n(b.DaemonSets), n(b.Left), b.LiveNodes)
		for _, d := range b.Daemons {
			line("    daemon %s/%s %s", d.Namespace, d.Name, n(d.Amount))
		}
	}
	for _, o := range p.Offerings {
		line("  closed %s %s %s %s until %s", o.Type, o.Zone, o.CapacityType, o.Reason, clock(o.Until))
	}
	for _, o := range p.NotSold {
		line("  not sold %s %s", o.Type, o.Zone)
	}
	dumpPoolState(line, p)
	if p.Distance.Reachable {
		line("  distance %d conditions, kind %d, gap %.1f %%, %s", p.Distance.Conditions, p.Distance.Kind, p.Distance.Gap*100, p.Distance.Price.PerHour())
	}
	for _, s := range p.Sets {
		parts := make([]string, 0, len(s))
		for _, ch := range s {
			parts = append(parts, changeText(ch))
		}
		line("  set %s", strings.Join(parts, " + "))
	}
}

func dumpPoolState(line printer, p *reason.PoolAnswer) {
	for _, l := range p.Limits {
		line("  limit %s: %s of %s used, %s left, needs %s (%s)", l.Resource, amount(l.Resource, l.Used), amount(l.Resource, l.Limit),
			amount(l.Resource, l.Left), amount(l.Resource, l.Needs), l.NeedsType)
		for _, r := range slices.Sorted(maps.Keys(l.Short)) {
			line("    within the limit %s is short by %s %s", l.WithinType, amount(r, l.Short[r]), r)
		}
	}
	if s := p.Spread; s != nil {
		line("  spread %s maxSkew %d, minimum %d", s.Key, s.MaxSkew, s.Minimum)
		for _, d := range s.Domains {
			line("    %s: %d, skew %d, pool allows %t, room on nodes %t", d.Domain, d.Count, d.Skew, d.PoolAllows, d.RoomOnNodes)
		}
	}
	if s := p.Affinity; s != nil {
		line("  %s over %s, %s %v", s.Kind, s.Key, s.Selector, s.Keepers)
		for _, d := range s.Domains {
			line("    %s: %d, allowed %t, pool allows %t, room on nodes %t", d.Domain, d.Count, s.Allows(d), d.PoolAllows, d.RoomOnNodes)
		}
	}
	for _, v := range p.Volumes {
		line("  volume %s (%s) in %v, pool in %v", v.Claim, v.PV, v.Values, v.PoolValues)
	}
	if r := p.Ready; r != nil {
		for _, l := range r.Chain {
			line("  not ready %s %s: %s %s %q since %s", l.Object.Kind, l.Object.Name, l.Type, l.Reason, l.Message, clock(l.Since))
		}
		line("  subnets %d, selector %s", r.Subnets, r.SubnetSelector)
		if r.ClassDeleting {
			line("  the class is being deleted, %d claims", r.ClassClaims)
		}
	}
	if s := p.Static; s != nil {
		line("  static %d replicas, %d nodes, %d full, gate off %t", s.Replicas, s.Nodes, s.Full, s.GateOff)
	}
}

func fixText(f reason.Fix) string {
	parts := make([]string, 0, len(f.Changes))
	for _, ch := range f.Changes {
		parts = append(parts, changeText(ch))
	}
	out := fmt.Sprintf("%s (%s): %s", f.Owner, f.Pool, strings.Join(parts, " + "))
	switch {
	case !f.Verified:
		out += " -> untested"
	case f.Effect.Launch != nil:
		out += fmt.Sprintf(" -> %s, %d drift", purchaseText(*f.Effect.Launch), f.Effect.Drift)
	default:
		out += fmt.Sprintf(" -> on node %s, %d drift", f.Effect.Node, f.Effect.Drift)
	}
	for _, ch := range f.Changes {
		if ch.Limit != "" {
			out += ", because of the limit on " + ch.Limit
		}
	}
	if f.LosesGuarantee {
		out += ", loses the guarantee"
	}
	if f.MayBeInterrupted {
		out += ", may be interrupted"
	}
	if f.Repeats {
		out += ", will repeat"
	}
	return out
}

func changeText(ch reason.Change) string {
	out := fmt.Sprintf("%s %s", ch.Action, ch.Object.Name)
	switch ch.Action {
	case reason.LowerRequest, reason.RaiseLimit:
		return fmt.Sprintf("%s %s %s -> %s", out, ch.Key, amount(ch.Key, ch.Was), amount(ch.Key, ch.Amount))
	case reason.WaitUntil:
		return fmt.Sprintf("%s%s (%s) until %s", ch.Action, " "+ch.Key, ch.From, clock(ch.Until))
	default: // told by its key, below
	}
	out += " " + ch.Key
	if ch.From != "" {
		out += " from " + ch.From
	}
	if ch.To != "" {
		out += " to " + ch.To
	}
	if ch.Effect != "" {
		out += ":" + ch.Effect
	}
	if len(ch.Others) > 0 {
		out += fmt.Sprintf(" (or %v)", ch.Others)
	}
	return out
}

func purchaseText(p reason.Purchase) string {
	return fmt.Sprintf("%s %s %s in %s, %s", p.Type, p.CapacityType, p.Price.PerHour(), p.Zone, p.Pool)
}

// amount writes an amount as people do: millicores, mebibytes.
func amount(resource string, v int64) string {
	switch resource {
	case units.CPU:
		return fmt.Sprintf("%dm", v)
	case units.Memory, units.EphemeralStorage:
		if v%(1<<20) == 0 {
			return fmt.Sprintf("%dMi", v>>20)
		}
	}
	return fmt.Sprint(v)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format(time.TimeOnly)
}
