package simaws_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/karp-sh/karp/test/simaws"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

func nodeConfig(kubelet string) string {
	return `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster: {name: karp, apiServerEndpoint: https://cluster.invalid, certificateAuthority: Y2E=, cidr: 10.96.0.0/12}
` + kubelet
}

// instance is a launched instance of a type, without going through a fleet.
func (w *world) instance(t *testing.T, typ, arch, userData string) *cloud.Instance {
	t.Helper()
	return &cloud.Instance{
		ID: "i-00000000000000001", Type: typ, Architecture: arch, ImageID: w.al2023(t, arch), Zone: "us-east-1a", ZoneID: "use1-az1",
		PrivateIP: "10.0.0.4", PrivateDNS: "ip-10-0-0-4.ec2.internal", ProfileName: "nodes", UserData: []byte(userData),
		Volumes: []cloud.AttachedVolume{{Device: "/dev/xvda", SizeGiB: 20}}, Interfaces: []cloud.Interface{{Type: "interface"}},
	}
}

func TestNodeResources(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	w.profile(t)
	tests := []struct {
		name, typ, arch, kubelet string
		want                     string // cpu, memory MiB, storage GiB, pods; the same allocatable; devices
	}{
		{"defaults", "m5.large", "x86_64", "", "2 7741Mi 19Gi 29 | 1930m 7067Mi 16Gi 29 | "},
		{"graviton", "c6g.large", "arm64", "", "2 3806Mi 19Gi 29 | 1930m 3132Mi 16Gi 29 | "},
		{"max pods", "m5.large", "x86_64", "  kubelet: {config: {maxPods: 110}}\n", "2 7741Mi 19Gi 110 | 1930m 7067Mi 16Gi 110 | "},
		{"pods per core", "m5.large", "x86_64", "  kubelet: {config: {podsPerCore: 5}}\n", "2 7741Mi 19Gi 10 | 1930m 7067Mi 16Gi 10 | "},
		{"reserved by the user", "m5.large", "x86_64", "  kubelet: {config: {kubeReserved: {cpu: 500m}, systemReserved: {memory: 1Gi}}}\n", "2 7741Mi 19Gi 29 | 1500m 6043Mi 16Gi 29 | "},
		{"eviction in percent", "m5.large", "x86_64", "  kubelet: {config: {evictionHard: {memory.available: 10%, nodefs.available: 100%}}}\n", "2 7741Mi 19Gi 29 | 1930m 6392Mi 18Gi 29 | "},
		{"instance store", "m5d.large", "x86_64", "  instance: {localStorage: {strategy: RAID0}}\n", "2 7741Mi 69Gi 29 | 1930m 7067Mi 61Gi 29 | "},
		{"GPUs", "p4d.24xlarge", "x86_64", "", "96 1114767Mi 19Gi 737 | 95690m 1106305Mi 16Gi 737 | nvidia.com/gpu=8"},
		{"neuron", "inf2.24xlarge", "x86_64", "", "96 371589Mi 19Gi 737 | 95690m 363127Mi 16Gi 737 | aws.amazon.com/neuron=6 aws.amazon.com/neuroncore=12"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, devices, err := simaws.NodeOf(w.server, w.instance(t, tt.typ, tt.arch, nodeConfig(tt.kubelet)), w.clock.Now())
			if err != nil {
				t.Fatal(err)
			}
			got := list(n.Status.Capacity) + " | " + list(n.Status.Allocatable) + " | "
			for _, name := range []corev1.ResourceName{"aws.amazon.com/neuron", "nvidia.com/gpu", "aws.amazon.com/neuroncore"} {
				if q, ok := devices[name]; ok {
					if got[len(got)-1] != ' ' {
						got += " "
					}
					got += fmt.Sprintf("%s=%s", name, q.String())
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.typ, diff)
			}
		})
	}
}

func list(l corev1.ResourceList) string {
	return fmt.Sprintf("%s %dMi %dGi %s", l.Cpu(), l.Memory().Value()>>20, l.StorageEphemeral().Value()>>30, l.Pods())
}

// A scheduler that reckons with 7.5 % less than the raw memory must not find a
// node with less than that, on any type.
func TestMemoryIsBetweenTheEstimateAndTheRawSize(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	w.profile(t)
	for _, offer := range w.cloud.Area().Offers {
		typ, _ := w.cloud.Data().Type(offer.Type)
		arch := typ.Architectures[0]
		if arch != "x86_64" && arch != "arm64" {
			continue
		}
		n, _, err := simaws.NodeOf(w.server, w.instance(t, typ.Name, arch, nodeConfig("")), w.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		raw := typ.MemoryMiB
		if arch == "arm64" {
			raw -= 64
		}
		estimate := raw - (raw*75+999)/1000
		if got := n.Status.Capacity.Memory().Value() >> 20; got < estimate || got >= typ.MemoryMiB {
			t.Errorf("%s: %d MiB, want from %d to below %d", typ.Name, got, estimate, typ.MemoryMiB)
		}
	}
}
