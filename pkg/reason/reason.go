// Package reason holds the codes and the counts with which every decision explains itself.
//
// Codes are a closed enum per question, documented beside their definition and only ever extended. No sentence is built here or in the
// engine: package words says codes and arguments in sentences, package view lays them out for people and programs.
package reason

// Layer of the why-pending funnel, in the order in which it is run.
type Layer int

// The layers, numbered as in the documentation of why-pending.
const (
	Request Layer = iota
	Existing
	NodePool
	Constraints
	InstanceType
	Topology
	Offering
	Limit
	Launch
)

// String returns the layer's name as it appears in reports.
func (l Layer) String() string {
	return [...]string{"Request", "Existing", "NodePool", "Constraints", "InstanceType", "Topology", "Offering", "Limit", "Launch"}[l]
}

// Certainty of an answer.
type Certainty string

const (
	// Proven follows from spec and status.
	Proven Certainty = "proven"
	// Observed is what an event, a condition or a record says.
	Observed Certainty = "observed"
	// Estimated rests on a price or on a computed allocatable.
	Estimated Certainty = "estimated"
)

// Code names why something is or is not so. The zero value means "no objection".
type Code string

// The codes of why-pending by layer (see the plugin's documentation, one help page each).
const (
	// Layer Request: the pod does not ask for a node.
	SchedulingGated    Code = "SchedulingGated"
	OtherScheduler     Code = "OtherScheduler"
	AwaitingScheduler  Code = "AwaitingScheduler"
	Preempting         Code = "Preempting"
	DaemonSetPod       Code = "DaemonSetPod"
	OptedOut           Code = "OptedOut"
	InvalidVolumeClaim Code = "InvalidVolumeClaim"
	DRANotSupported    Code = "DRANotSupported"
	// InvalidDeviceClaim: a resource claim of the pod is missing, or asks for what no node can give.
	InvalidDeviceClaim Code = "InvalidDeviceClaim"
	NotPending         Code = "NotPending"
	// InvalidRequirement: a selector or affinity of the pod is invalid or restricted, so it is left out (scheduling rules 2.2).
	InvalidRequirement Code = "InvalidRequirement"

	// Layer Existing: there is room, or it is coming.
	CapacityComing     Code = "CapacityComing"
	SchedulerDisagrees Code = "SchedulerDisagrees"

	// Layer NodePool.
	NoNodePools        Code = "NoNodePools"
	NodePoolNotReady   Code = "NodePoolNotReady"
	NodePoolDeleting   Code = "NodePoolDeleting"
	NodePoolStaticOnly Code = "NodePoolStaticOnly"
	// CatalogUnknown: what the pool's class can launch could not be read.
	CatalogUnknown Code = "CatalogUnknown"

	// Layer Constraints.
	TaintNotTolerated Code = "TaintNotTolerated"
	LabelUnknown      Code = "LabelUnknown"
	LabelConflict     Code = "LabelConflict"

	// Layer InstanceType.
	ResourceNotOffered   Code = "ResourceNotOffered"
	TooBig               Code = "TooBig"
	TooManyPods          Code = "TooManyPods"
	HostPortConflict     Code = "HostPortConflict"
	MinValuesUnsatisfied Code = "MinValuesUnsatisfied"
	// DevicesUnavailable: no instance type has the devices that the pod's resource claims ask for.
	DevicesUnavailable Code = "DevicesUnavailable"

	// Layer Topology.
	VolumeZoneConflict    Code = "VolumeZoneConflict"
	SpreadUnsatisfiable   Code = "SpreadUnsatisfiable"
	AffinityUnsatisfiable Code = "AffinityUnsatisfiable"

	// Layer Offering.
	NoSuchOffering      Code = "NoSuchOffering"
	ZoneWithoutSubnet   Code = "ZoneWithoutSubnet"
	OfferingUnavailable Code = "OfferingUnavailable"
	QuotaReached        Code = "QuotaReached"
	ReservationFull     Code = "ReservationFull"
	ZonalShift          Code = "ZonalShift"
	OutOfIPs            Code = "OutOfIPs"

	// Layer Limit.
	LimitReached Code = "LimitReached"

	// Layer Launch.
	LaunchFailed    Code = "LaunchFailed"
	NotRegistering  Code = "NotRegistering"
	NotInitializing Code = "NotInitializing"

	// Unsupported marks a constraint this version does not understand; the pod is left alone rather than misplaced. Its argument names
	// the constraint.
	Unsupported Code = "Unsupported"

	// TargetGone: the node or claim that a pod was placed on is leaving or does not exist any more.
	TargetGone Code = "TargetGone"

	// Cut: the step budget of the policy ended before the pod was tried.
	Cut Code = "Cut"
)

// Count is one stage of an elimination funnel: after the check named by Code (and Detail, such as a label key), Left offerings of
// Types instance types remained.
type Count struct {
	Code   Code
	Detail string
	// Types and Offerings still in after this stage.
	Types, Offerings int
}

// Funnel counts what each check left over, in the order of the checks; the first entry (Code "") is the whole catalogue.
type Funnel []Count
