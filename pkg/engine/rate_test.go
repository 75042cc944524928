package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/scenario"
)

// TestRate holds S-424: 500 pods of 20 shapes and 400 types are decided about at 100 pods a second or more. It takes some tens of milliseconds; the bound is
// only missed by a mistake in how the work grows, or on a machine a hundred times slower.
func TestRate(t *testing.T) {
	lines := []string{"catalog none:", "type b x400: cpu 16; mem 64Gi; pods 60; price 0.8 0.3", "pool np:"}
	for i := range 20 {
		tie := []string{"", "; tsc zone 1", "; anti host app=" + fmt.Sprint("s", i), "; sel zone=z-a"}[i%4]
		lines = append(lines, fmt.Sprintf("pod s%d x25: app s%d; cpu %dm; mem %dMi%s", i, i, 200+150*i, 256+128*i, tie))
	}
	w := scenario.New()
	if err := w.Apply(strings.Join(lines, "\n")); err != nil {
		t.Fatal(err)
	}
	s := w.Snapshot()
	begun := time.Now()
	p := engine.Decide(s, engine.Policy{})
	took := time.Since(begun)
	placed := len(p.Placements)
	for _, c := range p.Claims {
		placed += len(c.Pods)
	}
	if placed != 500 || len(p.Verdicts) > 0 {
		t.Errorf("%d pods have a place, %d have not", placed, len(p.Verdicts))
	}
	if took > 5*time.Second {
		t.Errorf("500 pods took %v, want at least 100 a second", took)
	}
}
