package conditions

import (
	"slices"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	v1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

// Kind is the set of conditions that objects of one kind always have.
type Kind struct {
	name       string
	root       string
	dependents []string
}

// NodePool has ValidationSucceeded and NodeClassReady.
func NodePool() Kind {
	return Kind{v1.NodePoolKind, v1.ConditionReady, []string{v1.ConditionValidationSucceeded, v1.ConditionNodeClassReady}}
}

// NodeClaim has Launched, Registered and Initialized.
func NodeClaim() Kind {
	return Kind{v1.NodeClaimKind, v1.ConditionReady, []string{v1.ConditionLaunched, v1.ConditionRegistered, v1.ConditionInitialized}}
}

// NodeOverlay has ValidationSucceeded.
func NodeOverlay() Kind {
	return Kind{"NodeOverlay", v1.ConditionReady, []string{v1.ConditionValidationSucceeded}}
}

// EC2NodeClass has one condition per thing that is looked up, and ValidationSucceeded. With the gate ReservedCapacity,
// CapacityReservationsReady is one of them.
func EC2NodeClass(reservedCapacity bool) Kind {
	dependents := []string{
		awsv1.ConditionAMIsReady, awsv1.ConditionSubnetsReady, awsv1.ConditionSecurityGroupsReady,
		awsv1.ConditionInstanceProfileReady, awsv1.ConditionPlacementGroupReady,
	}
	if reservedCapacity {
		dependents = append(dependents, awsv1.ConditionCapacityReservationsReady)
	}
	return Kind{awsv1.EC2NodeClassKind, v1.ConditionReady, append(dependents, awsv1.ConditionValidationSucceeded)}
}

// CapacityBuffer has no roll-up and no dependents.
func CapacityBuffer() Kind { return Kind{name: "CapacityBuffer"} }

// Dependents are the conditions that the roll-up is made of.
func (k Kind) Dependents() []string { return slices.Clone(k.dependents) }

// types are the conditions that every object of the kind has.
func (k Kind) types() []string {
	if k.root == "" {
		return nil
	}
	return append(slices.Clone(k.dependents), k.root)
}
