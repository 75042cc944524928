package device

import (
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
)

// concerns reports whether the match is about a request, named as in results.
func concerns(m cluster.DeviceMatch, request string) bool {
	if len(m.Requests) == 0 || slices.Contains(m.Requests, request) {
		return true
	}
	name, _, sub := strings.Cut(request, "/")
	return sub && slices.Contains(m.Requests, name)
}

// alike reports whether two devices have the same value of an attribute, lists in any order, or are bound to get one; a value and a binding are
// never compared.
func alike(a, b *catalog.Device, attribute string) bool {
	x, hasX := a.Attributes[attribute]
	y, hasY := b.Attributes[attribute]
	if hasX || hasY {
		return hasX && hasY && x.Kind == y.Kind && x.List == y.List && slices.Equal(slices.Sorted(slices.Values(x.Values)), slices.Sorted(slices.Values(y.Values)))
	}
	p, hasP := a.Bindings[attribute]
	q, hasQ := b.Bindings[attribute]
	return hasP && hasQ && p == q
}

// share returns what a request takes of a driver's device: of one that is not shared all, and nil; ok is false if the device cannot give that
// much. A name without domain is the driver's.
func share(d *catalog.Device, driver string, want map[string]int64) (consumed map[string]int64, ok bool) {
	full := make(map[string]int64, len(want))
	for name, n := range want {
		if !strings.Contains(name, "/") {
			name = driver + "/" + name
		}
		if _, has := d.Capacity[name]; !has {
			return nil, false
		}
		full[name] = n
	}
	for name, c := range d.Capacity {
		n, asked := full[name]
		if !asked && !d.Shared {
			continue
		}
		if n, ok = portion(c, n, asked); !ok || n > c.Value {
			return nil, false
		}
		if d.Shared {
			if consumed == nil {
				consumed = map[string]int64{}
			}
			consumed[name] = n
		}
	}
	return consumed, true
}

// portion rounds a request up to what the policy gives out.
func portion(c catalog.DeviceCapacity, n int64, asked bool) (int64, bool) {
	p := c.Policy
	switch {
	case p == nil && !asked:
		return c.Value, true
	case p == nil:
		return n, true
	case !asked && p.Default != nil:
		return *p.Default, true
	case !asked:
		return c.Value, true
	case len(p.Valid) > 0:
		i := slices.IndexFunc(p.Valid, func(v int64) bool { return v >= n })
		if i < 0 {
			return 0, false
		}
		return p.Valid[i], true
	case p.Ranged:
		n = max(n, p.Min)
		if p.Step != nil && *p.Step > 0 {
			n = p.Min + (n-p.Min+*p.Step-1) / *p.Step * *p.Step
		}
		return n, p.Max == nil || n <= *p.Max
	}
	return n, true
}

// available reports whether the device, its shares and the counters of its pool have enough left.
func (s *search) available(x *candidate, consumed map[string]int64) bool {
	layers := s.layers(x)
	d, times := x.id(), 0
	for _, u := range layers {
		times += u[d].times
	}
	if times > 0 {
		if !x.Shared {
			return false
		}
		for name, n := range consumed {
			for _, u := range layers {
				n += u[d].consumed[name]
			}
			if n > x.Capacity[name].Value {
				return false
			}
		}
		return true // the device has what it takes from the counters
	}
	for _, c := range x.Consumes {
		for name, n := range c.Values {
			if n+s.counted(x, layers, c.Set, name) > x.pool.counters[c.Set][name] {
				return false
			}
		}
	}
	return true
}

// layers are the usages that count for a device. What the cluster has given away is of devices that exist.
func (s *search) layers(x *candidate) []Usage {
	out := append(slices.Clone(s.site.Used), s.own)
	if !x.template {
		out = append(out, s.used)
	}
	return out
}

// counted is what the devices in use of x's pool take of a counter.
func (s *search) counted(x *candidate, layers []Usage, set, name string) int64 {
	total := int64(0)
	for _, d := range x.pool.devices {
		key := x.id()
		key.device = d.Name
		if !slices.ContainsFunc(layers, func(u Usage) bool { return u[key].times > 0 }) {
			continue
		}
		for _, c := range d.Consumes {
			if c.Set == set {
				total += c.Values[name]
			}
		}
	}
	return total
}
