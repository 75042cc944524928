package cluster_test

import (
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/karp-sh/karp/test/cluster"
	"github.com/karp-sh/karp/test/cluster/control"
)

// shared has what the tests of the API server need.
var shared = cluster.Shared{Options: cluster.Options{Components: []string{control.Etcd, control.APIServer, control.ControllerManager}}}

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

func TestVersionIsThatOfARelease(t *testing.T) {
	v, err := clientOf(t, shared.Cluster(t)).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if v.Major != "1" || v.Minor == "" || !strings.HasPrefix(v.GitVersion, "v1."+v.Minor+".") {
		t.Errorf("server version: got %+v, want a release", v)
	}
}

func TestNodeMayWriteItselfOnly(t *testing.T) {
	c := shared.Cluster(t)
	createNode(t, c, "mine")
	createNode(t, c, "other")
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:mine", Groups: []string{"system:nodes"}}
	kubelet := clientFor(t, config)
	tests := map[string]struct {
		node, patch string
		allowed     bool
	}{
		"its own annotation":        {node: "mine", patch: `{"metadata":{"annotations":{"a":"b"}}}`, allowed: true},
		"another node":              {node: "other", patch: `{"metadata":{"annotations":{"a":"b"}}}`},
		"a label that is not its":   {node: "mine", patch: `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`},
		"a taint it did not have":   {node: "mine", patch: `{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`},
		"a label that kubelets set": {node: "mine", patch: `{"metadata":{"labels":{"topology.kubernetes.io/zone":"a"}}}`, allowed: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := kubelet.CoreV1().Nodes().Patch(t.Context(), tt.node, "application/merge-patch+json", []byte(tt.patch), metav1.PatchOptions{})
			if tt.allowed && err != nil || !tt.allowed && !apierrors.IsForbidden(err) {
				t.Errorf("patching %s with %s: got error %v, want allowed %t", tt.node, tt.patch, err, tt.allowed)
			}
		})
	}
}

func TestServiceAccountHasWhatRBACGives(t *testing.T) {
	c := shared.Cluster(t)
	admin := clientOf(t, c)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "view", Namespace: "default"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "default"}},
	}
	if _, err := admin.RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := clientFor(t, c.ServiceAccount(t, "default", "default"))
	if _, err := account.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("listing pods with role view: %v", err)
	}
	if _, err := account.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing pods of another namespace: got error %v, want forbidden", err)
	}
}

func TestValidatingAdmissionPolicyIsEnforced(t *testing.T) {
	c := shared.Cluster(t)
	admin := clientOf(t, c)
	deny := admissionv1.Deny
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "no-forbidden-label"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: `!has(object.metadata.labels) || !("forbidden" in object.metadata.labels)`, Message: "not here"}},
		},
	}
	if _, err := admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec:       admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{deny}},
	}
	if _, err := admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// The controller that checks the types of expressions has seen it.
	q := cluster.Query{Resource: admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")}
	cluster.Await(t, c, q, func(policies []admissionv1.ValidatingAdmissionPolicy) string {
		for _, p := range policies {
			if p.Name == policy.Name && p.Status.ObservedGeneration == p.Generation {
				return ""
			}
		}
		return "the policy is not observed"
	})
	// The API server reads policies from a watch of its own, so the first writes may still pass. There is nothing to
	// watch for that: every attempt is an object of its own, until one is refused.
	for t.Context().Err() == nil {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-", Namespace: "default", Labels: map[string]string{"forbidden": ""}}}
		_, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), config, metav1.CreateOptions{})
		if err == nil {
			continue
		}
		if !strings.Contains(err.Error(), "not here") {
			t.Errorf("creating a forbidden object: got error %v, want the policy's message", err)
		}
		return
	}
	t.Error("a forbidden object was never refused")
}

func clientFor(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
