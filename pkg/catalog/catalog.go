// Package catalog describes what the cloud sells: instance types and their offerings, immutable and indexed.
//
// A Catalog holds the types that one node class can use, with prices and availability at one instant. Its universe of
// offerings (type x zone x capacity type x reservation) is numbered, so that a set of offerings is a bitset and a
// requirement is an intersection of a few words.
package catalog

import (
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
	// MemoryRaw is the memory of the hardware in bytes, before the hypervisor's share; for explanations only.
	MemoryRaw int64
	// Observed tells that Capacity and Overhead are those of a live node of this type rather than computed.
	Observed bool
}

// Overhead is the part of a node's capacity that is not allocatable.
type Overhead struct {
	KubeReserved, SystemReserved, EvictionThreshold units.List
}

// Allocatable returns capacity minus overhead, never below zero.
func (t *InstanceType) Allocatable() units.List {
	out := t.Capacity.Sub(t.Overhead.KubeReserved).Sub(t.Overhead.SystemReserved).Sub(t.Overhead.EvictionThreshold)
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
}

// Unavailability says why an offering cannot be bought at the moment.
type Unavailability struct {
	// Reason is the cloud's error code, e.g. InsufficientInstanceCapacity, MaxSpotInstanceCountExceeded (a quota),
	// InsufficientFreeAddressesInSubnet, ZonalShift, or IncompatibleNodeClass.
	Reason string
	// Until is when it will be tried again; zero if unknown.
	Until time.Time
}

// Catalog is the indexed form of a list of instance types. It is immutable.
type Catalog struct {
	types []InstanceType
}

// New indexes the types. It keeps the slice, which must not change afterwards.
func New(types []InstanceType) *Catalog { return &Catalog{types: types} }

// Types returns the instance types in the order given to New.
func (c *Catalog) Types() []InstanceType { return c.types }
