package simaws

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/test/simaws/bootstrap"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

// uninitialized is the taint a kubelet with an external cloud provider
// registers with; the cloud controller takes it away.
const uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"

// A machine is an instance together with what its boot found out.
type machine struct {
	instance *cloud.Instance
	typ      *ec2data.Type
	image    cloud.Image
	config   *bootstrap.Config
	region   string
	ipv6     bool   // of the cluster
	version  string // of the kubelet
}

// node is the Node a kubelet registers: labels and taints of the user data and
// the kubelet's own, capacity, and not ready yet.
func (m *machine) node(annotations map[string]string, now time.Time) *corev1.Node {
	i := m.instance
	labels := map[string]string{
		corev1.LabelArchStable: kubeArch(i.Architecture), corev1.LabelOSStable: m.config.OS, corev1.LabelHostname: i.PrivateDNS,
		"beta.kubernetes.io/arch": kubeArch(i.Architecture), "beta.kubernetes.io/os": m.config.OS,
	}
	if m.config.OS == bootstrap.Windows {
		labels[corev1.LabelWindowsBuild] = m.image.Build
	}
	maps.Copy(labels, m.config.Labels)
	taints := append(slices.Clone(m.config.Taints), corev1.Taint{Key: uninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	capacity := m.capacity()
	at := metav1.NewTime(now)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: i.PrivateDNS, Labels: labels, Annotations: maps.Clone(annotations)},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + i.Zone + "/" + i.ID, Taints: taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: m.allocatable(capacity),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: m.address()}, {Type: corev1.NodeInternalDNS, Address: i.PrivateDNS},
				{Type: corev1.NodeHostName, Address: i.PrivateDNS},
			},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", LastHeartbeatTime: at, LastTransitionTime: at,
				Message: "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady",
			}},
			NodeInfo: m.system(),
		},
	}
}

// address is the node's, of the cluster's family if it has one.
func (m *machine) address() string {
	if m.ipv6 && m.instance.IPv6 != "" {
		return m.instance.IPv6
	}
	return m.instance.PrivateIP
}

// system is what the kubelet says of the machine and its image.
func (m *machine) system() corev1.NodeSystemInfo {
	i := m.instance
	id := "ec2" + strings.TrimPrefix(i.ID, "i-")
	info := corev1.NodeSystemInfo{
		Architecture: kubeArch(i.Architecture), OperatingSystem: m.config.OS, KubeletVersion: m.version,
		ContainerRuntimeVersion: "containerd://2.1.4", SystemUUID: id, MachineID: id, BootID: i.ID,
	}
	switch m.image.Family {
	case cloud.AL2:
		info.OSImage, info.KernelVersion = "Amazon Linux 2", "5.10.238-231.953.amzn2"
	case cloud.Bottlerocket:
		info.OSImage, info.KernelVersion = "Bottlerocket OS ("+m.image.Name+")", "6.12.37"
	case cloud.Windows:
		info.OSImage, info.KernelVersion = m.image.Description, m.image.Build
	default:
		info.OSImage, info.KernelVersion = "Amazon Linux 2023", "6.12.40-64.114.amzn2023"
	}
	return info
}

func kubeArch(arch string) string {
	if arch == "x86_64" {
		return "amd64"
	}
	return arch
}

// cloudLabels are the labels the cloud controller puts on a node.
func (m *machine) cloudLabels() map[string]string {
	i := m.instance
	return map[string]string{
		corev1.LabelInstanceTypeStable: i.Type, corev1.LabelInstanceType: i.Type,
		corev1.LabelTopologyZone: i.Zone, corev1.LabelTopologyRegion: m.region,
		corev1.LabelFailureDomainBetaZone: i.Zone, corev1.LabelFailureDomainBetaRegion: m.region,
		"topology.k8s.aws/zone-id": i.ZoneID,
	}
}

const mib = 1 << 20

// capacity is what the kubelet finds on the machine.
func (m *machine) capacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(m.typ.VCPUs), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(m.memory(), resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(m.storage(), resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(m.pods(), resource.DecimalSI),
		"hugepages-1Gi":                 resource.MustParse("0"),
		"hugepages-2Mi":                 resource.MustParse("0"),
	}
}

// memory is what firmware and kernel leave: an m5.large with 8192 MiB reports
// 7748 MiB, so 5.5 % are gone; Graviton takes 64 MiB more.
func (m *machine) memory() int64 {
	n := m.typ.MemoryMiB * 945 / 1000
	if m.instance.Architecture == "arm64" {
		n -= 64
	}
	return n * mib
}

// storage is the file system of the root volume, or of the instance store when
// that holds it; the file system itself takes about 0.4 %.
func (m *machine) storage() int64 {
	var bytes int64
	for _, v := range m.instance.Volumes {
		if v.Device == m.config.RootDevice {
			bytes = v.SizeGiB << 30
		}
	}
	if m.config.RAID0 && m.typ.Disk != nil {
		bytes = m.typ.Disk.TotalGB * 1e9
	}
	return bytes / 1000 * 996
}

// eniPods is the number of pods the VPC CNI has addresses for.
func eniPods(t *ec2data.Type) int64 {
	return int64(t.Network.DefaultCardENIs()*(t.Network.IPv4PerENI-1) + 2)
}

func (m *machine) pods() int64 {
	n := eniPods(m.typ)
	if m.config.PodLimit > 0 {
		n = int64(m.config.PodLimit)
	}
	if p := m.config.Kubelet.MaxPods; p != nil {
		n = int64(*p)
	}
	if p := m.config.Kubelet.PodsPerCore; p != nil && *p > 0 {
		n = min(n, int64(*p)*int64(m.typ.VCPUs))
	}
	return n
}

// allocatable is capacity less what nodeadm and the user's kubelet
// configuration reserve.
func (m *machine) allocatable(capacity corev1.ResourceList) corev1.ResourceList {
	reserved := map[string]string{
		"cpu": strconv.Itoa(reservedMilliCPU(m.typ.VCPUs)) + "m", "memory": strconv.FormatInt(11*eniPods(m.typ)+255, 10) + "Mi", "ephemeral-storage": "1Gi",
	}
	maps.Copy(reserved, m.config.Kubelet.KubeReserved)
	eviction := map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"}
	maps.Copy(eviction, m.config.Kubelet.EvictionHard)

	out := capacity.DeepCopy()
	for _, list := range []map[string]string{reserved, m.config.Kubelet.SystemReserved} {
		for name, v := range list {
			subtract(out, corev1.ResourceName(name), resource.MustParse(v)) // checked when the user data was read
		}
	}
	subtract(out, corev1.ResourceMemory, threshold(eviction["memory.available"], capacity[corev1.ResourceMemory]))
	subtract(out, corev1.ResourceEphemeralStorage, threshold(eviction["nodefs.available"], capacity[corev1.ResourceEphemeralStorage]))
	return out
}

func subtract(from corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	have, ok := from[name]
	if !ok {
		return
	}
	have.Sub(q)
	if have.Sign() < 0 {
		have = *resource.NewQuantity(0, have.Format)
	}
	from[name] = have
}

// threshold is an eviction threshold as a quantity.
func threshold(v string, capacity resource.Quantity) resource.Quantity {
	if p, ok := strings.CutSuffix(v, "%"); ok {
		percent, err := strconv.ParseFloat(p, 64)
		if err != nil || percent == 100 { // 100 % switches the signal off
			percent = 0
		}
		return *resource.NewQuantity(int64(math.Ceil(float64(capacity.Value())*percent/100)), resource.BinarySI)
	}
	return resource.MustParse(v)
}

// reservedMilliCPU is 6 % of the first core, 1 % of the second, 0.5 % of the
// next two and 0.25 % of the rest.
func reservedMilliCPU(vcpus int) int {
	total := 0
	for _, tier := range []struct{ from, to, perMyriad int }{{0, 1000, 600}, {1000, 2000, 100}, {2000, 4000, 50}, {4000, math.MaxInt, 25}} {
		if milli := vcpus * 1000; milli > tier.from {
			total += (min(milli, tier.to) - tier.from) * tier.perMyriad / 10_000
		}
	}
	return total
}

// devices are the extended resources device plugins report.
func (m *machine) devices() corev1.ResourceList {
	counts := map[corev1.ResourceName]int{}
	for _, g := range m.typ.GPUs {
		switch g.Manufacturer {
		case "NVIDIA":
			counts["nvidia.com/gpu"] += g.Count
		case "AMD":
			counts["amd.com/gpu"] += g.Count
		case "Habana":
			counts["habana.ai/gaudi"] += g.Count
		}
	}
	for _, n := range m.typ.Neuron {
		counts["aws.amazon.com/neuron"] += n.Count
		counts["aws.amazon.com/neuroncore"] += n.Count * n.Cores
	}
	if m.config.OS == bootstrap.Windows { // given by the VPC resource controller
		counts["vpc.amazonaws.com/PrivateIPv4Address"] = m.typ.Network.IPv4PerENI - 1
	}
	for _, n := range m.instance.Interfaces {
		if strings.HasPrefix(n.Type, "efa") {
			counts["vpc.amazonaws.com/efa"]++
		}
	}
	out := corev1.ResourceList{}
	for name, n := range counts {
		if n > 0 {
			out[name] = *resource.NewQuantity(int64(n), resource.DecimalSI)
		}
	}
	return out
}
