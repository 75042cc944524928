// Package chart_test renders the chart with Helm and compares it with the plain manifests, the settings and the metrics of the agent.
package chart_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/karp-sh/karp/pkg/config"
)

func helm(args ...string) (stdout, stderr string, err error) {
	cmd := exec.Command("go", append([]string{"tool", "-modfile=test/tools/helm/go.mod", "helm"}, args...)...)
	cmd.Dir = "../.."
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// render returns the chart's objects by "Kind/name"; kinds of operators, which this program does not know, stay raw.
func render(t *testing.T, args ...string) (map[string]client.Object, map[string]string) {
	t.Helper()
	out, errs, err := helm(append([]string{"template", "karp", "manifests/chart", "-n", "kube-system", "--set", "settings.clusterName=prod"}, args...)...)
	if err != nil {
		t.Fatalf("helm template %v: %v\n%s", args, err, errs)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	objects, raw := map[string]client.Object{}, map[string]string{}
	for _, doc := range strings.Split(out, "\n---\n") {
		var head struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if head.Kind == "" {
			continue
		}
		key := head.Kind + "/" + head.Metadata.Name
		if strings.HasPrefix(head.APIVersion, "monitoring.coreos.com") {
			raw[key] = doc
			continue
		}
		o, _, err := decoder.Decode([]byte(doc), nil, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", key, err, doc)
		}
		objects[key] = o.(client.Object)
	}
	return objects, raw
}

// plain reads the manifests that the chart must agree with.
func plain(t *testing.T, folders ...string) map[string]client.Object {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	out := map[string]client.Object{}
	for _, folder := range folders {
		files, err := filepath.Glob("../" + folder + "/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %d files", folder, err, len(files))
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, doc := range strings.Split(string(data), "\n---\n") {
				o, _, err := decoder.Decode([]byte(doc), nil, nil)
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				x := o.(client.Object)
				out[o.GetObjectKind().GroupVersionKind().Kind+"/"+x.GetName()] = x
			}
		}
	}
	return out
}

func rules(o client.Object) []rbacv1.PolicyRule {
	switch x := o.(type) {
	case *rbacv1.ClusterRole:
		return x.Rules
	case *rbacv1.Role:
		return x.Rules
	}
	return nil
}

func subjects(o client.Object) []rbacv1.Subject {
	switch x := o.(type) {
	case *rbacv1.ClusterRoleBinding:
		return x.Subjects
	case *rbacv1.RoleBinding:
		return x.Subjects
	}
	return nil
}

// Helm and kustomize install the same objects: the same names, rights, ports, probes and security.
func TestChartEqualsManifests(t *testing.T) {
	got, _ := render(t, "--set", "policies.enabled=true")
	want := plain(t, "rbac", "agent", "policies")
	for key, w := range want {
		g := got[key]
		if g == nil {
			t.Errorf("the chart has no %s", key)
			continue
		}
		if d := cmp.Diff(rules(w), rules(g)) + cmp.Diff(subjects(w), subjects(g)); d != "" {
			t.Errorf("%s: manifests - chart +\n%s", key, d)
		}
		if w.GetNamespace() != g.GetNamespace() {
			t.Errorf("%s is in namespace %q, in the chart in %q", key, w.GetNamespace(), g.GetNamespace())
		}
	}
	for key := range got {
		if want[key] == nil {
			t.Errorf("the manifests have no %s", key)
		}
	}
	w, g := want["Deployment/karp-agent"].(*appsv1.Deployment).Spec.Template.Spec, got["Deployment/karp-agent"].(*appsv1.Deployment).Spec.Template.Spec
	type pod struct {
		Ports              []corev1.ContainerPort
		Liveness, Ready    *corev1.Probe
		Resources          corev1.ResourceRequirements
		Priority           string
		Tolerations        []corev1.Toleration
		NodeSelector       map[string]string
		Grace              *int64
		FSGroup, User      *int64
		Seccomp            *corev1.SeccompProfile
		ReadOnly, Escalate *bool
		Drop               []corev1.Capability
	}
	of := func(s corev1.PodSpec) pod {
		c := s.Containers[0]
		return pod{
			c.Ports, c.LivenessProbe, c.ReadinessProbe, c.Resources, s.PriorityClassName, s.Tolerations, s.NodeSelector, s.TerminationGracePeriodSeconds, s.SecurityContext.FSGroup,
			s.SecurityContext.RunAsUser, s.SecurityContext.SeccompProfile, c.SecurityContext.ReadOnlyRootFilesystem, c.SecurityContext.AllowPrivilegeEscalation, c.SecurityContext.Capabilities.Drop,
		}
	}
	if d := cmp.Diff(of(w), of(g)); d != "" {
		t.Errorf("pod: manifests - chart +\n%s", d)
	}
	if d := cmp.Diff(want["NetworkPolicy/karp-agent"].(*networkingv1.NetworkPolicy).Spec.Egress, got["NetworkPolicy/karp-agent"].(*networkingv1.NetworkPolicy).Spec.Egress); d != "" {
		t.Errorf("egress: manifests - chart +\n%s", d)
	}
}

// The chart's values say what the agent would do without them, and set nothing that the agent does not know.
func TestValuesAreDefaults(t *testing.T) {
	objects, _ := render(t)
	set := map[string]string{}
	for _, e := range objects["Deployment/karp-agent"].(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Env {
		if e.ValueFrom == nil {
			set[e.Name] = e.Value
		}
	}
	if set["KUBERNETES_MIN_VERSION"] == "" {
		t.Error("KUBERNETES_MIN_VERSION is not set")
	}
	delete(set, "KUBERNETES_MIN_VERSION")
	known := map[string]bool{}
	for _, s := range config.Table() {
		known[s.Env] = true
	}
	for name := range set {
		if !known[name] {
			t.Errorf("%s is not a setting", name)
		}
	}
	lookup := func(vars map[string]string) func(string) (string, bool) {
		return func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	}
	got, err := config.Parse(nil, lookup(set))
	if err != nil {
		t.Fatal(err)
	}
	want, err := config.Parse(nil, lookup(map[string]string{"CLUSTER_NAME": "prod", "KARPENTER_SERVICE": "karp-agent"}))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("defaults of the agent - of the chart +\n%s", d)
	}
}

// Values that a template must not swallow: false and zero count, and another name moves all objects.
func TestValuesArrive(t *testing.T) {
	objects, raw := render(t, "--set", "fullnameOverride=karpenter", "--set", "settings.ignoreDRARequests=false", "--set", "settings.vmMemoryOverheadPercent=0", "--set", "settings.placementHints=off",
		"--set", "settings.featureGates.nodeRepair=true", "--set-literal", "settings.interruptionQueue={{ .Release.Name }}-queue", "--set", "serviceAccount.annotations.role=x", "--set", "controller.env[0].name=A,controller.env[0].value=b",
		"--set", "serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboard.enabled=true", "--set", "additionalClusterRoleRules[0].verbs[0]=get,additionalClusterRoleRules[0].apiGroups[0]=x,additionalClusterRoleRules[0].resources[0]=y")
	d := objects["Deployment/karpenter"].(*appsv1.Deployment)
	env := map[string]string{}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	for name, want := range map[string]string{"IGNORE_DRA_REQUESTS": "false", "VM_MEMORY_OVERHEAD_PERCENT": "0", "PLACEMENT_HINTS": "off", "INTERRUPTION_QUEUE": "karp-queue", "A": "b", "CLUSTER_NAME": "prod"} {
		if env[name] != want {
			t.Errorf("%s=%q, want %q", name, env[name], want)
		}
	}
	if !strings.Contains(env["FEATURE_GATES"], "NodeRepair=true") {
		t.Errorf("FEATURE_GATES=%s", env["FEATURE_GATES"])
	}
	if objects["ClusterRole/karp-agent-hints"] != nil || objects["ClusterRole/karp-agent-dra"] == nil {
		t.Error("roles do not follow the settings")
	}
	if got := objects["ServiceAccount/karpenter"].GetAnnotations()["role"]; got != "x" {
		t.Errorf("annotation of the account: %q", got)
	}
	if s := subjects(objects["ClusterRoleBinding/karp-agent"]); s[0].Name != "karpenter" {
		t.Errorf("the role is bound to %v", s)
	}
	if r := rules(objects["ClusterRole/karp-agent"]); r[len(r)-1].Resources[0] != "y" {
		t.Errorf("last rule is %v", r[len(r)-1])
	}
	if objects["Service/karpenter"] == nil || objects["Service/karp-agent"] == nil {
		t.Error("a service is missing")
	}
	if raw["ServiceMonitor/karpenter"] == "" || raw["PrometheusRule/karpenter"] == "" || objects["ConfigMap/karp-dashboard"] == nil {
		t.Error("monitoring is missing")
	}
	own := d.Spec.Template.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector
	if own == nil || own.MatchLabels["app.kubernetes.io/name"] != "karpenter" {
		t.Errorf("the anti-affinity selects %v", own)
	}
}

// Helm refuses what cannot work, and says what to do.
func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"no cluster name", "settings.clusterName is required", nil},
		{"policy", "preferencePolicy", []string{"--set", "settings.clusterName=x,settings.preferencePolicy=Maybe"}},
		{"duration", "batchIdleDuration", []string{"--set", "settings.clusterName=x,settings.batchIdleDuration=soon"}},
		{"gate", "nodeRepair", []string{"--set-string", "settings.clusterName=x,settings.featureGates.nodeRepair=perhaps"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, errs, err := helm(append([]string{"template", "karp", "manifests/chart"}, c.args...)...); err == nil || !strings.Contains(errs, c.want) {
				t.Errorf("error %v does not name %q:\n%s%s", err, c.want, errs, out)
			}
		})
	}
}

func TestLint(t *testing.T) {
	for _, chart := range []string{"chart", "chart-crd"} {
		if out, errs, err := helm("lint", "--strict", "manifests/"+chart, "--set", "settings.clusterName=x"); err != nil {
			t.Errorf("%s: %v\n%s%s", chart, err, out, errs)
		}
	}
}

// The chart of the kinds has them all, with annotations that the user adds.
func TestKinds(t *testing.T) {
	out, errs, err := helm("template", "k", "manifests/chart-crd", "--set", "additionalAnnotations.a=b")
	if err != nil {
		t.Fatal(err, errs)
	}
	files, err := filepath.Glob("../crds/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out, "\nkind: CustomResourceDefinition"); got != len(files) || strings.Count(out, "\n    a: b\n") != len(files) {
		t.Errorf("%d kinds of %d", got, len(files))
	}
}
