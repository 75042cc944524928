// Package config is the agent's one typed configuration: flags, environment variables and defaults in one table.
//
// A flag wins over its environment variable, which wins over the default. An environment value that does not parse falls back to
// the default silently; a flag value that does not parse, and a setting that parses but makes no sense, is an error. Nothing here
// reads the process's environment: Parse is given what it may look at.
package config

import (
	"strconv"
	"time"

	"github.com/karp-sh/karp/pkg/cluster"
)

// Values of the preference policy, of the minValues policy and of placement hints.
const (
	Respect    = "Respect"
	Ignore     = "Ignore"
	Strict     = "Strict"
	BestEffort = "BestEffort"

	Auto = "auto"
	On   = "on"
	Off  = "off"
)

// Config is everything an operator can set. Create it with Parse or Default; the zero value is not useful.
type Config struct {
	// KarpenterService is informational: the name of the service in front of the agent.
	KarpenterService string
	// Ports of the metrics, probe and status endpoints; 0 turns an endpoint off.
	MetricsPort, HealthProbePort, StatusPort int
	// StatusURL is where the plugin finds the status endpoint of an agent outside the cluster; see AdvertisedURL.
	StatusURL string
	// MetricsSecure serves metrics over TLS to authorised callers only.
	MetricsSecure bool
	// KubeClientQPS and KubeClientBurst limit requests to the API server per second.
	KubeClientQPS, KubeClientBurst int
	EnableProfiling                bool
	// DisableControllerWarmup leaves informers stopped until leadership is won.
	DisableControllerWarmup bool
	DisableLeaderElection   bool
	// DisableClusterStateObservability drops metrics and events about cluster state.
	DisableClusterStateObservability bool
	LeaderElectionName               string
	// LeaderElectionNamespace is empty for the agent's own namespace; see LeaseNamespace.
	LeaderElectionNamespace string
	// MemoryLimit in bytes, negative if unlimited.
	MemoryLimit int64
	// CPURequests in millicores; always positive.
	CPURequests int
	// LogLevel is "", debug, info or error.
	LogLevel string
	// LogOutputPaths and LogErrorOutputPaths list stdout, stderr or files.
	LogOutputPaths, LogErrorOutputPaths []string
	BatchMaxDuration, BatchIdleDuration time.Duration
	PreferencePolicy, MinValuesPolicy   string
	IgnoreDRARequests                   bool
	Gates                               Gates
	// PlacementHints is auto, on or off.
	PlacementHints string
	// ConsolidationMinimumSaving is the fraction of the price of what it replaces that a replacement must save.
	ConsolidationMinimumSaving float64
	// SchedulerConfig is the document as given, DefaultSpread what it says: the cluster's default topology spread constraints.
	SchedulerConfig string
	DefaultSpread   []cluster.Spread

	// Kubeconfig is the path of a kubeconfig file, KubeContext the context in it; empty means in-cluster, then the usual default file.
	Kubeconfig, KubeContext string
	// SystemNamespace is the agent's own namespace; PodName its pod's name, empty outside a cluster.
	SystemNamespace, PodName string

	AWS AWS
}

// AWS are the settings of the AWS provider.
type AWS struct {
	ClusterName string
	// ClusterEndpoint is the API server's URL for nodes, empty to ask EKS; ClusterCABundle its CA in base64, empty for the agent's own.
	ClusterEndpoint, ClusterCABundle string
	// Region is empty to ask the instance metadata service.
	Region                  string
	IsolatedVPC             bool
	EKSControlPlane         bool
	VMMemoryOverheadPercent float64
	// InterruptionQueue is the name of the SQS queue; empty turns interruption handling off.
	InterruptionQueue        string
	ReservedENIs             int
	DisableDryRun            bool
	EnableZonalShift         bool
	AMIRefreshInterval       time.Duration
	SubnetRefreshInterval    time.Duration
	RebalanceRecommendations bool
}

// Gates are the feature gates.
type Gates struct {
	ReservedCapacity, SpotToSpotConsolidation, NodeRepair, NodeOverlay, StaticCapacity, CapacityBuffer bool
}

// LeaseNamespace is where the leader election's Lease lives.
func (c *Config) LeaseNamespace() string {
	if c.LeaderElectionNamespace != "" {
		return c.LeaderElectionNamespace
	}
	return c.SystemNamespace
}

// AdvertisedURL is the URL to publish for the status endpoint: empty for an agent in a pod, which is reached through the API server, and
// on this machine for one that runs outside the cluster and was told no other.
func (c *Config) AdvertisedURL() string {
	if c.StatusURL != "" || c.PodName != "" || c.StatusPort == 0 {
		return c.StatusURL
	}
	return "https://127.0.0.1:" + strconv.Itoa(c.StatusPort)
}

// Settings are the parts of the configuration a decision depends on. Hints tells whether placement hints are on, which with "auto"
// depends on the API server's version.
func (c *Config) Settings(hints bool) cluster.Settings {
	return cluster.Settings{
		IgnorePreferences:   c.PreferencePolicy == Ignore,
		BestEffortMinValues: c.MinValuesPolicy == BestEffort,
		StaticCapacity:      c.Gates.StaticCapacity,
		ReservedCapacity:    c.Gates.ReservedCapacity,
		IgnoreDRA:           c.IgnoreDRARequests,
		PlacementHints:      hints,
		VMMemoryOverhead:    int64(c.AWS.VMMemoryOverheadPercent*1e6 + 0.5),
		ClusterName:         c.AWS.ClusterName,
		NodeOverlay:         c.Gates.NodeOverlay,
		CapacityBuffer:      c.Gates.CapacityBuffer,
		SpotToSpot:          c.Gates.SpotToSpotConsolidation,
		MinimumSaving:       int64(c.ConsolidationMinimumSaving*1e6 + 0.5),
		DefaultSpread:       c.DefaultSpread,
	}
}

// Hints decides about placement hints: on, off, or with auto on from API server 1.35 (scheduling rules 26).
func (c *Config) Hints(major, minor int) bool {
	switch c.PlacementHints {
	case On:
		return true
	case Off:
		return false
	}
	return major > 1 || major == 1 && minor >= 35
}
