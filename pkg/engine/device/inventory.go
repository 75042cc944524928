package device

import (
	"cmp"
	"maps"
	"slices"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// Inventory is what the cluster knows of devices, prepared for searches. It caches and so is not safe for concurrent use.
type Inventory struct {
	claims    map[string]*cluster.DeviceClaim
	classes   map[string]*cluster.DeviceClass
	selectors map[string]*cluster.DeviceSelector
	leaving   func(uid string) bool
	pinned    map[string][]*candidate // devices of one node, by its name
	shared    []*candidate            // devices that several nodes reach
	used      Usage
	templates map[string][]*candidate // by catalogue and type
	keys      map[*catalog.Device]string
}

// id names a device that exists, or one of a template.
type id struct {
	driver, pool, device string
	template             bool
}

// pool is the newest generation of what a driver has published under one name, or what it will.
type pool struct {
	driver, name string
	// broken tells that some of it is not known: slices are missing, or what they say does not fit together.
	broken   bool
	devices  []*catalog.Device
	counters map[string]map[string]int64
}

// candidate is a device with where it can be used.
type candidate struct {
	*catalog.Device
	pool     *pool
	reach    cluster.Reach
	template bool
}

func (c *candidate) id() id { return id{c.pool.driver, c.pool.name, c.Name, c.template} }

// NewInventory prepares what a snapshot knows. Slices of Nodes that are not initialized do not count: their drivers may not have published
// everything yet. Leaving tells of the UIDs of pods that are on their way to another node, whose devices become free.
func NewInventory(d *cluster.Devices, initialized func(node string) bool, leaving func(uid string) bool) *Inventory {
	v := &Inventory{claims: map[string]*cluster.DeviceClaim{}, classes: map[string]*cluster.DeviceClass{}, selectors: d.Selectors, leaving: leaving,
		pinned: map[string][]*candidate{}, used: Usage{}, templates: map[string][]*candidate{}, keys: map[*catalog.Device]string{}}
	for _, c := range d.Claims {
		v.claims[c.Key()] = c
		if c.Bound && !v.free(c) {
			for _, r := range c.Allocated {
				if !r.Admin {
					v.used.add(id{r.Driver, r.Pool, r.Device, false}, r.Consumed)
				}
			}
		}
	}
	for _, c := range d.Classes {
		v.classes[c.Name] = c
	}
	v.publish(d.Slices, initialized)
	return v
}

// free tells that an allocation is about to be given back: all its users leave, or it has none and is being deleted (rules 22.3).
func (v *Inventory) free(c *cluster.DeviceClaim) bool {
	if len(c.ReservedFor) == 0 {
		return c.Deleting
	}
	return !slices.ContainsFunc(c.ReservedFor, func(uid string) bool { return !v.leaving(uid) })
}

// publish sorts devices by the nodes that reach them.
func (v *Inventory) publish(slicesOf []*cluster.DeviceSlice, initialized func(string) bool) {
	type key struct{ driver, name string }
	byPool := map[key][]*cluster.DeviceSlice{}
	for _, s := range slicesOf {
		if s.OwnerNode == "" || initialized(s.OwnerNode) {
			byPool[key{s.Driver, s.Pool}] = append(byPool[key{s.Driver, s.Pool}], s)
		}
	}
	order := slices.SortedFunc(maps.Keys(byPool), func(a, b key) int { return cmp.Or(cmp.Compare(a.driver, b.driver), cmp.Compare(a.name, b.name)) })
	for _, k := range order {
		for _, c := range newest(byPool[k]) {
			if c.reach.Node != "" {
				v.pinned[c.reach.Node] = append(v.pinned[c.reach.Node], c)
			} else {
				v.shared = append(v.shared, c)
			}
		}
	}
}

// newest returns the devices of a pool's newest generation.
func newest(list []*cluster.DeviceSlice) []*candidate {
	last := slices.MaxFunc(list, func(a, b *cluster.DeviceSlice) int { return cmp.Compare(a.Generation, b.Generation) }).Generation
	list = slices.DeleteFunc(slices.Clone(list), func(s *cluster.DeviceSlice) bool { return s.Generation != last })
	p := &pool{driver: list[0].Driver, name: list[0].Pool, counters: map[string]map[string]int64{}}
	p.broken = slices.ContainsFunc(list, func(s *cluster.DeviceSlice) bool { return s.Count != int64(len(list)) })
	var out []*candidate
	for _, s := range list {
		p.count(s.Counters)
		for i := range s.Devices {
			d := &s.Devices[i]
			p.devices = append(p.devices, &d.Device)
			out = append(out, &candidate{Device: &d.Device, pool: p, reach: d.Reach})
		}
	}
	p.validate()
	return out
}

func (p *pool) count(list []catalog.Counters) {
	for _, c := range list {
		if p.counters[c.Name] != nil {
			p.broken = true
		}
		p.counters[c.Name] = c.Values
	}
}

// validate finds names that stand for two devices, and counters that do not exist.
func (p *pool) validate() {
	seen := map[string]bool{}
	for _, d := range p.devices {
		p.broken = p.broken || seen[d.Name]
		seen[d.Name] = true
		for _, u := range d.Consumes {
			for name := range u.Values {
				if _, ok := p.counters[u.Set][name]; !ok {
					p.broken = true
				}
			}
		}
	}
}

// template returns the devices that nodes of an instance type will have; key identifies the type.
func (v *Inventory) template(key string, pools []catalog.DevicePool) []*candidate {
	if len(pools) == 0 {
		return nil
	}
	if have, ok := v.templates[key]; ok {
		return have
	}
	var out []*candidate
	for i := range pools {
		p := &pool{driver: pools[i].Driver, name: pools[i].Name, counters: map[string]map[string]int64{}}
		p.count(pools[i].Counters)
		for j := range pools[i].Devices {
			d := &pools[i].Devices[j]
			p.devices = append(p.devices, d)
			out = append(out, &candidate{Device: d, pool: p, template: true})
		}
		p.validate()
	}
	v.templates[key] = out
	return out
}

// Shared reports whether there are devices that several nodes reach.
func (v *Inventory) Shared() bool { return len(v.shared) > 0 }

// selects reports whether all selectors admit the device and the request tolerates its taints.
func (v *Inventory) selects(c *candidate, selectors []string, tolerations []constraint.Toleration) bool {
	for _, t := range c.Taints {
		if t.Effect != "None" && !constraint.Tolerates(tolerations, t) {
			return false
		}
	}
	for _, s := range selectors {
		x := v.selectors[s]
		if x == nil || !x.Matches[v.key(c)] {
			return false
		}
	}
	return true
}

func (v *Inventory) key(c *candidate) string {
	k, ok := v.keys[c.Device]
	if !ok {
		k = c.Key(c.pool.driver)
		v.keys[c.Device] = k
	}
	return k
}

// Usage is what has been taken of devices.
type Usage map[id]use

// use is how often a device was given away, and what was taken of one that is shared.
type use struct {
	times    int
	consumed map[string]int64
}

func (u Usage) add(d id, consumed map[string]int64) {
	x := u[d]
	x.times++
	if len(consumed) > 0 {
		own := maps.Clone(x.consumed)
		if own == nil {
			own = map[string]int64{}
		}
		for k, n := range consumed {
			own[k] += n
		}
		x.consumed = own
	}
	u[d] = x
}

// Take adds the results of a search.
func (u Usage) Take(results []Result) {
	for _, r := range results {
		if !r.Admin {
			u.add(id{r.Driver, r.Pool, r.Device, r.Template}, r.Consumed)
		}
	}
}

// Cover adds what the results take as far as it was not covered before by others that stand for the same claims.
func (u Usage) Cover(alternatives [][]Result) {
	most := Usage{}
	for _, a := range alternatives {
		one := Usage{}
		one.Take(a)
		for d, x := range one {
			have, ok := most[d]
			if !ok {
				most[d] = x
				continue
			}
			own := maps.Clone(have.consumed)
			for k, n := range x.consumed {
				own[k] = max(own[k], n)
			}
			most[d] = use{max(have.times, x.times), own}
		}
	}
	for d, x := range most {
		have := u[d]
		own := maps.Clone(have.consumed)
		for k, n := range x.consumed {
			if own == nil {
				own = map[string]int64{}
			}
			own[k] += n
		}
		u[d] = use{have.times + x.times, own}
	}
}
