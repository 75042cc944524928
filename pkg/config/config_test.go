package config_test

import (
	"errors"
	"flag"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/config"
)

func lookup(env map[string]string) func(string) (string, bool) {
	return func(k string) (string, bool) {
		v, ok := env[k]
		return v, ok
	}
}

// parse adds what is required.
func parse(args []string, env map[string]string) (config.Config, error) {
	all := map[string]string{"CLUSTER_NAME": "prod"}
	maps.Copy(all, env)
	return config.Parse(args, lookup(all))
}

func TestDefaults(t *testing.T) {
	got, err := parse(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Config{
		MetricsPort: 8080, HealthProbePort: 8081, StatusPort: 8443, MetricsSecure: true, KubeClientQPS: 200, KubeClientBurst: 300,
		DisableControllerWarmup: true, LeaderElectionName: "karpenter-leader-election", MemoryLimit: -1, CPURequests: 1000, LogLevel: "info",
		LogOutputPaths: []string{"stdout"}, LogErrorOutputPaths: []string{"stderr"}, BatchMaxDuration: 10 * time.Second, BatchIdleDuration: time.Second,
		PreferencePolicy: "Respect", MinValuesPolicy: "Strict", IgnoreDRARequests: true, PlacementHints: "auto", ConsolidationMinimumSaving: 0.02, SystemNamespace: "kube-system",
		Gates: config.Gates{ReservedCapacity: true, StaticCapacity: true},
		AWS:   config.AWS{ClusterName: "prod", VMMemoryOverheadPercent: 0.075, AMIRefreshInterval: time.Minute, SubnetRefreshInterval: time.Minute},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// setting is one row of the table with a value that differs from the default and where it ends up.
func settings() map[string]struct {
	value string
	want  func(*config.Config)
} {
	type row = struct {
		value string
		want  func(*config.Config)
	}
	return map[string]row{
		"karpenter-service":                   {"svc", func(c *config.Config) { c.KarpenterService = "svc" }},
		"metrics-port":                        {"0", func(c *config.Config) { c.MetricsPort = 0 }},
		"metrics-secure":                      {"false", func(c *config.Config) { c.MetricsSecure = false }},
		"health-probe-port":                   {"9", func(c *config.Config) { c.HealthProbePort = 9 }},
		"status-port":                         {"10", func(c *config.Config) { c.StatusPort = 10 }},
		"status-url":                          {"https://a:1", func(c *config.Config) { c.StatusURL = "https://a:1" }},
		"kube-client-qps":                     {"1", func(c *config.Config) { c.KubeClientQPS = 1 }},
		"kube-client-burst":                   {"2", func(c *config.Config) { c.KubeClientBurst = 2 }},
		"enable-profiling":                    {"true", func(c *config.Config) { c.EnableProfiling = true }},
		"disable-controller-warmup":           {"false", func(c *config.Config) { c.DisableControllerWarmup = false }},
		"disable-leader-election":             {"true", func(c *config.Config) { c.DisableLeaderElection = true }},
		"disable-cluster-state-observability": {"true", func(c *config.Config) { c.DisableClusterStateObservability = true }},
		"leader-election-name":                {"l", func(c *config.Config) { c.LeaderElectionName = "l" }},
		"leader-election-namespace":           {"ln", func(c *config.Config) { c.LeaderElectionNamespace = "ln" }},
		"memory-limit":                        {"1073741824", func(c *config.Config) { c.MemoryLimit = 1 << 30 }},
		"cpu-requests":                        {"2500", func(c *config.Config) { c.CPURequests = 2500 }},
		"log-level":                           {"debug", func(c *config.Config) { c.LogLevel = "debug" }},
		"log-output-paths":                    {"stdout, /tmp/x", func(c *config.Config) { c.LogOutputPaths = []string{"stdout", "/tmp/x"} }},
		"log-error-output-paths":              {"stdout", func(c *config.Config) { c.LogErrorOutputPaths = []string{"stdout"} }},
		"batch-max-duration":                  {"20s", func(c *config.Config) { c.BatchMaxDuration = 20 * time.Second }},
		"batch-idle-duration":                 {"500ms", func(c *config.Config) { c.BatchIdleDuration = 500 * time.Millisecond }},
		"preference-policy":                   {"Ignore", func(c *config.Config) { c.PreferencePolicy = "Ignore" }},
		"min-values-policy":                   {"BestEffort", func(c *config.Config) { c.MinValuesPolicy = "BestEffort" }},
		"ignore-dra-requests":                 {"false", func(c *config.Config) { c.IgnoreDRARequests = false }},
		"feature-gates":                       {"NodeRepair=true", func(c *config.Config) { c.Gates.NodeRepair = true }},
		"placement-hints":                     {"off", func(c *config.Config) { c.PlacementHints = "off" }},
		"consolidation-minimum-saving":        {"0.05", func(c *config.Config) { c.ConsolidationMinimumSaving = 0.05 }},
		"scheduler-config": {`{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule"}]}}`, func(c *config.Config) {
			c.SchedulerConfig = `{"podTopologySpread":{"defaultConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule"}]}}`
			c.DefaultSpread = []cluster.Spread{{Key: "z", MaxSkew: 1, Hard: true, HonorAffinity: true}}
		}},
		"cluster-name":               {"other", func(c *config.Config) { c.AWS.ClusterName = "other" }},
		"cluster-endpoint":           {"https://x.example.com", func(c *config.Config) { c.AWS.ClusterEndpoint = "https://x.example.com" }},
		"cluster-ca-bundle":          {"Zm9v", func(c *config.Config) { c.AWS.ClusterCABundle = "Zm9v" }},
		"isolated-vpc":               {"true", func(c *config.Config) { c.AWS.IsolatedVPC = true }},
		"eks-control-plane":          {"true", func(c *config.Config) { c.AWS.EKSControlPlane = true }},
		"vm-memory-overhead-percent": {"0", func(c *config.Config) { c.AWS.VMMemoryOverheadPercent = 0 }},
		"interruption-queue":         {"q", func(c *config.Config) { c.AWS.InterruptionQueue = "q" }},
		"reserved-enis":              {"2", func(c *config.Config) { c.AWS.ReservedENIs = 2 }},
		"disable-dry-run":            {"true", func(c *config.Config) { c.AWS.DisableDryRun = true }},
		"enable-zonal-shift":         {"true", func(c *config.Config) { c.AWS.EnableZonalShift = true }},
		"ami-refresh-interval":       {"2m", func(c *config.Config) { c.AWS.AMIRefreshInterval = 2 * time.Minute }},
		"subnet-refresh-interval":    {"3m", func(c *config.Config) { c.AWS.SubnetRefreshInterval = 3 * time.Minute }},
		"rebalance-recommendations":  {"true", func(c *config.Config) { c.AWS.RebalanceRecommendations = true }},
		"AWS_REGION":                 {"eu-west-1", func(c *config.Config) { c.AWS.Region = "eu-west-1" }},
		"SYSTEM_NAMESPACE":           {"karp", func(c *config.Config) { c.SystemNamespace = "karp" }},
		"POD_NAME":                   {"p", func(c *config.Config) { c.PodName = "p" }},
		"kubeconfig":                 {"/k", func(c *config.Config) { c.Kubeconfig = "/k" }},
		"context":                    {"c", func(c *config.Config) { c.KubeContext = "c" }},
	}
}

// Every setting is read from its flag and from its environment variable, changes nothing else, and the flag wins.
func TestEverySetting(t *testing.T) {
	rows := settings()
	for _, s := range config.Table() {
		name := s.Flag
		if name == "" {
			name = s.Env
		}
		row, ok := rows[name]
		if !ok {
			t.Errorf("setting %s has no test", name)
			continue
		}
		delete(rows, name)
		t.Run(name, func(t *testing.T) {
			want, err := parse(nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			row.want(&want)
			check := func(args []string, env map[string]string) {
				t.Helper()
				got, err := parse(args, env)
				if err != nil {
					t.Fatalf("args %q, env %v: %v", args, env, err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("args %q, env %v (-want +got):\n%s", args, env, diff)
				}
			}
			check(nil, map[string]string{s.Env: row.value})
			if s.Flag != "" {
				check([]string{"--" + s.Flag + "=" + row.value}, nil)
				check([]string{"--" + s.Flag + "=" + row.value}, map[string]string{s.Env: s.Default})
			}
		})
	}
	for name := range rows {
		t.Errorf("%s is not a setting", name)
	}
}

func TestEnvironmentFallsBack(t *testing.T) {
	want, err := parse(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range config.Table() {
		if s.Kind == config.String || s.Kind == config.List {
			continue
		}
		for _, bad := range []string{"", "nonsense", "1x"} {
			got, err := parse(nil, map[string]string{s.Env: bad})
			if err != nil {
				t.Errorf("%s=%q: %v", s.Env, bad, err)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s=%q (-want +got):\n%s", s.Env, bad, diff)
			}
		}
	}
}

func TestBooleans(t *testing.T) {
	for _, tc := range []struct {
		args []string
		env  string
		want bool
		bad  bool
	}{
		{args: []string{"--enable-profiling"}, want: true},
		{args: []string{"--enable-profiling=true"}, want: true},
		{args: []string{"--enable-profiling=false"}, env: "true"},
		{args: []string{"--enable-profiling=1"}, bad: true},
		{args: []string{"--enable-profiling=T"}, bad: true},
		{env: "1", want: true},
		{env: "t", want: true},
		{env: "TRUE", want: true},
		{env: "yes"},
	} {
		got, err := parse(tc.args, map[string]string{"ENABLE_PROFILING": tc.env})
		if (err != nil) != tc.bad || got.EnableProfiling != tc.want {
			t.Errorf("%q, env %q: %v, %v; want %v, error %v", tc.args, tc.env, got.EnableProfiling, err, tc.want, tc.bad)
		}
	}
}

func TestGates(t *testing.T) {
	def := map[string]bool{"ReservedCapacity": true, "SpotToSpotConsolidation": false, "NodeRepair": false, "NodeOverlay": false, "StaticCapacity": true, "CapacityBuffer": false}
	with := func(change map[string]bool) map[string]bool {
		out := maps.Clone(def)
		maps.Copy(out, change)
		return out
	}
	for _, tc := range []struct {
		flag, env string
		want      map[string]bool
	}{
		{env: "", want: def},
		{env: "NodeRepair=true,Unknown=true, ReservedCapacity=false", want: with(map[string]bool{"NodeRepair": true, "ReservedCapacity": false})},
		{env: "NodeRepair=true", flag: "StaticCapacity=false", want: with(map[string]bool{"StaticCapacity": false})},
	} {
		var args []string
		if tc.flag != "" {
			args = []string{"--feature-gates", tc.flag}
		}
		got, err := parse(args, map[string]string{"FEATURE_GATES": tc.env})
		if err != nil {
			t.Errorf("flag %q, env %q: %v", tc.flag, tc.env, err)
		} else if diff := cmp.Diff(tc.want, got.Gates.Map()); diff != "" {
			t.Errorf("flag %q, env %q (-want +got):\n%s", tc.flag, tc.env, diff)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		args []string
		env  map[string]string
		want string
	}{
		{env: map[string]string{"CLUSTER_NAME": ""}, want: "--cluster-name (CLUSTER_NAME): is empty"},
		{args: []string{"--metrics-port=x"}, want: "metrics-port"},
		{args: []string{"--batch-idle-duration=1"}, want: "batch-idle-duration"},
		{args: []string{"--batch-idle-duration=-1s"}, want: "negative"},
		{args: []string{"--no-such-flag"}, want: "no-such-flag"},
		{args: []string{"extra"}, want: `unexpected argument "extra"`},
		{env: map[string]string{"LOG_LEVEL": "warn"}, want: `--log-level (LOG_LEVEL): "warn" is not one of`},
		{env: map[string]string{"PREFERENCE_POLICY": "x"}, want: "PREFERENCE_POLICY"},
		{env: map[string]string{"MIN_VALUES_POLICY": "strict"}, want: "MIN_VALUES_POLICY"},
		{env: map[string]string{"PLACEMENT_HINTS": "yes"}, want: "PLACEMENT_HINTS"},
		{env: map[string]string{"CONSOLIDATION_MINIMUM_SAVING": "2"}, want: "CONSOLIDATION_MINIMUM_SAVING"},
		{env: map[string]string{"FEATURE_GATES": "NodeRepair"}, want: "FEATURE_GATES"},
		{env: map[string]string{"FEATURE_GATES": "NodeRepair=maybe"}, want: "maybe"},
		{env: map[string]string{"CLUSTER_ENDPOINT": "example.com"}, want: "CLUSTER_ENDPOINT"},
		{env: map[string]string{"STATUS_URL": "/x"}, want: "STATUS_URL"},
		{env: map[string]string{"VM_MEMORY_OVERHEAD_PERCENT": "-0.1"}, want: "VM_MEMORY_OVERHEAD_PERCENT"},
		{env: map[string]string{"VM_MEMORY_OVERHEAD_PERCENT": "NaN"}, want: "VM_MEMORY_OVERHEAD_PERCENT"},
		{env: map[string]string{"RESERVED_ENIS": "-1"}, want: "RESERVED_ENIS"},
		{env: map[string]string{"AMI_REFRESH_INTERVAL": "59s"}, want: "AMI_REFRESH_INTERVAL"},
		{env: map[string]string{"SUBNET_REFRESH_INTERVAL": "1s"}, want: "SUBNET_REFRESH_INTERVAL"},
		{env: map[string]string{"STATUS_PORT": "70000"}, want: "STATUS_PORT"},
		{env: map[string]string{"KUBE_CLIENT_QPS": "0"}, want: "KUBE_CLIENT_QPS"},
		{env: map[string]string{"LEADER_ELECTION_NAME": ""}, want: "LEADER_ELECTION_NAME"},
	} {
		_, err := parse(tc.args, tc.env)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q, env %v: error %v, want one with %q", tc.args, tc.env, err, tc.want)
		}
	}
	if _, err := parse([]string{"--help"}, nil); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v, want flag.ErrHelp", err)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := parse(nil, map[string]string{"LOG_LEVEL": "warn", "RESERVED_ENIS": "-1"})
	if err == nil || !strings.Contains(err.Error(), "LOG_LEVEL") || !strings.Contains(err.Error(), "RESERVED_ENIS") {
		t.Errorf("got %v, want both problems", err)
	}
}

// TestSchedulerConfig holds S-282 and S-283.
func TestSchedulerConfig(t *testing.T) {
	doc := func(entry string) string {
		return "podTopologySpread:\n  defaultConstraints:\n  - {" + entry + "}\n"
	}
	for entry, want := range map[string]string{
		"maxSkew: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule":                             "maxSkew 0",
		"maxSkew: 1, topologyKey: '', whenUnsatisfiable: DoNotSchedule":                            "topologyKey",
		"maxSkew: 1, topologyKey: 'a/b/c', whenUnsatisfiable: DoNotSchedule":                       "topologyKey",
		"maxSkew: 1, topologyKey: z, whenUnsatisfiable: Never":                                     "whenUnsatisfiable",
		"maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}":          "labelSelector",
		"maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [a]":        "matchLabelKeys",
		"maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, minDomains: 0":              "minDomains",
		"maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Sometime": "nodeTaintsPolicy",
		"maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, unknown: 1":                 "unknown",
	} {
		if _, err := parse(nil, map[string]string{"SCHEDULER_CONFIG": doc(entry)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("{%s}: error %v, want one with %q", entry, err, want)
		}
	}
	twice := "podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 2, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}]}"
	if _, err := parse(nil, map[string]string{"SCHEDULER_CONFIG": twice}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("two equal constraints: %v", err)
	}
	both := strings.Replace(twice, "ScheduleAnyway", "DoNotSchedule", 1) // S-283
	if c, err := parse(nil, map[string]string{"SCHEDULER_CONFIG": both}); err != nil || len(c.DefaultSpread) != 2 {
		t.Errorf("the same key hard and soft: %v, %v", c.DefaultSpread, err)
	}
}

func TestHints(t *testing.T) {
	for _, tc := range []struct {
		setting      string
		major, minor int
		want         bool
	}{
		{"auto", 1, 34, false}, {"auto", 1, 35, true}, {"auto", 2, 0, true}, {"on", 1, 30, true}, {"off", 1, 40, false},
	} {
		c := config.Config{PlacementHints: tc.setting}
		if got := c.Hints(tc.major, tc.minor); got != tc.want {
			t.Errorf("%s on %d.%d: %v, want %v", tc.setting, tc.major, tc.minor, got, tc.want)
		}
	}
}

func TestAdvertisedURL(t *testing.T) {
	for _, tc := range []struct {
		c    config.Config
		want string
	}{
		{config.Config{StatusPort: 8443}, "https://127.0.0.1:8443"},
		{config.Config{StatusPort: 8443, PodName: "p"}, ""},
		{config.Config{StatusPort: 0}, ""},
		{config.Config{StatusPort: 1, StatusURL: "https://x"}, "https://x"},
	} {
		if got := tc.c.AdvertisedURL(); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.c, got, tc.want)
		}
	}
}

func TestMarkdownNamesEverySetting(t *testing.T) {
	text := config.Markdown()
	flags := []string{}
	for _, s := range config.Table() {
		if !strings.Contains(text, "| `"+s.Env+"` |") {
			t.Errorf("%s is missing in\n%s", s.Env, text)
		}
		flags = append(flags, s.Env)
	}
	slices.Sort(flags)
	if len(slices.Compact(flags)) != len(config.Table()) {
		t.Error("two settings share an environment variable")
	}
}
