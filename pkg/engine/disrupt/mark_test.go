package disrupt_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/disrupt"
	"github.com/karp-sh/karp/pkg/engine/scenario"
)

func now() time.Time { return scenario.Epoch() }

func describe(m disrupt.Marking) string {
	out := "removed"
	switch {
	case m.Leave:
		return "left"
	case m.True:
		out = "true"
	}
	if !m.Again.IsZero() {
		out += fmt.Sprintf(", again in %s", m.Again.Sub(now()))
	}
	return out
}

func TestConsolidatable(t *testing.T) {
	claim := func(edit ...func(*cluster.Claim)) *cluster.Claim {
		c := &cluster.Claim{Name: "c", Pool: "p", Initialized: true, InitializedAt: now().Add(-time.Hour)}
		for _, e := range edit {
			e(c)
		}
		return c
	}
	pool := func(d cluster.Disruption) *cluster.Pool { return &cluster.Pool{Name: "p", Disruption: d} }
	replicas := int64(1)
	for _, tt := range []struct {
		id    string
		claim *cluster.Claim
		pool  *cluster.Pool
		want  string
	}{
		{"D-093", claim(), pool(cluster.Disruption{}), "true"},
		{"D-094", claim(func(c *cluster.Claim) { c.InitializedAt = now().Add(-9*time.Minute - 59*time.Second) }), pool(cluster.Disruption{After: 10 * time.Minute}), "removed, again in 1s"},
		{"D-094 a second later", claim(func(c *cluster.Claim) { c.InitializedAt = now().Add(-10 * time.Minute) }), pool(cluster.Disruption{After: 10 * time.Minute}), "true"},
		{"D-095", claim(func(c *cluster.Claim) { c.LastPodEvent = now().Add(-time.Minute) }), pool(cluster.Disruption{After: 5 * time.Minute}), "removed, again in 4m0s"},
		{"D-096", claim(), pool(cluster.Disruption{Never: true}), "removed"},
		{"D-097", claim(func(c *cluster.Claim) { c.Initialized = false }), pool(cluster.Disruption{}), "removed"},
		{"D-098", claim(), &cluster.Pool{Name: "p", Replicas: &replicas}, "left"},
		{"pool is gone", claim(), nil, "left"},
		{"deleting", claim(func(c *cluster.Claim) { c.Deleted = now() }), pool(cluster.Disruption{}), "left"},
	} {
		if diff := cmp.Diff(tt.want, describe(disrupt.Consolidatable(tt.claim, tt.pool, now()))); diff != "" {
			t.Errorf("%s: claim %+v (-want +got):\n%s", tt.id, tt.claim, diff)
		}
	}
}

const (
	hash    = "karpenter.sh/nodepool-hash"
	version = "karpenter.sh/nodepool-hash-version"
	osKey   = constraint.OSKey
)

func TestDrifted(t *testing.T) {
	types := catalog.New(scenario.F())
	base := func() (*cluster.Claim, *cluster.Pool) {
		return &cluster.Claim{Name: "c", Pool: "p", Launched: true, Created: now().Add(-2 * time.Hour), Annotations: map[string]string{hash: "1", version: "karp1"},
				Labels: map[string]string{osKey: "linux", "n": "5", constraint.InstanceTypeKey: "f.x", constraint.ZoneKey: "z1", constraint.CapacityTypeKey: catalog.OnDemand}},
			&cluster.Pool{Name: "p", Hash: "1", HashVersion: "karp1", Catalog: types}
	}
	expr := func(key string, op constraint.Operator, vs ...string) constraint.Expr {
		return constraint.Expr{Key: key, Operator: op, Values: vs}
	}
	type edit = func(c *cluster.Claim, p *cluster.Pool, f *disrupt.DriftFacts)
	requires := func(e ...constraint.Expr) edit {
		return func(_ *cluster.Claim, p *cluster.Pool, _ *disrupt.DriftFacts) { p.Requirements = e }
	}
	provider := func(why string, err error) edit {
		return func(_ *cluster.Claim, _ *cluster.Pool, f *disrupt.DriftFacts) {
			f.Provider = func() (string, error) { return why, err }
		}
	}
	label := func(key, value string) edit {
		return func(c *cluster.Claim, _ *cluster.Pool, _ *disrupt.DriftFacts) { c.Labels[key] = value }
	}
	all := func(es ...edit) edit {
		return func(c *cluster.Claim, p *cluster.Pool, f *disrupt.DriftFacts) {
			for _, e := range es {
				e(c, p, f)
			}
		}
	}
	only := func(ct string) edit {
		return func(_ *cluster.Claim, p *cluster.Pool, _ *disrupt.DriftFacts) {
			list := scenario.F()
			for i := range list {
				for j := range list[i].Offerings {
					list[i].Offerings[j].CapacityType = ct
				}
			}
			p.Catalog = catalog.New(list)
		}
	}
	changed := func(_ *cluster.Claim, p *cluster.Pool, _ *disrupt.DriftFacts) { p.Hash = "2" }
	aged := func(d time.Duration) edit {
		return func(c *cluster.Claim, _ *cluster.Pool, _ *disrupt.DriftFacts) { c.Created = now().Add(-d) }
	}
	for _, tt := range []struct {
		id   string
		edit edit
		want string
	}{
		{"as launched", nil, "none"},
		{"D-211", changed, "NodePoolDrifted"},
		{"D-215 no hash on the claim", all(changed, func(c *cluster.Claim, _ *cluster.Pool, _ *disrupt.DriftFacts) { delete(c.Annotations, hash) }), "none"},
		{"D-215 no hash on the pool", func(_ *cluster.Claim, p *cluster.Pool, _ *disrupt.DriftFacts) { p.Hash = "" }, "none"},
		{"D-215 no version on either", all(changed, func(c *cluster.Claim, p *cluster.Pool, _ *disrupt.DriftFacts) {
			delete(c.Annotations, version)
			p.HashVersion = ""
		}), "none"},
		{"D-215 versions differ", all(changed, func(_ *cluster.Claim, p *cluster.Pool, _ *disrupt.DriftFacts) { p.HashVersion = "v3" }), "none"},
		{"D-216", requires(expr(osKey, constraint.In, "windows")), "RequirementsDrifted"},
		{"D-217", requires(expr(osKey, constraint.In, "linux", "windows")), "none"},
		{"D-217 exists", requires(expr(osKey, constraint.Exists)), "none"},
		{"D-218", requires(expr(osKey, constraint.DoesNotExist)), "RequirementsDrifted"},
		{"D-219 In", requires(expr("x", constraint.In, "1")), "RequirementsDrifted"},
		{"D-219 Exists", requires(expr("x", constraint.Exists)), "RequirementsDrifted"},
		{"D-219 NotIn", requires(expr("x", constraint.NotIn, "1")), "none"},
		{"D-219 DoesNotExist", requires(expr("x", constraint.DoesNotExist)), "none"},
		{"D-220 Gt 2", requires(expr("n", constraint.Gt, "2")), "none"},
		{"D-220 Gt 10", requires(expr("n", constraint.Gt, "10")), "RequirementsDrifted"},
		{"D-220 Lt 1", all(label("n", "2"), requires(expr("n", constraint.Lt, "1"))), "RequirementsDrifted"},
		{"D-221", requires(constraint.Expr{Key: osKey, Operator: constraint.In, Values: []string{"linux"}, MinValues: 5}), "none"},
		{"D-222", all(changed, provider("AMIDrift", nil)), "NodePoolDrifted"},
		{"D-223 young", all(label(constraint.InstanceTypeKey, "f.zz"), aged(59*time.Minute)), "none"},
		{"D-223", all(label(constraint.InstanceTypeKey, "f.zz"), aged(time.Hour+time.Second)), "InstanceTypeNotFound"},
		{"D-224", label(constraint.ZoneKey, "z9"), "InstanceTypeNotFound"},
		{"D-226 od", all(label(constraint.CapacityTypeKey, catalog.Reserved), only(catalog.OnDemand)), "none"},
		{"D-226 reserved", all(label(constraint.CapacityTypeKey, catalog.Reserved), only(catalog.Reserved)), "none"},
		{"D-226 spot", all(label(constraint.CapacityTypeKey, catalog.Reserved), only(catalog.Spot)), "InstanceTypeNotFound"},
		{"D-227", all(label(constraint.InstanceTypeKey, "f.zz"), func(_ *cluster.Claim, _ *cluster.Pool, f *disrupt.DriftFacts) {
			f.TypeChecked = now().Add(-10 * time.Minute)
		}), "none"},
		{"D-227 after 30 minutes", all(label(constraint.InstanceTypeKey, "f.zz"), func(_ *cluster.Claim, _ *cluster.Pool, f *disrupt.DriftFacts) {
			f.TypeChecked = now().Add(-30 * time.Minute)
		}), "InstanceTypeNotFound"},
		{"D-228", func(c *cluster.Claim, _ *cluster.Pool, _ *disrupt.DriftFacts) { c.Launched, c.Drifted = false, true }, "none"},
		{"D-230", provider("", nil), "none"},
		{"D-231", provider("SubnetDrift", nil), "SubnetDrift"},
		{"D-232", provider("", errors.New("throttled")), "left: throttled"},
		{"deleting", func(c *cluster.Claim, _ *cluster.Pool, _ *disrupt.DriftFacts) { c.Deleted = now() }, "left"},
	} {
		c, p := base()
		var f disrupt.DriftFacts
		if tt.edit != nil {
			tt.edit(c, p, &f)
		}
		d, err := disrupt.Drifted(c, p, f, now())
		got := "none"
		switch {
		case err != nil:
			got = "left: " + err.Error()
		case d.Leave:
			got = "left"
		case d.True:
			got = d.Reason
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s; claim %+v, pool requirements %v", tt.id, got, tt.want, c.Labels, p.Requirements)
		}
	}
	c, _ := base() // D-229
	if d, err := disrupt.Drifted(c, nil, disrupt.DriftFacts{}, now()); err != nil || !d.Leave {
		t.Errorf("D-229: %+v %v, want the condition left as it is", d, err)
	}
	c, p := base() // D-225, D-227
	list := scenario.F()
	for i := range list {
		for j := range list[i].Offerings {
			list[i].Offerings[j].Available = false
		}
	}
	p.Catalog = catalog.New(list)
	if d, err := disrupt.Drifted(c, p, disrupt.DriftFacts{}, now()); err != nil || d.True || !d.TypeChecked || d.Again.Sub(now()) != 5*time.Minute {
		t.Errorf("D-225: %+v %v, want no drift, a passed check, again in 5m", d, err)
	}
}

// D-058
func TestEvictionCost(t *testing.T) {
	for _, tt := range []struct {
		cost     float64
		priority int32
		want     float64
	}{{0, 0, 1}, {134217728, 0, 2}, {-2147483647, 0, -10}, {0, 33554432, 2}, {0, 1000000000, 10}} {
		p := &cluster.Pod{DeletionCost: tt.cost, Shape: &cluster.Shape{Priority: tt.priority}}
		if got := disrupt.EvictionCost(p); got != tt.want {
			t.Errorf("deletion cost %v, priority %d: %v, want %v", tt.cost, tt.priority, got, tt.want)
		}
	}
}

func TestProtect(t *testing.T) {
	for _, tt := range []struct {
		value   string
		started time.Duration
		want    disrupt.Protection
	}{
		{"", 0, disrupt.Protection{}},
		{"true", time.Hour, disrupt.Protection{Active: true}},
		{"30m", 29*time.Minute + 59*time.Second, disrupt.Protection{Active: true, Until: now().Add(time.Second)}},
		{"30m", 30 * time.Minute, disrupt.Protection{Lapsed: true, Until: now()}},
		{"1.5h", -1, disrupt.Protection{Active: true}},
		{"0s", time.Hour, disrupt.Protection{Invalid: true}},
		{"-5m", time.Hour, disrupt.Protection{Invalid: true}},
		{"1d", time.Hour, disrupt.Protection{Invalid: true}},
		{"false", time.Hour, disrupt.Protection{Invalid: true}},
	} {
		p := &cluster.Pod{DoNotDisrupt: tt.value, Phase: "Running"}
		if tt.started >= 0 {
			p.Started = now().Add(-tt.started)
		}
		if diff := cmp.Diff(tt.want, disrupt.Protect(p, now())); diff != "" {
			t.Errorf("%q, started %s ago (-want +got):\n%s", tt.value, tt.started, diff)
		}
	}
}
