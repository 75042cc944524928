package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/disrupt"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// commands carry out what the loop of disruption has decided: taint, look again, record, launch, wait, delete (disruption rules 21). Each command
// has a life of its own; one that waits or fails does not hold up the others. What is promised is recorded on the candidates' claims, so that a new
// leader goes on with it or takes it back.
type commands struct {
	*shared
	// create makes a replacement claim.
	create func(ctx context.Context, c *plan.Claim, decision, reason string) (*karpv1.NodeClaim, error)

	mu      sync.Mutex
	running map[string]*command
	// starting are claims whose nodes are being tainted, before anything is recorded.
	starting map[string]bool
	adopted  bool
}

// command is one that was recorded.
type command struct {
	promise
	ID string
	// ready are replacements that were initialized once.
	ready map[string]bool
	// withdrawn tells that the command is being taken back, which is tried until it succeeds.
	withdrawn bool
}

// promise is what a candidate's intent says about its command, enough to go on with it.
type promise struct {
	Method plan.Method `json:"method"`
	// Candidates are all of the command's. Replacements is their number; their names are those of the claims made for the decision.
	Candidates   []target  `json:"candidates"`
	Replacements int       `json:"replacements"`
	Created      time.Time `json:"created"`
}

type target struct {
	Claim    string `json:"claim"`
	ClaimUID string `json:"claimUID"`
	Node     string `json:"node"`
	NodeUID  string `json:"nodeUID"`
	Pool     string `json:"pool"`
}

// Deadlines of commands (disruption rules 21.2).
const (
	commandPeriod      = time.Second
	deadlinePerNode    = 80 * time.Millisecond
	deadlineLeast      = 10 * time.Minute
	deadlineMost       = time.Hour
	commandNomination  = 20 * time.Second
	expectationPolling = 20 * time.Millisecond
)

func newCommands(s *shared, create func(context.Context, *plan.Claim, string, string) (*karpv1.NodeClaim, error)) *commands {
	return &commands{shared: s, create: create, running: map[string]*command{}, starting: map[string]bool{}}
}

// holds reports whether a claim is a candidate of a command that runs or is being started.
func (q *commands) holds(claim string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.starting[claim] || q.held(claim)
}

func (q *commands) held(claim string) bool {
	for _, c := range q.running {
		if slices.ContainsFunc(c.Candidates, func(t target) bool { return t.Claim == claim }) {
			return true
		}
	}
	return false
}

// occupy reserves the claims of a command that is being started.
func (q *commands) occupy(c *plan.Command) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range c.Candidates {
		if name := c.Candidates[i].Claim; q.starting[name] || q.held(name) {
			return fmt.Errorf("claim %s is part of another command", name)
		}
	}
	for i := range c.Candidates {
		q.starting[c.Candidates[i].Claim] = true
	}
	return nil
}

func (q *commands) release(c *plan.Command) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range c.Candidates {
		delete(q.starting, c.Candidates[i].Claim)
	}
}

// start taints the candidates, looks again once the cache shows it, records the command and launches its replacements.
func (q *commands) start(ctx context.Context, planned plan.Command) error {
	if err := q.occupy(&planned); err != nil {
		return err
	}
	defer q.release(&planned)
	marked, err := q.mark(ctx, &planned)
	if err != nil && (len(planned.Replacements) > 0 || len(marked) == 0) {
		return errors.Join(err, q.unmark(ctx, marked))
	}
	c := planned
	c.Candidates = marked
	s, err := q.expect(ctx, marked)
	if err != nil {
		return errors.Join(err, q.unmark(ctx, marked))
	}
	checked := disrupt.Preflight(s, c)
	for _, d := range checked.Dropped {
		q.log.Info("not disrupting", telemetry.Node(d.Candidate.Node), "reason", d.Code, "detail", d.Detail)
		q.tell(&d.Candidate, "DisruptionBlocked", strings.TrimSuffix(string(d.Code)+": "+d.Detail, ": "))
	}
	if !checked.OK {
		return q.unmark(ctx, marked)
	}
	c = checked.Command
	if err := q.unmark(ctx, without(marked, c.Candidates)); err != nil {
		return errors.Join(err, q.unmark(ctx, c.Candidates))
	}
	run, err := q.record(ctx, &c)
	if err != nil {
		return errors.Join(err, q.withdraw(ctx, run))
	}
	for i := range c.Replacements {
		if err := q.launch(ctx, &c, i); err != nil {
			return errors.Join(err, q.withdraw(ctx, run))
		}
	}
	q.run(run, &c)
	return nil
}

// run lets the command live: its candidates are on their way out from now on.
func (q *commands) run(run *command, c *plan.Command) {
	q.mu.Lock()
	q.running[run.ID] = run
	q.mu.Unlock()
	for _, t := range run.Candidates {
		q.feed.Mark(t.Claim, true)
	}
	until := q.clock.Now().Add(commandNomination)
	for _, p := range c.Placements {
		q.feed.Nominate(until, p.Node, p.Claim)
	}
	why := []string{c.Decision(), strings.ToLower(c.Method.Reason()), c.Method.ConsolidationType()}
	q.metrics.Disruption.Decisions.WithLabelValues(why...).Inc()
	for _, pool := range c.Pools() {
		q.metrics.Disruption.DecisionsByPool.WithLabelValues(append([]string{pool}, why...)...).Inc()
	}
	q.log.Info("disrupting node(s)", "command-id", run.ID, "reason", why[1], "decision", why[0], "disrupted-node-count", len(c.Candidates),
		"replacement-node-count", len(c.Replacements), "nodes", names(c.Candidates), "saving", c.Saving.Dollars())
}

// mark taints the nodes of the candidates and says on their claims why. It returns those that it could mark.
func (q *commands) mark(ctx context.Context, c *plan.Command) ([]plan.Candidate, error) {
	var (
		group sync.WaitGroup
		errs  = make([]error, len(c.Candidates))
		slots = make(chan struct{}, createWorkers)
	)
	for i := range c.Candidates {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			errs[i] = q.markOne(ctx, &c.Candidates[i], c.Method)
		})
	}
	group.Wait()
	var out []plan.Candidate
	for i := range c.Candidates {
		if errs[i] == nil {
			out = append(out, c.Candidates[i])
		}
	}
	return out, errors.Join(errs...)
}

func (q *commands) markOne(ctx context.Context, c *plan.Candidate, m plan.Method) error {
	var n corev1.Node
	if err := q.client.Get(ctx, types.NamespacedName{Name: c.Node}, &n); err != nil {
		return fmt.Errorf("reading node %s: %w", c.Node, err)
	}
	if string(n.UID) != c.NodeUID {
		return fmt.Errorf("node %s is another one now", c.Node)
	}
	taint := karpv1.DisruptedTaint()
	if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		base := n.DeepCopy()
		n.Spec.Taints = append(n.Spec.Taints, taint)
		if err := q.patch(ctx, &n, base); err != nil {
			return fmt.Errorf("tainting node %s: %w", c.Node, err)
		}
		q.log.Debug("tainted node", telemetry.Node(c.Node))
		q.feed.Put(&n)
	}
	claim, err := q.claim(ctx, c.Claim, c.ClaimUID)
	if err != nil || claim == nil {
		return errors.Join(err, notThere(claim, c.Claim), q.clear(ctx, c.Node, c.Claim))
	}
	base := claim.DeepCopy()
	why := m.Reason()
	setClaim(claim, q.clock.Now(), lifecycle.Condition{Type: lifecycle.DisruptionReason, Status: lifecycle.True, Reason: why, Message: why})
	if err := q.patchStatus(ctx, claim, base); err != nil {
		return errors.Join(fmt.Errorf("marking claim %s: %w", c.Claim, err), q.clear(ctx, c.Node, c.Claim))
	}
	q.feed.Put(claim)
	return nil
}

func notThere(c *karpv1.NodeClaim, name string) error {
	if c == nil {
		return fmt.Errorf("claim %s is gone", name)
	}
	return nil
}

// claim reads a claim past the cache; nil if it is gone, or another one has its name.
func (q *commands) claim(ctx context.Context, name, uid string) (*karpv1.NodeClaim, error) {
	var c karpv1.NodeClaim
	err := q.live.Get(ctx, types.NamespacedName{Name: name}, &c)
	if apierrors.IsNotFound(err) || err == nil && string(c.UID) != uid {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading claim %s: %w", name, err)
	}
	return &c, nil
}

// unmark takes the marks back. What fails here is healed by a later pass.
func (q *commands) unmark(ctx context.Context, list []plan.Candidate) error {
	var errs []error
	for i := range list {
		errs = append(errs, q.clear(ctx, list[i].Node, list[i].Claim))
	}
	return errors.Join(errs...)
}

func without(all, kept []plan.Candidate) []plan.Candidate {
	return slices.DeleteFunc(slices.Clone(all), func(c plan.Candidate) bool {
		return slices.ContainsFunc(kept, func(k plan.Candidate) bool { return k.Claim == c.Claim })
	})
}

// expect waits until the cache itself shows the taints, so that it also shows every pod that came to these nodes before them (reliability rule 7).
func (q *commands) expect(ctx context.Context, list []plan.Candidate) (*cluster.Snapshot, error) {
	for begun := q.clock.Now(); ; {
		seen := true
		for i := range list {
			seen = seen && q.feed.Seen(types.UID(list[i].NodeUID)) && q.feed.Seen(types.UID(list[i].ClaimUID))
		}
		if seen {
			s, err := q.feed.Snapshot(ctx, q.clock.Now())
			if err != nil || tainted(s, list) {
				return s, err
			}
		}
		if q.clock.Since(begun) > expectation {
			return nil, fmt.Errorf("the cache does not show the taints after %s; withdrawing", expectation)
		}
		if !pause(ctx, expectationPolling) {
			return nil, ctx.Err()
		}
	}
}

func tainted(s *cluster.Snapshot, list []plan.Candidate) bool {
	left := map[string]bool{}
	for i := range list {
		left[list[i].NodeUID] = true
	}
	for _, n := range s.Nodes {
		if left[n.UID] && slices.ContainsFunc(n.Taints, func(t constraint.Taint) bool {
			return t.Key == lifecycle.DisruptedTaint && t.Effect == constraint.NoSchedule
		}) {
			delete(left, n.UID)
		}
	}
	return len(left) == 0
}

// record writes the intents: first on the pools, so that of two leaders only one spends the last unit of a budget, then on every claim.
func (q *commands) record(ctx context.Context, c *plan.Command) (*command, error) {
	run := &command{ID: c.ID, ready: map[string]bool{}, promise: promise{Method: c.Method, Replacements: len(c.Replacements), Created: q.clock.Now()}}
	for i := range c.Candidates {
		x := &c.Candidates[i]
		run.Candidates = append(run.Candidates, target{Claim: x.Claim, ClaimUID: x.ClaimUID, Node: x.Node, NodeUID: x.NodeUID, Pool: x.Pool})
	}
	if err := q.fence.Check(); err != nil {
		return run, err
	}
	for _, pool := range c.Pools() {
		if err := q.claimBudget(ctx, pool, c.ID); err != nil {
			return run, err
		}
	}
	request, err := json.Marshal(run.promise)
	if err != nil {
		return run, fmt.Errorf("recording command %s: %w", c.ID, err)
	}
	for _, t := range run.Candidates {
		intent := lifecycle.Intent{Kind: lifecycle.IntentDisrupt, Claim: t.ClaimUID, Decision: c.ID, Request: request, Epoch: q.fence.Epoch()}
		if err := q.write(ctx, t, &intent); err != nil {
			return run, err
		}
	}
	return run, nil
}

// claimBudget notes the command on its pool, on condition that nobody has written to the pool since we read it (reliability rule 8).
func (q *commands) claimBudget(ctx context.Context, name, command string) error {
	var pool karpv1.NodePool
	if err := q.client.Get(ctx, types.NamespacedName{Name: name}, &pool); err != nil {
		return fmt.Errorf("reading pool %s: %w", name, err)
	}
	base := pool.DeepCopy()
	if pool.Annotations == nil {
		pool.Annotations = map[string]string{}
	}
	pool.Annotations[karpv1.DisruptionAnnotation] = command + "/" + strconv.FormatInt(q.fence.Epoch(), 10)
	if err := q.patch(ctx, &pool, base); err != nil {
		return fmt.Errorf("taking from the budget of pool %s: %w", name, err)
	}
	return nil
}

// write sets the intent of a claim, nil to remove it. A claim that is gone has none.
func (q *commands) write(ctx context.Context, t target, intent *lifecycle.Intent) error {
	c, err := q.claim(ctx, t.Claim, t.ClaimUID)
	if err != nil || c == nil {
		if intent != nil {
			err = errors.Join(err, notThere(c, t.Claim))
		}
		return err
	}
	base := c.DeepCopy()
	if intent != nil {
		c.Annotations = merged(mapOf(c.Annotations), map[string]string{lifecycle.IntentAnnotation: intent.String()})
	} else {
		have, err := lifecycle.ParseIntent(c.Annotations[lifecycle.IntentAnnotation])
		if err != nil || have == nil || have.Kind != lifecycle.IntentDisrupt {
			return err
		}
		c.Annotations = mapOf(c.Annotations)
		delete(c.Annotations, lifecycle.IntentAnnotation)
	}
	if err := q.patch(ctx, c, base); err != nil {
		return fmt.Errorf("recording on claim %s: %w", t.Claim, err)
	}
	q.feed.Put(c)
	return nil
}

// launch creates one replacement.
func (q *commands) launch(ctx context.Context, c *plan.Command, i int) error {
	made, err := q.create(ctx, &c.Replacements[i], replacement(c.ID, i), strings.ToLower(c.Method.Reason()))
	if err != nil {
		return err
	}
	q.feed.Put(made)
	return nil
}

// replacement is the decision that the i-th replacement of a command is made for.
func replacement(command string, i int) string { return command + "/replacement/" + strconv.Itoa(i) }

// adopt takes over, once, what an earlier leader has recorded: a command all of whose candidates say so and all of whose replacements exist goes
// on; any other is taken back, and its replacements stay as ordinary nodes.
func (q *commands) adopt(ctx context.Context) error {
	if q.adopted {
		return nil
	}
	if err := q.rollback(ctx); err != nil {
		return err
	}
	var list karpv1.NodeClaimList
	if err := q.live.List(ctx, &list); err != nil {
		return fmt.Errorf("listing claims: %w", err)
	}
	found, recorded, made := map[string]*command{}, map[string]int{}, map[string]int{}
	for i := range list.Items {
		c := &list.Items[i]
		intent, err := lifecycle.ParseIntent(c.Annotations[lifecycle.IntentAnnotation])
		if err != nil || intent == nil {
			continue
		}
		if id, _, ok := strings.Cut(intent.Decision, "/replacement/"); ok {
			made[id]++
		}
		if intent.Of(string(c.UID)) == nil || intent.Kind != lifecycle.IntentDisrupt || intent.Outcome != lifecycle.OutcomeUnknown {
			continue
		}
		var r promise
		if err := json.Unmarshal(intent.Request, &r); err != nil {
			q.log.Error("an intent cannot be read; taking it back", telemetry.Claim(c.Name), "error", err)
			r = promise{Candidates: []target{{Claim: c.Name, ClaimUID: string(c.UID), Node: c.Status.NodeName}}, Replacements: -1}
		}
		recorded[intent.Decision]++
		found[intent.Decision] = &command{ID: intent.Decision, promise: r, ready: map[string]bool{}}
	}
	var errs []error
	for id, c := range found {
		if (recorded[id] < len(c.Candidates) || made[id] < c.Replacements || c.Replacements < 0) && !q.begun(list.Items, c) {
			errs = append(errs, q.withdraw(ctx, c))
			continue
		}
		q.log.Info("going on with a disruption", "command-id", id, "nodes", len(c.Candidates))
		q.mu.Lock()
		q.running[id] = c
		q.mu.Unlock()
		for _, t := range c.Candidates {
			q.feed.Mark(t.Claim, true)
		}
	}
	q.adopted = true
	return errors.Join(errs...)
}

// begun reports whether some candidate of the command was deleted already: then all its replacements were ready.
func (q *commands) begun(list []karpv1.NodeClaim, c *command) bool {
	for _, t := range c.Candidates {
		i := slices.IndexFunc(list, func(x karpv1.NodeClaim) bool { return string(x.UID) == t.ClaimUID })
		if i < 0 || list[i].DeletionTimestamp != nil {
			return c.Replacements >= 0
		}
	}
	return false
}

// Step looks after all running commands (disruption rules 21.2).
func (q *commands) Step(ctx context.Context) (time.Duration, error) {
	q.mu.Lock()
	var list []*command
	held := 0
	for _, c := range q.running {
		list = append(list, c)
		held += len(c.Candidates)
	}
	q.mu.Unlock()
	slices.SortFunc(list, func(a, b *command) int { return strings.Compare(a.ID, b.ID) })
	limit := min(max(time.Duration(held)*deadlinePerNode, deadlineLeast), deadlineMost)
	var errs []error
	for _, c := range list {
		if c.withdrawn {
			errs = append(errs, q.withdraw(ctx, c))
			continue
		}
		done, err := q.progress(ctx, c)
		var lost *replacementLost
		switch {
		case done:
			q.end(c)
		case errors.As(err, &lost) || q.clock.Since(c.Created) > limit:
			q.log.Info("withdrawing a disruption", "command-id", c.ID, "error", err)
			q.metrics.Disruption.QueueFailures.WithLabelValues(c.decision(), strings.ToLower(c.Method.Reason()), c.decision()).Add(float64(max(c.Replacements-len(c.ready), 1)))
			errs = append(errs, q.withdraw(ctx, c))
		case err != nil:
			errs = append(errs, err)
		}
	}
	return commandPeriod, errors.Join(errs...)
}

func (c *command) decision() string {
	if c.Replacements > 0 {
		return "replace"
	}
	return "delete"
}

// replacementLost says that a command cannot be completed any more.
type replacementLost struct{ command string }

func (e *replacementLost) Error() string { return "a replacement is gone" }

// progress reports whether the command has done its work: its replacements are ready and its candidates deleted.
func (q *commands) progress(ctx context.Context, c *command) (bool, error) {
	if err := q.fence.Check(); err != nil {
		return false, err
	}
	ready, err := q.replaced(ctx, c)
	if err != nil || !ready {
		return false, err
	}
	var errs []error
	for _, t := range c.Candidates {
		errs = append(errs, q.remove1(ctx, c, t))
	}
	err = errors.Join(errs...)
	return err == nil, err
}

// replaced reports whether all replacements have been initialized.
func (q *commands) replaced(ctx context.Context, c *command) (bool, error) {
	if len(c.ready) >= c.Replacements {
		return true, nil
	}
	var list karpv1.NodeClaimList
	if err := q.client.List(ctx, &list); err != nil {
		return false, err
	}
	found := 0
	for i := range list.Items {
		r := &list.Items[i]
		intent, err := lifecycle.ParseIntent(r.Annotations[lifecycle.IntentAnnotation])
		if err != nil || intent == nil || !strings.HasPrefix(intent.Decision, c.ID+"/replacement/") || r.DeletionTimestamp != nil {
			continue
		}
		found++
		q.feed.Nominate(q.clock.Now().Add(commandNomination), r.Status.NodeName, r.Name)
		q.events.Normal(r, "DisruptionLaunching", "Launching NodeClaim: "+c.Method.Reason(), c.Method.Reason())
		if statusOf(findCondition(r.Status.Conditions, lifecycle.Initialized)) == lifecycle.True {
			c.ready[r.Name] = true
		} else if !c.ready[r.Name] {
			q.events.Normal(r, "DisruptionWaitingReadiness", "Waiting on readiness to continue disruption")
		}
	}
	if found < c.Replacements && q.clock.Since(c.Created) > expectation {
		return false, &replacementLost{c.ID}
	}
	return len(c.ready) >= c.Replacements, nil
}

// remove1 deletes the claim of one candidate.
func (q *commands) remove1(ctx context.Context, run *command, t target) error {
	c, err := q.claim(ctx, t.Claim, t.ClaimUID)
	if err != nil || c == nil || c.DeletionTimestamp != nil {
		return err
	}
	removed, err := q.remove(ctx, c)
	if err != nil {
		return fmt.Errorf("deleting claim %s: %w", t.Claim, err)
	}
	if removed {
		why := run.Method.Reason()
		for _, obj := range objectsOf(t.Node, t.NodeUID, t.Claim, t.ClaimUID) {
			q.events.Normal(obj, "DisruptionTerminating", "Disrupting Node: "+why, why)
		}
		q.countDisrupted(ctx, c, strings.ToLower(why))
	}
	return nil
}

// end forgets a command that is done. Its candidates stay marked until they are gone.
func (q *commands) end(c *command) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.running, c.ID)
}

// withdraw takes a command back: intents, taints, conditions, marks. Replacements that exist become ordinary nodes.
func (q *commands) withdraw(ctx context.Context, c *command) error {
	c.withdrawn = true
	var errs []error
	for _, t := range c.Candidates {
		err := q.write(ctx, t, nil)
		if err == nil {
			err = q.clear(ctx, t.Node, t.Claim)
		}
		if err == nil {
			q.feed.Mark(t.Claim, false)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		// What is still recorded is tried again.
		q.mu.Lock()
		q.running[c.ID] = c
		q.mu.Unlock()
		return err
	}
	q.end(c)
	return nil
}
