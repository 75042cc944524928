package v1

// ConditionReady is the roll-up condition of every kind but CapacityBuffer.
const ConditionReady = "Ready"

// Condition types of a NodePool.
const (
	// ConditionValidationSucceeded is whether RuntimeValidate accepts the pool (or overlay).
	ConditionValidationSucceeded = "ValidationSucceeded"
	// ConditionNodeClassReady is whether the node class exists and is ready.
	ConditionNodeClassReady = "NodeClassReady"
	// ConditionNodeRegistrationHealthy is whether the last claims of the pool registered.
	ConditionNodeRegistrationHealthy = "NodeRegistrationHealthy"
	// ConditionDisruptionBudget says how much each budget allows and how much is used.
	ConditionDisruptionBudget = "DisruptionBudget"
)

// Condition types of a NodeClaim.
const (
	ConditionLaunched             = "Launched"
	ConditionRegistered           = "Registered"
	ConditionInitialized          = "Initialized"
	ConditionConsolidatable       = "Consolidatable"
	ConditionDrifted              = "Drifted"
	ConditionDrained              = "Drained"
	ConditionVolumesDetached      = "VolumesDetached"
	ConditionInstanceTerminating  = "InstanceTerminating"
	ConditionConsistentStateFound = "ConsistentStateFound"
	ConditionDisruptionReason     = "DisruptionReason"
)

// Reasons of NodePool conditions.
const (
	ReasonNodePoolValidationFailed  = "NodePoolValidationFailed"
	ReasonNodeClassNotFound         = "NodeClassNotFound"
	ReasonNodeClassTerminating      = "NodeClassTerminating"
	ReasonNodeClassReadinessUnknown = "NodeClassReadinessUnknown"
	ReasonRegistrationFailed        = "RegistrationFailed"
)

// Reasons of the NodeClaim condition Launched.
const (
	ReasonLaunchFailed                      = "LaunchFailed"
	ReasonInstanceTypeResolutionFailed      = "InstanceTypeResolutionFailed"
	ReasonSubnetResolutionFailed            = "SubnetResolutionFailed"
	ReasonSpotSLRCreationFailed             = "SpotSLRCreationFailed"
	ReasonUnauthorized                      = "Unauthorized"
	ReasonAMIAuthorizationFailure           = "AMIAuthorizationFailure"
	ReasonSecurityGroupSubnetVPCMismatch    = "SecurityGroupSubnetVPCMismatch"
	ReasonInstanceProfileNameInvalid        = "InstanceProfileNameInvalid"
	ReasonLaunchTemplateNotFound            = "LaunchTemplateNotFound"
	ReasonUserDataSizeLimitExceeded         = "UserDataSizeLimitExceeded"
	ReasonInvalidAMIID                      = "InvalidAMIID"
	ReasonAMINotFound                       = "AMINotFound"
	ReasonRequestLimitExceeded              = "RequestLimitExceeded"
	ReasonInternalError                     = "InternalError"
	ReasonFreeTierIneligible                = "FreeTierIneligible"
	ReasonFleetQuotaExceeded                = "FleetQuotaExceeded"
	ReasonAccountPendingVerification        = "AccountPendingVerification"
	ReasonSpotQuotaExceeded                 = "SpotQuotaExceeded"
	ReasonVCPULimitExceeded                 = "VCPULimitExceeded"
	ReasonInsufficientFreeAddressesInSubnet = "InsufficientFreeAddressesInSubnet"
)

// Reasons of the NodeClaim conditions Registered and Initialized.
const (
	ReasonNodeNotFound               = "NodeNotFound"
	ReasonMultipleNodesFound         = "MultipleNodesFound"
	ReasonRegistrationHookPending    = "RegistrationHookPending"
	ReasonNodeNotReady               = "NodeNotReady"
	ReasonStartupTaintsExist         = "StartupTaintsExist"
	ReasonKnownEphemeralTaintsExist  = "KnownEphemeralTaintsExist"
	ReasonResourceNotRegistered      = "ResourceNotRegistered"
	ReasonDRADriverPoolsNotPublished = "DRADriverPoolsNotPublished"
)

// Reasons of the NodeClaim condition Drifted, in the order in which they are tried.
const (
	ReasonNodePoolDrifted          = "NodePoolDrifted"
	ReasonRequirementsDrifted      = "RequirementsDrifted"
	ReasonInstanceTypeNotFound     = "InstanceTypeNotFound"
	ReasonNodeClassDrift           = "NodeClassDrift"
	ReasonAMIDrift                 = "AMIDrift"
	ReasonSecurityGroupDrift       = "SecurityGroupDrift"
	ReasonSubnetDrift              = "SubnetDrift"
	ReasonCapacityReservationDrift = "CapacityReservationDrift"
	ReasonPlacementGroupDrift      = "PlacementGroupDrift"
)

// Reasons of the NodeClaim conditions of termination and consistency.
const (
	ReasonDraining                      = "Draining"
	ReasonAwaitingVolumeDetachment      = "AwaitingVolumeDetachment"
	ReasonTerminationGracePeriodElapsed = "TerminationGracePeriodElapsed"
	ReasonConsistencyCheckFailed        = "ConsistencyCheckFailed"
)
