package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/units"
)

// patience is how long the demo waits for one step before it calls it failed.
const patience = 3 * time.Minute

// watcher follows the cluster through a cache and tells what changed, each thing once.
type watcher struct {
	cache   cache.Cache
	changed chan struct{}
	stop    context.CancelFunc
	told    map[string]bool
	began   time.Time
	live    bool // a terminal: the last line is redrawn
}

func newWatcher(ctx context.Context, cfg *rest.Config, scheme *runtime.Scheme) (*watcher, error) {
	store, err := cache.New(cfg, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	w := &watcher{cache: store, changed: make(chan struct{}, 1), stop: stop, told: map[string]bool{}, live: isatty.IsTerminal(os.Stdout.Fd())}
	notify := func(any) {
		select {
		case w.changed <- struct{}{}:
		default: // one is due already
		}
	}
	for _, kind := range []client.Object{&corev1.Pod{}, &corev1.Node{}, &karpv1.NodeClaim{}, &karpv1.NodePool{}} {
		informer, err := store.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			stop()
			return nil, err
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: notify, UpdateFunc: func(_, o any) { notify(o) }, DeleteFunc: notify}); err != nil {
			stop()
			return nil, err
		}
	}
	go func() { _ = store.Start(ctx) }() // ends with the context; a cache that cannot sync shows in the wait below
	if !store.WaitForCacheSync(ctx) {
		stop()
		return nil, errors.New("watching the cluster: the caches did not fill")
	}
	return w, nil
}

// until calls done at every change until it is true. It fails when the agent ends or patience does; missing says what was not there.
func (w *watcher) until(ctx context.Context, pid int, done func() (bool, error), missing func() string) error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	check := time.NewTicker(500 * time.Millisecond) // for the agent's process, which no watch shows
	defer check.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("interrupted")
		case <-limit.C:
			return fmt.Errorf("not done after %s: %s", patience, missing())
		case <-check.C:
			if !alive(pid) {
				return errors.New("the agent has ended by itself")
			}
		case <-w.changed:
		}
	}
}

// poolsReady waits for both pools.
func (w *watcher) poolsReady(ctx context.Context, pid int) error {
	began := time.Now()
	var waiting []string
	done := func() (bool, error) {
		pools := &karpv1.NodePoolList{}
		if err := w.cache.List(ctx, pools); err != nil {
			return false, err
		}
		waiting = nil
		for _, p := range pools.Items {
			i := slices.IndexFunc(p.Status.Conditions, func(c condition) bool { return c.Type == "Ready" })
			if i < 0 || p.Status.Conditions[i].Status != "True" {
				waiting = append(waiting, p.Name)
			}
		}
		return len(pools.Items) == 2 && len(waiting) == 0, nil
	}
	if err := w.until(ctx, pid, done, func() string { return "NodePools that are not Ready: " + strings.Join(waiting, ", ") }); err != nil {
		return err
	}
	say("  both NodePools are Ready after %s\n", since(began))
	return nil
}

// follow creates the workloads and tells what happens until all pods run that can.
func (w *watcher) follow(ctx context.Context, pid int, create func() error) error {
	w.began = time.Now()
	if err := create(); err != nil {
		return err
	}
	var last tally
	done := func() (bool, error) {
		t, err := w.look(ctx)
		if err != nil {
			return false, err
		}
		if t.line() != last.line() {
			w.status(t)
		}
		last = t
		return t.finished(), nil
	}
	if err := w.until(ctx, pid, done, func() string { return last.line() }); err != nil {
		return err
	}
	if w.live {
		say("")
	}
	say("\n%s on %d nodes for about $%.3f/h; %d is pending, as expected.", last.pods(), last.nodes, last.cost.Dollars(), last.pending)
	return nil
}

// tally is the state of the demo's pods and nodes.
type tally struct {
	wanted, running, pending, claims, nodes, ready int
	cost                                           units.Money
}

func (t tally) pods() string { return fmt.Sprintf("%d of %d pods run", t.running, t.wanted) }
func (t tally) line() string {
	return fmt.Sprintf("%s · %d claims · %d of %d nodes ready · $%.3f/h", t.pods(), t.claims, t.ready, t.nodes, t.cost.Dollars())
}
func (t tally) finished() bool {
	return t.wanted > 0 && t.running == t.wanted && t.pending == 1 && t.ready == t.nodes && t.claims == t.nodes
}

// wantedPods is how many pods the workloads make that can run, with the one that cannot.
const wantedPods = 24 + 3 + 10 + 1

// look counts, and tells what is new.
func (w *watcher) look(ctx context.Context) (tally, error) {
	t := tally{wanted: wantedPods}
	pods, nodes, claims := &corev1.PodList{}, &corev1.NodeList{}, &karpv1.NodeClaimList{}
	if err := errors.Join(w.cache.List(ctx, pods, client.InNamespace("demo")), w.cache.List(ctx, nodes), w.cache.List(ctx, claims)); err != nil {
		return t, err
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		switch {
		case p.Labels["demo"] == "impossible":
			if p.Spec.NodeName == "" {
				t.pending++
			}
		case p.Status.Phase == corev1.PodRunning:
			t.running++
		}
	}
	slices.SortFunc(claims.Items, func(a, b karpv1.NodeClaim) int { return strings.Compare(a.Name, b.Name) })
	for i := range claims.Items {
		c := &claims.Items[i]
		t.claims++
		t.cost += w.price(c)
		w.tellClaim(c)
	}
	for i := range nodes.Items {
		n := &nodes.Items[i]
		t.nodes++
		if nodeReady(n) {
			t.ready++
			w.once("ready "+n.Name, "node ready       %s", n.Name)
		}
	}
	return t, nil
}

func (w *watcher) tellClaim(c *karpv1.NodeClaim) {
	types := 0
	for _, r := range c.Spec.Requirements {
		if r.Key == "node.kubernetes.io/instance-type" {
			types = len(r.Values)
		}
	}
	cpu, memory := c.Spec.Resources.Requests[corev1.ResourceCPU], c.Spec.Resources.Requests[corev1.ResourceMemory]
	w.once("claim "+c.Name, "claim created    %s asks for %s cpu and %s of memory; %d instance types will do", c.Name, cpu.String(), memory.String(), types)
	if c.Status.ProviderID != "" {
		l := c.Labels
		price := "price unknown"
		if p := w.price(c); p > 0 {
			price = p.PerHour()
		}
		w.once("launched "+c.Name, "instance started %s: %s, %s, %s, %s", c.Name, l["node.kubernetes.io/instance-type"], l["karpenter.sh/capacity-type"], l["topology.kubernetes.io/zone"], price)
	}
}

// price of a claim, as it was launched; 0 before.
func (w *watcher) price(c *karpv1.NodeClaim) units.Money {
	var story struct {
		Price struct {
			Amount json.Number `json:"amount"`
		} `json:"price"`
	}
	if json.Unmarshal([]byte(c.Annotations[karpv1.LaunchAnnotation]), &story) != nil {
		return 0
	}
	dollars, err := story.Price.Amount.Float64()
	if err != nil {
		return 0
	}
	return units.FromDollars(dollars)
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// once tells something the first time.
func (w *watcher) once(key, format string, args ...any) {
	if w.told[key] {
		return
	}
	w.told[key] = true
	if w.live {
		fmt.Print("\r\033[K")
	}
	say("  %6.1fs  "+format, append([]any{time.Since(w.began).Seconds()}, args...)...)
}

// status shows the tally: redrawn in place on a terminal, as a line of its own elsewhere.
func (w *watcher) status(t tally) {
	if w.live {
		fmt.Printf("\r\033[K  %6.1fs  %s", time.Since(w.began).Seconds(), t.line())
		return
	}
	w.once("status "+t.pods(), "%s", t.line())
}

type condition = metav1.Condition
