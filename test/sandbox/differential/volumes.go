package differential

import (
	corev1 "k8s.io/api/core/v1"
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

func (g *generator) volumes(*Case) {}
