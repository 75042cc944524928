package kube_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/kube"
)

// thing is an object that comes, changes between a few variants and goes.
type thing struct {
	kind, name string
	variants   int
	set        func(s *kube.State, variant int)
	del        func(s *kube.State)
}

func objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.NewTime(at)}
}

// things are two of each kind that a snapshot is made of, which refer to each other.
func things() []thing {
	var out []thing
	for _, n := range []string{"a", "b"} {
		out = append(out, podThings(n)...)
		out = append(out, storageThings(n)...)
		out = append(out, nodeThings(n)...)
		out = append(out, poolThings(n)...)
		out = append(out, workloadThings(n)...)
		out = append(out, deviceThings(n)...)
	}
	return out
}

func podThings(n string) []thing {
	one := func(name string, variant int) *corev1.Pod {
		p := pod(name, mount("c-"+n))
		p.ResourceVersion = fmt.Sprint(variant + 1)
		p.Labels = map[string]string{"app": "web"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs-" + n, UID: types.UID("rs-" + n), Controller: new(true)}}
		p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprint(1 + variant%2))}}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		switch variant {
		case 2:
			p.Spec.NodeName, p.Status.Phase = "node-"+n, corev1.PodRunning
		case 3:
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("rc-" + n)}}
		case 4:
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("t")}}
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: new("rc-" + n)}}
		}
		return p
	}
	daemonPod := func(s *kube.State, variant int) {
		p := one("daemon-"+n, 2)
		p.Spec.NodeName, p.Spec.Volumes = []string{"node-a", "node-b"}[variant], nil
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ds-" + n, UID: types.UID("ds-" + n), Controller: new(true)}}
		s.SetPod(p)
	}
	return []thing{
		{"pod", "p-" + n, 5, func(s *kube.State, v int) { s.SetPod(one("p-"+n, v)) }, func(s *kube.State) { s.DeletePod("p-" + n) }},
		{"pod", "q-" + n, 5, func(s *kube.State, v int) { s.SetPod(one("q-"+n, v)) }, func(s *kube.State) { s.DeletePod("q-" + n) }},
		{"pod", "daemon-" + n, 2, daemonPod, func(s *kube.State) { s.DeletePod("daemon-" + n) }},
		{"namespace", "ns-" + n, 2, func(s *kube.State, v int) {
			s.SetNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns-" + n, Labels: map[string]string{"v": fmt.Sprint(v)}}})
		}, func(s *kube.State) { s.DeleteNamespace("ns-" + n) }},
		{"pdb", "pdb-" + n, 2, func(s *kube.State, v int) {
			s.SetPodDisruptionBudget(pdb("pdb-"+n, policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(int32(v)))}))
		}, func(s *kube.State) { s.DeletePodDisruptionBudget("shop", "pdb-"+n) }},
	}
}

func storageThings(n string) []thing {
	return []thing{
		{"pvc", "c-" + n, 2, func(s *kube.State, v int) {
			c := &corev1.PersistentVolumeClaim{ObjectMeta: objectMeta("c-" + n), Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("sc-" + n)}}
			if v == 1 {
				c.Spec.VolumeName, c.Annotations = "pv-"+n, map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
			}
			s.SetPersistentVolumeClaim(c)
		}, func(s *kube.State) { s.DeletePersistentVolumeClaim("shop", "c-"+n) }},
		{"pv", "pv-" + n, 2, func(s *kube.State, v int) {
			x := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + n}}
			x.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: fmt.Sprint("vol-", v)}
			x.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "c-" + n}
			s.SetPersistentVolume(x)
		}, func(s *kube.State) { s.DeletePersistentVolume("pv-" + n) }},
		{"sc", "sc-" + n, 2, func(s *kube.State, v int) {
			mode := []storagev1.VolumeBindingMode{storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate}[v]
			s.SetStorageClass(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "sc-" + n}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: &mode})
		}, func(s *kube.State) { s.DeleteStorageClass("sc-" + n) }},
	}
}

func nodeThings(n string) []thing {
	return []thing{
		{"node", "node-" + n, 3, func(s *kube.State, v int) {
			x := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + n, UID: types.UID("node-" + n), Labels: map[string]string{"karpenter.sh/nodepool": "pool-" + n}}}
			x.Spec.ProviderID = "aws:///z/i-" + n
			if v > 0 {
				x.Labels["karpenter.sh/registered"], x.Labels["node.kubernetes.io/instance-type"] = "true", "m"
			}
			if v > 1 {
				x.Labels["karpenter.sh/initialized"] = "true"
				x.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("2"), "pods": resource.MustParse("10")}
			}
			s.SetNode(x)
		}, func(s *kube.State) { s.DeleteNode("node-" + n) }},
		{"csinode", "node-" + n, 2, func(s *kube.State, v int) {
			s.SetCSINode(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-" + n}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
				{Name: "ebs.csi.aws.com", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(v + 1))}}}}})
		}, func(s *kube.State) { s.DeleteCSINode("node-" + n) }},
		{"nodeclaim", "claim-" + n, 3, func(s *kube.State, v int) {
			c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim-" + n, UID: types.UID("claim-" + n), Labels: map[string]string{"karpenter.sh/nodepool": "pool-" + n}}}
			c.Spec.NodeClassRef = ref("class-" + n)
			if v > 0 {
				c.Status.ProviderID = "aws:///z/i-" + n
				c.Status.Conditions = []metav1.Condition{{Type: "Launched", Status: metav1.ConditionTrue}}
			}
			if v > 1 {
				c.DeletionTimestamp = new(metav1.NewTime(at))
			}
			s.SetNodeClaim(c)
		}, func(s *kube.State) { s.DeleteNodeClaim("claim-" + n) }},
	}
}

func poolThings(n string) []thing {
	return []thing{
		{"pool", "pool-" + n, 3, func(s *kube.State, v int) {
			p := pool("pool-"+n, "class-"+n)
			p.Spec.Weight = new(int32(v + 1))
			s.SetNodePool(p)
		}, func(s *kube.State) { s.DeleteNodePool("pool-" + n) }},
		{"class", "class-" + n, 2, func(s *kube.State, v int) {
			c := class("class-" + n)
			c.ResourceVersion = fmt.Sprint(v)
			c.Status.Subnets = c.Status.Subnets[v:]
			s.SetClass(c)
		}, func(s *kube.State) { s.DeleteClass("class-" + n) }},
	}
}

func workloadThings(n string) []thing {
	return []thing{
		{"daemonset", "ds-" + n, 2, func(s *kube.State, v int) {
			d := &appsv1.DaemonSet{ObjectMeta: objectMeta("ds-" + n)}
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprint(v + 1))}}}}
			s.SetDaemonSet(d)
		}, func(s *kube.State) { s.DeleteDaemonSet("ds-" + n) }},
		{"service", "svc-" + n, 2, func(s *kube.State, v int) {
			s.SetService(&corev1.Service{ObjectMeta: objectMeta("svc-" + n), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": []string{"web", "db"}[v]}}})
		}, func(s *kube.State) { s.DeleteService("shop", "svc-"+n) }},
		{"replicaset", "rs-" + n, 2, func(s *kube.State, v int) {
			s.SetReplicaSet(&appsv1.ReplicaSet{ObjectMeta: objectMeta("rs-" + n), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": []string{"web", "api"}[v]}}}})
		}, func(s *kube.State) { s.DeleteReplicaSet("shop", "rs-"+n) }},
		{"template", "t-" + n, 2, func(s *kube.State, v int) {
			s.SetPodTemplate(&corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "t-" + n, Generation: int64(v + 1)}, Template: podTemplate(fmt.Sprint(v + 1))})
		}, func(s *kube.State) { s.DeletePodTemplate("shop", "t-"+n) }},
	}
}

func deviceThings(n string) []thing {
	expression := func(v int) []resourcev1.DeviceSelector {
		return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: []string{`device.driver == "gpu.example.com"`, `device.attributes["gpu.example.com"].model == "A"`}[v]}}}
	}
	return []thing{
		{"slice", "slice-" + n, 2, func(s *kube.State, v int) {
			s.SetResourceSlice(&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice-" + n}, Spec: resourcev1.ResourceSliceSpec{
				Driver: "gpu.example.com", NodeName: new("node-" + n), Pool: resourcev1.ResourcePool{Name: "node-" + n, Generation: 1, ResourceSliceCount: 1},
				Devices: []resourcev1.Device{{Name: "gpu-0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: new([]string{"A", "B"}[v])}}}}}})
		}, func(s *kube.State) { s.DeleteResourceSlice("slice-" + n) }},
		{"resourceclaim", "rc-" + n, 2, func(s *kube.State, v int) {
			s.SetResourceClaim(&resourcev1.ResourceClaim{ObjectMeta: objectMeta("rc-" + n), Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
				Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "dc-" + n, Count: 1, Selectors: expression(v)}}}}}})
		}, func(s *kube.State) { s.DeleteResourceClaim("shop", "rc-"+n) }},
		{"deviceclass", "dc-" + n, 2, func(s *kube.State, v int) {
			s.SetDeviceClass(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "dc-" + n}, Spec: resourcev1.DeviceClassSpec{Selectors: expression(v)}})
		}, func(s *kube.State) { s.DeleteDeviceClass("dc-" + n) }},
	}
}

// everything is what a snapshot says, as text.
func everything(s *cluster.Snapshot) string {
	text, err := json.MarshalIndent(struct {
		*cluster.Snapshot
		Targets []*cluster.Target
		Unbound []*cluster.Group
	}{s, s.Targets(), s.Unbound()}, "", " ")
	if err != nil {
		return err.Error()
	}
	return strings.NewReplacer(": null", ": []", ": {}", ": []").Replace(string(text)) // empty is empty
}

// TestIncremental: whatever comes, changes and goes, with snapshots on the way, the state is that of one which saw only what there is in the end.
func TestIncremental(t *testing.T) {
	all := things()
	settings := cluster.Settings{CapacityBuffer: true, NodeOverlay: true, DefaultSpread: []cluster.Spread{{Key: "topology.kubernetes.io/zone", MaxSkew: 1, Hard: true}}}
	catalogs := shop()
	seen := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		s, now := kube.NewState(settings), map[int]int{}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			i := rapid.IntRange(0, len(all)-1).Draw(t, "thing")
			if _, there := now[i]; there && rapid.IntRange(0, 2).Draw(t, "gone?") == 0 {
				all[i].del(s)
				delete(now, i)
			} else {
				now[i] = rapid.IntRange(0, all[i].variants-1).Draw(t, "variant")
				all[i].set(s, now[i])
			}
			if rapid.IntRange(0, 5).Draw(t, "snapshot?") == 0 {
				s.Snapshot(t.Context(), at, catalogs)
			}
		}
		fresh := kube.NewState(settings)
		for _, i := range slices.Sorted(maps.Keys(now)) {
			all[i].set(fresh, now[i])
			seen[all[i].kind] = true
		}
		got, want := s.Snapshot(t.Context(), at.Add(time.Second), catalogs), fresh.Snapshot(t.Context(), at.Add(time.Second), catalogs)
		if diff := cmp.Diff(strings.Split(everything(want), "\n"), strings.Split(everything(got), "\n")); diff != "" {
			t.Fatalf("the state with a past differs (-fresh +got):\n%s", diff)
		}
		if got.Digest() != want.Digest() {
			t.Fatalf("digest %s with a past, %s without", got.Digest(), want.Digest())
		}
	})
	for _, x := range all {
		if !seen[x.kind] {
			t.Errorf("no case had a %s", x.kind)
		}
	}
}
