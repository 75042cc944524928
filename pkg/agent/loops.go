package agent

import (
	"context"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// Parts are what the loops stand on.
type Parts struct {
	Config config.Config
	// Client reads from a cache and writes to the API server, Live reads from the API server.
	Client client.Client
	Live   client.Reader
	Cloud  Cloud
	// Drifts tells whether instances still are what their class wants, News which are about to end; nil is a cloud that cannot tell.
	Drifts cloud.Drifts
	News   News
	// Feed keeps the cluster's state for decisions; it has to be registered with the informers of Client's cache.
	Feed     *kube.Feed
	Clock    clock.PassiveClock
	Log      *slog.Logger
	Metrics  *telemetry.Metrics
	Recorder record.EventRecorder
	// Lock is the leader election's lock; nil without leader election.
	Lock resourcelock.Interface
	// ClusterUID is the UID of namespace kube-system.
	ClusterUID string
	// ClassHash is the static hash of a class as launches stamp it.
	ClassHash func(*awsv1.EC2NodeClass) string
	// Hints tells that placements are written as nominations.
	Hints bool
}

// Loops are all that the agent does, as steps: each reads, decides and writes once. Run connects them to a manager, which calls them when
// something has changed; a simulation is its own manager.
type Loops struct {
	shared    *shared
	rows      []row
	queue     *evictions
	provision *provisioner
	collect   *collector
	known     *verdicts
	single    []Singleton
}

// NewLoops makes the loops of one process.
func NewLoops(p Parts) *Loops {
	s := &shared{
		cfg: p.Config, client: p.Client, live: p.Live, cloud: p.Cloud, drifts: p.Drifts, news: p.News, feed: p.Feed, clock: p.Clock, log: p.Log, metrics: p.Metrics,
		events: newEvents(p.Recorder, p.Clock), fence: newFence(p.Lock, p.Clock), awaited: newAwaited(), clusterUID: p.ClusterUID,
		classHash: p.ClassHash, hints: p.Hints,
	}
	s.cloud = measured{s.cloud, p.Metrics, "aws"}
	return newLoops(s)
}

func newLoops(s *shared) *Loops {
	l := &Loops{shared: s, known: newVerdicts(s.client)}
	health := newHealth(s)
	lives := newClaims(s, health)
	l.queue = newEvictions(s, scale(s.cfg.CPURequests, 100, 5000)/10)
	ends := &nodes{shared: s, claims: lives, queue: l.queue}
	l.provision = newProvisioner(s, l.known)
	lives.hint, lives.companions, lives.deal = l.provision.hintClaim, l.known.Companions, l.known.Deal
	l.collect = newCollector(s, verifyToken(s.clusterUID))
	pods := newPodMetrics(s)
	l.provision.decided = pods.Decided
	l.rows = slices.Concat(
		staticRows(s, lives), claimRows(s, lives), nodeRows(s, ends), repairRows(s), poolRows(s, health), classRows(s), overlayRows(s), bufferRows(s),
		conditionRows(s), podMetricRows(s, pods), hintRows(s, l.provision),
	)
	l.single = slices.Concat(disruptionSingletons(s, l.provision), l.collect.singletons(), gaugeSingletons(s, pods))
	return l
}

// disruptionSingletons are the loops that end nodes which are well: because that is cheaper, because they have drifted, or because the cloud says so.
func disruptionSingletons(s *shared, p *provisioner) []Singleton {
	queue := newCommands(s, p.createClaim)
	out := []Singleton{
		{Name: "nodeclaim.disruption", Step: newMarks(s).Step},
		{Name: "disruption", Step: (&disruption{shared: s, commands: queue}).Step},
		{Name: "disruption.queue", Step: queue.Step},
	}
	if s.news == nil {
		return out
	}
	news := newInterruptions(s, s.news)
	if s.cfg.AWS.InterruptionQueue != "" {
		out = append(out, Singleton{Name: "interruption", Step: news.Receive})
	}
	return append(out, Singleton{Name: "instance.status", Step: news.Poll})
}

// staticRows are the controllers of the gate StaticCapacity.
func staticRows(s *shared, lives *claims) []row {
	if !s.cfg.Gates.StaticCapacity {
		return nil
	}
	l := newStatics(s)
	lives.outcome = l.Launched
	empty := func() *karpv1.NodePool { return &karpv1.NodePool{} }
	one := func(name string, step func(context.Context, *karpv1.NodePool) (reconcile.Result, error)) row {
		return row{
			name: name, kind: empty(), step: loop(s, empty, step), watches: []watch{{kind: &karpv1.NodeClaim{}, to: poolOfClaim}},
			workers: 10, from: 100 * time.Millisecond, to: time.Minute,
		}
	}
	return []row{one("static.provisioning", l.Provision), one("static.deprovisioning", l.Deprovision)}
}

// Controller is a loop over objects.
type Controller struct {
	// Name as in logs and metrics.
	Name string
	row  row
}

// Controllers returns the loops over objects, in no particular order.
func (l *Loops) Controllers() []Controller {
	out := make([]Controller, len(l.rows))
	for i, r := range l.rows {
		out[i] = Controller{Name: r.name, row: r}
	}
	return out
}

// Reconcile makes one step on one object.
func (c Controller) Reconcile(ctx context.Context, name types.NamespacedName) (reconcile.Result, error) {
	return c.row.step(ctx, reconcile.Request{NamespacedName: name})
}

// Backoff returns the first and the longest wait after failures of one object.
func (c Controller) Backoff() (first, most time.Duration) { return c.row.from, c.row.to }

// Wakes returns the objects that the loop has to look at because of a change; was is nil for a new object, is for one that is gone.
func (c Controller) Wakes(ctx context.Context, was, is client.Object) []types.NamespacedName {
	var out []types.NamespacedName
	obj := is
	if obj == nil {
		obj = was
	}
	if sameKind(obj, c.row.kind) && passes(c.row.only, was, is) {
		out = append(out, client.ObjectKeyFromObject(obj))
	}
	for _, w := range c.row.watches {
		if !sameKind(obj, w.kind) || !passes(w.only, was, is) {
			continue
		}
		for _, o := range []client.Object{was, is} {
			if o != nil {
				for _, r := range w.to(ctx, o) {
					out = append(out, r.NamespacedName)
				}
			}
		}
	}
	return out
}

func sameKind(a, b client.Object) bool { return reflect.TypeOf(a) == reflect.TypeOf(b) }

func passes(only predicate.Predicate, was, is client.Object) bool {
	switch {
	case only == nil:
		return true
	case was == nil:
		return only.Create(event.CreateEvent{Object: is})
	case is == nil:
		return only.Delete(event.DeleteEvent{Object: was})
	default:
		return only.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is})
	}
}

// Singleton is a loop over the whole cluster. Step makes one run and tells when the next is due.
type Singleton struct {
	Name string
	Step func(context.Context) (after time.Duration, err error)
}

// Singletons returns the loops that no object wakes. The provisioner is due when pods wait for a place; its step waits for its batch to
// close by itself.
func (l *Loops) Singletons() []Singleton {
	return append(slices.Clone(l.single), Singleton{Name: "provisioner", Step: func(ctx context.Context) (time.Duration, error) {
		if len(l.shared.feed.Triggers()) == 0 {
			return l.shared.cfg.BatchIdleDuration, nil
		}
		err := l.provision.pass(ctx)
		if err != nil {
			l.shared.feed.Trigger("failed pass")
		}
		return l.shared.cfg.BatchIdleDuration, err
	}})
}

// singles runs loops over the whole cluster, on the leader only.
type singles struct {
	*shared
	loops []Singleton
}

// NeedLeaderElection tells the manager that only the leader runs them.
func (l *singles) NeedLeaderElection() bool { return true }

// Start runs them until the context ends.
func (l *singles) Start(ctx context.Context) error {
	var group sync.WaitGroup
	for _, one := range l.loops {
		group.Go(func() {
			for {
				after, err := one.Step(ctx)
				if err != nil && ctx.Err() == nil {
					l.log.Error("Reconciler error", "controller", one.Name, "error", err)
				}
				if !pause(ctx, after) {
					return
				}
			}
		})
	}
	group.Wait()
	return nil
}

// Lock is the leader election's lock, watched: effects start only while it is held. Whoever runs the election renews it.
func (l *Loops) Lock() resourcelock.Interface { return l.shared.fence }

// Evicting returns the pods in the eviction queue, in no particular order.
func (l *Loops) Evicting() []lifecycle.PodKey { return l.queue.keys() }

// Evict makes one attempt at a pod of the eviction queue and reports whether another one is due after back-off.
func (l *Loops) Evict(ctx context.Context, pod lifecycle.PodKey) (again bool) {
	return l.queue.step(ctx, pod)
}
