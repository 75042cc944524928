package constraint

import "strings"

// Label keys that the engine itself looks at.
const (
	NodePoolKey      = "karpenter.sh/nodepool"
	CapacityTypeKey  = "karpenter.sh/capacity-type"
	RegisteredKey    = "karpenter.sh/registered"
	InitializedKey   = "karpenter.sh/initialized"
	ZoneKey          = "topology.kubernetes.io/zone"
	RegionKey        = "topology.kubernetes.io/region"
	ZoneIDKey        = "topology.k8s.aws/zone-id"
	InstanceTypeKey  = "node.kubernetes.io/instance-type"
	ArchKey          = "kubernetes.io/arch"
	OSKey            = "kubernetes.io/os"
	HostnameKey      = "kubernetes.io/hostname"
	ReservationIDKey = "karpenter.k8s.aws/capacity-reservation-id"
)

const awsPrefix = "karpenter.k8s.aws/"

// WellKnown reports whether a key is one that the provider defines on every node it can (scheduling rules 6.4).
func WellKnown(key string) bool {
	switch key {
	case NodePoolKey, CapacityTypeKey, ZoneKey, RegionKey, InstanceTypeKey, ArchKey, OSKey, "node.kubernetes.io/windows-build", ZoneIDKey:
		return true
	}
	name, ok := strings.CutPrefix(key, awsPrefix)
	if !ok {
		return false
	}
	switch name {
	case "capacity-reservation-id", "capacity-reservation-type", "capacity-reservation-interruptible",
		"instance-hypervisor", "instance-encryption-in-transit-supported", "instance-category", "instance-capability-flex",
		"instance-family", "instance-generation", "instance-size", "instance-local-nvme", "instance-cpu", "instance-cpu-manufacturer",
		"instance-cpu-sustained-clock-speed-mhz", "instance-memory", "instance-ebs-bandwidth", "instance-network-bandwidth",
		"instance-gpu-name", "instance-gpu-manufacturer", "instance-gpu-count", "instance-gpu-memory", "instance-accelerator-name",
		"instance-accelerator-manufacturer", "instance-accelerator-count", "instance-tenancy", "placement-group-id",
		"placement-group-partition":
		return true
	}
	return false
}

// Canonical resolves a key's alias: older spellings and the EBS driver's zone (scheduling rules 6.5).
func Canonical(key string) string {
	switch key {
	case "failure-domain.beta.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone":
		return ZoneKey
	case "failure-domain.beta.kubernetes.io/region":
		return RegionKey
	case "beta.kubernetes.io/arch":
		return ArchKey
	case "beta.kubernetes.io/os":
		return OSKey
	case "beta.kubernetes.io/instance-type":
		return InstanceTypeKey
	}
	return key
}

// Restricted reports whether pods may not select on the key: the hostname, and the provider's domains where the key is not well-known
// (scheduling rules 2.2, V3).
func Restricted(key string) bool {
	if key == HostnameKey {
		return true
	}
	domain, _, ok := strings.Cut(key, "/")
	return ok && !WellKnown(key) && (within(domain, "karpenter.sh") || within(domain, "karpenter.k8s.aws"))
}

func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// closedValues returns the only values a key can have, or nil (scheduling rules 2.2, V4).
func closedValues(key string) []string {
	switch key {
	case CapacityTypeKey:
		return []string{"on-demand", "spot", "reserved"}
	case awsPrefix + "instance-tenancy":
		return []string{"default", "dedicated"}
	}
	return nil
}
