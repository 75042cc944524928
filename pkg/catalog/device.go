package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/karp-sh/karp/pkg/constraint"
)

// Device is a device as dynamic resource allocation knows it (scheduling rules 22.3): one that a driver has published, or one that nodes of an
// instance type will have. Amounts are in thousandths.
type Device struct {
	Name string
	// Attributes and Capacity by name, each with its domain ("gpu.example.com/model").
	Attributes map[string]Attribute
	Capacity   map[string]DeviceCapacity
	// Bindings, of a device of an instance type, tell of attributes whose values are not known before launch which devices will have equal ones:
	// those with equal bindings.
	Bindings map[string]string
	// Shared tells that several requests may be served by the device, as long as its capacity lasts.
	Shared bool
	// Consumes is what the device takes from the counters of its pool.
	Consumes []CounterUse
	// Taints keep requests away that do not tolerate them.
	Taints []constraint.Taint
}

// Attribute is a value of one of the kinds int, bool, string and version, or a list of them.
type Attribute struct {
	Kind   string
	List   bool
	Values []string
}

// DeviceCapacity is an amount of a device, and how requests for a part of it are rounded.
type DeviceCapacity struct {
	Value  int64
	Policy *CapacityPolicy
}

// CapacityPolicy says what a request gets: the next of the Valid amounts, or the next of Min, Min + Step, ... up to Max; Default without a request.
type CapacityPolicy struct {
	Default *int64
	Valid   []int64 // ascending
	// Ranged tells that Min, Max and Step count; Max and Step are nil where unset.
	Ranged    bool
	Min       int64
	Max, Step *int64
}

// Counters is a set of amounts that the devices of a pool share.
type Counters struct {
	Name   string
	Values map[string]int64
}

// CounterUse is what one device takes from a set of counters.
type CounterUse struct {
	Set    string
	Values map[string]int64
}

// DevicePool is what a driver will publish on nodes of an instance type.
type DevicePool struct {
	Driver, Name string
	Devices      []Device
	Counters     []Counters
}

// Key identifies all that a selector can tell about the device of a driver: devices with equal keys match the same selectors.
func (d *Device) Key(driver string) string {
	// Plain data, with maps in key order: this cannot fail and is the same everywhere.
	b, _ := json.Marshal(struct {
		Driver     string
		Attributes map[string]Attribute
		Capacity   map[string]DeviceCapacity
		Shared     bool
	}{driver, d.Attributes, d.Capacity, d.Shared})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}
