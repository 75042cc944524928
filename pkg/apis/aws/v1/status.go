package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EC2NodeClassStatus is what the agent found in EC2.
type EC2NodeClassStatus struct {
	// Subnets that were selected, the one with most free addresses first.
	// +optional
	Subnets []Subnet `json:"subnets,omitzero"`
	// SecurityGroups that were selected, by id.
	// +optional
	SecurityGroups []SecurityGroup `json:"securityGroups,omitzero"`
	// CapacityReservations that were selected, by id.
	// +optional
	CapacityReservations []CapacityReservation `json:"capacityReservations,omitzero"`
	// AMIs that were selected, and the instance types they are for.
	// +optional
	AMIs []AMI `json:"amis,omitzero"`
	// InstanceProfile in use.
	// +optional
	InstanceProfile string `json:"instanceProfile,omitempty"`
	// Conditions of the class. The list is replaced as a whole by a server-side apply.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitzero"`
}

// Subnet is a subnet that was found.
type Subnet struct {
	// ID of the subnet.
	// +required
	ID string `json:"id"`
	// Zone is the name of its availability zone in this account.
	// +required
	Zone string `json:"zone"`
	// ZoneID is the ID of the zone, equal in all accounts.
	// +optional
	ZoneID string `json:"zoneID,omitempty"`
}

// SecurityGroup is a security group that was found.
type SecurityGroup struct {
	// ID of the group.
	// +required
	ID string `json:"id"`
	// Name of the group.
	// +optional
	Name string `json:"name,omitempty"`
}

// AMI is a machine image that was found.
type AMI struct {
	// ID of the image.
	// +required
	ID string `json:"id"`
	// Deprecated by its owner.
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`
	// Name of the image.
	// +optional
	Name string `json:"name,omitempty"`
	// Requirements that an instance type meets to use the image.
	// +required
	Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
}

// ReservationType is a kind of capacity reservation.
// +kubebuilder:validation:Enum=default;capacity-block
type ReservationType string

// The kinds of capacity reservations.
const (
	ReservationDefault       ReservationType = "default"
	ReservationCapacityBlock ReservationType = "capacity-block"
)

// ReservationState is whether a reservation takes instances.
// +kubebuilder:validation:Enum=active;expiring
type ReservationState string

// The states of reservations.
const (
	ReservationActive ReservationState = "active"
	// ReservationExpiring is a capacity block close to its end: nothing is launched and its claims are deleted.
	ReservationExpiring ReservationState = "expiring"
)

// CapacityReservation is a capacity reservation that was found.
type CapacityReservation struct {
	// AvailabilityZone is the zone of the reservation.
	// +required
	AvailabilityZone string `json:"availabilityZone"`
	// EndTime is when it ends, if it does.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// ID of the reservation.
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +required
	ID string `json:"id"`
	// InstanceMatchCriteria is which instances it takes.
	// +required
	InstanceMatchCriteria InstanceMatchCriteria `json:"instanceMatchCriteria"`
	// InstanceType that is reserved.
	// +required
	InstanceType string `json:"instanceType"`
	// OwnerID is the account that owns it.
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +required
	OwnerID string `json:"ownerID"`
	// ReservationType is its kind.
	// +kubebuilder:default=default
	// +optional
	ReservationType ReservationType `json:"reservationType,omitempty"`
	// Interruptible reservations may be reclaimed.
	// +optional
	Interruptible *bool `json:"interruptible,omitempty"`
	// State of the reservation.
	// +kubebuilder:default=active
	// +optional
	State ReservationState `json:"state,omitempty"`
}
