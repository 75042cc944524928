package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind is the type of a setting's value.
type Kind string

// The kinds. List is separated by commas.
const (
	String   Kind = "string"
	Int      Kind = "int"
	Bool     Kind = "bool"
	Float    Kind = "float"
	Duration Kind = "duration"
	List     Kind = "list"
)

// Setting is one row of the table.
type Setting struct {
	// Section groups rows in documentation.
	Section string
	// Flag without dashes, empty for what only the environment can set; Env its environment variable, empty for what only a flag can set.
	Flag, Env string
	Kind      Kind
	Default   string
	Meaning   string
	// Required tells that an empty value stops the process.
	Required bool
	// set parses a value into the configuration.
	set func(*Config, string) error
}

// Name is the flag as typed, or the environment variable.
func (s *Setting) Name() string {
	if s.Flag == "" {
		return s.Env
	}
	return "--" + s.Flag
}

// Sections of the table.
const (
	core = "Core"
	aws  = "AWS"
	kube = "Where the agent runs"
)

// Table returns all settings in the order of the documentation.
func Table() []Setting {
	return []Setting{
		{core, "karpenter-service", "KARPENTER_SERVICE", String, "", "name of the service in front of the agent (informational)", false, str(func(c *Config) *string { return &c.KarpenterService })},
		{core, "metrics-port", "METRICS_PORT", Int, "8080", "port of `/metrics`, and of `/debug/pprof` with profiling; 0 = off", false, num(func(c *Config) *int { return &c.MetricsPort })},
		{core, "metrics-secure", "METRICS_SECURE", Bool, "true", "serve metrics over TLS, to authenticated and authorised callers only", false, boolean(func(c *Config) *bool { return &c.MetricsSecure })},
		{core, "health-probe-port", "HEALTH_PROBE_PORT", Int, "8081", "port of `/healthz` and `/readyz`; 0 = off", false, num(func(c *Config) *int { return &c.HealthProbePort })},
		{core, "status-port", "STATUS_PORT", Int, "8443", "port of the status endpoint that the kubectl plugin reads; 0 = off", false, num(func(c *Config) *int { return &c.StatusPort })},
		{core, "status-url", "STATUS_URL", String, "", "URL of the status endpoint for the plugin, when the agent runs outside the cluster; empty = this machine", false, str(func(c *Config) *string { return &c.StatusURL })},
		{core, "kube-client-qps", "KUBE_CLIENT_QPS", Int, "200", "requests per second to the API server", false, num(func(c *Config) *int { return &c.KubeClientQPS })},
		{core, "kube-client-burst", "KUBE_CLIENT_BURST", Int, "300", "requests to the API server in a burst", false, num(func(c *Config) *int { return &c.KubeClientBurst })},
		{core, "enable-profiling", "ENABLE_PROFILING", Bool, "false", "serve `/debug/pprof` on the metrics port", false, boolean(func(c *Config) *bool { return &c.EnableProfiling })},
		{core, "disable-controller-warmup", "DISABLE_CONTROLLER_WARMUP", Bool, "true", "false = start informers before leadership is won", false, boolean(func(c *Config) *bool { return &c.DisableControllerWarmup })},
		{core, "disable-leader-election", "DISABLE_LEADER_ELECTION", Bool, "false", "for set-ups of a single replica", false, boolean(func(c *Config) *bool { return &c.DisableLeaderElection })},
		{core, "disable-cluster-state-observability", "DISABLE_CLUSTER_STATE_OBSERVABILITY", Bool, "false", "drop metrics and events about cluster state", false, boolean(func(c *Config) *bool { return &c.DisableClusterStateObservability })},
		{core, "leader-election-name", "LEADER_ELECTION_NAME", String, "karpenter-leader-election", "name of the Lease; Karpenter's by default, so that the two never run at once", true, str(func(c *Config) *string { return &c.LeaderElectionName })},
		{core, "leader-election-namespace", "LEADER_ELECTION_NAMESPACE", String, "", "namespace of the Lease; empty = the agent's own", false, str(func(c *Config) *string { return &c.LeaderElectionNamespace })},
		{core, "memory-limit", "MEMORY_LIMIT", Int, "-1", "bytes; the Go runtime's soft limit is 90 % of it; negative = none", false, parsed(func(c *Config) *int64 { return &c.MemoryLimit }, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })},
		{core, "cpu-requests", "CPU_REQUESTS", Int, "1000", "millicores; scales concurrency; 0 and less read as 1000", false, cpu},
		{core, "log-level", "LOG_LEVEL", String, "info", "`debug`, `info`, `error` or empty", false, str(func(c *Config) *string { return &c.LogLevel })},
		{core, "log-output-paths", "LOG_OUTPUT_PATHS", List, "stdout", "where logs go: `stdout`, `stderr` or files", false, list(func(c *Config) *[]string { return &c.LogOutputPaths })},
		{core, "log-error-output-paths", "LOG_ERROR_OUTPUT_PATHS", List, "stderr", "where errors of the logger itself go", false, list(func(c *Config) *[]string { return &c.LogErrorOutputPaths })},
		{core, "batch-max-duration", "BATCH_MAX_DURATION", Duration, "10s", "longest time to collect pending pods", false, duration(func(c *Config) *time.Duration { return &c.BatchMaxDuration })},
		{core, "batch-idle-duration", "BATCH_IDLE_DURATION", Duration, "1s", "quiet time that closes a batch", false, duration(func(c *Config) *time.Duration { return &c.BatchIdleDuration })},
		{core, "preference-policy", "PREFERENCE_POLICY", String, Respect, "`Respect` or `Ignore` preferred affinities", false, str(func(c *Config) *string { return &c.PreferencePolicy })},
		{core, "min-values-policy", "MIN_VALUES_POLICY", String, Strict, "`Strict` or `BestEffort`", false, str(func(c *Config) *string { return &c.MinValuesPolicy })},
		{core, "ignore-dra-requests", "IGNORE_DRA_REQUESTS", Bool, "true", "pods' resource claims are not simulated", false, boolean(func(c *Config) *bool { return &c.IgnoreDRARequests })},
		{core, "feature-gates", "FEATURE_GATES", String, "", "`Name=bool,...`; unknown names are ignored; ReservedCapacity and StaticCapacity are on if omitted, all others off", false, gates},
		{core, "placement-hints", "PLACEMENT_HINTS", String, Auto, "nominate planned nodes to the scheduler: `auto` (from API server 1.35), `on`, `off`", false, str(func(c *Config) *string { return &c.PlacementHints })},
		{core, "consolidation-minimum-saving", "CONSOLIDATION_MINIMUM_SAVING", Float, "0.02", "fraction of the price of what it replaces that a replacement must save; 0 = any saving, as in Karpenter", false, parsed(func(c *Config) *float64 { return &c.ConsolidationMinimumSaving }, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })},
		{core, "scheduler-config", "SCHEDULER_CONFIG", String, "", "YAML document with the cluster's default topology spread constraints (`podTopologySpread.defaultConstraints`)", false, str(func(c *Config) *string { return &c.SchedulerConfig })},

		{aws, "cluster-name", "CLUSTER_NAME", String, "", "name of the cluster", true, str(func(c *Config) *string { return &c.AWS.ClusterName })},
		{aws, "cluster-endpoint", "CLUSTER_ENDPOINT", String, "", "URL of the API server for nodes; empty = ask EKS", false, str(func(c *Config) *string { return &c.AWS.ClusterEndpoint })},
		{aws, "cluster-ca-bundle", "CLUSTER_CA_BUNDLE", String, "", "CA of the API server, base64; empty = the agent's own", false, str(func(c *Config) *string { return &c.AWS.ClusterCABundle })},
		{aws, "isolated-vpc", "ISOLATED_VPC", Bool, "false", "avoid services without VPC endpoint: built-in prices", false, boolean(func(c *Config) *bool { return &c.AWS.IsolatedVPC })},
		{aws, "eks-control-plane", "EKS_CONTROL_PLANE", Bool, "false", "read the Kubernetes version from EKS instead of the API server", false, boolean(func(c *Config) *bool { return &c.AWS.EKSControlPlane })},
		{aws, "vm-memory-overhead-percent", "VM_MEMORY_OVERHEAD_PERCENT", Float, "0.075", "fraction of memory that the hypervisor takes", false, parsed(func(c *Config) *float64 { return &c.AWS.VMMemoryOverheadPercent }, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })},
		{aws, "interruption-queue", "INTERRUPTION_QUEUE", String, "", "name of the SQS queue; empty = interruption handling is off", false, str(func(c *Config) *string { return &c.AWS.InterruptionQueue })},
		{aws, "reserved-enis", "RESERVED_ENIS", Int, "0", "network interfaces not used for pods", false, num(func(c *Config) *int { return &c.AWS.ReservedENIs })},
		{aws, "disable-dry-run", "DISABLE_DRY_RUN", Bool, "false", "do not check permissions by dry runs", false, boolean(func(c *Config) *bool { return &c.AWS.DisableDryRun })},
		{aws, "enable-zonal-shift", "ENABLE_ZONAL_SHIFT", Bool, "false", "avoid zones that ARC has shifted away from", false, boolean(func(c *Config) *bool { return &c.AWS.EnableZonalShift })},
		{aws, "ami-refresh-interval", "AMI_REFRESH_INTERVAL", Duration, "1m", "how often images are resolved; at least 1m", false, duration(func(c *Config) *time.Duration { return &c.AWS.AMIRefreshInterval })},
		{aws, "subnet-refresh-interval", "SUBNET_REFRESH_INTERVAL", Duration, "1m", "how often subnets are resolved; at least 1m", false, duration(func(c *Config) *time.Duration { return &c.AWS.SubnetRefreshInterval })},
		{aws, "rebalance-recommendations", "REBALANCE_RECOMMENDATIONS", Bool, "false", "replace nodes that spot recommends to rebalance", false, boolean(func(c *Config) *bool { return &c.AWS.RebalanceRecommendations })},

		{aws, "", "AWS_REGION", String, "", "region; empty = ask the instance metadata service", false, str(func(c *Config) *string { return &c.AWS.Region })},
		{kube, "", "SYSTEM_NAMESPACE", String, "kube-system", "the agent's own namespace", true, str(func(c *Config) *string { return &c.SystemNamespace })},
		{kube, "", "POD_NAME", String, "", "the agent's own pod; set by the manifests", false, str(func(c *Config) *string { return &c.PodName })},
		{kube, "kubeconfig", "KUBECONFIG", String, "", "kubeconfig file; empty = in-cluster, else the default file", false, str(func(c *Config) *string { return &c.Kubeconfig })},
		{kube, "context", "KUBE_CONTEXT", String, "", "context of the kubeconfig file; empty = its current one", false, str(func(c *Config) *string { return &c.KubeContext })},
	}
}

// parsed sets a field from a value that may not parse.
func parsed[T any](field func(*Config) *T, parse func(string) (T, error)) func(*Config, string) error {
	return func(c *Config, s string) error {
		v, err := parse(s)
		if err == nil {
			*field(c) = v
		}
		return err
	}
}

func str(field func(*Config) *string) func(*Config, string) error {
	return parsed(field, func(s string) (string, error) { return s, nil })
}

func num(field func(*Config) *int) func(*Config, string) error { return parsed(field, strconv.Atoi) }

func boolean(field func(*Config) *bool) func(*Config, string) error {
	return parsed(field, strconv.ParseBool)
}

func duration(field func(*Config) *time.Duration) func(*Config, string) error {
	return parsed(field, time.ParseDuration)
}

func list(field func(*Config) *[]string) func(*Config, string) error {
	return parsed(field, func(s string) ([]string, error) {
		var out []string
		for e := range strings.SplitSeq(s, ",") {
			if e = strings.TrimSpace(e); e != "" {
				out = append(out, e)
			}
		}
		return out, nil
	})
}

func cpu(c *Config, s string) error {
	n, err := strconv.Atoi(s)
	if err != nil {
		return err
	}
	if n <= 0 {
		n = 1000
	}
	c.CPURequests = n
	return nil
}

// malformed is an error of a value that must stop the process even if it comes from the environment.
type malformed struct{ error }

// gates parses Name=bool,...; names nobody knows are skipped, so that a value written for another version still works.
func gates(c *Config, s string) error {
	known := c.Gates.fields()
	for pair := range strings.SplitSeq(s, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return malformed{fmt.Errorf("%q is not of the form Name=true or Name=false", pair)}
		}
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if err != nil {
			return malformed{fmt.Errorf("%q: %q is neither true nor false", pair, value)}
		}
		if field, ok := known[strings.TrimSpace(name)]; ok {
			*field = on
		}
	}
	return nil
}

// defaultGates are the gates nobody has set.
func defaultGates() Gates { return Gates{ReservedCapacity: true, StaticCapacity: true} }

func (g *Gates) fields() map[string]*bool {
	return map[string]*bool{
		"ReservedCapacity":        &g.ReservedCapacity,
		"SpotToSpotConsolidation": &g.SpotToSpotConsolidation,
		"NodeRepair":              &g.NodeRepair,
		"NodeOverlay":             &g.NodeOverlay,
		"StaticCapacity":          &g.StaticCapacity,
		"CapacityBuffer":          &g.CapacityBuffer,
	}
}

// Map returns the gates by name.
func (g Gates) Map() map[string]bool {
	out := map[string]bool{}
	for name, field := range g.fields() {
		out[name] = *field
	}
	return out
}
