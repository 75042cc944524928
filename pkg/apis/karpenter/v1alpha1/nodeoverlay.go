package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

// NodeOverlay corrects the price or adds to the capacity of instance types.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodeoverlays,scope=Cluster,categories=karpenter,shortName=overlays
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1
type NodeOverlay struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user wants.
	// +required
	Spec NodeOverlaySpec `json:"spec"`
	// Status is what the agent saw.
	// +optional
	Status NodeOverlayStatus `json:"status,omitzero"`
}

// NodeOverlayList is a list of NodeOverlays.
// +kubebuilder:object:root=true
type NodeOverlayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeOverlay `json:"items"`
}

// NodeOverlaySpec says which instance types are corrected, and how.
// +kubebuilder:validation:XValidation:rule="!has(self.price) || !has(self.priceAdjustment)",message="price: cannot be combined with priceAdjustment",reason=FieldValueForbidden,fieldPath=".price"
type NodeOverlaySpec struct {
	// Requirements select instance types and offerings. An empty list selects all.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +required
	Requirements []Requirement `json:"requirements"`
	// Price replaces the price of the selected offerings, in US dollars per hour.
	// +kubebuilder:validation:Pattern=`^\d+(\.\d+)?$`
	// +optional
	Price *string `json:"price,omitempty"`
	// PriceAdjustment is added to the price ("+0.1", "-0.1") or scales it ("+10%", "-10%"). The sign must be there.
	// +kubebuilder:validation:Pattern=`^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$`
	// +optional
	PriceAdjustment *string `json:"priceAdjustment,omitempty"`
	// Capacity is added to the selected instance types, by resource name.
	// +kubebuilder:validation:XValidation:rule="!('cpu' in self) && !('memory' in self) && !('ephemeral-storage' in self) && !('pods' in self)",message="capacity: cpu, memory, ephemeral-storage and pods are known from the instance type and cannot be set",reason=FieldValueForbidden
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitzero"`
	// Weight orders overlays: the highest wins where several select the same offering. Absent is 0.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}

// Requirement selects instance types and offerings by one label.
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",message="values: operators In and NotIn need at least one value",reason=FieldValueRequired,fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(self.values) && size(self.values) == 1 && int(self.values[0]) >= 0)",message="values: operators Gt, Lt, Gte and Lte need exactly one value, an integer that is not negative",fieldPath=".values"
type Requirement struct {
	// Key is the label, for example "node.kubernetes.io/instance-type".
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !self.split('/')[0].endsWith('karpenter.sh')",message="key: labels of karpenter.sh are reserved, except karpenter.sh/capacity-type and karpenter.sh/nodepool",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self != 'kubernetes.io/hostname'",message="key: kubernetes.io/hostname cannot be required, an overlay speaks about nodes that do not exist yet",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.k8s.aws/ec2nodeclass', 'karpenter.k8s.aws/instance-encryption-in-transit-supported', 'karpenter.k8s.aws/instance-category', 'karpenter.k8s.aws/instance-hypervisor', 'karpenter.k8s.aws/instance-family', 'karpenter.k8s.aws/instance-generation', 'karpenter.k8s.aws/instance-local-nvme', 'karpenter.k8s.aws/instance-size', 'karpenter.k8s.aws/instance-cpu', 'karpenter.k8s.aws/instance-cpu-manufacturer', 'karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz', 'karpenter.k8s.aws/instance-memory', 'karpenter.k8s.aws/instance-ebs-bandwidth', 'karpenter.k8s.aws/instance-network-bandwidth', 'karpenter.k8s.aws/instance-gpu-name', 'karpenter.k8s.aws/instance-gpu-manufacturer', 'karpenter.k8s.aws/instance-gpu-count', 'karpenter.k8s.aws/instance-gpu-memory', 'karpenter.k8s.aws/instance-accelerator-name', 'karpenter.k8s.aws/instance-accelerator-manufacturer', 'karpenter.k8s.aws/instance-accelerator-count', 'karpenter.k8s.aws/instance-capability-flex'] || !self.split('/')[0].endsWith('karpenter.k8s.aws')",message="key: not one of the karpenter.k8s.aws labels that an overlay may require",reason=FieldValueForbidden
	// +required
	Key string `json:"key"`
	// Operator relates the label to Values.
	// +required
	Operator v1.Operator `json:"operator"`
	// Values of the label. In and NotIn need at least one, Gt, Lt, Gte and Lte exactly one integer.
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitzero"`
}

// NodeOverlayStatus is what the agent saw of an overlay.
type NodeOverlayStatus struct {
	// Conditions of the overlay: Ready and ValidationSucceeded.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitzero"`
}
