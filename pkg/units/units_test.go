package units_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/karp-sh/karp/pkg/units"
)

func drawList(t *rapid.T, name string, low int64) units.List {
	return rapid.MapOfN(rapid.SampledFrom([]string{units.CPU, units.Memory, units.Pods, "nvidia.com/gpu"}), rapid.Int64Range(low, 1000), 0, 4).Draw(t, name)
}

// A vector says the same as its list.
func TestVectorFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, free := drawList(t, "request", 0), drawList(t, "free", 0)
		a := units.NewAxis(request)
		if got, want := a.Vector(request).FitsIn(a.Vector(free)), units.Fits(request, free); got != want {
			t.Fatalf("%v in %v: %v, want %v", request, free, got, want)
		}
	})
}

// Times is the largest number that still fits.
func TestTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, free := drawList(t, "request", 0), drawList(t, "free", 0)
		a := units.NewAxis(request)
		v, f := a.Vector(request), a.Vector(free)
		k := v.Times(f, 50)
		many := func(n int) units.Vector {
			out := make(units.Vector, len(v))
			out.Add(v, int64(n))
			return out
		}
		if !many(k).FitsIn(f) && k > 0 || k < 50 && many(k+1).FitsIn(f) {
			t.Fatalf("%v fits %d times into %v", request, k, free)
		}
	})
}

func TestMoney(t *testing.T) {
	tests := []struct {
		dollars       float64
		decimal, hour string
	}{
		{0.0416, "0.0416", "$0.042/h"}, {0.0416 / 1e7, "0.000000004", "$0.000/h"}, {-1.5, "-1.5", "$-1.500/h"}, {0, "0", "$0.000/h"},
	}
	for _, tt := range tests {
		m := units.FromDollars(tt.dollars)
		if got := [2]string{m.Decimal(), m.PerHour()}; got != [2]string{tt.decimal, tt.hour} {
			t.Errorf("%v dollars: %v, want %v %v", tt.dollars, got, tt.decimal, tt.hour)
		}
	}
}

func TestAxisRoundTrip(t *testing.T) {
	l := units.List{units.CPU: 100, units.Memory: 5}
	a := units.NewAxis(l, units.List{"x": 0})
	if diff := cmp.Diff(l, a.List(a.Vector(l))); diff != "" {
		t.Errorf("list through vector (-want +got):\n%s", diff)
	}
}
