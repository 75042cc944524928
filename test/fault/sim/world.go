package sim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/karp-sh/karp/pkg/agent"
	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/telemetry"
	"github.com/karp-sh/karp/test/fault/simkube"
)

// World is a cluster, its cloud, and one agent process.
type World struct {
	Server *simkube.Server
	Cloud  *Cloud
	Config config.Config

	// The process that runs now.
	API      *simkube.Client
	Loops    *agent.Loops
	Registry *prometheus.Registry
	loops    map[string]agent.Controller
	single   map[string]agent.Singleton
	// Fault decides about each write of the process to the API server.
	Fault func(simkube.Write) simkube.Fault
	// Seen is told each event that the process's cache shows.
	Seen func(simkube.Event)

	Events []Event
	Lines  []Line
	Trace  []string
	// Lives counts processes.
	Lives int
	// Lock is the leader election's lock of processes to come; nil without leader election.
	Lock resourcelock.Interface
}

// Event is a published event.
type Event struct {
	Object                     string
	UID                        types.UID
	Kind, Reason, Type, Detail string
}

// Line is a line of the log with its attributes by key.
type Line struct {
	Level   slog.Level
	Message string
	Attrs   map[string]string
}

// New makes a world with node class default and starts a process. Call it inside a bubble.
func New(seed uint64, edit func(*config.Config)) (*World, error) {
	scheme, err := kube.NewScheme()
	if err != nil {
		return nil, err
	}
	w := &World{Server: simkube.New(scheme, time.Now, seed), Cloud: NewCloud(), Config: config.Default()}
	w.Config.DisableLeaderElection, w.Config.IgnoreDRARequests, w.Config.AWS.ClusterName = true, true, "c"
	w.Config.Gates.StaticCapacity = true
	if edit != nil {
		edit(&w.Config)
	}
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default", Finalizers: []string{awsv1.Group + "/termination"}}}
	class.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", ObservedGeneration: 1, LastTransitionTime: metav1.Now()}}
	if err := w.Server.Put(class); err != nil {
		return nil, err
	}
	w.Cloud.Trace = func(call string) { w.Trace = append(w.Trace, call) }
	return w, w.Start()
}

// Start starts a process in place of the one that ran; what that one knew is lost.
func (w *World) Start() error {
	if w.API != nil && !w.API.Dead() {
		w.API.Kill()
	}
	return w.Join()
}

// Join starts a process beside the one that runs, which nobody steps any more but which may still be in the middle of something.
func (w *World) Join() error {
	w.Lives++
	w.API = w.Server.Connect()
	w.API.Before = func(write simkube.Write) simkube.Fault {
		w.Trace = append(w.Trace, write.Site+" "+write.Object.GetName())
		if w.Fault == nil {
			return simkube.None
		}
		return w.Fault(write)
	}
	w.Registry = prometheus.NewRegistry()
	metrics, err := telemetry.NewMetrics(w.Registry, "test", "")
	if err != nil {
		return err
	}
	api := w.API
	link := w.Cloud.Connect(api.Kill, api.Dead)
	feed := kube.NewFeed(w.Config.Settings(false), kube.FromCloud(link), time.Now)
	if err := agent.Index(context.Background(), w.API); err != nil {
		return err
	}
	if err := feed.Register(context.Background(), w.API); err != nil {
		return err
	}
	w.Loops = agent.NewLoops(agent.Parts{
		Config: w.Config, Client: api, Live: api.Live(), Cloud: link, Feed: feed, Clock: clock.RealClock{}, Log: slog.New(handler{world: w, life: w.Lives}), Metrics: metrics,
		News: news{link}, Lock: w.Lock, Recorder: recorder{w}, ClusterUID: "cluster", ClassHash: func(c *awsv1.EC2NodeClass) string { return c.Hash("") },
	})
	w.loops, w.single = map[string]agent.Controller{}, map[string]agent.Singleton{}
	for _, c := range w.Loops.Controllers() {
		w.loops[c.Name] = c
	}
	for _, s := range w.Loops.Singletons() {
		w.single[s.Name] = s
	}
	w.API.Seen = func(e simkube.Event) {
		if w.Seen != nil {
			w.Seen(e)
		}
	}
	return nil
}

// Controller returns a loop by its name.
func (w *World) Controller(name string) (agent.Controller, error) {
	c, ok := w.loops[name]
	if !ok {
		return c, fmt.Errorf("there is no controller %s", name)
	}
	return c, nil
}

// Singleton returns a loop over the whole cluster by its name.
func (w *World) Singleton(name string) (agent.Singleton, error) {
	s, ok := w.single[name]
	if !ok {
		return s, fmt.Errorf("there is no singleton %s", name)
	}
	return s, nil
}

// Pump shows the process what happens while one of its steps waits; the returned function ends it. Its times never coincide with those of loops.
func (w *World) Pump() func() {
	const period = 53*time.Millisecond + 1
	done, api := make(chan struct{}), w.API
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(period):
				api.Deliver(1 << 30)
			}
		}
	})
	return func() { close(done); group.Wait() }
}

// Sync shows the process all that has happened.
func (w *World) Sync() {
	for w.API.Deliver(1<<30) > 0 {
	}
}

// Reconcile makes one step of a loop on an object with an up-to-date cache.
func (w *World) Reconcile(ctx context.Context, loop string, name types.NamespacedName) (reconcile.Result, error) {
	c, err := w.Controller(loop)
	if err != nil {
		return reconcile.Result{}, err
	}
	w.Sync()
	return c.Reconcile(ctx, name)
}

// recorder takes the events of a process.
type recorder struct{ world *World }

// Event implements record.EventRecorder.
func (r recorder) Event(obj runtime.Object, kind, reason, message string) {
	e := Event{Type: kind, Reason: reason, Detail: message}
	if o, ok := obj.(client.Object); ok {
		e.Object, e.UID = o.GetName(), o.GetUID()
	}
	switch obj.(type) {
	case *karpv1.NodeClaim:
		e.Kind = "claim"
	case *karpv1.NodePool:
		e.Kind = "pool"
	case *corev1.Node:
		e.Kind = "node"
	case *corev1.Pod:
		e.Kind = "pod"
	case *awsv1.EC2NodeClass:
		e.Kind = "class"
	}
	r.world.Events = append(r.world.Events, e)
}

// Eventf implements record.EventRecorder.
func (r recorder) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	r.Event(obj, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder.
func (r recorder) AnnotatedEventf(obj runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Eventf(obj, kind, reason, format, args...)
}

// handler takes the log of a process. A killed one has no log.
type handler struct {
	world *World
	life  int
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h handler) Handle(_ context.Context, r slog.Record) error {
	if h.life != h.world.Lives || h.world.API.Dead() {
		return nil
	}
	line := Line{Level: r.Level, Message: r.Message, Attrs: map[string]string{}}
	note := func(a slog.Attr) bool {
		line.Attrs[a.Key] = a.Value.String()
		return true
	}
	for _, a := range h.attrs {
		note(a)
	}
	r.Attrs(note)
	h.world.Lines = append(h.world.Lines, line)
	return nil
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)
	return h
}

// WithGroup implements slog.Handler; groups are flattened.
func (h handler) WithGroup(string) slog.Handler { return h }

// Metric sums the series of a metric that carry the labels, given as name{label=value,...}; a histogram or summary counts its samples. Ok is
// false if there is no such series.
func (w *World) Metric(text string) (value float64, ok bool, err error) {
	name, rest, _ := strings.Cut(text, "{")
	want := map[string]string{}
	for pair := range strings.SplitSeq(strings.TrimSuffix(rest, "}"), ",") {
		if k, v, has := strings.Cut(pair, "="); has {
			want[k] = strings.Trim(v, `"`)
		}
	}
	families, err := w.Registry.Gather()
	if err != nil {
		return 0, false, err
	}
	for _, f := range families {
		if f.GetName() != name && f.GetName() != "karpenter_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			match := true
			for k, v := range want {
				match = match && have[k] == v
			}
			if !match {
				continue
			}
			ok = true
			switch {
			case m.Counter != nil:
				value += m.Counter.GetValue()
			case m.Gauge != nil:
				value += m.Gauge.GetValue()
			case m.Histogram != nil:
				value += float64(m.Histogram.GetSampleCount())
			case m.Summary != nil:
				value += float64(m.Summary.GetSampleCount())
			}
		}
	}
	return value, ok, nil
}
