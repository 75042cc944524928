package lifecycle

import "maps"

// OutcomeKind is how a launch ended.
type OutcomeKind int

// The ways a launch can end (lifecycle rules 7).
const (
	// Created: an instance exists.
	Created OutcomeKind = iota
	// NoCapacity: nothing of what the claim allows can be bought.
	NoCapacity
	// ClassNotReady: the node class cannot be launched from.
	ClassNotReady
	// Failed: nothing was launched, for the given reason.
	Failed
	// OpenOutcome: nobody knows; the call will be repeated with its token.
	OpenOutcome
)

// Outcome is the result of a launch.
type Outcome struct {
	Kind OutcomeKind
	// Reason is a condition reason for Failed; Message the error text.
	Reason, Message string
	// Instance is what was created: the provider's labels and annotations for the claim.
	ProviderID          string
	Labels, Annotations map[string]string
}

// Reasons of karpenter_nodeclaims_disrupted_total and of other deletions decided here.
const (
	ReasonInsufficientCapacity = "insufficient_capacity"
	ReasonClassNotReady        = "nodeclass_not_ready"
	ReasonLaunchTimeout        = "launch_timeout"
	ReasonRegistrationTimeout  = "registration_timeout"
	ReasonExpired              = "expired"
	ReasonGarbageCollected     = "garbage_collected"
	ReasonUnhealthy            = "unhealthy"
)

// LaunchStep is what follows from the outcome of a launch.
type LaunchStep struct {
	// Conditions to set.
	Conditions []Condition
	// Delete gives the claim up for that reason; empty keeps it.
	Delete string
	// Retry tells that the launch has to be tried again with back-off.
	Retry bool
	// Labels and Annotations the claim ends up with; nil leaves them.
	Labels, Annotations map[string]string
	// ClearNode tells that a different instance was recorded before, so status.nodeName is cleared (LX12).
	ClearNode bool
	// Outcome to record in the intent.
	Outcome IntentOutcome
}

// Launch decides what follows from the outcome of a launch (L-012 to L-036).
func Launch(c *Claim, o Outcome) LaunchStep {
	switch o.Kind {
	case NoCapacity:
		return LaunchStep{Delete: ReasonInsufficientCapacity, Outcome: OutcomeFailed}
	case ClassNotReady:
		return LaunchStep{Delete: ReasonClassNotReady, Outcome: OutcomeFailed}
	case Failed, OpenOutcome:
		step := LaunchStep{Retry: true, Outcome: OutcomeFailed}
		if o.Kind == OpenOutcome {
			step.Outcome = OutcomeUnknown
		}
		reason := o.Reason
		if reason == "" {
			reason = "LaunchFailed"
		}
		step.Conditions = []Condition{waiting(Launched, reason, Truncate(o.Message))}
		return step
	default: // launched, below
	}
	step := LaunchStep{
		Conditions:  []Condition{done(Launched)},
		Labels:      overlay(o.Labels, c.Labels),
		Annotations: overlay(c.Annotations, o.Annotations),
		Outcome:     OutcomeDone,
	}
	if c.ProviderID != "" && c.ProviderID != o.ProviderID {
		step.ClearNode = true
		for _, kind := range []string{Registered, Initialized} {
			step.Conditions = append(step.Conditions, waiting(kind, "AwaitingReconciliation", "object is awaiting reconciliation"))
		}
	}
	return step
}

// overlay returns base with over laid on top.
func overlay(base, over map[string]string) map[string]string {
	out := make(map[string]string, len(base)+len(over))
	maps.Copy(out, base)
	maps.Copy(out, over)
	return out
}
