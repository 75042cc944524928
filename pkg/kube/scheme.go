package kube

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	autoscalingv1beta1 "github.com/karp-sh/karp/pkg/apis/autoscaling/v1beta1"
	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpapi "github.com/karp-sh/karp/pkg/apis/karp/v1alpha1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	karpv1alpha1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1alpha1"
)

// Kinds as they appear in cluster.Unknown and in notes about files.
const (
	PodKind                   = "Pod"
	NodeKind                  = "Node"
	NodeClaimKind             = "NodeClaim"
	NodePoolKind              = "NodePool"
	EC2NodeClassKind          = "EC2NodeClass"
	DaemonSetKind             = "DaemonSet"
	NamespaceKind             = "Namespace"
	PersistentVolumeClaimKind = "PersistentVolumeClaim"
	PersistentVolumeKind      = "PersistentVolume"
	StorageClassKind          = "StorageClass"
	CSINodeKind               = "CSINode"
	PodDisruptionBudgetKind   = "PodDisruptionBudget"
	NodeOverlayKind           = "NodeOverlay"
	CapacityBufferKind        = "CapacityBuffer"
	PodTemplateKind           = "PodTemplate"
	DeploymentKind            = "Deployment"
	ReplicaSetKind            = "ReplicaSet"
	StatefulSetKind           = "StatefulSet"
	ReplicationControllerKind = "ReplicationController"
	ServiceKind               = "Service"
	ResourceSliceKind         = "ResourceSlice"
	ResourceClaimKind         = "ResourceClaim"
	DeviceClassKind           = "DeviceClass"
)

// NewScheme returns a scheme with the kinds karp reads and writes.
func NewScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	add := []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, storagev1.AddToScheme, policyv1.AddToScheme, coordinationv1.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme, resourcev1.AddToScheme,
		karpv1.AddToScheme, karpv1alpha1.AddToScheme, awsv1.AddToScheme, karpapi.AddToScheme, autoscalingv1beta1.AddToScheme,
	}
	var errs []error
	for _, f := range add {
		errs = append(errs, f(s))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("building scheme: %w", err)
	}
	return s, nil
}
