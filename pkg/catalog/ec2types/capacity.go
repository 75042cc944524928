package ec2types

import (
	"math"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/units"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	// defaultEphemeral is the size of a root volume about which nothing is known.
	defaultEphemeral = 20 * gib
	// armFirmware is memory that Graviton machines hide from the kernel, in MiB.
	armFirmware = 64
	// windowsPods is the number of pods of a Windows node.
	windowsPods = 110
)

// capacity returns what a node of the type reports, computed. A zero amount of an extended resource is left out.
func capacity(t *ec2data.Type, s Settings, c *Class) units.List {
	out := units.List{
		units.CPU:              int64(t.VCPUs) * 1000,
		units.Memory:           memory(t, s.MemoryOverhead),
		units.EphemeralStorage: ephemeral(t, c),
		units.Pods:             pods(t, s, c),
	}
	extended(out, t, c)
	for name, amount := range out {
		if amount == 0 && name != units.CPU && name != units.Memory && name != units.EphemeralStorage && name != units.Pods {
			delete(out, name)
		}
	}
	return out
}

// memory is the hardware's, less the firmware of ARM machines, less the hypervisor's share rounded up to MiB; in bytes.
func memory(t *ec2data.Type, overhead float64) int64 {
	m := t.MemoryMiB
	if len(t.Architectures) > 0 && t.Architectures[0] == "arm64" {
		m -= armFirmware
	}
	return max(0, m-int64(math.Ceil(float64(m)*overhead))) * mib
}

func extended(out units.List, t *ec2data.Type, c *Class) {
	if t.VPC.Known && t.VPC.Trunking {
		out[PodENI] = int64(t.VPC.BranchENIs)
	}
	if c.Family.Windows() && t.VPC.Known {
		out[PrivateIPv4] = int64(t.Network.IPv4PerENI - 1)
	}
	out[EFA] = int64(t.Network.MaxEFA)
	if len(c.NICs) > 0 {
		out[EFA] = int64(efaOnly(c.NICs, -1))
	}
	for _, g := range t.GPUs {
		switch g.Manufacturer {
		case "NVIDIA":
			out[NvidiaGPU] += int64(g.Count)
		case "AMD":
			out[AMDGPU] += int64(g.Count)
		case "Habana":
			out[Gaudi] += int64(g.Count)
		}
	}
	for _, n := range t.Neuron {
		out[Neuron] += int64(n.Count)
	}
	if len(t.Neuron) > 0 {
		out[NeuronCore] = int64(t.Neuron[0].Count) * int64(t.Neuron[0].Cores)
	}
}

// efaOnly counts the EFA-only interfaces on the card; card -1 stands for all.
func efaOnly(nics []NIC, card int) int {
	n := 0
	for _, nic := range nics {
		if nic.EFAOnly && (card < 0 || nic.Card == card) {
			n++
		}
	}
	return n
}

// eniPods is how many pods get an address of their own from the network interfaces of the default card.
func eniPods(t *ec2data.Type, reserved int, c *Class) int64 {
	usable := t.Network.DefaultCardENIs() - reserved - efaOnly(c.NICs, 0)
	if usable <= 0 {
		return 0
	}
	return int64(usable)*int64(t.Network.IPv4PerENI-1) + 2
}

func pods(t *ec2data.Type, s Settings, c *Class) int64 {
	var n int64
	switch {
	case c.Kubelet.MaxPods != nil:
		n = int64(*c.Kubelet.MaxPods)
	case c.Family.Windows():
		n = windowsPods
	default:
		n = eniPods(t, s.ReservedENIs, c)
	}
	if c.Kubelet.PodsPerCore > 0 && c.Family != Bottlerocket {
		n = min(n, int64(c.Kubelet.PodsPerCore)*int64(t.VCPUs))
	}
	return n
}

// ephemeral is the size of the node's ephemeral storage in bytes; the first rule that matches decides.
func ephemeral(t *ec2data.Type, c *Class) int64 {
	if c.RAID0 && t.Disk != nil && t.Disk.TotalGB > 0 {
		return t.Disk.TotalGB * 1_000_000_000
	}
	for _, d := range c.BlockDevices {
		if d.Root && d.Bytes > 0 {
			return d.Bytes
		}
	}
	if c.Family == Custom && len(c.BlockDevices) > 0 {
		return orDefault(c.BlockDevices[len(c.BlockDevices)-1].Bytes)
	}
	device := c.Family.EphemeralDevice()
	for _, list := range [][]BlockDevice{c.BlockDevices, c.Family.DefaultDevices()} {
		for _, d := range list {
			if d.Name == device && d.Bytes > 0 {
				return d.Bytes
			}
		}
	}
	return defaultEphemeral
}

func orDefault(bytes int64) int64 {
	if bytes == 0 {
		return defaultEphemeral
	}
	return bytes
}
