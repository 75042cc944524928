package v1beta1

// Condition types of a CapacityBuffer, which has no Ready.
const (
	// ConditionReadyForProvisioning is whether the pod and the number of copies are known.
	ConditionReadyForProvisioning = "ReadyForProvisioning"
	// ConditionProvisioning is whether the room is there.
	ConditionProvisioning = "Provisioning"
)

// Reasons of ConditionReadyForProvisioning.
const (
	ReasonResolved            = "Resolved"
	ReasonScalableRefNotFound = "ScalableRefNotFound"
	ReasonPodTemplateNotFound = "PodTemplateNotFound"
	ReasonResolutionFailed    = "ResolutionFailed"
)

// Reasons of ConditionProvisioning.
const (
	ReasonFitsExistingCapacity    = "FitsExistingCapacity"
	ReasonRequiresNewCapacity     = "RequiresNewCapacity"
	ReasonNotReadyForProvisioning = "NotReadyForProvisioning"
	ReasonBufferEmpty             = "BufferEmpty"
)
