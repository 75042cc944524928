package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/karp-sh/karp/pkg/telemetry"
)

func logger(t *testing.T, o telemetry.LogOptions) (*slog.Logger, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	o.Stdout = &out
	l, done, err := telemetry.NewLogger(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := done(); err != nil {
			t.Error(err)
		}
	})
	return l, &out
}

// The shape of a line is a contract: people parse it.
func TestLine(t *testing.T) {
	l, out := logger(t, telemetry.LogOptions{Commit: "abc1234"})
	l.With(telemetry.Logger("provisioner")).Info("created nodeclaim", telemetry.Claim("c"), telemetry.Node("n"), telemetry.Pool("p"), telemetry.Class("k"), telemetry.Pod("ns", "x"),
		telemetry.ProviderID("aws:///a/i-1"), telemetry.Reason("TooBig"), telemetry.Decision("d1"), telemetry.Duration(1500*time.Millisecond), telemetry.Error(errors.New("boom")))
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d{4})$`).MatchString(fmt.Sprint(got["time"])) {
		t.Errorf("time %v is not ISO 8601 with milliseconds and zone", got["time"])
	}
	delete(got, "time")
	name := func(n string) map[string]any { return map[string]any{"name": n} }
	want := map[string]any{
		"level": "INFO", "message": "created nodeclaim", "logger": "controller.provisioner", "commit": "abc1234", "NodeClaim": name("c"), "Node": name("n"),
		"NodePool": name("p"), "EC2NodeClass": name("k"), "Pod": map[string]any{"name": "x", "namespace": "ns"}, "provider-id": "aws:///a/i-1",
		"reason": "TooBig", "decision": "d1", "duration": "1.5s", "error": "boom",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

// L-323: levels, and where a line comes from with debug only.
func TestLevels(t *testing.T) {
	for level, want := range map[string][]string{"": {"info", "warn", "error"}, "info": {"info", "warn", "error"}, "error": {"error"}, "debug": {"debug", "info", "warn", "error"}} {
		l, out := logger(t, telemetry.LogOptions{Level: level})
		l.Debug("debug")
		l.Info("info")
		l.Warn("warn")
		l.Error("error")
		var got []string
		for line := range strings.Lines(out.String()) {
			var x map[string]any
			if err := json.Unmarshal([]byte(line), &x); err != nil {
				t.Fatal(err)
			}
			got = append(got, x["message"].(string))
			if _, caller := x["caller"]; caller != (level == "debug") {
				t.Errorf("level %q: caller present: %v", level, caller)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("level %q (-want +got):\n%s", level, diff)
		}
	}
	if _, _, err := telemetry.NewLogger(telemetry.LogOptions{Level: "warn"}); err == nil {
		t.Error("level warn was accepted")
	}
}

func TestSampling(t *testing.T) {
	now := time.Unix(1000, 0)
	l, out := logger(t, telemetry.LogOptions{Now: func() time.Time { return now }})
	count := func() int {
		n := strings.Count(out.String(), "\n")
		out.Reset()
		return n
	}
	for range 350 {
		l.With("k", "v").Info("again")
	}
	l.Info("other")
	// 100, then numbers 200 and 300, and the other message.
	if n := count(); n != 103 {
		t.Errorf("%d lines in one second, want 103", n)
	}
	now = now.Add(time.Second)
	l.Info("again")
	if n := count(); n != 1 {
		t.Errorf("%d lines in the next second, want 1", n)
	}
}

func TestPaths(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	l, out := logger(t, telemetry.LogOptions{Paths: []string{"stdout", file}})
	l.Info("both")
	data, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(data), "both") || !strings.Contains(out.String(), "both") {
		t.Errorf("file %q, %v; stdout %q", data, err, out)
	}
	if _, _, err := telemetry.NewLogger(telemetry.LogOptions{Paths: []string{filepath.Join(t.TempDir(), "no", "dir")}}); err == nil {
		t.Error("a path that cannot be opened was accepted")
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestLoggerReportsItsOwnErrors(t *testing.T) {
	var failures bytes.Buffer
	l, _, err := telemetry.NewLogger(telemetry.LogOptions{Stdout: full{}, Stderr: &failures})
	if err != nil {
		t.Fatal(err)
	}
	l.Info("lost")
	if !strings.Contains(failures.String(), "no space left") {
		t.Errorf("failures %q", failures.String())
	}
}

func TestBridge(t *testing.T) {
	l, out := logger(t, telemetry.LogOptions{})
	telemetry.Bridge(l)
	t.Cleanup(klog.ClearLogger)
	klog.Info("chatter")
	klog.Error("trouble")
	ctrl.Log.WithName("x").Info("from the runtime")
	for text, want := range map[string]bool{"chatter": false, "trouble": true, "from the runtime": true} {
		if strings.Contains(out.String(), text) != want {
			t.Errorf("%q written: %v, want %v in\n%s", text, !want, want, out)
		}
	}
}
