package bootstrap_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/karp-sh/karp/test/simaws/bootstrap"
)

const head = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n"

const cluster = "  cluster:\n    name: karp\n    apiServerEndpoint: https://1.2.3.4\n    certificateAuthority: Y2E=\n    cidr: 10.96.0.0/12\n"

// mime puts parts (type, body) into an archive.
func mime(parts ...string) string {
	var b strings.Builder
	b.WriteString("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n")
	for i := 0; i < len(parts); i += 2 {
		b.WriteString("--//\nContent-Type: " + parts[i] + "\n\n" + parts[i+1] + "\n")
	}
	return b.String() + "--//--\n"
}

const (
	node  = "application/node.eks.aws"
	shell = `text/x-shellscript; charset="us-ascii"`
)

func i32(n int32) *int32 { return &n }

func TestDecodeAL2023(t *testing.T) {
	want := bootstrap.Cluster{Name: "karp", Endpoint: "https://1.2.3.4", CertificateAuthority: "Y2E=", CIDR: "10.96.0.0/12"}
	taint := corev1.Taint{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}
	tests := []struct {
		name, data string
		want       bootstrap.Config
	}{
		{"plain document", head + cluster, bootstrap.Config{Cluster: want}},
		{
			"archive with everything", mime(shell, "#!/bin/sh\necho hi", node, head+cluster+`  instance:
    localStorage:
      strategy: RAID0
  kubelet:
    config:
      maxPods: 29
      clusterDNS: [10.96.0.10]
      registerWithTaints:
      - key: karpenter.sh/unregistered
        effect: NoExecute
      evictionHard:
        memory.available: 5%
    flags:
    - --node-labels="karpenter.sh/capacity-type=spot,team=a"
`),
			bootstrap.Config{
				Cluster: want, RAID0: true, Labels: map[string]string{"karpenter.sh/capacity-type": "spot", "team": "a"}, Taints: []corev1.Taint{taint},
				Kubelet: bootstrap.KubeletConfig{MaxPods: i32(29), ClusterDNS: []string{"10.96.0.10"}, RegisterWithTaints: []corev1.Taint{taint}, EvictionHard: map[string]string{"memory.available": "5%"}},
			},
		},
		{
			"later parts win field by field", mime(
				node, head+"  cluster:\n    name: other\n  kubelet:\n    config:\n      maxPods: 10\n      podsPerCore: 4\n    flags: ['--node-labels=team=a,user=b']\n",
				node, head+cluster+"  kubelet:\n    config:\n      maxPods: 20\n    flags: ['--node-labels=team=z', --v=2]\n"),
			bootstrap.Config{Cluster: want, Labels: map[string]string{"team": "z", "user": "b"}, Kubelet: bootstrap.KubeletConfig{MaxPods: i32(20), PodsPerCore: i32(4)}},
		},
		{
			"flags beat the configuration", head + cluster + "  kubelet:\n    config:\n      maxPods: 20\n      registerWithTaints: [{key: a, effect: NoSchedule}]\n    flags: [--max-pods=30, '--register-with-taints=b=c:NoExecute,d:NoSchedule']\n",
			bootstrap.Config{
				Cluster: want, Taints: []corev1.Taint{{Key: "b", Value: "c", Effect: "NoExecute"}, {Key: "d", Effect: "NoSchedule"}},
				Kubelet: bootstrap.KubeletConfig{MaxPods: i32(30), RegisterWithTaints: []corev1.Taint{{Key: "a", Effect: "NoSchedule"}}},
			},
		},
		{"unknown kubelet field", head + cluster + "  kubelet:\n    config:\n      someNewField: 1\n", bootstrap.Config{Cluster: want}},
		{"allowed kubernetes.io label", head + cluster + "  kubelet:\n    flags: ['--node-labels=node.kubernetes.io/x=1,topology.kubernetes.io/zone=z']\n",
			bootstrap.Config{Cluster: want, Labels: map[string]string{"node.kubernetes.io/x": "1", "topology.kubernetes.io/zone": "z"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := bootstrap.Decode("al2023", []byte(tt.data))
			if err != nil {
				t.Fatalf("%v\nuser data:\n%s", err, tt.data)
			}
			tt.want.OS, tt.want.RootDevice = bootstrap.Linux, "/dev/xvda"
			if diff := cmp.Diff(&tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s\nuser data:\n%s", diff, tt.data)
			}
		})
	}
}

func TestWhatNeverStarts(t *testing.T) {
	kubelet := func(lines string) string { return head + cluster + "  kubelet:\n" + lines }
	tests := []struct{ name, family, data, want string }{
		{"empty", "al2023", "", "empty"},
		{"shell only", "al2023", "#!/bin/sh\n", "no NodeConfig"},
		{"archive without NodeConfig", "al2023", mime(shell, "#!/bin/sh"), "no NodeConfig"},
		{"archive without boundary", "al2023", "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\n", "multipart with a boundary"},
		{"archive that is cut", "al2023", strings.TrimSuffix(mime(node, head+cluster), "--//--\n"), "MIME archive"},
		{"not YAML", "al2023", "a: [", "parsing NodeConfig"},
		{"other kind", "al2023", "apiVersion: v1\nkind: Pod\n", "parsing NodeConfig"},
		{"unknown field", "al2023", head + cluster + "  color: red\n", "unknown field"},
		{"no name", "al2023", strings.Replace(head+cluster, "name: karp", "name: ''", 1), "spec.cluster.name is missing"},
		{"no endpoint", "al2023", strings.Replace(head+cluster, "    apiServerEndpoint: https://1.2.3.4\n", "", 1), "apiServerEndpoint is missing"},
		{"no authority", "al2023", strings.Replace(head+cluster, "    certificateAuthority: Y2E=\n", "", 1), "certificateAuthority is missing"},
		{"no cidr", "al2023", strings.Replace(head+cluster, "    cidr: 10.96.0.0/12\n", "", 1), "cidr is missing"},
		{"authority not base64", "al2023", strings.Replace(head+cluster, "Y2E=", "Y2E", 1), "not base64"},
		{"unknown storage strategy", "al2023", head + cluster + "  instance: {localStorage: {strategy: RAID7}}\n", "RAID7"},
		{"unknown flag", "al2023", kubelet("    flags: [--colour=red]\n"), "unknown flag: --colour"},
		{"word for a flag", "al2023", kubelet("    flags: [node-labels]\n"), "unknown command"},
		{"forbidden label", "al2023", kubelet("    flags: ['--node-labels=kubernetes.io/role=x']\n"), "unknown 'kubernetes.io' or 'k8s.io' label"},
		{"invalid label", "al2023", kubelet("    flags: ['--node-labels=a=b c']\n"), "invalid label value"},
		{"label without value", "al2023", kubelet("    flags: ['--node-labels=a']\n"), "malformed pair"},
		{"invalid taint", "al2023", kubelet("    config: {registerWithTaints: [{key: a, effect: Never}]}\n"), "invalid taint effect"},
		{"text for a number", "al2023", kubelet("    config: {maxPods: many}\n"), "kubelet configuration"},
		{"bad reservation", "al2023", kubelet("    config: {kubeReserved: {cpu: lots}}\n"), "not a quantity"},
		{"bad eviction signal", "al2023", kubelet("    config: {evictionHard: {mood: 5%}}\n"), "unknown eviction signal"},
		{"soft eviction without grace", "al2023", kubelet("    config: {evictionSoft: {memory.available: 5%}}\n"), "needs a grace period"},
		{"custom image", "", "", "no bootstrap program"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := bootstrap.Decode(tt.family, []byte(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, error %v; want an error with %q\nuser data:\n%s", got, err, tt.want, tt.data)
			}
		})
	}
}

func TestCheckCluster(t *testing.T) {
	c, err := bootstrap.Decode("al2023", []byte(head+cluster))
	if err != nil {
		t.Fatal(err)
	}
	want := c.Cluster
	if err := c.Check(want); err != nil {
		t.Errorf("its own cluster: %v", err)
	}
	for name, change := range map[string]func(*bootstrap.Cluster){
		"name": func(w *bootstrap.Cluster) { w.Name = "other" }, "endpoint": func(w *bootstrap.Cluster) { w.Endpoint = "https://5.6.7.8" },
		"authority": func(w *bootstrap.Cluster) { w.CertificateAuthority = "b3RoZXI=" },
	} {
		other := want
		change(&other)
		if err := c.Check(other); err == nil {
			t.Errorf("a cluster of another %s was accepted", name)
		}
	}
}
