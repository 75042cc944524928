package cluster_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karp-sh/karp/test/cluster"
)

// TestVolumeFollowsItsPod: a claim that waits for its first consumer gets its volume in the zone of the node that the
// scheduler has chosen, the volume is attached while the pod runs, and both are gone with the pod and the claim.
func TestVolumeFollowsItsPod(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Components: kubernetesOnly()})
	client := clientOf(t, c)
	createNode(t, c, "one")
	patch := []byte(`{"metadata":{"labels":{"topology.kubernetes.io/zone":"us-west-2b"}}}`)
	if _, err := client.CoreV1().Nodes().Patch(t.Context(), "one", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gp3"}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: &mode}
	if _, err := client.StorageV1().StorageClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if _, err := client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "user", Namespace: "default", Labels: map[string]string{"app": "user"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/app"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
		},
	}
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitRunning(t, c, "user", 1)

	volumes := cluster.Query{Resource: corev1.SchemeGroupVersion.WithResource("persistentvolumes")}
	cluster.Await(t, c, volumes, func(all []corev1.PersistentVolume) string {
		if len(all) != 1 || all[0].Status.Phase != corev1.VolumeBound {
			return fmt.Sprintf("want one bound volume, got %d: %+v", len(all), all)
		}
		zone := all[0].Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
		if zone.Key != corev1.LabelTopologyZone || len(zone.Values) != 1 || zone.Values[0] != "us-west-2b" {
			t.Fatalf("volume's zone: got %+v, want that of the node", zone)
		}
		return ""
	})
	attachments := cluster.Query{Resource: storagev1.SchemeGroupVersion.WithResource("volumeattachments")}
	cluster.Await(t, c, attachments, func(all []storagev1.VolumeAttachment) string {
		if len(all) != 1 || !all[0].Status.Attached || all[0].Spec.NodeName != "one" {
			return fmt.Sprintf("want one attached volume, got %+v", all)
		}
		return ""
	})

	if err := client.CoreV1().Pods("default").Delete(t.Context(), "user", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, c, attachments, func(all []storagev1.VolumeAttachment) string {
		if len(all) > 0 {
			return fmt.Sprintf("attached still: %+v", all)
		}
		return ""
	})
	if err := client.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	cluster.Await(t, c, volumes, func(all []corev1.PersistentVolume) string {
		if len(all) > 0 {
			return fmt.Sprintf("there still: %+v", all)
		}
		return ""
	})
}
