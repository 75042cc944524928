package cluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Query says which objects Await looks at.
type Query struct {
	Resource  schema.GroupVersionResource
	Namespace string        // "" for all
	Labels    string        // label selector
	Within    time.Duration // default one minute
}

// Await watches the objects of a query until missing returns "" for them. missing is called with all objects, first when the
// list is complete and then after every change; it returns what is not there yet, which is what the test fails with
// when the time is up. The watch outlives restarts of the API server. T is the Go type of the object, such as corev1.Pod.
func Await[T any](tb testing.TB, c *Cluster, q Query, missing func([]T) string) {
	tb.Helper()
	if q.Within == 0 {
		q.Within = time.Minute
	}
	ctx, cancel := context.WithTimeout(tb.Context(), q.Within)
	defer cancel()
	informer, err := c.informer(q)
	if err != nil {
		tb.Fatal(err)
	}
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // one is due already
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
	}); err != nil {
		tb.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); informer.Run(ctx.Done()) }()
	defer func() { cancel(); <-stopped }()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		tb.Fatalf("listing %s: no complete list within %s", q.Resource.Resource, q.Within)
	}
	for {
		last := missing(decode[T](tb, informer.GetStore()))
		if last == "" {
			return
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("waiting for %s: after %s still: %s", q.Resource.Resource, q.Within, last)
		case <-changed:
		}
	}
}

func (c *Cluster) informer(q Query) (cache.SharedIndexInformer, error) {
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("making client: %w", err)
	}
	only := func(o *metav1.ListOptions) { o.LabelSelector = q.Labels }
	return dynamicinformer.NewFilteredDynamicInformer(client, q.Resource, q.Namespace, 0, cache.Indexers{}, only).Informer(), nil
}

func decode[T any](tb testing.TB, store cache.Store) []T {
	tb.Helper()
	var out []T
	for _, o := range store.List() {
		var t T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.(*unstructured.Unstructured).Object, &t); err != nil {
			tb.Fatalf("decoding an object as %T: %v", t, err)
		}
		out = append(out, t)
	}
	return out
}

// ServiceAccount returns the configuration of a client that is the given service account, with a token of one hour from
// the API server: what RBAC and admission policies see is what they see in a real cluster.
func (c *Cluster) ServiceAccount(tb testing.TB, namespace, name string) *rest.Config {
	tb.Helper()
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		tb.Fatal(err)
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(tb.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("asking for a token of service account %s/%s: %v", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(c.Config)
	config.BearerToken = token.Status.Token
	return config
}
