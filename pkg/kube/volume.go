package kube

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// Problems of volumes: why a claim that a pod mounts cannot be used (scheduling rules 19.1). They appear in cluster.Volume.Problem.
const (
	ClaimNotFound  = "ClaimNotFound"
	ClaimDeleting  = "ClaimDeleting"
	ClaimLost      = "ClaimLost"
	VolumeNotFound = "VolumeNotFound"
	VolumeDeleting = "VolumeDeleting"
	// BindingIncomplete: the claim names a volume, but the binding is not completed.
	BindingIncomplete = "BindingIncomplete"
	ClassMissing      = "ClassMissing"
	ClassNotFound     = "ClassNotFound"
	// Unbound: the class binds at once, yet the claim is not bound.
	Unbound = "Unbound"
	// Unreadable: the objects that would tell could not be read.
	Unreadable = "Unreadable"
)

const (
	bindCompleted    = "pv.kubernetes.io/bind-completed"
	betaStorageClass = "volume.beta.kubernetes.io/storage-class"
)

// volumes keeps the storage objects and resolves what pods mount.
type volumes struct {
	claims  map[string]*corev1.PersistentVolumeClaim // by namespace/name
	vols    map[string]*corev1.PersistentVolume
	classes map[string]*storagev1.StorageClass
	// unreadable holds, by kind, why objects are missing.
	unreadable map[string]string
}

func newVolumes() volumes {
	return volumes{
		claims: map[string]*corev1.PersistentVolumeClaim{}, vols: map[string]*corev1.PersistentVolume{},
		classes: map[string]*storagev1.StorageClass{}, unreadable: map[string]string{},
	}
}

// claimNames lists the claims a pod mounts, by name, in the order of its volumes.
func claimNames(pod *corev1.Pod) []string {
	var out []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			out = append(out, pod.Name+"-"+v.Name)
		}
	}
	return out
}

// of resolves the volumes of a pod; nil if it mounts no claim.
func (s *volumes) of(pod *corev1.Pod) []cluster.Volume {
	names := claimNames(pod)
	if len(names) == 0 {
		return nil
	}
	out := make([]cluster.Volume, len(names))
	for i, name := range names {
		out[i] = s.resolve(pod.Namespace, name)
	}
	return out
}

// resolve finds what is known about one claim.
func (s *volumes) resolve(namespace, name string) cluster.Volume {
	out := cluster.Volume{Claim: name, ID: namespace + "/" + name}
	problem := func(code, format string, args ...any) cluster.Volume {
		out.Problem, out.ProblemDetail = code, fmt.Sprintf(format, args...)
		return out
	}
	claim, ok := s.claims[namespace+"/"+name]
	switch {
	case !ok && s.unreadable[PersistentVolumeClaimKind] != "":
		return problem(Unreadable, "%s", s.unreadable[PersistentVolumeClaimKind])
	case !ok:
		return problem(ClaimNotFound, "")
	case claim.DeletionTimestamp != nil:
		return problem(ClaimDeleting, "")
	case claim.Status.Phase == corev1.ClaimLost:
		return problem(ClaimLost, "%s", claim.Spec.VolumeName)
	case claim.Spec.VolumeName == "":
		return s.unbound(out, className(claim))
	}
	out.PV = claim.Spec.VolumeName
	vol, ok := s.vols[out.PV]
	switch {
	case !ok && s.unreadable[PersistentVolumeKind] != "":
		return problem(Unreadable, "%s", s.unreadable[PersistentVolumeKind])
	case !ok:
		return problem(VolumeNotFound, "%s", out.PV)
	case vol.DeletionTimestamp != nil:
		return problem(VolumeDeleting, "%s", out.PV)
	}
	if _, ok := claim.Annotations[bindCompleted]; !ok {
		return problem(BindingIncomplete, "%s", out.PV)
	}
	switch {
	case vol.Spec.CSI != nil:
		out.Driver, out.ID = vol.Spec.CSI.Driver, vol.Spec.CSI.VolumeHandle
	case vol.Spec.AWSElasticBlockStore != nil:
		out.Driver, out.ID = "ebs.csi.aws.com", vol.Spec.AWSElasticBlockStore.VolumeID
	}
	out.Alternatives = boundAlternatives(vol)
	return out
}

// unbound completes a claim whose volume will be made for the pod.
func (s *volumes) unbound(out cluster.Volume, name string) cluster.Volume {
	if name == "" {
		out.Problem = ClassMissing
		return out
	}
	class, ok := s.classes[name]
	if !ok {
		out.Problem, out.ProblemDetail = ClassNotFound, name
		if why := s.unreadable[StorageClassKind]; why != "" {
			out.Problem, out.ProblemDetail = Unreadable, why
		}
		return out
	}
	// The API server's default for an absent mode is Immediate.
	if class.VolumeBindingMode == nil || *class.VolumeBindingMode == storagev1.VolumeBindingImmediate {
		out.Problem, out.ProblemDetail = Unbound, name
		return out
	}
	out.Driver = csiName(class.Provisioner)
	for _, term := range class.AllowedTopologies {
		var exprs []constraint.Expr
		for _, e := range term.MatchLabelExpressions {
			exprs = append(exprs, constraint.Expr{Key: e.Key, Operator: constraint.In, Values: e.Values})
		}
		out.Alternatives = append(out.Alternatives, exprs)
	}
	return out
}

// boundAlternatives are the terms of the volume's node affinity. Volumes that live on one host are not bound to it here: their pods may
// move, the data may not, which is for the user to decide.
func boundAlternatives(vol *corev1.PersistentVolume) [][]constraint.Expr {
	if vol.Spec.NodeAffinity == nil || vol.Spec.NodeAffinity.Required == nil {
		return nil
	}
	host := vol.Spec.Local != nil || vol.Spec.HostPath != nil
	var out [][]constraint.Expr
	for _, term := range vol.Spec.NodeAffinity.Required.NodeSelectorTerms {
		var exprs []constraint.Expr
		for _, e := range nodeExprs(term.MatchExpressions) {
			if !host || e.Key != corev1.LabelHostname {
				exprs = append(exprs, e)
			}
		}
		out = append(out, exprs)
	}
	return out
}

func className(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[betaStorageClass]; ok {
		return name
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}

// csiName translates the provisioners that were once part of Kubernetes to the CSI drivers that replaced them.
func csiName(provisioner string) string {
	old, ok := strings.CutPrefix(provisioner, "kubernetes.io/")
	if !ok {
		return provisioner
	}
	switch old {
	case "aws-ebs":
		return "ebs.csi.aws.com"
	case "azure-disk":
		return "disk.csi.azure.com"
	case "azure-file":
		return "file.csi.azure.com"
	case "cinder":
		return "cinder.csi.openstack.org"
	case "gce-pd":
		return "pd.csi.storage.gke.io"
	case "portworx-volume":
		return "pxd.portworx.com"
	case "vsphere-volume":
		return "csi.vsphere.vmware.com"
	}
	return provisioner
}
