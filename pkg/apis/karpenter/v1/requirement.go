package v1

// Operator relates the label of a node to the values of a Requirement.
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt;Gte;Lte
type Operator string

// The operators of a Requirement. Pods know all but Gte and Lte.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
	Gt           Operator = "Gt"
	Lt           Operator = "Lt"
	Gte          Operator = "Gte"
	Lte          Operator = "Lte"
)

// Requirement restricts the nodes that a pool or claim may stand for by one label. Several requirements on one key all hold.
// +kubebuilder:validation:XValidation:rule="self.operator != 'In' || (has(self.values) && size(self.values) > 0)",message="values: operator In needs at least one value",reason=FieldValueRequired,fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(self.values) && size(self.values) == 1 && int(self.values[0]) >= 0)",message="values: operators Gt, Lt, Gte and Lte need exactly one value, an integer that is not negative",fieldPath=".values"
// +kubebuilder:validation:XValidation:rule="self.operator != 'In' || !has(self.minValues) || (has(self.values) && size(self.values) >= self.minValues)",message="minValues: operator In must list at least minValues values",fieldPath=".minValues"
type Requirement struct {
	// Key is the label, for example "kubernetes.io/arch".
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'] || !self.split('/')[0].endsWith('karpenter.sh')",message="key: labels of karpenter.sh are reserved, except karpenter.sh/capacity-type",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self != 'kubernetes.io/hostname'",message="key: kubernetes.io/hostname cannot be required, a node does not exist before its launch",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self in ['karpenter.k8s.aws/instance-tenancy', 'karpenter.k8s.aws/capacity-reservation-type', 'karpenter.k8s.aws/capacity-reservation-id', 'karpenter.k8s.aws/capacity-reservation-interruptible', 'karpenter.k8s.aws/ec2nodeclass', 'karpenter.k8s.aws/instance-encryption-in-transit-supported', 'karpenter.k8s.aws/instance-category', 'karpenter.k8s.aws/instance-hypervisor', 'karpenter.k8s.aws/instance-family', 'karpenter.k8s.aws/instance-generation', 'karpenter.k8s.aws/instance-local-nvme', 'karpenter.k8s.aws/instance-size', 'karpenter.k8s.aws/instance-cpu', 'karpenter.k8s.aws/instance-cpu-manufacturer', 'karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz', 'karpenter.k8s.aws/instance-memory', 'karpenter.k8s.aws/instance-ebs-bandwidth', 'karpenter.k8s.aws/instance-network-bandwidth', 'karpenter.k8s.aws/instance-gpu-name', 'karpenter.k8s.aws/instance-gpu-manufacturer', 'karpenter.k8s.aws/instance-gpu-count', 'karpenter.k8s.aws/instance-gpu-memory', 'karpenter.k8s.aws/instance-accelerator-name', 'karpenter.k8s.aws/instance-accelerator-manufacturer', 'karpenter.k8s.aws/instance-accelerator-count', 'karpenter.k8s.aws/instance-capability-flex', 'karpenter.k8s.aws/placement-group-id', 'karpenter.k8s.aws/placement-group-partition'] || !self.split('/')[0].endsWith('karpenter.k8s.aws')",message="key: not one of the karpenter.k8s.aws labels that may be required",reason=FieldValueForbidden
	// +required
	Key string `json:"key"`
	// Operator relates the label to Values.
	// +required
	Operator Operator `json:"operator"`
	// Values of the label. In needs at least one, Gt, Lt, Gte and Lte exactly one integer; Exists and DoesNotExist ignore them.
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitzero"`
	// MinValues is how many different values of the label the chosen instance types must offer, so that one
	// unavailable choice cannot stop a launch.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	// +optional
	MinValues *int `json:"minValues,omitempty"`
}

// NodeClassRef points to the object that describes the provider's side of a node.
type NodeClassRef struct {
	// Group is the API group of the node class, "karpenter.k8s.aws" on AWS.
	// +kubebuilder:validation:Pattern=`^[^/]*$`
	// +kubebuilder:validation:XValidation:rule="self != ''",message="group: must not be empty",reason=FieldValueRequired
	// +required
	Group string `json:"group"`
	// Kind of the node class, "EC2NodeClass" on AWS.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="kind: must not be empty",reason=FieldValueRequired
	// +required
	Kind string `json:"kind"`
	// Name of the node class.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="name: must not be empty",reason=FieldValueRequired
	// +required
	Name string `json:"name"`
}
