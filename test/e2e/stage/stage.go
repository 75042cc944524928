// Package stage puts the real agent on a real cluster for tests: a sandbox's Kubernetes, a simulated AWS in the test's own process, and the
// agent's binary as a child process that a test can kill and start again.
//
// The binary is what KARP_AGENT names, else bin/karp-agent of this module, which `make build` makes; the sandbox is that of package cluster.
package stage

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/test/cluster"
	"github.com/karp-sh/karp/test/simaws"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

const (
	clusterName = "sandbox"
	region      = "us-west-2"
	// Patience is how long a test waits for what has to come.
	Patience = 90 * time.Second
)

// Shared are the options of a sandbox to put a stage on: everything but its AWS, which the stage runs itself.
func Shared() cluster.Options {
	return cluster.Options{ClusterName: clusterName, Region: region, Components: []string{"etcd", "apiserver", "controller-manager", "scheduler", "kwok"}}
}

// Stage is a cluster with an AWS account, CRDs, a node class "default" and a pool "default".
type Stage struct {
	Cluster *cluster.Cluster
	AWS     *simaws.Server
	// AWSURL and APIURL are where the agent finds them; a test may put something in between.
	AWSURL, Kubeconfig string
	Client             client.Client

	endpoint, ca string
	agents       int
}

// New sets the stage on a sandbox. AWS ends with the test; the objects are removed at the end, and it is an error if instances are left.
func New(tb testing.TB, c *cluster.Cluster) *Stage {
	tb.Helper()
	s := &Stage{Cluster: c, Kubeconfig: c.Kubeconfig, endpoint: c.Config.Host}
	config := rest.CopyConfig(c.Config)
	if err := rest.LoadTLSFiles(config); err != nil {
		tb.Fatal(err)
	}
	s.ca = base64.StdEncoding.EncodeToString(config.CAData)
	var err error
	s.AWS, err = simaws.New(simaws.Options{Kubernetes: c.Config, Cloud: cloud.Options{
		Region: region, ClusterName: clusterName, ClusterEndpoint: s.endpoint, CertificateAuthority: s.ca, ShutdownDelay: time.Second,
	}})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.AWS.Run(ctx) }()
	web := httptest.NewServer(s.AWS)
	s.AWSURL = web.URL
	tb.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Errorf("simulated AWS: %v", err)
		}
		web.Close()
	})
	log.SetLogger(logr.Discard())
	scheme, err := kube.NewScheme()
	if err != nil {
		tb.Fatal(err)
	}
	if s.Client, err = client.New(c.Config, client.Options{Scheme: scheme}); err != nil {
		tb.Fatal(err)
	}
	s.installCRDs(tb)
	s.Create(tb, Class("default"), Pool("default"))
	return s
}

// installCRDs applies manifests/crds.
func (s *Stage) installCRDs(tb testing.TB) {
	tb.Helper()
	root, err := root()
	if err != nil {
		tb.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "manifests/crds/*.yaml"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no CRDs below %s: %v", root, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(data, &crd.Object); err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
		if err := s.Client.Apply(tb.Context(), client.ApplyConfigurationFromUnstructured(crd), client.FieldOwner("stage"), client.ForceOwnership); err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
	}
	s.Eventually(tb, "the CRDs to be served", func(ctx context.Context) (string, error) {
		return "", errors.Join(s.Client.List(ctx, &karpv1.NodePoolList{}), s.Client.List(ctx, &karpv1.NodeClaimList{}), s.Client.List(ctx, &awsv1.EC2NodeClassList{}))
	})
}

// root is the module's folder.
func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "manifests", "crds")); statErr == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		err = errors.New("no folder manifests/crds above the working directory")
	}
	return "", err
}

// Class is a node class that selects all subnets and groups of the sandbox.
func Class(name string) *awsv1.EC2NodeClass {
	tags := map[string]string{"karpenter.sh/discovery": clusterName}
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: awsv1.EC2NodeClassSpec{
			Role:                       "KarpenterNodeRole-" + clusterName,
			AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: tags}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: tags}},
		},
	}
}

// Pool is a pool of on-demand and spot nodes of the class "default", whose nodes never expire.
func Pool(name string, edit ...func(*karpv1.NodePool)) *karpv1.NodePool {
	never := karpv1.Never
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		ExpireAfter: &never,
		Requirements: []karpv1.Requirement{
			{Key: "kubernetes.io/arch", Operator: karpv1.In, Values: []string{"amd64"}},
			{Key: "karpenter.k8s.aws/instance-family", Operator: karpv1.In, Values: []string{"m5", "c5", "r5"}},
		},
		NodeClassRef: karpv1.NodeClassRef{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: "default"},
	}
	p.Spec.Disruption.ConsolidateAfter = &never
	for _, e := range edit {
		e(p)
	}
	return p
}

// Deployment is a workload of pods that ask for the CPU; spread ones want a node each.
func Deployment(name string, replicas int32, cpu string, spread bool) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	grace := int64(1)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	d.Spec.Replicas, d.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	if spread {
		d.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
			}},
		}}
	}
	return d
}

// Create creates objects.
func (s *Stage) Create(tb testing.TB, objects ...client.Object) {
	tb.Helper()
	for _, o := range objects {
		if err := s.Client.Create(tb.Context(), o); err != nil {
			tb.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

// Eventually waits until missing returns "" without error, and fails the test with what it last returned.
func (s *Stage) Eventually(tb testing.TB, what string, missing func(context.Context) (string, error)) {
	tb.Helper()
	s.EventuallyWithin(tb, Patience, what, missing)
}

// EventuallyWithin is Eventually with a patience of its own.
func (s *Stage) EventuallyWithin(tb testing.TB, patience time.Duration, what string, missing func(context.Context) (string, error)) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		last, err := missing(ctx)
		if last == "" && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			tb.Fatalf("waiting %v for %s: %s%v\n%s", patience, what, last, err, s.describe())
		case <-tick.C:
		}
	}
}

// describe tells where everything stands, for failures.
func (s *Stage) describe() string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var claims karpv1.NodeClaimList
	var nodes corev1.NodeList
	var pods corev1.PodList
	var events corev1.EventList
	_ = errors.Join(s.Client.List(ctx, &claims), s.Client.List(ctx, &nodes), s.Client.List(ctx, &pods, client.InNamespace("default")), s.Client.List(ctx, &events))
	out := ""
	for i := range claims.Items {
		c := &claims.Items[i]
		out += fmt.Sprintf("claim %s: deleting %v, provider ID %q, node %q, intent %s\n", c.Name, c.DeletionTimestamp != nil, c.Status.ProviderID, c.Status.NodeName, c.Annotations["karp.sh/intent"])
		for _, cond := range c.Status.Conditions {
			out += fmt.Sprintf("    %s=%s/%s %s\n", cond.Type, cond.Status, cond.Reason, cond.Message)
		}
	}
	for i := range nodes.Items {
		out += fmt.Sprintf("node %s: deleting %v, taints %v\n", nodes.Items[i].Name, nodes.Items[i].DeletionTimestamp != nil, nodes.Items[i].Spec.Taints)
	}
	for i := range pods.Items {
		out += fmt.Sprintf("pod %s: %s on %q\n", pods.Items[i].Name, pods.Items[i].Status.Phase, pods.Items[i].Spec.NodeName)
	}
	for _, i := range s.AWS.InstanceInfos() {
		out += fmt.Sprintf("instance %s: %s %s boot %s %s tags %v\n", i.ID, i.Type, i.State, i.Boot, i.BootReason, i.Tags)
	}
	for _, e := range events.Items[max(0, len(events.Items)-15):] {
		out += fmt.Sprintf("event %s %s/%s: %s\n", e.Reason, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Message)
	}
	return out
}

// PodsRunning says what is missing for so many pods of the app to run.
func (s *Stage) PodsRunning(app string, want int) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var list corev1.PodList
		err := s.Client.List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{"app": app})
		running := 0
		for i := range list.Items {
			if p := &list.Items[i]; p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				running++
			}
		}
		if running != want {
			return fmt.Sprintf("%d of %d pods of %s run; ", running, want, app), err
		}
		return "", err
	}
}

// Claims lists all claims.
func (s *Stage) Claims(tb testing.TB) []karpv1.NodeClaim {
	tb.Helper()
	var list karpv1.NodeClaimList
	if err := s.Client.List(tb.Context(), &list); err != nil {
		tb.Fatal(err)
	}
	return list.Items
}

// Alive returns the instances that are neither terminated nor on their way there.
func (s *Stage) Alive() []simaws.InstanceInfo {
	var out []simaws.InstanceInfo
	for _, i := range s.AWS.InstanceInfos() {
		if i.State != "terminated" && i.State != "shutting-down" {
			out = append(out, i)
		}
	}
	return out
}

// Empty deletes workloads and claims and waits until nodes and instances are gone. An agent has to run.
func (s *Stage) Empty(tb testing.TB) {
	tb.Helper()
	for _, kind := range []client.Object{&appsv1.Deployment{}, &corev1.Pod{}} {
		if err := s.Client.DeleteAllOf(tb.Context(), kind, client.InNamespace("default")); err != nil {
			tb.Fatal(err)
		}
	}
	if err := s.Client.DeleteAllOf(tb.Context(), &karpv1.NodeClaim{}); err != nil {
		tb.Fatal(err)
	}
	s.Eventually(tb, "claims, nodes and instances to be gone", s.Nothing)
}

// Nothing says what is left of claims, nodes and instances.
func (s *Stage) Nothing(ctx context.Context) (string, error) {
	var claims karpv1.NodeClaimList
	var nodes corev1.NodeList
	err := errors.Join(s.Client.List(ctx, &claims), s.Client.List(ctx, &nodes))
	alive := len(s.Alive())
	if n := len(claims.Items) + len(nodes.Items) + alive; n > 0 {
		return fmt.Sprintf("%d claims, %d nodes, %d instances are left; ", len(claims.Items), len(nodes.Items), alive), err
	}
	return "", err
}
