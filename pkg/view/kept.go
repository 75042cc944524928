package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/reason"
)

// Kept is the engine's answer to why a node is still there, for rendering.
type Kept struct {
	Answer reason.Kept
	// Zone for times in text; nil is UTC.
	Zone *time.Location
}

// Closed reports whether something keeps the node: it does not go by itself now.
func (k Kept) Closed() bool { return k.Answer.Code != reason.WillGo }

// Name is the node's, or that of a claim without a Node.
func (k Kept) Name() string { return cmp.Or(k.Answer.Node, k.Answer.Claim) }

// Sentence answers in one sentence.
func (k Kept) Sentence() string {
	subject := "Node " + k.Answer.Node
	if k.Answer.Node == "" {
		subject = "NodeClaim " + k.Answer.Claim
	}
	if about := strings.Join(nonEmpty(k.Answer.InstanceType, k.Answer.CapacityType), " "); about != "" {
		subject += " (" + about + ")"
	}
	switch k.Answer.Code {
	case reason.WillGo:
		return subject + " will go now, as " + strings.ToLower(k.Answer.Reason) + ": " + k.saves() + "."
	case reason.Deleting:
		return subject + " is on its way out already."
	case reason.TypeUnknown, reason.LabelMissing, reason.Unreadable, reason.NotEvaluatedYet, reason.CatalogUnknown:
		return subject + " is kept for want of knowledge: " + k.because() + "."
	default:
		return subject + " is kept because " + k.because() + "."
	}
}

// saves says what becomes of the node that goes.
func (k Kept) saves() string {
	a := k.Answer
	switch {
	case a.Replace != nil && a.Replace.Saving > 0 && len(a.Replace.Types) > 0:
		return fmt.Sprintf("a cheaper %s node takes its place, saving about %s (%s)", a.Replace.CapacityType, a.Replace.Saving.PerHour(), monthly(a.Replace.Saving))
	case a.Reason == "Drifted":
		return "it no longer is what its NodePool describes (" + cmp.Or(a.Drift, "drifted") + ")"
	case a.Price > 0:
		return fmt.Sprintf("its pods have a place elsewhere, saving about %s (%s)", a.Price.PerHour(), monthly(a.Price))
	}
	return "its pods have a place elsewhere"
}

// decisive is the gate that the answer is about, the zero Gate if there is none.
func (k Kept) decisive() reason.Gate {
	for _, g := range k.Answer.Gates {
		if (g.State == reason.GateClosed || g.State == reason.GateUnknown) && g.Code == k.Answer.Code {
			return g
		}
	}
	return reason.Gate{Code: k.Answer.Code, Detail: k.Answer.Detail, Until: k.Answer.Until}
}

// because is the clause behind "is kept because".
func (k Kept) because() string {
	g := k.decisive()
	for _, clause := range []func(reason.Gate) string{k.nodeClause, k.podClause, k.ruleClause, k.searchClause} {
		if text := clause(g); text != "" {
			return text
		}
	}
	return "of " + detail(string(g.Code), g.Detail)
}

func (k Kept) nodeClause(g reason.Gate) string {
	switch g.Code {
	case reason.NotManaged:
		return "it was not made by a NodePool, so nothing here removes it"
	case reason.NoNode:
		return "it has no Node yet"
	case reason.HeldByCommand:
		return "the disruption command " + g.Detail + " that is under way holds it"
	case reason.NotInitialized:
		return "it is not initialized yet"
	case reason.Nominated:
		return "it has just been chosen for a pod that is about to arrive" + k.until(g)
	case reason.DoNotDisruptNode:
		return "the Node is annotated karpenter.sh/do-not-disrupt: \"true\""
	case reason.NoSuchPool:
		return "its NodePool " + cmp.Or(k.Answer.Pool, "is not named on it and therefore") + " does not exist"
	case reason.CatalogUnknown:
		return "the instance types of its NodePool " + k.Answer.Pool + " are not known"
	case reason.Unreadable:
		return cmp.Or(g.Detail, "something that the decision depends on") + " could not be read"
	default:
		return ""
	}
}

func (k Kept) podClause(g reason.Gate) string {
	switch g.Code {
	case reason.DoNotDisruptPod:
		if g.Until.IsZero() {
			return some("pod", g.Objects) + " must not be disrupted (karpenter.sh/do-not-disrupt)"
		}
		return some("pod", g.Objects) + " must not be disrupted" + k.until(g)
	case reason.PDBBlocks:
		return some("PodDisruptionBudget", g.Objects) + " allows no eviction of pod " + g.Detail + " now"
	case reason.MultiplePDBs:
		return "pod " + g.Detail + " is matched by more than one PodDisruptionBudget (" + list(g.Objects) + "), and then it cannot be evicted"
	default:
		return ""
	}
}

func (k Kept) ruleClause(g reason.Gate) string {
	pool := "NodePool " + k.Answer.Pool
	switch g.Code {
	case reason.StaticPool:
		return pool + " is static: its nodes are never consolidated"
	case reason.TypeUnknown:
		return "its instance type " + g.Detail + " is not among those of " + pool
	case reason.LabelMissing:
		return "it lacks the label " + g.Detail
	case reason.ConsolidationOff:
		return pool + " has consolidateAfter: Never"
	case reason.BufferPods:
		return "it is reserve for " + g.Detail + " buffer pods"
	case reason.PolicyWhenEmpty:
		return pool + " removes empty nodes only (consolidationPolicy: WhenEmpty), and " + count(k.Answer.Pods, "pod") + " would have to move"
	case reason.TimerRunning:
		return "pods came or went a moment ago and consolidateAfter of " + pool + " is not over" + k.until(g)
	case reason.NotEvaluatedYet:
		return "the controller has not marked it consolidatable yet"
	case reason.NotEmpty:
		return "it is not empty: " + count(g.Count, "pod") + " would have to move"
	case reason.NotDrifted:
		return "it has not drifted"
	case reason.NoBudget:
		text := fmt.Sprintf("the budgets of %s allow %d for %s and %d are used", pool, k.Answer.Allowed, k.Answer.Reason, k.Answer.Used)
		if g.Until.IsZero() {
			return text
		}
		return text + "; they open at " + Clock(g.Until, k.Answer.At, k.Zone)
	case reason.BudgetMalformed:
		return "a budget cannot be read, which closes the pool to all disruption: " + g.Detail
	default:
		return ""
	}
}

func (k Kept) searchClause(g reason.Gate) string {
	a := k.Answer
	switch g.Code {
	case reason.PriceUnknown:
		return "its price, or that of what would replace it, is not known"
	case reason.PodsWouldNotFit:
		return some("pod", g.Objects) + " would have no place, not even on a new node"
	case reason.UninitializedTarget:
		return "pods would go to a node that is not initialized yet"
	case reason.NeedsMoreThanOneNode:
		return g.Detail + " new nodes would be needed, which together are not cheaper"
	case reason.NoCheaperReplacement:
		text := "its pods do not all fit on other nodes, and no cheaper node holds them"
		if a.Replace != nil && a.Replace.Cheapest > 0 {
			text += fmt.Sprintf(" (the cheapest costs %s, this one %s)", a.Replace.Cheapest.PerHour(), a.Price.PerHour())
		}
		return text
	case reason.SavingTooSmall:
		return "a replacement would save less than the minimum"
	case reason.SameType:
		return "replacing it by its own type saves nothing"
	case reason.SpotToSpotOff:
		return "swapping spot for cheaper spot is off (feature gate SpotToSpotConsolidation)"
	case reason.SpotFlexibility:
		return fmt.Sprintf("swapping spot for cheaper spot needs %d cheaper instance types to choose from and NodePool %s leaves %d", k.wanted(), a.Pool, g.Count)
	case reason.ScoreTooLow:
		return "NodePool " + a.Pool + " weighs savings against disruption (Balanced), and the saving is too small for it" + k.score()
	case reason.NearOptimal:
		return "all nodes together cost hardly more than the least that is possible"
	case reason.InQueue:
		return "other nodes go first"
	case reason.Churning:
		return "the last decisions about it did not hold"
	default:
		return ""
	}
}

func (k Kept) wanted() int {
	if k.Answer.Replace == nil {
		return 0
	}
	return k.Answer.Replace.Wanted
}

func (k Kept) score() string {
	s := k.Answer.Score
	if s == nil {
		return ""
	}
	return fmt.Sprintf(" (score %.2f, needed %.2f)", s.Value, s.Threshold)
}

func (k Kept) until(g reason.Gate) string {
	if g.Until.IsZero() {
		return ""
	}
	return " until " + Clock(g.Until, k.Answer.At, k.Zone)
}

// some counts objects and names the first three: "pod a", "3 pods (a, b and c)".
func some(noun string, names []string) string {
	switch n := len(names); {
	case n == 0:
		return "a " + noun
	case n == 1:
		return noun + " " + names[0]
	case n > 3:
		return count(n, noun) + " (" + strings.Join(names[:3], ", ") + " and " + strconv.Itoa(n-3) + " more)"
	}
	return count(len(names), noun) + " (" + list(names) + ")"
}

// Doc renders the answer for people: all gates in the engine's order, those that are shut marked.
func (k Kept) Doc() Doc {
	a := k.Answer
	d := Doc{Answer: k.Sentence(), Facts: []string{"code " + string(a.Code), "asked for " + cmp.Or(a.Reason, "any reason")}}
	if a.Pool != "" {
		d.Facts = append(d.Facts, "NodePool "+a.Pool)
	}
	if a.Price > 0 {
		d.Facts = append(d.Facts, a.Price.PerHour())
	}
	if a.Pool != "" {
		d.Facts = append(d.Facts, count(a.Pods, "pod")+" would move")
	}
	t := &Table{Columns: []Column{{Title: "GATE"}, {Title: "STATE"}, {Title: "CODE"}, {Title: "DETAIL"}}}
	for _, g := range a.Gates {
		t.Rows = append(t.Rows, Row{Cells: []string{gateTitle(g.Name), string(g.State), string(g.Code), k.gateDetail(g)}, Marked: g.State == reason.GateClosed})
	}
	d.Sections = append(d.Sections, Section{Title: "GATES", Subject: "in the order of the decision; all must be open", Table: t})
	if s := k.trials(); len(s.Notes) > 0 {
		d.Sections = append(d.Sections, s)
	}
	return d
}

func gateTitle(g reason.GateName) string {
	titles := map[reason.GateName]string{reason.GateManaged: "made by a NodePool", reason.GateHeld: "not held by a command", reason.GateInitialized: "initialized",
		reason.GateDeleting: "not deleting", reason.GateNominated: "not nominated", reason.GateNode: "do-not-disrupt, node", reason.GatePool: "NodePool known",
		reason.GateReadable: "state readable", reason.GatePods: "do-not-disrupt, pods", reason.GatePDBs: "PDBs", reason.GateApplies: "reason applies",
		reason.GateType: "type and labels", reason.GateTimer: "consolidateAfter", reason.GateBudget: "budget", reason.GateDelete: "pods fit elsewhere",
		reason.GateReplace: "replacement", reason.GateSpot: "spot to spot", reason.GateScore: "score", reason.GateOpportunities: "its turn"}
	return cmp.Or(titles[g], string(g))
}

// gateDetail says what a gate looked at. A code on an open gate is a fact that does not keep the node by itself.
func (k Kept) gateDetail(g reason.Gate) string {
	var parts []string
	switch g.Name {
	case reason.GatePods:
		parts = append(parts, count(g.Count, "pod"))
	case reason.GatePDBs:
		parts = append(parts, count(g.Count, "budget"))
	case reason.GateBudget:
		parts = append(parts, allowance(k.Answer.Allowed)+" allowed, "+strconv.Itoa(k.Answer.Used)+" used")
	case reason.GateSpot:
		if g.Code == reason.SpotFlexibility {
			parts = append(parts, fmt.Sprintf("%d cheaper types, %d needed", g.Count, k.wanted()))
		}
	default: // told by the gate itself, below
	}
	if len(g.Objects) > 0 {
		parts = append(parts, strings.Join(firstN(g.Objects, 3), ", "))
		if more := len(g.Objects) - 3; more > 0 {
			parts[len(parts)-1] += " and " + strconv.Itoa(more) + " more"
		}
	} else if g.Detail != "" && g.Name != reason.GateBudget {
		parts = append(parts, g.Detail)
	}
	if !g.Until.IsZero() {
		parts = append(parts, "opens "+Clock(g.Until, k.Answer.At, k.Zone))
	}
	return strings.Join(parts, "; ")
}

// unlimited is what the engine says where no budget restrains a pool.
const unlimited = 1<<31 - 1

func allowance(n int) string {
	if n >= unlimited {
		return "any number"
	}
	return strconv.Itoa(n)
}

// trials say what simulations of this node alone found.
func (k Kept) trials() Section {
	s := Section{Title: "SIMULATED", Subject: "this node alone"}
	if t := k.Answer.Delete; t != nil {
		switch {
		case t.Fits:
			s.Notes = append(s.Notes, fmt.Sprintf("Deleting it: all pods fit on other nodes, saves %s (%s).", k.Answer.Price.PerHour(), monthly(k.Answer.Price)))
		default:
			var names []string
			for _, p := range t.Pods {
				names = append(names, p.Pod.Namespace+"/"+p.Pod.Name)
			}
			s.Notes = append(s.Notes, "Deleting it: "+some("pod", names)+" would need a new node.")
		}
	}
	if t := k.Answer.Replace; t != nil && t.Cheapest > 0 {
		text := fmt.Sprintf("Replacing it: %s would do, the cheapest costs %s (%s).", count(t.Fitting, "instance type"), t.Cheapest.PerHour(), t.CapacityType)
		if len(t.Types) > 0 {
			text += fmt.Sprintf(" Cheaper: %s; saves up to %s (%s).", strings.Join(firstN(t.Types, 15), ", "), t.Saving.PerHour(), monthly(t.Saving))
		}
		s.Notes = append(s.Notes, text)
	}
	return s
}

func firstN(names []string, n int) []string { return names[:min(n, len(names))] }

// KeptList renders the answers for many nodes as a table, in the given order.
func KeptList(answers []reason.Kept) Doc {
	going := 0
	t := &Table{Columns: []Column{{Title: "NODE"}, {Title: "NODEPOOL"}, {Title: "REASON"}, {Title: "$/h", Right: true}, {Title: "PODS", Right: true}, {Title: "CODE"}}}
	for _, a := range answers {
		price := "-"
		if a.Price > 0 {
			price = dollars(a.Price)
		}
		if a.Code == reason.WillGo {
			going++
		}
		t.Rows = append(t.Rows, Row{Cells: []string{cmp.Or(a.Node, a.Claim), cmp.Or(a.Pool, "-"), a.Reason, price, strconv.Itoa(a.Pods), string(a.Code)}})
	}
	if len(answers) == 0 {
		return Doc{Answer: "There are no nodes that a NodePool made."}
	}
	return Doc{Answer: keptSum(answers, going), Sections: []Section{{Title: "NODES", Table: t}}}
}

func keptSum(answers []reason.Kept, going int) string {
	counts := map[string]int{}
	for _, a := range answers {
		if a.Code != reason.WillGo {
			counts[string(a.Code)]++
		}
	}
	var codes []string
	for c := range counts {
		codes = append(codes, c)
	}
	slices.SortFunc(codes, func(a, b string) int { return cmp.Or(counts[b]-counts[a], strings.Compare(a, b)) })
	for i, c := range codes {
		codes[i] = c + " " + strconv.Itoa(counts[c])
	}
	text := fmt.Sprintf("%d of %s would go now", going, count(len(answers), "node"))
	if len(codes) == 0 {
		return text + "."
	}
	return text + "; kept are: " + strings.Join(codes, ", ") + "."
}
