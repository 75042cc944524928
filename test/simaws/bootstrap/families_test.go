package bootstrap_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/karp-sh/karp/test/simaws/bootstrap"
)

const al2Script = `#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
/etc/eks/bootstrap.sh 'karp' --apiserver-endpoint 'https://1.2.3.4' --b64-cluster-ca 'Y2E=' \
--dns-cluster-ip '10.96.0.10' \
--use-max-pods false \
--kubelet-extra-args '--node-labels="karpenter.sh/capacity-type=spot,team=a" --register-with-taints="karpenter.sh/unregistered:NoExecute,a=b:NoSchedule" --max-pods=29 --system-reserved="cpu=100m" --eviction-hard="memory.available<5%"' \
--local-disks raid0`

const bottlerocketSettings = `[settings]
[settings.kubernetes]
api-server = "https://1.2.3.4"
cluster-name = "karp"
cluster-certificate = "Y2E="
cluster-dns-ip = "10.96.0.10"
max-pods = 29
image-gc-high-threshold-percent = "85"
[settings.kubernetes.node-labels]
"karpenter.sh/capacity-type" = "spot"
team = "a"
[settings.kubernetes.node-taints]
"karpenter.sh/unregistered" = [":NoExecute"]
a = ["b:NoSchedule"]
[settings.kubernetes.system-reserved]
cpu = "100m"
[settings.kubernetes.eviction-hard]
"memory.available" = "5%"
[settings.bootstrap-commands.000-mount-instance-storage]
commands = [["apiclient", "ephemeral-storage", "init"], ["apiclient", "ephemeral-storage", "bind", "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]]
essential = true
mode = "always"
`

const windowsScript = "<powershell>\r\n" + `[string]$EKSBootstrapScriptFile = "$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
& $EKSBootstrapScriptFile -EKSClusterName 'karp' -APIServerEndpoint 'https://1.2.3.4' -Base64ClusterCA 'Y2E=' -KubeletExtraArgs '--node-labels="karpenter.sh/capacity-type=spot,team=a" --register-with-taints="karpenter.sh/unregistered:NoExecute,a=b:NoSchedule" --max-pods=29 --system-reserved="cpu=100m" --eviction-hard="memory.available<5%"' -DNSClusterIP '10.96.0.10'
</powershell>`

// Every family can say the same; then the node is the same.
func TestFamiliesAgree(t *testing.T) {
	high := i32(85)
	for _, tt := range []struct {
		family, data, os, device string
		limit                    int32
		raid                     bool
		high                     *int32
	}{
		{"al2", al2Script, bootstrap.Linux, "/dev/xvda", 110, true, nil},
		{"al2", mime(shell, "#!/bin/sh\necho hi\n", `text/x-shellscript`, al2Script), bootstrap.Linux, "/dev/xvda", 110, true, nil},
		{"bottlerocket", bottlerocketSettings, bootstrap.Linux, "/dev/xvdb", 0, true, high},
		{"windows", windowsScript, bootstrap.Windows, "/dev/sda1", 110, false, nil},
	} {
		want := &bootstrap.Config{
			Cluster: bootstrap.Cluster{Name: "karp", Endpoint: "https://1.2.3.4", CertificateAuthority: "Y2E="},
			OS:      tt.os, RootDevice: tt.device, PodLimit: tt.limit, RAID0: tt.raid,
			Labels: map[string]string{"karpenter.sh/capacity-type": "spot", "team": "a"},
			Taints: []corev1.Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}, {Key: "karpenter.sh/unregistered", Effect: "NoExecute"}},
			Kubelet: bootstrap.KubeletConfig{
				MaxPods: i32(29), ClusterDNS: []string{"10.96.0.10"}, SystemReserved: map[string]string{"cpu": "100m"},
				EvictionHard: map[string]string{"memory.available": "5%"}, ImageGCHigh: tt.high,
			},
		}
		got, err := bootstrap.Decode(tt.family, []byte(tt.data))
		if err != nil {
			t.Fatalf("%s: %v\n%s", tt.family, err, tt.data)
		}
		byKey := cmpopts.SortSlices(func(a, b corev1.Taint) bool { return a.Key < b.Key })
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), byKey); diff != "" {
			t.Errorf("%s (-want +got):\n%s\nuser data:\n%s", tt.family, diff, tt.data)
		}
	}
}

func TestOtherFamiliesThatNeverStart(t *testing.T) {
	change := func(data, from, to string) string {
		t.Helper()
		if !strings.Contains(data, from) {
			t.Fatalf("%q is not in the user data", from)
		}
		return strings.Replace(data, from, to, 1)
	}
	kubernetes := func(line string) string { return bottlerocketSettings + "[settings.kubernetes.seccomp]\n" + line }
	for _, tt := range []struct{ name, family, data, want string }{
		{"empty", "al2", "", "empty"},
		{"YAML", "al2", "a: b\n", "neither a script nor a MIME archive"},
		{"no bootstrap", "al2", "#!/bin/sh\necho hi\n", "nothing calls"},
		{"unknown option", "al2", change(al2Script, "--use-max-pods", "--use-min-pods"), "unknown option --use-min-pods"},
		{"open quote", "al2", al2Script + " --cluster-id 'x", "matching '"},
		{"no name", "al2", change(al2Script, "'karp' ", ""), "cluster name is missing"},
		{"endpoint", "al2", change(al2Script, "https://1.2.3.4", "1.2.3.4"), "not a URL"},
		{"authority", "al2", change(al2Script, "Y2E=", "Y2E"), "not base64"},
		{"disks", "al2", change(al2Script, "raid0", "raid7"), "raid7"},
		{"kubelet flag", "al2", change(al2Script, "--max-pods", "--min-pods"), "unknown flag: --min-pods"},
		{"label", "al2", change(al2Script, "team=a", "kubernetes.io/role=x"), "unknown 'kubernetes.io' or 'k8s.io' label"},
		{"not TOML", "bottlerocket", "[settings", "not TOML"},
		{"no settings", "bottlerocket", "a = 1\n", "no table settings"},
		{"no kubernetes", "bottlerocket", "[settings.host]\na = 1\n", "settings.kubernetes"},
		{"unknown setting", "bottlerocket", kubernetes("a = 1\n"), "unknown field settings.kubernetes.seccomp"},
		{"no name", "bottlerocket", change(bottlerocketSettings, `cluster-name = "karp"`, ""), "cluster-name is missing"},
		{"text for a number", "bottlerocket", change(bottlerocketSettings, "max-pods = 29", `max-pods = "29"`), "max-pods: 29 is not an integer"},
		{"number for a text", "bottlerocket", change(bottlerocketSettings, `"85"`, "85"), "is not a string"},
		{"taint", "bottlerocket", change(bottlerocketSettings, `[":NoExecute"]`, `["NoExecute"]`), "value:Effect"},
		{"effect", "bottlerocket", change(bottlerocketSettings, `[":NoExecute"]`, `[":Never"]`), "invalid taint effect"},
		{"no tags", "windows", "Write-Host hi", "EC2Launch has nothing to run"},
		{"own tags first", "windows", "<powershell>\nWrite-Host hi\n</powershell>\n" + windowsScript, "nothing calls Start-EKSBootstrap.ps1"},
		{"variable not set", "windows", change(windowsScript, "[string]$EKSBootstrapScriptFile", "[string]$Other"), "is not set"},
		{"unknown parameter", "windows", change(windowsScript, "-DNSClusterIP", "-DNS"), "parameter name 'DNS'"},
		{"no name", "windows", change(windowsScript, "-EKSClusterName 'karp' ", ""), "cluster name is missing"},
	} {
		got, err := bootstrap.Decode(tt.family, []byte(tt.data))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s, %s: got %+v, error %v; want an error with %q\nuser data:\n%s", tt.family, tt.name, got, err, tt.want, tt.data)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for family, data := range map[string]string{"al2": al2Script, "al2023": head + cluster, "bottlerocket": bottlerocketSettings, "windows": windowsScript} {
		f.Add(family, data)
		f.Add(family, mime(shell, data, node, data))
	}
	f.Fuzz(func(t *testing.T, family, data string) {
		c, err := bootstrap.Decode(family, []byte(data))
		if err == nil && c.Cluster.Name == "" {
			t.Errorf("%s: joins a cluster without a name:\n%s", family, data)
		}
	})
}
