package explain

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

const (
	// registrationLimit is how long a launched claim may take to register before it is deleted.
	registrationLimit = 15 * time.Minute
	// patience is how long after registration a node may still be starting before something is said to hold it.
	patience = 3 * time.Minute
)

// nominated matches the message of the event that tells where a pod should go.
var nominated = regexp.MustCompile(`(node|nodeclaim)/([a-z0-9.-]+)`)

// onItsWay answers from layers 1 and 8: a claim was made for the pod and is not usable yet. It rests on the event that nominated the pod, or
// on karp's own nomination.
func (q *inquiry) onItsWay(a *PendingAnswer) bool {
	t, record := q.promised()
	if t == nil || t.Leaving || t.Initialized {
		return false
	}
	a.Certainty = reason.Observed
	if record != nil {
		a.Records = append(a.Records, *record)
	}
	q.describe(a, t)
	return true
}

// promised finds the target that was promised to the pod and still exists.
func (q *inquiry) promised() (*cluster.Target, *reason.Record) {
	var latest *Event
	for _, e := range q.facts.about("Pod", q.pod.Namespace, q.pod.Name, "Nominated") {
		if latest == nil || e.Last.After(latest.Last) {
			latest = &e
		}
	}
	names := []string{}
	var record *reason.Record
	if latest != nil {
		record = &reason.Record{Object: latest.Object, Reason: latest.Reason, Message: latest.Message, At: latest.Last}
		for _, m := range nominated.FindAllStringSubmatch(latest.Message, -1) {
			names = append(names, m[2])
		}
	}
	if q.pod.NominatedByKarp {
		names = append(names, q.pod.Nominated)
	}
	for _, t := range q.s.Targets() {
		if slices.Contains(names, t.Name) || t.Claim != nil && slices.Contains(names, t.Claim.Name) {
			return t, record
		}
	}
	return nil, nil
}

// describe tells how far a claim got, and whether something holds it.
func (q *inquiry) describe(a *PendingAnswer, t *cluster.Target) {
	c := q.coming(t)
	a.Coming = c
	a.Attempts = q.attempts(c.Pool)
	a.Code, a.Layer = reason.CapacityComing, reason.Existing
	now := q.s.At
	claim := t.Claim
	launchFailed := claim.LaunchProblem.Reason != "" && claim.LaunchProblem.Reason != "AwaitingReconciliation" && !claim.Launched
	switch {
	case launchFailed:
		a.Code, a.Layer = reason.LaunchFailed, reason.Launch
		c.Problem, c.ProblemDetail = claim.LaunchProblem.Reason, claim.LaunchProblem.Message
		a.Records = append(a.Records, reason.Record{
			Object: reason.Object{Kind: "NodeClaim", Name: claim.Name}, Reason: c.Problem, Message: c.ProblemDetail, At: claim.LaunchProblem.Since,
		})
	case !t.Registered && claim.Launched && !c.Launched.IsZero() && now.Sub(c.Launched) >= registrationLimit:
		a.Code, a.Layer = reason.NotRegistering, reason.Launch
	case t.Registered && (len(c.Failing) > 0 || !c.Registered.IsZero() && now.Sub(c.Registered) >= patience):
		a.Code, a.Layer, a.Sub = reason.NotInitializing, reason.Launch, q.heldBy(t, c)
		a.Fixes = q.startupFixes(c)
	}
}

// coming describes a target that is not initialized.
func (q *inquiry) coming(t *cluster.Target) *reason.Coming {
	claim := t.Claim
	m := q.facts.Claims[claim.Name]
	c := &reason.Coming{
		Claim: claim.Name, Pool: claim.Pool, Created: claim.Created, Launched: m.Launched, Registered: m.Registered,
		Type: t.Labels[constraint.InstanceTypeKey], Zone: t.Labels[constraint.ZoneKey], CapacityType: t.Labels[constraint.CapacityTypeKey],
	}
	if t.Node != nil {
		c.Node, c.NodeReady = t.Node.Name, t.Node.Ready
		c.Failing = q.facts.Failing[t.Node.Name]
	}
	if !c.Launched.IsZero() {
		c.RegisterBy = c.Launched.Add(registrationLimit)
	}
	if d, err := time.ParseDuration(claim.ExpireAfter); err == nil {
		c.ExpiresAt = claim.Created.Add(d)
	}
	c.Price = q.price(claim.Pool, c.Type, c.Zone, c.CapacityType)
	return c
}

// price of an offering in a pool's catalogue, 0 if it is not in there.
func (q *inquiry) price(pool, typ, zone, buyAs string) units.Money {
	p := q.s.Pool(pool)
	if p == nil || p.Catalog == nil {
		return 0
	}
	for _, t := range p.Catalog.Types() {
		if t.Name != typ {
			continue
		}
		i := slices.IndexFunc(t.Offerings, func(o catalog.Offering) bool { return o.Zone == zone && o.CapacityType == buyAs })
		if i >= 0 {
			return t.Offerings[i].Price
		}
	}
	return 0
}

// heldBy names what keeps a registered node from being initialized, in the order in which initialization checks it.
func (q *inquiry) heldBy(t *cluster.Target, c *reason.Coming) reason.Code {
	if !t.Node.Ready {
		return reason.NodeNotReady
	}
	ephemeral := false
	for _, taint := range t.Node.Taints {
		startup := slices.ContainsFunc(t.Claim.StartupTaints, func(s constraint.Taint) bool { return s.Key == taint.Key && s.Effect == taint.Effect })
		if startup {
			c.Taints = append(c.Taints, taint.Key+"="+taint.Value+":"+string(taint.Effect))
		}
		ephemeral = ephemeral || strings.HasPrefix(taint.Key, "node.kubernetes.io/") || strings.HasPrefix(taint.Key, "node.cloudprovider.kubernetes.io/")
	}
	switch {
	case len(c.Taints) > 0:
		return reason.StartupTaint
	case ephemeral:
		return reason.EphemeralTaint
	}
	return reason.ResourceNotRegistered
}

// startupFixes: what ends the cause first, then the last resort. Both lie outside the simulation.
func (q *inquiry) startupFixes(c *reason.Coming) []reason.Fix {
	var out []reason.Fix
	for _, f := range c.Failing {
		object := f.Owner
		if object.Name == "" {
			object = f.Pod
		}
		out = append(out, reason.Fix{Owner: reason.ByCluster, Pool: c.Pool, Changes: []reason.Change{{
			Owner: reason.ByCluster, Action: reason.RepairDaemonSet, Object: object, Key: f.Pod.Name, From: f.Reason,
		}}})
	}
	return append(out, reason.Fix{Owner: reason.ByCluster, Pool: c.Pool, Repeats: true, Changes: []reason.Change{{
		Owner: reason.ByCluster, Action: reason.DeleteClaim, Object: reason.Object{Kind: "NodeClaim", Name: c.Claim},
	}}})
}

// placedByEngine answers if the engine has a place for the pod as things are: on a node that the scheduler should use, on a claim in flight, or
// on one it would make in its next pass.
func (q *inquiry) placedByEngine(a *PendingAnswer) bool {
	e, ok := effect(q.lab.unchanged(), q.pod.UID)
	if !ok {
		return false
	}
	a.Code, a.Layer, a.Certainty = reason.CapacityComing, reason.Existing, reason.Estimated
	if e.Launch != nil {
		a.Attempts = q.attempts(e.Launch.Pool)
		a.Coming = &reason.Coming{
			Pool: e.Launch.Pool, Type: e.Launch.Type, Zone: e.Launch.Zone, CapacityType: e.Launch.CapacityType, Price: e.Launch.Price,
		}
		return true
	}
	for _, t := range q.s.Targets() {
		if t.Name != e.Node {
			continue
		}
		if t.Claim != nil && !t.Initialized {
			q.describe(a, t)
			return true
		}
		break
	}
	a.Code, a.RoomOn = reason.SchedulerDisagrees, e.Node
	return true
}

// heldOnNode refines NotPending for a pod that has a node but does not start there: what an event says holds it is the answer.
func (q *inquiry) heldOnNode(a *PendingAnswer) {
	if q.pod.Node == "" || q.pod.Ready || q.pod.Terminal() {
		return
	}
	for _, e := range q.facts.about("Pod", q.pod.Namespace, q.pod.Name, "FailedCreatePodSandBox", "FailedAttachVolume", "FailedMount") {
		code, layer := reason.Code(""), reason.Request
		switch text := strings.ToLower(e.Message); {
		case strings.Contains(text, "failed to assign an ip address"):
			code, layer = reason.OutOfIPs, reason.Offering
		case strings.Contains(text, "startup taint") || strings.Contains(text, "cni plugin not initialized"):
			code, layer = reason.NotInitializing, reason.Launch
		}
		if code != "" {
			a.Code, a.Layer, a.Certainty = code, layer, reason.Observed
			a.Records = append(a.Records, reason.Record{Object: e.Object, Reason: e.Reason, Message: e.Message, At: e.Last})
			return
		}
	}
}
