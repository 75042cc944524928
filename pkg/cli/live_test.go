package cli_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/karp-sh/karp/pkg/cli"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/status"
	"github.com/karp-sh/karp/pkg/view"
)

// fixed is the clock of the scenarios.
const fixed = "2026-09-08T12:20:00Z"

// live is a cluster that commands reach over the network.
type live struct {
	*apiServer
	t      *testing.T
	config string
}

// newLive serves the first cluster of a scenario file.
func newLive(t *testing.T, scenario string) *live {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cluster")
	expandScenario(t, scenario, dir)
	a := newAPIServer(t, dir)
	return &live{a, t, a.kubeconfig(t)}
}

func (l *live) run(args ...string) outcome {
	l.t.Helper()
	args = append(args, "--kubeconfig", l.config, "--at", fixed, "--cache-dir", l.t.TempDir())
	return run(l.t, []string{"HOME=" + l.t.TempDir(), "LANG=en_US.UTF-8"}, args...)
}

// TestReadOnly keeps the promise that a verb writes only if it says so.
func TestReadOnly(t *testing.T) {
	for _, args := range [][]string{
		{"why-pending", "gw-5", "-n", "edge"},
		{"why-pending", "-A"},
		{"why-pending", "-A", "-o", "json"},
		{"simulate", "--remove-node", "i1"},
		{"scale", "nodepool", "ingress", "--replicas", "3", "--dry-run"},
		{"scale", "nodepool", "default", "--replicas", "3"},
		{"scale", "nodepool", "nothing", "--replicas", "3"},
		{"version"}, {"options"}, {"help", "TooBig"}, {"completion", "bash"},
		{"__complete", "why-pending", ""}, {"__complete", "scale-static", ""},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			l := newLive(t, "W08")
			got := l.run(args...)
			if len(l.writes) > 0 {
				t.Errorf("wrote %v", l.writes)
			}
			if got.out == "" && got.err == "" {
				t.Error("said nothing")
			}
		})
	}
}

// TestScaleWrites shows that the server would have seen a write.
func TestScaleWrites(t *testing.T) {
	l := newLive(t, "W08")
	if got := l.run("scale", "nodepool", "ingress", "--replicas", "3"); got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.err)
	}
	want := "PUT /apis/karpenter.sh/v1/nodepools/ingress/scale"
	if len(l.writes) != 1 || l.writes[0] != want {
		t.Errorf("wrote %v, want %s", l.writes, want)
	}
}

// TestForbidden answers what can be answered with the rights there are, and names what is missing.
func TestForbidden(t *testing.T) {
	tests := []struct {
		name, scenario string
		forbidden      []string
		args           []string
		code           string
		source         string
	}{
		{"events", "W08", []string{"events"}, []string{"gw-5", "-n", "edge"}, "NodePoolStaticOnly", "events: not read (dana may not list events)"},
		{"nodes", "W01", []string{"nodes"}, []string{"inflate-5c9-rp2fk", "-n", "jobs"}, "LabelUnknown", "nodes: not read (dana may not list nodes)"},
		{"volumes", "W01", []string{"persistentvolumes", "storageclasses", "csinodes"}, []string{"inflate-5c9-rp2fk", "-n", "jobs"}, "LabelUnknown",
			"persistentvolumes: not read (dana may not list persistentvolumes)"},
		{"other namespaces", "W01", []string{"pods", "daemonsets", "persistentvolumeclaims", "poddisruptionbudgets"}, []string{"inflate-5c9-rp2fk", "-n", "jobs"}, "LabelUnknown",
			"pods: not read (only namespace jobs could be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLive(t, tt.scenario)
			l.forbidden, l.allowed = tt.forbidden, "jobs"
			got := l.run(append([]string{"why-pending", "-o", "json", "--strict"}, tt.args...)...)
			if got.code != 4 {
				t.Errorf("exit code %d with --strict, want 4: %s", got.code, got.err)
			}
			report := decode(t, got.out)
			if report.Answer.Code != tt.code || !report.Partial {
				t.Errorf("answer %s, partial %t; want %s, true", report.Answer.Code, report.Partial, tt.code)
			}
			text := flat(l.run(append([]string{"why-pending"}, tt.args...)...).out)
			if !strings.Contains(text, tt.source) {
				t.Errorf("sources do not name %q:\n%s", tt.source, text)
			}
		})
	}
}

func TestNothingReadable(t *testing.T) {
	l := newLive(t, "W01")
	for _, r := range resources() {
		l.forbidden = append(l.forbidden, r.name)
	}
	got := l.run("why-pending", "inflate-5c9-rp2fk", "-n", "jobs")
	if got.code != 1 || !strings.Contains(got.err, "karp-view") {
		t.Errorf("exit code %d, error %q; want 1 and the role to ask for", got.code, got.err)
	}
}

// TestWithoutAgent says in one clause why the agent was not used, and is not partial for that.
func TestWithoutAgent(t *testing.T) {
	l := newLive(t, "W01")
	got := l.run("why-pending", "inflate-5c9-rp2fk", "-n", "jobs", "--strict")
	if got.code != 0 {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	if want := "agent: not used (no agent found: no Lease kube-system/karpenter-leader-election)"; !strings.Contains(flat(got.out), want) {
		t.Errorf("sources do not say %q:\n%s", want, got.out)
	}
	got = l.run("why-pending", "inflate-5c9-rp2fk", "-n", "jobs", "--agent", "none")
	if want := "agent: not used (--agent none)"; !strings.Contains(got.out, want) {
		t.Errorf("sources do not say %q:\n%s", want, got.out)
	}
}

// agentFacts is what an agent knows.
type agentFacts struct {
	offerings []status.Offering
	verdict   *status.Verdict
	gate      bool
}

func (f agentFacts) StatusInfo(context.Context) (status.Info, error) {
	return status.Info{Meta: f.meta(), Version: "v1.2.3", FeatureGates: map[string]bool{"StaticCapacity": f.gate}, Settings: status.Settings{VMMemoryOverheadPercent: 0.075}, Synced: true}, nil
}

func (f agentFacts) PodVerdict(_ context.Context, namespace, name string) (status.PodVerdict, error) {
	if f.verdict == nil {
		return status.PodVerdict{}, status.ErrNotFound
	}
	return status.PodVerdict{Meta: f.meta(), Namespace: namespace, Name: name, DecidedAt: clockAt().Add(-40 * time.Second), Verdict: f.verdict}, nil
}

func (f agentFacts) Offerings(context.Context, string) (status.Offerings, error) {
	return status.Offerings{Meta: f.meta(), Items: f.offerings}, nil
}

func (agentFacts) meta() status.Meta { return status.Meta{ObservedAt: clockAt()} }

func (agentFacts) Leading() (bool, string) { return true, "agent-1" }

func clockAt() time.Time { return time.Date(2026, 9, 8, 12, 20, 0, 0, time.UTC) }

// serveAgent puts a real status endpoint behind the API server's service proxy.
func (l *live) serveAgent(f agentFacts) {
	l.t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", l.config)
	if err != nil {
		l.t.Fatal(err)
	}
	cfg.ContentType = "application/json" // which apiServer can read
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	s := &status.Server{Info: f, Pods: f, Offerings: f, Leadership: f, Access: status.NewAccess(clients, time.Now), Log: slog.New(slog.NewTextHandler(l.t.Output(), nil))}
	l.agent = s.Handler()
}

// soldOut are W06's offerings as an agent knows them, the spot price being its own.
func soldOut() []status.Offering {
	a, b := clockAt().Add(130*time.Second), clockAt().Add(160*time.Second)
	return []status.Offering{
		{Type: "g5.xlarge", Zone: "us-east-1a", CapacityType: "on-demand", Price: "1.006", Reason: "InsufficientInstanceCapacity", Until: &a},
		{Type: "g5.xlarge", Zone: "us-east-1b", CapacityType: "on-demand", Price: "1.006", Reason: "InsufficientInstanceCapacity", Until: &b},
		{Type: "g5.xlarge", Zone: "us-east-1c", CapacityType: "on-demand", Price: "1.006", Reason: "InsufficientInstanceCapacity", Until: &b},
		{Type: "g5.xlarge", Zone: "us-east-1a", CapacityType: "spot", Price: "0.3333", Available: true},
	}
}

func TestSoldOutWithAgent(t *testing.T) {
	l := newLive(t, "W06")
	l.serveAgent(agentFacts{offerings: soldOut(), verdict: &status.Verdict{Finding: status.Finding{Layer: "Offering", Code: string(reason.OfferingUnavailable)}}})
	got := l.run("why-pending", "infer-0", "-n", "ml", "--max-fixes", "0")
	text := flat(got.out)
	for _, want := range []string{
		"g5.xlarge on-demand of NodePool gpu is sold out in us-east-1a",
		"next try 12:22:10 (in 2m10s)",
		"InsufficientInstanceCapacity, until 12:22:10",
		"agent v1.2.3",
		"prices and sold-out offerings: agent",
		"agent's last verdict: OfferingUnavailable (same) 40s old",
		"g5.xlarge spot $0.333/h",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s%s", want, got.out, got.err)
		}
	}
	if len(l.writes) > 0 {
		t.Errorf("wrote %v", l.writes)
	}
	report := decode(t, l.run("why-pending", "infer-0", "-n", "ml", "-o", "json").out)
	if len(report.Findings) == 0 || len(report.Findings[0].Offerings) == 0 {
		t.Fatalf("the report lists no offerings: %+v", report)
	}
	if report.Answer.Layer != "Offering" || report.Answer.Certainty != "observed" || report.Findings[0].Offerings[0].Until != "2026-09-08T12:22:10Z" {
		t.Errorf("answer %+v, offerings %+v", report.Answer, report.Findings[0].Offerings)
	}
}

func TestAgentDisagrees(t *testing.T) {
	l := newLive(t, "W01")
	l.serveAgent(agentFacts{verdict: &status.Verdict{Finding: status.Finding{Layer: "Limit", Code: string(reason.LimitReached)}}})
	got := l.run("why-pending", "inflate-5c9-rp2fk", "-n", "jobs")
	if want := "agent's last verdict: LimitReached (different)"; !strings.Contains(flat(got.out), want) {
		t.Errorf("no %q in\n%s", want, got.out)
	}
}

// TestScaleAsksAgent refuses by the gate of the agent that runs.
func TestScaleAsksAgent(t *testing.T) {
	for gate, want := range map[bool]int{true: 0, false: 1} {
		l := newLive(t, "W08")
		l.serveAgent(agentFacts{gate: gate})
		got := l.run("scale", "nodepool", "ingress", "--replicas", "3")
		if got.code != want || (len(l.writes) == 0) == gate {
			t.Errorf("gate %t: exit code %d, wrote %v: %s", gate, got.code, l.writes, got.err)
		}
		if !gate && !strings.Contains(got.err, "GateOff") {
			t.Errorf("the refusal does not name its code: %s", got.err)
		}
	}
}

func TestScaleWaitTimesOut(t *testing.T) {
	l := newLive(t, "W08")
	got := l.run("scale", "nodepool", "ingress", "--replicas", "3", "--wait", "--timeout", "1500ms")
	if got.code != 5 || !strings.Contains(got.err, "2 of 3 nodes are ready") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
}

func decode(t *testing.T, text string) view.PendingReport {
	t.Helper()
	var r view.PendingReport
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

// flat joins the lines of a text.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestWait(t *testing.T) {
	l := newLive(t, "W08")
	got := l.run("why-pending", "gw-5", "-n", "edge", "-q", "--wait", "--timeout", "1500ms")
	if got.code != 5 || !strings.Contains(got.err, "1 pod without a node, edge/gw-5 among them") {
		t.Errorf("exit code %d: %s", got.code, got.err)
	}
	l.bind("gw-5", "i1")
	if got = l.run("why-pending", "gw-5", "-n", "edge", "-q", "--wait", "--timeout", "1m"); got.code != 0 {
		t.Errorf("exit code %d of a pod that has a node: %s", got.code, got.err)
	}
}

// TestWatch prints a report on one line for each change, and ends when it is interrupted.
func TestWatch(t *testing.T) {
	l := newLive(t, "W08")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reports := make(chan string)
	out := lineWriter(func(line string) { reports <- line })
	done := make(chan int, 1)
	go func() {
		done <- cli.Main(ctx, cli.Program{Streams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: io.Discard}, Getenv: func(string) string { return "" }},
			[]string{"why-pending", "gw-5", "-n", "edge", "-o", "json", "-w", "--kubeconfig", l.config, "--agent", "none"})
	}()
	if r := decode(t, <-reports); r.Answer.Code != "NodePoolStaticOnly" {
		t.Errorf("first answer %s", r.Answer.Code)
	}
	l.bind("gw-5", "i1")
	if r := decode(t, <-reports); r.Answer.Code != "NotPending" {
		t.Errorf("second answer %s", r.Answer.Code)
	}
	cancel()
	if code := <-done; code != cli.ExitInterrupted {
		t.Errorf("exit code %d, want %d", code, cli.ExitInterrupted)
	}
}

// lineWriter is called with what is written.
type lineWriter func(string)

func (w lineWriter) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

// bind gives a pod a node.
func (l *live) bind(pod, node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range l.objects["pods"] {
		if u.GetName() == pod {
			if err := unstructured.SetNestedField(u.Object, node, "spec", "nodeName"); err != nil {
				l.t.Fatal(err)
			}
		}
	}
}

// TestScaleSays records what scale shows and asks before it writes.
func TestScaleSays(t *testing.T) {
	l := newLive(t, "W08")
	for _, tt := range []struct {
		args   []string
		code   int
		writes int
		says   []string
	}{
		{[]string{"ingress", "--replicas", "1"}, 1, 0, []string{"NodePool ingress will go from 2 to 1 node", "leaves (cheapest to move)", "1 pod would move; pass --yes"}},
		{[]string{"ingress", "--replicas", "1", "--yes"}, 0, 1, []string{"nodepool.karpenter.sh/ingress scaled"}},
		{[]string{"nodepool/ingress", "--replicas", "3", "--dry-run=server"}, 0, 1, []string{"1 more", "scaled (server dry run)"}},
		{[]string{"ingress", "--replicas", "2"}, 0, 0, []string{"has 2 nodes already", "unchanged"}},
		{[]string{"ingress", "--replicas", "3", "-o", "name"}, 0, 1, []string{"nodepool.karpenter.sh/ingress"}},
		{[]string{"ingress", "--replicas", "3", "--resource-version", "6"}, 1, 0, []string{"ResourceVersionMismatch"}},
		{[]string{"ingress", "--replicas", "3", "--current-replicas", "9"}, 1, 0, []string{"CurrentReplicasMismatch", "has 2 replicas, not 9"}},
		{[]string{"default", "--replicas", "3"}, 1, 0, []string{"NotStatic", "one cannot be added later"}},
		{[]string{"ingres", "--replicas", "3"}, 1, 0, []string{`NodePool "ingres" not found; there is: ingress, default`}},
		{[]string{"ingress", "--replicas", "3"}, 0, 1, []string{"scaled"}},
		{[]string{"ingress", "--replicas", "3", "--agent-namespace", "other"}, 0, 1, []string{"SettingsUnknown", "no controller in namespace other"}},
	} {
		l.writes = nil
		got := l.run(append([]string{"scale", "nodepool"}, tt.args...)...)
		if got.code != tt.code || len(l.writes) != tt.writes {
			t.Errorf("%v: exit code %d, wrote %v", tt.args, got.code, l.writes)
		}
		for _, want := range tt.says {
			if text := flat(got.out + got.err); !strings.Contains(text, want) {
				t.Errorf("%v: no %q in\n%s%s", tt.args, want, got.out, got.err)
			}
		}
	}
}
