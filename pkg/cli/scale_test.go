package cli_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cli"
)

// staticPool is Ready, has n replicas and as many nodes n1, n2, ..., each a day older than the next.
func staticPool(n int64) cli.Plan {
	p := cli.Plan{Pool: &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "ingress", ResourceVersion: "7"}}, Pods: map[string][]corev1.Pod{}, Current: -1, Now: clockAt()}
	p.Pool.Spec.Replicas = &n
	p.Pool.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}
	for i := range n {
		c := karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i+1), CreationTimestamp: metav1.NewTime(clockAt().Add(time.Duration(i-n) * 24 * time.Hour))}}
		c.Status.ProviderID, c.Status.NodeName = fmt.Sprintf("aws:///i-%d", i+1), fmt.Sprintf("n%d", i+1)
		p.Claims = append(p.Claims, c)
	}
	return p
}

func webPod(name string, change func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web"}}}}
	p.Status.Phase = corev1.PodRunning
	if change != nil {
		change(&p)
	}
	return p
}

func codes(r cli.Planned) []string {
	out := []string{}
	for _, n := range r.Refusals {
		out = append(out, "refused "+n.Code)
	}
	for _, n := range r.Warnings {
		out = append(out, "warned "+n.Code)
	}
	return out
}

func TestPlanScaleNotices(t *testing.T) {
	limit := func(n string) func(*cli.Plan) {
		return func(p *cli.Plan) {
			p.Pool.Spec.Limits = map[corev1.ResourceName]resource.Quantity{"nodes": resource.MustParse(n)}
		}
	}
	tests := []struct {
		name   string
		change func(*cli.Plan)
		want   []string
	}{
		{"nothing to say", func(*cli.Plan) {}, []string{}},
		{"dynamic pool", func(p *cli.Plan) { p.Pool.Spec.Replicas = nil }, []string{"refused NotStatic"}},
		{"gate off", func(p *cli.Plan) { p.GateOff = true }, []string{"refused GateOff"}},
		{"another number", func(p *cli.Plan) { p.Current = 5 }, []string{"refused CurrentReplicasMismatch"}},
		{"the same number", func(p *cli.Plan) { p.Current = 3 }, []string{}},
		{"another version", func(p *cli.Plan) { p.Version = "6" }, []string{"refused ResourceVersionMismatch"}},
		{"limit below", limit("3"), []string{"warned LimitBelowReplicas"}},
		{"limit without room", limit("4"), []string{"warned NoSpareForDrift"}},
		{"limit with room", limit("5"), []string{}},
		{"not ready", func(p *cli.Plan) { p.Pool.Status.Conditions = nil }, []string{"warned NotReady"}},
		{"all at once", func(p *cli.Plan) { p.GateOff = true; p.Current = 1; limit("4")(p) }, []string{"refused GateOff", "refused CurrentReplicasMismatch", "warned NoSpareForDrift"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := staticPool(3)
			p.To = 4
			tt.change(&p)
			if diff := cmp.Diff(tt.want, codes(cli.PlanScale(p))); diff != "" {
				t.Errorf("notices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanScaleWhoLeaves(t *testing.T) {
	tests := []struct {
		name   string
		to     int64
		change func(*cli.Plan)
		want   []string
		add    int64
	}{
		{"nobody", 3, func(*cli.Plan) {}, nil, 0},
		{"more", 5, func(*cli.Plan) {}, nil, 2},
		{"one that never launched goes first", 2, func(p *cli.Plan) { p.Claims[1].Status.ProviderID = "" }, []string{"c2"}, 0},
		{"an empty one goes before a full one", 2, func(p *cli.Plan) {
			p.Pods["n1"] = []corev1.Pod{webPod("a", nil)}
			p.Pods["n3"] = []corev1.Pod{webPod("b", nil)}
		}, []string{"c2"}, 0},
		{"fewer pods are cheaper", 2, func(p *cli.Plan) {
			p.Pods["n1"] = []corev1.Pod{webPod("a", nil), webPod("b", nil)}
			p.Pods["n2"] = []corev1.Pod{webPod("c", nil)}
			p.Pods["n3"] = []corev1.Pod{webPod("d", nil), webPod("e", nil)}
		}, []string{"c2"}, 0},
		{"do-not-disrupt goes last", 1, func(p *cli.Plan) {
			keep := func(pod *corev1.Pod) { pod.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"} }
			p.Pods["n1"] = []corev1.Pod{webPod("a", keep)}
			p.Pods["n2"] = []corev1.Pod{webPod("b", nil), webPod("c", nil)}
			p.Pods["n3"] = []corev1.Pod{webPod("d", nil)}
		}, []string{"c3", "c2"}, 0},
		{"one that leaves already does not count", 2, func(p *cli.Plan) {
			now := metav1.NewTime(clockAt())
			p.Claims[2].DeletionTimestamp = &now
		}, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := staticPool(3)
			p.To = tt.to
			tt.change(&p)
			r := cli.PlanScale(p)
			var got []string
			for _, n := range r.Remove {
				got = append(got, n.NodeClaim)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || r.Add != tt.add {
				t.Errorf("add %d, want %d; leaving (-want +got):\n%s", r.Add, tt.add, diff)
			}
			if r.Sentence() == "" {
				t.Error("no sentence")
			}
		})
	}
}

// TestPlanScaleBudget warns of a node that a budget will not let go.
func TestPlanScaleBudget(t *testing.T) {
	p := staticPool(1)
	p.To = 0
	p.Pods["n1"] = []corev1.Pod{webPod("a", nil)}
	b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web"}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	p.PDBs = []policyv1.PodDisruptionBudget{b}
	if diff := cmp.Diff([]string{"warned LastPodOfPDB"}, codes(cli.PlanScale(p))); diff != "" {
		t.Errorf("notices (-want +got):\n%s", diff)
	}
	p.PDBs[0].Status.DisruptionsAllowed = 1
	if diff := cmp.Diff([]string{}, codes(cli.PlanScale(p))); diff != "" {
		t.Errorf("notices with an allowed eviction (-want +got):\n%s", diff)
	}
}
