package cloud

import (
	"errors"
	"fmt"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

// NotFound tells that the instance does not exist (any more).
type NotFound struct{ ID string }

func (e *NotFound) Error() string { return fmt.Sprintf("instance %s not found", e.ID) }

// NoCapacity tells that no offering of the request can be bought now. The claim is given up and its pods are planned anew.
type NoCapacity struct {
	Detail string
	// SpotRole tells that spot could not be bought because the account lacks its service-linked role and the agent may not create it.
	SpotRole bool
}

func (e *NoCapacity) Error() string { return "no capacity: " + e.Detail }

// ClassNotReady tells that the node class cannot be launched from now. The claim is given up.
type ClassNotReady struct{ Detail string }

func (e *ClassNotReady) Error() string { return "node class not ready: " + e.Detail }

// ReasonIdempotentParameterMismatch is the reason of a CreateFailed whose token was used before with other parameters. The recorded intent is
// wrong: the caller must neither repeat the launch nor begin a new attempt, but give up the claim and let the sweep look for an instance.
const ReasonIdempotentParameterMismatch = "IdempotentParameterMismatch"

// CreateFailed is a launch error that is known to have launched nothing. Reason is a condition reason such as Unauthorized.
type CreateFailed struct {
	Reason string
	Err    error
}

func (e *CreateFailed) Error() string { return fmt.Sprintf("%s: %v", e.Reason, e.Err) }

// Unwrap returns the cause.
func (e *CreateFailed) Unwrap() error { return e.Err }

// UnknownOutcome tells that a call may or may not have taken effect (timeout, lost connection). The only right answer is to repeat it with the
// same token, or to look.
type UnknownOutcome struct{ Err error }

func (e *UnknownOutcome) Error() string { return fmt.Sprintf("outcome unknown: %v", e.Err) }

// Unwrap returns the cause.
func (e *UnknownOutcome) Unwrap() error { return e.Err }

// Unauthorized tells that the credentials do not permit a call: asking again soon is useless.
type Unauthorized struct{ Err error }

func (e *Unauthorized) Error() string { return fmt.Sprintf("not permitted: %v", e.Err) }

// Unwrap returns the cause.
func (e *Unauthorized) Unwrap() error { return e.Err }

// ZoneShifted tells that traffic was shifted away from the zone of the instance: nothing is done to instances there until the shift ends.
type ZoneShifted struct{ ID, Zone string }

func (e *ZoneShifted) Error() string {
	return fmt.Sprintf("instance %s is left alone: a zonal shift away from its zone %s is in effect", e.ID, e.Zone)
}

// SpotRoleMissing reports whether a launch failed because the account lacks the service-linked role of spot: an administrator has to create it.
func SpotRoleMissing(err error) bool {
	if e, ok := errors.AsType[*NoCapacity](err); ok {
		return e.SpotRole
	}
	e, ok := errors.AsType[*CreateFailed](err)
	return ok && e.Reason == karpv1.ReasonSpotSLRCreationFailed
}
