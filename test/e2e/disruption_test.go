package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/test/e2e/stage"
)

// consolidating lets the pool's nodes be disrupted at once, all of them together.
func consolidating(t *testing.T, s *stage.Stage, budget string) {
	t.Helper()
	edit(t, s, func(p *karpv1.NodePool) {
		now := karpv1.DurationOrNever("0s")
		p.Spec.Disruption.ConsolidateAfter = &now
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: budget}}
	})
}

func edit(t *testing.T, s *stage.Stage, change func(*karpv1.NodePool)) {
	t.Helper()
	var p karpv1.NodePool
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: "default"}, &p); err != nil {
		t.Fatal(err)
	}
	base := p.DeepCopy()
	change(&p)
	if err := s.Client.Patch(t.Context(), &p, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
}

// claimsLeft waits until exactly so many claims exist, all of them Ready.
func claimsLeft(s *stage.Stage, want int) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var list karpv1.NodeClaimList
		err := s.Client.List(ctx, &list)
		ready := 0
		for i := range list.Items {
			for _, c := range list.Items[i].Status.Conditions {
				if c.Type == karpv1.ConditionReady && c.Status == "True" && list.Items[i].DeletionTimestamp == nil {
					ready++
				}
			}
		}
		if len(list.Items) != want || ready != want {
			return fmt.Sprintf("%d claims, %d of them ready, want %d; ", len(list.Items), ready, want), err
		}
		return "", err
	}
}

// Empty nodes go, after a second look; what was promised is on the claim while it runs (D-098).
func TestEmptyNodesGo(t *testing.T) {
	s := set(t)
	s.StartAgent(t)
	d := stage.Deployment("web", 3, "1", true)
	s.Create(t, d)
	s.Eventually(t, "pods to run", s.PodsRunning("web", 3))
	consolidating(t, s, "100%")
	scale(t, s, "web", 1)
	s.Eventually(t, "empty nodes to go", claimsLeft(s, 1))
	s.Eventually(t, "the pod to stay", s.PodsRunning("web", 1))
	var events corev1.EventList
	if err := s.Client.List(t.Context(), &events); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, e := range events.Items {
		found = found || e.Reason == "DisruptionTerminating" && strings.Contains(e.Message, "Empty")
	}
	if !found {
		t.Error("no event DisruptionTerminating speaks of Empty")
	}
}

func scale(t *testing.T, s *stage.Stage, name string, replicas int32) {
	t.Helper()
	d := stage.Deployment(name, replicas, "1", true)
	base := d.DeepCopy()
	base.Spec.Replicas = nil
	if err := s.Client.Patch(t.Context(), d, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
}

// Nodes of an old template are replaced one after the other, each only after its replacement is ready, and no moment sees more of them disrupted than
// the budget of one allows (D-195, I6, I11).
func TestDriftIsReplaced(t *testing.T) {
	s := set(t)
	s.StartAgent(t)
	s.Create(t, stage.Deployment("web", 2, "1", true))
	s.Eventually(t, "pods to run", s.PodsRunning("web", 2))
	old := map[string]bool{}
	for _, c := range s.Claims(t) {
		old[c.Name] = true
	}
	edit(t, s, func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}}
		p.Spec.Template.ObjectMeta.Labels = map[string]string{"generation": "2"}
	})
	most := 0
	s.EventuallyWithin(t, 2*stage.Patience, "all nodes to be of the new template", func(ctx context.Context) (string, error) {
		var list karpv1.NodeClaimList
		err := s.Client.List(ctx, &list)
		left, disrupted, ready := 0, 0, 0
		for i := range list.Items {
			c := &list.Items[i]
			if !old[c.Name] {
				if isReady(c) {
					ready++
				}
				continue
			}
			left++
			if c.DeletionTimestamp != nil && !conditionTrue(c, karpv1.ConditionInstanceTerminating) { // an empty node whose instance ends does not count (disruption rules 7)
				disrupted++
			}
		}
		most = max(most, disrupted)
		if disrupted > ready {
			return "", fmt.Errorf("%d old claims are going, but only %d replacements are ready", disrupted, ready)
		}
		if left > 0 {
			return fmt.Sprintf("%d old claims are left; ", left), err
		}
		return "", err
	})
	if most != 1 {
		t.Errorf("%d nodes were going at once, the budget is 1", most)
	}
	s.Eventually(t, "pods to run", s.PodsRunning("web", 2))
	for _, c := range s.Claims(t) {
		if c.Labels["generation"] != "2" {
			t.Errorf("claim %s has labels %v", c.Name, c.Labels)
		}
	}
}

func isReady(c *karpv1.NodeClaim) bool { return conditionTrue(c, karpv1.ConditionReady) }

func conditionTrue(c *karpv1.NodeClaim, kind string) bool {
	for _, x := range c.Status.Conditions {
		if x.Type == kind {
			return x.Status == "True"
		}
	}
	return false
}

// Half-empty nodes are merged into cheaper ones, without a pod left behind (D-112).
func TestUnderutilizedNodesMerge(t *testing.T) {
	s := set(t)
	edit(t, s, func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, karpv1.Requirement{Key: karpv1.CapacityTypeLabel, Operator: karpv1.In, Values: []string{"on-demand"}})
	})
	s.StartAgent(t)
	s.Create(t, stage.Deployment("web", 2, "1", true), stage.Deployment("big", 2, "6", true))
	s.Eventually(t, "pods to run", s.PodsRunning("web", 2))
	s.Eventually(t, "pods to run", s.PodsRunning("big", 2))
	before := cores(s)
	if err := s.Client.Delete(t.Context(), stage.Deployment("big", 2, "6", true)); err != nil {
		t.Fatal(err)
	}
	consolidating(t, s, "100%")
	s.EventuallyWithin(t, 2*stage.Patience, "cheaper nodes", func(ctx context.Context) (string, error) {
		if now := cores(s); now > before/2 {
			return fmt.Sprintf("%d vCPUs, were %d; ", now, before), nil
		}
		return s.PodsRunning("web", 2)(ctx)
	})
}

// cores are the vCPUs of all instances that live: within the families of the stage the price follows them.
func cores(s *stage.Stage) int {
	total := 0
	for _, i := range s.Alive() {
		total += vcpus(i.Type)
	}
	return total
}

// vcpus of the families that the stage uses, by size.
func vcpus(name string) int {
	_, size, _ := strings.Cut(name, ".")
	switch size {
	case "large":
		return 2
	case "xlarge":
		return 4
	}
	var n int
	if _, err := fmt.Sscanf(size, "%dxlarge", &n); err != nil {
		return 0
	}
	return 4 * n
}

// A spot interruption cordons the node within two seconds, and its pods find a new one.
func TestInterruption(t *testing.T) {
	s := set(t)
	s.StartAgent(t, "INTERRUPTION_QUEUE=sandbox")
	s.Create(t, stage.Deployment("web", 1, "1", true))
	s.Eventually(t, "the pod to run", s.PodsRunning("web", 1))
	victim := s.Alive()[0]
	if err := s.AWS.Cloud().Interrupt(victim.ID, false); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	s.Eventually(t, "the node to be tainted", func(ctx context.Context) (string, error) {
		var n corev1.Node
		err := s.Client.Get(ctx, client.ObjectKey{Name: victim.NodeName}, &n)
		if client.IgnoreNotFound(err) == nil && err != nil {
			return "", nil
		}
		for _, taint := range n.Spec.Taints {
			if taint.Key == karpv1.DisruptedTaintKey {
				return "", nil
			}
		}
		return "no taint yet; ", err
	})
	t.Logf("from message to taint: %v", time.Since(begun))
	s.Eventually(t, "another node for the pod", func(ctx context.Context) (string, error) {
		for _, i := range s.Alive() {
			if i.ID == victim.ID {
				return "the instance still lives; ", nil
			}
		}
		return s.PodsRunning("web", 1)(ctx)
	})
}
