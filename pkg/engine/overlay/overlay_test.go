package overlay_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/overlay"
	"github.com/karp-sh/karp/pkg/units"
)

func TestPrices(t *testing.T) {
	tests := []struct {
		text string
		want string // of a price of 0.10; empty for an error
	}{
		{"-20%", "0.08"}, {"+0.5", "0.6"}, {"-1", "0"}, {"+150%", "0.25"}, {"-100%", "0"}, {"-0.05", "0.05"}, {"+.5", "0.6"},
		{"0.5", ""}, {"", ""}, {"-101%", ""}, {"+x", ""},
	}
	for _, tt := range tests {
		p, err := overlay.Adjusted(tt.text)
		if err != nil != (tt.want == "") {
			t.Errorf("%q: %v", tt.text, err)
		}
		if err == nil && p.Of(units.FromDollars(0.10)).Decimal() != tt.want {
			t.Errorf("%q: %s, want %s", tt.text, p.Of(units.FromDollars(0.10)).Decimal(), tt.want)
		}
	}
	if p, err := overlay.Fixed("0.0416"); err != nil || p.Of(1).Decimal() != "0.0416" {
		t.Errorf("fixed: %v", err)
	}
	if _, err := overlay.Fixed("-1"); err == nil {
		t.Error("a negative price is accepted")
	}
}

// Overlays change what they say and nothing else, and never the types they are given (S-389).
func TestApplyKeepsTheRest(t *testing.T) {
	mine := func() []catalog.InstanceType {
		return []catalog.InstanceType{{
			Name: "a", Requirements: []constraint.Expr{{Key: constraint.InstanceTypeKey, Operator: constraint.In, Values: []string{"a"}}},
			Capacity: units.List{units.CPU: 1000}, Overhead: catalog.Overhead{KubeReserved: units.List{units.CPU: 100}},
			Offerings: []catalog.Offering{
				{Zone: "z", CapacityType: catalog.Spot, Price: 5, Capacity: units.List{units.CPU: 900}},
				{Zone: "z", CapacityType: catalog.OnDemand, Price: 9, Available: true},
			},
			Devices: []catalog.DevicePool{{Driver: "gpu.example.com", Name: "node", Devices: []catalog.Device{{Name: "gpu-0"}}}},
		}, {Name: "b"}}
	}
	price, err := overlay.Fixed("1")
	if err != nil {
		t.Fatal(err)
	}
	e := overlay.Evaluate([]overlay.Overlay{{Name: "o", Price: price, Capacity: units.List{"x": 3},
		Requirements: []constraint.Expr{{Key: constraint.CapacityTypeKey, Operator: constraint.In, Values: []string{catalog.Spot}},
			{Key: constraint.InstanceTypeKey, Operator: constraint.Exists}}}}, nil)
	given := mine()
	// Neither type lists its capacity types: for overlays the key is undefined, and nothing matches.
	if got, changed := e.Apply(overlay.Pool{Name: "p", Types: given}); changed || &got[0] != &given[0] {
		t.Errorf("changed by an overlay that matches nothing: %v", got)
	}
	for i := range given {
		given[i].Requirements = append(given[i].Requirements, constraint.Expr{Key: constraint.CapacityTypeKey, Operator: constraint.In, Values: []string{catalog.OnDemand, catalog.Spot}})
	}
	before := mine()
	before[0].Requirements, before[1].Requirements = given[0].Requirements, given[1].Requirements
	got, changed := e.Apply(overlay.Pool{Name: "p", Types: given})
	if diff := cmp.Diff(before, given); !changed || diff != "" {
		t.Errorf("changed %v; the input (-before +after):\n%s", changed, diff)
	}
	want := before
	want[0].Offerings[0].Price, want[0].Capacity["x"], want[0].PriceOverlay, want[0].CapacityOverlay = units.Dollar, 3, true, true
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A fixed price of named types makes an offering without price one that can be bought; no other overlay does, nor for another reason.
func TestMissingPrice(t *testing.T) {
	named := constraint.Expr{Key: constraint.InstanceTypeKey, Operator: constraint.In, Values: []string{"x9.large"}}
	fixed, err := overlay.Fixed("0.5")
	if err != nil {
		t.Fatal(err)
	}
	more, err := overlay.Adjusted("+0.5")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		overlay overlay.Overlay
		reason  string
		want    bool
	}{
		{"named", overlay.Overlay{Price: fixed, Requirements: []constraint.Expr{named}}, catalog.NoPrice, true},
		{"adjusted", overlay.Overlay{Price: more, Requirements: []constraint.Expr{named}}, catalog.NoPrice, false},
		{"all", overlay.Overlay{Price: fixed}, catalog.NoPrice, false},
		{"sold out", overlay.Overlay{Price: fixed, Requirements: []constraint.Expr{named}}, "InsufficientInstanceCapacity", false},
	}
	for _, tt := range tests {
		pool := overlay.Pool{Name: "p", Types: []catalog.InstanceType{{
			Name: "x9.large", Requirements: []constraint.Expr{named},
			Offerings: []catalog.Offering{{Zone: "z", CapacityType: catalog.OnDemand, PriceUnknown: true, Unavailable: catalog.Unavailability{Reason: tt.reason}}},
		}}}
		e := overlay.Evaluate([]overlay.Overlay{tt.overlay}, []overlay.Pool{pool})
		got, _ := e.Apply(pool)
		if o := got[0].Offerings[0]; o.Available != tt.want || tt.want && (o.Price.Decimal() != "0.5" || o.PriceUnknown) {
			t.Errorf("%s: %+v, want available %v", tt.name, o, tt.want)
		}
	}
}
