package ec2types

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/constraint"
)

// typeName finds category and generation in the name of a type.
var typeName = regexp.MustCompile(`(^[a-z]+)(\-[0-9]+tb)?([0-9]+).*\.`)

// labels collects requirements: a set label is In, an absent one DoesNotExist.
type labels []constraint.Expr

func (l *labels) set(key string, values ...string) {
	e := constraint.Expr{Key: key, Operator: constraint.In, Values: values}
	if len(values) == 0 {
		e = constraint.Expr{Key: key, Operator: constraint.DoesNotExist}
	}
	*l = append(*l, e)
}

func (l *labels) setIf(known bool, key, value string) {
	if known {
		l.set(key, value)
		return
	}
	l.set(key)
}

func (l labels) sorted() []constraint.Expr {
	slices.SortFunc(l, func(a, b constraint.Expr) int { return cmp.Compare(a.Key, b.Key) })
	return l
}

// requirements returns the labels of the type under the class, ascending by key.
func requirements(t *ec2data.Type, s Settings, c *Class, offerings []catalog.Offering) []constraint.Expr {
	var l labels
	l.set(LabelInstanceType, t.Name)
	l.set(LabelRegion, s.Region)
	arch := Arch(t)
	l.setIf(arch != "", LabelArch, arch)
	l.system(c, arch)
	l.name(t.Name)
	l.hardware(t)
	l.gpu(t)
	l.accelerator(t)
	l.set(LabelTenancy, "default", "dedicated")
	l.market(c, offerings)
	return l.sorted()
}

// Arch returns the Kubernetes name of the first supported architecture that has one, or "".
func Arch(t *ec2data.Type) string {
	for _, a := range t.Architectures {
		switch a {
		case "x86_64":
			return "amd64"
		case "arm64":
			return "arm64"
		}
	}
	return ""
}

func (l *labels) system(c *Class, arch string) {
	if !c.Family.Windows() {
		l.set(LabelOS, "linux")
		l.set(LabelWindowsBuild)
		return
	}
	l.setIf(arch == "amd64", LabelOS, "windows")
	l.set(LabelWindowsBuild, c.Family.WindowsBuild())
}

func (l *labels) name(name string) {
	m := typeName.FindStringSubmatch(name)
	if m == nil {
		m = make([]string, 4)
	}
	l.setIf(m[1] != "", LabelCategory, m[1])
	l.setIf(m[3] != "", LabelGeneration, m[3])
	family, size, _ := strings.Cut(name, ".")
	plain := strings.Count(name, ".") == 1
	l.setIf(plain, LabelFamily, family)
	l.setIf(plain, LabelSize, size)
	l.set(LabelFlex, strconv.FormatBool(strings.Contains(family, "-flex")))
}

func (l *labels) hardware(t *ec2data.Type) {
	l.set(LabelCPU, strconv.Itoa(t.VCPUs))
	l.set(LabelMemory, strconv.FormatInt(t.MemoryMiB, 10))
	cpu := t.CPUManufacturer != ""
	l.setIf(cpu, LabelCPUManufacturer, kebab(t.CPUManufacturer))
	l.setIf(cpu, LabelCPUClock, strconv.Itoa(t.ClockMHz))
	l.setIf(t.EBS.Optimized == "default" && t.EBS.Maximum.Mbps > 0, LabelEBSBandwidth, strconv.Itoa(t.EBS.Maximum.Mbps))
	l.setIf(t.BandwidthKnown, LabelNetworkBandwidth, strconv.Itoa(t.BandwidthMbps))
	nvme := t.Disk != nil && t.Disk.NVMe != "unsupported"
	if nvme {
		l.set(LabelLocalNVMe, strconv.FormatInt(t.Disk.TotalGB, 10))
	} else {
		l.set(LabelLocalNVMe)
	}
	l.set(LabelHypervisor, t.Hypervisor)
	l.set(LabelEncryptionInTransit, strconv.FormatBool(t.Network.Encryption))
}

func (l *labels) gpu(t *ec2data.Type) {
	var g ec2data.GPU
	one := len(t.GPUs) == 1
	if one {
		g = t.GPUs[0]
	}
	l.setIf(one, LabelGPUName, kebab(g.Name))
	l.setIf(one, LabelGPUManufacturer, kebab(g.Manufacturer))
	l.setIf(one, LabelGPUCount, strconv.Itoa(g.Count))
	l.setIf(one, LabelGPUMemory, strconv.FormatInt(g.MemoryMiB, 10))
}

func (l *labels) accelerator(t *ec2data.Type) {
	var name, maker string
	var count int
	switch {
	case len(t.Neuron) == 1:
		name, maker, count = t.Neuron[0].Name, "aws", t.Neuron[0].Count
	case len(t.Neuron) == 0 && len(t.Inference) == 1:
		name, maker, count = t.Inference[0].Name, t.Inference[0].Manufacturer, t.Inference[0].Count
	}
	l.setIf(name != "", LabelAcceleratorName, kebab(name))
	l.setIf(name != "", LabelAcceleratorMaker, kebab(maker))
	l.setIf(name != "", LabelAcceleratorCount, strconv.Itoa(count))
}

// market adds what the offerings say: zones, capacity types, reservations and the placement group.
func (l *labels) market(c *Class, offerings []catalog.Offering) {
	values := map[string][]string{}
	note := func(key, value string) {
		if value != "" && !slices.Contains(values[key], value) {
			values[key] = append(values[key], value)
		}
	}
	for _, o := range offerings {
		note(LabelZone, o.Zone)
		note(LabelZoneID, o.ZoneID)
		note(LabelCapacityType, o.CapacityType)
		for _, e := range o.Requirements {
			for _, v := range e.Values {
				note(e.Key, v)
			}
		}
	}
	if c.PlacementGroup != nil {
		note(LabelPlacementGroup, c.PlacementGroup.ID)
	}
	for _, key := range []string{LabelZone, LabelZoneID, LabelCapacityType, LabelReservationID, LabelReservationType, LabelInterruptible, LabelPlacementGroup} {
		l.set(key, slices.Sorted(slices.Values(values[key]))...)
	}
	l.set(LabelPartition, values[LabelPartition]...)
}

func kebab(s string) string { return strings.ReplaceAll(strings.ToLower(s), " ", "-") }
