package fit

import (
	"strings"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/device"
	"github.com/karp-sh/karp/pkg/reason"
)

// findDevices prepares what pods of the batch may ask of devices; there is nothing to do if none of them does (rules 22).
func (m *Model) findDevices() {
	if m.Snapshot.Settings.IgnoreDRA {
		return
	}
	for _, g := range m.eligible {
		for _, p := range g.Pods {
			if len(p.DeviceClaims) > 0 {
				m.Devices = m.inventory()
				return
			}
		}
	}
}

func (m *Model) inventory() *device.Inventory {
	ready := map[string]bool{}
	for _, t := range m.Snapshot.Targets() {
		if t.Node != nil && t.Initialized {
			ready[t.Node.Name] = true
		}
	}
	return device.NewInventory(&m.Snapshot.Devices, func(node string) bool { return ready[node] }, func(uid string) bool { return m.inBatch[uid] })
}

// claimsOf tells pods apart by the device claims that they use.
func claimsOf(p *cluster.Pod) string {
	if len(p.DeviceClaims) == 0 {
		return ""
	}
	var b strings.Builder
	for _, c := range p.DeviceClaims {
		b.WriteString(c.Name + "/" + c.Claim + ",")
	}
	return b.String()
}

// refuse finds out whether no place at all will do for the pods of a group.
func (m *Model) refuse(g *Group) {
	switch {
	case len(g.Shape.ResourceClaims) == 0:
	case m.Snapshot.Settings.IgnoreDRA:
		g.Refused, g.Detail = reason.DRANotSupported, strings.Join(g.Shape.ResourceClaims, ",")
	case len(g.Pods[0].DeviceClaims) > 0:
		g.Devices = m.Devices.Resolve(g.Shape.Namespace, g.Pods[0].DeviceClaims)
		if g.Devices.Problem != "" {
			g.Refused, g.Detail = reason.InvalidDeviceClaim, g.Devices.Problem
		}
	}
}

// Sites are what a target is for a search of devices: one for a Node; for what has not reported its devices yet, one for each instance type that it
// can be, and all of them have to serve a pod.
func (m *Model) Sites(t *Target) []device.Site {
	base := device.Site{Satisfies: func(rs constraint.Requirements) bool { _, ok := matchTarget(t.Target, rs); return ok }}
	if t.Node != nil {
		base.Node = t.Node.Name
	}
	pool := m.Snapshot.Pool(t.Pool)
	if t.Initialized || pool == nil || pool.Catalog == nil {
		return []device.Site{base}
	}
	var out []device.Site
	types := pool.Catalog.Types()
	add := func(i int) { out = append(out, TypeSite(base, t.Pool, &types[i])) }
	if t.Pending && t.Offers != nil && t.Catalog == pool.Catalog {
		for i := range pool.Catalog.ByPrice(t.Offers) {
			add(i)
		}
	} else {
		for i := range types {
			if types[i].Name == t.Labels[constraint.InstanceTypeKey] {
				add(i)
			}
		}
	}
	if len(out) == 0 {
		return []device.Site{base}
	}
	return out
}

// TypeSite is a site with the devices that nodes of an instance type will have.
func TypeSite(base device.Site, pool string, t *catalog.InstanceType) device.Site {
	base.Type, base.Template = pool+"/"+t.Name, t.Devices
	return base
}
