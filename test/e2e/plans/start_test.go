package plans_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/test/cluster"
	theatre "github.com/karp-sh/karp/test/e2e/stage"
)

// Many small nodes start at once, and the pods of DaemonSets get their places on all of them, although other pods are quicker: a node takes
// pods only when its daemons are on it.
func TestDaemonsGetTheirPlaces(t *testing.T) {
	s := theatre.New(t, cluster.Start(t, theatre.Shared()))
	var pool karpv1.NodePool
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: "default"}, &pool); err != nil {
		t.Fatal(err)
	}
	pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, karpv1.Requirement{Key: "karpenter.k8s.aws/instance-cpu", Operator: karpv1.In, Values: []string{"2"}})
	if err := s.Client.Update(t.Context(), &pool); err != nil {
		t.Fatal(err)
	}
	s.Create(t, daemonSet("agent", "100m"), daemonSet("logs", "60m"))
	s.StartAgent(t)
	// Three big pods and the daemons fill a node; the small ones fit beside them only in the daemons' place.
	s.Create(t, theatre.Deployment("big", 90, "580m", false), theatre.Deployment("small", 60, "90m", false))
	s.Eventually(t, "pods to run", s.PodsRunning("big", 90))
	s.Eventually(t, "pods to run", s.PodsRunning("small", 60))
	s.Eventually(t, "the daemons to run on all nodes", func(ctx context.Context) (string, error) {
		var nodes corev1.NodeList
		var pods corev1.PodList
		if err := s.Client.List(ctx, &nodes); err != nil {
			return "", err
		}
		if err := s.Client.List(ctx, &pods, client.InNamespace("kube-system")); err != nil {
			return "", err
		}
		running := 0
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName != "" {
				running++
			}
		}
		if want := 2 * len(nodes.Items); running != want {
			return fmt.Sprintf("%d of %d daemons have their place", running, want), nil
		}
		t.Logf("%d nodes, all with their daemons", len(nodes.Items))
		return "", nil
	})
}

// daemonSet runs on every node and has no priority.
func daemonSet(name, cpu string) *appsv1.DaemonSet {
	labels := map[string]string{"daemon": name}
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "none", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	return d
}
