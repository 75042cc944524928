package cli_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/karp-sh/karp/pkg/view"
)

// whyCase is what must hold for the answer to a scenario, whatever its wording.
type whyCase struct {
	scenario, pod, namespace      string
	code, layer, certain, nearest string
	blocked                       bool
	// sentence must contain these, text too; never must not.
	sentence, text, never []string
	// pools names the code of each pool, nearest first: "gpu TaintNotTolerated".
	pools []string
	// fixes must be found in this order.
	fixes []wantFix
	// lastUntested wants the last fix to be one that was not simulated.
	lastUntested bool
	// json checks what only the report has.
	json func(*testing.T, view.PendingReport)
}

// wantFix is a way out.
type wantFix struct {
	owner, summary string
	// launch is TYPE CAPACITY AMOUNT, drift the number of nodes that would drift.
	launch string
	drift  int
	// command must be part of one line of the commands.
	command string
}

func whyCases() []whyCase {
	return []whyCase{
		{
			scenario: "W01", pod: "inflate-5c9-rp2fk", namespace: "jobs", code: "LabelUnknown", layer: "Constraints", certain: "proven", nearest: "default", blocked: true,
			sentence: []string{"jobs/inflate-5c9-rp2fk", "workload=batch", "no NodePool sets `workload`"},
			text:     []string{"$0.042/h", "3 running nodes drift"},
			never:    []string{"does not have known values", "typo", "did you mean"},
			pools:    []string{"default LabelUnknown", "gpu TaintNotTolerated"},
			fixes: []wantFix{
				{owner: "pod", summary: "drop the selector workload=batch", launch: "t3.medium on-demand 0.0416", command: "kubectl -n jobs patch deploy/inflate --type=json -p"},
				{owner: "pool", summary: "workload=batch to NodePool default", launch: "t3.medium on-demand 0.0416", drift: 3, command: "kubectl patch nodepool default --type=merge -p"},
				{owner: "pool", summary: "add a NodePool like default", launch: "t3.medium on-demand 0.0416"},
			},
			json: func(t *testing.T, r view.PendingReport) {
				if d := r.Findings[1].Distance; d == nil || d.Conditions != 2 {
					t.Errorf("gpu needs %+v, want two conditions", d)
				}
			},
		},
		{
			scenario: "W02", pod: "load-77b-x1", namespace: "etl", code: "LimitReached", layer: "Limit", certain: "proven", nearest: "batch", blocked: true,
			sentence: []string{"NodePool batch", "cpu 56 of 60 used", "a type with 8", "4 left"},
			text:     []string{"types within the limit are too small: c5.xlarge lacks cpu by 2360m", "c5.2xlarge", "exceeds it"},
			never:    []string{"no instance type has enough", "TooBig,"},
			pools:    []string{"batch LimitReached"},
			fixes: []wantFix{
				{owner: "pool", summary: "raise limits.cpu of NodePool batch to 64", launch: "c5.2xlarge on-demand 0.34", command: `'{"spec":{"limits":{"cpu":"64"}}}'`},
				{owner: "pod", summary: "ask for at most 3640m cpu", launch: "c5.xlarge on-demand 0.17", command: "kubectl -n etl set resources deploy/load --requests=cpu=3640m"},
			},
			json: func(t *testing.T, r view.PendingReport) {
				want := view.LimitReport{Resource: "cpu", Limit: "60", Used: "56", Left: "4", Needs: "8", NeedsType: "c5.2xlarge", WithinType: "c5.xlarge"}
				got := r.Findings[0].Limits[0]
				if got.Short["cpu"] != "2360m" {
					t.Errorf("short %v", got.Short)
				}
				if got.Short = nil; got.Resource != want.Resource || got.Limit != want.Limit || got.Used != want.Used || got.Left != want.Left || got.Needs != want.Needs || got.NeedsType != want.NeedsType || got.WithinType != want.WithinType {
					t.Errorf("limit %+v, want %+v", got, want)
				}
			},
		},
		{
			scenario: "W03", pod: "pg-0", namespace: "data", code: "VolumeZoneConflict", layer: "Topology", certain: "proven", nearest: "default", blocked: true,
			sentence: []string{"data/pg-0", "claim data-pg-0", "PV pvc-data-pg-0", "us-east-1c", "NodePool default allows us-east-1a and us-east-1b"},
			never:    []string{"remove the volume", "delete the volume", "drop the volume"},
			pools:    []string{"default VolumeZoneConflict"},
			fixes: []wantFix{
				{owner: "pool", summary: "allow us-east-1c in NodePool default", launch: "t3.medium on-demand 0.0416", command: `"value":"us-east-1c"`},
				{owner: "pod", summary: "move the data of claim data-pg-0: a snapshot, then a new volume in us-east-1a or us-east-1b"},
			},
			lastUntested: true,
			json: func(t *testing.T, r view.PendingReport) {
				v := r.Findings[0].Volumes
				if len(v) != 1 || v[0].Claim != "data-pg-0" || !slices.Equal(v[0].Values, []string{"us-east-1c"}) || !slices.Equal(v[0].PoolValues, []string{"us-east-1a", "us-east-1b"}) {
					t.Errorf("volumes %+v", v)
				}
			},
		},
		{
			scenario: "W04", pod: "api-1", namespace: "web", code: "NodePoolNotReady", layer: "NodePool", certain: "observed", nearest: "default", blocked: true,
			sentence: []string{"NodePool default is not ready", "EC2NodeClass std", "SubnetsNotFound, since 11:02 (1h18m)"},
			text:     []string{"karpenter.sh/discovery=prod-old", "0 subnets", "SubnetSelector did not match any Subnets"},
			never:    []string{"topology.kubernetes.io/zone DoesNotExist", "no nodepools found"},
			pools:    []string{"default NodePoolNotReady"},
			fixes: []wantFix{
				{owner: "pool", summary: "correct the tag value in subnetSelectorTerms of EC2NodeClass std, or tag the subnets", launch: "t3.medium on-demand 0.0416",
					command: "aws ec2 describe-subnets --filters Name=tag:karpenter.sh/discovery,Values=prod-old"},
			},
			json: func(t *testing.T, r view.PendingReport) {
				f := r.Findings[0]
				if f.Subnets == nil || f.Subnets.Found != 0 || f.Subnets.Selector != "karpenter.sh/discovery=prod-old" {
					t.Errorf("subnets %+v", f.Subnets)
				}
				if last := f.NotReady[len(f.NotReady)-1]; last.Kind != "EC2NodeClass" || last.Name != "std" || last.Reason != "SubnetsNotFound" || last.Since != "2026-09-08T11:02:00Z" {
					t.Errorf("cause %+v", last)
				}
			},
		},
		{
			scenario: "W05", pod: "ledger-6f-k2", namespace: "shop", code: "TooBig", layer: "InstanceType", certain: "estimated", nearest: "payments", blocked: true,
			sentence: []string{"183Mi", "m6a.2xlarge", "NodePool payments"},
			text: []string{"32768Mi", "VM overhead (7.5 %) −2458Mi", "kube-reserved −893Mi", "eviction threshold −100Mi", "= allocatable 29317Mi", "−300Mi", "29017Mi", "29200Mi",
				"short by 183Mi (0.6 %)", "cpu short by 2350m", "memory short by 22597Mi"},
			pools: []string{"payments TooBig", "general TooBig"},
			fixes: []wantFix{
				{owner: "pod", summary: "ask for at most 29017Mi memory", launch: "m6a.2xlarge on-demand 0.3456", command: "kubectl -n shop set resources deploy/ledger --requests=memory=29017Mi"},
				{owner: "pool", summary: "allow r5.2xlarge in NodePool payments", launch: "r5.2xlarge on-demand 0.504", command: `"value":"r5.2xlarge"`},
			},
			json: func(t *testing.T, r view.PendingReport) {
				b := r.Findings[0].Resources[0].Breakdown
				if b == nil || *b != (view.BreakdownReport{Raw: "32768Mi", VMOverhead: "2458Mi", KubeReserved: "893Mi", SystemReserved: "0", Eviction: "100Mi", Allocatable: "29317Mi", DaemonSets: "300Mi", Left: "29017Mi"}) {
					t.Errorf("breakdown %+v", b)
				}
			},
		},
		{
			scenario: "W06", pod: "infer-0", namespace: "ml", code: "OfferingUnavailable", layer: "Offering", certain: "observed", nearest: "gpu", blocked: true,
			sentence: []string{"g5.xlarge on-demand", "us-east-1a and us-east-1b", "sold out", "next try 12:22:10 (in 2m10s)"},
			text: []string{"2 of 2 allowed are closed", "InsufficientInstanceCapacity, until 12:22:10", "InsufficientInstanceCapacity, until 12:22:40", "g5.xlarge us-east-1c", "not sold here at all",
				"may be interrupted"},
			pools: []string{"gpu OfferingUnavailable"},
			fixes: []wantFix{
				{owner: "pool", summary: "allow g4dn.xlarge in NodePool gpu", launch: "g4dn.xlarge on-demand 0.526"},
				{owner: "pool", summary: "let spot into NodePool gpu", launch: "g5.xlarge spot 0.402"},
				{owner: "wait", summary: "wait until 12:22:10", launch: "g5.xlarge on-demand 1.006"},
			},
			json: func(t *testing.T, r view.PendingReport) {
				o := r.Findings[0].Offerings
				if len(o) != 3 || o[0].Until != "2026-09-08T12:22:10Z" || o[1].Until != "2026-09-08T12:22:40Z" || o[0].Available || o[2].Zone != "us-east-1c" {
					t.Errorf("offerings %+v", o)
				}
			},
		},
		{
			scenario: "W07", pod: "train-x", namespace: "ml", code: "TaintNotTolerated", layer: "Constraints", certain: "proven", nearest: "gpu", blocked: true,
			pools: []string{"gpu TaintNotTolerated", "default ResourceNotOffered"},
			text:  []string{"nvidia.com/gpu on 0 of 16 types", `- {key: nvidia.com/gpu, operator: Equal, value: "true", effect: NoSchedule}`},
			never: []string{"remove the taint", "drop the taint"},
			fixes: []wantFix{{owner: "pod", summary: "tolerate nvidia.com/gpu=true:NoSchedule", launch: "g4dn.xlarge on-demand 0.526"}},
		},
		{
			scenario: "W08", pod: "gw-5", namespace: "edge", code: "NodePoolStaticOnly", layer: "NodePool", certain: "proven", nearest: "ingress", blocked: true,
			sentence: []string{"ingress is fixed at 2 nodes", "both full", "does not grow for pods"},
			pools:    []string{"ingress NodePoolStaticOnly", "default LabelConflict"},
			fixes: []wantFix{
				{owner: "pool", summary: "scale NodePool ingress from 2 to 3", launch: "m5.large on-demand 0.096", command: "kubectl karp scale nodepool ingress --replicas 3"},
				{owner: "pod", summary: "drop the selector pool=ingress", launch: "t3.medium on-demand 0.0416"},
			},
		},
		{
			scenario: "W09", pod: "sim-1", namespace: "batch", code: "SchedulingGated", layer: "Request", certain: "proven",
			sentence: []string{"held by gate kueue.x-k8s.io/admission", "no node is being requested"},
			text:     []string{"t3.medium on-demand $0.042/h in NodePool default"},
			never:    []string{"EVERY NODEPOOL", "FIX"},
		},
		{
			scenario: "W10", pod: "api-2", namespace: "web", code: "CapacityComing", layer: "Existing", certain: "observed",
			sentence: []string{"default-q7", "m5.large", "launched 19s ago", "must register by 12:34"},
			never:    []string{"EVERY NODEPOOL", "FIX"},
		},
		{
			scenario: "W11", pod: "web-5", namespace: "web", code: "SpreadUnsatisfiable", layer: "Topology", certain: "proven", nearest: "main", blocked: true,
			text:  []string{"maxSkew 1", "us-east-1a 2 2 no yes", "us-east-1b 1 1 no no", "us-east-1c 1 1 no no", "loses the guarantee"},
			pools: []string{"main SpreadUnsatisfiable"},
			fixes: []wantFix{
				{owner: "pool", summary: "allow us-east-1b in NodePool main (or us-east-1c)", launch: "t3.medium on-demand 0.0416"},
				{owner: "pod", summary: "ScheduleAnyway", launch: "t3.medium on-demand 0.0416"},
			},
		},
		{
			scenario: "W12", pod: "api-3", namespace: "web", code: "NotInitializing", layer: "Launch", certain: "observed", blocked: true,
			sentence: []string{"d9", "node.cilium.io/agent-not-ready", "25m10s", "kube-system/cilium-x", "CrashLoopBackOff", "9 restarts"},
			text:     []string{"NotInitializing.StartupTaint", "will repeat"},
			never:    []string{"patch nodepool", "EVERY NODEPOOL", "new node"},
			fixes: []wantFix{
				{owner: "cluster", summary: "repair DaemonSet kube-system/cilium", command: "kubectl -n kube-system logs cilium-x"},
				{owner: "cluster", summary: "delete NodeClaim d9", command: "kubectl delete nodeclaim d9"},
			},
			lastUntested: true,
		},
	}
}

// TestWhyCases holds every expectation of the cases against the text at two widths and against the report.
func TestWhyCases(t *testing.T) {
	for _, c := range whyCases() {
		t.Run(c.scenario, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cluster")
			expandScenario(t, c.scenario, dir)
			ask := func(more ...string) outcome {
				args := append([]string{"why-pending", c.pod, "-n", c.namespace, "--snapshot", dir}, more...)
				return run(t, []string{"HOME=" + t.TempDir(), "LANG=en_US.UTF-8"}, args...)
			}
			for _, width := range []string{"80", "100"} {
				got := ask("--width", width, "--max-fixes", "0")
				c.checkText(t, got.out, width)
			}
			report := decode(t, ask("-o", "json").out)
			c.checkReport(t, report)
			want := 0
			if c.blocked {
				want = 3
			}
			if got := ask("--exit-code", "-q"); got.code != want {
				t.Errorf("exit code %d with --exit-code, want %d", got.code, want)
			}
		})
	}
}

func (c whyCase) checkText(t *testing.T, out, width string) {
	t.Helper()
	limit := 80
	if width == "100" {
		limit = 100
	}
	answer, _, _ := strings.Cut(out, "\n\n")
	for _, want := range c.sentence {
		if !strings.Contains(flat(answer), want) {
			t.Errorf("width %s: the sentence has no %q: %s", width, want, answer)
		}
	}
	text := flat(out)
	for _, want := range append([]string{c.code, c.certain}, c.text...) {
		if !strings.Contains(text, want) {
			t.Errorf("width %s: no %q in\n%s", width, want, out)
		}
	}
	for _, bad := range c.never {
		if strings.Contains(text, bad) {
			t.Errorf("width %s: %q in\n%s", width, bad, out)
		}
	}
	for l := range strings.Lines(out) {
		l = strings.TrimRight(l, "\n")
		copied := strings.Contains(l, "kubectl ") || strings.Contains(l, "aws ec2") || strings.Contains(l, "- {key")
		if len([]rune(l)) > limit && !copied {
			t.Errorf("width %s: %d columns: %s", width, len([]rune(l)), l)
		}
		if strings.ContainsRune(l, '\x1b') {
			t.Errorf("escape sequences without a terminal: %q", l)
		}
	}
}

func (c whyCase) checkReport(t *testing.T, r view.PendingReport) {
	t.Helper()
	a := r.Answer
	if a.Code != c.code || a.Layer != c.layer || a.Certainty != c.certain || a.Blocked != c.blocked {
		t.Errorf("answer %s, %s, %s, blocked %t; want %s, %s, %s, %t", a.Code, a.Layer, a.Certainty, a.Blocked, c.code, c.layer, c.certain, c.blocked)
	}
	if r.APIVersion != "cli.karp.sh/v1alpha1" || r.Kind != "PendingReport" || r.Subject.Name != c.pod || r.Subject.Namespace != c.namespace {
		t.Errorf("envelope %+v, subject %+v", r.Envelope, r.Subject)
	}
	if c.nearest != "" && (r.NearestMiss == nil || r.NearestMiss.NodePool != c.nearest) {
		t.Errorf("nearest miss %+v, want %s", r.NearestMiss, c.nearest)
	}
	var pools []string
	for _, f := range r.Findings {
		pools = append(pools, f.NodePool+" "+f.Code)
	}
	if !slices.Equal(pools, c.pools) {
		t.Errorf("findings %v, want %v", pools, c.pools)
	}
	c.checkFixes(t, r.Fixes)
	if c.json != nil && !t.Failed() {
		c.json(t, r)
	}
}

func (c whyCase) checkFixes(t *testing.T, fixes []view.FixReport) {
	t.Helper()
	at := -1
	for i, want := range c.fixes {
		next := slices.IndexFunc(fixes[at+1:], func(f view.FixReport) bool { return want.matches(f) })
		if next < 0 || i == 0 && next != 0 {
			t.Errorf("fix %d: no %+v in order in\n%+v", i+1, want, fixes)
			return
		}
		at += next + 1
	}
	for i, f := range fixes {
		if !f.Verified && slices.ContainsFunc(fixes[i:], func(x view.FixReport) bool { return x.Verified }) {
			t.Errorf("fix %d was not simulated and stands before one that was", i+1)
		}
	}
	if c.lastUntested && (len(fixes) == 0 || fixes[len(fixes)-1].Verified) {
		t.Errorf("the last fix is not marked as untested: %+v", fixes)
	}
}

func (w wantFix) matches(f view.FixReport) bool {
	launch := ""
	if f.Launch != nil && f.Launch.Price != nil {
		launch = f.Launch.Type + " " + f.Launch.CapacityType + " " + f.Launch.Price.Amount
	}
	command := w.command == "" || slices.ContainsFunc(f.Command, func(l string) bool { return strings.Contains(l, w.command) })
	return f.Owner == w.owner && strings.Contains(f.Summary, w.summary) && launch == w.launch && f.Drift == w.drift && command
}
