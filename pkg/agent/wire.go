package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/config"
)

// row is one controller: its contractual name, what it looks after, what else wakes it, and its limits (lifecycle rules 4).
type row struct {
	name    string
	kind    client.Object
	step    reconcile.Func
	watches []watch
	// only narrows the events of kind that wake the loop; nil lets all pass.
	only     predicate.Predicate
	workers  int
	from, to time.Duration
}

// watch wakes a loop by another kind of object.
type watch struct {
	kind client.Object
	to   handler.MapFunc
	// only narrows the events; nil lets all pass.
	only predicate.Predicate
}

// wire connects the loops to the manager.
func wire(mgr manager.Manager, l *Loops) error {
	errs := []error{mgr.Add(l.queue), mgr.Add(l.provision), mgr.Add(&singles{l.shared, l.single}), mgr.Add(manager.RunnableFunc(l.shared.feed.Run))}
	for _, r := range l.rows {
		errs = append(errs, r.add(mgr))
	}
	return errors.Join(errs...)
}

func claimRows(s *shared, l *claims) []row {
	empty := func() *karpv1.NodeClaim { return &karpv1.NodeClaim{} }
	pod := func() *corev1.Pod { return &corev1.Pod{} }
	wakes := []watch{{kind: &corev1.Node{}, to: s.claimsOfNode}}
	if !s.cfg.IgnoreDRARequests {
		wakes = append(wakes, watch{kind: &resourcev1.ResourceSlice{}, to: s.claimsOfSlice})
	}
	return []row{
		{name: "nodeclaim.lifecycle", kind: empty(), step: loop(s, empty, l.Step), watches: wakes, workers: scale(s.cfg.CPURequests, 100, 1000), from: time.Second, to: time.Minute},
		{name: "nodeclaim.hydration", kind: empty(), step: loop(s, empty, (&hydration{s}).Claim), workers: 10, from: 100 * time.Millisecond, to: time.Minute},
		{
			name: "nodeclaim.consistency", kind: empty(), step: loop(s, empty, (&consistency{shared: s, last: map[types.UID]time.Time{}}).Step),
			watches: []watch{{kind: &corev1.Node{}, to: s.claimsOfNode}}, workers: 10, from: time.Second, to: time.Minute,
		},
		{
			name: "nodeclaim.podevents", kind: pod(), step: loop(s, pod, (&podEvents{s}).Step), only: podCameOrWent(), workers: 1,
			from: 100 * time.Millisecond, to: 10 * time.Second,
		},
		{name: "nodeclaim.expiration", kind: empty(), step: loop(s, empty, (&expiry{s}).Step), workers: 1, from: time.Second, to: time.Minute},
		{name: "nodeclaim.tagging", kind: empty(), step: loop(s, empty, (&tags{s}).Step), workers: 1, from: 100 * time.Millisecond, to: time.Minute},
	}
}

func nodeRows(s *shared, l *nodes) []row {
	empty := func() *corev1.Node { return &corev1.Node{} }
	return []row{
		{
			name: "node.termination", kind: empty(), step: loop(s, empty, l.Step), workers: scale(s.cfg.CPURequests, 100, 5000),
			only: predicate.NewPredicateFuncs(func(o client.Object) bool { return managedNode(o) && o.GetDeletionTimestamp() != nil }),
			from: 100 * time.Millisecond, to: 10 * time.Second,
		},
		{
			name: "node.hydration", kind: empty(), step: loop(s, empty, (&hydration{s}).Node), workers: 10,
			watches: []watch{{kind: &karpv1.NodeClaim{}, to: s.nodesOfClaim}}, from: 100 * time.Millisecond, to: time.Minute,
		},
	}
}

func poolRows(s *shared, h *health) []row {
	empty := func() *karpv1.NodePool { return &karpv1.NodePool{} }
	l := &pools{s}
	byClass := []watch{{kind: &awsv1.EC2NodeClass{}, to: s.poolsOfClass}}
	common := func(name string, step func(context.Context, *karpv1.NodePool) (reconcile.Result, error), watches []watch) row {
		return row{name: name, kind: empty(), step: loop(s, empty, step), watches: watches, workers: 10, from: 100 * time.Millisecond, to: time.Minute}
	}
	count := common("nodepool.counter", l.Count, nil)
	count.only = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
	return []row{
		common("nodepool.readiness", l.Ready, byClass), common("nodepool.validation", l.Validate, nil),
		common("nodepool.hash", l.Hash, nil), common("nodepool.registrationhealth", h.Step, byClass), count,
	}
}

func classRows(s *shared) []row {
	empty := func() *awsv1.EC2NodeClass { return &awsv1.EC2NodeClass{} }
	l := &classes{s, s.classHash}
	return []row{
		{
			name: "nodeclass", kind: empty(), step: loop(s, empty, l.Step), workers: 10, from: 100 * time.Millisecond, to: time.Minute,
			only:    predicate.Or(predicate.GenerationChangedPredicate{}, predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetDeletionTimestamp() != nil })),
			watches: []watch{{kind: &karpv1.NodeClaim{}, to: classOfDeletedClaim}},
		},
		{name: "nodeclass.hash", kind: empty(), step: loop(s, empty, l.Hash), workers: 10, from: 100 * time.Millisecond, to: time.Minute},
	}
}

// add registers the controller.
func (r row) add(mgr manager.Manager) error {
	var forOptions []builder.ForOption
	if r.only != nil {
		forOptions = append(forOptions, builder.WithPredicates(r.only))
	}
	b := builder.ControllerManagedBy(mgr).Named(r.name).For(r.kind, forOptions...)
	for _, w := range r.watches {
		var options []builder.WatchesOption
		if w.only != nil {
			options = append(options, builder.WithPredicates(w.only))
		}
		b = b.Watches(w.kind, handler.EnqueueRequestsFromMapFunc(w.to), options...)
	}
	return b.WithOptions(controller.Options{
		MaxConcurrentReconciles: r.workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](r.from, r.to),
	}).Complete(r.step)
}

// scale grows linearly with the CPUs from low at one to high at sixty (lifecycle rules 4).
func scale(millicores, low, high int) int {
	cpus := (millicores + 999) / 1000
	return min(max(low+(high-low)*(cpus-1)/59, low), high)
}

// claimsOfNode wakes the claims that a node belongs to.
func (s *shared) claimsOfNode(ctx context.Context, o client.Object) []reconcile.Request {
	list, err := s.claimsWith(ctx, o.(*corev1.Node).Spec.ProviderID)
	if err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list[i])})
	}
	return out
}

// claimsOnNode wakes the claims that the node of that name belongs to.
func (s *shared) claimsOnNode(ctx context.Context, name string) []reconcile.Request {
	var n corev1.Node
	if s.client.Get(ctx, types.NamespacedName{Name: name}, &n) != nil {
		return nil
	}
	return s.claimsOfNode(ctx, &n)
}

// poolsOfClass wakes the pools that use a class.
func (s *shared) poolsOfClass(ctx context.Context, o client.Object) []reconcile.Request {
	var list karpv1.NodePoolList
	if err := s.client.List(ctx, &list, client.MatchingFields{claimsByClass: o.GetName()}); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// classOfDeletedClaim wakes the class of a claim that is going, which may be the last one the class waits for.
func classOfDeletedClaim(_ context.Context, o client.Object) []reconcile.Request {
	c := o.(*karpv1.NodeClaim)
	if c.DeletionTimestamp == nil || !managedRef(c.Spec.NodeClassRef) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: c.Spec.NodeClassRef.Name}}}
}

// address of a port on all interfaces; 0 turns the endpoint off.
func address(port int) string {
	if port == 0 {
		return "0"
	}
	return ":" + strconv.Itoa(port)
}

func metricsOptions(cfg config.Config) metricsserver.Options {
	o := metricsserver.Options{BindAddress: address(cfg.MetricsPort)}
	if cfg.MetricsSecure {
		o.SecureServing, o.FilterProvider = true, filters.WithAuthenticationAndAuthorization
	}
	if cfg.EnableProfiling {
		o.ExtraHandlers = map[string]http.Handler{
			"/debug/pprof/": http.HandlerFunc(pprof.Index), "/debug/pprof/cmdline": http.HandlerFunc(pprof.Cmdline),
			"/debug/pprof/profile": http.HandlerFunc(pprof.Profile), "/debug/pprof/symbol": http.HandlerFunc(pprof.Symbol),
			"/debug/pprof/trace": http.HandlerFunc(pprof.Trace),
		}
	}
	return o
}

// probes serves /healthz while the process runs and /readyz once caches are synced and the API server has our kinds.
func probes(mgr manager.Manager) error {
	ready := func(request *http.Request) error {
		for _, kind := range []string{karpv1.NodePoolKind, karpv1.NodeClaimKind} {
			if _, err := mgr.GetRESTMapper().RESTMapping(karpv1.GroupVersion().WithKind(kind).GroupKind(), "v1"); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("caches are not synced")
		}
		return nil
	}
	return errors.Join(mgr.AddHealthzCheck("healthz", healthz.Ping), mgr.AddReadyzCheck("readyz", ready))
}

// serverVersion asks the API server for its version.
func serverVersion(restConfig *rest.Config) (major, minor int, err error) {
	d, err := discovery.NewDiscoveryClientForConfig(restConfig)
	if err != nil {
		return 0, 0, err
	}
	v, err := d.ServerVersion()
	if err != nil {
		return 0, 0, fmt.Errorf("asking the API server for its version: %w", err)
	}
	if major, err = strconv.Atoi(v.Major); err == nil {
		minor, err = strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	}
	return major, minor, err
}

// splitLaunch reads a launch identity "<claim UID>/<attempt>".
func splitLaunch(id string) (uid string, attempt int, ok bool) {
	uid, number, ok := strings.Cut(id, "/")
	if !ok {
		return "", 0, false
	}
	attempt, err := strconv.Atoi(number)
	return uid, attempt, err == nil && uid != ""
}

// launchClaim is the UID of the claim a launch identity names.
func launchClaim(id string) string {
	uid, _, _ := splitLaunch(id)
	return uid
}
