package device_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/device"
)

const driver = "gpu.example.com"

// gpu is a device of a model.
func gpu(name, model string) catalog.Device {
	return catalog.Device{Name: name, Attributes: map[string]catalog.Attribute{driver + "/model": {Kind: "string", Values: []string{model}}}}
}

// node is the pool of devices of an instance type.
func node(ds ...catalog.Device) []catalog.DevicePool {
	return []catalog.DevicePool{{Driver: driver, Name: "node", Devices: ds}}
}

// inventory knows class gpu, which selects every device, and the selectors "model=X".
func inventory(template []catalog.DevicePool, claims ...*cluster.DeviceClaim) *device.Inventory {
	d := &cluster.Devices{Claims: claims, Classes: []*cluster.DeviceClass{{Name: "gpu"}}, Selectors: map[string]*cluster.DeviceSelector{}}
	for _, c := range claims {
		for _, r := range c.Requests {
			for _, w := range r.Ways {
				for _, text := range w.Selectors {
					d.Selectors[text] = &cluster.DeviceSelector{Matches: map[string]bool{}}
				}
			}
		}
	}
	for text, s := range d.Selectors {
		for _, p := range template {
			for i := range p.Devices {
				if v := p.Devices[i].Attributes[driver+"/model"].Values; len(v) > 0 && "model="+v[0] == text {
					s.Matches[p.Devices[i].Key(p.Driver)] = true
				}
			}
		}
	}
	return device.NewInventory(d, func(string) bool { return false }, func(string) bool { return false })
}

// claim reads requests such as "r 2 model=A" or "r/big 1 model=B", whose ways follow each other.
func claim(name string, requests ...string) *cluster.DeviceClaim {
	c := &cluster.DeviceClaim{Namespace: "default", Name: name}
	for _, text := range requests {
		f := strings.Fields(text)
		request, way, _ := strings.Cut(f[0], "/")
		n, _ := strconv.ParseInt(f[1], 10, 64)
		w := cluster.DeviceWay{Name: way, Class: "gpu", Count: n, Selectors: f[2:]}
		if last := len(c.Requests) - 1; last >= 0 && c.Requests[last].Name == request {
			c.Requests[last].Ways = append(c.Requests[last].Ways, w)
		} else {
			c.Requests = append(c.Requests, cluster.DeviceRequest{Name: request, Ways: []cluster.DeviceWay{w}})
		}
	}
	return c
}

func render(results []device.Result) string {
	var out []string
	for _, r := range results {
		text := r.Request + "=" + r.Device
		if len(r.Consumed) > 0 {
			text += fmt.Sprint(r.Consumed)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// TestSearch goes through ways to serve claims from the devices of an instance type (rules 22.4). The first rows are S-364.
func TestSearch(t *testing.T) {
	a, b, both := node(gpu("a0", "A")), node(gpu("b0", "B")), node(gpu("a0", "A"), gpu("b0", "B"), gpu("a1", "A"))
	match := func(c *cluster.DeviceClaim, requests ...string) *cluster.DeviceClaim {
		c.Match = []cluster.DeviceMatch{{Attribute: driver + "/model", Requests: requests}}
		return c
	}
	tests := []struct {
		name     string
		template []catalog.DevicePool
		claim    *cluster.DeviceClaim
		want     string
	}{
		{"the second way, if the first has nothing", a, claim("c", "r/big 1 model=B", "r/any 1 model=A"), "r/any=a0"},
		{"the first way, if it has something", both, claim("c", "r/big 1 model=B", "r/any 1 model=A"), "r/big=b0"},
		{"a way that leaves enough for the next request", both, claim("c", "r/many 2 model=A", "r/one 1 model=B", "s 2 model=A"), "r/one=b0 s=a0 s=a1"},
		{"no way", b, claim("c", "r/one 1 model=A", "r/two 2"), ""},
		{"another device, so that a later request has one", both, claim("c", "r 1", "s 2 model=A"), "r=b0 s=a0 s=a1"},
		{"as many as there are", both, claim("c", "r 3"), "r=a0 r=b0 r=a1"},
		{"more than there are", both, claim("c", "r 4"), ""},
		{"alike", both, match(claim("c", "r 2")), "r=a0 r=a1"},
		{"alike in all requests", both, match(claim("c", "r 1 model=B", "s 1")), ""},
		{"alike in one request", both, match(claim("c", "r 1 model=B", "s 2"), "s"), "r=b0 s=a0 s=a1"},
		{"alike in one way", both, match(claim("c", "r/x 3", "r/y 2"), "r/x"), "r/y=a0 r/y=b0"},
		{"alike in all ways", both, match(claim("c", "r/x 3", "r/y 2"), "r"), "r/y=a0 r/y=a1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			budget := 1000
			got, _, _ := inventory(tt.template, tt.claim).Search(device.Site{Type: "t", Template: tt.template}, []*cluster.DeviceClaim{tt.claim}, &budget)
			if diff := cmp.Diff(tt.want, render(got)); diff != "" {
				t.Errorf("devices for %+v of %+v (-want +got):\n%s", tt.claim.Requests, tt.template, diff)
			}
		})
	}
}

// TestPolicies holds how requests for a part of a device are rounded (rules 22.4).
func TestPolicies(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	const mem = driver + "/mem"
	tests := []struct {
		name   string
		policy *catalog.CapacityPolicy
		want   *int64
		got    int64 // 0: refused
	}{
		{"without policy", nil, n(3), 3},
		{"all of it without request", nil, nil, 16},
		{"all of it", nil, n(16), 16},
		{"too much", nil, n(17), 0},
		{"default", &catalog.CapacityPolicy{Default: n(2)}, nil, 2},
		{"default not needed", &catalog.CapacityPolicy{Default: n(2)}, n(5), 5},
		{"next valid value", &catalog.CapacityPolicy{Default: n(2), Valid: []int64{2, 4, 8}}, n(5), 8},
		{"no valid value", &catalog.CapacityPolicy{Default: n(2), Valid: []int64{2, 4, 8}}, n(9), 0},
		{"least", &catalog.CapacityPolicy{Default: n(4), Ranged: true, Min: 4}, n(1), 4},
		{"next step", &catalog.CapacityPolicy{Default: n(4), Ranged: true, Min: 4, Step: n(3)}, n(5), 7},
		{"at a step", &catalog.CapacityPolicy{Default: n(4), Ranged: true, Min: 4, Step: n(3)}, n(7), 7},
		{"beyond the most", &catalog.CapacityPolicy{Default: n(4), Ranged: true, Min: 4, Max: n(6), Step: n(3)}, n(5), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := gpu("a", "A")
			d.Shared, d.Capacity = true, map[string]catalog.DeviceCapacity{mem: {Value: 16, Policy: tt.policy}}
			template, c := node(d), claim("c", "r 1")
			if tt.want != nil {
				c.Requests[0].Ways[0].Capacity = map[string]int64{mem: *tt.want}
			}
			budget := 10
			got, _, ok := inventory(template, c).Search(device.Site{Type: "t", Template: template}, []*cluster.DeviceClaim{c}, &budget)
			if ok != (tt.got > 0) || ok && got[0].Consumed[mem] != tt.got {
				t.Errorf("a request for %v under %+v gets %v, want %d", tt.want, tt.policy, render(got), tt.got)
			}
		})
	}
}

// TestBudget makes sure that a search ends, and that it is the number of steps that ends it.
func TestBudget(t *testing.T) {
	var ds []catalog.Device
	for i := range 32 {
		ds = append(ds, gpu("a"+strconv.Itoa(i), "A"))
	}
	template, c := node(ds...), claim("c", "r 16", "s 17")
	for _, steps := range []int{100, 5000} {
		budget := steps
		if _, _, ok := inventory(template, c).Search(device.Site{Type: "t", Template: template}, []*cluster.DeviceClaim{c}, &budget); ok || budget >= 0 {
			t.Errorf("of %d steps %d are left, found: %v", steps, budget, ok)
		}
	}
}

// TestSiteReaches tells nodes from claims: a Node has to satisfy a term, a claim may still be made to.
func TestSiteReaches(t *testing.T) {
	zone := func(z string) cluster.ReachTerm {
		return cluster.ReachTerm{Exprs: []constraint.Expr{{Key: constraint.ZoneKey, Operator: constraint.In, Values: []string{z}}}}
	}
	in := func(z string) device.Site {
		return device.Site{Node: "n", Satisfies: func(rs constraint.Requirements) bool {
			_, ok := rs.Match(map[string]string{constraint.ZoneKey: z})
			return ok
		}}
	}
	open := device.Site{}
	closed := device.Site{Requirements: constraint.Of(constraint.NewIn(constraint.ZoneKey, "b"))}
	tests := []struct {
		site  device.Site
		reach cluster.Reach
		want  bool
		needs string
	}{
		{in("a"), cluster.Reach{}, true, ""},
		{in("a"), cluster.Reach{Node: "n"}, true, ""},
		{in("a"), cluster.Reach{Node: "m"}, false, ""},
		{in("a"), cluster.Reach{Terms: []cluster.ReachTerm{zone("b")}}, false, ""},
		{in("a"), cluster.Reach{Terms: []cluster.ReachTerm{zone("b"), zone("a")}}, true, constraint.ZoneKey + " In a"},
		{in("a"), cluster.Reach{Terms: []cluster.ReachTerm{{Nodes: []string{"n"}}}}, true, ""},
		{open, cluster.Reach{}, true, ""},
		{open, cluster.Reach{Node: "n"}, false, ""},
		{open, cluster.Reach{Terms: []cluster.ReachTerm{{Nodes: []string{"n"}}}}, false, ""},
		{open, cluster.Reach{Terms: []cluster.ReachTerm{zone("a"), zone("b")}}, true, constraint.ZoneKey + " In a"},
		{closed, cluster.Reach{Terms: []cluster.ReachTerm{zone("a"), zone("b")}}, true, constraint.ZoneKey + " In b"},
		{closed, cluster.Reach{Terms: []cluster.ReachTerm{zone("a")}}, false, ""},
	}
	for _, tt := range tests {
		needs, ok := tt.site.Reaches(tt.reach)
		if ok != tt.want || needs.String() != tt.needs {
			t.Errorf("site %q (%v) reaches %+v: %v, needs %q; want %v, %q", tt.site.Node, tt.site.Requirements, tt.reach, ok, needs, tt.want, tt.needs)
		}
	}
}
