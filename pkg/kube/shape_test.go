package kube_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/units"
)

// list draws requests from few names and few values, so that maxima and sums collide.
func list(t *rapid.T, label string) corev1.ResourceList {
	names := []corev1.ResourceName{"cpu", "memory", "hugepages-2Mi", "ephemeral-storage", "nvidia.com/gpu"}
	out := corev1.ResourceList{}
	for _, n := range names {
		if rapid.Bool().Draw(t, label+string(n)) {
			text := rapid.SampledFrom([]string{"0", "1", "2", "3", "1Gi", "512Mi"}).Draw(t, label+"value")
			if n == "cpu" {
				text = rapid.SampledFrom([]string{"0", "1m", "100m", "1", "1500m"}).Draw(t, label+"cpu")
			}
			out[n] = resource.MustParse(text)
		}
	}
	return out
}

func anyPod(t *rapid.T, statuses bool) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Resources: corev1.ResourceRequirements{Requests: list(t, "c")}})
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "inits") {
		c := corev1.Container{Name: fmt.Sprint("i", i), Resources: corev1.ResourceRequirements{Requests: list(t, "i")}}
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if rapid.Bool().Draw(t, "podlevel") {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list(t, "podlevel")}
	}
	if rapid.Bool().Draw(t, "overhead") {
		pod.Spec.Overhead = list(t, "overhead")
	}
	if statuses {
		if rapid.Bool().Draw(t, "infeasible") {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
		}
		for _, c := range pod.Spec.Containers {
			s := corev1.ContainerStatus{Name: c.Name, AllocatedResources: list(t, "allocated")}
			s.Resources = &corev1.ResourceRequirements{Requests: list(t, "actuated")}
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, s)
		}
	}
	return pod
}

func expected(pod *corev1.Pod, o resourcehelper.PodResourcesOptions) units.List {
	out := kube.Resources(resourcehelper.PodRequests(pod, o))
	out["pods"] = 1
	return out
}

// Without resizes the effective requests are those that the scheduler computes.
func TestRequestsAgreeWithScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := anyPod(t, false)
		got, want := kube.Requests(pod), expected(pod, resourcehelper.PodResourcesOptions{})
		// A missing resource and a zero one are the same to the scheduler.
		if diff := cmp.Diff(nonzero(want), nonzero(got)); diff != "" {
			t.Fatalf("requests (-want +got):\n%s", diff)
		}
	})
}

// During a resize each container counts with its own maximum, so the sum is never below the scheduler's, which takes the maximum of sums.
func TestRequestsDuringResizeNeverBelowScheduler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := anyPod(t, true)
		got, want := kube.Requests(pod), expected(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
		for name, v := range want {
			if got[name] < v {
				t.Fatalf("%s: got %d, scheduler %d", name, got[name], v)
			}
		}
	})
}

func nonzero(l units.List) units.List {
	out := units.List{}
	for k, v := range l {
		if v != 0 {
			out[k] = v
		}
	}
	return out
}

func TestRequestsOfOneResize(t *testing.T) {
	container := func(spec, actuated, allocated string) *corev1.Pod {
		cpu := func(s string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(s)} }
		return &corev1.Pod{
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: cpu(spec)}}}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: "a", AllocatedResources: cpu(allocated), Resources: &corev1.ResourceRequirements{Requests: cpu(actuated)},
			}}},
		}
	}
	infeasible := container("4", "1", "2")
	infeasible.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want int64
	}{
		"spec is largest":      {container("3", "1", "2"), 3000},
		"actuated is largest":  {container("1", "3", "2"), 3000},
		"allocated is largest": {container("1", "2", "3"), 3000},
		"infeasible":           {infeasible, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kube.Requests(tc.pod)["cpu"]; got != tc.want {
				t.Errorf("cpu = %d, want %d", got, tc.want)
			}
		})
	}
}

func replica(name string) *corev1.Pod {
	weight := corev1.PreferredSchedulingTerm{Weight: 10, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: "In", Values: []string{"ssd"}}}}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid-of-" + "x", Labels: map[string]string{"app": "web", "pod-template-hash": "5d9f"}},
		Spec: corev1.PodSpec{
			SchedulerName: "default-scheduler", NodeSelector: map[string]string{"kubernetes.io/arch": "amd64", "team": "a"},
			Containers: []corev1.Container{
				{Name: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")}}},
				{Name: "proxy", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")}}},
			},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute"}, {Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute"},
			},
			Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{weight}}},
			TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
				TopologyKey: "topology.kubernetes.io/zone", MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			}},
		},
	}
}

// Every field that scheduling looks at must tell shapes apart; what it does not look at must not.
func TestShapeTellsApart(t *testing.T) {
	change := map[string]func(*corev1.Pod){
		"namespace":      func(p *corev1.Pod) { p.Namespace = "other" },
		"scheduler":      func(p *corev1.Pod) { p.Spec.SchedulerName = "mine" },
		"priority class": func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" },
		"priority":       func(p *corev1.Pod) { p.Spec.Priority = new(int32(7)) },
		"selector key":   func(p *corev1.Pod) { p.Spec.NodeSelector["new"] = "" },
		"selector value": func(p *corev1.Pod) { p.Spec.NodeSelector["team"] = "b" },
		"cpu":            func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("501m") },
		"extra resource": func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["x/y"] = resource.MustParse("1") },
		"init container": func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("9")}}}}
		},
		"pod level": func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("8")}}
		},
		"overhead":         func(p *corev1.Pod) { p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("1")} },
		"host port":        func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} },
		"toleration":       func(p *corev1.Pod) { p.Spec.Tolerations[0].Value = "x" },
		"toleration count": func(p *corev1.Pod) { p.Spec.Tolerations = p.Spec.Tolerations[:1] },
		"preferred weight": func(p *corev1.Pod) {
			p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight = 11
		},
		"required": func(p *corev1.Pod) {
			p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Exists"}}}}}
		},
		"match fields": func(p *corev1.Pod) {
			p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n"}}}}}}
		},
		"pod affinity": func(p *corev1.Pod) {
			p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "z"}}}
		},
		"pod anti-affinity": func(p *corev1.Pod) {
			p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "z"}}}
		},
		"spread skew":      func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].MaxSkew = 2 },
		"spread soft":      func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable = corev1.ScheduleAnyway },
		"spread domains":   func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].MinDomains = new(int32(3)) },
		"spread selector":  func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels["app"] = "x" },
		"spread no select": func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].LabelSelector = nil },
		"spread keys": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints[0].MatchLabelKeys = []string{"pod-template-hash"}
		},
		"spread taints": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints[0].NodeTaintsPolicy = new(corev1.NodeInclusionPolicyHonor)
		},
		"spread affinity": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints[0].NodeAffinityPolicy = new(corev1.NodeInclusionPolicyIgnore)
		},
		"device claim": func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} },
		"gate":         func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
	}
	var s kube.Shaper
	base := s.Shape(replica("a"), nil)
	if again := s.Shape(replica("b"), nil); again != base {
		t.Errorf("equal pods have different shapes: %v and %v", base, again)
	}
	seen := map[string]string{base.Key: "unchanged"}
	for name, f := range change {
		pod := replica("a")
		f(pod)
		shape := s.Shape(pod, nil)
		if other, ok := seen[shape.Key]; ok {
			t.Errorf("pod with another %s has the shape of %s", name, other)
		}
		seen[shape.Key] = name
		// A second Shaper, without memory, must agree.
		if fresh := new(kube.Shaper).Shape(pod, nil); cmp.Diff(fresh, shape) != "" {
			t.Errorf("%s: interned shape differs from a fresh one:\n%s", name, cmp.Diff(fresh, shape))
		}
	}
	for name, f := range map[string]func(*corev1.Pod){
		"name":   func(p *corev1.Pod) { p.Name = "z" },
		"labels": func(p *corev1.Pod) { p.Labels["x"] = "y" },
		"limits": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("9")}
		},
		"image": func(p *corev1.Pod) { p.Spec.Containers[0].Image = "i" },
		"node":  func(p *corev1.Pod) { p.Spec.NodeName = "n" },
		"moved need": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources, p.Spec.Containers[1].Resources = p.Spec.Containers[1].Resources, p.Spec.Containers[0].Resources
		},
		"tiny init": func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "i"}} },
	} {
		pod := replica("a")
		f(pod)
		if shape := s.Shape(pod, nil); shape != base {
			t.Errorf("pod with another %s has another shape:\n%s", name, cmp.Diff(base, shape))
		}
	}
}

func TestShaperForgets(t *testing.T) {
	var s kube.Shaper
	a := s.Shape(replica("a"), nil)
	other := replica("b")
	other.Namespace = "other"
	s.Shape(other, nil)
	s.Retain(func(x *cluster.Shape) bool { return x == a })
	if s.Len() != 1 {
		t.Errorf("%d encodings kept, want 1", s.Len())
	}
	if s.Shape(replica("a"), nil) != a {
		t.Error("the shape in use was forgotten")
	}
}

func TestShapeOfKnownPodDoesNotAllocate(t *testing.T) {
	var s kube.Shaper
	pod := replica("a")
	s.Shape(pod, nil)
	if n := testing.AllocsPerRun(100, func() { s.Shape(pod, nil) }); n != 0 {
		t.Errorf("%v allocations for a pod of a known shape, want 0", n)
	}
}

func BenchmarkShapeKnown(b *testing.B) {
	var s kube.Shaper
	pods := make([]*corev1.Pod, 1000)
	for i := range pods {
		pods[i] = replica(fmt.Sprint("p", i))
		s.Shape(pods[i], nil)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Shape(pods[i%len(pods)], nil)
	}
}
