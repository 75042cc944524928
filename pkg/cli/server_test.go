package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// served is a kind that apiServer has.
type served struct {
	group, version, name, kind string
	namespaced                 bool
}

func resources() []served {
	return []served{
		{"", "v1", "pods", "Pod", true}, {"", "v1", "nodes", "Node", false}, {"", "v1", "namespaces", "Namespace", false}, {"", "v1", "events", "Event", true},
		{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true}, {"", "v1", "persistentvolumes", "PersistentVolume", false},
		{"apps", "v1", "daemonsets", "DaemonSet", true}, {"apps", "v1", "deployments", "Deployment", true}, {"apps", "v1", "replicasets", "ReplicaSet", true},
		{"storage.k8s.io", "v1", "storageclasses", "StorageClass", false}, {"storage.k8s.io", "v1", "csinodes", "CSINode", false},
		{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true}, {"coordination.k8s.io", "v1", "leases", "Lease", true},
		{"karpenter.sh", "v1", "nodepools", "NodePool", false}, {"karpenter.sh", "v1", "nodeclaims", "NodeClaim", false},
		{"karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass", false},
	}
}

// apiServer plays the part of the API server that the plugin uses: discovery, get and list of what a scenario holds, the scale subresource, and
// rights. It remembers every request that is not a read.
type apiServer struct {
	mu      sync.Mutex
	objects map[string][]unstructured.Unstructured // by resource name
	// forbidden resources cannot be listed; within a namespace they can if it is in allowed.
	forbidden []string
	allowed   string
	writes    []string
	// agent answers below the service proxy's path, if there is one.
	agent http.Handler
	// afterScale runs when the scale subresource was written.
	afterScale func(*apiServer, int64)
}

// newAPIServer serves the objects below a directory.
func newAPIServer(t *testing.T, dir string) *apiServer {
	t.Helper()
	a := &apiServer{objects: map[string][]unstructured.Unstructured{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			a.add(t, doc)
		}
	}
	return a
}

func (a *apiServer) add(t *testing.T, doc string) {
	t.Helper()
	var u unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
		t.Fatal(err)
	}
	all := []unstructured.Unstructured{u}
	if items, ok := u.Object["items"].([]any); ok {
		all = nil
		for _, i := range items {
			if m, ok := i.(map[string]any); ok {
				all = append(all, unstructured.Unstructured{Object: m})
			}
		}
	}
	for _, u := range all {
		for _, r := range resources() {
			if u.GetKind() == r.kind {
				u.SetResourceVersion("7")
				a.objects[r.name] = append(a.objects[r.name], u)
			}
		}
	}
}

// kubeconfig starts the server and writes how it is reached.
func (a *apiServer) kubeconfig(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {token: secret}}]
`, s.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, rest, ok := strings.Cut(r.URL.Path, "/services/https:karp-agent:status/proxy"); ok && a.agent != nil {
		r2 := r.Clone(r.Context())
		r2.Header.Del("Authorization")
		r2.URL.Path = rest
		a.mu.Unlock()
		a.agent.ServeHTTP(w, r2)
		a.mu.Lock()
		return
	}
	if strings.HasSuffix(r.URL.Path, "/serviceaccounts/karp-reader/token") && a.agent != nil {
		reply(w, http.StatusCreated, map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "status": map[string]any{"token": "reader"}})
		return
	}
	if r.Method != http.MethodGet {
		a.write(w, r)
		return
	}
	a.read(w, r)
}

// write records and answers what is not a read. Asking for the reader's token is the one that every command may do.
func (a *apiServer) write(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case strings.HasSuffix(r.URL.Path, "/serviceaccounts/karp-reader/token"):
		refuse(w, http.StatusNotFound, "NotFound", `serviceaccounts "karp-reader" not found`)
		return
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		review(w, r, map[string]any{"authenticated": true, "user": map[string]any{"username": "karp-reader"}, "audiences": []string{"karp-agent"}})
		return
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		review(w, r, map[string]any{"allowed": true})
		return
	}
	a.writes = append(a.writes, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.URL.RawQuery))
	if parts[len(parts)-1] != "scale" {
		refuse(w, http.StatusForbidden, "Forbidden", "read-only")
		return
	}
	var scale struct {
		Metadata struct{ ResourceVersion string }
		Spec     struct{ Replicas int64 }
	}
	if err := json.NewDecoder(r.Body).Decode(&scale); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	if v := scale.Metadata.ResourceVersion; v != "" && v != "7" {
		refuse(w, http.StatusConflict, "Conflict", "the object has been modified")
		return
	}
	if a.afterScale != nil && !strings.Contains(r.URL.RawQuery, "dryRun=All") {
		a.afterScale(a, scale.Spec.Replicas)
	}
	reply(w, http.StatusOK, map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": map[string]any{"name": parts[len(parts)-2]}, "spec": map[string]any{"replicas": scale.Spec.Replicas}})
}

// review answers a review with what came, and a status.
func review(w http.ResponseWriter, r *http.Request, status map[string]any) {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	body["status"] = status
	reply(w, http.StatusCreated, body)
}

func (a *apiServer) read(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group, rest := "", parts[1:]
	if parts[0] == "apis" && len(parts) > 1 {
		group, rest = parts[1], parts[2:]
	}
	switch {
	case r.URL.Path == "/api":
		reply(w, http.StatusOK, map[string]any{"kind": "APIVersions", "versions": []string{"v1"}})
	case r.URL.Path == "/apis":
		reply(w, http.StatusOK, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups()})
	case len(rest) == 0:
		refuse(w, http.StatusNotFound, "NotFound", "no such path")
	case len(rest) == 1:
		reply(w, http.StatusOK, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": strings.Trim(group+"/"+rest[0], "/"), "resources": described(group)})
	default:
		namespace := ""
		if rest[1] == "namespaces" && len(rest) > 3 {
			namespace, rest = rest[2], rest[2:]
		}
		name := ""
		if len(rest) > 2 {
			name = rest[2]
		}
		a.object(w, r, resourceNamed(group, rest[1]), namespace, name)
	}
}

func (a *apiServer) object(w http.ResponseWriter, r *http.Request, kind *served, namespace, name string) {
	if kind == nil {
		refuse(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
		return
	}
	if slices.Contains(a.forbidden, kind.name) && (namespace == "" || namespace != a.allowed) {
		where := "at the cluster scope"
		if namespace != "" {
			where = fmt.Sprintf("in the namespace %q", namespace)
		}
		refuse(w, http.StatusForbidden, "Forbidden", fmt.Sprintf("%s is forbidden: User %q cannot list resource %q in API group %q %s", kind.name, "dana", kind.name, kind.group, where))
		return
	}
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	items := []unstructured.Unstructured{}
	for _, u := range a.objects[kind.name] {
		if (namespace == "" || u.GetNamespace() == namespace) && (name == "" || u.GetName() == name) && selector.Matches(labels.Set(u.GetLabels())) {
			items = append(items, u)
		}
	}
	if name != "" {
		if len(items) == 0 {
			refuse(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", kind.name, name))
			return
		}
		reply(w, http.StatusOK, items[0].Object)
		return
	}
	list := unstructured.UnstructuredList{Object: map[string]any{"kind": kind.kind + "List", "apiVersion": strings.Trim(kind.group+"/"+kind.version, "/"), "metadata": map[string]any{"resourceVersion": "7"}}, Items: items}
	reply(w, http.StatusOK, &list)
}

func resourceNamed(group, name string) *served {
	for _, r := range resources() {
		if r.group == group && r.name == name {
			return &r
		}
	}
	return nil
}

func groups() []map[string]any {
	var out []map[string]any
	seen := map[string]bool{"": true}
	for _, r := range resources() {
		if seen[r.group] {
			continue
		}
		seen[r.group] = true
		version := map[string]any{"groupVersion": r.group + "/" + r.version, "version": r.version}
		out = append(out, map[string]any{"name": r.group, "versions": []any{version}, "preferredVersion": version})
	}
	return out
}

func described(group string) []map[string]any {
	var out []map[string]any
	for _, r := range resources() {
		if r.group == group {
			out = append(out, map[string]any{"name": r.name, "kind": r.kind, "namespaced": r.namespaced, "verbs": []string{"get", "list", "watch"}})
		}
	}
	return out
}

func reply(w http.ResponseWriter, code int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}

func refuse(w http.ResponseWriter, code int, reason, message string) {
	reply(w, code, map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure", "message": message, "reason": reason, "code": code})
}
