package aws

import (
	"errors"
	"slices"
	"strings"

	"github.com/aws/smithy-go"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
)

// Codes of errors that are told apart.
const (
	codeICE               = "InsufficientInstanceCapacity"
	codeNoAddresses       = "InsufficientFreeAddressesInSubnet"
	codeSpotRole          = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
	codeTemplateNotFound  = "InvalidLaunchTemplateName.NotFoundException"
	codeTemplateExists    = "InvalidLaunchTemplateName.AlreadyExistsException"
	codeTemplateIDMissing = "InvalidLaunchTemplateId.NotFound"
	codeInstanceNotFound  = "InvalidInstanceID.NotFound"
	codeThrottled         = "RequestLimitExceeded"
	codeMismatch          = "IdempotentParameterMismatch"
	codeDryRun            = "DryRunOperation"
	codeUnauthorized      = "UnauthorizedOperation"
	codeNoSuchEntity      = "NoSuchEntity"
	codeParameterNotFound = "ParameterNotFound"
	codeGroupUnknown      = "InvalidPlacementGroup.Unknown"
)

// code returns the code of an API error, or "".
func code(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

// message returns the message of an API error, or the error's text.
func message(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorMessage()
	}
	return err.Error()
}

// serverFault reports whether the service failed rather than refused. Being throttled is a refusal.
func serverFault(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && !throttled(err) && (api.ErrorFault() == smithy.FaultServer || statusOf(err) >= 500)
}

func throttled(err error) bool {
	return slices.Contains([]string{codeThrottled, "Throttling", "ThrottlingException", "TooManyRequestsException", "RequestThrottled"}, code(err))
}

// statusOf returns the HTTP status of the answer, 0 if there was none.
func statusOf(err error) int {
	if r, ok := errors.AsType[interface {
		error
		HTTPStatusCode() int
	}](err); ok {
		return r.HTTPStatusCode()
	}
	return 0
}

// capacityCode reports whether a code in a fleet's list of errors tells that the offering cannot be bought now.
func capacityCode(c string) bool {
	switch c {
	case codeICE, "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "UnfulfillableCapacity", "Unsupported", codeNoAddresses,
		"MaxFleetCountExceeded", "ReservationCapacityExceeded":
		return true
	}
	return false
}

// launchReason maps an error to the reason of the claim's condition: the first row that matches "code: message".
func launchReason(code, message string) string {
	text := code + ": " + message
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	switch {
	case has(codeSpotRole):
		return karpv1.ReasonSpotSLRCreationFailed
	case has(codeUnauthorized, "AccessDenied", "AuthFailure"):
		if has("Not authorized for images") {
			return karpv1.ReasonAMIAuthorizationFailure
		}
		return karpv1.ReasonUnauthorized
	case has("InvalidParameter") && has("belong to different networks"):
		return karpv1.ReasonSecurityGroupSubnetVPCMismatch
	}
	for _, row := range []struct{ part, reason string }{
		{"iamInstanceProfile.name is invalid", karpv1.ReasonInstanceProfileNameInvalid},
		{codeTemplateIDMissing, karpv1.ReasonLaunchTemplateNotFound},
		{"User data is limited to", karpv1.ReasonUserDataSizeLimitExceeded},
		{"InvalidAMIID.Malformed", karpv1.ReasonInvalidAMIID},
		{"InvalidAMIID.NotFound", karpv1.ReasonAMINotFound},
		{codeThrottled, karpv1.ReasonRequestLimitExceeded},
		{"InternalError", karpv1.ReasonInternalError},
		{"not eligible for Free Tier", karpv1.ReasonFreeTierIneligible},
		{"MaxFleetCountExceeded", karpv1.ReasonFleetQuotaExceeded},
		{"PendingVerification", karpv1.ReasonAccountPendingVerification},
		{"MaxSpotInstanceCountExceeded", karpv1.ReasonSpotQuotaExceeded},
		{"VcpuLimitExceeded", karpv1.ReasonVCPULimitExceeded},
		{codeNoAddresses, karpv1.ReasonInsufficientFreeAddressesInSubnet},
	} {
		if has(row.part) {
			return row.reason
		}
	}
	return karpv1.ReasonLaunchFailed
}

// denial says in words which policy refused a call.
func denial(text string) string {
	switch {
	case strings.Contains(text, "with an explicit deny in a permissions boundary"):
		return "denied by the permissions boundary of the controller's role"
	case strings.Contains(text, "with an explicit deny in a service control policy"):
		return "denied by a service control policy (SCP) of the organization"
	}
	return "no identity-based policy of the controller's role allows it"
}

// failed wraps an error of a call that launched nothing, with the reason that its text maps to.
func failed(err error) *cloud.CreateFailed {
	return &cloud.CreateFailed{Reason: launchReason(code(err), message(err)), Err: err}
}

// launchError turns an error of the whole CreateFleet call into a kind. Only an answer that refuses proves that nothing was launched.
func launchError(err error) error {
	switch {
	case code(err) == codeMismatch:
		return &cloud.CreateFailed{Reason: cloud.ReasonIdempotentParameterMismatch, Err: err}
	case code(err) == "" || serverFault(err):
		return &cloud.UnknownOutcome{Err: err}
	}
	return failed(err)
}
