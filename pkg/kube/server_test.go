package kube_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/kube"
	sandbox "github.com/karp-sh/karp/test/cluster"
)

// On a real API server a load (paged, protobuf) and the feed (a cache with the transform) see the same cluster, before and after changes; what a
// user may not list is unknown.
func TestRealServer(t *testing.T) {
	c := sandbox.Start(t, sandbox.Options{Components: []string{"etcd", "apiserver"}})
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{Paths: []string{"../../manifests/crds"}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
	admin, err := kube.NewReader(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default"}}
	np := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	np.Spec.Template.Spec.NodeClassRef, np.Spec.Template.Spec.Requirements = ref("default"), []karpv1.Requirement{}
	objects := []client.Object{ns, account, np}
	for i := range 12 {
		p := replica(fmt.Sprint("p", i))
		p.UID, p.Spec.SchedulerName = "", "nobody"
		for j := range p.Spec.Containers {
			p.Spec.Containers[j].Image = "image"
			p.Spec.Containers[j].Env = []corev1.EnvVar{{Name: "SECRET", Value: "canary"}}
		}
		objects = append(objects, p)
	}
	for _, o := range objects {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatalf("creating %T: %v", o, err)
		}
	}
	feed, stop := startFeed(t, c.Config)
	defer stop()
	same := func(what string) *cluster.Snapshot {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for {
			loaded, err := kube.Load(t.Context(), admin, kube.LoadOptions{Page: 5})
			if err != nil {
				t.Fatal(err)
			}
			want := loaded.Snapshot(t.Context(), at, cluster.Settings{}, nil)
			got, err := feed.Snapshot(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			if got.Digest() == want.Digest() {
				return got
			}
			select {
			case <-deadline:
				t.Fatalf("%s: the feed has %d pods, %d pools, digest %s; the load %d, %d, %s", what, len(got.Pods), len(got.Pools), got.Digest(), len(want.Pods), len(want.Pools), want.Digest())
			case <-time.After(50 * time.Millisecond): // the next look, not a wait for anything in particular
			}
		}
	}
	if s := same("at the start"); len(s.Pods) != 12 || len(s.Pools) != 1 || len(s.Unbound()) != 1 || s.Namespaces["shop"]["team"] != "a" {
		t.Errorf("%d pods in %d groups, %d pools", len(s.Pods), len(s.Unbound()), len(s.Pools))
	}
	if err := admin.Delete(t.Context(), objects[3], client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	if s := same("after changes"); len(s.Pods) != 11 || len(s.Nodes) != 1 {
		t.Errorf("%d pods, %d nodes", len(s.Pods), len(s.Nodes))
	}

	nobody := rest.CopyConfig(c.Config)
	nobody.Impersonate = rest.ImpersonationConfig{UserName: "dana"}
	reader, err := kube.NewReader(nobody)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := kube.Load(t.Context(), reader, kube.LoadOptions{}); err == nil {
		t.Errorf("a user without rights read %d pods", len(got.Pods))
	}
}

// startFeed runs a cache as the agent does, and waits for its first lists.
func startFeed(t *testing.T, cfg *rest.Config) (*kube.Feed, func()) {
	t.Helper()
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	feed := kube.NewFeed(cluster.Settings{}, nil, time.Now)
	informers, err := cache.New(cfg, cache.Options{Scheme: scheme, DefaultTransform: kube.Transform, DefaultWatchErrorHandler: feed.WatchErrorHandler()})
	if err != nil {
		t.Fatal(err)
	}
	if err := feed.Register(t.Context(), informers); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- informers.Start(ctx) }()
	if !informers.WaitForCacheSync(ctx) {
		t.Fatal("the cache does not sync")
	}
	for !feed.Synced() {
		select {
		case <-ctx.Done():
			t.Fatalf("not synced: %v", feed.Unsynced())
		case <-time.After(10 * time.Millisecond): // handlers follow the cache
		}
	}
	return feed, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
