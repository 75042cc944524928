package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

// Show selects what Render writes of a claim beyond its pods, types and the requirements that narrow it.
type Show struct {
	Requests, Labels, Price, Template bool
	// Count joins claims that look the same.
	Count bool
}

// Render writes a plan as lines: claims in order, placements by node, then the pods that were not placed.
func Render(s *cluster.Snapshot, p plan.Plan, show Show) string {
	r := renderer{names: map[string]string{}, show: show}
	for _, pod := range s.Pods {
		r.names[pod.UID] = pod.Name
	}
	for _, c := range p.Claims {
		r.claim(c)
	}
	if show.Count {
		r.fold()
	}
	r.placements(p.Placements)
	r.verdicts(p.Verdicts)
	for _, v := range p.Pools {
		r.linef("pool %s: %s", v.Pool, strings.TrimSpace(string(v.Code)+" "+shortKeys(v.Detail)))
	}
	r.buffers(s, p)
	if p.Cut {
		r.linef("cut")
	}
	if r.b.Len() == 0 {
		return "nothing\n"
	}
	return r.b.String()
}

type renderer struct {
	b     strings.Builder
	names map[string]string
	show  Show
}

func (r *renderer) linef(format string, args ...any) { fmt.Fprintf(&r.b, format+"\n", args...) }

// fold replaces equal lines that follow each other by one with their number.
func (r *renderer) fold() {
	lines := slices.Collect(strings.Lines(r.b.String()))
	r.b.Reset()
	for len(lines) > 0 {
		n := slices.IndexFunc(lines, func(l string) bool { return l != lines[0] })
		if n < 0 {
			n = len(lines)
		}
		fmt.Fprintf(&r.b, "%d x %s", n, lines[0])
		lines = lines[n:]
	}
}

// pods lists names, with equal stems folded: "web x3".
func (r *renderer) pods(uids []string) string {
	count := map[string]int{}
	var order []string
	for _, uid := range uids {
		stem := r.names[uid]
		if before, after, ok := cutLast(stem, "-"); ok && strings.Trim(after, "0123456789") == "" {
			stem = before
		}
		if count[stem]++; count[stem] == 1 {
			order = append(order, stem)
		}
	}
	slices.Sort(order)
	for i, stem := range order {
		if n := count[stem]; n > 1 {
			order[i] = fmt.Sprintf("%s x%d", stem, n)
		}
	}
	return strings.Join(order, ", ")
}

func (r *renderer) claim(c plan.Claim) {
	parts := []string{r.pods(c.Pods), types(c.Types)}
	if reqs := narrowing(c.Requirements); reqs != "" {
		parts = append(parts, reqs)
	}
	if r.show.Requests {
		parts = append(parts, requests(c.Requests))
	}
	if r.show.Price {
		parts = append(parts, fmt.Sprintf("$%s %s %s %s", c.Price.Decimal(), c.CheapestType, c.CheapestZone, c.CheapestBuyAs))
	}
	if r.show.Labels {
		parts = append(parts, "labels "+pairs(c.Labels), "annotations "+pairs(c.Annotations))
	}
	if r.show.Template {
		parts = append(parts, fmt.Sprintf("taints %v startup %v expire %s", c.Taints, c.StartupTaints, c.ExpireAfter))
		if c.TerminationGracePeriod != "" {
			parts = append(parts, "grace "+c.TerminationGracePeriod)
		}
	}
	if c.Annotations["karpenter.sh/nodeclaim-min-values-relaxed"] == "true" {
		parts = append(parts, "relaxed")
	}
	r.linef("claim %s: %s", c.Pool, strings.Join(parts, "; "))
}

func types(ts []string) string {
	if len(ts) > 8 {
		return fmt.Sprintf("%s, %s ... %s (%d)", ts[0], ts[1], ts[len(ts)-1], len(ts))
	}
	return strings.Join(ts, " ")
}

// narrowing shows the requirements other than the ones that every claim has.
func narrowing(es []constraint.Expr) string {
	var out []string
	for _, e := range es {
		switch {
		case e.Key == constraint.NodePoolKey, e.Key == "karpenter.k8s.aws/ec2nodeclass",
			e.Key == constraint.InstanceTypeKey && e.MinValues == 0,
			e.Key == constraint.CapacityTypeKey && len(e.Values) == 2 && e.MinValues == 0:
			continue
		case e.Key == constraint.InstanceTypeKey:
			e.Values = nil
		}
		s := strings.TrimSpace(shortKeys(e.Key) + " " + string(e.Operator) + " " + strings.Join(e.Values, ","))
		if e.MinValues > 0 {
			s += fmt.Sprintf(" min %d", e.MinValues)
		}
		out = append(out, s)
	}
	return strings.Join(out, " & ")
}

func shortKeys(s string) string {
	for _, k := range []string{"zone", "host", "ct", "arch", "os", "type", "region", "nodepool", "fam", "gen", "cpuL", "memL", "gpuC", "size", "resv"} {
		s = strings.ReplaceAll(s, Key(k), k)
	}
	return s
}

func requests(l units.List) string {
	var out []string
	for _, k := range l.Names() {
		v := fmt.Sprint(l[k])
		switch {
		case k == units.CPU:
			v += "m"
		case k == units.Memory && l[k]%(1<<20) == 0:
			v = fmt.Sprintf("%dMi", l[k]>>20)
		}
		out = append(out, k+" "+v)
	}
	return strings.Join(out, " ")
}

func pairs(m map[string]string) string {
	var out []string
	for k, v := range m {
		out = append(out, shortKeys(k)+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

func (r *renderer) placements(ps []plan.Placement) {
	by := map[string][]string{}
	for _, p := range ps {
		by[cmp.Or(p.Node, p.Claim)] = append(by[cmp.Or(p.Node, p.Claim)], p.Pod)
	}
	var names []string
	for n := range by {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		r.linef("on %s: %s", n, r.pods(by[n]))
	}
}

func (r *renderer) verdicts(vs []plan.Verdict) {
	by := map[string][]string{}
	for _, v := range vs {
		head := "unsched"
		if v.Ignored {
			head = "ignored"
		}
		if v.Silent {
			head += " silently"
		}
		key := strings.TrimSpace(fmt.Sprintf("%s %%s: %s %s", head, v.Code, shortKeys(v.Detail)))
		by[key] = append(by[key], v.Pod)
	}
	var lines []string
	for k, uids := range by {
		lines = append(lines, strings.Replace(k, "%s", r.pods(uids), 1))
	}
	slices.Sort(lines)
	for _, l := range lines {
		r.linef("%s", l)
	}
}
