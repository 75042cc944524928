package kube_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	fakesource "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/kube"
)

// world is real informers over a source for each kind.
type world struct {
	ctx     context.Context
	sources map[reflect.Type]*fakesource.FakeControllerSource
	held    map[reflect.Type]bool
	start   []toolscache.SharedIndexInformer
}

func newWorld(ctx context.Context) *world {
	return &world{ctx: ctx, sources: map[reflect.Type]*fakesource.FakeControllerSource{}, held: map[reflect.Type]bool{}}
}

func (w *world) source(obj client.Object) *fakesource.FakeControllerSource {
	kind := reflect.TypeOf(obj)
	if w.sources[kind] == nil {
		w.sources[kind] = fakesource.NewFakeControllerSource()
	}
	return w.sources[kind]
}

// listWatch hides that the source is a fake, which informers treat specially.
type listWatch struct {
	*fakesource.FakeControllerSource
}

func (l listWatch) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.FakeControllerSource.List(o)
}
func (l listWatch) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.FakeControllerSource.Watch(o)
}

func (w *world) GetInformer(_ context.Context, obj client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	i := toolscache.NewSharedIndexInformer(listWatch{w.source(obj)}, obj, 0, toolscache.Indexers{})
	if !w.held[reflect.TypeOf(obj)] {
		w.start = append(w.start, i)
	}
	return i, nil
}

// run starts the informers and waits for what they deliver.
func (w *world) run() {
	for _, i := range w.start {
		go i.Run(w.ctx.Done())
	}
	w.start = nil
	settle()
}

// settle lets informers wait out their pauses between a list and the watch.
func settle() {
	time.Sleep(5 * time.Second) // virtual time of the bubble
	synctest.Wait()
}

// inWorld runs a scenario in virtual time.
func inWorld(t *testing.T, f func(t *testing.T, w *world, feed *kube.Feed)) {
	t.Helper()
	inWorldWith(t, cluster.Settings{}, nil, f)
}

func inWorldWith(t *testing.T, settings cluster.Settings, catalogs kube.Catalogs, f func(t *testing.T, w *world, feed *kube.Feed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld(ctx)
		f(t, w, kube.NewFeed(settings, catalogs, time.Now))
		cancel()
		synctest.Wait()
		for _, source := range w.sources {
			source.Shutdown()
		}
	})
}

func register(t *testing.T, w *world, feed *kube.Feed) {
	t.Helper()
	if err := feed.Register(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	w.run()
}

func take(t *testing.T, feed *kube.Feed) *cluster.Snapshot {
	t.Helper()
	s, err := feed.Snapshot(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func pending(name string) *corev1.Pod {
	return pod(name, func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
	})
}

func TestFeedGivesWhatLoadGives(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, feed *kube.Feed) {
		objects := &kube.Objects{
			Pods: []*corev1.Pod{pod("a", mount("c")), pending("b")}, Nodes: []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}},
			NodePools: []*karpv1.NodePool{pool("p", "default")},
		}
		for _, p := range objects.Pods {
			w.source(&corev1.Pod{}).Add(p.DeepCopy())
		}
		w.source(&corev1.Node{}).Add(objects.Nodes[0].DeepCopy())
		register(t, w, feed)
		// Some come later.
		w.source(&karpv1.NodePool{}).Add(objects.NodePools[0].DeepCopy())
		synctest.Wait()
		want := objects.Snapshot(t.Context(), at, cluster.Settings{}, nil)
		if got := take(t, feed); got.Digest() != want.Digest() {
			t.Errorf("digest %s from the feed, %s from a load", got.Digest(), want.Digest())
		}
		w.source(&corev1.Pod{}).Delete(pod("a"))
		synctest.Wait()
		if got := take(t, feed); len(got.Pods) != 1 || got.Pods[0].Name != "b" {
			t.Errorf("%d pods after a deletion", len(got.Pods))
		}
	})
}

func TestFeedIsGatedUntilSynced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, feed *kube.Feed) {
		if _, err := feed.Snapshot(t.Context(), at); !errors.Is(err, kube.ErrNotSynced) {
			t.Errorf("before registration: %v", err)
		}
		w.held[reflect.TypeOf(&karpv1.NodeClaim{})] = true
		register(t, w, feed)
		if diff := cmp.Diff([]string{"NodeClaim"}, feed.Unsynced()); diff != "" || feed.Synced() {
			t.Errorf("synced %v, unsynced (-want +got):\n%s", feed.Synced(), diff)
		}
		if _, err := feed.Snapshot(t.Context(), at); !errors.Is(err, kube.ErrNotSynced) {
			t.Errorf("with one kind missing: %v", err)
		}
	})
}

// S-066: one catalogue that is late ends the pass, one that fails (S-065) only leaves out its pools.
func TestFeedWithoutCatalogue(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want error
	}{"late": {fmt.Errorf("calling the cloud: %w", context.DeadlineExceeded), context.DeadlineExceeded}, "failed": {errors.New("refused"), nil}} {
		t.Run(name, func(t *testing.T) {
			catalogs := kube.CatalogFunc(func(_ context.Context, c *awsv1.EC2NodeClass) (*catalog.Catalog, error) {
				if c.Name == "bad" {
					return nil, tt.err
				}
				return catalog.New(nil), nil
			})
			inWorldWith(t, cluster.Settings{}, catalogs, func(t *testing.T, w *world, feed *kube.Feed) {
				for _, n := range []string{"bad", "good"} {
					w.source(&awsv1.EC2NodeClass{}).Add(class(n))
					w.source(&karpv1.NodePool{}).Add(poolOf(n, n))
				}
				register(t, w, feed)
				s, err := feed.Snapshot(t.Context(), at)
				if !errors.Is(err, tt.want) {
					t.Fatalf("error %v, want %v", err, tt.want)
				}
				if err == nil && (s.Pool("bad").Catalog != nil || s.Pool("good").Catalog == nil) {
					t.Errorf("catalogues %v and %v", s.Pool("bad").Catalog, s.Pool("good").Catalog)
				}
			})
		})
	}
}

// The triggers of rules 1.1. S-043: a pod that waits asks again until it has a place (every 10 s, see Feed.Run). S-044: a Node that is
// disrupted asks too, by the taint with effect NoSchedule only. S-045: a buffer asks by its UID.
func TestFeedTriggers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, feed *kube.Feed) {
		register(t, w, feed)
		pods, nodes := w.source(&corev1.Pod{}), w.source(&corev1.Node{})
		pods.Add(pending("b"))
		pods.Add(pending("a"))
		pods.Add(pod("calm"))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{karpv1.DisruptedTaint()}}}
		nodes.Add(node)
		evicting := karpv1.DisruptedTaint()
		evicting.Effect = corev1.TaintEffectNoExecute
		nodes.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "other"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{evicting}}})
		synctest.Wait()
		<-feed.Wake()
		expect := func(what string, want ...string) {
			t.Helper()
			got := feed.Triggers()
			if len(got) == 0 && len(want) == 0 {
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		expect("first", "a", "b", "n")
		expect("taken already")
		first := feed.FirstSeen("a")
		feed.Repeat()
		expect("repeated", "a", "b", "n")
		bound := pending("a")
		bound.Spec.NodeName = "n"
		pods.Modify(bound)
		pods.Delete(pending("b"))
		calm := node.DeepCopy()
		calm.Spec.Taints = nil
		nodes.Modify(calm)
		synctest.Wait()
		feed.Repeat()
		expect("nobody waits any more")
		if first.IsZero() || !feed.FirstSeen("a").IsZero() {
			t.Errorf("first seen %v, then %v", first, feed.FirstSeen("a"))
		}
		feed.Trigger("buffer")
		expect("explicit", "buffer")
	})
}

func claim(name, version string) *karpv1.NodeClaim {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: version}}
	c.Spec.NodeClassRef = ref("default")
	return c
}

func names(s *cluster.Snapshot) []string {
	out := []string{}
	for _, c := range s.Claims {
		out = append(out, c.Name+c.Labels["v"])
	}
	return out
}

// LX19: what we wrote counts at once, older events cannot undo it, and it does not live longer than the cluster's own object.
func TestFeedPut(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, feed *kube.Feed) {
		claims := w.source(&karpv1.NodeClaim{})
		register(t, w, feed)
		expect := func(what string, want ...string) {
			t.Helper()
			if want == nil {
				want = []string{}
			}
			if diff := cmp.Diff(want, names(take(t, feed))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		feed.Put(claim("a", "50"))
		expect("put", "a")
		if feed.Seen("a") {
			t.Error("the cache cannot have shown the claim yet")
		}
		// The source counts versions itself: the first event has version 1, older than our write.
		old := claim("a", "")
		old.Labels = map[string]string{"v": "-old"}
		claims.Add(old)
		synctest.Wait()
		expect("an older event", "a")
		for range 60 {
			claims.Modify(claim("a", ""))
		}
		last := claim("a", "")
		last.Labels = map[string]string{"v": "-new"}
		claims.Modify(last)
		synctest.Wait()
		expect("a newer event", "a-new")
		if !feed.Seen("a") {
			t.Error("the cache has shown the claim")
		}
		// The answer to the write that the cache has shown comes late: nothing is waited for.
		same := claim("a", "62")
		same.Labels = map[string]string{"v": "-new"}
		feed.Put(same)
		if !feed.Seen("a") {
			t.Error("the cache has shown the claim at this very version")
		}
		stale := claim("a", "2")
		stale.Labels = map[string]string{"v": "-stale"}
		feed.Put(stale)
		expect("an older put", "a-new")
		claims.Delete(last)
		synctest.Wait()
		feed.Put(claim("a", "70"))
		expect("put after the deletion was seen")
	})
}

// A claim that was deleted before the cache looked must not stay as phantom capacity (scheduling rules 1.3, S-042).
func TestFeedDropsPhantoms(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, feed *kube.Feed) {
		claims := w.source(&karpv1.NodeClaim{})
		register(t, w, feed)
		feed.Put(claim("ghost", "5"))
		feed.Put(claim("late", "500"))
		claims.Add(claim("other", ""))
		for range 10 {
			claims.Modify(claim("other", ""))
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"ghost", "late", "other"}, names(take(t, feed))); diff != "" {
			t.Errorf("young (-want +got):\n%s", diff)
		}
		time.Sleep(20 * time.Second)
		// The cache has read past version 5 but not up to 500.
		if diff := cmp.Diff([]string{"late", "other"}, names(take(t, feed))); diff != "" {
			t.Errorf("old (-want +got):\n%s", diff)
		}
	})
}

func TestFeedIsBlindAfterWatchError(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, feed *kube.Feed) {
		register(t, w, feed)
		feed.Blind("Pod", errors.New("etcd is slow"))
		if diff := cmp.Diff([]cluster.Unknown{{Kind: "Pod", Problem: "etcd is slow"}}, take(t, feed).Unknown); diff != "" {
			t.Errorf("blind (-want +got):\n%s", diff)
		}
		time.Sleep(2 * time.Minute)
		if got := take(t, feed).Unknown; len(got) != 0 {
			t.Errorf("still blind: %v", got)
		}
	})
}
