package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// This file adds what dynamic resource allocation needs (the specification's fixture DRA is "setting dra" and "catalog DRA"):
//
//	type d.large: cpu 8; mem 32Gi; price 1 0.4; devices 2 model=A cap mem=16Gi shared uses card/mem=40Gi bind rack=x; counter card/mem=80Gi
//	slice s: node n; devices 1 model=A          also: driver D; pool P; gen 2; count 3; owner n; at zone In z-b
//	class gpu: driver=gpu.example.com            a selector that compares; one that begins with ! is no good
//	claim c [x3]: request r 2 model=B            also: class C, all, admin, cap mem=4Gi, or NAME ... for another way; match model;
//	                                             allocated DEVICE [pool P] [driver D]; at host In n1; reserved UID; problem P; deleting
//	pod p: device r c                            - in place of the claim's name: an entry without claim, ? one that is not made yet, * the pod's number

// gpuDriver is the driver of all devices that do not name another.
const gpuDriver = "gpu.example.com"

// DRA is the catalogue of the fixture for dynamic resource allocation.
func DRA() []catalog.InstanceType {
	var out []catalog.InstanceType
	for i, x := range []struct {
		name       string
		cpu, gib   int64
		devices    int
		model      string
		onDemand   float64
		spotPerTen float64
	}{{"d1.large", 8, 32, 1, "A", 1, 4}, {"d2.large", 8, 32, 2, "A", 2, 8}, {"d4.xlarge", 16, 64, 4, "B", 4, 16}} {
		t := typeSpec{name: x.name, arch: "amd64", fam: "d", gen: strconv.Itoa(i + 1), od: x.onDemand, spot: x.spotPerTen / 10,
			extra: units.List{units.CPU: x.cpu * 1000, units.Memory: x.gib << 30, units.Pods: 40}}.build()
		p := catalog.DevicePool{Driver: gpuDriver, Name: "node"}
		for n := range x.devices {
			p.Devices = append(p.Devices, catalog.Device{Name: "gpu-" + strconv.Itoa(n), Attributes: map[string]catalog.Attribute{qualified("model"): text(x.model)}})
		}
		t.Devices = []catalog.DevicePool{p}
		out = append(out, t)
	}
	return out
}

func qualified(name string) string { return gpuDriver + "/" + name }

func text(v string) catalog.Attribute { return catalog.Attribute{Kind: "string", Values: []string{v}} }

// thousandths reads an amount of a device.
func thousandths(s string) (int64, error) {
	n, err := amount("", s)
	return n * 1000, err
}

// devices reads "N attr=value ...", or a name in place of the number.
func devices(f []string, from int) ([]catalog.Device, error) {
	d := catalog.Device{Attributes: map[string]catalog.Attribute{}}
	for i := 1; i < len(f); i++ {
		arg := ""
		if i+1 < len(f) {
			arg = f[i+1]
		}
		k, v, _ := strings.Cut(arg, "=")
		switch f[i] {
		case "shared":
			d.Shared = true
			continue
		case "cap":
			n, err := thousandths(v)
			if err != nil {
				return nil, err
			}
			if d.Capacity == nil {
				d.Capacity = map[string]catalog.DeviceCapacity{}
			}
			d.Capacity[qualified(k)] = catalog.DeviceCapacity{Value: n}
		case "uses":
			n, err := thousandths(v)
			if err != nil {
				return nil, err
			}
			set, name, _ := strings.Cut(k, "/")
			d.Consumes = append(d.Consumes, catalog.CounterUse{Set: set, Values: map[string]int64{name: n}})
		case "bind":
			d.Bindings = map[string]string{qualified(k): v}
		case "taint":
			d.Taints = append(d.Taints, taint(arg))
		default:
			k, v, _ := strings.Cut(f[i], "=")
			d.Attributes[qualified(k)] = text(v)
			continue
		}
		i++
	}
	n, err := strconv.Atoi(f[0])
	if err != nil {
		d.Name = f[0]
		return []catalog.Device{d}, nil
	}
	var out []catalog.Device
	for i := range n {
		d.Name = "gpu-" + strconv.Itoa(from+i)
		out = append(out, d)
	}
	return out, nil
}

// counter adds "set/name=amount" to the sets.
func counter(sets []catalog.Counters, s string) ([]catalog.Counters, error) {
	k, v, _ := strings.Cut(s, "=")
	set, name, _ := strings.Cut(k, "/")
	n, err := thousandths(v)
	return append(sets, catalog.Counters{Name: set, Values: map[string]int64{name: n}}), err
}

// slice adds a ResourceSlice.
func (w *World) slice(name string, attrs []attr) error {
	s := &cluster.DeviceSlice{Name: name, Driver: gpuDriver, Pool: name, Generation: 1, Count: 1}
	var reach cluster.Reach
	var list []catalog.Device
	var err error
	for _, a := range attrs {
		switch a.name {
		case "driver":
			s.Driver = a.arg(0)
		case "pool":
			s.Pool = a.arg(0)
		case "gen":
			s.Generation, err = strconv.ParseInt(a.arg(0), 10, 64)
		case "count":
			s.Count, err = strconv.ParseInt(a.arg(0), 10, 64)
		case "node":
			reach.Node = a.arg(0)
		case "owner":
			s.OwnerNode = a.arg(0)
		case "at":
			reach.Terms = reachTerms(a.args)
		case "counter":
			s.Counters, err = counter(s.Counters, a.arg(0))
		case "devices":
			var more []catalog.Device
			more, err = devices(a.args, len(list))
			list = append(list, more...)
		default:
			err = fmt.Errorf("attribute %q does not exist", a.name)
		}
		if err != nil {
			return err
		}
	}
	for _, d := range list {
		s.Devices = append(s.Devices, cluster.PublishedDevice{Device: d, Reach: reach})
	}
	w.slices[name] = s
	w.Builder.SetDeviceSlice(s)
	return nil
}

// reachTerms reads terms; those on the host are about the names of nodes.
func reachTerms(f []string) []cluster.ReachTerm {
	var out []cluster.ReachTerm
	for _, es := range terms(f) {
		t := cluster.ReachTerm{}
		for _, e := range es {
			if e.Key == constraint.HostnameKey {
				t.Nodes = e.Values
			} else {
				t.Exprs = append(t.Exprs, e)
			}
		}
		out = append(out, t)
	}
	return out
}

// class adds a DeviceClass: "class gpu: driver=gpu.example.com; problem P".
func (w *World) class(name string, attrs []attr) {
	c := &cluster.DeviceClass{Name: name}
	for _, a := range attrs {
		if a.name == "problem" {
			c.Problem = a.arg(0)
		} else {
			c.Selectors = append(c.Selectors, a.name)
		}
	}
	w.note(c.Selectors)
	w.Builder.SetDeviceClass(c)
}

// note remembers selectors to evaluate.
func (w *World) note(selectors []string) {
	for _, s := range selectors {
		w.selectors[s] = true
	}
}

// deviceClaim adds a ResourceClaim, or several.
func (w *World) deviceClaim(name string, words []string, attrs []attr) error {
	c := cluster.DeviceClaim{Namespace: "default"}
	for _, a := range attrs {
		switch a.name {
		case "request":
			q, err := w.request(a.args)
			if err != nil {
				return err
			}
			c.Requests = append(c.Requests, q)
		case "match":
			c.Match = append(c.Match, cluster.DeviceMatch{Attribute: qualified(a.arg(0)), Requests: a.args[1:]})
		case "allocated":
			c.Bound = true
			c.Allocated = append(c.Allocated, allocated(a.args))
		case "at":
			c.Reach.Terms = reachTerms(a.args)
		case "reserved":
			c.ReservedFor = append(c.ReservedFor, a.args...)
		case "problem":
			c.Problem = a.arg(0)
		case "deleting":
			c.Deleting = true
		default:
			return fmt.Errorf("attribute %q does not exist", a.name)
		}
	}
	names := []string{name}
	if len(words) > 0 {
		n, err := strconv.Atoi(strings.TrimPrefix(words[0], "x"))
		if err != nil {
			return err
		}
		names = nil
		for i := range n {
			names = append(names, name+"-"+strconv.Itoa(i+1))
		}
	}
	for _, n := range names {
		x := c
		x.Name, x.UID = n, "uid-"+n
		w.Builder.SetDeviceClaim(&x)
	}
	return nil
}

func allocated(f []string) cluster.AllocatedDevice {
	d := cluster.AllocatedDevice{Request: "r", Driver: gpuDriver, Device: f[0]}
	for i := 1; i+1 < len(f); i += 2 {
		switch f[i] {
		case "pool":
			d.Pool = f[i+1]
		case "driver":
			d.Driver = f[i+1]
		}
	}
	return d
}

// request reads "NAME 2 model=B class c all admin cap mem=4Gi", with "or NAME ..." between several ways.
func (w *World) request(f []string) (cluster.DeviceRequest, error) {
	q := cluster.DeviceRequest{Name: f[0]}
	way := cluster.DeviceWay{Class: "gpu", Count: 1}
	for i := 1; i < len(f); i++ {
		arg := ""
		if i+1 < len(f) {
			arg = f[i+1]
		}
		switch f[i] {
		case "all":
			way.All = true
			continue
		case "admin":
			way.Admin = true
			continue
		case "class":
			way.Class = arg
		case "tol":
			way.Tolerations = append(way.Tolerations, toleration([]string{arg}))
		case "cap":
			k, v, _ := strings.Cut(arg, "=")
			n, err := thousandths(v)
			if err != nil {
				return q, err
			}
			way.Capacity = map[string]int64{qualified(k): n}
		case "or":
			if way.Name != "" {
				q.Ways = append(q.Ways, way)
			}
			way = cluster.DeviceWay{Name: arg, Class: "gpu", Count: 1}
		default:
			if n, err := strconv.ParseInt(f[i], 10, 64); err == nil {
				way.Count = n
			} else {
				way.Selectors = append(way.Selectors, f[i])
			}
			continue
		}
		i++
	}
	q.Ways = append(q.Ways, way)
	for _, x := range q.Ways {
		w.note(x.Selectors)
	}
	return q, nil
}

// podDevice reads "device NAME [CLAIM]".
func podDevice(s *cluster.Shape, p *cluster.Pod, a attr) {
	s.ResourceClaims = append(s.ResourceClaims, a.arg(0))
	ref := cluster.DeviceClaimRef{Name: a.arg(0), Claim: a.arg(0)}
	switch a.arg(1) {
	case "":
	case "-":
		return
	case "?":
		ref.Claim = ""
	default:
		ref.Claim = a.arg(1)
	}
	p.DeviceClaims = append(p.DeviceClaims, ref)
}

// numbered puts the pod's number in place of the star.
func numbered(refs []cluster.DeviceClaimRef, n int) []cluster.DeviceClaimRef {
	var out []cluster.DeviceClaimRef
	for _, r := range refs {
		r.Claim = strings.ReplaceAll(r.Claim, "*", strconv.Itoa(n))
		out = append(out, r)
	}
	return out
}

// evaluate compares what selectors name with all devices that exist or that types will have.
func (w *World) evaluate() {
	out := map[string]*cluster.DeviceSelector{}
	for text := range w.selectors {
		x := &cluster.DeviceSelector{Matches: map[string]bool{}}
		if strings.HasPrefix(text, "!") {
			x.Problem = "does not compile"
		}
		for _, s := range w.slices {
			for i := range s.Devices {
				see(x, text, s.Driver, &s.Devices[i].Device)
			}
		}
		for _, t := range w.tuned {
			for i := range t.types {
				for _, p := range t.types[i].Devices {
					for j := range p.Devices {
						see(x, text, p.Driver, &p.Devices[j])
					}
				}
			}
		}
		out[text] = x
	}
	w.Builder.SetDeviceSelectors(out)
}

func see(x *cluster.DeviceSelector, text, driver string, d *catalog.Device) {
	k, v, _ := strings.Cut(text, "=")
	if k == "driver" && v == driver || k != "driver" && len(d.Attributes[qualified(k)].Values) > 0 && d.Attributes[qualified(k)].Values[0] == v {
		x.Matches[d.Key(driver)] = true
	}
}
