package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodePool describes nodes that may be launched for pods, and how they may be replaced.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodepools,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.nodes
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.template.spec.nodeClassRef.name"
// +kubebuilder:printcolumn:name="Nodes",type="string",JSONPath=".status.nodes"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.resources.cpu",priority=1
// +kubebuilder:printcolumn:name="Memory",type="string",JSONPath=".status.resources.memory",priority=1
type NodePool struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user wants.
	// +required
	Spec NodePoolSpec `json:"spec"`
	// Status is what the agent saw.
	// +optional
	Status NodePoolStatus `json:"status,omitzero"`
}

// NodePoolList is a list of NodePools.
// +kubebuilder:object:root=true
type NodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePool `json:"items"`
}

// NodePoolSpec is what the user wants from a pool.
// +kubebuilder:validation:XValidation:rule="has(self.replicas) == has(oldSelf.replicas)",message="replicas: cannot be added to or removed from an existing pool; create another one",reason=FieldValueForbidden,fieldPath=".replicas"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.limits) || self.limits.all(k, k == 'nodes')",message="limits: only 'nodes' can be limited in a pool with replicas",reason=FieldValueForbidden,fieldPath=".limits"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || !has(self.weight)",message="weight: not allowed in a pool with replicas",reason=FieldValueForbidden,fieldPath=".weight"
type NodePoolSpec struct {
	// Template of the claims that the pool makes.
	// +required
	Template NodeClaimTemplate `json:"template"`
	// Disruption limits how nodes are replaced or removed.
	// +kubebuilder:default={consolidateAfter: "0s"}
	// +optional
	Disruption Disruption `json:"disruption,omitzero"`
	// Limits bounds the sum of the capacity of all nodes of the pool, by resource name; "nodes" counts nodes.
	// Reaching a limit stops launches and removes nothing.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitzero"`
	// Weight orders pools: the highest is tried first. Absent is 0, the last.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`
	// Replicas makes the pool static: it keeps that many nodes whatever pods need, and takes no pending pods.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int64 `json:"replicas,omitempty"`
}

// NodeClaimTemplate is the part of a NodeClaim that comes from the pool.
type NodeClaimTemplate struct {
	// ObjectMeta is copied to claims and nodes.
	// +optional
	ObjectMeta TemplateMeta `json:"metadata,omitzero"`
	// Spec is the spec of claims before pods add their needs.
	// +required
	Spec NodeClaimTemplateSpec `json:"spec"`
}

// TemplateMeta is the metadata that a template may set.
type TemplateMeta struct {
	// Labels of the nodes. They take part in scheduling like requirements.
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !k.split('/')[0].endsWith('karpenter.sh'))",message="labels: those of karpenter.sh are reserved, except karpenter.sh/capacity-type",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodepool' in self)",message="labels: karpenter.sh/nodepool is set by the controller",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!('kubernetes.io/hostname' in self)",message="labels: kubernetes.io/hostname is set by the kubelet",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['karpenter.k8s.aws/instance-tenancy', 'karpenter.k8s.aws/capacity-reservation-type', 'karpenter.k8s.aws/capacity-reservation-id', 'karpenter.k8s.aws/capacity-reservation-interruptible', 'karpenter.k8s.aws/ec2nodeclass', 'karpenter.k8s.aws/instance-encryption-in-transit-supported', 'karpenter.k8s.aws/instance-category', 'karpenter.k8s.aws/instance-hypervisor', 'karpenter.k8s.aws/instance-family', 'karpenter.k8s.aws/instance-generation', 'karpenter.k8s.aws/instance-local-nvme', 'karpenter.k8s.aws/instance-size', 'karpenter.k8s.aws/instance-cpu', 'karpenter.k8s.aws/instance-cpu-manufacturer', 'karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz', 'karpenter.k8s.aws/instance-memory', 'karpenter.k8s.aws/instance-ebs-bandwidth', 'karpenter.k8s.aws/instance-network-bandwidth', 'karpenter.k8s.aws/instance-gpu-name', 'karpenter.k8s.aws/instance-gpu-manufacturer', 'karpenter.k8s.aws/instance-gpu-count', 'karpenter.k8s.aws/instance-gpu-memory', 'karpenter.k8s.aws/instance-accelerator-name', 'karpenter.k8s.aws/instance-accelerator-manufacturer', 'karpenter.k8s.aws/instance-accelerator-count', 'karpenter.k8s.aws/instance-capability-flex', 'karpenter.k8s.aws/placement-group-id', 'karpenter.k8s.aws/placement-group-partition'] || !k.split('/')[0].endsWith('karpenter.k8s.aws'))",message="labels: not one of the karpenter.k8s.aws labels that may be set",reason=FieldValueForbidden
	// +optional
	Labels map[string]LabelValue `json:"labels,omitzero"`
	// Annotations are copied to claims, and once to nodes.
	// +mapType=granular
	// +optional
	Annotations map[string]string `json:"annotations,omitzero"`
}

// NodeClaimTemplateSpec is the spec of a claim without what pods add.
type NodeClaimTemplateSpec struct {
	// Taints of the nodes for as long as they live, unless somebody removes them.
	// +listType=atomic
	// +optional
	Taints []Taint `json:"taints,omitzero"`
	// StartupTaints are taints of a new node which something else removes before the node is used. Pods need not tolerate them.
	// +listType=atomic
	// +optional
	StartupTaints []Taint `json:"startupTaints,omitzero"`
	// Requirements restrict the nodes. An empty list allows all.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.key != 'karpenter.sh/nodepool')",message="requirements: the key karpenter.sh/nodepool is set by the controller",reason=FieldValueForbidden
	// +required
	Requirements []Requirement `json:"requirements"`
	// NodeClassRef points to the provider's part. Another name drifts the nodes.
	// +kubebuilder:validation:XValidation:rule="self.group == oldSelf.group",message="group: cannot be changed; create another pool",reason=FieldValueForbidden,fieldPath=".group"
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind",message="kind: cannot be changed; create another pool",reason=FieldValueForbidden,fieldPath=".kind"
	// +required
	NodeClassRef NodeClassRef `json:"nodeClassRef"`
	// TerminationGracePeriod is how long a deleted node may wait for its pods before it is removed by force.
	// Absent is for ever, "0s" is at once.
	// +optional
	TerminationGracePeriod *Duration `json:"terminationGracePeriod,omitempty"`
	// ExpireAfter is the age at which a claim is deleted. A change reaches new claims only. Default 720h.
	// +kubebuilder:default="720h"
	// +optional
	ExpireAfter *DurationOrNever `json:"expireAfter,omitempty"`
}

// ConsolidationPolicy says which nodes consolidation looks at.
// +kubebuilder:validation:Enum=WhenEmpty;WhenEmptyOrUnderutilized;Balanced
type ConsolidationPolicy string

// The consolidation policies.
const (
	// WhenEmpty deletes nodes without reschedulable pods.
	WhenEmpty ConsolidationPolicy = "WhenEmpty"
	// WhenEmptyOrUnderutilized also moves pods when that costs less.
	WhenEmptyOrUnderutilized ConsolidationPolicy = "WhenEmptyOrUnderutilized"
	// Balanced moves pods when the saving is worth the disturbance.
	Balanced ConsolidationPolicy = "Balanced"
)

// Disruption limits how nodes of a pool are replaced or removed.
type Disruption struct {
	// ConsolidateAfter is how long a node must see no pod come or go before it is considered. Never turns consolidation
	// off, that of empty nodes too. Default 0s.
	// +kubebuilder:default="0s"
	// +optional
	ConsolidateAfter *DurationOrNever `json:"consolidateAfter,omitempty"`
	// ConsolidationPolicy says which nodes are considered.
	// +kubebuilder:default=WhenEmptyOrUnderutilized
	// +optional
	ConsolidationPolicy ConsolidationPolicy `json:"consolidationPolicy,omitempty"`
	// Budgets limit how many nodes go at once; the smallest one that applies counts. Default one of 10%.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:default={{nodes: "10%"}}
	// +optional
	Budgets []Budget `json:"budgets,omitzero"`
}

// DisruptionReason is why a node is disrupted voluntarily.
// +kubebuilder:validation:Enum=Underutilized;Empty;Drifted
type DisruptionReason string

// The reasons that budgets tell apart.
const (
	Underutilized DisruptionReason = "Underutilized"
	Empty         DisruptionReason = "Empty"
	Drifted       DisruptionReason = "Drifted"
)

// Budget bounds voluntary disruption, always or at certain times.
// +kubebuilder:validation:XValidation:rule="has(self.schedule) == has(self.duration)",message="schedule: must be given together with duration",fieldPath=".schedule"
type Budget struct {
	// Reasons that the budget applies to. Absent is all, an empty list is none.
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Reasons []DisruptionReason `json:"reasons,omitzero"`
	// Nodes is a count ("3") or a share ("10%", rounded up) of the pool's nodes. 0 stops disruption.
	// +kubebuilder:validation:Pattern=`^((100|[0-9]{1,2})%|[0-9]+)$`
	// +kubebuilder:default="10%"
	// +required
	Nodes string `json:"nodes"`
	// Schedule is when the budget starts to apply: five cron fields or a name such as @daily, in UTC.
	// +kubebuilder:validation:Pattern=`^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$`
	// +optional
	Schedule *string `json:"schedule,omitempty"`
	// Duration is how long the budget applies from each hit of Schedule, in hours and minutes.
	// +kubebuilder:validation:Pattern=`^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$`
	// +optional
	Duration *string `json:"duration,omitempty"`
}

// NodePoolStatus is what the agent saw of a pool.
type NodePoolStatus struct {
	// Resources is the sum of the capacity of the pool's nodes, those in flight included.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitzero"`
	// Nodes is the number of nodes.
	// +kubebuilder:default=0
	// +optional
	Nodes int64 `json:"nodes"`
	// NodeClassObservedGeneration is the generation of the node class for which NodeRegistrationHealthy was last reset.
	// +optional
	NodeClassObservedGeneration int64 `json:"nodeClassObservedGeneration,omitempty"`
	// Conditions of the pool: Ready, ValidationSucceeded, NodeClassReady, NodeRegistrationHealthy, DisruptionBudget.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitzero"`
}
