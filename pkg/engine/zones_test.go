package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/scenario"
)

// TestEffectiveZones holds S-418, and what makes one zone of several.
func TestEffectiveZones(t *testing.T) {
	tests := []struct{ pod, want string }{
		{"pod p:", "flexible"},
		{"pod p: sel zone=z-a", "z-a"},
		{"pod p: req zone In z-a z-b", "flexible"},
		{"pod p: vol v req zone In z-b", "z-b"},
		{"pod p: sel zone=z-a; vol v req zone In z-b", "none"},
		{"pod p: app web; tsc zone 1 min 9\nbound x on n: app web\nbound y on m: app web\nbound z on o: app web", "none"},
		{"pod p: app web; tsc zone 1; req zone NotIn z-c\nbound x on n: app web", "z-b"},
		{"pod p: app web; tsc zone 1", "flexible"},
		{"pod p: aff zone app=db\nbound x on m: app db", "z-b"},
		{"pod p: aff zone app=db", "none"},
		{"pod p: anti zone app=db; req zone In z-a z-b\nbound x on m: app db", "z-a"},
		{"pod p: vol v req zone In z-a | zone In z-b; anti zone app=db\nbound x on m: app db", "z-a"},
		{"pod p: pref 5 zone In z-a", "flexible"},
	}
	for _, tt := range tests {
		w := scenario.New()
		if err := w.Apply("pool np:\nnode n: zone z-a; full\nnode m: zone z-b; full\nnode o: zone z-c; full\n" + tt.pod); err != nil {
			t.Fatalf("%s: %v", tt.pod, err)
		}
		if diff := cmp.Diff(map[string]int{tt.want: 1}, engine.EffectiveZones(w.Snapshot())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.pod, diff)
		}
	}
}
