package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EC2NodeClass describes how instances are launched for the pools that refer to it.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ec2nodeclasses,scope=Cluster,categories=karpenter,shortName={ec2nc,ec2ncs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Role",type="string",JSONPath=".spec.role",priority=1
type EC2NodeClass struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user wants. An object without it is stored, and never ready.
	// +optional
	Spec EC2NodeClassSpec `json:"spec,omitzero"`
	// Status is what the agent found in EC2.
	// +optional
	Status EC2NodeClassStatus `json:"status,omitzero"`
}

// EC2NodeClassList is a list of EC2NodeClasses.
// +kubebuilder:object:root=true
type EC2NodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EC2NodeClass `json:"items"`
}

// EC2NodeClassSpec is what the user wants. In lists of terms, any term may match; within a term, all fields must.
// +kubebuilder:validation:XValidation:rule="has(self.role) != has(self.instanceProfile)",message="role: exactly one of role and instanceProfile must be given",fieldPath=".role"
// +kubebuilder:validation:XValidation:rule="has(self.amiFamily) || self.amiSelectorTerms.exists(t, has(t.alias))",message="amiFamily: needed unless amiSelectorTerms has an alias",reason=FieldValueRequired,fieldPath=".amiFamily"
// +kubebuilder:validation:XValidation:rule="!has(self.amiFamily) || self.amiFamily == 'Custom' || self.amiSelectorTerms.all(t, !has(t.alias) || t.alias.split('@')[0] == self.amiFamily.lowerAscii())",message="amiFamily: must be the family of the alias in amiSelectorTerms, or Custom",fieldPath=".amiFamily"
type EC2NodeClassSpec struct {
	// SubnetSelectorTerms select the subnets to launch into.
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="subnetSelectorTerms: at least one term is needed",reason=FieldValueRequired
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || !self.all(t, has(t.id) && has(t.tags))",message="subnetSelectorTerms: a term with id must not have tags"
	// +required
	SubnetSelectorTerms []SubnetSelectorTerm `json:"subnetSelectorTerms"`
	// SecurityGroupSelectorTerms select the security groups of the instances.
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="size(self) > 0",message="securityGroupSelectorTerms: at least one term is needed",reason=FieldValueRequired
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || !self.all(t, has(t.id) && (has(t.tags) || has(t.name)))",message="securityGroupSelectorTerms: a term with id must not have tags or name"
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || !self.all(t, has(t.name) && (has(t.tags) || has(t.id)))",message="securityGroupSelectorTerms: a term with name must not have tags or id"
	// +required
	SecurityGroupSelectorTerms []SecurityGroupSelectorTerm `json:"securityGroupSelectorTerms"`
	// CapacityReservationSelectorTerms select reservations that instances may be launched into.
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="!self.all(t, has(t.id) && (has(t.tags) || has(t.ownerID) || has(t.instanceMatchCriteria)))",message="capacityReservationSelectorTerms: must not be empty, and a term with id must not have tags, ownerID or instanceMatchCriteria"
	// +optional
	CapacityReservationSelectorTerms []CapacityReservationSelectorTerm `json:"capacityReservationSelectorTerms,omitzero"`
	// PlacementGroupSelector names the placement group of the instances.
	// +optional
	PlacementGroupSelector *PlacementGroupSelector `json:"placementGroupSelector,omitempty"`
	// AssociatePublicIPAddress decides whether instances get a public address. Absent leaves it to the subnet.
	// +optional
	AssociatePublicIPAddress *bool `json:"associatePublicIPAddress,omitempty"`
	// IPPrefixCount is the number of address prefixes per network interface.
	// +kubebuilder:validation:Minimum=0
	// +optional
	IPPrefixCount *int32 `json:"ipPrefixCount,omitempty"`
	// AMISelectorTerms select the machine images.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || self.all(t, !has(t.alias))",message="amiSelectorTerms: a term with alias must be the only one"
	// +required
	AMISelectorTerms []AMISelectorTerm `json:"amiSelectorTerms"`
	// AMIFamily is how user data and defaults are made. Absent is the family of the alias.
	// +optional
	AMIFamily *AMIFamily `json:"amiFamily,omitempty"`
	// UserData is merged with what the family needs; Custom passes it as it is.
	// +optional
	UserData *string `json:"userData,omitempty"`
	// Role is the IAM role of the instances. An instance profile is made for it.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="role: must not be empty",reason=FieldValueRequired
	// +optional
	Role string `json:"role,omitempty"`
	// InstanceProfile is an existing profile for the instances.
	// +kubebuilder:validation:XValidation:rule="self != ''",message="instanceProfile: must not be empty",reason=FieldValueRequired
	// +optional
	InstanceProfile *string `json:"instanceProfile,omitempty"`
	// Tags are put on everything that is created in EC2 for the instances.
	// +kubebuilder:validation:XValidation:rule="!('' in self)",message="tags: a key must not be empty"
	// +kubebuilder:validation:XValidation:rule="!('eks:eks-cluster-name' in self)",message="tags: eks:eks-cluster-name is set by the controller",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('kubernetes.io/cluster'))",message="tags: keys that begin with kubernetes.io/cluster are set by the controller",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodepool' in self)",message="tags: karpenter.sh/nodepool is set by the controller",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!('karpenter.sh/nodeclaim' in self)",message="tags: karpenter.sh/nodeclaim is set by the controller",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!('karpenter.k8s.aws/ec2nodeclass' in self)",message="tags: karpenter.k8s.aws/ec2nodeclass is set by the controller",reason=FieldValueForbidden
	// +optional
	Tags map[string]string `json:"tags,omitzero"`
	// Kubelet configures the kubelet, and what it keeps of a node's resources.
	// +optional
	Kubelet *KubeletConfiguration `json:"kubelet,omitempty"`
	// BlockDeviceMappings are the volumes. Absent is what the family needs.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:XValidation:rule="self.filter(d, has(d.rootVolume) && d.rootVolume).size() <= 1",message="blockDeviceMappings: only one may have rootVolume true"
	// +optional
	BlockDeviceMappings []BlockDeviceMapping `json:"blockDeviceMappings,omitzero"`
	// InstanceStorePolicy is what becomes of local disks. Absent leaves them alone.
	// +optional
	InstanceStorePolicy *InstanceStorePolicy `json:"instanceStorePolicy,omitempty"`
	// DetailedMonitoring turns on metrics per minute.
	// +optional
	DetailedMonitoring *bool `json:"detailedMonitoring,omitempty"`
	// MetadataOptions configure the instance metadata service.
	// +kubebuilder:default={httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}
	// +optional
	MetadataOptions *MetadataOptions `json:"metadataOptions,omitempty"`
	// NetworkInterfaces replace the interfaces that would be chosen.
	// +kubebuilder:validation:MaxItems=150
	// +kubebuilder:validation:XValidation:rule="size(self) == 0 || self.exists(i, i.networkCardIndex == 0 && i.deviceIndex == 0 && i.interfaceType == 'interface')",message="networkInterfaces: card 0, device 0 must be there with interfaceType interface"
	// +kubebuilder:validation:XValidation:rule="self.all(i, self.exists_one(j, i.networkCardIndex == j.networkCardIndex && i.deviceIndex == j.deviceIndex))",message="networkInterfaces: networkCardIndex and deviceIndex together must be unique"
	// +kubebuilder:validation:XValidation:rule="self.all(i, i.interfaceType != 'efa-only' || self.exists_one(j, j.interfaceType == 'efa-only' && i.networkCardIndex == j.networkCardIndex))",message="networkInterfaces: one efa-only interface at most per network card"
	// +optional
	NetworkInterfaces []NetworkInterface `json:"networkInterfaces,omitzero"`
	// ConnectionTracking configures how long connections are remembered. Only Nitro instances that are not bare metal have it.
	// +optional
	ConnectionTracking *ConnectionTracking `json:"connectionTracking,omitempty"`
	// CPUOptions configure the processor.
	// +optional
	CPUOptions *CPUOptions `json:"cpuOptions,omitempty"`
	// Context is reserved by EC2 and passed on.
	// +optional
	Context *string `json:"context,omitempty"`
}

// SubnetSelectorTerm selects subnets. Of a term with id and tags, which only a mixed list may have, the id counts.
// +kubebuilder:validation:XValidation:rule="has(self.tags) || has(self.id)",message="subnetSelectorTerms: a term needs tags or id",reason=FieldValueRequired
type SubnetSelectorTerm struct {
	// Tags that the subnet has; the value "*" matches any.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="tags: a key or value must not be empty"
	// +optional
	Tags map[string]string `json:"tags,omitzero"`
	// ID of the subnet.
	// +kubebuilder:validation:Pattern=`subnet-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
}

// SecurityGroupSelectorTerm selects security groups. Of a mixed term id counts first, then name.
// +kubebuilder:validation:XValidation:rule="has(self.tags) || has(self.id) || has(self.name)",message="securityGroupSelectorTerms: a term needs tags, id or name",reason=FieldValueRequired
type SecurityGroupSelectorTerm struct {
	// Tags that the group has; the value "*" matches any.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="tags: a key or value must not be empty"
	// +optional
	Tags map[string]string `json:"tags,omitzero"`
	// ID of the group.
	// +kubebuilder:validation:Pattern=`sg-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
	// Name is the name of the group, not its Name tag.
	// +optional
	Name string `json:"name,omitempty"`
}

// InstanceMatchCriteria is which instances a reservation takes.
// +kubebuilder:validation:Enum=open;targeted
type InstanceMatchCriteria string

// The match criteria of reservations.
const (
	MatchOpen     InstanceMatchCriteria = "open"
	MatchTargeted InstanceMatchCriteria = "targeted"
)

// CapacityReservationSelectorTerm selects capacity reservations. A mixed term selects the id and what the rest finds.
// +kubebuilder:validation:XValidation:rule="has(self.tags) || has(self.id) || has(self.instanceMatchCriteria)",message="capacityReservationSelectorTerms: a term needs tags, id or instanceMatchCriteria",reason=FieldValueRequired
type CapacityReservationSelectorTerm struct {
	// Tags that the reservation has; the value "*" matches any.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="tags: a key or value must not be empty"
	// +optional
	Tags map[string]string `json:"tags,omitzero"`
	// ID of the reservation.
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
	// OwnerID is the account that owns the reservation.
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +optional
	OwnerID string `json:"ownerID,omitempty"`
	// InstanceMatchCriteria of the reservation.
	// +optional
	InstanceMatchCriteria InstanceMatchCriteria `json:"instanceMatchCriteria,omitempty"`
}

// PlacementGroupSelector names one placement group.
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.id)",message="placementGroupSelector: exactly one of name and id must be given"
type PlacementGroupSelector struct {
	// Name of the group.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name string `json:"name,omitempty"`
	// ID of the group.
	// +kubebuilder:validation:Pattern=`^pg-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
}

// AMISelectorTerm selects machine images. Alias counts first, then ID, then SSMParameter, then the rest.
// +kubebuilder:validation:XValidation:rule="has(self.tags) || has(self.id) || has(self.name) || has(self.alias) || has(self.ssmParameter)",message="amiSelectorTerms: a term needs tags, id, name, alias or ssmParameter",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="!has(self.id) || !(has(self.alias) || has(self.tags) || has(self.name) || has(self.owner))",message="amiSelectorTerms: a term with id must not have alias, tags, name or owner"
// +kubebuilder:validation:XValidation:rule="!has(self.alias) || !(has(self.id) || has(self.tags) || has(self.name) || has(self.owner))",message="amiSelectorTerms: a term with alias must not have id, tags, name or owner"
type AMISelectorTerm struct {
	// Alias is a family and version, for example "al2023@v20240807" or "bottlerocket@latest".
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9]+@.+$')",message="alias: must have the form family@version"
	// +kubebuilder:validation:XValidation:rule="self.split('@')[0] in ['al2', 'al2023', 'bottlerocket', 'windows2019', 'windows2022', 'windows2025']",message="alias: the family must be al2, al2023, bottlerocket, windows2019, windows2022 or windows2025"
	// +kubebuilder:validation:XValidation:rule="!(self.split('@')[0] in ['windows2019', 'windows2022', 'windows2025']) || (self.split('@').size() > 1 && self.split('@')[1] == 'latest')",message="alias: Windows families have only the version latest"
	// +optional
	Alias string `json:"alias,omitempty"`
	// Tags that the image has; the value "*" matches any.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != '' && self[k] != '')",message="tags: a key or value must not be empty"
	// +optional
	Tags map[string]string `json:"tags,omitzero"`
	// ID of the image.
	// +kubebuilder:validation:Pattern=`ami-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
	// Name of the image; "*" and "?" are wildcards.
	// +optional
	Name string `json:"name,omitempty"`
	// Owner is an account, "self", "amazon" or "aws-marketplace". Absent beside Name is self and amazon.
	// +optional
	Owner string `json:"owner,omitempty"`
	// SSMParameter is the name or ARN of a parameter that holds an image ID.
	// +optional
	SSMParameter string `json:"ssmParameter,omitempty"`
}

// AMIFamily is an operating system as far as joining a cluster goes.
// +kubebuilder:validation:Enum=AL2;AL2023;Bottlerocket;Custom;Windows2019;Windows2022;Windows2025
type AMIFamily string

// The families.
const (
	AL2          AMIFamily = "AL2"
	AL2023       AMIFamily = "AL2023"
	Bottlerocket AMIFamily = "Bottlerocket"
	Custom       AMIFamily = "Custom"
	Windows2019  AMIFamily = "Windows2019"
	Windows2022  AMIFamily = "Windows2022"
	Windows2025  AMIFamily = "Windows2025"
)

// InstanceStorePolicy is what becomes of local disks.
// +kubebuilder:validation:Enum=RAID0
type InstanceStorePolicy string

// InstanceStoreRAID0 joins the local disks to one for ephemeral storage.
const InstanceStoreRAID0 InstanceStorePolicy = "RAID0"

// BlockDeviceMapping is one volume.
type BlockDeviceMapping struct {
	// DeviceName, for example "/dev/xvda".
	// +optional
	DeviceName *string `json:"deviceName,omitempty"`
	// RootVolume marks the volume whose size counts as the node's ephemeral storage.
	// +optional
	RootVolume bool `json:"rootVolume,omitempty"`
	// EBS describes the volume.
	// +kubebuilder:validation:XValidation:rule="has(self.snapshotID) || has(self.volumeSize)",message="ebs: needs snapshotID or volumeSize",reason=FieldValueRequired
	// +kubebuilder:validation:XValidation:rule="!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",message="volumeInitializationRate: needs snapshotID",fieldPath=".volumeInitializationRate"
	// +optional
	EBS *BlockDevice `json:"ebs,omitempty"`
}

// VolumeType is a kind of EBS volume.
// +kubebuilder:validation:Enum=standard;io1;io2;gp2;gp3;sc1;st1
type VolumeType string

// VolumeSize is a whole number of G, Gi, T or Ti. Its pattern has gaps (18Ti) and admits the bare units Ti and T, which are
// no sizes; existing objects rely on the former, so Quantity has to deal with the latter.
// +kubebuilder:validation:Pattern=`^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|[5][0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|[6][0-3][0-9]{3}|64000)G|([1-9]||[1-5][0-7]|58)Ti|([1-9]||[1-5][0-9]|6[0-3]|64)T)$`
type VolumeSize string

// BlockDevice is an EBS volume.
type BlockDevice struct {
	// DeleteOnTermination deletes the volume with the instance.
	// +optional
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`
	// Encrypted encrypts the volume.
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`
	// IOPS of the volume. 0 is as good as absent.
	// +optional
	IOPS *int64 `json:"iops,omitempty"`
	// KMSKeyID is the key that the volume is encrypted with.
	// +optional
	KMSKeyID *string `json:"kmsKeyID,omitempty"`
	// SnapshotID is what the volume is made from.
	// +optional
	SnapshotID *string `json:"snapshotID,omitempty"`
	// Throughput in MiB/s. 0 is as good as absent.
	// +optional
	Throughput *int64 `json:"throughput,omitempty"`
	// VolumeInitializationRate is how fast the snapshot is loaded, in MiB/s.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=300
	// +optional
	VolumeInitializationRate *int32 `json:"volumeInitializationRate,omitempty"`
	// VolumeSize of the volume, for example "100Gi".
	// +optional
	VolumeSize *VolumeSize `json:"volumeSize,omitempty"`
	// VolumeType of the volume.
	// +optional
	VolumeType *VolumeType `json:"volumeType,omitempty"`
}

// MetadataState turns a part of the metadata service on or off.
// +kubebuilder:validation:Enum=enabled;disabled
type MetadataState string

// MetadataTokens says whether the metadata service wants session tokens.
// +kubebuilder:validation:Enum=required;optional
type MetadataTokens string

// MetadataOptions configure the instance metadata service.
type MetadataOptions struct {
	// HTTPEndpoint turns the service on or off. Default enabled.
	// +kubebuilder:default=enabled
	// +optional
	HTTPEndpoint *MetadataState `json:"httpEndpoint,omitempty"`
	// HTTPProtocolIPv6 turns its IPv6 address on or off. Default disabled.
	// +kubebuilder:default=disabled
	// +optional
	HTTPProtocolIPv6 *MetadataState `json:"httpProtocolIPv6,omitempty"`
	// HTTPPutResponseHopLimit is how many hops a token may travel. Default 1, which pods without host network cannot reach.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	HTTPPutResponseHopLimit *int64 `json:"httpPutResponseHopLimit,omitempty"`
	// HTTPTokens says whether session tokens are wanted. Default required.
	// +kubebuilder:default=required
	// +optional
	HTTPTokens *MetadataTokens `json:"httpTokens,omitempty"`
}

// InterfaceType is a kind of network interface.
// +kubebuilder:validation:Enum=interface;efa-only
type InterfaceType string

// The kinds of network interfaces.
const (
	// InterfaceTypeInterface is an ordinary interface.
	InterfaceTypeInterface InterfaceType = "interface"
	// InterfaceTypeEFAOnly carries EFA traffic only and has no address.
	InterfaceTypeEFAOnly InterfaceType = "efa-only"
)

// NetworkInterface is one network interface.
type NetworkInterface struct {
	// NetworkCardIndex is the card that the interface is on.
	// +kubebuilder:validation:Minimum=0
	// +required
	NetworkCardIndex int32 `json:"networkCardIndex"`
	// DeviceIndex is the place on the card.
	// +kubebuilder:validation:Minimum=0
	// +required
	DeviceIndex int32 `json:"deviceIndex"`
	// InterfaceType is the kind of the interface.
	// +required
	InterfaceType InterfaceType `json:"interfaceType"`
}

// ConnectionTracking is how long idle connections are remembered, in seconds.
// +kubebuilder:validation:XValidation:rule="has(self.tcpEstablishedTimeout) || has(self.udpStreamTimeout) || has(self.udpTimeout)",message="connectionTracking: at least one timeout must be given"
type ConnectionTracking struct {
	// TCPEstablishedTimeout for established TCP connections.
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=432000
	// +optional
	TCPEstablishedTimeout *int32 `json:"tcpEstablishedTimeout,omitempty"`
	// UDPStreamTimeout for UDP flows with more than one request.
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=180
	// +optional
	UDPStreamTimeout *int32 `json:"udpStreamTimeout,omitempty"`
	// UDPTimeout for other UDP flows.
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=60
	// +optional
	UDPTimeout *int32 `json:"udpTimeout,omitempty"`
}

// NestedVirtualization turns virtual machines inside the instance on or off.
// +kubebuilder:validation:Enum=enabled;disabled
type NestedVirtualization string

// The states of nested virtualization.
const (
	NestedVirtualizationEnabled  NestedVirtualization = "enabled"
	NestedVirtualizationDisabled NestedVirtualization = "disabled"
)

// CPUOptions configure the processor.
type CPUOptions struct {
	// NestedVirtualization enabled restricts launches to types that have it.
	// +optional
	NestedVirtualization *NestedVirtualization `json:"nestedVirtualization,omitempty"`
}

// KubeletConfiguration configures the kubelet. What it keeps back counts when instance types are compared.
// +kubebuilder:validation:XValidation:rule="!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) || self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent",message="imageGCHighThresholdPercent: must be greater than imageGCLowThresholdPercent",fieldPath=".imageGCHighThresholdPercent"
// +kubebuilder:validation:XValidation:rule="!has(self.evictionSoft) || self.evictionSoft.all(k, has(self.evictionSoftGracePeriod) && k in self.evictionSoftGracePeriod)",message="evictionSoft: each key needs an entry in evictionSoftGracePeriod",fieldPath=".evictionSoft"
// +kubebuilder:validation:XValidation:rule="!has(self.evictionSoftGracePeriod) || self.evictionSoftGracePeriod.all(k, has(self.evictionSoft) && k in self.evictionSoft)",message="evictionSoftGracePeriod: each key needs an entry in evictionSoft",fieldPath=".evictionSoftGracePeriod"
type KubeletConfiguration struct {
	// ClusterDNS are the addresses of the cluster's name servers. Some families take the first only.
	// +optional
	ClusterDNS []string `json:"clusterDNS,omitzero"`
	// MaxPods is the number of pods that a node takes. Absent is what its network interfaces allow.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxPods *int32 `json:"maxPods,omitempty"`
	// PodsPerCore bounds the pods by the processor. 0 is off.
	// +kubebuilder:validation:Minimum=0
	// +optional
	PodsPerCore *int32 `json:"podsPerCore,omitempty"`
	// SystemReserved is kept for the operating system.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage', 'pid'])",message="systemReserved: keys are cpu, memory, ephemeral-storage and pid"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !self[k].startsWith('-'))",message="systemReserved: values must not be negative"
	// +optional
	SystemReserved map[string]string `json:"systemReserved,omitzero"`
	// KubeReserved is kept for Kubernetes. Absent keys are computed.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory', 'ephemeral-storage', 'pid'])",message="kubeReserved: keys are cpu, memory, ephemeral-storage and pid"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !self[k].startsWith('-'))",message="kubeReserved: values must not be negative"
	// +optional
	KubeReserved map[string]string `json:"kubeReserved,omitzero"`
	// EvictionHard are amounts of free resources below which pods are evicted at once.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['memory.available', 'nodefs.available', 'nodefs.inodesFree', 'imagefs.available', 'imagefs.inodesFree', 'pid.available'])",message="evictionHard: keys are memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree and pid.available"
	// +optional
	EvictionHard map[string]EvictionThreshold `json:"evictionHard,omitzero"`
	// EvictionSoft are amounts of free resources below which pods are evicted after a time.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['memory.available', 'nodefs.available', 'nodefs.inodesFree', 'imagefs.available', 'imagefs.inodesFree', 'pid.available'])",message="evictionSoft: keys are memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree and pid.available"
	// +optional
	EvictionSoft map[string]EvictionThreshold `json:"evictionSoft,omitzero"`
	// EvictionSoftGracePeriod are those times, as Go durations.
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['memory.available', 'nodefs.available', 'nodefs.inodesFree', 'imagefs.available', 'imagefs.inodesFree', 'pid.available'])",message="evictionSoftGracePeriod: keys are memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree and pid.available"
	// +optional
	EvictionSoftGracePeriod map[string]string `json:"evictionSoftGracePeriod,omitzero"`
	// EvictionMaxPodGracePeriod bounds the grace period of pods at soft evictions, in seconds.
	// +optional
	EvictionMaxPodGracePeriod *int32 `json:"evictionMaxPodGracePeriod,omitempty"`
	// ImageGCHighThresholdPercent is the disk usage above which images are removed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ImageGCHighThresholdPercent *int32 `json:"imageGCHighThresholdPercent,omitempty"`
	// ImageGCLowThresholdPercent is the disk usage down to which images are removed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ImageGCLowThresholdPercent *int32 `json:"imageGCLowThresholdPercent,omitempty"`
	// CPUCFSQuota enforces CPU limits of containers.
	// +optional
	CPUCFSQuota *bool `json:"cpuCFSQuota,omitempty"`
}
