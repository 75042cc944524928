package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/buffer"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// provisioner is the loop that gives pending pods nodes: it collects triggers, decides on a snapshot, rechecks on a newer one, and creates
// claims (scheduling rules 1).
type provisioner struct {
	*shared
	verdicts *verdicts
	// decided is told what each decision has found; nil tells nobody.
	decided func(p *plan.Plan, at time.Time)
	window  lifecycle.Window
	// gated tells that a write's outcome is open, or that this process has just started: the cache has to catch up with the API server first.
	gated bool
}

// Intervals of the provisioner.
const (
	gateRetry     = 100 * time.Millisecond
	gatePatience  = 30 * time.Second
	gateRepeat    = 10 * time.Second
	createWorkers = 10
)

func newProvisioner(s *shared, v *verdicts) *provisioner {
	return &provisioner{
		shared: s, verdicts: v, gated: true, window: lifecycle.Window{Idle: s.cfg.BatchIdleDuration, Max: s.cfg.BatchMaxDuration},
	}
}

// NeedLeaderElection tells the manager that only the leader provisions.
func (l *provisioner) NeedLeaderElection() bool { return true }

// Start runs passes until the context ends. Passes never overlap; a trigger during a pass opens the next window.
func (l *provisioner) Start(ctx context.Context) error {
	for l.collect(ctx) {
		if err := l.pass(ctx); err != nil && ctx.Err() == nil {
			l.log.Error("Reconciler error", "controller", "provisioner", "error", err)
			pause(ctx, time.Second)
			l.feed.Trigger("failed pass")
		}
	}
	return nil
}

// collect waits until a window has opened and closed; false means that the context has ended.
func (l *provisioner) collect(ctx context.Context) bool {
	for {
		now := l.clock.Now()
		for _, uid := range l.feed.Triggers() {
			l.window.Trigger(uid, now)
		}
		var timer <-chan time.Time
		if l.window.Open() {
			left := l.window.Left(now)
			if left <= 0 {
				l.window.Close()
				return ctx.Err() == nil
			}
			timer = time.After(left)
		}
		select {
		case <-ctx.Done():
			return false
		case <-l.feed.Wake():
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
	decided := stand(s, l.verdicts.Placements(), engine.Decide(s, engine.Policy{}))
	l.measure(s, &decided, l.clock.Since(begun))
	l.verdicts.Record(s, &decided)
	if l.decided != nil {
		l.decided(&decided, begun)
	}
	// Launches come first.
	defer l.explain(ctx, s, &decided)
	if err := l.hold(ctx, s, &decided); err != nil {
		// Telling how buffers stand must not keep pods waiting.
		l.log.Error("telling how capacity buffers stand", "error", err)
	}
	if len(decided.Claims) == 0 {
		return l.hint(ctx, s, &decided)
	}
	l.log.Info("computed new nodeclaim(s) to fit pod(s)", "nodeclaims", len(decided.Claims), "pods", planned(&decided), telemetry.Duration(l.clock.Since(begun)), telemetry.Decision(decided.Digest))
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

// measure writes what a decision took and left over to the metrics.
func (l *provisioner) measure(s *cluster.Snapshot, p *plan.Plan, took time.Duration) {
	virtual, ignored, left := buffer.Virtual(s), 0, 0
	for i := range p.Verdicts {
		_, fake := virtual[p.Verdicts[i].Pod]
		switch {
		case fake, p.Verdicts[i].Deferred(): // nobody waits for it, or it waits for a reservation
		case p.Verdicts[i].Ignored:
			ignored++
		default:
			left++
		}
	}
	l.metrics.Scheduling.WithLabelValues("provisioner").Observe(took.Seconds())
	l.metrics.IgnoredPods.Set(float64(ignored))
	l.metrics.UnschedulablePods.WithLabelValues("provisioner").Set(float64(left))
	l.metrics.StateNodes.Set(float64(len(s.Nodes)))
	l.metrics.StateSynced.Set(1)
}

func planned(p *plan.Plan) int {
	n := 0
	for i := range p.Claims {
		n += len(p.Claims[i].Pods)
	}
	return n
}

// observe returns a snapshot. At the first time, and after a write whose outcome is open, it waits until the snapshot shows all claims and nodes
// that the API server has (scheduling rules 1.3): what is in flight must not be planned again.
func (l *provisioner) observe(ctx context.Context) (*cluster.Snapshot, error) {
	begun := l.clock.Now()
	for said := begun.Add(gatePatience - gateRepeat); ; {
		s, err := l.feed.Snapshot(ctx, l.clock.Now())
		missing := ""
		switch {
		case errors.Is(err, kube.ErrNotSynced):
			missing = err.Error()
		case err != nil:
			return nil, fmt.Errorf("observing the cluster: %w", err)
		case l.gated:
			if missing, err = l.gate(ctx, s); err != nil {
				return nil, err
			}
			l.gated = missing != ""
		}
		if missing == "" {
			l.metrics.StateSynced.Set(1)
			l.metrics.StateUnsynced.Set(0)
			return s, nil
		}
		l.metrics.StateSynced.Set(0)
		l.metrics.StateUnsynced.Set(l.clock.Since(begun).Seconds())
		if l.clock.Since(said) > gateRepeat {
			said = l.clock.Now()
			l.log.Error("cluster is waiting on sync for extended duration", "missing", missing, telemetry.Duration(l.clock.Since(begun)))
		}
		if !pause(ctx, gateRetry) {
			return nil, ctx.Err()
		}
	}
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
			c, err := l.createClaim(ctx, &p.Claims[i], p.Digest+"/"+strconv.Itoa(i), "provisioned")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, err)
				l.gated = true
			default:
				l.feed.Put(c)
				l.verdicts.Created(p.Claims[i].Pods, c.Name)
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
