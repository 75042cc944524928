package v1

// Labels of nodes that come from the instance type. Units are those of the label values.
const (
	LabelInstanceCategory                     = "karpenter.k8s.aws/instance-category"
	LabelInstanceGeneration                   = "karpenter.k8s.aws/instance-generation"
	LabelInstanceFamily                       = "karpenter.k8s.aws/instance-family"
	LabelInstanceSize                         = "karpenter.k8s.aws/instance-size"
	LabelInstanceCapabilityFlex               = "karpenter.k8s.aws/instance-capability-flex"
	LabelInstanceCPU                          = "karpenter.k8s.aws/instance-cpu"
	LabelInstanceCPUManufacturer              = "karpenter.k8s.aws/instance-cpu-manufacturer"
	LabelInstanceCPUSustainedClockSpeedMHz    = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz"
	LabelInstanceMemory                       = "karpenter.k8s.aws/instance-memory"            // MiB, before any overhead
	LabelInstanceEBSBandwidth                 = "karpenter.k8s.aws/instance-ebs-bandwidth"     // Mbps
	LabelInstanceNetworkBandwidth             = "karpenter.k8s.aws/instance-network-bandwidth" // Mbps, baseline
	LabelInstanceLocalNVMe                    = "karpenter.k8s.aws/instance-local-nvme"        // GB
	LabelInstanceHypervisor                   = "karpenter.k8s.aws/instance-hypervisor"
	LabelInstanceEncryptionInTransitSupported = "karpenter.k8s.aws/instance-encryption-in-transit-supported"
	LabelInstanceGPUName                      = "karpenter.k8s.aws/instance-gpu-name"
	LabelInstanceGPUManufacturer              = "karpenter.k8s.aws/instance-gpu-manufacturer"
	LabelInstanceGPUCount                     = "karpenter.k8s.aws/instance-gpu-count"
	LabelInstanceGPUMemory                    = "karpenter.k8s.aws/instance-gpu-memory" // MiB of one GPU
	LabelInstanceAcceleratorName              = "karpenter.k8s.aws/instance-accelerator-name"
	LabelInstanceAcceleratorManufacturer      = "karpenter.k8s.aws/instance-accelerator-manufacturer"
	LabelInstanceAcceleratorCount             = "karpenter.k8s.aws/instance-accelerator-count"
	LabelInstanceTenancy                      = "karpenter.k8s.aws/instance-tenancy"
	LabelCapacityReservationID                = "karpenter.k8s.aws/capacity-reservation-id"
	LabelCapacityReservationType              = "karpenter.k8s.aws/capacity-reservation-type"
	LabelCapacityReservationInterruptible     = "karpenter.k8s.aws/capacity-reservation-interruptible"
	LabelPlacementGroupID                     = "karpenter.k8s.aws/placement-group-id"
	LabelPlacementGroupPartition              = "karpenter.k8s.aws/placement-group-partition"
	LabelTopologyZoneID                       = "topology.k8s.aws/zone-id"
	LabelTopologyZoneEBS                      = "topology.ebs.csi.aws.com/zone" // alias of topology.kubernetes.io/zone
	// EC2NodeClassLabel is the name of the class, on claims and nodes. Neither pools nor pods can select it.
	EC2NodeClassLabel = "karpenter.k8s.aws/ec2nodeclass"
)

// Values of LabelInstanceTenancy.
const (
	TenancyDefault   = "default"
	TenancyDedicated = "dedicated"
)

// Annotations.
const (
	// HashAnnotation is EC2NodeClass.Hash, on classes and claims.
	HashAnnotation = "karpenter.k8s.aws/ec2nodeclass-hash"
	// HashVersionAnnotation is the HashVersion that HashAnnotation was made with.
	HashVersionAnnotation = "karpenter.k8s.aws/ec2nodeclass-hash-version"
	// TaggedAnnotation is "true" on a claim whose instance has the tags of registration.
	TaggedAnnotation = "karpenter.k8s.aws/tagged"
	// InstanceProfileAnnotation is the profile that a claim's instance uses, which protects it from being cleaned up.
	InstanceProfileAnnotation = "karpenter.k8s.aws/instance-profile-name"
	// ClusterNameTaggedAnnotation is "true" on a claim whose instance was given the cluster name tag later.
	ClusterNameTaggedAnnotation = "compatibility.karpenter.k8s.aws/cluster-name-tagged"
)

// TerminationFinalizer holds a class while claims refer to it.
const TerminationFinalizer = "karpenter.k8s.aws/termination"

// Tags of what is created in EC2.
const (
	// TagClusterPrefix, followed by the cluster's name, has the value "owned".
	TagClusterPrefix = "kubernetes.io/cluster/"
	TagClusterName   = "eks:eks-cluster-name"
	TagNodePool      = "karpenter.sh/nodepool"
	TagNodeClaim     = "karpenter.sh/nodeclaim"
	TagEC2NodeClass  = "karpenter.k8s.aws/ec2nodeclass"
	TagName          = "Name"
	TagLaunchID      = "karp.sh/launch-id"
	TagLaunchToken   = "karp.sh/launch-token" //nolint:gosec // the key of a tag, not a secret
)

// Resources that the provider adds to a node.
const (
	ResourceNVIDIAGPU          = "nvidia.com/gpu"
	ResourceAMDGPU             = "amd.com/gpu"
	ResourceAWSNeuron          = "aws.amazon.com/neuron"
	ResourceAWSNeuronCore      = "aws.amazon.com/neuroncore"
	ResourceHabanaGaudi        = "habana.ai/gaudi"
	ResourceAWSPodENI          = "vpc.amazonaws.com/pod-eni"
	ResourcePrivateIPv4Address = "vpc.amazonaws.com/PrivateIPv4Address"
	ResourceEFA                = "vpc.amazonaws.com/efa"
)
