package kube_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/units"
)

// amounts reads "cpu=2 memory=1Gi".
func amounts(text string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for f := range strings.FieldsSeq(text) {
		name, v, _ := strings.Cut(f, "=")
		out[corev1.ResourceName(name)] = resource.MustParse(v)
	}
	return out
}

func box(requests string) corev1.Container {
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: amounts(requests)}}
}

func helper(requests string) corev1.Container {
	c := box(requests)
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return c
}

// The cases of the scheduling specification (32.10) about what a pod requests.
func TestRequestCases(t *testing.T) {
	for _, tc := range []struct {
		row  string
		spec corev1.PodSpec
		want units.List
	}{
		{"S-144", corev1.PodSpec{Containers: []corev1.Container{box("cpu=2")}, InitContainers: []corev1.Container{helper("cpu=1500m"), box("cpu=3")}}, units.List{"cpu": 4500}},
		{"S-145", corev1.PodSpec{Containers: []corev1.Container{box("cpu=2")}, InitContainers: []corev1.Container{box("cpu=3"), helper("cpu=1500m")}}, units.List{"cpu": 3500}},
		{"S-146", corev1.PodSpec{Containers: []corev1.Container{box("cpu=2")}, InitContainers: []corev1.Container{box("cpu=5")}}, units.List{"cpu": 5000}},
		{"S-147", corev1.PodSpec{Containers: []corev1.Container{box("cpu=500m memory=512Mi"), box("cpu=500m memory=512Mi")}, Resources: &corev1.ResourceRequirements{Requests: amounts("cpu=3")}}, units.List{"cpu": 3000, "memory": 1 << 30}},
		{"S-148", corev1.PodSpec{Containers: []corev1.Container{box("cpu=2")}, Overhead: amounts("cpu=1")}, units.List{"cpu": 3000}},
	} {
		tc.want[units.Pods] = 1
		if diff := cmp.Diff(tc.want, kube.Requests(&corev1.Pod{Spec: tc.spec})); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", tc.row, diff)
		}
	}
}

// S-158: a resize in progress counts at its largest, one that the node cannot do counts at what the container has.
func TestResizeCase(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{box("cpu=1")}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: amounts("cpu=2"), Resources: &corev1.ResourceRequirements{Requests: amounts("cpu=1")}}}
	if got := kube.Requests(p)["cpu"]; got != 2000 {
		t.Errorf("in progress: cpu %d, want 2000", got)
	}
	p.Spec.Containers[0] = box("cpu=4")
	p.Status.ContainerStatuses[0].AllocatedResources = amounts("cpu=1")
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible}}
	if got := kube.Requests(p)["cpu"]; got != 1000 {
		t.Errorf("infeasible: cpu %d, want 1000", got)
	}
}

// S-128, S-129, S-141: what stands for the daemon pods to come.
func TestDaemonCases(t *testing.T) {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ds", UID: "ds"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: amounts("cpu=2")}}}
	s := kube.NewState(cluster.Settings{})
	s.SetDaemonSet(set)
	shape := func() *cluster.Shape { return snapshot(t, s, nil).DaemonSets[0].Shape }
	if got := shape().Requests["cpu"]; got != 2000 {
		t.Errorf("S-128: cpu %d, want the limit's 2000", got)
	}
	daemon := func(name, cpu string, age time.Duration) {
		s.SetPod(pod(name, func(p *corev1.Pod) {
			p.CreationTimestamp = metav1.NewTime(at.Add(-age))
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "ds", UID: "ds", Controller: new(true)}}
			p.Spec.Containers = []corev1.Container{box("cpu=" + cpu)}
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n7"}}}}}}}}
		}))
	}
	daemon("old", "1", time.Hour)
	daemon("young", "500m", time.Minute)
	if got := shape().Requests["cpu"]; got != 500 {
		t.Errorf("S-129: cpu %d, want the newest pod's 500", got)
	}
	if got := shape().Required; len(got) != 0 {
		t.Errorf("S-141: required %v, want none: the pin to a node is not the template's", got)
	}
}

// S-323: ports of init containers that end before the others start do not count. S-324: neither do ports that are not the host's.
func TestHostPortCases(t *testing.T) {
	ports := func(row string, with func(*corev1.PodSpec)) {
		t.Helper()
		s := kube.NewState(cluster.Settings{})
		s.SetPod(pod("a", func(p *corev1.Pod) { with(&p.Spec) }))
		if got := snapshot(t, s, nil).Pods[0].Shape.HostPorts; len(got) > 0 {
			t.Errorf("%s: host ports %v, want none", row, got)
		}
	}
	ports("S-323", func(p *corev1.PodSpec) {
		p.InitContainers = []corev1.Container{{Name: "i", Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}}}
	})
	ports("S-324", func(p *corev1.PodSpec) {
		p.Containers = []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}
	})
}

// storageCase is a pod "a" that mounts the claim "c" or an ephemeral volume, with the objects that exist.
type storageCase struct {
	row     string
	mount   func(*corev1.Pod)
	objects func(*kube.State)
	problem string // of the volume
	driver  string
	terms   [][]constraint.Expr
}

// The cases of the scheduling specification (32.19) that are decided where volumes are resolved.
func TestStorageCases(t *testing.T) {
	ephemeral := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
	}
	local := corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}}
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1"}}
	in := func(key, v string) constraint.Expr {
		return constraint.Expr{Key: key, Operator: constraint.In, Values: []string{v}}
	}
	zoneA, host := in(constraint.ZoneKey, "z-a"), in(constraint.HostnameKey, "old")
	for _, tc := range []storageCase{
		{"S-329 host", mount("c"), bind("c", "gone", local, host), "", "", [][]constraint.Expr{nil}},
		{"S-329 zone and host", mount("c"), bind("c", "gone", local, zoneA, host), "", "", [][]constraint.Expr{{zoneA}}},
		{"S-334 no class, bound", mount("c"), bind("c", "gone", csi), "", "ebs.csi.aws.com", nil},
		{"S-334 no class, unbound", mount("c"), await("c", "gone", ""), kube.ClassNotFound, "", nil},
		{"S-334 empty name, bound", mount("c"), bind("c", "", csi), "", "ebs.csi.aws.com", nil},
		{"S-334 empty name, unbound", mount("c"), await("c", "", ""), kube.ClassMissing, "", nil},
		{"S-335 missing", ephemeral, func(*kube.State) {}, kube.ClaimNotFound, "", nil},
		{"S-335 bound", ephemeral, bind("a-v", "", csi, zoneA), "", "ebs.csi.aws.com", [][]constraint.Expr{{zoneA}}},
		{"S-344", mount("c"), bind("c", "", csi), "", "ebs.csi.aws.com", nil},
		{"S-345", mount("c"), func(s *kube.State) {
			bind("c", "", csi)(s)
			s.DeletePersistentVolume("v")
			s.SetUnknown("PersistentVolume", "", "the server was unable to return a response")
		}, kube.Unreadable, "", nil},
		{"S-346", mount("c"), await("c", "gp2", "kubernetes.io/aws-ebs"), "", "ebs.csi.aws.com", nil},
	} {
		t.Run(tc.row, func(t *testing.T) {
			s := kube.NewState(cluster.Settings{})
			tc.objects(s)
			s.SetPod(pod("a", tc.mount))
			got := snapshot(t, s, nil).Pods[0].Shape.Volumes
			if len(got) != 1 {
				t.Fatalf("%d volumes, want 1", len(got))
			}
			if v := got[0]; v.Problem != tc.problem || v.Driver != tc.driver {
				t.Errorf("problem %q, driver %q; want %q and %q", v.Problem, v.Driver, tc.problem, tc.driver)
			}
			if diff := cmp.Diff(tc.terms, got[0].Alternatives); diff != "" {
				t.Errorf("alternatives (-want +got):\n%s", diff)
			}
		})
	}
}

// bind puts a claim with its volume, whose node affinity is one term of the expressions.
func bind(claim, class string, src corev1.PersistentVolumeSource, exprs ...constraint.Expr) func(*kube.State) {
	return func(s *kube.State) {
		c := claimOf(claim, class)
		c.Spec.VolumeName = "v"
		c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes"}
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: src, ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: claim}}}
		if len(exprs) > 0 {
			term := corev1.NodeSelectorTerm{}
			for _, e := range exprs {
				term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: e.Key, Operator: corev1.NodeSelectorOperator(e.Operator), Values: e.Values})
			}
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}
		}
		s.SetPersistentVolumeClaim(c)
		s.SetPersistentVolume(v)
	}
}

// await puts a claim that is not bound; without a provisioner its class does not exist.
func await(claim, class, provisioner string) func(*kube.State) {
	return func(s *kube.State) {
		s.SetPersistentVolumeClaim(claimOf(claim, class))
		if provisioner != "" {
			s.SetStorageClass(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: provisioner, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)})
		}
	}
}

func claimOf(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}}
}

// S-063: a pool whose class is of a kind that nobody here provides takes no part.
func TestForeignPool(t *testing.T) {
	s := kube.NewState(cluster.Settings{})
	foreign := pool("np-hi", "cls")
	foreign.Spec.Template.Spec.NodeClassRef.Kind = "OtherNodeClass"
	s.SetNodePool(foreign)
	s.SetNodePool(pool("np-lo", "cls"))
	if got := snapshot(t, s, nil).Pools; len(got) != 1 || got[0].Name != "np-lo" {
		t.Errorf("%d pools, want np-lo alone", len(got))
	}
}
