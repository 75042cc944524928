package v1

import "slices"

// InstanceLabels are the labels of this provider that a NodePool, NodeClaim or pod may select, "karpenter.k8s.aws/..."
// only. They are well known: a pool need not mention them. The schemas also admit EC2NodeClassLabel, which is not.
func InstanceLabels() []string {
	return append(OverlayLabels(),
		LabelInstanceTenancy,
		LabelCapacityReservationType, LabelCapacityReservationID, LabelCapacityReservationInterruptible,
		LabelPlacementGroupID, LabelPlacementGroupPartition,
	)
}

// OverlayLabels are those of InstanceLabels that a NodeOverlay may select: what is fixed by the instance type.
func OverlayLabels() []string {
	return []string{
		LabelInstanceEncryptionInTransitSupported,
		LabelInstanceCategory, LabelInstanceHypervisor, LabelInstanceFamily, LabelInstanceGeneration,
		LabelInstanceLocalNVMe, LabelInstanceSize,
		LabelInstanceCPU, LabelInstanceCPUManufacturer, LabelInstanceCPUSustainedClockSpeedMHz,
		LabelInstanceMemory, LabelInstanceEBSBandwidth, LabelInstanceNetworkBandwidth,
		LabelInstanceGPUName, LabelInstanceGPUManufacturer, LabelInstanceGPUCount, LabelInstanceGPUMemory,
		LabelInstanceAcceleratorName, LabelInstanceAcceleratorManufacturer, LabelInstanceAcceleratorCount,
		LabelInstanceCapabilityFlex,
	}
}

// WellKnownLabels are InstanceLabels and the zone id.
func WellKnownLabels() []string { return append(InstanceLabels(), LabelTopologyZoneID) }

// IsWellKnown reports whether a label is one of WellKnownLabels.
func IsWellKnown(key string) bool { return slices.Contains(WellKnownLabels(), key) }

// ProviderResources are the resource names that a NodeOverlay may not set, because they are known from the instance type.
// nvidia.com/gpu and amd.com/gpu are not among them.
func ProviderResources() []string {
	return []string{ResourceAWSPodENI, ResourceEFA, ResourceAWSNeuron, ResourceAWSNeuronCore, ResourceHabanaGaudi}
}
