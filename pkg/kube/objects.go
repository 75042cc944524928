package kube

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
)

// Objects are the API objects a snapshot is made from, read once: by Load from a live cluster or by ReadFiles from YAML.
type Objects struct {
	Pods                   []*corev1.Pod
	Nodes                  []*corev1.Node
	NodeClaims             []*karpv1.NodeClaim
	NodePools              []*karpv1.NodePool
	Classes                []*awsv1.EC2NodeClass
	DaemonSets             []*appsv1.DaemonSet
	Namespaces             []*corev1.Namespace
	PersistentVolumeClaims []*corev1.PersistentVolumeClaim
	PersistentVolumes      []*corev1.PersistentVolume
	StorageClasses         []*storagev1.StorageClass
	CSINodes               []*storagev1.CSINode
	PodDisruptionBudgets   []*policyv1.PodDisruptionBudget
	// Others are objects of further kinds that a directory held (events, owners of pods, ...), for whoever asks.
	Others []client.Object
	// Unknown is what could not be read, in the order of the kinds.
	Unknown []cluster.Unknown
	// Notes are remarks about what was left out, for people.
	Notes []Note
}

// Note is a remark about the input.
type Note struct {
	// Where is a file with line ("pods.yaml:12") or a kind.
	Where string
	Text  string
}

// State puts all objects into a new State.
func (o *Objects) State(settings cluster.Settings) *State {
	s := NewState(settings)
	s.still = true
	s.grow(len(o.Pods))
	// What others refer to comes first, so that nothing is converted twice.
	for _, u := range o.Unknown {
		s.SetUnknown(u.Kind, u.Name, u.Problem)
	}
	each(o.StorageClasses, s.SetStorageClass)
	each(o.PersistentVolumes, s.SetPersistentVolume)
	each(o.PersistentVolumeClaims, s.SetPersistentVolumeClaim)
	each(o.CSINodes, s.SetCSINode)
	each(o.PodDisruptionBudgets, s.SetPodDisruptionBudget)
	each(o.Others, s.setGated)
	each(o.Namespaces, s.SetNamespace)
	each(o.Classes, s.SetClass)
	each(o.NodePools, s.SetNodePool)
	each(o.NodeClaims, s.SetNodeClaim)
	each(o.Nodes, s.SetNode)
	each(o.Pods, s.SetPod)
	each(o.DaemonSets, s.SetDaemonSet)
	return s
}

// Snapshot yields the cluster that the objects describe.
func (o *Objects) Snapshot(ctx context.Context, at time.Time, settings cluster.Settings, catalogs Catalogs) *cluster.Snapshot {
	return o.State(settings).Snapshot(ctx, at, catalogs)
}

// Missing returns why objects of a kind could not be read, empty if they could.
func (o *Objects) Missing(kind string) string {
	for _, u := range o.Unknown {
		if u.Kind == kind {
			return u.Problem
		}
	}
	return ""
}

// add sorts an object into its list.
func (o *Objects) add(obj client.Object) {
	switch x := obj.(type) {
	case *corev1.Pod:
		o.Pods = append(o.Pods, x)
	case *corev1.Node:
		o.Nodes = append(o.Nodes, x)
	case *karpv1.NodeClaim:
		o.NodeClaims = append(o.NodeClaims, x)
	case *karpv1.NodePool:
		o.NodePools = append(o.NodePools, x)
	case *awsv1.EC2NodeClass:
		o.Classes = append(o.Classes, x)
	case *appsv1.DaemonSet:
		o.DaemonSets = append(o.DaemonSets, x)
	case *corev1.Namespace:
		o.Namespaces = append(o.Namespaces, x)
	case *corev1.PersistentVolumeClaim:
		o.PersistentVolumeClaims = append(o.PersistentVolumeClaims, x)
	case *corev1.PersistentVolume:
		o.PersistentVolumes = append(o.PersistentVolumes, x)
	case *storagev1.StorageClass:
		o.StorageClasses = append(o.StorageClasses, x)
	case *storagev1.CSINode:
		o.CSINodes = append(o.CSINodes, x)
	case *policyv1.PodDisruptionBudget:
		o.PodDisruptionBudgets = append(o.PodDisruptionBudgets, x)
	default:
		o.Others = append(o.Others, obj)
	}
}

func each[T any](list []T, f func(T)) {
	for _, x := range list {
		f(x)
	}
}
