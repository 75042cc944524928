package aws_test

import (
	"errors"
	"strings"
	"testing"

	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/cloud/aws"
)

func boot() aws.Boot {
	return aws.Boot{
		Family: ec2types.AL2023, Endpoint: "https://demo.example", CA: "Y2E=", CIDR: "10.100.0.0/16", DNS: []string{"10.100.0.10"}, MaxPods: 29,
		Labels: map[string]string{
			"karpenter.sh/nodepool": "np", "karpenter.k8s.aws/ec2nodeclass": "nc", "team": "a", "topology.kubernetes.io/zone": "us-west-2a",
			"node-restriction.kubernetes.io/x": "y", "example.k8s.io/z": "1",
		},
	}
}

const header = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n"

const ours = `--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    apiServerEndpoint: https://demo.example
    certificateAuthority: Y2E=
    cidr: 10.100.0.0/16
    name: demo
  kubelet:
    config:
      clusterDNS:
      - 10.100.0.10
      maxPods: 29
      registerWithTaints:
      - effect: NoExecute
        key: karpenter.sh/unregistered
    flags:
    - --node-labels="karpenter.k8s.aws/ec2nodeclass=nc,karpenter.sh/capacity-type=on-demand,karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=np,team=a"

--//--
`

func TestUserDataAL2023(t *testing.T) {
	mime := "Content-Type: multipart/mixed; boundary=\"X\"\nMIME-Version: 1.0\n\n--X\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\nContent-Transfer-Encoding: 7bit\n\n#!/bin/sh\necho 1\n\n--X\nContent-Type: application/node.eks.aws\n\nkind: NodeConfig\n\n--X--\n"
	tests := []struct{ name, user, parts string }{
		{"A-102 no user data", "", ""},
		{"A-103 NodeConfig", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n", "--//\nContent-Type: application/node.eks.aws\n\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n\n"},
		{"A-104 script", "#!/bin/bash\necho hi", "--//\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash\necho hi\n\n"},
		{"A-105 MIME", mime, "--//\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\nContent-Transfer-Encoding: 7bit\n\n#!/bin/sh\necho 1\n\n--//\nContent-Type: application/node.eks.aws\n\nkind: NodeConfig\n\n"},
		{"carriage returns", "#!/bin/bash\r\necho hi\r\n", "--//\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash\necho hi\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := boot()
			b.User = tt.user
			got, err := aws.RenderUserData(b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(header+tt.parts+ours, got); diff != "" {
				t.Errorf("user data (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUserDataSettings(t *testing.T) {
	four, no := int32(4), false
	b := boot()
	b.RAID0, b.DNS = true, nil
	b.Kubelet = &awsv1.KubeletConfiguration{
		PodsPerCore: &four, CPUCFSQuota: &no, KubeReserved: map[string]string{"memory": "200Mi", "cpu": "100m"},
		EvictionHard: map[string]string{"memory.available": "5%", "nodefs.available": ""},
		EvictionSoft: map[string]string{"memory.available": "5%"}, EvictionSoftGracePeriod: map[string]string{"memory.available": "1m"},
	}
	b.Taints = []corev1.Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}}
	b.Startup = []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: "NoExecute"}, {Key: "c", Effect: "NoExecute"}}
	got, err := aws.RenderUserData(b)
	if err != nil {
		t.Fatal(err)
	}
	_, config, _ := strings.Cut(got, "  instance:\n")
	config, _, _ = strings.Cut(config, "    flags:")
	want := `    localStorage:
      strategy: RAID0
  kubelet:
    config:
      cpuCFSQuota: false
      evictionHard:
        memory.available: 5%
      evictionSoft:
        memory.available: 5%
      evictionSoftGracePeriod:
        memory.available: 1m0s
      kubeReserved:
        cpu: 100m
        memory: 200Mi
      maxPods: 29
      podsPerCore: 4
      registerWithTaints:
      - effect: NoSchedule
        key: a
        value: b
      - effect: NoExecute
        key: karpenter.sh/unregistered
      - effect: NoExecute
        key: c
`
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("NodeConfig (-want +got):\n%s", diff)
	}
}

func TestUserDataRefused(t *testing.T) {
	tests := []struct {
		name   string
		change func(*aws.Boot)
		want   string
	}{
		{"A-106 MIME without boundary", func(b *aws.Boot) { b.User = "Content-Type: multipart/mixed\n\nx" }, "boundary"},
		{"MIME but not multipart", func(b *aws.Boot) { b.User = "Content-Type: text/plain\n\nx" }, "multipart"},
		{"the separator in a script", func(b *aws.Boot) { b.User = "#!/bin/sh\n--//\n" }, "--//"},
		{"CA not base64", func(b *aws.Boot) { b.CA = "!" }, "base64"},
		{"A-106 of AL2", func(b *aws.Boot) { b.Family, b.User = ec2types.AL2, "Content-Type: multipart/mixed\n\nx" }, "boundary"},
		{"A-116 TOML", func(b *aws.Boot) { b.Family, b.User = ec2types.Bottlerocket, "[settings]\nx = [1,\n" }, "line 2, column 8"},
		{"settings that are none", func(b *aws.Boot) { b.Family, b.User = ec2types.Bottlerocket, "settings = 1" }, "settings must be a table"},
		{"kubernetes that is none", func(b *aws.Boot) { b.Family, b.User = ec2types.Bottlerocket, "[settings]\nkubernetes = 1" }, "kubernetes must be a table"},
		{"labels that are none", func(b *aws.Boot) { b.Family, b.User = ec2types.Bottlerocket, "[settings.kubernetes]\nnode-labels = 1" }, "node-labels must be a table"},
		{"commands that are none", func(b *aws.Boot) {
			b.Family, b.RAID0, b.User = ec2types.Bottlerocket, true, "[settings]\nbootstrap-commands = 1"
		}, "bootstrap-commands must be a table"},
		{"tags in PowerShell", func(b *aws.Boot) { b.Family, b.User = ec2types.Windows2022, "<PowerShell>\nWrite-Host\n</powershell>" }, "without <powershell> tags"},
		{"family", func(b *aws.Boot) { b.Family = "Ubuntu" }, `"Ubuntu" is not known`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := boot()
			tt.change(&b)
			got, err := aws.RenderUserData(b)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one about %q; output %q", err, tt.want, got)
			}
		})
	}
	t.Run("A-107 no service range", func(t *testing.T) {
		b := boot()
		b.CIDR = ""
		_, err := aws.RenderUserData(b)
		if _, ok := errors.AsType[*cloud.ClassNotReady](err); !ok {
			t.Errorf("error %v, want a *cloud.ClassNotReady", err)
		}
	})
}

func TestUserDataCustom(t *testing.T) {
	for _, user := range []string{"abc", ""} {
		b := boot()
		b.Family, b.User = ec2types.Custom, user
		if got, err := aws.RenderUserData(b); err != nil || got != user {
			t.Errorf("%q gave %q, %v", user, got, err)
		}
	}
}

func TestDeviceMappings(t *testing.T) {
	class := func(family awsv1.AMIFamily, m ...awsv1.BlockDeviceMapping) *awsv1.EC2NodeClass {
		return &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMIFamily: &family, BlockDeviceMappings: m}}
	}
	mapping := func(name string, e *et.LaunchTemplateEbsBlockDeviceRequest) et.LaunchTemplateBlockDeviceMappingRequest {
		return et.LaunchTemplateBlockDeviceMappingRequest{DeviceName: &name, Ebs: e}
	}
	gp3 := func(size int32) *et.LaunchTemplateEbsBlockDeviceRequest {
		return &et.LaunchTemplateEbsBlockDeviceRequest{Encrypted: new(true), VolumeType: et.VolumeTypeGp3, VolumeSize: &size}
	}
	own := awsv1.BlockDeviceMapping{DeviceName: new("/dev/xvda"), EBS: &awsv1.BlockDevice{VolumeSize: new(awsv1.VolumeSize("100G")), IOPS: new(int64(0)), Throughput: new(int64(125))}}
	tests := []struct {
		name  string
		class *awsv1.EC2NodeClass
		want  []et.LaunchTemplateBlockDeviceMappingRequest
	}{
		{"A-123", class(awsv1.AL2023), []et.LaunchTemplateBlockDeviceMappingRequest{mapping("/dev/xvda", gp3(20))}},
		{"A-124", class(awsv1.Bottlerocket), []et.LaunchTemplateBlockDeviceMappingRequest{mapping("/dev/xvda", gp3(4)), mapping("/dev/xvdb", gp3(20))}},
		{"A-125", class(awsv1.AL2023, own), []et.LaunchTemplateBlockDeviceMappingRequest{mapping("/dev/xvda", &et.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: new(int32(94)), Throughput: new(int32(125))})}},
		{"without volume", class(awsv1.AL2023, awsv1.BlockDeviceMapping{DeviceName: new("/dev/sdb")}), []et.LaunchTemplateBlockDeviceMappingRequest{mapping("/dev/sdb", nil)}},
		{"Custom", class(awsv1.Custom), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, aws.DeviceMappings(tt.class), ignoreDocument); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBottlerocketVersion(t *testing.T) {
	term := func(t awsv1.AMISelectorTerm) []awsv1.AMISelectorTerm { return []awsv1.AMISelectorTerm{t} }
	named := func(id, name string) []awsv1.AMI { return []awsv1.AMI{{ID: id, Name: name}} }
	tests := []struct {
		name  string
		terms []awsv1.AMISelectorTerm
		amis  []awsv1.AMI
		want  bool
	}{
		{"alias before", term(awsv1.AMISelectorTerm{Alias: "bottlerocket@1.45.0"}), nil, false},
		{"alias before, with v", term(awsv1.AMISelectorTerm{Alias: "bottlerocket@v1.45.9"}), nil, false},
		{"alias at", term(awsv1.AMISelectorTerm{Alias: "bottlerocket@1.46.0"}), nil, true},
		{"alias after", term(awsv1.AMISelectorTerm{Alias: "bottlerocket@v2.0.0"}), nil, true},
		{"alias latest", term(awsv1.AMISelectorTerm{Alias: "bottlerocket@latest"}), nil, true},
		{"alias of two parts", term(awsv1.AMISelectorTerm{Alias: "bottlerocket@1.50"}), nil, false},
		{"alias that is no number", term(awsv1.AMISelectorTerm{Alias: "bottlerocket@1.x.0"}), nil, false},
		{"name before", term(awsv1.AMISelectorTerm{Name: "bottlerocket-aws-k8s-1.32-x86_64-v1.45.0-7c3e9198"}), nil, false},
		{"name after", term(awsv1.AMISelectorTerm{Name: "my-image-v1.46.1-7c3e9198"}), nil, true},
		{"name without", term(awsv1.AMISelectorTerm{Name: "bottlerocket-*"}), named("ami-1", "bottlerocket-aws-k8s-1.32-x86_64-v1.47.0-7c3e9198"), true},
		{"id before, another image after", term(awsv1.AMISelectorTerm{ID: "ami-2"}), append(
			named("ami-1", "bottlerocket-v1.47.0"), named("ami-2", "bottlerocket-v1.40.0")...), false},
		{"image of another name", term(awsv1.AMISelectorTerm{ID: "ami-1"}), named("ami-1", "custom-v1.47.0"), false},
		{"nothing known", term(awsv1.AMISelectorTerm{Tags: map[string]string{"a": "b"}}), nil, false},
	}
	for _, tt := range tests {
		class := &awsv1.EC2NodeClass{Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: tt.terms}, Status: awsv1.EC2NodeClassStatus{AMIs: tt.amis}}
		if got := aws.BindsByDefault(class); got != tt.want {
			t.Errorf("%s: binds by default %v, want %v", tt.name, got, tt.want)
		}
	}
}
