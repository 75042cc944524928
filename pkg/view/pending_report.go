package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// PendingReport is the JSON form of one answer of why-pending.
type PendingReport struct {
	Envelope
	Subject Subject `json:"subject"`
	Answer  Answer  `json:"answer"`
	// PendingSeconds is how long the pod has been pending.
	PendingSeconds *int64          `json:"pendingSeconds,omitempty"`
	NearestMiss    *NearestMiss    `json:"nearestMiss,omitempty"`
	Request        *RequestReport  `json:"request,omitempty"`
	ComingNode     *ComingNode     `json:"comingNode,omitempty"`
	WhenReleased   *PurchaseReport `json:"whenReleased,omitempty"`
	Records        []RecordReport  `json:"records,omitempty"`
	Attempts       *AttemptsReport `json:"failedLaunches,omitempty"`
	// Preferences that were given up first.
	Dropped  []string         `json:"droppedPreferences,omitempty"`
	Findings []PendingFinding `json:"findings"`
	Fixes    []FixReport      `json:"fixes"`
	Sources  []Source         `json:"sources"`
	Partial  bool             `json:"partial"`
	Unknown  []string         `json:"unknown,omitempty"`
}

// PendingReportList is the JSON form for many pods, grouped by identical answer.
type PendingReportList struct {
	Envelope
	Answer  ListAnswer      `json:"answer"`
	Groups  []PendingGroup  `json:"groups"`
	Items   []PendingReport `json:"items"`
	Sources []Source        `json:"sources"`
	Partial bool            `json:"partial"`
}

// ListAnswer sums up a list.
type ListAnswer struct {
	Sentence string `json:"sentence"`
	Pods     int    `json:"pods"`
	Blocked  int    `json:"blocked"`
}

// PendingGroup is a set of pods with the same answer.
type PendingGroup struct {
	Code           string   `json:"code"`
	Layer          string   `json:"layer"`
	NearestMiss    string   `json:"nearestMiss,omitempty"`
	Blocked        bool     `json:"blocked"`
	PendingSeconds *int64   `json:"pendingSeconds,omitempty"`
	Example        string   `json:"example"`
	Pods           []string `json:"pods"`
}

// NearestMiss is the pool that needs the least change, and the change.
type NearestMiss struct {
	NodePool string         `json:"nodePool"`
	Relax    []ChangeReport `json:"relax"`
}

// RequestReport says why a pod does not ask for a node.
type RequestReport struct {
	Gates     []string `json:"gates,omitempty"`
	Scheduler string   `json:"scheduler,omitempty"`
	Nominated string   `json:"nominatedNode,omitempty"`
	Node      string   `json:"node,omitempty"`
	Claim     string   `json:"volumeClaim,omitempty"`
	Key       string   `json:"key,omitempty"`
	Problem   string   `json:"problem,omitempty"`
	Detail    string   `json:"detail,omitempty"`
}

// ComingNode is a node on its way.
type ComingNode struct {
	NodeClaim    string `json:"nodeClaim,omitempty"`
	Node         string `json:"node,omitempty"`
	NodePool     string `json:"nodePool,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	CreatedAt    string `json:"createdAt,omitempty"`
	LaunchedAt   string `json:"launchedAt,omitempty"`
	RegisteredAt string `json:"registeredAt,omitempty"`
	RegisterBy   string `json:"registerBy,omitempty"`
	Problem      string `json:"problem,omitempty"`
	Detail       string `json:"detail,omitempty"`
	ExpiresAt    string `json:"expiresAt,omitempty"`
	// Taints are the startup taints still present, Failing the pods that do not start.
	Taints  []string           `json:"taints,omitempty"`
	Failing []FailingPodReport `json:"failing,omitempty"`
}

// FailingPodReport is a pod on a coming node that does not start.
type FailingPodReport struct {
	Pod      string `json:"pod"`
	Owner    string `json:"owner,omitempty"`
	Reason   string `json:"reason"`
	Restarts int    `json:"restarts"`
}

// RecordReport is an event or condition used as evidence.
type RecordReport struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	At      string `json:"at,omitempty"`
}

// PendingFinding is what stopped one pool. Findings are sorted nearest first; order is the engine's own.
type PendingFinding struct {
	NodePool    string             `json:"nodePool"`
	Weight      int32              `json:"weight"`
	Order       int                `json:"order"`
	Layer       string             `json:"layer"`
	Code        string             `json:"code"`
	Certainty   string             `json:"certainty"`
	Detail      string             `json:"detail,omitempty"`
	Funnel      []FunnelStage      `json:"funnel"`
	Constraints []ConstraintReport `json:"constraints"`
	Resources   []ResourceReport   `json:"resources"`
	Offerings   []OfferingReport   `json:"offerings"`
	Limits      []LimitReport      `json:"limits"`
	Spread      *SpreadReport      `json:"spread,omitempty"`
	Affinity    *AffinityReport    `json:"affinity,omitempty"`
	Volumes     []VolumeReport     `json:"volumes,omitempty"`
	NotReady    []ReadyReport      `json:"notReady,omitempty"`
	Subnets     *SubnetReport      `json:"subnets,omitempty"`
	Static      *StaticReport      `json:"static,omitempty"`
	Distance    *DistanceReport    `json:"distance,omitempty"`
}

// FunnelStage counts what a check left.
type FunnelStage struct {
	Code      string `json:"code,omitempty"`
	Detail    string `json:"detail,omitempty"`
	Types     int    `json:"types"`
	Offerings int    `json:"offerings"`
}

// ConstraintReport is one thing pod and pool disagree on.
type ConstraintReport struct {
	Kind     string `json:"kind"`
	Code     string `json:"code"`
	Key      string `json:"key"`
	PodWants string `json:"podWants,omitempty"`
	PoolHas  string `json:"poolHas,omitempty"`
	// Unknown tells that nothing has the value wanted; Nearest are the most similar ones there are.
	Unknown bool     `json:"unknown,omitempty"`
	Nearest []string `json:"nearest,omitempty"`
}

// ResourceReport compares a request with the best a pool has.
type ResourceReport struct {
	Name      string           `json:"name"`
	Wants     string           `json:"wants"`
	Best      string           `json:"best"`
	BestType  string           `json:"bestType,omitempty"`
	Short     string           `json:"short"`
	Types     int              `json:"types"`
	Having    int              `json:"typesHavingIt"`
	Breakdown *BreakdownReport `json:"breakdown,omitempty"`
}

// BreakdownReport takes the hardware apart.
type BreakdownReport struct {
	Raw            string `json:"raw"`
	VMOverhead     string `json:"vmOverhead"`
	KubeReserved   string `json:"kubeReserved"`
	SystemReserved string `json:"systemReserved"`
	Eviction       string `json:"evictionThreshold"`
	Allocatable    string `json:"allocatable"`
	DaemonSets     string `json:"daemonSets"`
	Left           string `json:"left"`
	LiveNodes      int    `json:"liveNodes"`
}

// OfferingReport is one offering and whether it can be bought.
type OfferingReport struct {
	Type         string `json:"type"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	Price        *Price `json:"price,omitempty"`
	Available    bool   `json:"available"`
	Reason       string `json:"reason,omitempty"`
	Until        string `json:"until,omitempty"`
}

// LimitReport is a limit without room.
type LimitReport struct {
	Resource  string `json:"resource"`
	Limit     string `json:"limit"`
	Used      string `json:"used"`
	Left      string `json:"left"`
	Needs     string `json:"needs"`
	NeedsType string `json:"needsType,omitempty"`
	// WithinType is the best type within the limit, Short by how much it is too small.
	WithinType string            `json:"withinType,omitempty"`
	Short      map[string]string `json:"short,omitempty"`
}

// SpreadReport shows a spread constraint over its domains.
type SpreadReport struct {
	Key     string         `json:"key"`
	MaxSkew int32          `json:"maxSkew"`
	Domains []DomainReport `json:"domains"`
}

// AffinityReport shows a term of affinity or anti-affinity to other pods over its domains. Kind is affinity, anti, or repelled (a term of others).
type AffinityReport struct {
	Kind     string             `json:"kind"`
	Key      string             `json:"key"`
	Selector string             `json:"selector,omitempty"`
	KeptBy   []string           `json:"keptAwayBy,omitempty"`
	Domains  []TermDomainReport `json:"domains"`
}

// TermDomainReport is one domain of such a term.
type TermDomainReport struct {
	Domain     string `json:"domain"`
	Count      int    `json:"count"`
	Allowed    bool   `json:"allowed"`
	PoolAllows bool   `json:"poolAllows"`
	Room       bool   `json:"roomOnNodes"`
}

// AttemptsReport sums up launches that failed for pods like this one.
type AttemptsReport struct {
	NodePool string   `json:"nodePool"`
	Count    int      `json:"count"`
	Claims   int      `json:"claims"`
	FirstAt  string   `json:"firstAt,omitempty"`
	LastAt   string   `json:"lastAt,omitempty"`
	Reason   string   `json:"reason"`
	Message  string   `json:"message,omitempty"`
	Refused  []string `json:"refused,omitempty"`
}

// DomainReport is one domain of a spread constraint.
type DomainReport struct {
	Domain     string `json:"domain"`
	Count      int    `json:"count"`
	Skew       int    `json:"skewAfter"`
	PoolAllows bool   `json:"poolAllows"`
	Room       bool   `json:"roomOnNodes"`
}

// VolumeReport is a volume that pins the pod.
type VolumeReport struct {
	Claim      string   `json:"claim"`
	PV         string   `json:"pv,omitempty"`
	Key        string   `json:"key"`
	Values     []string `json:"values"`
	PoolValues []string `json:"poolValues"`
}

// ReadyReport is one link of the chain of what is not ready.
type ReadyReport struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Since   string `json:"since,omitempty"`
}

// SubnetReport is what a class's subnet selector found.
type SubnetReport struct {
	Selector string `json:"selector"`
	Found    int    `json:"found"`
}

// StaticReport is the size of a static pool.
type StaticReport struct {
	Replicas int64 `json:"replicas"`
	Nodes    int   `json:"nodes"`
	Full     int   `json:"full"`
}

// DistanceReport ranks a pool.
type DistanceReport struct {
	Conditions int     `json:"conditions"`
	Kind       int     `json:"kind"`
	Gap        float64 `json:"gap"`
	Price      *Price  `json:"price,omitempty"`
}

// ChangeReport is one condition to change.
type ChangeReport struct {
	Owner  string   `json:"owner"`
	Action string   `json:"action"`
	Kind   string   `json:"kind,omitempty"`
	Name   string   `json:"name,omitempty"`
	Key    string   `json:"key,omitempty"`
	From   string   `json:"from,omitempty"`
	To     string   `json:"to,omitempty"`
	Until  string   `json:"until,omitempty"`
	Others []string `json:"others,omitempty"`
	// Limit is the resource in the pool's limits that keeps larger types out.
	Limit string `json:"limit,omitempty"`
}

// FixReport is a way out.
type FixReport struct {
	Owner    string          `json:"owner"`
	NodePool string          `json:"nodePool,omitempty"`
	Summary  string          `json:"summary"`
	Command  []string        `json:"command,omitempty"`
	Verified bool            `json:"verified"`
	Changes  []ChangeReport  `json:"changes"`
	Launch   *PurchaseReport `json:"launch,omitempty"`
	Node     string          `json:"node,omitempty"`
	Drift    int             `json:"drift"`
}

// PurchaseReport is a node that would be launched.
type PurchaseReport struct {
	NodePool     string `json:"nodePool"`
	Type         string `json:"type"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	Price        *Price `json:"price,omitempty"`
}

// NewPendingReport makes the report of one answer.
//
// At most the given number of fixes are listed (0: all).
func NewPendingReport(a reason.Pending, head Envelope, sources []Source, o PendingOptions) PendingReport {
	t := newPendingText(a, o.Zone)
	r := PendingReport{
		Envelope: head,
		Subject:  Subject{APIVersion: "v1", Kind: "Pod", Namespace: a.Pod.Namespace, Name: a.Pod.Name, UID: a.Pod.UID},
		Answer:   Answer{Code: string(a.Code), Sub: string(a.Sub), Layer: a.Layer.String(), Sentence: t.words.Sentence(), Certainty: string(a.Certainty), Blocked: a.Blocked},
		Findings: []PendingFinding{}, Fixes: []FixReport{}, Sources: sources, Partial: len(a.Unknown) > 0, Unknown: a.Unknown,
	}
	r.Dropped = a.Dropped
	if x := a.Attempts; x != nil {
		r.Attempts = &AttemptsReport{x.Pool, x.Count, x.Claims, stamp(x.First), stamp(x.Last), x.Reason, x.Message, x.What}
	}
	r.PendingSeconds = seconds(a.At, a.Since)
	for _, p := range a.Pools {
		r.Findings = append(r.Findings, t.finding(p))
	}
	if p := t.words.Nearest(); p != nil {
		r.NearestMiss = &NearestMiss{NodePool: p.Pool, Relax: []ChangeReport{}}
		if len(p.Sets) > 0 {
			r.NearestMiss.Relax = changes(p.Sets[0])
		}
	}
	if a.Layer == reason.Request {
		d := a.Request
		r.Request = &RequestReport{d.Gates, d.Scheduler, d.Nominated, d.Node, d.Claim, d.Key, d.Problem, d.ProblemDetail}
	}
	if c := a.Coming; c != nil {
		r.ComingNode = comingNode(*c)
	}
	for _, x := range a.Records {
		r.Records = append(r.Records, RecordReport{x.Object.Kind, x.Object.String(), x.Reason, x.Message, stamp(x.At)})
	}
	r.WhenReleased = purchaseReport(a.WhenReleased)
	for i, f := range a.Fixes {
		if o.Fixes > 0 && i == o.Fixes {
			break
		}
		r.Fixes = append(r.Fixes, t.fixReport(f))
	}
	return r
}

func comingNode(c reason.Coming) *ComingNode {
	out := &ComingNode{
		NodeClaim: c.Claim, Node: c.Node, NodePool: c.Pool, InstanceType: c.Type, Zone: c.Zone, CapacityType: c.CapacityType,
		CreatedAt: stamp(c.Created), LaunchedAt: stamp(c.Launched), RegisteredAt: stamp(c.Registered), RegisterBy: stamp(c.RegisterBy), ExpiresAt: stamp(c.ExpiresAt),
		Problem: c.Problem, Detail: c.ProblemDetail, Taints: c.Taints,
	}
	for _, f := range c.Failing {
		out.Failing = append(out.Failing, FailingPodReport{f.Pod.String(), strings.TrimSpace(f.Owner.Kind + " " + f.Owner.String()), f.Reason, f.Restarts})
	}
	return out
}

func seconds(at, since time.Time) *int64 {
	if since.IsZero() {
		return nil
	}
	return new(int64(at.Sub(since) / time.Second))
}

func (t pendingText) finding(p reason.PoolAnswer) PendingFinding {
	f := PendingFinding{NodePool: p.Pool, Weight: p.Weight, Order: p.Order, Layer: p.Layer.String(), Code: string(p.Code), Certainty: string(p.Certainty), Detail: t.poolDetail(p),
		Funnel: []FunnelStage{}, Constraints: []ConstraintReport{}, Resources: []ResourceReport{}, Offerings: []OfferingReport{}, Limits: []LimitReport{}}
	for _, c := range p.Funnel {
		f.Funnel = append(f.Funnel, FunnelStage{string(c.Code), c.Detail, c.Types, c.Offerings})
	}
	for _, c := range p.Constraints {
		f.Constraints = append(f.Constraints, ConstraintReport{c.Kind, string(c.Code), c.Key, c.PodWants, c.PoolHas, c.Unknown, c.Near})
	}
	for _, m := range p.Resources {
		f.Resources = append(f.Resources, resourceReport(m))
	}
	for _, o := range slices.Concat(p.Offerings, p.NotSold) {
		f.Offerings = append(f.Offerings, OfferingReport{o.Type, o.Zone, o.CapacityType, price(o.Price), o.Available, o.Reason, stamp(o.Until)})
	}
	for _, l := range p.Limits {
		a := func(n int64) string { return quantity(l.Resource, n) }
		r := LimitReport{Resource: l.Resource, Limit: a(l.Limit), Used: a(l.Used), Left: a(l.Left), Needs: a(l.Needs), NeedsType: l.NeedsType, WithinType: l.WithinType}
		for name, n := range l.Short {
			if r.Short == nil {
				r.Short = map[string]string{}
			}
			r.Short[name] = quantity(name, n)
		}
		f.Limits = append(f.Limits, r)
	}
	t.particulars(&f, p)
	return f
}

// particulars fills what only some codes have.
func (t pendingText) particulars(f *PendingFinding, p reason.PoolAnswer) {
	if s := p.Spread; s != nil {
		f.Spread = &SpreadReport{Key: s.Key, MaxSkew: s.MaxSkew}
		for _, d := range s.Domains {
			f.Spread.Domains = append(f.Spread.Domains, DomainReport{d.Domain, d.Count, d.Skew, d.PoolAllows, d.RoomOnNodes})
		}
	}
	if s := p.Affinity; s != nil {
		f.Affinity = &AffinityReport{Kind: s.Kind, Key: s.Key, Selector: s.Selector, Domains: []TermDomainReport{}}
		for _, k := range s.Keepers {
			f.Affinity.KeptBy = append(f.Affinity.KeptBy, k.String())
		}
		for _, d := range s.Domains {
			f.Affinity.Domains = append(f.Affinity.Domains, TermDomainReport{d.Domain, d.Count, s.Allows(d), d.PoolAllows, d.RoomOnNodes})
		}
	}
	for _, v := range p.Volumes {
		f.Volumes = append(f.Volumes, VolumeReport{v.Claim, v.PV, v.Key, v.Values, v.PoolValues})
	}
	if p.Ready != nil {
		for _, l := range p.Ready.Chain {
			f.NotReady = append(f.NotReady, ReadyReport{l.Object.Kind, l.Object.Name, l.Type, l.Reason, l.Message, stamp(l.Since)})
		}
	}
	if p.Ready != nil && p.Ready.SubnetSelector != "" {
		f.Subnets = &SubnetReport{p.Ready.SubnetSelector, p.Ready.Subnets}
	}
	if s := p.Static; s != nil {
		f.Static = &StaticReport{s.Replicas, s.Nodes, s.Full}
	}
	if d := p.Distance; d.Reachable {
		f.Distance = &DistanceReport{d.Conditions, int(d.Kind), d.Gap, price(d.Price)}
	}
}

func resourceReport(m reason.ResourceMiss) ResourceReport {
	a := func(n int64) string { return quantity(m.Name, n) }
	r := ResourceReport{m.Name, a(m.Wants), a(m.Best), m.BestType, a(m.Short), m.Types, m.Having, nil}
	if b := m.Breakdown; b.Allocatable != 0 {
		r.Breakdown = &BreakdownReport{a(b.Raw), a(b.VMOverhead), a(b.KubeReserved), a(b.SystemReserved), a(b.Eviction), a(b.Allocatable), a(b.DaemonSets), a(b.Left), b.LiveNodes}
	}
	return r
}

func price(m units.Money) *Price {
	if m == 0 {
		return nil
	}
	return &Price{m.Decimal(), "USD", "hour"}
}

func purchaseReport(p *reason.Purchase) *PurchaseReport {
	if p == nil {
		return nil
	}
	r := &PurchaseReport{p.Pool, p.Type, p.Zone, p.CapacityType, price(p.Price)}
	if p.PriceUnknown {
		r.Price = nil
	}
	return r
}

func changes(set []reason.Change) []ChangeReport {
	out := []ChangeReport{}
	for _, c := range set {
		r := ChangeReport{string(c.Owner), string(c.Action), c.Object.Kind, c.Object.String(), c.Key, c.From, c.To, stamp(c.Until), c.Others, c.Limit}
		if c.Action == reason.LowerRequest || c.Action == reason.RaiseLimit {
			r.From, r.To = quantity(c.Key, c.Was), quantity(c.Key, c.Amount)
		}
		out = append(out, r)
	}
	return out
}

func (t pendingText) fixReport(f reason.Fix) FixReport {
	text := t.fix(f)
	return FixReport{string(f.Owner), f.Pool, text.Summary, text.Command, f.Verified, changes(f.Changes), purchaseReport(f.Effect.Launch), f.Effect.Node, f.Effect.Drift}
}

// NewPendingReportList makes the report of many answers.
func NewPendingReportList(groups []reason.PendingGroup, items []PendingReport, head Envelope, sources []Source, at time.Time) PendingReportList {
	l := PendingReportList{Envelope: head, Groups: []PendingGroup{}, Items: items, Sources: sources}
	l.Answer = ListAnswer{Sentence: groupSentence(groups)}
	for _, g := range groups {
		out := PendingGroup{Code: string(g.Code), Layer: g.Layer.String(), NearestMiss: g.Nearest, Blocked: g.Blocked, PendingSeconds: seconds(at, g.Since), Example: g.Example.Pod.String()}
		for _, p := range g.Pods {
			out.Pods = append(out.Pods, p.String())
		}
		l.Groups = append(l.Groups, out)
		l.Answer.Pods += len(g.Pods)
		if g.Blocked {
			l.Answer.Blocked += len(g.Pods)
		}
	}
	for _, i := range items {
		l.Partial = l.Partial || i.Partial
	}
	return l
}

// PendingList renders groups of pending pods for people.
func PendingList(groups []reason.PendingGroup, at time.Time, zone *time.Location) Doc {
	d := Doc{Answer: groupSentence(groups)}
	if len(groups) == 0 {
		return d
	}
	table := &Table{Columns: []Column{{Title: "PODS", Right: true}, {Title: "SINCE", Right: true}, {Title: "CODE"}, {Title: "EXAMPLE"}, {Title: "NEAREST MISS"}}}
	for _, g := range groups {
		since := "-"
		if !g.Since.IsZero() {
			since = Duration(at.Sub(g.Since))
		}
		t := newPendingText(g.Example, zone)
		near := t.unrankedShort()
		if p := t.words.Nearest(); p != nil {
			near = p.Pool + ": " + t.poolDetail(*p)
		}
		table.Rows = append(table.Rows, Row{Cells: []string{strconv.Itoa(len(g.Pods)), since, groupCode(g), g.Example.Pod.String(), near}})
	}
	d.Sections = []Section{{Table: table}, {Notes: []string{"more: kubectl karp why-pending " + groups[0].Example.Pod.Name + " -n " + groups[0].Example.Pod.Namespace}}}
	return d
}

func (t pendingText) unrankedShort() string {
	switch c := t.a.Coming; {
	case c != nil && c.Claim != "":
		return "NodeClaim " + c.Claim
	case c != nil:
		return "planned in NodePool " + c.Pool
	case len(t.a.Request.Gates) > 0:
		return "gate " + list(t.a.Request.Gates)
	}
	return "-"
}

// groupSentence sums up all groups.
func groupSentence(groups []reason.PendingGroup) string {
	pods := 0
	for _, g := range groups {
		pods += len(g.Pods)
	}
	switch {
	case pods == 0:
		return "No pod is pending."
	case pods == 1:
		return "1 pod is pending: " + groupCause(groups[0]) + "."
	case len(groups) == 1:
		return count(pods, "pod") + " are pending for the same reason: " + groupCause(groups[0]) + "."
	}
	text := fmt.Sprintf("%d pods are pending for %d reasons", pods, len(groups))
	if n := len(groups[0].Pods); n > 1 {
		text += fmt.Sprintf("; %d of them: %s", n, groupCause(groups[0]))
	}
	calm := 0
	for _, g := range groups {
		if !g.Blocked {
			calm += len(g.Pods)
		}
	}
	switch {
	case calm == pods:
		text += "; nobody has to act"
	case calm == 1:
		text += "; 1 needs nobody to act"
	case calm > 1:
		text += fmt.Sprintf("; %d need nobody to act", calm)
	}
	return text + "."
}

// groupCause names the code of a group and the pool that is nearest.
func groupCause(g reason.PendingGroup) string {
	if g.Nearest == "" {
		return groupCode(g)
	}
	return groupCode(g) + " in NodePool " + g.Nearest
}

func groupCode(g reason.PendingGroup) string {
	if g.Sub == "" {
		return string(g.Code)
	}
	return string(g.Code) + "." + string(g.Sub)
}
