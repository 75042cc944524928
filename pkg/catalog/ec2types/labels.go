package ec2types

import "github.com/karp-sh/karp/pkg/catalog"

// Keys of the labels an instance type carries.
const (
	LabelInstanceType = "node.kubernetes.io/instance-type"
	LabelArch         = "kubernetes.io/arch"
	LabelOS           = "kubernetes.io/os"
	LabelWindowsBuild = "node.kubernetes.io/windows-build"
	LabelZone         = "topology.kubernetes.io/zone"
	LabelZoneID       = "topology.k8s.aws/zone-id"
	LabelRegion       = "topology.kubernetes.io/region"
	LabelCapacityType = "karpenter.sh/capacity-type"

	LabelCategory            = prefix + "instance-category"
	LabelGeneration          = prefix + "instance-generation"
	LabelFamily              = prefix + "instance-family"
	LabelSize                = prefix + "instance-size"
	LabelFlex                = prefix + "instance-capability-flex"
	LabelCPU                 = prefix + "instance-cpu"
	LabelCPUManufacturer     = prefix + "instance-cpu-manufacturer"
	LabelCPUClock            = prefix + "instance-cpu-sustained-clock-speed-mhz"
	LabelMemory              = prefix + "instance-memory"
	LabelEBSBandwidth        = prefix + "instance-ebs-bandwidth"
	LabelNetworkBandwidth    = prefix + "instance-network-bandwidth"
	LabelLocalNVMe           = prefix + "instance-local-nvme"
	LabelHypervisor          = prefix + "instance-hypervisor"
	LabelEncryptionInTransit = prefix + "instance-encryption-in-transit-supported"
	LabelGPUName             = prefix + "instance-gpu-name"
	LabelGPUManufacturer     = prefix + "instance-gpu-manufacturer"
	LabelGPUCount            = prefix + "instance-gpu-count"
	LabelGPUMemory           = prefix + "instance-gpu-memory"
	LabelAcceleratorName     = prefix + "instance-accelerator-name"
	LabelAcceleratorMaker    = prefix + "instance-accelerator-manufacturer"
	LabelAcceleratorCount    = prefix + "instance-accelerator-count"
	LabelTenancy             = prefix + "instance-tenancy"
	LabelReservationID       = prefix + "capacity-reservation-id"
	LabelReservationType     = prefix + "capacity-reservation-type"
	LabelInterruptible       = prefix + "capacity-reservation-interruptible"
	LabelPlacementGroup      = prefix + "placement-group-id"
	LabelPartition           = prefix + "placement-group-partition"

	prefix = "karpenter.k8s.aws/"
)

// Names of the extended resources an instance type can have.
const (
	PodENI      = "vpc.amazonaws.com/pod-eni"
	PrivateIPv4 = "vpc.amazonaws.com/PrivateIPv4Address"
	EFA         = "vpc.amazonaws.com/efa"
	NvidiaGPU   = "nvidia.com/gpu"
	AMDGPU      = "amd.com/gpu"
	Gaudi       = "habana.ai/gaudi"
	Neuron      = "aws.amazon.com/neuron"
	NeuronCore  = "aws.amazon.com/neuroncore"
)

// Reasons of unavailability that are facts rather than errors of the cloud.
const (
	// ReasonIncompatible tells that the type cannot run under the node class.
	ReasonIncompatible = "IncompatibleNodeClass"
	// ReasonNoPrice tells that no price is known for the offering.
	ReasonNoPrice = catalog.NoPrice
	// ReasonReservationFull tells that the reservation has no free instance.
	ReasonReservationFull = "ReservationCapacityExceeded"
	// ReasonReservationExpiring tells that the capacity block is about to end.
	ReasonReservationExpiring = "CapacityBlockExpiring"
)
