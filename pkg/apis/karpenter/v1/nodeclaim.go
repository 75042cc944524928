package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeClaim is one node: asked for, launched, registered, drained, gone.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodeclaims,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".metadata.labels.node\\.kubernetes\\.io/instance-type"
// +kubebuilder:printcolumn:name="Capacity",type="string",JSONPath=".metadata.labels.karpenter\\.sh/capacity-type"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".metadata.labels.topology\\.kubernetes\\.io/zone"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.nodeName"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="ImageID",type="string",JSONPath=".status.imageID",priority=1
// +kubebuilder:printcolumn:name="ID",type="string",JSONPath=".status.providerID",priority=1
// +kubebuilder:printcolumn:name="NodePool",type="string",JSONPath=".metadata.labels.karpenter\\.sh/nodepool",priority=1
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.nodeClassRef.name",priority=1
// +kubebuilder:printcolumn:name="Drifted",type="string",JSONPath=".status.conditions[?(@.type==\"Drifted\")].status",priority=1
type NodeClaim struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the node must be. It never changes.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec: cannot be changed; delete the claim and create another one",reason=FieldValueForbidden
	// +required
	Spec NodeClaimSpec `json:"spec"`
	// Status is what became of it.
	// +optional
	Status NodeClaimStatus `json:"status,omitzero"`
}

// NodeClaimList is a list of NodeClaims.
// +kubebuilder:object:root=true
type NodeClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeClaim `json:"items"`
}

// NodeClaimSpec is what the node must be.
type NodeClaimSpec struct {
	// Taints of the node for as long as it lives, unless somebody removes them.
	// +listType=atomic
	// +optional
	Taints []Taint `json:"taints,omitzero"`
	// StartupTaints are taints of the new node which something else removes before the node is used.
	// +listType=atomic
	// +optional
	StartupTaints []Taint `json:"startupTaints,omitzero"`
	// Requirements restrict the node.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +required
	Requirements []Requirement `json:"requirements"`
	// Resources that the node must offer.
	// +optional
	Resources ResourceRequirements `json:"resources,omitzero"`
	// NodeClassRef points to the provider's part.
	// +required
	NodeClassRef NodeClassRef `json:"nodeClassRef"`
	// TerminationGracePeriod is how long the deleted node may wait for its pods before it is removed by force.
	// +optional
	TerminationGracePeriod *Duration `json:"terminationGracePeriod,omitempty"`
	// ExpireAfter is the age at which the claim is deleted. Default 720h.
	// +kubebuilder:default="720h"
	// +optional
	ExpireAfter *DurationOrNever `json:"expireAfter,omitempty"`
}

// ResourceRequirements is what pods and daemon sets need.
type ResourceRequirements struct {
	// Requests is the least that the node must offer, by resource name.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitzero"`
}

// NodeClaimStatus is what became of a claim.
type NodeClaimStatus struct {
	// NodeName is the Node, from its registration on.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// ProviderID is the instance ("aws:///<zone>/<instance-id>"), from the launch on.
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// ImageID is the machine image that the instance was launched with.
	// +optional
	ImageID string `json:"imageID,omitempty"`
	// Capacity of the instance type.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitzero"`
	// Allocatable is Capacity without what the system keeps.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitzero"`
	// LastPodEventTime is when a pod last came to or left the node.
	// +optional
	LastPodEventTime metav1.Time `json:"lastPodEventTime,omitzero"`
	// Conditions of the claim.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []ClaimCondition `json:"conditions,omitzero"`
}
