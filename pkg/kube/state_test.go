package kube_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/units"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func mount(claim string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
}

func pod(name string, with ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "1", Labels: map[string]string{"app": name}}}
	for _, f := range with {
		f(p)
	}
	return p
}

func snapshot(t *testing.T, s *kube.State, c kube.Catalogs) *cluster.Snapshot {
	t.Helper()
	return s.Snapshot(t.Context(), at, c)
}

func TestVolumes(t *testing.T) {
	claim := func(f func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}}}
		f(c)
		return c
	}
	bound := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }
	class := func(name string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &name }
	}
	zone := func(zones ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "topology.kubernetes.io/zone", Operator: "In", Values: zones}}}
	}
	host := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: "In", Values: []string{"n"}}}}
	volume := func(src corev1.PersistentVolumeSource, terms ...corev1.NodeSelectorTerm) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: src, ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "c"}}}
		if terms != nil {
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
		}
		return v
	}
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1"}}
	storage := func(provisioner string, mode *storagev1.VolumeBindingMode, zones ...string) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gp3"}, Provisioner: provisioner, VolumeBindingMode: mode}
		for _, z := range zones {
			c.AllowedTopologies = append(c.AllowedTopologies, corev1.TopologySelectorTerm{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{z}}}})
		}
		return c
	}
	wait := new(storagev1.VolumeBindingWaitForFirstConsumer)
	in := func(key string, values ...string) []constraint.Expr {
		return []constraint.Expr{{Key: key, Operator: constraint.In, Values: values}}
	}
	const id = "shop/c"
	for name, tc := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		volume *corev1.PersistentVolume
		class  *storagev1.StorageClass
		want   cluster.Volume
	}{
		"no claim":        {want: cluster.Volume{Claim: "c", ID: id, Problem: "ClaimNotFound"}},
		"deleting":        {claim: claim(func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{Time: at} }), want: cluster.Volume{Claim: "c", ID: id, Problem: "ClaimDeleting"}},
		"lost":            {claim: claim(func(c *corev1.PersistentVolumeClaim) { bound(c); c.Status.Phase = corev1.ClaimLost }), want: cluster.Volume{Claim: "c", ID: id, Problem: "ClaimLost", ProblemDetail: "v"}},
		"volume missing":  {claim: claim(bound), want: cluster.Volume{Claim: "c", PV: "v", ID: id, Problem: "VolumeNotFound", ProblemDetail: "v"}},
		"binding":         {claim: claim(func(c *corev1.PersistentVolumeClaim) { bound(c); c.Annotations = nil }), volume: volume(csi), want: cluster.Volume{Claim: "c", PV: "v", ID: id, Problem: "BindingIncomplete", ProblemDetail: "v"}},
		"bound, anywhere": {claim: claim(bound), volume: volume(csi), want: cluster.Volume{Claim: "c", PV: "v", ID: "vol-1", Driver: "ebs.csi.aws.com"}},
		"bound, two terms": {claim: claim(bound), volume: volume(csi, zone("a"), zone("b", "c")), want: cluster.Volume{
			Claim: "c", PV: "v", ID: "vol-1", Driver: "ebs.csi.aws.com", Alternatives: [][]constraint.Expr{in("topology.kubernetes.io/zone", "a"), in("topology.kubernetes.io/zone", "b", "c")},
		}},
		"in-tree EBS":         {claim: claim(bound), volume: volume(corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-9"}}), want: cluster.Volume{Claim: "c", PV: "v", ID: "vol-9", Driver: "ebs.csi.aws.com"}},
		"local: only host":    {claim: claim(bound), volume: volume(corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}}, host), want: cluster.Volume{Claim: "c", PV: "v", ID: id, Alternatives: [][]constraint.Expr{nil}}},
		"csi keeps host":      {claim: claim(bound), volume: volume(csi, host), want: cluster.Volume{Claim: "c", PV: "v", ID: "vol-1", Driver: "ebs.csi.aws.com", Alternatives: [][]constraint.Expr{in("kubernetes.io/hostname", "n")}}},
		"no class":            {claim: claim(func(*corev1.PersistentVolumeClaim) {}), want: cluster.Volume{Claim: "c", ID: id, Problem: "ClassMissing"}},
		"class missing":       {claim: claim(class("gp3")), want: cluster.Volume{Claim: "c", ID: id, Problem: "ClassNotFound", ProblemDetail: "gp3"}},
		"immediate":           {claim: claim(class("gp3")), class: storage("ebs.csi.aws.com", new(storagev1.VolumeBindingImmediate)), want: cluster.Volume{Claim: "c", ID: id, Problem: "Unbound", ProblemDetail: "gp3"}},
		"immediate by absent": {claim: claim(class("gp3")), class: storage("ebs.csi.aws.com", nil), want: cluster.Volume{Claim: "c", ID: id, Problem: "Unbound", ProblemDetail: "gp3"}},
		"waits":               {claim: claim(class("gp3")), class: storage("kubernetes.io/aws-ebs", wait, "a", "b"), want: cluster.Volume{Claim: "c", ID: id, Driver: "ebs.csi.aws.com", Alternatives: [][]constraint.Expr{in("zone", "a"), in("zone", "b")}}},
	} {
		t.Run(name, func(t *testing.T) {
			// The pod comes first: what it mounts is resolved again when the storage objects come.
			s := kube.NewState(cluster.Settings{})
			s.SetPod(pod("a", mount("c")))
			if tc.class != nil {
				s.SetStorageClass(tc.class)
			}
			if tc.claim != nil {
				s.SetPersistentVolumeClaim(tc.claim)
			}
			if tc.volume != nil {
				s.SetPersistentVolume(tc.volume)
			}
			if diff := cmp.Diff([]cluster.Volume{tc.want}, snapshot(t, s, nil).Pods[0].Shape.Volumes); diff != "" {
				t.Errorf("volumes (-want +got):\n%s", diff)
			}
			s.DeletePersistentVolumeClaim("shop", "c")
			if got := snapshot(t, s, nil).Pods[0].Shape.Volumes[0].Problem; got != "ClaimNotFound" {
				t.Errorf("after the claim is gone: %s", got)
			}
		})
	}
}

func TestEphemeralVolumeClaimName(t *testing.T) {
	s := kube.NewState(cluster.Settings{})
	s.SetPod(pod("a", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}, {Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}}
	}))
	want := []cluster.Volume{{Claim: "a-scratch", ID: "shop/a-scratch", Problem: "ClaimNotFound"}}
	if diff := cmp.Diff(want, snapshot(t, s, nil).Pods[0].Shape.Volumes); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}

func TestUnreadableStorage(t *testing.T) {
	s := kube.NewState(cluster.Settings{})
	s.SetUnknown("PersistentVolumeClaim", "", "forbidden")
	s.SetPod(pod("a", mount("c")))
	got := snapshot(t, s, nil)
	if v := got.Pods[0].Shape.Volumes[0]; v.Problem != kube.Unreadable || v.ProblemDetail != "forbidden" {
		t.Errorf("volume %+v, want it unreadable", v)
	}
	if diff := cmp.Diff([]cluster.Unknown{{Kind: "PersistentVolumeClaim", Problem: "forbidden"}}, got.Unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
}

func pdb(name string, spec policyv1.PodDisruptionBudgetSpec) *policyv1.PodDisruptionBudget {
	if spec.Selector == nil {
		spec.Selector = &metav1.LabelSelector{}
	}
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: spec}
}

func TestEvictionBlocked(t *testing.T) {
	num, text := func(n int) *intstr.IntOrString { return new(intstr.FromInt32(int32(n))) }, func(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }
	never := policyv1.PodDisruptionBudgetSpec{MaxUnavailable: num(0)}
	always := policyv1.PodDisruptionBudgetSpec{MaxUnavailable: num(0), UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow)}
	notReady := func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse})
	}
	for name, tc := range map[string]struct {
		pod  func(*corev1.Pod)
		pdbs []*policyv1.PodDisruptionBudget
		want string
	}{
		"no budget":            {},
		"room":                 {pdbs: []*policyv1.PodDisruptionBudget{pdb("a", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: num(1)})}},
		"max 0":                {pdbs: []*policyv1.PodDisruptionBudget{pdb("a", never)}, want: "a"},
		"max 0%":               {pdbs: []*policyv1.PodDisruptionBudget{pdb("a", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: text("0%")})}, want: "a"},
		"min 100%":             {pdbs: []*policyv1.PodDisruptionBudget{pdb("a", policyv1.PodDisruptionBudgetSpec{MinAvailable: text("100%")})}, want: "a"},
		"min count":            {pdbs: []*policyv1.PodDisruptionBudget{pdb("a", policyv1.PodDisruptionBudgetSpec{MinAvailable: num(5)})}},
		"two":                  {pdbs: []*policyv1.PodDisruptionBudget{pdb("b", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: num(1)}), pdb("a", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: num(1)})}, want: "a,b"},
		"other pods":           {pdbs: []*policyv1.PodDisruptionBudget{pdb("a", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: num(0), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "z"}}})}},
		"unhealthy goes":       {pod: notReady, pdbs: []*policyv1.PodDisruptionBudget{pdb("a", always)}},
		"healthy stays":        {pdbs: []*policyv1.PodDisruptionBudget{pdb("a", always)}, want: "a"},
		"two though unhealthy": {pod: notReady, pdbs: []*policyv1.PodDisruptionBudget{pdb("a", always), pdb("b", always)}, want: "a,b"},
		"terminal":             {pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, pdbs: []*policyv1.PodDisruptionBudget{pdb("a", never)}},
		"mirror":               {pod: func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node"}} }, pdbs: []*policyv1.PodDisruptionBudget{pdb("a", never)}},
		"tolerates by key": {pod: func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "karpenter.sh/disrupted", Operator: "Exists"}}
		}, pdbs: []*policyv1.PodDisruptionBudget{pdb("a", never)}},
		"tolerates everything": {pod: func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists"}} }, pdbs: []*policyv1.PodDisruptionBudget{pdb("a", never)}},
		"tolerates other value": {pod: func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "karpenter.sh/disrupted", Value: "x"}}
		}, pdbs: []*policyv1.PodDisruptionBudget{pdb("a", never)}, want: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := kube.NewState(cluster.Settings{})
			p := pod("a")
			if tc.pod != nil {
				tc.pod(p)
			}
			s.SetPod(p)
			for _, b := range tc.pdbs {
				s.SetPodDisruptionBudget(b)
			}
			if got := snapshot(t, s, nil).Pods[0].EvictionBlocked; got != tc.want {
				t.Errorf("blocked by %q, want %q", got, tc.want)
			}
			for _, b := range tc.pdbs {
				s.DeletePodDisruptionBudget(b.Namespace, b.Name)
			}
			if got := snapshot(t, s, nil).Pods[0].EvictionBlocked; got != "" {
				t.Errorf("blocked by %q after the budgets are gone", got)
			}
		})
	}
}

func TestProvisionable(t *testing.T) {
	unschedulable := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
	}
	owned := func(apiVersion, kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind}} }
	}
	nominated := func(manager string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.NominatedNodeName = "n"
			f := metav1.NewFieldsV1(`{"f:status":{"f:nominatedNodeName":{}}}`)
			p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Subresource: "status", FieldsV1: f}}
		}
	}
	for name, tc := range map[string]struct {
		with []func(*corev1.Pod)
		want bool
	}{
		"unschedulable": {[]func(*corev1.Pod){unschedulable}, true},
		"no condition":  {nil, false},
		"gated": {[]func(*corev1.Pod){func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Reason: "SchedulingGated"}}
		}}, false},
		"bound":                      {[]func(*corev1.Pod){unschedulable, func(p *corev1.Pod) { p.Spec.NodeName = "n" }}, false},
		"daemon":                     {[]func(*corev1.Pod){unschedulable, owned("apps/v1", "DaemonSet")}, false},
		"daemon of another group":    {[]func(*corev1.Pod){unschedulable, owned("apps.kruise.io/v1", "DaemonSet")}, true},
		"mirror":                     {[]func(*corev1.Pod){unschedulable, owned("v1", "Node")}, false},
		"deleted":                    {[]func(*corev1.Pod){unschedulable, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: at} }}, false},
		"failed":                     {[]func(*corev1.Pod){unschedulable, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }}, false},
		"preempting":                 {[]func(*corev1.Pod){unschedulable, nominated("kube-scheduler")}, false},
		"nominated by karp":          {[]func(*corev1.Pod){unschedulable, nominated(kube.FieldManager)}, true},
		"other scheduler, any phase": {[]func(*corev1.Pod){unschedulable, func(p *corev1.Pod) { p.Spec.SchedulerName = "x"; p.Status.Phase = corev1.PodUnknown }}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("a", tc.with...)
			if got := kube.Provisionable(p); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			// What the cache keeps must give the same answer.
			trimmed, err := kube.Transform(p.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			if got := kube.Provisionable(trimmed.(*corev1.Pod)); got != tc.want {
				t.Errorf("after the cache's transform: got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestDaemonSetShape(t *testing.T) {
	pin := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n"}}}},
	}}}}
	arch := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "arch", Operator: "In", Values: []string{"arm64"}}}}
	limits := corev1.ResourceList{"cpu": resource.MustParse("200m"), "memory": resource.MustParse("1Gi")}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cni", UID: "ds"}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Limits: limits, Requests: corev1.ResourceList{"memory": resource.MustParse("10Mi")}}}}
	set.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{arch}}}}
	member := func(name string, age time.Duration, cpu string) *corev1.Pod {
		p := pod(name, func(p *corev1.Pod) {
			p.Namespace = "kube-system"
			p.CreationTimestamp = metav1.NewTime(at.Add(-age))
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "cni", UID: "ds", Controller: new(true)}}
			p.Spec.Affinity = pin
			p.Spec.NodeName = "n"
			p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}}}
		})
		return p
	}
	s := kube.NewState(cluster.Settings{})
	cpu := func() int64 {
		t.Helper()
		got := snapshot(t, s, nil).DaemonSets
		if len(got) != 1 {
			t.Fatalf("%d daemon sets, want 1", len(got))
		}
		want := []cluster.NodeTerm{{Exprs: []constraint.Expr{{Key: "arch", Operator: "In", Values: []string{"arm64"}}}}}
		if diff := cmp.Diff(want, got[0].Shape.Required); diff != "" {
			t.Fatalf("required (-want +got):\n%s", diff)
		}
		return got[0].Shape.Requests["cpu"]
	}
	s.SetDaemonSet(set)
	if diff := cmp.Diff(units.List{"cpu": 200, "memory": 10 << 20, "pods": 1}, snapshot(t, s, nil).DaemonSets[0].Shape.Requests); diff != "" {
		t.Errorf("requests of the template (-want +got):\n%s", diff)
	}
	for _, step := range []struct {
		what string
		do   func()
		want int64
	}{
		{"template", func() {}, 200},
		{"first pod", func() { s.SetPod(member("p1", time.Hour, "100m")) }, 100},
		{"newer pod", func() { s.SetPod(member("p2", time.Minute, "150m")) }, 150},
		{"older pod", func() { s.SetPod(member("p3", 2*time.Hour, "300m")) }, 150},
		{"newest is gone", func() { s.DeletePod("p2") }, 100},
		{"all are gone", func() { s.DeletePod("p1"); s.DeletePod("p3") }, 200},
	} {
		if step.do(); cpu() != step.want {
			t.Errorf("%s: cpu %d, want %d", step.what, cpu(), step.want)
		}
	}
	s.DeleteDaemonSet("ds")
	if got := snapshot(t, s, nil).DaemonSets; len(got) != 0 {
		t.Errorf("%d daemon sets after deletion", len(got))
	}
}

func ref(name string) karpv1.NodeClassRef {
	return karpv1.NodeClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: name}
}

func pool(name, class string) *karpv1.NodePool {
	p := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("pool-" + name), Generation: 3, Annotations: map[string]string{karpv1.NodePoolHashAnnotation: "h"}}}
	p.Spec.Template.Spec.NodeClassRef = ref(class)
	p.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
	return p
}

func class(name string) *awsv1.EC2NodeClass {
	c := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("class-" + name), ResourceVersion: "1"}}
	c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"b": "2", "a": "1"}}, {ID: "subnet-1"}}
	c.Status.Subnets = []awsv1.Subnet{{ID: "s2", Zone: "b"}, {ID: "s1", Zone: "a"}, {ID: "s3", Zone: "b"}}
	return c
}

func TestPools(t *testing.T) {
	known := catalog.New([]catalog.InstanceType{{Name: "m5.large"}})
	asked := 0
	catalogs := kube.CatalogFunc(func(_ context.Context, c *awsv1.EC2NodeClass) (*catalog.Catalog, error) {
		asked++
		if c.Name == "broken" {
			return nil, errors.New("throttled")
		}
		return known, nil
	})
	s := kube.NewState(cluster.Settings{})
	s.SetNodePool(pool("a", "default"))
	s.SetNodePool(pool("b", "default"))
	s.SetNodePool(pool("c", "broken"))
	s.SetNodePool(pool("d", "missing"))
	foreign := pool("e", "x")
	foreign.Spec.Template.Spec.NodeClassRef.Group = "other.io"
	s.SetNodePool(foreign)
	s.SetClass(class("default"))
	s.SetClass(class("broken"))
	got := snapshot(t, s, catalogs)
	if len(got.Pools) != 4 || asked != 2 {
		t.Fatalf("%d pools, %d catalogues asked for; want 4 and 2", len(got.Pools), asked)
	}
	wantClass := &cluster.Class{Name: "default", Zones: []string{"a", "b"}, SubnetSelector: "a=1,b=2 or subnet-1", NotReady: cluster.Condition{Type: "Ready", Reason: "AwaitingReconciliation", Message: "object has no Ready condition yet"}}
	if diff := cmp.Diff(wantClass, got.Pools[0].Class); diff != "" {
		t.Errorf("class (-want +got):\n%s", diff)
	}
	for i, want := range []struct {
		catalog *catalog.Catalog
		problem string
	}{{known, ""}, {known, ""}, {nil, "throttled"}, {nil, "no such class: missing"}} {
		if p := got.Pools[i]; p.Catalog != want.catalog || p.CatalogProblem != want.problem || !p.Ready || p.Hash != "h" || p.Generation != 3 {
			t.Errorf("pool %s: %+v, want catalogue %v, problem %q", p.Name, p, want.catalog, want.problem)
		}
	}
	again := snapshot(t, s, catalogs)
	for i := range got.Pools {
		if got.Pools[i] != again.Pools[i] {
			t.Errorf("pool %s was converted again though nothing changed", got.Pools[i].Name)
		}
	}
	s.DeleteNodePool("a")
	if got := snapshot(t, s, catalogs); len(got.Pools) != 3 {
		t.Errorf("%d pools after a deletion, want 3", len(got.Pools))
	}
}

func TestClaim(t *testing.T) {
	c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u", Labels: map[string]string{"karpenter.sh/nodepool": "p"}, CreationTimestamp: metav1.NewTime(at)}}
	c.Spec.NodeClassRef = ref("default")
	c.Spec.Requirements = []karpv1.Requirement{{Key: "k", Operator: "In", Values: []string{"v"}, MinValues: new(2)}}
	c.Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1500m")}
	c.Spec.ExpireAfter = new(karpv1.DurationOrNever("720h"))
	c.Spec.TerminationGracePeriod = new(karpv1.Duration("30m"))
	c.Status.Conditions = []metav1.Condition{
		{Type: "Launched", Status: metav1.ConditionUnknown, Reason: "LaunchFailed", Message: "m"},
		{Type: "Registered", Status: metav1.ConditionTrue}, {Type: "InstanceTerminating", Status: metav1.ConditionTrue},
	}
	want := &cluster.Claim{
		Name: "c", UID: "u", Pool: "p", NodeClass: cluster.ClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}, Labels: c.Labels,
		Requirements: []constraint.Expr{{Key: "k", Operator: "In", Values: []string{"v"}, MinValues: 2}}, Requests: units.List{"cpu": 1500},
		Created: at, Registered: true, Terminating: true, LaunchProblem: cluster.Condition{Type: "Launched", Reason: "LaunchFailed", Message: "m"},
		ExpireAfter: "720h", TerminationGracePeriod: "30m",
	}
	if diff := cmp.Diff(want, kube.NewClaim(c)); diff != "" {
		t.Errorf("claim (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(c.Spec.Requirements, kube.APIRequirements(kube.Requirements(c.Spec.Requirements))); diff != "" {
		t.Errorf("requirements there and back (-want +got):\n%s", diff)
	}
	s := kube.NewState(cluster.Settings{})
	s.SetNodeClaim(c)
	s.Mark("c", true)
	if !snapshot(t, s, nil).Claims[0].Marked {
		t.Error("the claim is not marked")
	}
	s.Mark("c", false)
	if snapshot(t, s, nil).Claims[0].Marked {
		t.Error("the claim is still marked")
	}
}

func TestNode(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}, Spec: corev1.NodeSpec{ProviderID: "aws:///a/i-1", Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}}}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("1930m"), "memory": resource.MustParse("1Gi"), "pods": resource.MustParse("29")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True"}}
	s := kube.NewState(cluster.Settings{})
	s.SetCSINode(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: "ebs", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(25))}}, {Name: "efs"}, {Name: "x", Allocatable: &storagev1.VolumeNodeResources{}},
	}}})
	s.SetNode(n)
	want := &cluster.Node{
		Name: "n", UID: "u", ProviderID: "aws:///a/i-1", Taints: []constraint.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}}, Ready: true,
		Allocatable: units.List{"cpu": 1930, "memory": 1 << 30, "pods": 29}, AttachLimits: map[string]int64{"ebs": 25},
	}
	if diff := cmp.Diff(want, snapshot(t, s, nil).Nodes[0]); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	s.DeleteCSINode("n")
	if got := snapshot(t, s, nil).Nodes[0].AttachLimits; got != nil {
		t.Errorf("limits %v after the CSINode is gone", got)
	}
}

// The order in which objects come must not matter, and neither must objects that come and go.
func TestOrderDoesNotMatter(t *testing.T) {
	num := new(intstr.FromInt32(0))
	steps := func(s *kube.State) []func() {
		var out []func()
		for i := range 20 {
			out = append(out, func() { s.SetPod(pod(fmt.Sprint("p", i), mount(fmt.Sprint("c", i%5)))) })
		}
		for i := range 5 {
			out = append(out, func() {
				s.SetPersistentVolumeClaim(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("c", i)}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("gp3")}})
			})
		}
		return append(out,
			func() {
				s.SetStorageClass(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gp3"}, Provisioner: "ebs.csi.aws.com", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)})
			},
			func() { s.SetPodDisruptionBudget(pdb("a", policyv1.PodDisruptionBudgetSpec{MaxUnavailable: num})) },
			func() { s.SetNodePool(pool("a", "default")) }, func() { s.SetClass(class("default")) },
			func() { s.SetPod(pod("gone", mount("c1"))); s.DeletePod("gone") },
			func() { s.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}); s.DeleteNode("gone") },
			func() { s.SetNamespace(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}) },
		)
	}
	run := func(seed uint64) cluster.Digest {
		s := kube.NewState(cluster.Settings{})
		list := steps(s)
		r := rand.New(rand.NewPCG(seed, 1))
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, f := range list {
			f()
		}
		return snapshot(t, s, nil).Digest()
	}
	want := run(0)
	for seed := range uint64(50) {
		if got := run(seed); got != want {
			t.Fatalf("order of seed %d gives digest %s, that of seed 0 %s", seed, got, want)
		}
	}
}

func BenchmarkState10kPods(b *testing.B) {
	pods := make([]*corev1.Pod, 10_000)
	for i := range pods {
		pods[i] = replica(fmt.Sprint("p", i))
		pods[i].UID = types.UID(fmt.Sprint("u", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		s := kube.NewState(cluster.Settings{})
		for _, p := range pods {
			s.SetPod(p)
		}
	}
}
