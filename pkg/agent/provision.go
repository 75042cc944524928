package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/plan"
)

// snapshots yields the cluster as it stands.
type snapshots interface {
	Snapshot(ctx context.Context) (*cluster.Snapshot, error)
}

// provisioner is the loop that gives pending pods nodes: it collects triggers, decides on a snapshot, rechecks on a newer one, and creates
// claims (scheduling rules 1).
type provisioner struct {
	*shared
	snapshots snapshots
	verdicts  *verdicts

	mu     sync.Mutex
	window lifecycle.Window
	wake   chan struct{}

	// expected are claims we created that a snapshot has to show before the next decision, by UID.
	expected map[string]types.NamespacedName
	// gated tells that a write's outcome is open, so that the cache has to catch up with the API server first.
	gated bool
}

// Intervals of the provisioner.
const (
	gateRetry     = 200 * time.Millisecond
	expectRetry   = 25 * time.Millisecond
	expectPatient = 10 * time.Second
	createWorkers = 10
)

func newProvisioner(s *shared, source snapshots, v *verdicts) *provisioner {
	return &provisioner{
		shared: s, snapshots: source, verdicts: v, wake: make(chan struct{}, 1), gated: true, expected: map[string]types.NamespacedName{},
		window: lifecycle.Window{Idle: s.cfg.BatchIdleDuration, Max: s.cfg.BatchMaxDuration},
	}
}

// Trigger asks for a pass. It never blocks, and a trigger during a pass is not lost.
func (l *provisioner) Trigger(uid string) {
	l.mu.Lock()
	l.window.Trigger(uid, l.clock.Now())
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// NeedLeaderElection tells the manager that only the leader provisions.
func (l *provisioner) NeedLeaderElection() bool { return true }

// Start runs passes until the context ends. Passes never overlap.
func (l *provisioner) Start(ctx context.Context) error {
	for l.collect(ctx) {
		if err := l.pass(ctx); err != nil && ctx.Err() == nil {
			l.log.Error("Reconciler error", "controller", "provisioner", "error", err)
			pause(ctx, time.Second)
			l.Trigger("failed pass")
		}
	}
	return nil
}

// collect waits until a window has opened and closed; false means that the context has ended.
func (l *provisioner) collect(ctx context.Context) bool {
	for {
		l.mu.Lock()
		open, left := l.window.Open(), time.Duration(0)
		if open {
			if left = l.window.Left(l.clock.Now()); left <= 0 {
				l.window.Close()
				l.mu.Unlock()
				return ctx.Err() == nil
			}
		}
		l.mu.Unlock()
		var timer <-chan time.Time
		if open {
			timer = time.After(left)
		}
		select {
		case <-ctx.Done():
			return false
		case <-l.wake:
		case <-timer:
		}
	}
}

// pass makes one decision and carries it out.
func (l *provisioner) pass(ctx context.Context) error {
	s, err := l.observe(ctx)
	if err != nil {
		return err
	}
	begun := l.clock.Now()
	decided := engine.Decide(s, engine.Policy{})
	l.verdicts.Record(s, &decided)
	l.explain(ctx, &decided)
	if len(decided.Claims) == 0 {
		return l.hint(ctx, s, &decided)
	}
	l.log.Info("computed new nodeclaim(s) to fit pod(s)", "nodeclaims", len(decided.Claims), "pods", planned(&decided), "duration", l.clock.Since(begun).String())
	newer, err := l.observe(ctx)
	if err != nil {
		return err
	}
	checked, dropped := engine.Recheck(newer, decided)
	for _, d := range dropped {
		l.log.Debug("dropped from the plan", "claim", d.Claim, "pod", d.Pod, "reason", d.Code, "detail", d.Detail)
	}
	return errors.Join(l.create(ctx, &checked), l.hint(ctx, newer, &checked))
}

func planned(p *plan.Plan) int {
	n := 0
	for i := range p.Claims {
		n += len(p.Claims[i].Pods)
	}
	return n
}

// observe returns a snapshot that shows everything we know to exist: all claims and nodes of the API server at the first time and after a
// write whose outcome is open, and every claim we created since (scheduling rules 1.3).
func (l *provisioner) observe(ctx context.Context) (*cluster.Snapshot, error) {
	for begun := l.clock.Now(); ; {
		s, err := l.snapshots.Snapshot(ctx)
		if err != nil {
			return nil, fmt.Errorf("observing the cluster: %w", err)
		}
		missing, wait := l.unseen(s), expectRetry
		if missing == "" && l.gated {
			if missing, err = l.gate(ctx, s); err != nil {
				return nil, err
			}
			wait = gateRetry
			l.gated = missing != ""
		}
		if missing == "" {
			return s, nil
		}
		if l.clock.Since(begun) > expectPatient {
			begun = l.clock.Now()
			l.log.Error("cluster is waiting on sync for extended duration", "missing", missing)
			if err := l.reconsider(ctx); err != nil {
				return nil, err
			}
		}
		if !pause(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}

// unseen names a claim we created that the snapshot does not show yet. What it shows is expected no more.
func (l *provisioner) unseen(s *cluster.Snapshot) string {
	if len(l.expected) == 0 {
		return ""
	}
	for _, c := range s.Claims {
		delete(l.expected, c.UID)
	}
	for _, name := range l.expected {
		return "NodeClaim " + name.Name
	}
	return ""
}

// reconsider asks the API server about expected claims: one that was deleted before the cache saw it will never be seen.
func (l *provisioner) reconsider(ctx context.Context) error {
	for uid, name := range l.expected {
		var c karpv1.NodeClaim
		err := l.live.Get(ctx, name, &c)
		switch {
		case apierrors.IsNotFound(err) || err == nil && string(c.UID) != uid:
			delete(l.expected, uid)
		case err != nil:
			return fmt.Errorf("reading claim %s: %w", name.Name, err)
		}
	}
	return nil
}

// gate compares the snapshot with the API server and names a claim or node that it lacks.
func (l *provisioner) gate(ctx context.Context, s *cluster.Snapshot) (missing string, err error) {
	known := make(map[string]bool, len(s.Claims)+len(s.Nodes))
	for _, c := range s.Claims {
		known[c.UID] = true
	}
	for _, n := range s.Nodes {
		known[n.UID] = true
	}
	var list karpv1.NodeClaimList
	if err := l.live.List(ctx, &list); err != nil {
		return "", fmt.Errorf("listing claims: %w", err)
	}
	for _, c := range managedClaims(list.Items) {
		if !known[string(c.UID)] {
			return "NodeClaim " + c.Name, nil
		}
	}
	var nodeList corev1.NodeList
	if err := l.live.List(ctx, &nodeList); err != nil {
		return "", fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodeList.Items {
		if !known[string(nodeList.Items[i].UID)] {
			return "Node " + nodeList.Items[i].Name, nil
		}
	}
	return "", nil
}

// create creates the planned claims in parallel. One that fails does not stop the others.
func (l *provisioner) create(ctx context.Context, p *plan.Plan) error {
	if err := l.fence.Check(); err != nil {
		return err
	}
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		errs  []error
		slots = make(chan struct{}, createWorkers)
	)
	for i := range p.Claims {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			c, err := l.createClaim(ctx, &p.Claims[i], p.Digest+"/"+strconv.Itoa(i))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, err)
				l.gated = true
			default:
				l.expected[string(c.UID)] = types.NamespacedName{Name: c.Name}
				l.nominate(ctx, p.Claims[i].Pods, "nodeclaim/"+c.Name)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// pause waits and reports whether the context still lives.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
