package jointest_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/karp-sh/karp/test/cluster"
	"github.com/karp-sh/karp/test/cluster/control"
	"github.com/karp-sh/karp/test/simaws"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

const endpoint = "https://api.sandbox"

// world is a real control plane and, in this process, the simulated AWS whose
// instances join it.
type world struct {
	cluster *cluster.Cluster
	client  kubernetes.Interface
	server  *simaws.Server
	cloud   *cloud.Cloud
	subnet  string
}

func start(t *testing.T, opts cloud.Options) *world {
	t.Helper()
	w := &world{cluster: cluster.Start(t, cluster.Options{
		Components: []string{control.Etcd, control.APIServer, control.ControllerManager, control.Kwok}, NodeGrace: 10 * time.Second})}
	client, err := kubernetes.NewForConfig(w.cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	opts.ClusterEndpoint, opts.CertificateAuthority = endpoint, "Y2E="
	server, err := simaws.New(simaws.Options{Cloud: opts, Kubernetes: w.cluster.Config})
	if err != nil {
		t.Fatal(err)
	}
	w.client, w.server, w.cloud = client, server, server.Cloud()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	if _, err := w.cloud.CreateProfile("nodes", "/", nil); err != nil {
		t.Fatal(err)
	}
	if err := w.cloud.AddRoleToProfile("nodes", w.cloud.Options().Roles[0]); err != nil {
		t.Fatal(err)
	}
	subnets, refusal := w.cloud.Subnets(nil, nil)
	if refusal != nil {
		t.Fatal(refusal)
	}
	w.subnet = subnets[0].ID
	return w
}

// userData is what an autoscaler writes, for a cluster and with kubelet lines.
func userData(name, kubelet string) string {
	return fmt.Sprintf(`MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: %s
    apiServerEndpoint: %s
    certificateAuthority: Y2E=
    cidr: 10.96.0.0/12
  kubelet:
%s
--//--
`, name, endpoint, kubelet)
}

// launch starts one instance of a type from user data.
func (w *world) launch(t *testing.T, typ, data, profile string) string {
	t.Helper()
	image, refusal := w.cloud.Parameter("/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/x86_64/standard/recommended/image_id")
	if refusal != nil {
		t.Fatal(refusal)
	}
	size, name := int64(50), "template-"+strings.ReplaceAll(t.Name(), "/", "-")+"-"+fmt.Sprint(len(w.cloud.All()))
	launchData := cloud.LaunchData{
		ImageID: image, UserData: base64.StdEncoding.EncodeToString([]byte(data)),
		BlockDevices: []cloud.BlockDevice{{Device: "/dev/xvda", EBS: &cloud.Volume{SizeGiB: &size}}},
	}
	if profile != "" {
		launchData.Profile = &cloud.ProfileRef{Name: profile}
	}
	return w.launchData(t, typ, name, launchData)
}

// launchData starts one instance of a template.
func (w *world) launchData(t *testing.T, typ, name string, launchData cloud.LaunchData) string {
	t.Helper()
	if _, refusal := w.cloud.CreateTemplate(name, launchData, nil, "", ""); refusal != nil {
		t.Fatal(refusal)
	}
	res, refusal := w.cloud.CreateFleet(cloud.FleetRequest{
		Configs: []cloud.FleetConfig{{Template: cloud.TemplateRef{Name: name}, Overrides: []cloud.Override{{Type: typ, Subnet: w.subnet}}}},
		Want:    []cloud.MarketTarget{{Market: cloud.OnDemand, Count: 1, Strategy: "lowest-price"}},
	})
	if refusal != nil {
		t.Fatal(refusal)
	}
	if len(res.Groups) != 1 {
		t.Fatalf("launching %s: %+v", typ, res.Failures)
	}
	return res.Groups[0].Instances[0]
}

// await watches nodes until one satisfies what missing asks for.
func (w *world) await(t *testing.T, id string, missing func(*corev1.Node) string) *corev1.Node {
	t.Helper()
	var found *corev1.Node
	cluster.Await(t, w.cluster, cluster.Query{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Within: 90 * time.Second},
		func(nodes []corev1.Node) string {
			for i := range nodes {
				if strings.HasSuffix(nodes[i].Spec.ProviderID, "/"+id) {
					found = &nodes[i]
					return missing(found)
				}
			}
			return "no node of instance " + id
		})
	return found
}

func condition(n *corev1.Node, want corev1.ConditionStatus) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			if c.Status == want {
				return ""
			}
			return fmt.Sprintf("node is Ready=%s (%s), want %s", c.Status, c.Reason, want)
		}
	}
	return "node has no Ready condition"
}

// settled is when kubelet, cloud controller and node controller have done
// their part.
func settled(n *corev1.Node) string {
	if n.Labels[corev1.LabelTopologyZone] == "" {
		return "node has no zone"
	}
	for _, taint := range n.Spec.Taints {
		if strings.HasPrefix(taint.Key, "node.kubernetes.io/") || strings.HasPrefix(taint.Key, "node.cloudprovider.kubernetes.io/") {
			return "node still has the taint " + taint.Key
		}
	}
	return condition(n, corev1.ConditionTrue)
}

func TestAnInstanceJoinsAndLeaves(t *testing.T) {
	w := start(t, cloud.Options{PendingDelay: 100 * time.Millisecond, BootDelay: 100 * time.Millisecond, DevicePluginDelay: 2 * time.Second})
	id := w.launch(t, "g4dn.xlarge", userData("karp", `    config:
      maxPods: 20
      registerWithTaints:
      - {key: karpenter.sh/unregistered, effect: NoExecute}
      - {key: team, value: a, effect: NoSchedule}
    flags: ['--node-labels="karpenter.sh/capacity-type=on-demand,team=a"']
`), "nodes")

	n := w.await(t, id, settled)
	want := map[string]string{
		"karpenter.sh/capacity-type": "on-demand", "team": "a", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
		"kubernetes.io/hostname": n.Name, "node.kubernetes.io/instance-type": "g4dn.xlarge", "topology.kubernetes.io/zone": "us-east-1a",
		"topology.kubernetes.io/region": "us-east-1", "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
		"beta.kubernetes.io/instance-type": "g4dn.xlarge", "failure-domain.beta.kubernetes.io/zone": "us-east-1a",
		"failure-domain.beta.kubernetes.io/region": "us-east-1", "topology.k8s.aws/zone-id": n.Labels["topology.k8s.aws/zone-id"],
	}
	if diff := cmp.Diff(want, n.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	var taints []string
	for _, taint := range n.Spec.Taints {
		taints = append(taints, taint.ToString())
	}
	slices.Sort(taints)
	if diff := cmp.Diff([]string{"karpenter.sh/unregistered:NoExecute", "team=a:NoSchedule"}, taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
	if got := "aws:///us-east-1a/" + id; n.Spec.ProviderID != got || !strings.HasSuffix(n.Name, ".ec2.internal") {
		t.Errorf("providerID %s, name %s; want %s", n.Spec.ProviderID, n.Name, got)
	}
	capacity := n.Status.Capacity
	if capacity.Cpu().Value() != 4 || capacity.Pods().Value() != 20 || capacity.Memory().Value() >= 16384<<20 || capacity.Memory().Value() < 15155<<20 {
		t.Errorf("capacity: %v", capacity)
	}
	// What nodeadm reserves of 4 vCPUs: 60 + 10 + 10 = 80m.
	if n.Status.Allocatable.Cpu().MilliValue() != 3920 {
		t.Errorf("allocatable cpu %s, want 3920m", n.Status.Allocatable.Cpu())
	}
	if gpus := capacity["nvidia.com/gpu"]; gpus.Value() != 0 {
		t.Error("the GPU is there before its device plugin")
	}
	w.await(t, id, func(n *corev1.Node) string {
		if gpus := n.Status.Allocatable["nvidia.com/gpu"]; gpus.Value() != 1 {
			return "no GPU yet"
		}
		return condition(n, corev1.ConditionTrue)
	})

	if _, refusal := w.cloud.Terminate([]string{id}, false); refusal != nil {
		t.Fatal(refusal)
	}
	w.await(t, id, func(n *corev1.Node) string { return condition(n, corev1.ConditionUnknown) })
	if _, err := w.client.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the Node of a terminated instance: %v, want it still there", err)
	}
}

func TestWhatNeverJoins(t *testing.T) {
	w := start(t, cloud.Options{})
	if _, err := w.cloud.CreateProfile("empty", "/", nil); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ data, profile, reason string }{
		"malformed":   {"a: [", "nodes", "parsing NodeConfig"},
		"cluster":     {userData("other", "    config: {}"), "nodes", `cluster "other"`},
		"no profile":  {userData("karp", "    config: {}"), "", "no instance profile"},
		"no role":     {userData("karp", "    config: {}"), "empty", "has no role"},
		"label":       {userData("karp", "    flags: ['--node-labels=kubernetes.io/x=y']"), "nodes", "unknown 'kubernetes.io' or 'k8s.io' label"},
		"restriction": {userData("karp", "    flags: ['--node-labels=node-restriction.kubernetes.io/x=y']"), "nodes", "node-restriction"},
	}
	ids := map[string]string{}
	for name, c := range cases {
		ids[w.launch(t, "m5.large", c.data, c.profile)] = name
	}
	// One that joins, launched last: by then the others have been tried.
	w.await(t, w.launch(t, "m5.large", userData("karp", "    config: {}"), "nodes"), settled)
	deadline := time.Now().Add(time.Minute)
	for _, i := range w.server.InstanceInfos() {
		name, ok := ids[i.ID]
		if !ok {
			continue
		}
		for i.Boot != cloud.BootFailed && time.Now().Before(deadline) {
			<-time.After(50 * time.Millisecond)
			for _, again := range w.server.InstanceInfos() {
				if again.ID == i.ID {
					i = again
				}
			}
		}
		if i.Boot != cloud.BootFailed || !strings.Contains(i.BootReason, cases[name].reason) {
			t.Errorf("%s: boot %s, reason %q; want it failed with %q", name, i.Boot, i.BootReason, cases[name].reason)
		}
	}
	nodes, err := w.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 1 {
		t.Errorf("%d nodes, want the one that may join", len(nodes.Items))
	}
}

// Each family's image joins from user data of its own kind.
func TestFamiliesJoin(t *testing.T) {
	w := start(t, cloud.Options{})
	parameter := func(name string) string {
		t.Helper()
		id, refusal := w.cloud.Parameter(name)
		if refusal != nil {
			t.Fatal(refusal)
		}
		return id
	}
	labels := `--node-labels="team=a" --register-with-taints="a=b:NoSchedule" --max-pods=17`
	for family, tt := range map[string]struct{ image, data, os string }{
		"al2": {w.cloud.AddImage(cloud.Image{Name: "al2", Family: cloud.AL2}), "#!/bin/bash\n/etc/eks/bootstrap.sh karp --apiserver-endpoint " + endpoint +
			" --b64-cluster-ca Y2E= --use-max-pods false --kubelet-extra-args '" + labels + "'\n", "linux"},
		"bottlerocket": {parameter("/aws/service/bottlerocket/aws-k8s-1.37/x86_64/latest/image_id"), fmt.Sprintf(`[settings.kubernetes]
cluster-name = "karp"
api-server = %q
cluster-certificate = "Y2E="
max-pods = 17
[settings.kubernetes.node-labels]
team = "a"
[settings.kubernetes.node-taints]
a = ["b:NoSchedule"]
`, endpoint), "linux"},
		"windows": {parameter("/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.37/image_id"),
			"<powershell>\n& $env:ProgramFiles\\Amazon\\EKS\\Start-EKSBootstrap.ps1 -EKSClusterName 'karp' -APIServerEndpoint '" + endpoint +
				"' -Base64ClusterCA 'Y2E=' -KubeletExtraArgs '" + labels + "'\n</powershell>", "windows"},
	} {
		id := w.launchData(t, "m5.large", family, cloud.LaunchData{
			ImageID: tt.image, UserData: base64.StdEncoding.EncodeToString([]byte(tt.data)), Profile: &cloud.ProfileRef{Name: "nodes"}})
		n := w.await(t, id, settled)
		taint := slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool {
			return x.Key == "a" && x.Value == "b" && x.Effect == corev1.TaintEffectNoSchedule
		})
		if n.Labels["team"] != "a" || !taint || n.Labels[corev1.LabelOSStable] != tt.os || n.Status.Capacity.Pods().Value() != 17 {
			t.Errorf("%s: labels %v, taints %v, pods %s", family, n.Labels, n.Spec.Taints, n.Status.Capacity.Pods())
		}
		if tt.os == "windows" && n.Labels[corev1.LabelWindowsBuild] != "10.0.20348" {
			t.Errorf("windows: labels %v", n.Labels)
		}
	}
}
