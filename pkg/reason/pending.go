package reason

import (
	"time"

	"github.com/karp-sh/karp/pkg/units"
)

// Pending is the answer to "why has this pod no node?". It is data only: codes, names and exact numbers, from which package view
// makes sentences and reports.
type Pending struct {
	// Pod is the subject; Owner its controller (zero if none).
	Pod   Object
	Owner Object
	// At is the instant of the snapshot, Since when the pod became pending (zero if unknown).
	At, Since time.Time

	// Code, Sub, Layer and Certainty are the answer. Sub refines the code (NotInitializing + StartupTaint) and is mostly empty.
	Code      Code
	Sub       Code
	Layer     Layer
	Certainty Certainty
	// Blocked tells that a person may have to act: it is what --exit-code reports.
	Blocked bool

	// Nearest is the name of the nearest-miss pool, empty if the pools were not ranked.
	Nearest string
	// CloudClosed names pools of higher weight than the nearest one that are closed only by the cloud.
	CloudClosed []string
	// Pools holds what stopped each pool, nearest first.
	Pools []PoolAnswer
	// Fixes in the order to print them.
	Fixes []Fix

	// Request details layer-0 answers.
	Request RequestDetail
	// Coming is the node that is on its way (CapacityComing and the codes of layer Launch).
	Coming *Coming
	// WhenReleased is what would be launched if the pod asked for a node (SchedulingGated), nil if nothing.
	WhenReleased *Purchase
	// RoomOn names the node the engine would use although the scheduler did not (SchedulerDisagrees).
	RoomOn string
	// Records are the events and conditions the answer rests on.
	Records []Record
	// Attempts are the launches that failed for pods like this one, nil if none is recorded.
	Attempts *Attempts
	// Dropped lists preferences that were given up before the pod was found not to fit.
	Dropped []string
	// Unknown lists what could not be read and could change the answer; the answer is then partial.
	Unknown []string
}

// Object names an API object.
type Object struct {
	Kind, Namespace, Name, UID string
}

// String returns namespace/name, or the name of a cluster-scoped object.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Name
	}
	return o.Namespace + "/" + o.Name
}

// RequestDetail says why a pod does not ask for a node.
type RequestDetail struct {
	// Gates are the closed scheduling gates.
	Gates []string
	// Scheduler is spec.schedulerName; Nominated the node the pod waits for after a preemption; Node the node it already has.
	Scheduler, Nominated, Node string
	// Claim is the volume claim that cannot be used, Problem and ProblemDetail why.
	Claim, Problem, ProblemDetail string
	// Key and Value are the invalid or restricted requirement.
	Key, Value string
}

// PoolAnswer is where the funnel of one pool ended for the pod.
type PoolAnswer struct {
	Pool   string
	Weight int32
	// Order is the pool's place in the engine's own order of trying, from 1.
	Order     int
	Layer     Layer
	Code      Code
	Certainty Certainty
	Funnel    Funnel

	// Constraints lists every taint, label, volume, spread and affinity the pool fails, not only that of Code.
	Constraints []ConstraintMiss
	// Resources lists the amounts no type of the pool has, against the type that comes nearest.
	Resources []ResourceMiss
	// Offerings lists the closed offerings that would do otherwise.
	Offerings []OfferingState
	// NotSold lists zones that pool and pod allow but where the remaining types are not sold at all.
	NotSold []OfferingState
	// Limits lists the exhausted limits.
	Limits []LimitMiss
	// Spread shows the domains of the constraint behind SpreadUnsatisfiable.
	Spread *SpreadState
	// Affinity shows the term behind AffinityUnsatisfiable.
	Affinity *AffinityState
	// Volumes shows the volumes behind VolumeZoneConflict.
	Volumes []VolumeState
	// Ready shows the chain behind NodePoolNotReady.
	Ready *ReadyState
	// Static shows the size of a static pool.
	Static *StaticState

	// Distance of the pool; Sets are all its smallest sets of changes, best first, none if no set would help.
	Distance Distance
	Sets     [][]Change
}

// Distance ranks pools and fixes (the nearest-miss rule).
type Distance struct {
	// Reachable is false if no set of changes helps; the other fields are then zero and the pool ranks last.
	Reachable bool
	// Conditions is the size of the smallest set.
	Conditions int
	// Kind is the costliest kind of change in the set.
	Kind Kind
	// Gap is the largest relative gap in the set, 0..1.
	Gap float64
	// Price of the cheapest offering that would then do, per hour.
	Price units.Money
	// Stranger tells that the set has the pod tolerate a taint that keeps pods like it out: another pool would take it but for its limits, its
	// readiness or the cloud. Such a pool is farther than one that would take the pod.
	Stranger bool
	// Blind tells that the pool suits the pod by taints and labels, but is not ready and nobody knows what it would launch.
	Blind bool
}

// Tier orders distances before everything else: sets that help, pools that suit but are not ready, sets that only strangers would take, the rest.
func (d Distance) Tier() int {
	switch {
	case d.Reachable && !d.Stranger:
		return 0
	case d.Blind:
		return 1
	case d.Reachable:
		return 2
	}
	return 3
}

// Kind orders changes from what is given up easily to what cannot be commanded.
type Kind int

// The kinds of change, cheapest first.
const (
	LowersRequest  Kind = iota + 1 // the pod asks for at most 10 % less
	AddsToleration                 // the pod adds a toleration
	OpensPool                      // the pool opens up: limit, replicas, zone, type, value, on-demand, readiness
	AsksMuchLess                   // the pod asks for more than 10 % less
	GivesUp                        // the pod gives up a selector, affinity or spread; the pool adopts a label or lets spot in
	WaitsForTheSky                 // the cloud has to change, or time has to pass
)

// ConstraintMiss is one thing the pod and the pool disagree on.
type ConstraintMiss struct {
	// Kind is taint, label, volume, spread, affinity or hostPort.
	Kind string
	Code Code
	Key  string
	// PodWants and PoolHas spell both sides ("In [batch]", "" for nothing).
	PodWants, PoolHas string
	// Unknown tells that no pool and no type has the value wanted, a spelling mistake perhaps; Near are the most similar ones there are.
	Unknown bool
	Near    []string
}

// ResourceMiss compares a request with the best the pool has.
type ResourceMiss struct {
	Name string
	// Wants is what the pod asks for, Best the most one type of the pool leaves, BestType that type. Short is Wants - Best.
	Wants, Best, Short int64
	BestType           string
	// Types is the number of types of the pool, Having the number that have the resource at all.
	Types, Having int
	// Breakdown shows how Best comes about, zero for resources a type lacks.
	Breakdown Breakdown
}

// Breakdown takes an amount of hardware apart: Raw - VMOverhead - KubeReserved - SystemReserved - Eviction = Allocatable;
// Allocatable - DaemonSets = Left.
type Breakdown struct {
	Raw, VMOverhead, KubeReserved, SystemReserved, Eviction int64
	Allocatable, DaemonSets, Left                           int64
	// VMOverheadPPM is the setting behind VMOverhead, in parts per million.
	VMOverheadPPM int64
	// Daemons lists the DaemonSets that count.
	Daemons []DaemonShare
	// LiveNodes is the number of running nodes of this type that show the allocatable.
	LiveNodes int
}

// DaemonShare is what one DaemonSet takes of one resource on each node.
type DaemonShare struct {
	Namespace, Name string
	Amount          int64
}

// OfferingState is one offering and whether it can be bought.
type OfferingState struct {
	Type, Zone, CapacityType string
	Price                    units.Money
	Available                bool
	// Reason is the cloud's code while it is closed; Until is when it is tried again, zero if unknown.
	Reason string
	Until  time.Time
}

// LimitMiss is a limit that leaves no type that would do.
type LimitMiss struct {
	Resource string
	// Limit, Used and Left = Limit - Used.
	Limit, Used, Left int64
	// Needs is the smallest amount a type that would do adds, NeedsType that type.
	Needs     int64
	NeedsType string
	// Short says by how much the best type within the limit is too small for the pod, per resource; empty if the limit leaves none.
	Short map[string]int64
	// WithinType is the type Short speaks of.
	WithinType string
}

// SpreadState shows a spread constraint over its domains.
type SpreadState struct {
	Index         int
	Key           string
	MaxSkew       int32
	MinDomains    int32
	Minimum, Self int
	Domains       []DomainState
}

// AffinityState shows a term of required affinity or anti-affinity to other pods over its domains.
type AffinityState struct {
	// Kind is affinity, anti, or repelled: the term is one of another pod, which keeps this one away.
	Kind string
	Key  string
	// Selector spells which pods the term is about, Keepers are pods whose terms keep this one away (three at most).
	Selector string
	Keepers  []Object
	Domains  []DomainState
}

// Allows reports whether the term would let the pod into a domain.
func (s AffinityState) Allows(d DomainState) bool { return d.Count > 0 == (s.Kind == "affinity") }

// Attempts sums up launches that failed.
type Attempts struct {
	Pool string
	// Count of failures, and of the claims that were made for them.
	Count, Claims int
	First, Last   time.Time
	// Reason and Message are those of the last failure. What lists the offerings that the cloud refused by name, as in "g5.xlarge in us-east-1a, us-east-1b".
	Reason, Message string
	What            []string
}

// DomainState is one domain of a constraint about other pods.
type DomainState struct {
	Domain string
	// Count of matching pods, Skew the skew after adding the pod here (spread only).
	Count, Skew int
	// PoolAllows tells that the pool may launch here, RoomOnNodes that an existing node here has room for the pod.
	PoolAllows, RoomOnNodes bool
}

// VolumeState is a volume that pins the pod.
type VolumeState struct {
	Claim, PV string
	Key       string
	// Values the volume allows for Key, and those the pool allows.
	Values, PoolValues []string
}

// ReadyState is the chain of what is not ready, from the pool down.
type ReadyState struct {
	// Chain holds one link per object; the last is the cause.
	Chain []ReadyLink
	// SubnetSelector spells the class's subnet selector, Subnets is the number it resolved to.
	SubnetSelector string
	Subnets        int
	// ClassMissing tells that there is no such class, ClassDeleting that it is being deleted and waits for the end of so many ClassClaims.
	ClassMissing, ClassDeleting bool
	ClassClaims                 int
}

// ReadyLink is one object that is not ready.
type ReadyLink struct {
	Object                Object
	Type, Reason, Message string
	Since                 time.Time
}

// StaticState describes a pool of fixed size.
type StaticState struct {
	Replicas int64
	// Nodes is the number of nodes it has, Full the number without room for the pod. GateOff tells that the controller ignores replicas.
	Nodes, Full int
	GateOff     bool
}

// Coming is a node on its way, and how far it got.
type Coming struct {
	// Claim is the NodeClaim's name, empty while it is only planned; Node the node's, empty while there is none.
	Claim, Node            string
	Pool                   string
	Type, Zone             string
	CapacityType           string
	Created, Launched      time.Time
	Registered             time.Time
	RegisterBy, ExpiresAt  time.Time
	Price                  units.Money
	NodeReady              bool
	Problem, ProblemDetail string
	// Taints are the startup taints still present.
	Taints []string
	// Failing are pods on the node that do not start.
	Failing []FailingPod
}

// FailingPod is a pod that does not start or keeps crashing.
type FailingPod struct {
	Pod      Object
	Owner    Object
	Reason   string
	Restarts int
}

// Record is an event or condition that was used as evidence.
type Record struct {
	Object          Object
	Reason, Message string
	At              time.Time
}

// Purchase is a node that would be launched.
type Purchase struct {
	Pool, Type, Zone, CapacityType string
	Price                          units.Money
	PriceUnknown                   bool
}

// FixOwner is who can carry out a fix.
type FixOwner string

// The owners of fixes, in the order in which equal fixes are printed.
const (
	ByPod     FixOwner = "pod"
	ByPool    FixOwner = "pool"
	ByCluster FixOwner = "cluster"
	ByCloud   FixOwner = "cloud"
	ByWait    FixOwner = "wait"
	ByAccept  FixOwner = "accept"
)

// Action is what a change does.
type Action string

// The actions.
const (
	LowerRequest    Action = "LowerRequest"    // Key = resource, From/To = amounts
	AddToleration   Action = "AddToleration"   // Key, To = value, Effect
	DropSelector    Action = "DropSelector"    // Key = label, From = what the pod wants
	DropAffinity    Action = "DropAffinity"    // Key = topology key, Index = term, From = affinity or anti, To = selector
	SoftenAffinity  Action = "SoftenAffinity"  // as DropAffinity: the term becomes a preference
	ScheduleAnyway  Action = "ScheduleAnyway"  // Key = topology key, Index = constraint
	LowerMinDomains Action = "LowerMinDomains" // Key = topology key, Index = constraint
	RaiseMaxSkew    Action = "RaiseMaxSkew"    // Key = topology key, Index = constraint, From/To
	AddValue        Action = "AddValue"        // Key = requirement, To = value, Others = values that do as well
	DropRequirement Action = "DropRequirement" // Key = requirement, From = what it says
	LowerMinValues  Action = "LowerMinValues"  // Key = requirement, From/To
	RaiseLimit      Action = "RaiseLimit"      // Key = resource, From/To
	AddReplica      Action = "AddReplica"      // From/To
	MakeReady       Action = "MakeReady"       // the pool's node class has to become Ready
	AddLabel        Action = "AddLabel"        // Key, To
	NewPool         Action = "NewPool"         // a copy of the pool with label Key = To
	WaitUntil       Action = "WaitUntil"       // Until; From = the cloud's reason
	MoveData        Action = "MoveData"        // Key = claim, Others = zones the pool allows
	RepairDaemonSet Action = "RepairDaemonSet" // Object = the DaemonSet or its pod
	DeleteClaim     Action = "DeleteClaim"     // Object = the NodeClaim
	AddSubnet       Action = "AddSubnet"       // Others = zones without subnet
)

// Change is one condition of a set: what would have to be different.
type Change struct {
	Owner  FixOwner
	Action Action
	// Object that changes.
	Object Object
	Key    string
	// Index of the constraint or requirement in the object's list.
	Index    int
	From, To string
	// Amount and Was are From and To as numbers, for requests and limits.
	Was, Amount int64
	Effect      string
	Until       time.Time
	// Others are values that do just as well as To.
	Others []string
	// Limit is the resource in the pool's limits that keeps out types on which less would have to change.
	Limit string
}

// Fix is a way out, simulated unless it lies outside the simulation.
type Fix struct {
	Owner   FixOwner
	Pool    string
	Changes []Change
	// Verified tells that the change was applied to a copy of the snapshot and the engine placed the pod.
	Verified bool
	Effect   FixEffect
	Distance Distance
	// LosesGuarantee, MayBeInterrupted and Repeats are warnings the text must carry.
	LosesGuarantee, MayBeInterrupted, Repeats bool
}

// FixEffect is what the simulation of a fix found.
type FixEffect struct {
	// Launch is the node that would be launched, nil if the pod goes to an existing one, which Node then names.
	Launch *Purchase
	Node   string
	// Drift is the number of nodes that are not drifted now and would be.
	Drift int
}

// PendingGroup is a set of pods with the same answer.
type PendingGroup struct {
	Code, Sub Code
	Layer     Layer
	Nearest   string
	Blocked   bool
	// Since is the earliest time a pod of the group became pending.
	Since time.Time
	// Example is the answer for the pod that waits longest.
	Example Pending
	// Pods in ascending order of namespace and name.
	Pods []Object
}

// NotInitializing is refined by what holds the node.
const (
	StartupTaint          Code = "StartupTaint"
	EphemeralTaint        Code = "EphemeralTaint"
	ResourceNotRegistered Code = "ResourceNotRegistered"
	NodeNotReady          Code = "NodeNotReady"
)
