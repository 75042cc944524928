// Package catalog describes what the cloud sells: instance types and their offerings, immutable and indexed.
//
// A Catalog holds the types that one node class can use, with prices and availability at one instant. Its universe of
// offerings (type x zone x capacity type x reservation) is numbered, so that a set of offerings is a bitset and a
// requirement is an intersection of a few words.
package catalog

import (
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// Capacity types, the values of the label karpenter.sh/capacity-type.
const (
	OnDemand = "on-demand"
	Spot     = "spot"
	Reserved = "reserved"
)

// InstanceType is one type as one node class would run it: capacity and overhead already contain the class's kubelet
// settings and disks, and the offerings only the zones of the class's subnets.
type InstanceType struct {
	Name string
	// Requirements are the labels a node of this type can carry: In for each label with its possible values, DoesNotExist for a
	// well-known label the type lacks. Zone and capacity type list the union over the offerings.
	Requirements []constraint.Expr
	// Capacity is what the node reports; it is what NodePool limits count.
	Capacity units.List
	// Overhead is what pods cannot use, in its parts, so that a shortage can be explained.
	Overhead  Overhead
	Offerings []Offering
	// Devices are those that drivers will publish on nodes of this type, for dynamic resource allocation (scheduling rules 22.3).
	Devices []DevicePool
	// MemoryRaw is the memory of the hardware in bytes, before the hypervisor's share; for explanations only.
	MemoryRaw int64
	// Observed tells that Capacity and Overhead are those of a live node of this type rather than computed.
	Observed bool
	// PriceOverlay and CapacityOverlay tell that a NodeOverlay has changed the price of an offering, or the capacity (scheduling rules 23).
	PriceOverlay, CapacityOverlay bool
}

// Overhead is the part of a node's capacity that is not allocatable.
type Overhead struct {
	KubeReserved, SystemReserved, EvictionThreshold units.List
}

// Total returns the sum of the parts.
func (o Overhead) Total() units.List {
	return o.KubeReserved.Add(o.SystemReserved).Add(o.EvictionThreshold)
}

// Allocatable returns capacity minus overhead, and memory also minus the huge pages the type sets aside, never below zero (scheduling rules
// 5.3).
func (t *InstanceType) Allocatable() units.List { return allocatable(t.Capacity, t.Overhead.Total()) }

func allocatable(capacity, overhead units.List) units.List {
	out := capacity.Sub(overhead)
	for k, v := range capacity {
		if strings.HasPrefix(k, "hugepages-") {
			out[units.Memory] -= v
		}
	}
	for k, v := range out {
		if v < 0 {
			out[k] = 0
		}
	}
	return out
}

// Offering is one way to buy an instance type.
type Offering struct {
	Zone, ZoneID string
	CapacityType string
	// ReservationID names the capacity reservation of a reserved offering, ReservationCount its free instances.
	ReservationID    string
	ReservationCount int
	// Requirements are further labels of the offering beyond zone, zone id and capacity type (reservation labels).
	Requirements []constraint.Expr
	// Price per hour. A reserved offering costs on-demand / 10^7.
	Price units.Money
	// PriceUnknown tells that Price is a stand-in (no price is known).
	PriceUnknown bool
	// Available is false while the cloud is known not to sell it, for the reason in Unavailable.
	Available   bool
	Unavailable Unavailability
	// Capacity and Overhead replace single amounts of the type's where this offering differs (scheduling rules 5.3); overhead is the sum
	// of its parts. Nil, as always on AWS, means no difference.
	Capacity, Overhead units.List
}

// NoPrice is the reason of an offering that cannot be bought only because no price is known for it.
const NoPrice = "NoPrice"

// Unavailability says why an offering cannot be bought at the moment.
type Unavailability struct {
	// Reason is the cloud's error code, e.g. InsufficientInstanceCapacity, MaxSpotInstanceCountExceeded (a quota),
	// InsufficientFreeAddressesInSubnet, ZonalShift, or IncompatibleNodeClass.
	Reason string
	// Until is when it will be tried again; zero if unknown.
	Until time.Time
}
