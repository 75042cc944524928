package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// claims is the loop nodeclaim.lifecycle: it launches, registers and initializes claims, gives up those that take too long, and finalizes
// those that are deleted (lifecycle rules 6 to 10, 17.3).
type claims struct {
	*shared
	health *health
	// outcome is told how launches for a pool end; nil tells nobody.
	outcome func(pool string, ok bool)
	// hint is told which node a claim got, just before that node takes pods; nil tells nobody.
	hint func(ctx context.Context, claim, node string)

	mu sync.Mutex
	// launched are successful launches that the stored status may not show yet, by claim UID (R2).
	launched map[types.UID]*cloud.Instance
	// seen are instances that a read or a termination has found (LX20).
	seen map[string]bool
	// counted are claims whose registration was counted.
	counted map[types.UID]bool
	// clear is since when a closed node has waited for nothing but its daemons, by claim UID.
	clear map[types.UID]time.Time
	// companions names the claims that a claim's node had better open together with; nil knows of none.
	companions func(claim string) []string
	// deal is told the zones of claims whose nodes open together, before the hints are written; nil tells nobody.
	deal func(ctx context.Context, zones map[string]string)
	// arrived are the nodes that were ready to open, by claim name.
	arrived map[string]arrival
}

// arrival is a node that is ready to open.
type arrival struct {
	node string
	at   time.Time
}

func newClaims(s *shared, h *health) *claims {
	return &claims{shared: s, health: h, launched: map[types.UID]*cloud.Instance{}, seen: map[string]bool{}, counted: map[types.UID]bool{}, clear: map[types.UID]time.Time{}, arrived: map[string]arrival{}}
}

// pass is one reconciliation of one claim: what is stored, what it becomes, and what the steps asked for.
type pass struct {
	claim, base *karpv1.NodeClaim
	nodes       []corev1.Node
	now         time.Time
	after       time.Duration
	errs        []error
	// gone tells that the claim was given up in this pass.
	gone bool
}

func (p *pass) view() *lifecycle.Claim {
	v := claimOf(p.claim)
	return &v
}

// again asks for a repetition after d; the shortest wish wins.
func (p *pass) again(d time.Duration) {
	if d > 0 && (p.after == 0 || d < p.after) {
		p.after = d
	}
}

func (p *pass) fail(err error) {
	if err != nil {
		p.errs = append(p.errs, err)
	}
}

// Step handles one claim.
func (l *claims) Step(ctx context.Context, c *karpv1.NodeClaim) (reconcile.Result, error) {
	if !managedRef(c.Spec.NodeClassRef) {
		return reconcile.Result{}, nil
	}
	if c.DeletionTimestamp != nil {
		return l.finalize(ctx, c)
	}
	if !controllerutil.ContainsFinalizer(c, lifecycle.Finalizer) {
		base := c.DeepCopy()
		controllerutil.AddFinalizer(c, lifecycle.Finalizer)
		c.Labels = annotate(c.Labels, classLabel, c.Spec.NodeClassRef.Name)
		if err := l.patch(ctx, c, base); err != nil {
			return reconcile.Result{}, err
		}
	}
	p := &pass{claim: c, base: c.DeepCopy(), now: l.clock.Now()}
	for _, step := range []func(context.Context, *pass){l.launch, l.register, l.open, l.initialize, l.live} {
		if step(ctx, p); p.gone {
			break
		}
	}
	if !p.gone {
		if err := l.persist(ctx, p); err != nil {
			l.refuse(p, fmt.Errorf("writing claim %s: %w", c.Name, err))
		}
	}
	return reconcile.Result{RequeueAfter: p.after}, errors.Join(p.errs...)
}

// persist writes metadata first and status second. Status alone says that an instance exists, so it is never behind an intent that says so.
func (l *claims) persist(ctx context.Context, p *pass) error {
	status := p.claim.Status
	meta := p.claim.DeepCopy()
	meta.Status = p.base.Status
	if !apiequality.Semantic.DeepEqual(meta.ObjectMeta, p.base.ObjectMeta) {
		if err := l.patch(ctx, meta, p.base); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if apiequality.Semantic.DeepEqual(status, meta.Status) {
		p.claim, p.base = meta, meta.DeepCopy()
		return nil
	}
	base := meta.DeepCopy()
	meta.Status = status
	if err := l.patchStatus(ctx, meta, base); err != nil {
		return client.IgnoreNotFound(err)
	}
	p.claim, p.base = meta, meta.DeepCopy()
	return nil
}

// register matches the claim with its node (lifecycle rules 8).
func (l *claims) register(ctx context.Context, p *pass) {
	v := p.view()
	if !v.Is(lifecycle.Registered, lifecycle.Unknown) {
		setClaim(p.claim, p.now, v.Conditions[lifecycle.Registered])
		return
	}
	nodes, err := l.nodesWith(ctx, v.ProviderID)
	if err != nil {
		p.fail(fmt.Errorf("finding the node of claim %s: %w", p.claim.Name, err))
		return
	}
	p.nodes = nodes
	var hooks []lifecycle.Hook
	if len(nodes) == 1 {
		// A hook may edit the claim's labels, so the rules look at the claim after it.
		hooks, v = l.hooks(ctx, p), p.view()
	}
	r := lifecycle.Register(v, nodesOf(nodes), hooks)
	if r.TaintMissing {
		l.log.Error("node joined without the taint that keeps pods away until it is registered", telemetry.Claim(p.claim.Name), telemetry.Node(r.Node))
		l.events.Warn(p.claim, "UnregisteredTaintMissing", "node "+r.Node+" has no taint "+lifecycle.UnregisteredTaint+"; its user data or bootstrap should set it")
	}
	if r.Node != "" {
		if r.Done {
			l.close(ctx, p, &r)
		}
		if err := l.changeNode(ctx, &p.nodes[0], r.Change, p.claim); err != nil {
			l.refuse(p, fmt.Errorf("registering node %s: %w", r.Node, err))
			return
		}
	}
	if r.Done {
		if err := l.health.Success(ctx, p.claim); err != nil {
			l.log.Debug("registration health not recorded", telemetry.Claim(p.claim.Name), "error", err)
		}
		p.claim.Status.NodeName = r.Node
		l.registered(p)
		l.log.Info("registered nodeclaim", telemetry.Claim(p.claim.Name), telemetry.Node(r.Node), "provider-id", p.claim.Status.ProviderID)
	}
	setClaim(p.claim, p.now, r.Condition)
	p.again(r.After)
}

// registered counts a registration once per claim, even if its result could not be stored and the pass is repeated (LX15).
func (l *claims) registered(p *pass) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.counted[p.claim.UID] {
		l.counted[p.claim.UID] = true
		l.metrics.NodesCreated.WithLabelValues(poolLabel(p.claim), zoneLabel(p.claim)).Inc()
	}
}

// refuse notes that a write to another object did not go through: a conflict asks for a repetition, all else is an error.
func (l *claims) refuse(p *pass, err error) {
	if apierrors.IsConflict(err) {
		p.again(conflictRetry)
		return
	}
	p.fail(err)
}

// changeNode writes a change to a node, if there is one.
func (l *claims) changeNode(ctx context.Context, n *corev1.Node, change lifecycle.NodeChange, c *karpv1.NodeClaim) error {
	base := n.DeepCopy()
	owner := ownerOf(c, karpv1.GroupVersion().String(), karpv1.NodeClaimKind)
	if !applyChange(n, change, &owner) {
		return nil
	}
	return l.patch(ctx, n, base)
}

// initialize decides whether the node is ready for pods (lifecycle rules 9).
func (l *claims) initialize(ctx context.Context, p *pass) {
	v := p.view()
	if cond, ok := v.Conditions[lifecycle.Initialized]; ok && cond.Status != lifecycle.Unknown {
		setClaim(p.claim, p.now, cond)
		return
	}
	if p.nodes == nil {
		nodes, err := l.nodesWith(ctx, v.ProviderID)
		if err != nil {
			p.fail(fmt.Errorf("finding the node of claim %s: %w", p.claim.Name, err))
			return
		}
		p.nodes = nodes
	}
	nodes := nodesOf(p.nodes)
	devices, err := l.devices(ctx, v, nodes)
	if err != nil {
		p.fail(err)
		return
	}
	i := lifecycle.Initialize(v, nodes, devices)
	if i.Condition.Type == "" {
		return
	}
	if i.Done {
		change := lifecycle.NodeChange{Labels: map[string]string{lifecycle.InitializedLabel: "true"}}
		if p.nodes[0].Labels[lifecycle.InitializedLabel] == "true" {
			change = lifecycle.NodeChange{}
		}
		if err := l.changeNode(ctx, &p.nodes[0], change, p.claim); err != nil {
			l.refuse(p, fmt.Errorf("initializing node %s: %w", i.Node, err))
			return
		}
		l.log.Info("initialized nodeclaim", telemetry.Claim(p.claim.Name), telemetry.Node(i.Node), "provider-id", p.claim.Status.ProviderID)
	}
	setClaim(p.claim, p.now, i.Condition)
}

// live gives a claim up that takes too long (lifecycle rules 10).
func (l *claims) live(ctx context.Context, p *pass) {
	decision := lifecycle.Live(p.view(), p.now)
	p.again(decision.After)
	if decision.Delete == "" {
		return
	}
	if err := l.health.Failure(ctx, p.claim, decision.Cause); err != nil {
		l.refuse(p, fmt.Errorf("recording the registration health of the pool of claim %s: %w", p.claim.Name, err))
		return
	}
	l.log.Debug("terminating due to timeout", telemetry.Claim(p.claim.Name), "reason", decision.Delete)
	l.giveUp(ctx, p, decision.Delete)
}

// giveUp deletes the claim; its end is handled by finalize. What the pass learned is stored first: that nothing was launched, above all, or
// the claim's end would have to find out.
func (l *claims) giveUp(ctx context.Context, p *pass, reason string) {
	if err := l.persist(ctx, p); err != nil {
		l.refuse(p, fmt.Errorf("recording the outcome of claim %s: %w", p.claim.Name, err))
		return
	}
	removed, err := l.remove(ctx, p.claim)
	if err != nil {
		p.fail(fmt.Errorf("deleting claim %s: %w", p.claim.Name, err))
		return
	}
	p.gone = removed
	if removed && l.outcome != nil && reason != lifecycle.ReasonRegistrationTimeout {
		l.outcome(poolLabel(p.claim), false)
	}
	if removed {
		l.countDisrupted(ctx, p.claim, reason)
	}
}

// forget drops what is remembered of a claim that is gone.
func (l *claims) forget(c *karpv1.NodeClaim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.launched, c.UID)
	delete(l.counted, c.UID)
	delete(l.clear, c.UID)
	delete(l.arrived, c.Name)
	delete(l.seen, c.Status.ProviderID)
}

func (l *claims) record(uid types.UID) *cloud.Instance {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.launched[uid]
}

func (l *claims) remember(uid types.UID, i *cloud.Instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i == nil {
		delete(l.launched, uid)
		return
	}
	l.launched[uid] = i
}

// annotate returns a copy of the annotations with one more.
func annotate(have map[string]string, key, value string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	out[key] = value
	return out
}
