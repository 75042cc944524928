package rbac_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/karp-sh/karp/pkg/config"
	"github.com/karp-sh/karp/test/cluster"
)

const manifests = ".."

// objects decodes all objects of a folder, refusing unknown fields, and checks that the kustomization names every file.
func objects(t *testing.T, folder string) []client.Object {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	data, err := os.ReadFile(filepath.Join(manifests, folder, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &kustomization); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(manifests, folder, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var out []client.Object
	for _, file := range files {
		name := filepath.Base(file)
		if name == "kustomization.yaml" {
			continue
		}
		if !slices.Contains(kustomization.Resources, name) {
			t.Errorf("%s/kustomization.yaml does not name %s", folder, name)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, doc := range strings.Split("\n"+string(data), "\n---\n") {
			obj, _, err := decoder.Decode([]byte(doc), nil, nil)
			if err != nil {
				t.Fatalf("%s, document %d: %v", file, i, err)
			}
			out = append(out, obj.(client.Object))
		}
	}
	if len(out) == 0 || len(files) != len(kustomization.Resources)+1 {
		t.Errorf("%s: %d objects in %d files, kustomization names %d", folder, len(out), len(files), len(kustomization.Resources))
	}
	return out
}

func find[T client.Object](t *testing.T, list []client.Object, name string) T {
	t.Helper()
	for _, o := range list {
		if x, ok := o.(T); ok && o.GetName() == name {
			return x
		}
	}
	var none T
	t.Fatalf("no %T %s", none, name)
	return none
}

// The Deployment sets only settings that exist, and exposes the ports that the program listens on.
func TestDeploymentFitsProgram(t *testing.T) {
	list := objects(t, "agent")
	spec := find[*appsv1.Deployment](t, list, "karp-agent").Spec.Template.Spec
	known := map[string]bool{}
	for _, s := range config.Table() {
		known[s.Env] = true
	}
	for _, e := range spec.Containers[0].Env {
		if !known[e.Name] {
			t.Errorf("%s is not a setting", e.Name)
		}
	}
	c := config.Default()
	want := map[int32]bool{int32(c.MetricsPort): true, int32(c.HealthProbePort): true, int32(c.StatusPort): true}
	for _, p := range spec.Containers[0].Ports {
		if !want[p.ContainerPort] {
			t.Errorf("nothing listens on port %d", p.ContainerPort)
		}
		delete(want, p.ContainerPort)
	}
	for p := range want {
		t.Errorf("port %d is not in the manifest", p)
	}
	for _, p := range find[*corev1.Service](t, list, "karp-agent").Spec.Ports {
		if !slices.ContainsFunc(spec.Containers[0].Ports, func(x corev1.ContainerPort) bool { return x.Name == p.TargetPort.StrVal && x.ContainerPort == p.Port }) {
			t.Errorf("service port %s leads nowhere", p.Name)
		}
	}
	policy := find[*networkingv1.NetworkPolicy](t, list, "karp-agent")
	var open []int32
	for _, in := range policy.Spec.Ingress {
		for _, p := range in.Ports {
			open = append(open, p.Port.IntVal)
		}
	}
	slices.Sort(open)
	if want := []int32{8080, 8081, 8443}; !slices.Equal(open, want) {
		t.Errorf("the network policy opens %v, the program listens on %v", open, want)
	}
}

// No role reaches further than one can list: no wildcards, no secrets, no configmaps, no writing of pods' specs.
func TestRolesAreNarrow(t *testing.T) {
	check := func(name string, rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			for _, v := range slices.Concat(r.APIGroups, r.Resources, r.Verbs) {
				if v == "*" {
					t.Errorf("%s has a wildcard: %v", name, r)
				}
			}
			for _, res := range r.Resources {
				if slices.Contains([]string{"secrets", "configmaps", "nodes/proxy", "pods/exec", "pods/portforward", "serviceaccounts"}, res) {
					t.Errorf("%s reaches %s", name, res)
				}
				if res == "pods" && strings.HasPrefix(name, "karp-agent") && name != "karp-agent-force" && slices.ContainsFunc(r.Verbs, func(v string) bool { return !slices.Contains([]string{"get", "list", "watch"}, v) }) {
					t.Errorf("%s may %v pods", name, r.Verbs)
				}
			}
		}
	}
	for _, o := range objects(t, "rbac") {
		switch x := o.(type) {
		case *rbacv1.ClusterRole:
			check(x.Name, x.Rules)
		case *rbacv1.Role:
			check(x.Name, x.Rules)
		}
	}
}

func sandbox(t *testing.T) (*cluster.Cluster, client.Client) {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Components: []string{"etcd", "apiserver", "controller-manager"}})
	all := runtime.NewScheme()
	if err := scheme.AddToScheme(all); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(c.Config, client.Options{Scheme: all})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, "rbac") {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
	return c, admin
}

// request is one question to the authorizer.
type request struct{ verb, group, resource, sub, namespace, name string }

func TestOnRealServer(t *testing.T) {
	c, admin := sandbox(t)
	t.Run("agent's rights", func(t *testing.T) { agentRights(t, admin) })
	t.Run("users' rights", func(t *testing.T) { userRights(t, admin) })
	t.Run("pod is restricted", func(t *testing.T) { restricted(t, admin) })
	t.Run("status", func(t *testing.T) { statusEndpoint(t, c, admin) })
}

func ask(t *testing.T, admin client.Client, user string, groups []string, r request) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: &authorizationv1.ResourceAttributes{
		Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.sub, Namespace: r.namespace, Name: r.name,
	}}}
	if err := admin.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

func agentRights(t *testing.T, admin client.Client) {
	user := "system:serviceaccount:kube-system:karp-agent"
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"}
	const ours, class = "karpenter.sh", "karpenter.k8s.aws"
	for r, want := range map[request]bool{
		{"create", ours, "nodeclaims", "", "", ""}: true, {"delete", ours, "nodeclaims", "", "", ""}: true, {"patch", ours, "nodeclaims", "status", "", ""}: true,
		{"patch", ours, "nodepools", "", "", ""}: true, {"patch", ours, "nodepools", "status", "", ""}: true, {"delete", ours, "nodepools", "", "", ""}: false,
		{"create", ours, "nodepools", "", "", ""}: false, {"patch", class, "ec2nodeclasses", "", "", ""}: true, {"delete", class, "ec2nodeclasses", "", "", ""}: false,
		{"watch", "", "pods", "", "", ""}: true, {"create", "", "pods", "", "x", ""}: false, {"patch", "", "pods", "", "x", ""}: false, {"delete", "", "pods", "", "x", ""}: true,
		{"patch", "", "pods", "status", "x", ""}: true, {"create", "", "pods", "eviction", "x", ""}: true, {"patch", "", "nodes", "", "", ""}: true, {"create", "", "nodes", "", "", ""}: false,
		{"delete", "", "nodes", "", "", ""}: true, {"list", "", "secrets", "", "", ""}: false, {"get", "", "configmaps", "", "kube-system", "x"}: false,
		{"create", "", "events", "", "x", ""}: true, {"list", "storage.k8s.io", "volumeattachments", "", "", ""}: true, {"delete", "storage.k8s.io", "volumeattachments", "", "", ""}: false,
		{"update", "coordination.k8s.io", "leases", "", "kube-system", "karpenter-leader-election"}: true, {"patch", "coordination.k8s.io", "leases", "", "kube-system", "karpenter-leader-election"}: true,
		{"update", "coordination.k8s.io", "leases", "", "kube-system", "other"}: false, {"get", "coordination.k8s.io", "leases", "", "kube-node-lease", "n"}: false,
		{"get", "", "services", "", "kube-system", "kube-dns"}: true, {"get", "", "services", "", "kube-system", "other"}: false, {"list", "", "services", "", "", ""}: false,
		{"create", "authentication.k8s.io", "tokenreviews", "", "", ""}: true, {"create", "authorization.k8s.io", "subjectaccessreviews", "", "", ""}: true,
		{"create", "", "serviceaccounts", "token", "kube-system", "karp-reader"}: false, {"list", "policy", "poddisruptionbudgets", "", "", ""}: true,
		{"create", "apps", "controllerrevisions", "", "kube-system", ""}: true, {"create", "apps", "controllerrevisions", "", "default", ""}: false,
	} {
		if got := ask(t, admin, user, groups, r); got != want {
			t.Errorf("the agent may %+v: %v, want %v", r, got, want)
		}
	}
}

func bind(t *testing.T, admin client.Client, user, role, namespace string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: user + "-" + role, Namespace: namespace}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	var o client.Object = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	if namespace == "" {
		o = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	if err := admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func userRights(t *testing.T, admin client.Client) {
	bind(t, admin, "viewer", "karp-view", "")
	bind(t, admin, "asker", "karp-status", "kube-system")
	bind(t, admin, "scaler", "karp-scale", "")
	bind(t, admin, "editor", "karp-editor", "")
	const ours = "karpenter.sh"
	requests := map[string]request{
		"list pools": {"list", ours, "nodepools", "", "", ""}, "list nodes": {"list", "", "nodes", "", "", ""}, "delete claims": {"delete", ours, "nodeclaims", "", "", ""},
		"scale": {"patch", ours, "nodepools", "scale", "", "p"}, "create class": {"create", "karpenter.k8s.aws", "ec2nodeclasses", "", "", ""},
		"proxy": {"get", "", "services", "proxy", "kube-system", "https:karp-agent:status"}, "other proxy": {"get", "", "services", "proxy", "kube-system", "karp-agent"},
		"token": {"create", "", "serviceaccounts", "token", "kube-system", "karp-reader"}, "agent's token": {"create", "", "serviceaccounts", "token", "kube-system", "karp-agent"},
		"lease": {"get", "coordination.k8s.io", "leases", "", "kube-system", "karpenter-leader-election"}, "elsewhere": {"create", "", "serviceaccounts", "token", "default", "karp-reader"},
	}
	for user, may := range map[string][]string{
		"viewer": {"list pools", "list nodes"}, "asker": {"proxy", "token", "lease"}, "scaler": {"scale"}, "editor": {"list pools", "delete claims", "scale", "create class"}, "nobody": nil,
	} {
		for name, r := range requests {
			if got, want := ask(t, admin, user, nil, r), slices.Contains(may, name); got != want {
				t.Errorf("%s may %s: %v, want %v", user, name, got, want)
			}
		}
	}
}

// restricted has the API server's own admission judge the pod (Pod Security Standards, level restricted).
func restricted(t *testing.T, admin client.Client) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strict", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "strict", Name: "karp-agent"}}
	for _, o := range []client.Object{ns, account} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	spec := find[*appsv1.Deployment](t, objects(t, "agent"), "karp-agent").Spec.Template.Spec
	pod := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "strict", Name: "agent"}, Spec: *spec.DeepCopy()}
	}
	if err := admin.Create(t.Context(), pod(), client.DryRunAll); err != nil {
		t.Errorf("the agent's pod is refused: %v", err)
	}
	loose := pod()
	loose.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
	if err := admin.Create(t.Context(), loose, client.DryRunAll); err == nil {
		t.Error("a pod that is not restricted was accepted: the check checks nothing")
	}
	for _, o := range objects(t, "agent") {
		if err := admin.Create(t.Context(), o, client.DryRunAll); err != nil {
			t.Errorf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

// token gets a token of a ServiceAccount.
func token(t *testing.T, admin *kubernetes.Clientset, namespace, name, audience string) string {
	t.Helper()
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
	r, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, r, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Status.Token
}

func clients(t *testing.T, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	out, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func lease(t *testing.T, admin *kubernetes.Clientset) {
	t.Helper()
	holder := "test_1"
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "karpenter-leader-election"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, RenewTime: &metav1.MicroTime{Time: time.Unix(1, 0)},
	}}
	if _, err := admin.CoordinationV1().Leases("kube-system").Create(t.Context(), l, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
