package kube

import (
	"context"
	"maps"
	"slices"
	"strconv"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	dracel "k8s.io/dynamic-resource-allocation/cel"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
)

// devices keeps the objects of dynamic resource allocation and evaluates the selectors that they hold, so that decisions need no CEL.
type devices struct {
	slices  map[string]*cluster.DeviceSlice
	claims  map[string]*cluster.DeviceClaim
	classes map[string]*cluster.DeviceClass
	// compiled are the selectors in use, known what devices look like to them, by key.
	compiled map[string]*compiled
	known    map[string]dracel.Device
	// templates are the devices of the instance types of a catalogue.
	templates map[*catalog.Catalog]map[string]dracel.Device
	stale     bool
}

// compiled is a selector and what it says of the devices it was asked about.
type compiled struct {
	result  dracel.CompilationResult
	answers map[string]bool
	last    *cluster.DeviceSelector
}

func newDevices() devices {
	return devices{slices: map[string]*cluster.DeviceSlice{}, claims: map[string]*cluster.DeviceClaim{}, classes: map[string]*cluster.DeviceClass{},
		compiled: map[string]*compiled{}, known: map[string]dracel.Device{}, templates: map[*catalog.Catalog]map[string]dracel.Device{}}
}

// SetResourceSlice takes a ResourceSlice.
func (s *State) SetResourceSlice(x *resourcev1.ResourceSlice) {
	out := NewDeviceSlice(x)
	s.devices.slices[x.Name], s.devices.stale = out, true
	s.sink.SetDeviceSlice(out)
}

// DeleteResourceSlice takes a ResourceSlice away.
func (s *State) DeleteResourceSlice(name string) {
	delete(s.devices.slices, name)
	s.devices.stale = true
	s.sink.DeleteDeviceSlice(name)
}

// SetResourceClaim takes a ResourceClaim.
func (s *State) SetResourceClaim(x *resourcev1.ResourceClaim) {
	out := NewDeviceClaim(x)
	s.devices.claims[out.Key()], s.devices.stale = out, true
	s.sink.SetDeviceClaim(out)
}

// DeleteResourceClaim takes a ResourceClaim away.
func (s *State) DeleteResourceClaim(namespace, name string) {
	delete(s.devices.claims, namespace+"/"+name)
	s.devices.stale = true
	s.sink.DeleteDeviceClaim(namespace, name)
}

// SetDeviceClass takes a DeviceClass.
func (s *State) SetDeviceClass(x *resourcev1.DeviceClass) {
	out := NewDeviceClass(x)
	s.devices.classes[x.Name], s.devices.stale = out, true
	s.sink.SetDeviceClass(out)
}

// DeleteDeviceClass takes a DeviceClass away.
func (s *State) DeleteDeviceClass(name string) {
	delete(s.devices.classes, name)
	s.devices.stale = true
	s.sink.DeleteDeviceClass(name)
}

// evaluateSelectors hands on what the selectors in use say of all devices that exist or that instance types will have, if that may have changed.
func (s *State) evaluateSelectors() {
	d := &s.devices
	fresh := d.retain(s.catalogs())
	if !d.stale && !fresh {
		return
	}
	d.stale = false
	d.look()
	used, out := map[string]*compiled{}, map[string]*cluster.DeviceSelector{}
	for _, text := range d.expressions() {
		c := d.compiled[text]
		if c == nil {
			options := dracel.Options{DisableCostEstimation: true}
			compiler := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
			c = &compiled{result: compiler.CompileCELExpression(text, options), answers: map[string]bool{}}
		}
		used[text], out[text] = c, c.evaluate(d.known)
	}
	d.compiled = used
	s.sink.SetDeviceSelectors(out)
}

func (s *State) catalogs() map[*catalog.Catalog]bool {
	out := map[*catalog.Catalog]bool{}
	for _, p := range s.applied {
		if p.with.catalog != nil {
			out[p.with.catalog] = true
		}
	}
	return out
}

// retain keeps the templates of these catalogues and reads those of new ones; it reports whether that changed anything.
func (d *devices) retain(catalogs map[*catalog.Catalog]bool) bool {
	changed := false
	for c, list := range d.templates {
		if !catalogs[c] {
			delete(d.templates, c)
			changed = changed || len(list) > 0
		}
	}
	for c := range catalogs {
		if _, ok := d.templates[c]; ok {
			continue
		}
		list := map[string]dracel.Device{}
		for _, t := range c.Types() {
			for _, p := range t.Devices {
				for i := range p.Devices {
					list[p.Devices[i].Key(p.Driver)] = input(p.Driver, &p.Devices[i])
				}
			}
		}
		d.templates[c] = list
		changed = changed || len(list) > 0
	}
	return changed
}

// look lists all devices anew.
func (d *devices) look() {
	known := map[string]dracel.Device{}
	for _, list := range d.templates {
		maps.Copy(known, list)
	}
	for _, s := range d.slices {
		for i := range s.Devices {
			x := &s.Devices[i].Device
			key := x.Key(s.Driver)
			if have, ok := d.known[key]; ok {
				known[key] = have
			} else if _, ok := known[key]; !ok {
				known[key] = input(s.Driver, x)
			}
		}
	}
	d.known = known
}

// expressions lists the selectors in use, each once.
func (d *devices) expressions() []string {
	seen := map[string]bool{}
	note := func(list []string) {
		for _, text := range list {
			seen[text] = true
		}
	}
	for _, c := range d.classes {
		note(c.Selectors)
	}
	for _, c := range d.claims {
		for _, r := range c.Requests {
			for _, w := range r.Ways {
				note(w.Selectors)
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// evaluate asks about the devices that are new. An expression that fails on a device does not select it.
func (c *compiled) evaluate(known map[string]dracel.Device) *cluster.DeviceSelector {
	out := &cluster.DeviceSelector{Matches: map[string]bool{}}
	if e := c.result.Error; e != nil {
		out.Problem = e.Detail
	}
	answers := make(map[string]bool, len(known))
	for key, device := range known {
		yes, asked := c.answers[key]
		if !asked && out.Problem == "" {
			match, _, err := c.result.DeviceMatches(context.Background(), device)
			yes = match && err == nil
		}
		if answers[key] = yes; yes {
			out.Matches[key] = true
		}
	}
	c.answers = answers
	if c.last == nil || c.last.Problem != out.Problem || !maps.Equal(c.last.Matches, out.Matches) {
		c.last = out
	}
	return c.last
}

// input is a device as expressions see it.
func input(driver string, d *catalog.Device) dracel.Device {
	out := dracel.Device{Driver: driver, AllowMultipleAllocations: &d.Shared, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{},
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{}}
	for name, a := range d.Attributes {
		out.Attributes[resourcev1.QualifiedName(name)] = apiAttribute(a)
	}
	for name, c := range d.Capacity {
		out.Capacity[resourcev1.QualifiedName(name)] = resourcev1.DeviceCapacity{Value: *resource.NewMilliQuantity(c.Value, resource.DecimalSI)}
	}
	return out
}

// apiAttribute is the reverse of attribute.
func apiAttribute(a catalog.Attribute) resourcev1.DeviceAttribute {
	var ints []int64
	var bools []bool
	for _, v := range a.Values {
		switch a.Kind {
		case "int":
			n, _ := strconv.ParseInt(v, 10, 64)
			ints = append(ints, n)
		case "bool":
			bools = append(bools, v == "true")
		}
	}
	switch {
	case a.List:
		out := resourcev1.DeviceAttribute{IntValues: ints, BoolValues: bools}
		switch a.Kind {
		case "string":
			out.StringValues = a.Values
		case "version":
			out.VersionValues = a.Values
		}
		return out
	case len(ints) == 1:
		return resourcev1.DeviceAttribute{IntValue: &ints[0]}
	case len(bools) == 1:
		return resourcev1.DeviceAttribute{BoolValue: &bools[0]}
	case len(a.Values) == 0:
		return resourcev1.DeviceAttribute{}
	case a.Kind == "version":
		return resourcev1.DeviceAttribute{VersionValue: &a.Values[0]}
	}
	return resourcev1.DeviceAttribute{StringValue: &a.Values[0]}
}
