package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/reason/words"
	"github.com/karp-sh/karp/pkg/units"
)

// PendingOptions are how much of an answer of why-pending is shown.
type PendingOptions struct {
	// Zone is the time zone of all times.
	Zone *time.Location
	// Fixes is the largest number of ways out to list, 0 for all.
	Fixes int
	// Wide shows the funnel of every pool.
	Wide bool
}

// pendingText renders one answer of why-pending.
type pendingText struct {
	a     reason.Pending
	words words.Pending
}

func newPendingText(a reason.Pending, zone *time.Location) pendingText {
	return pendingText{a: a, words: words.Pending{Answer: a, Zone: zone}}
}

// Pending renders an answer of why-pending for people.
func Pending(a reason.Pending, o PendingOptions) Doc {
	t := newPendingText(a, o.Zone)
	d := Doc{Answer: t.words.Sentence(), Facts: t.facts()}
	d.Sections = append(d.Sections, t.evidence()...)
	if len(a.Pools) > 0 {
		d.Sections = append(d.Sections, t.poolTable())
	}
	if o.Wide {
		d.Sections = append(d.Sections, t.funnels()...)
	}
	if len(a.Fixes) > 0 {
		d.Sections = append(d.Sections, t.fixes(o.Fixes))
	}
	return d
}

// funnels are those of all pools.
func (t pendingText) funnels() []Section {
	var out []Section
	for _, p := range t.a.Pools {
		if len(p.Funnel) > 0 {
			out = append(out, funnel(p))
		}
	}
	return out
}

func (t pendingText) facts() []string {
	a := t.a
	var out []string
	if !a.Since.IsZero() {
		out = append(out, "pending "+Duration(a.At.Sub(a.Since)))
	}
	code := string(a.Code)
	if a.Sub != "" {
		code += "." + string(a.Sub)
	}
	out = append(out, "code "+code, "layer "+layerName(a.Layer), string(a.Certainty))
	if a.Owner.Name != "" {
		out = append(out, "pod ← "+a.Owner.Kind+" "+a.Owner.Name)
	}
	return out
}

func layerName(l reason.Layer) string {
	switch l {
	case reason.InstanceType:
		return "instance type"
	case reason.NodePool:
		return "nodepool"
	default:
		return strings.ToLower(l.String())
	}
}

// evidence shows the numbers behind the nearest miss.
func (t pendingText) evidence() []Section {
	var out []Section
	if p := t.words.Nearest(); p != nil {
		out = append(out, t.nearestSections(*p)...)
	}
	if w := t.a.WhenReleased; w != nil {
		out = append(out, Section{Title: "WHEN RELEASED", Notes: []string{purchase(*w) + " in NodePool " + w.Pool}})
	}
	if c := t.a.Coming; c != nil && len(c.Failing) > 0 {
		out = append(out, failing(*c))
	}
	if x := t.a.Attempts; x != nil && x.Message != "" {
		out = append(out, Section{Title: "LAST FAILED LAUNCH", Notes: []string{fmt.Sprintf("%s %s: %s", t.words.Clock(x.Last), x.Reason, x.Message)}})
	}
	if len(t.a.Records) > 0 {
		rows := []Row{}
		for _, r := range t.a.Records {
			rows = append(rows, Row{Cells: []string{t.words.Clock(r.At), r.Object.Kind + " " + r.Object.String(), r.Reason, r.Message}})
		}
		out = append(out, Section{Title: "RECORDS", Table: &Table{Columns: []Column{{Title: "AT"}, {Title: "OBJECT"}, {Title: "REASON"}, {Title: "MESSAGE"}}, Rows: rows}})
	}
	if len(t.a.Dropped) > 0 {
		out = append(out, Section{Title: "GIVEN UP FIRST", Notes: []string{"preferences: " + strings.Join(t.a.Dropped, ", ")}})
	}
	if len(t.a.Unknown) > 0 {
		out = append(out, Section{Title: "NOT KNOWN", Notes: []string{"not or only partly read: " + list(t.a.Unknown) + "; what is missing could change this answer"}})
	}
	return out
}

func (t pendingText) nearestSections(p reason.PoolAnswer) []Section {
	var out []Section
	for i, r := range p.Resources {
		title := ""
		if i == 0 {
			title = "NEAREST MISS"
		}
		out = append(out, Section{Title: title, Subject: p.Pool + " → " + r.BestType, Sums: sums(r)})
		if title == "" {
			out[len(out)-1].Title, out[len(out)-1].Subject = "AND", r.BestType
		}
	}
	if len(p.Funnel) > 2 {
		// With a single check there is nothing to see that the sentence does not say.
		out = append(out, funnel(p))
	}
	if s := limits(p); s != nil {
		out = append(out, *s)
	}
	if len(p.Offerings) > 0 || p.Layer == reason.Offering && len(p.NotSold) > 0 {
		out = append(out, t.offeringTable(p))
	}
	if p.Ready != nil {
		out = append(out, t.readyChain(p))
	}
	if p.Spread != nil {
		out = append(out, spreadTable(*p.Spread))
	}
	if p.Affinity != nil && p.Code == reason.AffinityUnsatisfiable {
		out = append(out, affinityTable(*p.Affinity))
	}
	if len(p.Volumes) > 0 {
		out = append(out, volumeTable(p))
	}
	return out
}

// sums takes the hardware apart until what is left for the pod, and compares.
func sums(r reason.ResourceMiss) []Sum {
	a := func(n int64) string { return Amount(r.Name, n) }
	b := r.Breakdown
	var out []Sum
	minus := func(n int64, label, remark string) {
		if n != 0 {
			out = append(out, Sum{Label: "− " + label, Amount: "−" + a(n), Remark: remark})
		}
	}
	if b.Raw != 0 {
		out = append(out, Sum{Label: "  " + r.BestType + " " + r.Name, Amount: a(b.Raw)})
		minus(b.VMOverhead, fmt.Sprintf("VM overhead (%s)", ppm(b.VMOverheadPPM)), "setting VM_MEMORY_OVERHEAD_PERCENT")
		minus(b.KubeReserved, "kube-reserved", "")
		minus(b.SystemReserved, "system-reserved", "")
		minus(b.Eviction, "eviction threshold", "")
	}
	remark := "computed; no live node of this type shows it"
	if b.LiveNodes > 0 {
		remark = fmt.Sprintf("as on %s of this type", count(b.LiveNodes, "live node"))
	}
	out = append(out, Sum{Label: "= allocatable", Amount: a(b.Allocatable), Remark: remark})
	minus(b.DaemonSets, count(len(b.Daemons), "DaemonSet"), daemons(r.Name, b.Daemons))
	out = append(out, Sum{Label: "= left for your pod", Amount: a(r.Best), Result: true})
	short := "short by " + a(r.Short)
	if r.Wants > 0 {
		short += fmt.Sprintf(" (%s)", Percent(float64(r.Short)/float64(r.Wants)))
	}
	return append(out, Sum{Label: "  your pod asks for", Amount: a(r.Wants), Remark: short, Bad: true})
}

func ppm(n int64) string { return strconv.FormatFloat(float64(n)/10000, 'f', -1, 64) + " %" }

// daemons names the biggest users first.
func daemons(resource string, shares []reason.DaemonShare) string {
	shares = slices.Clone(shares)
	slices.SortStableFunc(shares, func(x, y reason.DaemonShare) int { return int(min(max(y.Amount-x.Amount, -1), 1)) })
	var out []string
	for _, s := range shares {
		if s.Amount > 0 && len(out) < 3 {
			out = append(out, s.Name+" "+Amount(resource, s.Amount))
		}
	}
	return strings.Join(out, ", ")
}

// funnel shows how many types and offerings each check left.
func funnel(p reason.PoolAnswer) Section {
	table := &Table{Columns: []Column{{Title: "AFTER"}, {Title: "TYPES", Right: true}, {Title: "OFFERINGS", Right: true}}}
	for _, c := range p.Funnel {
		name := "the catalogue of " + p.Pool
		if c.Code != "" {
			name = detail(string(c.Code), c.Detail)
		}
		table.Rows = append(table.Rows, Row{Cells: []string{name, strconv.Itoa(c.Types), strconv.Itoa(c.Offerings)}})
	}
	return Section{Title: "FUNNEL", Subject: p.Pool, Table: table}
}

func limits(p reason.PoolAnswer) *Section {
	if len(p.Limits) == 0 {
		return nil
	}
	s := &Section{Title: "LIMITS", Subject: p.Pool}
	for _, l := range p.Limits {
		a := func(n int64) string { return Amount(l.Resource, n) }
		s.Notes = append(s.Notes, fmt.Sprintf("%s: %s of %s used, %s left; the smallest type that fits (%s) adds %s and exceeds it", l.Resource, a(l.Used), a(l.Limit), a(l.Left), l.NeedsType, a(l.Needs)))
		if l.WithinType != "" && len(l.Short) > 0 {
			var shorts []string
			for _, r := range units.List(l.Short).Names() {
				shorts = append(shorts, r+" by "+Amount(r, l.Short[r]))
			}
			s.Notes = append(s.Notes, fmt.Sprintf("types within the limit are too small: %s lacks %s", l.WithinType, strings.Join(shorts, " and ")))
		}
	}
	return s
}

// mostOfferings is how many lines of offerings people read; more are grouped by type, then cut. Reports for programs have them all.
const mostOfferings = 12

func (t pendingText) offeringTable(p reason.PoolAnswer) Section {
	lines := t.offeringLines(p)
	if len(lines) > mostOfferings {
		lines = joinZones(lines)
	}
	s := Section{Title: "OFFERINGS", Subject: fmt.Sprintf("%d of %d allowed are closed", closedCount(p.Offerings), len(p.Offerings))}
	s.Table = &Table{Columns: []Column{{Title: "TYPE"}, {Title: "ZONE"}, {Title: "CAPACITY"}, {Title: "$/h", Right: true}, {Title: "STATE"}}}
	for _, l := range lines[:min(len(lines), mostOfferings)] {
		s.Table.Rows = append(s.Table.Rows, Row{Cells: []string{l.group.instance, zoneList(l.zones), l.group.capacity, l.price(), l.group.state}})
	}
	if more := len(lines) - mostOfferings; more > 0 {
		s.Table.Rows = append(s.Table.Rows, Row{Cells: []string{fmt.Sprintf("… %d more", more)}})
	}
	return s
}

// offeringLine is one offering, or those of one group.
type offeringLine struct {
	group           offeringGroup
	zones           []string
	lowest, highest units.Money
	sold            bool
}

// offeringGroup is what offerings on one line have in common.
type offeringGroup struct{ instance, capacity, state string }

// price is a range where zones differ in it.
func (l offeringLine) price() string {
	switch low, high := dollars(l.lowest), dollars(l.highest); {
	case !l.sold:
		return ""
	case low != high:
		return low + "–" + high
	default:
		return low
	}
}

func (t pendingText) offeringLines(p reason.PoolAnswer) []offeringLine {
	var out []offeringLine
	for _, o := range p.Offerings {
		g := offeringGroup{instance: o.Type, capacity: o.CapacityType, state: t.offeringState(o)}
		out = append(out, offeringLine{group: g, zones: []string{o.Zone}, lowest: o.Price, highest: o.Price, sold: true})
	}
	for _, o := range p.NotSold {
		g := offeringGroup{instance: o.Type, capacity: o.CapacityType, state: "not sold here at all"}
		out = append(out, offeringLine{group: g, zones: []string{o.Zone}})
	}
	return out
}

func (t pendingText) offeringState(o reason.OfferingState) string {
	switch {
	case o.Available:
		return "available"
	case !o.Until.IsZero():
		return nonEmpty(o.Reason, "closed")[0] + ", until " + t.words.Clock(o.Until)
	}
	return nonEmpty(o.Reason, "closed")[0] + ", until unknown"
}

// zoneList spells zones of one region briefly, as in us-east-1a,b,d.
func zoneList(zones []string) string {
	first := zones[0]
	region := first[:max(len(first)-1, 0)]
	text := first
	for _, z := range zones[1:] {
		rest, same := strings.CutPrefix(z, region)
		if !same {
			return strings.Join(zones, ", ")
		}
		text += "," + rest
	}
	return text
}

// joinZones makes one line of the offerings that differ in nothing but zone and price, where the first of them stood.
func joinZones(lines []offeringLine) []offeringLine {
	var out []offeringLine
	at := map[offeringGroup]int{}
	for _, l := range lines {
		i, ok := at[l.group]
		if !ok {
			at[l.group] = len(out)
			out = append(out, l)
			continue
		}
		g := &out[i]
		g.zones = append(g.zones, l.zones...)
		g.lowest, g.highest = min(g.lowest, l.lowest), max(g.highest, l.highest)
	}
	return out
}

func closedCount(offerings []reason.OfferingState) int {
	n := 0
	for _, o := range offerings {
		if !o.Available {
			n++
		}
	}
	return n
}

func dollars(m units.Money) string { return strconv.FormatFloat(m.Dollars(), 'f', 3, 64) }

func (t pendingText) readyChain(p reason.PoolAnswer) Section {
	s := Section{Title: "NOT READY"}
	for i, l := range p.Ready.Chain {
		if p.Ready.ClassDeleting && i == len(p.Ready.Chain)-1 {
			s.Notes = append(s.Notes, fmt.Sprintf("%s %s: is being deleted; NodeClaims of it: %d", l.Object.Kind, l.Object.Name, p.Ready.ClassClaims))
			continue
		}
		text := fmt.Sprintf("%s %s: %s=False, reason %s", l.Object.Kind, l.Object.Name, l.Type, l.Reason)
		if l.Message != "" {
			text += fmt.Sprintf(" (%q)", l.Message)
		}
		s.Notes = append(s.Notes, text)
	}
	if p.Ready.SubnetSelector != "" && p.Ready.Subnets == 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("subnet selector %s finds %s", p.Ready.SubnetSelector, count(p.Ready.Subnets, "subnet")))
	}
	return s
}

func spreadTable(s reason.SpreadState) Section {
	table := &Table{Columns: []Column{{Title: "DOMAIN"}, {Title: "PODS", Right: true}, {Title: "SKEW AFTER", Right: true}, {Title: "ROOM ON NODES"}, {Title: "POOL MAY LAUNCH"}}}
	for _, d := range s.Domains {
		cells := []string{d.Domain, strconv.Itoa(d.Count), strconv.Itoa(d.Skew), yesNo(d.RoomOnNodes), yesNo(d.PoolAllows)}
		table.Rows = append(table.Rows, Row{Cells: cells, Marked: d.PoolAllows && d.Skew > int(s.MaxSkew)})
	}
	return Section{Title: "SPREAD", Subject: fmt.Sprintf("%s, maxSkew %d", s.Key, s.MaxSkew), Table: table}
}

func affinityTable(s reason.AffinityState) Section {
	table := &Table{Columns: []Column{{Title: "DOMAIN"}, {Title: "SUCH PODS", Right: true}, {Title: "ALLOWED"}, {Title: "ROOM ON NODES"}, {Title: "POOL MAY LAUNCH"}}}
	for _, d := range s.Domains {
		cells := []string{d.Domain, strconv.Itoa(d.Count), yesNo(s.Allows(d)), yesNo(d.RoomOnNodes), yesNo(d.PoolAllows)}
		table.Rows = append(table.Rows, Row{Cells: cells, Marked: d.PoolAllows && !s.Allows(d)})
	}
	title := map[string]string{"affinity": "AFFINITY", "anti": "ANTI-AFFINITY", "repelled": "ANTI-AFFINITY OF OTHERS"}[s.Kind]
	return Section{Title: title, Subject: strings.Join(nonEmpty(s.Key, s.Selector), ", "), Table: table}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// volumeTable shows where each volume is and where the pool may launch.
func volumeTable(p reason.PoolAnswer) Section {
	table := &Table{Columns: []Column{{Title: "CLAIM"}, {Title: "VOLUME"}, {Title: "IS IN"}, {Title: "POOL ALLOWS"}}}
	for _, v := range p.Volumes {
		table.Rows = append(table.Rows, Row{Cells: []string{v.Claim, v.PV, either(v.Values), either(v.PoolValues)}})
	}
	return Section{Title: "VOLUMES", Subject: p.Pool, Table: table}
}

// failing lists the pods on a coming node that do not start.
func failing(c reason.Coming) Section {
	table := &Table{Columns: []Column{{Title: "POD"}, {Title: "STATE"}, {Title: "RESTARTS", Right: true}, {Title: "OWNER"}}}
	for _, f := range c.Failing {
		table.Rows = append(table.Rows, Row{Cells: []string{f.Pod.String(), f.Reason, strconv.Itoa(f.Restarts), strings.TrimSpace(f.Owner.Kind + " " + f.Owner.Name)}})
	}
	return Section{Title: "DO NOT START", Subject: "on " + c.Node, Table: table}
}

// poolTable is one line a pool, nearest first.
func (t pendingText) poolTable() Section {
	table := &Table{Columns: []Column{{Title: "NODEPOOL"}, {Title: "WEIGHT", Right: true}, {Title: "STOPPED AT"}, {Title: "CODE"}, {Title: "DETAIL"}}}
	for _, p := range t.a.Pools {
		weight := strconv.Itoa(int(p.Weight))
		if p.Weight == 0 {
			weight = "-"
		}
		if p.Static != nil {
			weight = "static"
		}
		table.Rows = append(table.Rows, Row{Cells: []string{p.Pool, weight, layerName(p.Layer), string(p.Code), t.poolDetail(p)}})
	}
	return Section{Title: "EVERY NODEPOOL", Subject: "(nearest first)", Table: table}
}

// poolDetail lists everything the pool misses.
func (t pendingText) poolDetail(p reason.PoolAnswer) string {
	var out []string
	for _, c := range p.Constraints {
		switch c.Code {
		case reason.TaintNotTolerated:
			out = append(out, "taint "+taintOf(c))
		case reason.LabelUnknown:
			out = append(out, fmt.Sprintf("wants %s, pool has no %s", selector(c.Key, c.PodWants), c.Key))
		case reason.LabelConflict:
			out = append(out, labelDetail(c))
		case reason.NoSuchOffering:
			out = append(out, fmt.Sprintf("pool wants %s, which no offering has; nearest: %s", selector(c.Key, c.PoolHas), list(c.Near)))
		case reason.AffinityUnsatisfiable:
			out = append(out, affinityDetail(p.Affinity, c))
		case reason.VolumeZoneConflict, reason.SpreadUnsatisfiable:
			// Told below, with their domains.
		default:
			out = append(out, strings.Join(nonEmpty(string(c.Code), c.Key), " "))
		}
	}
	for _, v := range p.Volumes {
		out = append(out, fmt.Sprintf("volume in %s, pool allows %s", either(v.Values), either(v.PoolValues)))
	}
	if p.Spread != nil {
		out = append(out, spreadDetail(*p.Spread))
	}
	for _, r := range p.Resources {
		if r.Having == 0 {
			out = append(out, fmt.Sprintf("%s on 0 of %s", r.Name, count(r.Types, "type")))
			continue
		}
		out = append(out, fmt.Sprintf("%s short by %s on %s", r.Name, Amount(r.Name, r.Short), r.BestType))
	}
	switch {
	case len(out) > 0:
	case p.Static != nil:
		out = append(out, fmt.Sprintf("fixed at %s", count(int(p.Static.Replicas), "node")))
	case len(p.Limits) > 0:
		l := p.Limits[0]
		out = append(out, fmt.Sprintf("%s %s of %s used", l.Resource, Amount(l.Resource, l.Used), Amount(l.Resource, l.Limit)))
	case len(p.Offerings) > 0:
		out = append(out, fmt.Sprintf("%d of %d offerings closed", closedCount(p.Offerings), len(p.Offerings)))
	case p.Ready != nil && len(p.Ready.Chain) > 0:
		out = append(out, p.Ready.Chain[len(p.Ready.Chain)-1].Reason)
	case len(p.Funnel) > 0:
		out = append(out, nonEmpty(p.Funnel[len(p.Funnel)-1].Detail)[0])
	}
	return strings.Join(out, "; ")
}

// labelDetail tells what pod and pool have on a label.
func labelDetail(c reason.ConstraintMiss) string {
	wants := "wants " + selector(c.Key, c.PodWants)
	switch {
	case c.Unknown:
		return wants + ", which no pool knows; nearest: " + list(c.Near)
	case c.PoolHas == "":
		return wants + ", none of its types has it"
	}
	return wants + ", pool has " + selector(c.Key, c.PoolHas)
}

// affinityDetail names the term, of the pod or of others.
func affinityDetail(s *reason.AffinityState, c reason.ConstraintMiss) string {
	switch {
	case s == nil || s.Key != c.Key:
		return "affinity over " + c.Key
	case s.Kind == "repelled":
		return "anti-affinity of other pods over " + s.Key
	case s.Kind == "anti":
		return fmt.Sprintf("anti-affinity to pods %s over %s", s.Selector, s.Key)
	}
	return fmt.Sprintf("affinity to pods %s over %s", s.Selector, s.Key)
}

// spreadDetail tells the domains that the constraint wants and the pool does not have.
func spreadDetail(s reason.SpreadState) string {
	var wanted []string
	for _, d := range s.Domains {
		if !d.PoolAllows && d.Skew <= int(s.MaxSkew) {
			wanted = append(wanted, d.Domain)
		}
	}
	if len(wanted) == 0 {
		return fmt.Sprintf("spread over %s, maxSkew %d", s.Key, s.MaxSkew)
	}
	return fmt.Sprintf("spread wants %s, not in the pool", either(wanted))
}
