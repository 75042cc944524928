// Package words says in sentences what reasons are: the same ones for the plugin, for events and for conditions.
//
// It spells codes, names and numbers and decides nothing. Layout, colour and tables are package view's.
package words

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/reason"
)

// Pending tells one answer of why-pending.
type Pending struct {
	Answer reason.Pending
	// Zone is the time zone of all times.
	Zone *time.Location
}

// Sentence says why the pod has no node.
func (t Pending) Sentence() string {
	a := t.Answer
	pod := a.Pod.String()
	if near := t.Nearest(); near != nil {
		text := fmt.Sprintf("%s is pending because %s", pod, t.because(*near))
		if len(a.CloudClosed) > 0 {
			text += fmt.Sprintf("; NodePool %s, of higher weight, is closed only by the cloud", List(a.CloudClosed))
		}
		return text + "."
	}
	return fmt.Sprintf("%s %s.", pod, t.unranked())
}

// Nearest is the finding of the nearest-miss pool, nil if pools were not ranked.
func (t Pending) Nearest() *reason.PoolAnswer {
	for i := range t.Answer.Pools {
		if t.Answer.Pools[i].Pool == t.Answer.Nearest && t.Answer.Nearest != "" {
			return &t.Answer.Pools[i]
		}
	}
	return nil
}

// unranked answers where no pool is to blame: layers Request, Existing and Launch, and a cluster without pools.
func (t Pending) unranked() string {
	a, d := t.Answer, t.Answer.Request
	switch a.Code {
	case reason.SchedulingGated:
		return fmt.Sprintf("is held by gate %s; no node is being requested", List(d.Gates))
	case reason.OtherScheduler:
		return fmt.Sprintf("waits for the scheduler %s, which has not looked at it; no node is being requested", d.Scheduler)
	case reason.AwaitingScheduler:
		return "has not been looked at by the scheduler yet; no node is being requested"
	case reason.Preempting:
		return fmt.Sprintf("waits for a preemption on node %s; no node is being requested", d.Nominated)
	case reason.DaemonSetPod:
		return "belongs to a DaemonSet or is a static pod; nodes are never made for those"
	case reason.OptedOut:
		return "requires a node without karpenter.sh/nodepool: it has opted out of nodes made for pods"
	case reason.InvalidVolumeClaim:
		return fmt.Sprintf("is left out because its volume claim %s cannot be used: %s", d.Claim, volumeProblem(d.Problem, d.ProblemDetail))
	case reason.InvalidRequirement:
		return fmt.Sprintf("is left out because its requirement on %s is not valid: %s", d.Key, NonEmpty(d.ProblemDetail, d.Problem)[0])
	case reason.DRANotSupported:
		return "is left out because it asks for devices through resource claims, which are not simulated (setting ignoreDRARequests)"
	case reason.InvalidDeviceClaim:
		return fmt.Sprintf("is left out because its resource claim %s cannot be served: %s", d.Claim, d.Problem)
	case reason.NotPending:
		if d.Node != "" {
			return fmt.Sprintf("is not pending: it has node %s", d.Node)
		}
		return "is not pending"
	case reason.NoNodePools:
		return "is pending because there are no NodePools"
	case reason.Unsupported:
		return fmt.Sprintf("is left alone because this version does not understand %s", detail(d.Key, d.ProblemDetail))
	case reason.Cut:
		return "was not tried in the last pass, whose step budget ended before it; it is tried again in the next"
	case reason.SchedulerDisagrees:
		return fmt.Sprintf("should fit on node %s, but the scheduler has not put it there", a.RoomOn)
	default: // what is coming tells more
	}
	if c := a.Coming; c != nil {
		return t.coming(*c)
	}
	return fmt.Sprintf("has no node: %s", a.Code)
}

// coming tells how far the pod's node got.
func (t Pending) coming(c reason.Coming) string {
	if c.Claim == "" {
		planned := reason.Purchase{Type: c.Type, CapacityType: c.CapacityType, Price: c.Price, PriceUnknown: c.Price == 0}
		return fmt.Sprintf("will get a node: %s is planned in NodePool %s", Purchase(planned), c.Pool) + t.attempts()
	}
	what := strings.Join(NonEmpty(c.Type, c.CapacityType, c.Zone), ", ")
	switch t.Answer.Code {
	case reason.LaunchFailed:
		return fmt.Sprintf("waits because NodeClaim %s of NodePool %s cannot be launched: %s", c.Claim, c.Pool, detail(c.Problem, c.ProblemDetail)) + t.attempts()
	case reason.NotRegistering:
		end := "it is given up at"
		if c.RegisterBy.Before(t.Answer.At) {
			end = "it should have joined by"
		}
		return fmt.Sprintf("waits because the node of NodeClaim %s (%s), launched %s ago, does not join; %s %s", c.Claim, what, t.Ago(c.Launched), end, t.Clock(c.RegisterBy))
	case reason.NotInitializing:
		return fmt.Sprintf("waits because node %s (%s) is not initialized: %s", c.Node, what, t.holds(c))
	default: // on its way
	}
	switch {
	case c.Launched.IsZero():
		return fmt.Sprintf("will get a node: NodeClaim %s is being launched", c.Claim) + t.attempts()
	case c.Registered.IsZero():
		return fmt.Sprintf("will get a node: NodeClaim %s (%s) was launched %s ago and must register by %s", c.Claim, what, t.Ago(c.Launched), t.Clock(c.RegisterBy))
	}
	return fmt.Sprintf("will get a node: %s of NodeClaim %s (%s) has joined and is about to be ready", c.Node, c.Claim, what)
}

// holds tells what keeps a node from being initialized.
func (t Pending) holds(c reason.Coming) string {
	since := ""
	if !c.Registered.IsZero() {
		since = fmt.Sprintf(" since it joined %s ago", t.Ago(c.Registered))
	}
	var text string
	switch t.Answer.Sub {
	case reason.StartupTaint:
		text = "startup taint " + List(c.Taints) + " has not been removed" + since
	case reason.EphemeralTaint:
		text = "taint " + List(c.Taints) + " has not been removed" + since
	case reason.ResourceNotRegistered:
		text = "it has not shown a resource it was launched for" + since
	case reason.NodeNotReady:
		text = "it has not been Ready" + since
	default:
		text = List(NonEmpty(string(t.Answer.Sub), c.Problem))
	}
	if c.ProblemDetail != "" && t.Answer.Sub != reason.StartupTaint {
		text += " (" + c.ProblemDetail + ")"
	}
	for _, f := range c.Failing {
		text += fmt.Sprintf("; pod %s does not start (%s, %s)", f.Pod, f.Reason, Count(f.Restarts, "restart"))
	}
	return text
}

// Ago spells how long ago an instant was at the time of the answer.
func (t Pending) Ago(at time.Time) string { return Duration(t.Answer.At.Sub(at)) }

// Clock spells an instant.
func (t Pending) Clock(at time.Time) string { return Clock(at, t.Answer.At, t.Zone) }

func detail(code, text string) string { return strings.Join(NonEmpty(code, text), ": ") }

// NonEmpty drops empty texts; if nothing is left it returns a single empty one.
func NonEmpty(texts ...string) []string {
	out := slices.DeleteFunc(texts, func(s string) bool { return s == "" })
	if len(out) == 0 {
		return []string{""}
	}
	return out
}

// Purchase spells a node that would be launched.
func Purchase(p reason.Purchase) string {
	price := p.Price.PerHour()
	if p.PriceUnknown {
		price = "price unknown"
	}
	return fmt.Sprintf("%s %s %s", p.Type, p.CapacityType, price)
}

// mostRefused is how many refused offerings a sentence names.
const mostRefused = 4

// attempts tells how often launches failed, since when and for what, as a clause after another; nothing if none failed.
func (t Pending) attempts() string {
	a := t.Answer.Attempts
	if a == nil {
		return ""
	}
	text := fmt.Sprintf("; %s failed since %s (%s ago)", Count(a.Count, "launch"), t.Clock(a.First), t.Ago(a.First))
	if a.Count > 1 {
		text = fmt.Sprintf("; %d launches failed since %s (%s ago), the last %s ago", a.Count, t.Clock(a.First), t.Ago(a.First), t.Ago(a.Last))
	}
	what := slices.Clone(a.What)
	if more := len(what) - mostRefused; more > 0 {
		what = append(what[:mostRefused], fmt.Sprintf("%d more", more))
	}
	if len(what) == 0 {
		what = []string{a.Reason}
	}
	return text + ": " + strings.Join(what, "; ")
}

// volumeProblem tells why a volume claim cannot be used; about names what the problem is about.
func volumeProblem(code, about string) string {
	text := map[string]string{
		"ClaimNotFound":     "it does not exist",
		"ClaimDeleting":     "it is being deleted",
		"ClaimLost":         "its volume %s is lost",
		"VolumeNotFound":    "its volume %s does not exist",
		"VolumeDeleting":    "its volume %s is being deleted",
		"BindingIncomplete": "its binding to volume %s has not been completed",
		"ClassMissing":      "it has neither a volume nor a StorageClass",
		"ClassNotFound":     "its StorageClass %s does not exist",
		"Unbound":           "its StorageClass %s binds at once, but it is not bound",
		"Unreadable":        "what it refers to could not be read (%s)",
	}[code]
	if text == "" {
		return detail(code, about)
	}
	if strings.Contains(text, "%s") {
		text = strings.Join(strings.Fields(strings.Replace(text, "%s", about, 1)), " ")
	}
	return text + " (" + code + ")"
}
