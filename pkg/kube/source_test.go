package kube_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/kube"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const podText = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}\n"

func TestReadFiles(t *testing.T) {
	dir := write(t, map[string]string{
		"pods.yaml": "# two documents\n---\n" + podText + "--- # comment\n" + strings.Replace(podText, "name: a}", "name: b, namespace: shop}", 1) + "---\n",
		"sub/list.yml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node, metadata: {name: node-1}}\n- {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: p}}\n" +
			"- {apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}\n- {apiVersion: example.com/v1, kind: Widget, metadata: {name: v}}\n",
		"typed.json": `{"apiVersion":"karpenter.sh/v1","kind":"NodeClaimList","items":[{"metadata":{"name":"c","uid":"u"}}]}`,
		"more.yaml":  "--- {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}}\n",
		"note.txt":   "not read",
	})
	got, err := kube.ReadFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, p := range got.Pods {
		names = append(names, p.Namespace+"/"+p.Name+" "+string(p.UID))
	}
	if diff := cmp.Diff([]string{"default/a Pod/default/a", "shop/b Pod/shop/b"}, names); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if len(got.Nodes) != 1 || len(got.NodePools) != 1 || len(got.NodeClaims) != 1 || got.NodeClaims[0].UID != "u" || len(got.Others) != 1 {
		t.Errorf("got %d nodes, %d pools, %d claims, %d others", len(got.Nodes), len(got.NodePools), len(got.NodeClaims), len(got.Others))
	}
	want := []kube.Note{{Where: dir, Text: "2 object(s) of kind example.com/v1 Widget left out: karp does not read this kind"}}
	if diff := cmp.Diff(want, got.Notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if s := got.Snapshot(t.Context(), at, cluster.Settings{}, nil); len(s.Pods) != 2 || s.Pods[0].Shape.Requests["cpu"] != 100 {
		t.Errorf("snapshot of %d pods", len(s.Pods))
	}
}

func TestReadFilesRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"syntax":         {podText + "---\nkind: [\n", []string{"x.yaml:6: not valid YAML"}},
		"tab":            {"a: 1\n\tb: 2\n", []string{"x.yaml:2: not valid YAML"}},
		"no kind":        {"a: 1\n", []string{"x.yaml:1: not a Kubernetes object: apiVersion or kind is missing"}},
		"a scalar":       {"hello\n", []string{"x.yaml:1: not a Kubernetes object"}},
		"no name":        {"\n---\napiVersion: v1\nkind: Pod\n", []string{"x.yaml:3: Pod: metadata.name is missing"}},
		"wrong type":     {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: 7}\n", []string{"x.yaml:1: Pod a: "}},
		"bad quantity":   {strings.Replace(podText, "100m", "lots", 1), []string{"x.yaml:1: Pod a: "}},
		"item of a list": {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Node}]\n", []string{"x.yaml:1: items[0]: Node: metadata.name is missing"}},
		"two at once":    {"a: 1\n---\nb: 2\n", []string{"x.yaml:1: ", "x.yaml:3: "}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kube.ReadFiles(write(t, map[string]string{"x.yaml": tc.text}))
			var bad *kube.BadInput
			if !errors.As(err, &bad) {
				t.Fatalf("error %v, want a BadInput", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
	if _, err := kube.ReadFiles(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing path: %v", err)
	}
	if _, err := kube.ReadFiles(t.TempDir()); err == nil || !strings.Contains(err.Error(), "holds no .yaml") {
		t.Errorf("empty directory: %v", err)
	}
}

func FuzzReadBytes(f *testing.F) {
	f.Add([]byte(podText))
	f.Add([]byte("---\n--- |\n x\n---"))
	f.Add([]byte(`{"kind":"List","apiVersion":"v1","items":[{"kind":"List","apiVersion":"v1","items":[null]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := kube.ReadBytes("x", data)
		if err != nil {
			return
		}
		// Whatever could be read must also make a snapshot.
		got.Snapshot(t.Context(), at, cluster.Settings{}, nil)
	})
}

// lists is a client over the objects whose lists can fail by kind.
func lists(t *testing.T, fail func(list client.ObjectList, o client.ListOptions) error, objects ...client.Object) client.Client {
	t.Helper()
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var o client.ListOptions
			o.ApplyOptions(opts)
			if fail != nil {
				if err := fail(list, o); err != nil {
					return err
				}
			}
			return c.List(ctx, list, opts...)
		},
	}).Build()
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("dana may not list"))
}

func TestLoad(t *testing.T) {
	objects := []client.Object{
		pod("a"), pod("b", func(p *corev1.Pod) { p.Namespace = "other" }),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, pool("p", "default"), class("default"),
	}
	for name, tc := range map[string]struct {
		fail          func(client.ObjectList, client.ListOptions) error
		opts          kube.LoadOptions
		pods, nodes   int
		unknown, note string
	}{
		"all": {pods: 2, nodes: 1},
		"nodes forbidden": {fail: func(l client.ObjectList, _ client.ListOptions) error {
			if _, ok := l.(*corev1.NodeList); ok {
				return forbidden("nodes")
			}
			return nil
		}, pods: 2, unknown: "Node"},
		"pods of one namespace": {opts: kube.LoadOptions{Namespace: "shop"}, fail: func(l client.ObjectList, o client.ListOptions) error {
			if _, ok := l.(*corev1.PodList); ok && o.Namespace == "" {
				return forbidden("pods")
			}
			return nil
		}, pods: 1, nodes: 1, unknown: "Pod"},
		"kind not installed": {fail: func(l client.ObjectList, _ client.ListOptions) error {
			if _, ok := l.(*karpv1.NodeClaimList); ok {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "karpenter.sh", Kind: "NodeClaim"}}
			}
			return nil
		}, pods: 2, nodes: 1, note: "NodeClaim"},
		"skipped": {opts: kube.LoadOptions{Skip: []string{kube.PodKind}}, nodes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := kube.Load(t.Context(), lists(t, tc.fail, objects...), tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Pods) != tc.pods || len(got.Nodes) != tc.nodes || len(got.NodePools) != 1 || len(got.Classes) != 1 {
				t.Errorf("%d pods, %d nodes, %d pools, %d classes", len(got.Pods), len(got.Nodes), len(got.NodePools), len(got.Classes))
			}
			unknown, note := "", ""
			for _, u := range got.Unknown {
				unknown += u.Kind
			}
			for _, n := range got.Notes {
				note += n.Where
			}
			if unknown != tc.unknown || note != tc.note {
				t.Errorf("unknown %q, notes %q; want %q, %q", unknown, note, tc.unknown, tc.note)
			}
			if tc.unknown != "" && got.Missing(tc.unknown) == "" {
				t.Errorf("Missing(%s) is empty", tc.unknown)
			}
			s := got.Snapshot(t.Context(), at, cluster.Settings{}, nil)
			if len(s.Unknown) != len(got.Unknown) {
				t.Errorf("the snapshot has %v unknown, want %v", s.Unknown, got.Unknown)
			}
		})
	}
}

func TestLoadPages(t *testing.T) {
	// The server cuts lists into pages of two, and forgets the version once on the way.
	var mu sync.Mutex
	expired := false
	names := []string{"a", "b", "c", "d", "e"}
	reader := lists(t, nil)
	paging := interceptor.NewClient(reader.(client.WithWatch), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			pods, ok := list.(*corev1.PodList)
			if !ok {
				return nil
			}
			var o client.ListOptions
			o.ApplyOptions(opts)
			from := 0
			if o.Continue != "" {
				if o.AsListOptions().ResourceVersion != "" {
					return errors.New("a continuation must not name a version")
				}
				if _, err := fmt.Sscan(o.Continue, &from); err != nil {
					return err
				}
			} else if v := o.AsListOptions().ResourceVersion; v != "0" {
				return fmt.Errorf("version %q asked for, want 0", v)
			}
			mu.Lock()
			defer mu.Unlock()
			if from == 4 && !expired {
				expired = true
				return apierrors.NewResourceExpired("compacted")
			}
			to := min(from+int(o.Limit), len(names))
			for _, n := range names[from:to] {
				pods.Items = append(pods.Items, *pod(n))
			}
			if to < len(names) {
				pods.Continue = fmt.Sprint(to)
			}
			return nil
		},
	})
	got, err := kube.Load(t.Context(), paging, kube.LoadOptions{Page: 2})
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, p := range got.Pods {
		read = append(read, p.Name)
	}
	if diff := cmp.Diff(names, read); diff != "" || !expired {
		t.Errorf("expired %v, pods (-want +got):\n%s", expired, diff)
	}
}

func TestLoadFails(t *testing.T) {
	down := func(client.ObjectList, client.ListOptions) error { return errors.New("connection refused") }
	if _, err := kube.Load(t.Context(), lists(t, down), kube.LoadOptions{}); err == nil || strings.Count(err.Error(), "connection refused") != 1 {
		t.Errorf("unreachable server: %v, want the cause once", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := kube.Load(ctx, lists(t, nil), kube.LoadOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
