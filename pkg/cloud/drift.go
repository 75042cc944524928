package cloud

import (
	"context"
	"slices"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

// DriftReason says in which respect an instance is no longer what its class asks for; "" is in none. It is the reason of the claim's
// condition Drifted.
type DriftReason string

// The reasons of drift that the cloud finds (AWS rules 12), in the order in which they are looked for.
const (
	NodeClassDrift           DriftReason = "NodeClassDrift"
	AMIDrift                 DriftReason = "AMIDrift"
	SecurityGroupDrift       DriftReason = "SecurityGroupDrift"
	SubnetDrift              DriftReason = "SubnetDrift"
	CapacityReservationDrift DriftReason = "CapacityReservationDrift"
	PlacementGroupDrift      DriftReason = "PlacementGroupDrift"
)

// Drifts tells whether instances still are what their class asks for.
type Drifts interface {
	// Drift returns the first reason that applies to the claim's instance, "" if none does. The class is the one that the claim names, as it
	// is now; one that is gone or being deleted drifts nothing and is not asked about. An error means that it cannot be told now: the claim
	// keeps the condition it has. *NotFound tells that the instance is gone. The instance may be up to two minutes old; what depends on a
	// reservation is confirmed by a read past all caches.
	Drift(ctx context.Context, claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass) (DriftReason, error)
}

// HashDrift reports whether the class has changed since the claim was launched: both carry a hash of the same version, and the hashes differ
// (AWS rules 12, check 1).
func HashDrift(claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass) bool {
	for _, key := range []string{awsv1.HashAnnotation, awsv1.HashVersionAnnotation} {
		if claim.Annotations[key] == "" || class.Annotations[key] == "" {
			return false
		}
	}
	return claim.Annotations[awsv1.HashVersionAnnotation] == class.Annotations[awsv1.HashVersionAnnotation] &&
		claim.Annotations[awsv1.HashAnnotation] != class.Annotations[awsv1.HashAnnotation]
}

// SameSet reports whether two lists hold the same values, in whatever order and number.
func SameSet(a, b []string) bool {
	one, other := slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(one), slices.Compact(other))
}
