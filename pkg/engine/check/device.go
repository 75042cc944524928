package check

import (
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// unit is one device that a request wants; slot one device that there is, with the node or type that it is part of.
type unit struct {
	claim string
	way   cluster.DeviceWay
}

type slot struct {
	driver string
	device *catalog.Device
	reach  cluster.Reach
}

// devices checks that the claims of the pods at a spot can be served by different devices, whatever type the claim is launched as: a
// matching of what is wanted exactly with what is there. Devices that are shared, All, and several ways to serve a request are not looked at.
func (c *checker) devices(x *spot) {
	units := c.wanted(x)
	if len(units) == 0 {
		return
	}
	if x.target != nil {
		if x.target.Initialized && !c.served(units, c.published(x)) {
			c.failf("%s: its devices do not suffice for the claims of its pods", x.name)
		}
		return
	}
	pool := c.pools[x.claim.Pool]
	if pool == nil || pool.Catalog == nil {
		return
	}
	types := pool.Catalog.Types()
	for i := range types {
		if slices.Contains(x.claim.Types, types[i].Name) && !c.served(units, append(c.published(x), template(&types[i])...)) {
			c.failf("%s: the devices of %s do not suffice for the claims of its pods", x.name, types[i].Name)
		}
	}
}

// wanted lists the devices of claims that have none yet, each claim once.
func (c *checker) wanted(x *spot) []unit {
	var out []unit
	seen := map[string]bool{}
	for _, pod := range x.fresh {
		for _, ref := range pod.DeviceClaims {
			key := pod.Namespace + "/" + ref.Claim
			i := slices.IndexFunc(c.s.Devices.Claims, func(d *cluster.DeviceClaim) bool { return d.Key() == key })
			if i < 0 {
				c.failf("%s: pod %s is placed without its claim %s", x.name, pod.UID, key)
				continue
			}
			d := c.s.Devices.Claims[i]
			if seen[key] || d.Bound {
				continue
			}
			seen[key] = true
			for _, r := range d.Requests {
				if w := r.Ways[0]; len(r.Ways) == 1 && !w.All && !w.Admin && len(w.Capacity) == 0 {
					for range w.Count {
						out = append(out, unit{key, w})
					}
				}
			}
		}
	}
	return out
}

// published lists devices that exist and can be used at the spot.
func (c *checker) published(x *spot) []slot {
	var out []slot
	for _, s := range c.s.Devices.Slices {
		for i := range s.Devices {
			d := &s.Devices[i]
			if c.reaches(x, d.Reach) && !c.inUse(s, d.Name) {
				out = append(out, slot{s.Driver, &d.Device, d.Reach})
			}
		}
	}
	return out
}

func (c *checker) reaches(x *spot, r cluster.Reach) bool {
	if r.Node != "" {
		return x.target != nil && x.target.Node != nil && x.target.Node.Name == r.Node
	}
	return len(r.Terms) == 0 || slices.ContainsFunc(r.Terms, func(t cluster.ReachTerm) bool {
		if x.target == nil {
			_, ok := x.reqs.Implies(constraint.Parse(t.Exprs))
			return t.Nodes == nil && ok
		}
		_, ok := constraint.Parse(t.Exprs).Match(x.target.Labels)
		return ok && (t.Nodes == nil || x.target.Node != nil && slices.Contains(t.Nodes, x.target.Node.Name))
	})
}

func (c *checker) inUse(s *cluster.DeviceSlice, name string) bool {
	return slices.ContainsFunc(c.s.Devices.Claims, func(d *cluster.DeviceClaim) bool {
		staying := slices.ContainsFunc(d.ReservedFor, func(uid string) bool { return c.placed[uid] == nil })
		return (staying || len(d.ReservedFor) == 0 && !d.Deleting) && slices.ContainsFunc(d.Allocated, func(a cluster.AllocatedDevice) bool {
			return a.Driver == s.Driver && a.Pool == s.Pool && a.Device == name && !a.Admin
		})
	})
}

func template(t *catalog.InstanceType) []slot {
	var out []slot
	for _, p := range t.Devices {
		for i := range p.Devices {
			out = append(out, slot{driver: p.Driver, device: &p.Devices[i]})
		}
	}
	return out
}

// served finds a matching by augmenting paths.
func (c *checker) served(units []unit, slots []slot) bool {
	if slices.ContainsFunc(slots, func(s slot) bool { return s.device.Shared }) {
		return true
	}
	by := map[int]int{}
	for i := range units {
		if !c.augment(units, slots, i, by, map[int]bool{}) {
			return false
		}
	}
	return true
}

func (c *checker) augment(units []unit, slots []slot, i int, by map[int]int, tried map[int]bool) bool {
	for j := range slots {
		if tried[j] || !c.suits(units[i].way, slots[j]) {
			continue
		}
		tried[j] = true
		if other, taken := by[j]; !taken || c.augment(units, slots, other, by, tried) {
			by[j] = i
			return true
		}
	}
	return false
}

func (c *checker) suits(w cluster.DeviceWay, s slot) bool {
	selectors := w.Selectors
	for _, k := range c.s.Devices.Classes {
		if k.Name == w.Class {
			selectors = slices.Concat(selectors, k.Selectors)
		}
	}
	return !slices.ContainsFunc(selectors, func(text string) bool {
		x := c.s.Devices.Selectors[text]
		return x == nil || !x.Matches[s.device.Key(s.driver)]
	})
}
