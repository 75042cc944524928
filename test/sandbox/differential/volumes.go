package differential

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// Volumes are the storage objects of a case: claims that are bound, and their volumes.
type Volumes struct {
	Claims []*corev1.PersistentVolumeClaim
	PVs    []*corev1.PersistentVolume
}

func (v Volumes) clone() Volumes {
	out := Volumes{}
	for _, c := range v.Claims {
		out.Claims = append(out.Claims, c.DeepCopy())
	}
	for _, p := range v.PVs {
		out.PVs = append(out.PVs, p.DeepCopy())
	}
	return out
}

// reachable returns the nodes that all volumes mounted by the pod can be reached from, by the function that the scheduler's VolumeBinding
// plugin calls for claims that are bound. The plugin itself needs informers that run.
func reachable(nodes []*corev1.Node, c *Case, change func(*corev1.PersistentVolume) *corev1.PersistentVolume) Verdict {
	out := newWorld(nodes, nil).names()
	for _, v := range c.Pod.Spec.Volumes {
		for _, claim := range c.Volumes.Claims {
			if v.PersistentVolumeClaim == nil || claim.Name != v.PersistentVolumeClaim.ClaimName {
				continue
			}
			for _, pv := range c.Volumes.PVs {
				if pv.Name != claim.Spec.VolumeName {
					continue
				}
				var ok Verdict
				for _, n := range nodes {
					if volume.CheckNodeAffinity(change(pv), n.Labels) == nil {
						ok = append(ok, n.Name)
					}
				}
				out = both(out, ok)
			}
		}
	}
	return out
}

func asItIs(pv *corev1.PersistentVolume) *corev1.PersistentVolume { return pv }

// withoutHost returns a local volume without its hostname expressions, and without affinity if one of its terms has nothing else.
func withoutHost(pv *corev1.PersistentVolume) *corev1.PersistentVolume {
	if pv.Spec.Local == nil || pv.Spec.NodeAffinity == nil {
		return pv
	}
	pv = pv.DeepCopy()
	terms := pv.Spec.NodeAffinity.Required.NodeSelectorTerms
	for i := range terms {
		var left []corev1.NodeSelectorRequirement
		for _, e := range terms[i].MatchExpressions {
			if e.Key != corev1.LabelHostname {
				left = append(left, e)
			}
		}
		if len(left) == 0 {
			pv.Spec.NodeAffinity = nil
			return pv
		}
		terms[i].MatchExpressions = left
	}
	return pv
}

// volumes gives the pod that waits one or two bound volumes.
func (g *generator) volumes(c *Case) {
	for i := range g.some(1, 2) {
		name := fmt.Sprintf("v%d", i)
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name, UID: types.UID("pv-" + name)},
			Status:     corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
		}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: c.Pod.Namespace, Name: name}
		if g.chance(20) {
			pv.Spec.Local = &corev1.LocalVolumeSource{Path: "/data"}
		} else {
			pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-" + name}
		}
		if g.chance(90) {
			pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: many(g, 1, 2, g.volumeTerm)}}
		}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: c.Pod.Namespace, UID: types.UID(name), Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
		}}
		claim.Spec.VolumeName, claim.Status.Phase = pv.Name, corev1.ClaimBound
		c.Volumes.PVs, c.Volumes.Claims = append(c.Volumes.PVs, pv), append(c.Volumes.Claims, claim)
		c.Pod.Spec.Volumes = append(c.Pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
}

func (g *generator) volumeTerm() corev1.NodeSelectorTerm {
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: many(g, 1, 2, func() string { return pick(g, values...) })}
	}
	zone, host := in(corev1.LabelTopologyZone, "z-a", "z-b", "z-c"), in(corev1.LabelHostname, "n0", "n1", "n2", "n3")
	switch g.IntN(8) {
	case 0:
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{host}}
	case 1:
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{zone, host}}
	case 2:
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			zone, {Key: rackKey, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"r1"}},
		}}
	case 3:
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{in(rackKey, "r1", "r2"), zone}}
	}
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}
}
