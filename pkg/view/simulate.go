package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// Simulation is what simulate found: the objects proposed and their effect.
type Simulation struct {
	// Objects names what the file holds, e.g. "NodePool default".
	Objects []string
	// Changes are the fields in which proposed NodePools differ from the present ones.
	Changes []FieldChange
	Effect  reason.WhatIf
}

// FieldChange is one field of a NodePool's spec that a proposal changes. From is empty for a field that is added, To for one that is removed.
type FieldChange struct {
	NodePool string `json:"nodePool"`
	Path     string `json:"path"`
	From     string `json:"from,omitempty"`
	To       string `json:"to,omitempty"`
}

// gained counts waiting pods that get a place only by the change, lost those that only have one without it.
func (s Simulation) gained() (gained, lost int) {
	for _, p := range s.Effect.Pending {
		switch {
		case p.Before == nil && p.After != nil:
			gained++
		case p.Before != nil && p.After == nil:
			lost++
		}
	}
	return gained, lost
}

func (s Simulation) changes() Section {
	t := &Table{Columns: []Column{{Title: "NODEPOOL"}, {Title: "FIELD"}, {Title: "CHANGE"}}}
	for _, c := range s.Changes {
		t.Rows = append(t.Rows, Row{Cells: []string{c.NodePool, c.Path, cmp.Or(c.From, "(none)") + " → " + cmp.Or(c.To, "(none)")}})
	}
	return Section{Title: "CHANGE", Table: t}
}

// Homeless counts running pods that would lose their place.
func (s Simulation) Homeless() int { return len(s.Effect.Rollover.Homeless) }

// Doc renders the simulation for people.
func (s Simulation) Doc() Doc {
	d := Doc{Answer: s.sentence()}
	if len(s.Changes) > 0 {
		d.Sections = append(d.Sections, s.changes())
	}
	if n := len(s.Effect.Drift); n > 0 {
		d.Sections = append(d.Sections, s.drift())
	}
	if len(s.Effect.Pending) > 0 {
		d.Sections = append(d.Sections, s.pods())
	}
	if len(s.Effect.Launches) > 0 {
		d.Sections = append(d.Sections, launches("LAUNCHES", s.Effect.Launches))
	}
	if len(s.Effect.Rollover.Launches) > 0 {
		d.Sections = append(d.Sections, launches("REPLACEMENTS", s.Effect.Rollover.Launches))
	}
	if s.Homeless() > 0 {
		d.Sections = append(d.Sections, s.homeless())
	}
	cost := fmt.Sprintf("now %s → %s (list prices; no discounts applied)", s.Effect.CostNow.PerHour(), s.Effect.CostAfter.PerHour())
	if n := s.Effect.PriceUnknown; n > 0 {
		cost += fmt.Sprintf("; the price of %s is not known and counts as nothing", count(n, "node"))
	}
	d.Sections = append(d.Sections, Section{Title: "COST", Notes: []string{cost}})
	return d
}

func (s Simulation) sentence() string {
	e := s.Effect
	var parts []string
	if n := len(e.Drift); n > 0 {
		parts = append(parts, "drift "+count(n, "node"))
	}
	gained, lost := s.gained()
	if gained > 0 {
		parts = append(parts, fmt.Sprintf("give a place to %d of %s", gained, count(len(e.Pending), "waiting pod")))
	}
	if lost > 0 {
		parts = append(parts, fmt.Sprintf("take the place of %s", count(lost, "waiting pod")))
	}
	if n := len(e.Launches); n > 0 {
		parts = append(parts, "launch "+count(n, "node"))
	}
	if n := len(e.Rollover.Launches); n > 0 {
		parts = append(parts, "launch "+count(n, "replacement"))
	}
	switch diff := e.CostAfter - e.CostNow; {
	case diff > 0:
		parts = append(parts, fmt.Sprintf("cost about %s (%s) more", diff.PerHour(), monthly(diff)))
	case diff < 0:
		parts = append(parts, fmt.Sprintf("save about %s (%s)", (-diff).PerHour(), monthly(-diff)))
	}
	if n := s.Homeless(); n > 0 {
		parts = append(parts, fmt.Sprintf("leave %s without a place", count(n, "running pod")))
	}
	if len(parts) == 0 {
		return "Applying this would change nothing."
	}
	return "Applying this would " + list(parts) + "."
}

// monthly is the exact price of 730 hours in whole dollars.
func monthly(m units.Money) string {
	return fmt.Sprintf("$%d/month", (int64(m)*730+int64(units.Dollar)/2)/int64(units.Dollar))
}

func (s Simulation) drift() Section {
	t := &Table{Columns: []Column{{Title: "NODE"}, {Title: "NODEPOOL"}, {Title: "WHY"}}}
	for _, d := range s.Effect.Drift {
		why := "template changed"
		if !d.Static {
			why = "requirements no longer met: " + strings.Join(d.Keys, ", ")
		}
		t.Rows = append(t.Rows, Row{Cells: []string{cmp.Or(d.Node, d.Claim), d.Pool, why}})
	}
	return Section{Title: "DRIFT", Subject: count(len(s.Effect.Drift), "node"), Table: t}
}

// pods groups pods with the same fate.
func (s Simulation) pods() Section {
	type fate struct{ before, after string }
	counts, example := map[fate]int{}, map[fate]string{}
	var order []fate
	for _, p := range s.Effect.Pending {
		f := fate{place(p.Before, ""), place(p.After, p.Code)}
		if counts[f] == 0 {
			order = append(order, f)
			example[f] = p.Pod.String()
		}
		counts[f]++
	}
	slices.SortStableFunc(order, func(a, b fate) int { return counts[b] - counts[a] })
	t := &Table{Columns: []Column{{Title: "PODS", Right: true}, {Title: "NOW"}, {Title: "THEN"}, {Title: "EXAMPLE"}}}
	for _, f := range order {
		t.Rows = append(t.Rows, Row{Cells: []string{strconv.Itoa(counts[f]), f.before, f.after, example[f]}})
	}
	return Section{Title: "PODS", Subject: "that wait for a node", Table: t}
}

func place(p *reason.Place, code reason.Code) string {
	switch {
	case p == nil && code != "":
		return "no place: " + string(code)
	case p == nil:
		return "no place"
	case p.Launch != nil:
		return "new " + p.Launch.Type + " " + p.Launch.CapacityType
	}
	return "node " + p.Node
}

func launches(title string, list []reason.Purchase) Section {
	counts := map[reason.Purchase]int{}
	var order []reason.Purchase
	for _, p := range list {
		if counts[p] == 0 {
			order = append(order, p)
		}
		counts[p]++
	}
	t := &Table{Columns: []Column{{Title: "NODES", Right: true}, {Title: "TYPE"}, {Title: "CAPACITY"}, {Title: "ZONE"}, {Title: "NODEPOOL"}, {Title: "$/h EACH", Right: true}}}
	for _, p := range order {
		t.Rows = append(t.Rows, Row{Cells: []string{strconv.Itoa(counts[p]), p.Type, p.CapacityType, p.Zone, p.Pool, dollars(p.Price)}})
	}
	return Section{Title: title, Table: t}
}

func (s Simulation) homeless() Section {
	t := &Table{Columns: []Column{{Title: "POD"}, {Title: "WHY"}}}
	for _, p := range s.Effect.Rollover.Homeless {
		t.Rows = append(t.Rows, Row{Cells: []string{p.Pod.String(), string(p.Code)}, Marked: true})
	}
	return Section{Title: "WITHOUT A PLACE", Subject: "once the drifted nodes are replaced", Table: t}
}

// SimulateReport is the JSON form of simulate.
type SimulateReport struct {
	Envelope
	Objects      []string         `json:"objects"`
	Changes      []FieldChange    `json:"changes"`
	Answer       SimulateAnswer   `json:"answer"`
	Pods         []PodFate        `json:"pods"`
	Drift        []DriftNode      `json:"drift"`
	Launches     []PurchaseReport `json:"launches"`
	Replacements []PurchaseReport `json:"replacements"`
	Homeless     []PodFate        `json:"homeless"`
	CostNow      *Price           `json:"costNow,omitempty"`
	CostAfter    *Price           `json:"costAfter,omitempty"`
	PriceUnknown int              `json:"nodesWithoutPrice"`
	Sources      []Source         `json:"sources"`
	Partial      bool             `json:"partial"`
	Unknown      []string         `json:"unknown,omitempty"`
}

// SimulateAnswer sums up a simulation.
type SimulateAnswer struct {
	Sentence string `json:"sentence"`
	Drift    int    `json:"drift"`
	Homeless int    `json:"homeless"`
}

// PodFate is where a pod is now and would be.
type PodFate struct {
	Pod    string       `json:"pod"`
	Before *PlaceReport `json:"before,omitempty"`
	After  *PlaceReport `json:"after,omitempty"`
	Code   string       `json:"code,omitempty"`
}

// PlaceReport is a node, or one to be launched.
type PlaceReport struct {
	Node   string          `json:"node,omitempty"`
	Launch *PurchaseReport `json:"launch,omitempty"`
}

// DriftNode is a node that would drift.
type DriftNode struct {
	NodePool  string   `json:"nodePool"`
	NodeClaim string   `json:"nodeClaim"`
	Node      string   `json:"node,omitempty"`
	Category  string   `json:"category"`
	Keys      []string `json:"keys,omitempty"`
}

// Report makes the JSON form.
func (s Simulation) Report(head Envelope, sources []Source) SimulateReport {
	e := s.Effect
	r := SimulateReport{Envelope: head, Objects: append([]string{}, s.Objects...), Answer: SimulateAnswer{s.sentence(), len(e.Drift), s.Homeless()},
		Pods: fates(e.Pending), Homeless: fates(e.Rollover.Homeless), Launches: purchases(e.Launches), Replacements: purchases(e.Rollover.Launches), Drift: []DriftNode{},
		Changes: append([]FieldChange{}, s.Changes...),
		CostNow: price(e.CostNow), CostAfter: price(e.CostAfter), PriceUnknown: e.PriceUnknown, Sources: sources, Partial: len(e.Unknown) > 0, Unknown: e.Unknown}
	for _, d := range e.Drift {
		category := "Requirements"
		if d.Static {
			category = "NodePoolStatic"
		}
		r.Drift = append(r.Drift, DriftNode{d.Pool, d.Claim, d.Node, category, d.Keys})
	}
	return r
}

func fates(in []reason.PodEffect) []PodFate {
	out := []PodFate{}
	for _, p := range in {
		out = append(out, PodFate{Pod: p.Pod.String(), Before: placeReport(p.Before), After: placeReport(p.After), Code: string(p.Code)})
	}
	return out
}

func placeReport(p *reason.Place) *PlaceReport {
	if p == nil {
		return nil
	}
	return &PlaceReport{p.Node, purchaseReport(p.Launch)}
}

func purchases(in []reason.Purchase) []PurchaseReport {
	out := []PurchaseReport{}
	for i := range in {
		out = append(out, *purchaseReport(&in[i]))
	}
	return out
}
