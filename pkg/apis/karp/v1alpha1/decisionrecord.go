package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxBytes bounds one record as JSON. Fit cuts a record to it.
const MaxBytes = 8 << 10

// DecisionRecord is one decision of the agent, written once and never changed.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=decisionrecords,scope=Cluster
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".spec.type"
// +kubebuilder:printcolumn:name="Code",type="string",JSONPath=".spec.code"
// +kubebuilder:printcolumn:name="NodePool",type="string",JSONPath=".spec.nodePool"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Summary",type="string",JSONPath=".spec.summary",priority=1
type DecisionRecord struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the decision.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec: a record cannot be changed",reason=FieldValueForbidden
	// +required
	Spec DecisionRecordSpec `json:"spec"`
}

// DecisionRecordList is a list of DecisionRecords.
// +kubebuilder:object:root=true
type DecisionRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DecisionRecord `json:"items"`
}

// RecordType is what kind of decision a record holds.
// +kubebuilder:validation:Enum=Launch;Disruption;Interruption;Failure
type RecordType string

// The types of records.
const (
	// Launch is a node claim created for pods, a replacement or a static pool.
	Launch RecordType = "Launch"
	// Disruption is a node removed or replaced by our own choice: consolidation, drift, expiry, repair.
	Disruption RecordType = "Disruption"
	// Interruption is a node removed because the provider said so.
	Interruption RecordType = "Interruption"
	// Failure is a launch, registration or command that did not succeed.
	Failure RecordType = "Failure"
)

// DecisionRecordSpec is one decision.
type DecisionRecordSpec struct {
	// Type of the decision.
	// +required
	Type RecordType `json:"type"`
	// DecisionID is what the annotations, events and logs of the same decision carry.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	DecisionID string `json:"decisionID"`
	// Time of the decision.
	// +required
	Time metav1.MicroTime `json:"time"`
	// Code is the reason, one of the codes that the plugin prints.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	Code string `json:"code"`
	// Summary is the answer in one sentence.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Summary string `json:"summary,omitempty"`
	// NodePool is the pool of the subjects.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	NodePool string `json:"nodePool,omitempty"`
	// Subjects are the objects that the decision is about: claims, nodes.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Subjects []Subject `json:"subjects,omitzero"`
	// Pods that caused the decision or had to move: how many, and some of them.
	// +optional
	Pods PodSample `json:"pods,omitzero"`
	// Chosen is the offering that was launched or kept.
	// +optional
	Chosen *Offering `json:"chosen,omitempty"`
	// Alternatives are offerings that were not taken, best first, each with its code.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +optional
	Alternatives []Offering `json:"alternatives,omitzero"`
	// Findings are the facts that led to the decision.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Findings []Finding `json:"findings,omitzero"`
	// SavingPerHour is the difference in US dollars per hour, for a disruption. Negative when the replacement costs more.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^-?[0-9]+(\.[0-9]+)?$`
	// +optional
	SavingPerHour string `json:"savingPerHour,omitempty"`
}

// Subject is an object that a decision is about. It may be gone by now.
type Subject struct {
	// Kind of the object: NodeClaim, Node, NodePool.
	// +kubebuilder:validation:MaxLength=63
	// +required
	Kind string `json:"kind"`
	// Name of the object.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// UID of the object.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	UID string `json:"uid,omitempty"`
	// Role of the object in the decision: Candidate, Replacement or empty.
	// +kubebuilder:validation:Enum=Candidate;Replacement
	// +optional
	Role string `json:"role,omitempty"`
}

// PodSample is a set of pods.
type PodSample struct {
	// Count of all pods.
	// +kubebuilder:validation:Minimum=0
	// +required
	Count int32 `json:"count"`
	// Names of some of them, as namespace/name.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:MaxLength=317
	// +optional
	Names []string `json:"names,omitzero"`
}

// Offering is an instance type in a zone at a price.
type Offering struct {
	// InstanceType is the provider's name of the type.
	// +kubebuilder:validation:MaxLength=63
	// +required
	InstanceType string `json:"instanceType"`
	// Zone of the offering.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Zone string `json:"zone,omitempty"`
	// CapacityType is on-demand, spot or reserved.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	CapacityType string `json:"capacityType,omitempty"`
	// PricePerHour in US dollars, as known at the time.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?$`
	// +optional
	PricePerHour string `json:"pricePerHour,omitempty"`
	// Code is why it was not taken.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Code string `json:"code,omitempty"`
}

// Finding is one fact behind a decision.
type Finding struct {
	// Code of the fact.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	Code string `json:"code"`
	// Message for people.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Message string `json:"message,omitempty"`
	// Count of things that the fact holds for, where it is a count.
	// +optional
	Count *int64 `json:"count,omitempty"`
}
