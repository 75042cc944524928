package ec2types

import "strings"

// Family is a family of machine images, spelled as in EC2NodeClass.spec.amiFamily.
type Family string

// The image families.
const (
	AL2          Family = "AL2"
	AL2023       Family = "AL2023"
	Bottlerocket Family = "Bottlerocket"
	Custom       Family = "Custom"
	Windows2019  Family = "Windows2019"
	Windows2022  Family = "Windows2022"
	Windows2025  Family = "Windows2025"
)

// Windows reports whether nodes of the family run Windows.
func (f Family) Windows() bool { return f.WindowsBuild() != "" }

// WindowsBuild returns the build number of a Windows family, empty for the others.
func (f Family) WindowsBuild() string {
	switch f {
	case Windows2019:
		return "10.0.17763"
	case Windows2022:
		return "10.0.20348"
	case Windows2025:
		return "10.0.26100"
	default:
		return ""
	}
}

// EphemeralDevice is the device whose volume holds the node's ephemeral storage; empty for Custom.
func (f Family) EphemeralDevice() string {
	switch {
	case f == AL2, f == AL2023:
		return "/dev/xvda"
	case f == Bottlerocket:
		return "/dev/xvdb"
	case f.Windows():
		return "/dev/sda1"
	}
	return ""
}

// DefaultDevices are the volumes of a node whose class lists none; nil for Custom, where the image decides. All are encrypted gp3.
func (f Family) DefaultDevices() []BlockDevice {
	const gib = 1 << 30
	switch {
	case f == AL2, f == AL2023:
		return []BlockDevice{{Name: "/dev/xvda", Bytes: 20 * gib}}
	case f == Bottlerocket:
		return []BlockDevice{{Name: "/dev/xvda", Bytes: 4 * gib}, {Name: "/dev/xvdb", Bytes: 20 * gib}}
	case f.Windows():
		return []BlockDevice{{Name: "/dev/sda1", Bytes: 50 * gib}}
	}
	return nil
}

// FamilyOfAlias maps the family part of an image alias, such as "al2023", to its family.
func FamilyOfAlias(alias string) (Family, bool) {
	name, _, _ := strings.Cut(alias, "@")
	for _, f := range []Family{AL2, AL2023, Bottlerocket, Windows2019, Windows2022, Windows2025} {
		if strings.ToLower(string(f)) == name {
			return f, true
		}
	}
	return "", false
}

// Settings are those of the whole process.
type Settings struct {
	// Region becomes the region label.
	Region string
	// MemoryOverhead is the share of memory the hypervisor keeps, e.g. 0.075.
	MemoryOverhead float64
	// ReservedENIs are network interfaces of the default card kept free of pods.
	ReservedENIs int
}

// Class is what of a node class shapes its instance types. It has a JSON form, so that a launch can be recorded with it.
type Class struct {
	Family       Family        `json:"family"`
	Kubelet      Kubelet       `json:"kubelet,omitzero"`
	BlockDevices []BlockDevice `json:"devices,omitempty"`
	// RAID0 tells that the local disks together hold the ephemeral storage.
	RAID0 bool `json:"raid0,omitempty"`
	// NICs are the network interfaces the class lists; empty leaves the choice to the launch.
	NICs                 []NIC           `json:"nics,omitempty"`
	NestedVirtualization bool            `json:"nested,omitempty"`
	ConnectionTracking   bool            `json:"tracking,omitempty"`
	PlacementGroup       *PlacementGroup `json:"group,omitempty"`
	// Zones are those in which the class has a subnet, ascending by name.
	Zones        []Zone        `json:"zones"`
	Reservations []Reservation `json:"reservations,omitempty"`
}

// Kubelet holds the kubelet settings that change what a node can hold. Quantities are text as in the API.
type Kubelet struct {
	MaxPods        *int32            `json:"maxPods,omitempty"`
	PodsPerCore    int32             `json:"podsPerCore,omitempty"`
	KubeReserved   map[string]string `json:"kubeReserved,omitempty"`
	SystemReserved map[string]string `json:"systemReserved,omitempty"`
	EvictionHard   map[string]string `json:"evictionHard,omitempty"`
}

// BlockDevice is a volume of the node. Bytes is 0 when the size is not given (a snapshot or the image decides).
type BlockDevice struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes,omitempty"`
	Root  bool   `json:"root,omitempty"`
}

// NIC is a network interface that the class asks for.
type NIC struct {
	Card    int  `json:"card"`
	Device  int  `json:"device"`
	EFAOnly bool `json:"efaOnly,omitempty"`
}

// PlacementGroup is the group the class launches into. Partitions is 0 unless the strategy is partition.
type PlacementGroup struct {
	ID         string `json:"id"`
	Strategy   string `json:"strategy"`
	Partitions int    `json:"partitions,omitempty"`
}

// Zone is an availability zone. ID may be empty.
type Zone struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`
}

// Reservation is a capacity reservation the class may use.
type Reservation struct {
	ID            string `json:"id"`
	InstanceType  string `json:"type"`
	Zone          string `json:"zone"`
	Kind          string `json:"kind"` // default or capacity-block
	Interruptible bool   `json:"interruptible,omitempty"`
	// Expiring reservations take no more instances.
	Expiring bool `json:"expiring,omitempty"`
	// Count of free instances.
	Count int `json:"count"`
}
