package v1alpha1

// Reasons of the condition ValidationSucceeded of a NodeOverlay.
const (
	// ReasonRuntimeValidation is an overlay that RuntimeValidate refuses.
	ReasonRuntimeValidation = "RuntimeValidation"
	// ReasonConflict is an overlay that another one of equal weight contradicts.
	ReasonConflict = "Conflict"
)
