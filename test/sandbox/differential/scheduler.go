package differential

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Scheduler holds the filter plugins of kube-scheduler with their default settings. It is not safe for concurrent use.
type Scheduler struct {
	lister                                                                 *lister
	affinity, taints, ports, resources, unschedulable, spread, podAffinity filter
}

// lister shows the plugins the cluster of the question at hand.
type lister struct{ *cache.Snapshot }

// filter is a plugin that filters nodes.
type filter interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
}

// NewScheduler makes the plugins. Tolerations with Gt and Lt are on, whatever this version's default is.
func NewScheduler(ctx context.Context) (*Scheduler, error) {
	metrics.Register() // the plugins count into them
	s := &Scheduler{lister: &lister{cache.NewEmptySnapshot()}}
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithSnapshotSharedLister(s.lister), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithParallelism(1))
	if err != nil {
		return nil, fmt.Errorf("make the framework: %w", err)
	}
	for _, n := range namespaces() {
		if err := factory.Core().V1().Namespaces().Informer().GetIndexer().Add(n); err != nil {
			return nil, err
		}
	}
	cfg, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("default the scheduler's configuration: %w", err)
	}
	args := map[string]runtime.Object{}
	for _, c := range cfg.Profiles[0].PluginConfig {
		args[c.Name] = c.Args
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	features.EnableTaintTolerationComparisonOperators = true
	for _, x := range []struct {
		at   *filter
		name string
		make frameworkruntime.PluginFactoryWithFts[fwk.Plugin]
	}{
		{&s.affinity, nodeaffinity.Name, nodeaffinity.New},
		{&s.taints, tainttoleration.Name, tainttoleration.New},
		{&s.ports, nodeports.Name, nodeports.New},
		{&s.resources, noderesources.Name, noderesources.NewFit},
		{&s.unschedulable, nodeunschedulable.Name, nodeunschedulable.New},
		{&s.spread, podtopologyspread.Name, podtopologyspread.New},
		{&s.podAffinity, interpodaffinity.Name, interpodaffinity.New},
	} {
		p, err := x.make(ctx, args[x.name], handle, features)
		if err != nil {
			return nil, fmt.Errorf("make plugin %s: %w", x.name, err)
		}
		f, ok := p.(filter)
		if !ok {
			return nil, fmt.Errorf("plugin %s does not filter nodes", x.name)
		}
		*x.at = f
	}
	return s, nil
}

// Filter returns the nodes of the case that all plugins accept.
func (s *Scheduler) Filter(ctx context.Context, c *Case) (Verdict, error) {
	w := newWorld(c.Nodes, c.Bound)
	out := reachable(c.Nodes, c, asItIs)
	for _, p := range []filter{s.unschedulable, s.taints, s.affinity, s.ports, s.resources, s.spread, s.podAffinity} {
		if len(out) == 0 {
			break
		}
		ok, err := s.ask(ctx, p, c.Pod, w, nil)
		if err != nil {
			return nil, err
		}
		out = both(out, ok)
	}
	return out, nil
}

// world is nodes and the pods on them, as the scheduler sees them.
type world struct{ snapshot *cache.Snapshot }

func newWorld(nodes []*corev1.Node, bound []*corev1.Pod) *world {
	return &world{cache.NewSnapshot(slices.DeleteFunc(slices.Clone(bound), func(p *corev1.Pod) bool { return !alive(p) }), nodes)}
}

func (w *world) infos() []fwk.NodeInfo {
	list, err := w.snapshot.NodeInfos().List()
	if err != nil {
		panic(err) // a snapshot in memory cannot fail
	}
	return list
}

func (w *world) names() Verdict {
	var out Verdict
	for _, n := range w.infos() {
		out = append(out, n.Node().Name)
	}
	slices.Sort(out)
	return out
}

// quiet swallows what the plugins log about values that are not numbers.
var quiet = logr.Discard()

// ask returns the nodes that one plugin accepts, ascending. While it prepares itself the plugin sees only the nodes that see admits; nil
// admits all.
func (s *Scheduler) ask(ctx context.Context, p filter, pod *corev1.Pod, w *world, see func(*corev1.Node) bool) (Verdict, error) {
	s.lister.Snapshot = w.snapshot
	ctx = klog.NewContext(ctx, quiet)
	state := framework.NewCycleState()
	all := w.infos()
	seen := all
	if see != nil {
		seen = slices.DeleteFunc(slices.Clone(all), func(n fwk.NodeInfo) bool { return !see(n.Node()) })
	}
	only, status := p.PreFilter(ctx, state, pod, seen)
	switch {
	case status.IsSkip():
		return w.names(), nil
	case status.Code() == fwk.Error:
		return nil, fmt.Errorf("plugin %s: %w", p.Name(), status.AsError())
	case !status.IsSuccess():
		return nil, nil
	}
	var out Verdict
	for _, n := range all {
		if name := n.Node().Name; only.AllNodes() || only.NodeNames.Has(name) {
			status := p.Filter(ctx, state, pod, n)
			if status.Code() == fwk.Error {
				return nil, fmt.Errorf("plugin %s: %w", p.Name(), status.AsError())
			}
			if status.IsSuccess() {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func both(a, b Verdict) Verdict {
	var out Verdict
	for _, n := range a {
		if slices.Contains(b, n) {
			out = append(out, n)
		}
	}
	return out
}

func either(a, b Verdict) Verdict {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
