package v1

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Labels of nodes and claims.
const (
	// NodePoolLabel is the name of the pool; claims made by hand lack it.
	NodePoolLabel = "karpenter.sh/nodepool"
	// CapacityTypeLabel is one of the CapacityType values.
	CapacityTypeLabel = "karpenter.sh/capacity-type"
	// RegisteredLabel is "true" on a node whose registration is finished.
	RegisteredLabel = "karpenter.sh/registered"
	// InitializedLabel is "true" on a node that took pods or can.
	InitializedLabel = "karpenter.sh/initialized"
	// DoNotSyncTaintsLabel is "true" on a node whose kubelet sets the taints, so that registration must not.
	DoNotSyncTaintsLabel = "karpenter.sh/do-not-sync-taints"
	// ExcludeFromLoadBalancersValue is the value that a draining node's label
	// node.kubernetes.io/exclude-from-external-load-balancers is given.
	ExcludeFromLoadBalancersValue = "karpenter"
)

// Values of CapacityTypeLabel, as they are preferred.
const (
	CapacityTypeReserved = "reserved"
	CapacityTypeSpot     = "spot"
	CapacityTypeOnDemand = "on-demand"
)

// Annotations.
const (
	// DoNotDisruptAnnotation keeps a pod's node ("true" or a Go duration) or a node ("true" only) from voluntary disruption.
	DoNotDisruptAnnotation = "karpenter.sh/do-not-disrupt"
	// NodePoolHashAnnotation is NodePool.Hash, on pools and claims.
	NodePoolHashAnnotation = "karpenter.sh/nodepool-hash"
	// NodePoolHashVersionAnnotation is the HashVersion that NodePoolHashAnnotation was made with.
	NodePoolHashVersionAnnotation = "karpenter.sh/nodepool-hash-version"
	// TerminationTimestampAnnotation is the hard end of a claim's drain, RFC 3339.
	TerminationTimestampAnnotation = "karpenter.sh/nodeclaim-termination-timestamp"
	// MinValuesRelaxedAnnotation is "true" on a claim whose minValues were lowered.
	MinValuesRelaxedAnnotation = "karpenter.sh/nodeclaim-min-values-relaxed"
	// RequestedDRADriversAnnotation lists the drivers, sorted, separated by commas, that initialization waits for.
	RequestedDRADriversAnnotation = "karpenter.sh/requested-dra-drivers"
	// PriceOverlayAppliedAnnotation is "true" on a claim some of whose types have an overlaid price.
	PriceOverlayAppliedAnnotation = "karpenter.sh/price-overlay-applied"
	// CapacityOverlayAppliedAnnotation is "true" on a claim some of whose types have overlaid capacity.
	CapacityOverlayAppliedAnnotation = "karpenter.sh/capacity-overlay-applied"
	// BufferPodAnnotation is "true" on the simulated pods of a CapacityBuffer.
	BufferPodAnnotation = "karpenter.sh/capacity-buffer-fake-pod"
	// BufferNameAnnotation is the buffer's name on its simulated pods.
	BufferNameAnnotation = "karpenter.sh/capacity-buffer-name"
	// BufferNamespaceAnnotation is the buffer's namespace on its simulated pods.
	BufferNamespaceAnnotation = "karpenter.sh/capacity-buffer-namespace"
	// IntentAnnotation is what the agent has promised to do with a claim and has not finished, JSON.
	IntentAnnotation = "karp.sh/intent"
	// LaunchAnnotation is why a claim was made, JSON.
	LaunchAnnotation = "karp.sh/launch"
	// DisruptionAnnotation is the last verdict on a claim's disruption, JSON.
	DisruptionAnnotation = "karp.sh/disruption"
)

// TerminationFinalizer holds claims and nodes until the instance is gone.
const TerminationFinalizer = "karpenter.sh/termination"

// Taint keys.
const (
	// DisruptedTaintKey marks a node that is being removed, effect NoSchedule.
	DisruptedTaintKey = "karpenter.sh/disrupted"
	// UnregisteredTaintKey marks a node that has not been registered, effect NoExecute; the kubelet sets it.
	UnregisteredTaintKey = "karpenter.sh/unregistered"
	// ReadinessTaintPrefix begins the keys of taints that go away by themselves while a node starts.
	ReadinessTaintPrefix = "readiness.k8s.io/"
)

// DisruptedTaint is the taint of a node that is being removed.
func DisruptedTaint() corev1.Taint {
	return corev1.Taint{Key: DisruptedTaintKey, Effect: corev1.TaintEffectNoSchedule}
}

// UnregisteredTaint is the taint of a node that has not been registered.
func UnregisteredTaint() corev1.Taint {
	return corev1.Taint{Key: UnregisteredTaintKey, Effect: corev1.TaintEffectNoExecute}
}

// IsKnownEphemeral reports whether a taint goes away by itself while a node starts. Scheduling ignores such taints until
// the node is initialized, and initialization waits for them to go.
func IsKnownEphemeral(t corev1.Taint) bool {
	if strings.HasPrefix(t.Key, ReadinessTaintPrefix) {
		return true
	}
	switch t.Key {
	case corev1.TaintNodeNotReady:
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	case corev1.TaintNodeUnreachable, "node.cloudprovider.kubernetes.io/uninitialized":
		return t.Effect == corev1.TaintEffectNoSchedule
	case UnregisteredTaintKey:
		return t.Effect == corev1.TaintEffectNoExecute
	}
	return false
}
