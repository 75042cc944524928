// Package cluster holds the Snapshot: everything a decision may depend on, at one instant, as plain values.
//
// A Builder takes objects in and out as they change and yields Snapshots; edges translate API objects into the values of this
// package and nothing else knows about the API. A Snapshot is never changed after it was built.
package cluster

import (
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// Pod is one pod: its identity and its state. What decides where it may run is in its Shape, which equal pods share.
type Pod struct {
	UID, Namespace, Name string
	Created              time.Time
	Shape                *Shape
	// Labels of the pod; pods with equal labels may share the map. They count only where a selector looks at them.
	Labels map[string]string
	Owner  Owner
	// Node is spec.nodeName, empty while unbound.
	Node string
	// Nominated is status.nominatedNodeName. NominatedByKarp tells that it is our own placement hint (scheduling rules 26).
	Nominated       string
	NominatedByKarp bool
	// Scheduled is the reason of the condition PodScheduled (Unschedulable, SchedulingGated, ...), empty if there is none;
	// ScheduledMessage its message, Since when it last changed.
	Scheduled, ScheduledMessage string
	Since                       time.Time
	// Phase is Pending, Running, Succeeded, Failed or Unknown.
	Phase string
	// Started is status.startTime, zero if unset; Deleted the deletion timestamp, zero if unset.
	Started, Deleted time.Time
	// Ready is the condition Ready being True, Unready its being False; neither if it is missing or unknown.
	Ready, Unready bool
	// DeletionCost is the annotation controller.kubernetes.io/pod-deletion-cost, 0 if it is absent or no number.
	DeletionCost float64
	// DoNotDisrupt is the value of the annotation karpenter.sh/do-not-disrupt, empty if absent.
	DoNotDisrupt string
	// EvictionBlocked tells that a PodDisruptionBudget never allows this pod to be evicted (scheduling rules 2.3).
	EvictionBlocked string
	// Buffer is set on a virtual pod: the capacity buffer it stands for, as namespace/name (scheduling rules 24.3). Such a pod is planned for
	// like a pending one and exists nowhere else.
	Buffer string
	// DeviceClaims are the claims for devices that the pod uses (scheduling rules 22.2), those that ask for nothing left out. It is nil where
	// such claims are not simulated.
	DeviceClaims []DeviceClaimRef
}

// Owner is the pod's controller, or its first owner if none is marked as controller.
type Owner struct {
	APIVersion, Kind, Name, UID string
}

// Shape is what makes pods interchangeable for scheduling. Shapes are immutable and compared by Key.
type Shape struct {
	// Key is a digest of all other fields; equal keys mean equal shapes.
	Key       string
	Namespace string
	// Requests are the effective requests, including one unit of "pods" (scheduling rules 5.1).
	Requests     units.List
	NodeSelector map[string]string
	// Required holds the terms of the required node affinity: OR over terms, AND inside one.
	Required []NodeTerm
	// Preferred holds the terms of the preferred node affinity in spec order.
	Preferred    []PreferredTerm
	Tolerations  []constraint.Toleration
	Spread       []Spread
	PodAffinity  PodAffinity
	AntiAffinity PodAffinity
	HostPorts    []HostPort
	Volumes      []Volume
	// ResourceClaims names the device claims (DRA) of the pod.
	ResourceClaims []string
	Priority       int32
	PriorityClass  string
	SchedulerName  string
	// SchedulingGates that are still closed.
	SchedulingGates []string
}

// NodeTerm is one term of a required node affinity.
type NodeTerm struct {
	Exprs []constraint.Expr
	// MatchFields tells that the term also has matchFields, which provisioning does not support (S-012).
	MatchFields bool
}

// PreferredTerm is one weighted term of a preferred node affinity.
type PreferredTerm struct {
	Weight int32
	Exprs  []constraint.Expr
}

// Selector is a label selector. A nil *Selector selects nothing, an empty one everything.
type Selector struct {
	MatchLabels map[string]string
	// Exprs use In, NotIn, Exists and DoesNotExist only.
	Exprs []constraint.Expr
}

// Spread is one topology spread constraint.
type Spread struct {
	Key       string
	MaxSkew   int32
	MinDomain int32 // 0 if unset
	// Hard is whenUnsatisfiable: DoNotSchedule.
	Hard           bool
	Selector       *Selector
	MatchLabelKeys []string
	// HonorAffinity (default true) and HonorTaints (default false) are the node inclusion policies.
	HonorAffinity, HonorTaints bool
}

// PodAffinity is the affinity, or the anti-affinity, of a pod to other pods.
type PodAffinity struct {
	Required  []PodTerm
	Preferred []WeightedPodTerm
}

// PodTerm is one term of a pod affinity or anti-affinity.
type PodTerm struct {
	TopologyKey string
	Selector    *Selector
	// Namespaces lists the namespaces; with NamespaceSelector the union; with neither the pod's own.
	Namespaces        []string
	NamespaceSelector *Selector
}

// WeightedPodTerm is a preferred PodTerm.
type WeightedPodTerm struct {
	Weight int32
	Term   PodTerm
}

// HostPort is a port of the node that the pod occupies. IP 0.0.0.0 (or empty) stands for all addresses.
type HostPort struct {
	IP, Protocol string
	Port         int32
}

// Volume is a persistent volume claim that the pod mounts, resolved as far as the cluster knows.
type Volume struct {
	// Claim is the claim's name in the pod's namespace, PV the bound volume's, empty if unbound.
	Claim, PV string
	// ID identifies the volume for attach limits: the CSI handle, or namespace/claim if unbound.
	ID, Driver string
	// Alternatives are the node-affinity terms of the volume, or the allowed topologies of its class: OR over the list. Empty means
	// anywhere.
	Alternatives [][]constraint.Expr
	// Problem is set when the claim cannot be used: a reason code such as ClaimNotFound, ClaimLost, ClassNotFound, Unbound.
	Problem, ProblemDetail string
}

// Pool is a NodePool with the facts scheduling needs.
type Pool struct {
	Name, UID  string
	Generation int64
	Weight     int32
	// Replicas is set on a static pool.
	Replicas *int64
	// Ready is the Ready condition being True; NotReady tells why not.
	Ready    bool
	NotReady Condition
	Deleting bool
	// NodeClass names the class; Class is its state, nil if there is no such object.
	NodeClass ClassRef
	Class     *Class
	// Labels and Annotations of the template, without the ones karp adds.
	Labels, Annotations   map[string]string
	Requirements          []constraint.Expr
	Taints, StartupTaints []constraint.Taint
	// ExpireAfter and TerminationGracePeriod are kept as written.
	ExpireAfter, TerminationGracePeriod string
	// Limits by resource name, including "nodes"; nil if the pool has none.
	Limits units.List
	// Hash and HashVersion go onto claims of this pool.
	Hash, HashVersion string
	// Disruption limits how its nodes are disrupted.
	Disruption Disruption
	// Catalog is what the pool's class can launch; nil if it could not be read, which CatalogProblem explains.
	Catalog        *catalog.Catalog
	CatalogProblem string
}

// Policies of consolidation. The empty one stands for WhenEmptyOrUnderutilized.
const (
	WhenEmpty                = "WhenEmpty"
	WhenEmptyOrUnderutilized = "WhenEmptyOrUnderutilized"
	Balanced                 = "Balanced"
)

// Disruption is how nodes of a pool may be disrupted (disruption rules 7 to 9). The zero value allows everything at once.
type Disruption struct {
	// Policy is the consolidation policy.
	Policy string
	// After is consolidateAfter; Never turns consolidation off.
	After time.Duration
	Never bool
	// Budgets as they are written; none at all stand for no limit.
	Budgets []Budget
}

// Budget bounds disruption, always or at certain times. It is kept as written, also if it is malformed.
type Budget struct {
	// Nodes is a number or a percentage.
	Nodes string
	// Reasons it applies to: nil stands for all, an empty list for none.
	Reasons []string
	// Schedule and Duration are both empty or both given.
	Schedule, Duration string
}

// PDB is a PodDisruptionBudget.
type PDB struct {
	Namespace, Name string
	Selector        *Selector
	// Allowed is status.disruptionsAllowed. Never tells that the spec can never allow an eviction.
	Allowed int32
	Never   bool
	// FreesUnready is unhealthyPodEvictionPolicy: AlwaysAllow.
	FreesUnready bool
	// Problem tells that the selector cannot be read; such a budget covers its whole namespace and allows nothing.
	Problem string
}

// ClassRef names a node class.
type ClassRef struct{ Group, Kind, Name string }

// Class is the state of a node class, neutral of the provider.
type Class struct {
	Name     string
	Ready    bool
	NotReady Condition
	// Zones are those of the resolved subnets, ascending.
	Zones []string
	// SubnetSelector describes the subnet selector terms for messages, e.g. "karpenter.sh/discovery=prod".
	SubnetSelector string
	Deleting       bool
}

// Condition is why something is not ready.
type Condition struct {
	Type, Reason, Message string
	Since                 time.Time
}

// Node is an existing Node object, before it is matched with its claim.
type Node struct {
	Name, UID, ProviderID string
	Labels, Annotations   map[string]string
	Taints                []constraint.Taint
	Capacity, Allocatable units.List
	Created, Deleted      time.Time
	Ready                 bool
	// AttachLimits is the number of volumes a CSI driver can attach here, from CSINode.
	AttachLimits map[string]int64
}

// Claim is an existing NodeClaim.
type Claim struct {
	Name, UID, ProviderID, NodeName string
	Pool                            string
	NodeClass                       ClassRef
	Labels, Annotations             map[string]string
	Requirements                    []constraint.Expr
	Requests                        units.List
	Taints, StartupTaints           []constraint.Taint
	Capacity, Allocatable           units.List
	Created, Deleted                time.Time
	Launched, Registered            bool
	Initialized, Terminating        bool
	// LaunchProblem is the Launched condition while it is not True (reason and message).
	LaunchProblem Condition
	// Marked tells that a running disruption command will remove the claim's node.
	Marked bool
	// ExpireAfter and TerminationGracePeriod as written in the spec.
	ExpireAfter, TerminationGracePeriod string
	// InitializedAt is when the condition Initialized became True; LastPodEvent when a pod last came or went; zero if unknown.
	InitializedAt, LastPodEvent time.Time
	// Consolidatable is that condition being True. Drifted is that condition being True, and Drift the condition itself.
	Consolidatable, Drifted bool
	Drift                   Condition
	// DisruptionReason is the reason of that condition while it is True. Command identifies the disruption command that holds the claim, by the
	// recorded intent; empty if there is none.
	DisruptionReason, Command string
}

// DaemonSet contributes its pod to every node it matches (scheduling rules 8).
type DaemonSet struct {
	Namespace, Name, UID string
	// Shape is that of the representative pod, with the required node affinity of the DaemonSet's template.
	Shape *Shape
}

// Unknown is something that could not be read. It forbids conclusions about what depends on it.
type Unknown struct {
	// Kind and Name of what is missing; an empty name stands for the whole kind.
	Kind, Name string
	// Problem is the error text.
	Problem string
}

// Settings are the controller settings a decision depends on.
type Settings struct {
	// IgnorePreferences is preference policy Ignore; BestEffortMinValues is minValues policy BestEffort.
	IgnorePreferences, BestEffortMinValues bool
	// StaticCapacity, ReservedCapacity are feature gates.
	StaticCapacity, ReservedCapacity bool
	IgnoreDRA                        bool
	// PlacementHints tells that planned placements are written as nominations.
	PlacementHints bool
	// VMMemoryOverhead in parts per million of a type's memory, for explanations.
	VMMemoryOverhead int64
	ClusterName      string
	// NodeOverlay and CapacityBuffer are feature gates.
	NodeOverlay, CapacityBuffer bool
	// SpotToSpot is the feature gate SpotToSpotConsolidation.
	SpotToSpot bool
	// MinimumSaving is what a replacement has to save, in parts per million of the price of what it replaces (consolidationMinimumSaving).
	MinimumSaving int64
	// DefaultSpread are the constraints of pods that declare none, without selectors (scheduling rules 18).
	DefaultSpread []Spread
	// DefaultGrace is the terminationGracePeriod of claims whose pool sets none, as the provider has it; empty, as on AWS, for none (scheduling
	// rules 25.4).
	DefaultGrace string
}
