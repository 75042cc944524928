package cluster

import (
	"encoding/json"
	"maps"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
)

// Devices is what the cluster knows about devices for dynamic resource allocation (scheduling rules 22). It is empty where the setting
// IgnoreDRA is on.
type Devices struct {
	Slices  []*DeviceSlice // by name
	Claims  []*DeviceClaim // by namespace and name
	Classes []*DeviceClass // by name
	// Selectors are the expressions of claims and classes, by text.
	Selectors map[string]*DeviceSelector
}

// DeviceSlice is a ResourceSlice: a part of a pool of devices.
type DeviceSlice struct {
	Name, Driver, Pool string
	// Generation of the pool that the slice belongs to, and the number of slices that make it complete.
	Generation, Count int64
	// OwnerNode is the Node that owns the object, empty if none does.
	OwnerNode string
	Devices   []PublishedDevice
	Counters  []catalog.Counters
}

// PublishedDevice is a device that exists.
type PublishedDevice struct {
	catalog.Device
	Reach Reach
}

// Reach says from which nodes a device can be used: from one, from those that a term selects, or, with neither, from all.
type Reach struct {
	Node  string
	Terms []ReachTerm
}

// ReachTerm selects nodes by their labels and, unless Nodes is nil, by their names.
type ReachTerm struct {
	Exprs []constraint.Expr
	Nodes []string
}

// DeviceClass is a class of devices, as its selectors describe it.
type DeviceClass struct {
	Name string
	// Selectors must all hold.
	Selectors []string
	// Problem says why the class cannot be used: a selector of an unknown kind.
	Problem string
}

// DeviceClaim is a ResourceClaim. ("Claim" by itself is a NodeClaim.)
type DeviceClaim struct {
	Namespace, Name, UID string
	Deleting             bool
	Requests             []DeviceRequest
	// Match are the attributes that devices must have in common.
	Match []DeviceMatch
	// Bound tells that the cluster has given the claim devices: Allocated, which can be used from Reach.
	Bound     bool
	Allocated []AllocatedDevice
	Reach     Reach
	// ReservedFor are the UIDs of the pods, or whatever else, that use it.
	ReservedFor []string
	// Problem says why the claim cannot be simulated: a constraint of an unknown kind.
	Problem string
}

// DeviceRequest asks for devices in one of several ways, the best first; one that says exactly what it wants has one way without name.
type DeviceRequest struct {
	Name string
	Ways []DeviceWay
}

// DeviceWay is one way to serve a request.
type DeviceWay struct {
	Name, Class string
	// Selectors must all hold, beside those of the class.
	Selectors []string
	// All asks for every device that matches, else Count of them.
	All   bool
	Count int64
	// Admin asks for access whether the device is in use or not.
	Admin bool
	// Capacity is the least each device must have, in thousandths.
	Capacity    map[string]int64
	Tolerations []constraint.Toleration
}

// DeviceMatch wants an attribute to be the same on the devices of some requests, of all if none is named. Requests are named as in results: by
// name, or name/way.
type DeviceMatch struct {
	Requests  []string
	Attribute string
}

// AllocatedDevice is a device that a claim has.
type AllocatedDevice struct {
	Request, Driver, Pool, Device string
	Admin                         bool
	// Consumed is the share of a device that is shared, in thousandths.
	Consumed map[string]int64
}

// DeviceClaimRef is a pod's use of a device claim. An empty Claim tells that the claim made from a template does not exist yet.
type DeviceClaimRef struct {
	Name, Claim string
}

// DeviceSelector is an expression and what it says of devices. It is evaluated outside of decisions.
type DeviceSelector struct {
	// Problem says why the expression is no good.
	Problem string
	// Matches holds the keys of the devices that the expression selects (catalog.Device.Key).
	Matches map[string]bool
}

// Key is the claim's namespace and name.
func (c *DeviceClaim) Key() string { return c.Namespace + "/" + c.Name }

// SetDeviceSlice adds a slice or replaces the one of the same name.
func (b *Builder) SetDeviceSlice(s *DeviceSlice) {
	b.deviceSlices.set(s.Name, s)
	b.note("deviceslice/"+s.Name, digestPlain("deviceslice", s))
}

// DeleteDeviceSlice removes a slice.
func (b *Builder) DeleteDeviceSlice(name string) {
	b.deviceSlices.delete(name)
	b.note("deviceslice/"+name, Digest{})
}

// SetDeviceClaim adds a device claim or replaces the one of the same name.
func (b *Builder) SetDeviceClaim(c *DeviceClaim) {
	b.deviceClaims.set(c.Key(), c)
	b.note("deviceclaim/"+c.Key(), digestPlain("deviceclaim", c))
}

// DeleteDeviceClaim removes a device claim.
func (b *Builder) DeleteDeviceClaim(namespace, name string) {
	b.deviceClaims.delete(namespace + "/" + name)
	b.note("deviceclaim/"+namespace+"/"+name, Digest{})
}

// SetDeviceClass adds a class of devices or replaces the one of the same name.
func (b *Builder) SetDeviceClass(c *DeviceClass) {
	b.deviceClasses.set(c.Name, c)
	b.note("deviceclass/"+c.Name, digestPlain("deviceclass", c))
}

// DeleteDeviceClass removes a class of devices.
func (b *Builder) DeleteDeviceClass(name string) {
	b.deviceClasses.delete(name)
	b.note("deviceclass/"+name, Digest{})
}

// SetDeviceSelectors replaces what the selectors say, by expression. The map must not be changed afterwards.
func (b *Builder) SetDeviceSelectors(selectors map[string]*DeviceSelector) {
	if len(selectors) == 0 && len(b.selectors) == 0 || maps.Equal(b.selectors, selectors) {
		return
	}
	b.selectors = selectors
	if len(selectors) == 0 {
		b.note("deviceselectors", Digest{})
		return
	}
	b.note("deviceselectors", digestPlain("deviceselectors", selectors))
}

// digestPlain hashes plain data by its JSON form, which has maps in key order. It is for what is rare and changes seldom.
func digestPlain(kind string, v any) Digest {
	text, _ := json.Marshal(v)
	return digestOf(func(h *hasher) { h.str(kind, string(text)) })
}

func (b *Builder) devices() Devices {
	return Devices{Slices: b.deviceSlices.sorted(), Claims: b.deviceClaims.sorted(), Classes: b.deviceClasses.sorted(), Selectors: b.selectors}
}
