package cli_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// TestKeptCases asks why the node of every case is kept: the code, what the report says of it, its schema, and lines that fit.
func TestKeptCases(t *testing.T) {
	for _, c := range []struct {
		scenario, node, code, until string
		says                        []string
	}{
		{"W13", "n1", "PDBBlocks", "", []string{"shop/cart ", "all pods fit on other nodes, saves $0.192/h ($140/month)"}},
		{"W14", "n1", "DoNotDisruptPod", "2026-09-08T14:00:00Z", []string{"until 14:00", "saves $0.192/h"}},
		{"W15", "n1", "TimerRunning", "2026-09-08T12:20:12Z", []string{"until 12:20:12", "saves $0.384/h"}},
		{"W16", "n1", "NoCheaperReplacement", "", []string{"cheapest costs $0.096/h, this one $0.096/h", "app/a-1"}},
		{"W17", "s1", "SpotFlexibility", "", []string{"15 cheaper instance types", "leaves 5", "c5.xlarge, m5.xlarge, m6i.xlarge, r5.xlarge, c5.2xlarge", "$0.086/h"}},
	} {
		dir := filepath.Join(t.TempDir(), "cluster")
		expandScenario(t, c.scenario, dir)
		for _, width := range []string{"80", "100"} {
			got := run(t, nil, "why-kept", c.node, "--snapshot", dir, "--width", width)
			for _, text := range c.says {
				if !strings.Contains(flat(got.out), text) {
					t.Errorf("%s does not say %q: %s%s", c.scenario, text, got.out, got.err)
				}
			}
			if width == "80" {
				got.out, _, _ = strings.Cut(got.out, "\nSOURCES")
				checkReadable(t, c.scenario, got)
			}
		}
		var report struct {
			Answer struct{ Code string }
			Until  string
		}
		raw := run(t, nil, "why-kept", c.node, "--snapshot", dir, "-o", "json").out
		if err := json.Unmarshal([]byte(raw), &report); err != nil {
			t.Fatalf("%s: %v: %s", c.scenario, err, raw)
		}
		if report.Answer.Code != c.code || report.Until != c.until {
			t.Errorf("%s: code %s until %q, want %s until %q", c.scenario, report.Answer.Code, report.Until, c.code, c.until)
		}
		for kind, out := range map[string]string{"KeptReport": raw, "KeptReportList": run(t, nil, "why-kept", "--snapshot", dir, "-o", "json").out} {
			var v any
			if err := json.Unmarshal([]byte(out), &v); err != nil {
				t.Fatalf("%s: %v: %s", c.scenario, err, out)
			}
			s := schemaNamed(t, kind)
			if bad := s.check(kind, v, s.Defs); len(bad) > 0 {
				t.Errorf("%s", strings.Join(bad, "\n"))
			}
		}
	}
}
