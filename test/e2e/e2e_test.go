// Package e2e_test runs the real agent against a real control plane and a simulated AWS.
package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/test/cluster"
	"github.com/karp-sh/karp/test/e2e/stage"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

var sandbox = cluster.Shared{Options: stage.Shared()}

func TestMain(m *testing.M) { os.Exit(sandbox.Main(m)) }

// set puts a stage on the sandbox and takes everything away at the end.
func set(t *testing.T) *stage.Stage {
	t.Helper()
	s := stage.New(t, sandbox.Cluster(t))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stage.Patience)
		defer cancel()
		a, err := s.Spawn(t.TempDir() + "/cleaner.log")
		if err != nil {
			t.Error(err)
			return
		}
		defer a.Kill()
		clear(ctx, t, s)
	})
	return s
}

// clear deletes everything and waits for its end.
func clear(ctx context.Context, t *testing.T, s *stage.Stage) {
	t.Helper()
	for _, kind := range []client.Object{&policyv1.PodDisruptionBudget{}, &corev1.Pod{}} {
		_ = s.Client.DeleteAllOf(ctx, kind, client.InNamespace("default"))
	}
	_ = s.Client.Delete(ctx, stage.Deployment("web", 0, "1", false))
	_ = s.Client.DeleteAllOf(ctx, &karpv1.NodePool{})
	_ = s.Client.DeleteAllOf(ctx, &karpv1.NodeClaim{})
	_ = s.Client.DeleteAllOf(ctx, &awsv1.EC2NodeClass{})
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		var classes awsv1.EC2NodeClassList
		left, err := s.Nothing(ctx)
		if err == nil {
			err = s.Client.List(ctx, &classes)
		}
		if left == "" && err == nil && len(classes.Items) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("clearing the stage: %s%d classes, %v", left, len(classes.Items), err)
			return
		case <-tick.C:
		}
	}
}

// Pods without a place get nodes, the claims end up Ready, and the instances carry their identity (L-012, L-038, L-058, L-234).
func TestProvisioning(t *testing.T) {
	s := set(t)
	s.StartAgent(t)
	s.Create(t, stage.Deployment("web", 5, "1", false))
	s.Eventually(t, "pods to run", s.PodsRunning("web", 5))
	claims := s.Claims(t)
	if len(claims) == 0 || len(claims) > 3 {
		t.Errorf("%d claims for five small pods", len(claims))
	}
	s.Eventually(t, "instances to be tagged", func(context.Context) (string, error) {
		for _, i := range s.Alive() {
			if i.Tags["Name"] != i.NodeName || i.Tags["karpenter.sh/nodeclaim"] == "" || i.Tags["karp.sh/launch-id"] == "" {
				return fmt.Sprintf("instance %s has tags %v", i.ID, i.Tags), nil
			}
		}
		return "", nil
	})
	for _, c := range s.Claims(t) {
		for key, want := range map[string]string{
			"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default",
		} {
			if c.Labels[key] != want {
				t.Errorf("L-007: claim %s has label %s=%q, want %q", c.Name, key, c.Labels[key], want)
			}
		}
		if c.Annotations["karpenter.sh/nodepool-hash-version"] != "karp1" || !strings.HasPrefix(c.Name, "default-") {
			t.Errorf("L-007: claim %s has annotations %v", c.Name, c.Annotations)
		}
		if strings.Contains(c.Annotations["karp.sh/intent"], `"request"`) {
			t.Errorf("claim %s still carries its request: %s", c.Name, c.Annotations["karp.sh/intent"])
		}
	}
	s.Eventually(t, "the pool to count its nodes", func(ctx context.Context) (string, error) {
		var p karpv1.NodePool
		err := s.Client.Get(ctx, client.ObjectKey{Name: "default"}, &p)
		if got := p.Status.Nodes; got != int64(len(claims)) {
			return fmt.Sprintf("status.nodes is %d, want %d; ", got, len(claims)), err
		}
		return "", err
	})
}

// A type that EC2 does not have is not asked for again, and another one is launched (L-017, L-033).
func TestSoldOut(t *testing.T) {
	s := set(t)
	for _, family := range []string{"m5", "c5"} {
		for _, size := range []string{"large", "xlarge", "2xlarge", "4xlarge"} {
			s.AWS.Cloud().TakeCapacity(cloud.CapacityRule{Type: family + "." + size})
		}
	}
	s.StartAgent(t)
	s.Create(t, stage.Deployment("web", 1, "1", false))
	s.Eventually(t, "the pod to run", s.PodsRunning("web", 1))
	for _, i := range s.Alive() {
		if strings.HasPrefix(i.Type, "m5.") && strings.HasSuffix(i.Type, "large") && !strings.Contains(i.Type, "8x") {
			t.Errorf("instance %s is of type %s, which was sold out", i.ID, i.Type)
		}
	}
}

// A deleted claim drains its node as the PodDisruptionBudget allows, and only then is its instance terminated (L-137, L-152, L-183).
func TestDrainRespectsBudget(t *testing.T) {
	s := set(t)
	s.StartAgent(t)
	one := intstr.FromInt32(1)
	s.Create(t, stage.Deployment("web", 2, "1", true), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	})
	s.Eventually(t, "pods to run", s.PodsRunning("web", 2))
	before := s.Claims(t)
	if len(before) != 2 {
		t.Fatalf("%d claims for two pods that want a node each", len(before))
	}
	low := watchReady(t, s, 2)
	for i := range before {
		if err := s.Client.Delete(t.Context(), &before[i]); err != nil {
			t.Fatal(err)
		}
	}
	s.Eventually(t, "the old claims to be gone", func(ctx context.Context) (string, error) {
		var list karpv1.NodeClaimList
		err := s.Client.List(ctx, &list)
		for _, c := range list.Items {
			for _, old := range before {
				if c.UID == old.UID {
					return "claim " + c.Name + " is there; ", err
				}
			}
		}
		return "", err
	})
	s.Eventually(t, "pods to run elsewhere", s.PodsRunning("web", 2))
	if got := low(); got < 1 {
		t.Errorf("only %d pods were ready at some moment, the budget allows 1 of 2 to be missing", got)
	}
	if got := len(s.Alive()); got != 2 {
		t.Errorf("%d instances run, want 2", got)
	}
}

// watchReady follows how many pods are ready; the returned function ends it and gives the smallest number.
func watchReady(t *testing.T, s *stage.Stage, start int) func() int {
	t.Helper()
	low := start
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			var list corev1.PodList
			if err := s.Client.List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{"app": "web"}); err == nil {
				low = min(low, ready(list.Items))
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() int {
		cancel()
		<-done
		return low
	}
}

func ready(pods []corev1.Pod) int {
	n := 0
	for i := range pods {
		for _, c := range pods[i].Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				n++
			}
		}
	}
	return n
}

// kubectl delete node has the same effect as deleting the claim (L-154).
func TestDeleteNode(t *testing.T) {
	s := set(t)
	s.StartAgent(t)
	s.Create(t, stage.Deployment("web", 1, "1", false))
	s.Eventually(t, "the pod to run", s.PodsRunning("web", 1))
	old := s.Claims(t)[0]
	if err := s.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: old.Status.NodeName}}); err != nil {
		t.Fatal(err)
	}
	s.Eventually(t, "claim and instance to be replaced", func(ctx context.Context) (string, error) {
		err := client.IgnoreNotFound(s.Client.Get(ctx, client.ObjectKeyFromObject(&old), &karpv1.NodeClaim{}))
		if alive := s.Alive(); len(alive) != 1 || strings.HasSuffix(old.Status.ProviderID, alive[0].ID) {
			return fmt.Sprintf("%d instances; ", len(alive)), err
		}
		return "", err
	})
	s.Eventually(t, "the pod to run again", s.PodsRunning("web", 1))
}

// A protected pod holds a drain up until its node's deadline, and no longer (L-142, L-189, L-196).
func TestDeadline(t *testing.T) {
	s := set(t)
	s.StartAgent(t)
	pool := stage.Pool("bounded", func(p *karpv1.NodePool) {
		grace, weight := karpv1.Duration("12s"), int32(50)
		p.Spec.Template.Spec.TerminationGracePeriod, p.Spec.Weight = &grace, &weight
	})
	web := stage.Deployment("web", 1, "1", false)
	web.Spec.Template.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
	s.Create(t, pool, web)
	s.Eventually(t, "the pod to run", s.PodsRunning("web", 1))
	old := s.Claims(t)[0]
	begun := time.Now()
	if err := s.Client.Delete(t.Context(), &old); err != nil {
		t.Fatal(err)
	}
	s.Eventually(t, "the claim to be gone", func(ctx context.Context) (string, error) {
		var c karpv1.NodeClaim
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(&old), &c); err != nil {
			return "", client.IgnoreNotFound(err)
		}
		return "it is there; ", nil
	})
	if took := time.Since(begun); took < 10*time.Second {
		t.Errorf("the node went after %v, although a protected pod had 12 s", took)
	}
}

// A new leader takes over only when the old one has stopped, and finds everything as it was (L-302, L-303).
func TestRestartAndHandover(t *testing.T) {
	s := set(t)
	election := []string{"DISABLE_LEADER_ELECTION=false", "LEADER_ELECTION_NAMESPACE=kube-system"}
	first := s.StartAgent(t, election...)
	s.Create(t, stage.Deployment("web", 1, "1", false))
	s.Eventually(t, "the pod to run", s.PodsRunning("web", 1))
	before := s.Claims(t)
	s.StartAgent(t, election...)
	begun := time.Now()
	if err := first.Stop(); err != nil {
		t.Errorf("L-303: the agent ended with %v after SIGTERM", err)
	}
	scaled := stage.Deployment("web", 3, "1500m", false)
	if err := s.Client.Update(t.Context(), scaled); err != nil {
		t.Fatal(err)
	}
	s.Eventually(t, "the second agent to provide", s.PodsRunning("web", 3))
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("the second agent needed %v", took)
	}
	for _, c := range before {
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(&c), &karpv1.NodeClaim{}); err != nil {
			t.Errorf("claim %s of the first agent: %v", c.Name, err)
		}
	}
	if claims, alive := len(s.Claims(t)), len(s.Alive()); claims != alive {
		t.Errorf("%d claims but %d instances", claims, alive)
	}
}
