package view

import (
	"cmp"
	"time"

	"github.com/karp-sh/karp/pkg/reason"
)

// KeptReport is the JSON form of why-kept for one node.
type KeptReport struct {
	Envelope
	Subject      Subject            `json:"subject"`
	Answer       Answer             `json:"answer"`
	Reason       string             `json:"reason"`
	Until        string             `json:"until,omitempty"`
	NodePool     string             `json:"nodePool,omitempty"`
	NodeClaim    string             `json:"nodeClaim,omitempty"`
	InstanceType string             `json:"instanceType,omitempty"`
	Zone         string             `json:"zone,omitempty"`
	CapacityType string             `json:"capacityType,omitempty"`
	Price        *Price             `json:"price,omitempty"`
	Pods         int                `json:"pods"`
	Empty        bool               `json:"empty"`
	Drifted      bool               `json:"drifted"`
	Drift        string             `json:"drift,omitempty"`
	Findings     []GateReport       `json:"findings"`
	Delete       *DeleteReport      `json:"delete,omitempty"`
	Replace      *ReplacementReport `json:"replace,omitempty"`
	Score        *KeptScoreReport   `json:"score,omitempty"`
	Sources      []Source           `json:"sources"`
	Partial      bool               `json:"partial"`
}

// GateReport is one gate. Objects are the pods, budgets or labels that close it.
type GateReport struct {
	Gate    string   `json:"gate"`
	State   string   `json:"state"`
	Code    string   `json:"code,omitempty"`
	Detail  string   `json:"detail,omitempty"`
	Until   string   `json:"until,omitempty"`
	Count   int      `json:"count"`
	Objects []string `json:"objects,omitempty"`
}

// DeleteReport tells whether the node's pods fit elsewhere, and which do not.
type DeleteReport struct {
	Fits bool     `json:"fits"`
	Pods []string `json:"pods"`
}

// ReplacementReport is what would take the node's place. WantedTypes is what a swap of spot for spot demands, absent for others.
type ReplacementReport struct {
	Nodes        int      `json:"nodes"`
	CheaperTypes []string `json:"cheaperTypes"`
	Fitting      int      `json:"fitting"`
	WantedTypes  int      `json:"wantedTypes,omitempty"`
	Cheapest     *Price   `json:"cheapest,omitempty"`
	Saving       *Price   `json:"saving,omitempty"`
	CapacityType string   `json:"capacityType,omitempty"`
}

// KeptScoreReport is the score of removing the node in a Balanced pool: shares of saving and disruption, their ratio, and what it must reach.
type KeptScoreReport struct {
	Saving     float64 `json:"saving"`
	Disruption float64 `json:"disruption"`
	Value      float64 `json:"value"`
	Threshold  float64 `json:"threshold"`
}

// KeptReportList is the JSON form of why-kept for many nodes.
type KeptReportList struct {
	Envelope
	Answer  KeptSum      `json:"answer"`
	Items   []KeptReport `json:"items"`
	Sources []Source     `json:"sources"`
	Partial bool         `json:"partial"`
}

// KeptSum sums up a list.
type KeptSum struct {
	Sentence string `json:"sentence"`
	Nodes    int    `json:"nodes"`
	Going    int    `json:"going"`
}

// Report makes the JSON form.
func (k Kept) Report(head Envelope, sources []Source) KeptReport {
	a := k.Answer
	subject := Subject{APIVersion: "v1", Kind: "Node", Name: a.Node}
	if a.Node == "" {
		subject = Subject{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: a.Claim}
	}
	r := KeptReport{Envelope: head, Subject: subject, Reason: a.Reason, Until: stamp(a.Until), NodePool: a.Pool, NodeClaim: a.Claim, InstanceType: a.InstanceType,
		Zone: a.Zone, CapacityType: a.CapacityType, Price: price(a.Price), Pods: a.Pods, Empty: a.Empty, Drifted: a.Drifted, Drift: a.Drift, Findings: []GateReport{},
		Answer: Answer{Code: string(a.Code), Sentence: k.Sentence(), Certainty: k.certainty(), Blocked: k.Closed()}, Sources: sources}
	for _, g := range a.Gates {
		r.Findings = append(r.Findings, GateReport{string(g.Name), string(g.State), string(g.Code), g.Detail, stamp(g.Until), g.Count, g.Objects})
		r.Partial = r.Partial || g.Code == reason.Unreadable
	}
	if t := a.Delete; t != nil {
		r.Delete = &DeleteReport{Fits: t.Fits, Pods: []string{}}
		for _, p := range t.Pods {
			r.Delete.Pods = append(r.Delete.Pods, p.Pod.Namespace+"/"+p.Pod.Name)
		}
	}
	if t := a.Replace; t != nil {
		r.Replace = &ReplacementReport{t.Nodes, append([]string{}, t.Types...), t.Fitting, t.Wanted, price(t.Cheapest), nil, t.CapacityType}
		if t.Saving > 0 {
			r.Replace.Saving = price(t.Saving)
		}
	}
	if s := a.Score; s != nil {
		r.Score = &KeptScoreReport{s.Saving, s.Disruption, s.Value, s.Threshold}
	}
	return r
}

// certainty: prices and simulated places are estimates; the objects themselves prove the rest.
func (k Kept) certainty() string {
	switch g := k.decisive(); g.Name {
	case reason.GateDelete, reason.GateReplace, reason.GateSpot, reason.GateScore, reason.GateOpportunities, "":
		return string(reason.Estimated)
	case reason.GateTimer, reason.GateNominated:
		return string(reason.Observed)
	default:
		return string(reason.Proven)
	}
}

// NewKeptReportList makes the JSON form for many nodes.
func NewKeptReportList(answers []reason.Kept, head Envelope, sources []Source, zone *time.Location) KeptReportList {
	out := KeptReportList{Envelope: head, Items: []KeptReport{}, Sources: sources}
	item := head
	item.Kind = "KeptReport"
	for _, a := range answers {
		r := Kept{a, zone}.Report(item, sources)
		out.Partial = out.Partial || r.Partial
		out.Items = append(out.Items, r)
		if !r.Answer.Blocked {
			out.Answer.Going++
		}
	}
	out.Answer.Nodes, out.Answer.Sentence = len(answers), cmp.Or(KeptList(answers).Answer)
	return out
}
