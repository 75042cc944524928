package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/disrupt"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// disruption is the loop that removes or replaces nodes which are empty, drifted, or dearer than they need be (disruption rules 2). It decides,
// waits, looks again, and hands what still holds to the commands, which carry it out beside it.
type disruption struct {
	*shared
	commands *commands
	// decided are commands that wait for their second look, due at the time given; from is the method they are of.
	decided []plan.Command
	due     time.Time
	// turn counts passes, for clusters that are not searched through in one.
	turn int
	// idle is what could be found nowhere in a snapshot of this digest.
	idle   []plan.Method
	digest cluster.Digest
	forced time.Time
}

// Times of the loop (disruption rules 29).
const (
	disruptIdle       = 10 * time.Second
	disruptUnsynced   = time.Second
	disruptValidation = 15 * time.Second
	disruptAgain      = time.Millisecond
	disruptForced     = 5 * time.Minute
	// expectation is how long the cache may take to show our own taints before a command is withdrawn.
	expectation = 10 * time.Second
)

// Step makes one pass.
func (l *disruption) Step(ctx context.Context) (time.Duration, error) {
	s, err := l.look(ctx)
	switch {
	case errors.Is(err, kube.ErrNotSynced):
		return disruptUnsynced, nil
	case err != nil:
		return disruptIdle, err
	}
	if err := l.commands.adopt(ctx); err != nil {
		return disruptUnsynced, err
	}
	if err := l.heal(ctx, s); err != nil {
		return conflictRetry, err
	}
	if len(l.decided) > 0 {
		if left := l.due.Sub(l.clock.Now()); left > 0 {
			return min(left, disruptUnsynced), nil
		}
		return l.validate(ctx, s)
	}
	return l.decide(ctx, s, "")
}

func (l *disruption) look(ctx context.Context) (*cluster.Snapshot, error) {
	s, err := l.feed.Snapshot(ctx, l.clock.Now())
	if err != nil && !errors.Is(err, kube.ErrNotSynced) {
		err = fmt.Errorf("observing the cluster: %w", err)
	}
	return s, err
}

// decide asks the engine for commands, beginning with a method, and starts those of drift; others wait for their second look.
func (l *disruption) decide(ctx context.Context, s *cluster.Snapshot, from plan.Method) (time.Duration, error) {
	begun := l.clock.Now()
	o := disrupt.Options{From: from, Turn: l.turn}
	if s.Digest() == l.digest && begun.Before(l.forced) {
		o.Skip = l.idle
	}
	d := engine.Disrupt(s, o)
	l.turn++
	l.report(&d, l.clock.Since(begun))
	if len(d.Commands) == 0 {
		if s.Digest() != l.digest || !begun.Before(l.forced) {
			l.idle, l.digest, l.forced = d.Exhausted, s.Digest(), begun.Add(disruptForced)
		}
		return disruptIdle, nil
	}
	if !awaits(d.Commands[0].Method) {
		return disruptAgain, l.start(ctx, d.Commands)
	}
	for i := range d.Commands {
		c := &d.Commands[i]
		for j := range c.Candidates {
			l.tell(&c.Candidates[j], "ConsolidationCandidate", fmt.Sprintf("%s of %s is planned, which saves $%.2f an hour", c.Decision(), many(len(c.Candidates), "node"), c.Saving.Dollars()), c.ID)
		}
	}
	l.decided, l.due = d.Commands, l.clock.Now().Add(disruptValidation)
	return disruptUnsynced, nil
}

// awaits reports whether commands of a method are looked at twice (disruption rules 16).
func awaits(m plan.Method) bool { return m == plan.Emptiness || m.Consolidates() }

// validate is the second look. What still holds is started; if nothing does, the pass goes on with the next method.
func (l *disruption) validate(ctx context.Context, s *cluster.Snapshot) (time.Duration, error) {
	planned := l.decided
	l.decided = nil
	var holding []plan.Command
	for i, c := range engine.RecheckDisruption(s, planned...) {
		if c.Failed > 0 {
			l.metrics.Disruption.FailedValidations.WithLabelValues(planned[i].Method.ConsolidationType()).Add(float64(c.Failed))
		}
		if c.OK {
			holding = append(holding, c.Command)
			continue
		}
		for j := range planned[i].Candidates {
			x := &planned[i].Candidates[j]
			l.tell(x, "ConsolidationRejected", fmt.Sprintf("%s of %s does not hold any more (%s), which would have saved $%.2f an hour",
				planned[i].Decision(), many(len(planned[i].Candidates), "node"), c.Cause, planned[i].Saving.Dollars()), planned[i].ID, string(c.Cause))
		}
	}
	if len(holding) > 0 {
		return disruptAgain, l.start(ctx, holding)
	}
	methods := plan.Methods()
	if next := slices.Index(methods, planned[0].Method) + 1; next < len(methods) {
		return l.decide(ctx, s, methods[next])
	}
	return disruptIdle, nil
}

// start hands commands over. One that cannot be started does not hold up the others.
func (l *disruption) start(ctx context.Context, list []plan.Command) error {
	if err := l.fence.Check(); err != nil {
		return err
	}
	var errs []error
	for i := range list {
		if err := l.commands.start(ctx, list[i]); err != nil {
			errs = append(errs, fmt.Errorf("%s of %s: %w", list[i].Decision(), names(list[i].Candidates), err))
		}
	}
	return errors.Join(errs...)
}

// heal removes the signs of disruption that no command stands behind (disruption rules 2, step 3).
func (l *disruption) heal(ctx context.Context, s *cluster.Snapshot) error {
	var errs []error
	for _, a := range disrupt.Heal(s) {
		if l.commands.holds(a.Claim) {
			continue // it is being started
		}
		if err := l.clear(ctx, a.Node, a.Claim); err != nil && !apierrors.IsConflict(err) { // a conflict is a newer state, for the next pass
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// clear takes the signs of a disruption from a node and its claim.
func (s *shared) clear(ctx context.Context, node, claim string) error {
	var n corev1.Node
	err := s.client.Get(ctx, types.NamespacedName{Name: node}, &n)
	if err == nil && n.DeletionTimestamp == nil {
		err = s.untaint(ctx, &n)
	}
	var c karpv1.NodeClaim
	claimErr := s.client.Get(ctx, types.NamespacedName{Name: claim}, &c)
	if claimErr == nil && c.DeletionTimestamp == nil {
		claimErr = s.undisrupt(ctx, &c)
	}
	if err = client.IgnoreNotFound(err); err != nil {
		return err
	}
	return client.IgnoreNotFound(claimErr)
}

// report tells the world what a decision has seen: metrics, and events about nodes that stay.
func (l *disruption) report(d *plan.Disruption, took time.Duration) {
	m := &l.metrics.Disruption
	last := plan.Emptiness
	for _, e := range d.Eligible {
		m.Eligible.WithLabelValues(strings.ToLower(e.Method.Reason())).Set(float64(e.Nodes))
		last = e.Method
	}
	m.Evaluation.WithLabelValues(strings.ToLower(last.Reason()), last.ConsolidationType()).Observe(took.Seconds())
	for _, b := range d.Pools {
		m.Allowed.WithLabelValues(b.Pool, b.Reason).Set(float64(b.Allowed))
		m.Consuming.WithLabelValues(b.Pool, b.Reason).Set(float64(b.Disrupting))
		if b.Blocked() {
			pool := &karpv1.NodePool{TypeMeta: metav1.TypeMeta{APIVersion: karpv1.GroupVersion().String(), Kind: karpv1.NodePoolKind}, ObjectMeta: metav1.ObjectMeta{Name: b.Pool, UID: types.UID(b.UID)}}
			l.events.NormalEvery(time.Minute, pool, "DisruptionBlocked", "No allowed disruptions for disruption reason "+b.Reason+" due to blocking budget", b.Reason)
		}
	}
	for _, p := range d.Malformed {
		l.log.Error("a budget cannot be evaluated, so its pool allows no disruption", telemetry.Pool(p.Pool), "detail", p.Detail)
	}
	for _, move := range d.Scored {
		l.scored(&move)
	}
	for i := range d.Objections {
		l.object(&d.Objections[i])
	}
	if len(d.Commands) > 0 {
		l.log.Debug("decided to disrupt", "commands", len(d.Commands), "method", d.Commands[0].Method, telemetry.Duration(took), telemetry.Decision(d.Digest))
	}
}

func (l *disruption) scored(move *plan.Move) {
	verdict := "rejected"
	if move.Approved {
		verdict = "approved"
	}
	for _, score := range move.Scores {
		l.metrics.Disruption.Moves.WithLabelValues(verdict, score.Pool, "balanced").Inc()
		if !score.Infinite {
			l.metrics.Disruption.Score.WithLabelValues(verdict, score.Pool, "balanced").Observe(score.Value)
		}
	}
}

// unconsolidatableWindow is how often a node is told that it cannot be consolidated (disruption rules 27).
const unconsolidatableWindow = 15 * time.Minute

func (l *disruption) object(o *plan.Objection) {
	if o.Event == "" {
		return
	}
	window, text := eventWindow, string(o.Code)
	if o.Event == "Unconsolidatable" {
		window = unconsolidatableWindow
	}
	if o.Detail != "" {
		text += ": " + o.Detail
	}
	for _, obj := range objectsOf(o.Node, o.NodeUID, o.Claim, o.ClaimUID) {
		l.events.NormalEvery(window, obj, o.Event, text)
	}
}

// tell publishes an event about a candidate's node and claim.
func (s *shared) tell(c *plan.Candidate, reason, text string, key ...string) {
	for _, obj := range objectsOf(c.Node, c.NodeUID, c.Claim, c.ClaimUID) {
		s.events.Normal(obj, reason, text, key...)
	}
}

// objectsOf are a node and a claim as far as events need them.
func objectsOf(node, nodeUID, claim, claimUID string) []client.Object {
	var out []client.Object
	if node != "" {
		out = append(out, &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID(nodeUID)}})
	}
	if claim != "" {
		out = append(out, &karpv1.NodeClaim{
			TypeMeta:   metav1.TypeMeta{APIVersion: karpv1.GroupVersion().String(), Kind: karpv1.NodeClaimKind},
			ObjectMeta: metav1.ObjectMeta{Name: claim, UID: types.UID(claimUID)},
		})
	}
	return out
}

func names(list []plan.Candidate) string {
	const most = 5
	var out []string
	for i := range list {
		if i == most {
			return strings.Join(out, ", ") + fmt.Sprintf(" and %d more", len(list)-most)
		}
		out = append(out, list[i].Node)
	}
	return strings.Join(out, ", ")
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
