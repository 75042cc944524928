package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/test/e2e/stage"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

// A static pool keeps its replicas, through scaling and the loss of a claim, and takes no pods' claims (L-257, L-268, L-273, L-280).
func TestStaticPool(t *testing.T) {
	s := set(t)
	s.StartAgent(t)
	two := int64(2)
	s.Create(t, stage.Pool("fixed", func(p *karpv1.NodePool) { p.Spec.Replicas = &two }))
	ready := func(want int) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			var list karpv1.NodeClaimList
			err := s.Client.List(ctx, &list, client.MatchingLabels{"karpenter.sh/nodepool": "fixed"})
			up, all := 0, 0
			for _, c := range list.Items {
				if c.DeletionTimestamp != nil {
					continue
				}
				all++
				for _, cond := range c.Status.Conditions {
					if cond.Type == "Ready" && cond.Status == "True" {
						up++
					}
				}
			}
			if up != want || all != want {
				return fmt.Sprintf("%d claims, %d of them ready, want %d; ", all, up, want), err
			}
			return "", err
		}
	}
	s.Eventually(t, "two nodes", ready(2))
	first := s.Claims(t)[0]
	if err := s.Client.Delete(t.Context(), &first); err != nil {
		t.Fatal(err)
	}
	s.Eventually(t, "the lost one to be replaced", ready(2))
	for _, want := range []int{3, 1} {
		var p karpv1.NodePool
		if err := s.Client.Get(t.Context(), client.ObjectKey{Name: "fixed"}, &p); err != nil {
			t.Fatal(err)
		}
		base := p.DeepCopy()
		n := int64(want)
		p.Spec.Replicas = &n
		if err := s.Client.Patch(t.Context(), &p, client.MergeFrom(base)); err != nil {
			t.Fatal(err)
		}
		s.Eventually(t, fmt.Sprintf("%d nodes", want), ready(want))
	}
	s.Eventually(t, "instances to follow", func(context.Context) (string, error) {
		if n := len(s.Alive()); n != 1 {
			return fmt.Sprintf("%d instances; ", n), nil
		}
		return "", nil
	})
}

// An instance whose claim somebody took away by force is terminated after two listings; one whose token is forged is left alone (L-225, L-228).
func TestOrphan(t *testing.T) {
	s := set(t)
	s.StartAgent(t)
	s.Create(t, stage.Deployment("web", 2, "1", true))
	s.Eventually(t, "pods to run", s.PodsRunning("web", 2))
	claims := s.Claims(t)
	forged := claims[0].Status.ProviderID[strings.LastIndexByte(claims[0].Status.ProviderID, '/')+1:]
	if err := s.AWS.Cloud().Tag([]string{forged}, cloud.Tags{"karp.sh/launch-token": "FORGED"}, false); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), stage.Deployment("web", 2, "1", true)); err != nil {
		t.Fatal(err)
	}
	for i := range claims {
		c := &claims[i]
		base := c.DeepCopy()
		c.Finalizers = nil
		if err := s.Client.Patch(t.Context(), c, client.MergeFrom(base)); err != nil {
			t.Fatal(err)
		}
		if err := client.IgnoreNotFound(s.Client.Delete(t.Context(), c)); err != nil {
			t.Fatal(err)
		}
		// The agent may have put its finalizer back in between.
		if err := client.IgnoreNotFound(s.Client.Patch(t.Context(), c, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	s.EventuallyWithin(t, 3*time.Minute, "the orphan to be terminated", func(context.Context) (string, error) {
		if alive := s.Alive(); len(alive) != 1 {
			return fmt.Sprintf("%d instances are alive; ", len(alive)), nil
		}
		return "", nil
	})
	if took := time.Since(begun); took < time.Minute {
		t.Errorf("the orphan was terminated after %v, on one listing", took)
	}
	if left := s.Alive()[0].ID; left != forged {
		t.Errorf("instance %s is left, want the one with the forged token, %s", left, forged)
	}
	if _, err := s.AWS.Cloud().Terminate([]string{forged}, false); err != nil {
		t.Fatal(err)
	}
}

// An agent whose lease is taken by another holder ends by itself, with an error (L-304).
func TestLostLease(t *testing.T) {
	s := set(t)
	a := s.StartAgent(t, "DISABLE_LEADER_ELECTION=false", "LEADER_ELECTION_NAMESPACE=kube-system", "LEADER_ELECTION_NAME=stolen")
	s.Create(t, stage.Deployment("web", 1, "1", false))
	s.Eventually(t, "the pod to run", s.PodsRunning("web", 1))
	var lease coordinationv1.Lease
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "stolen"}, &lease); err != nil {
		t.Fatal(err)
	}
	base := lease.DeepCopy()
	thief, forever := "thief", int32(3600)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &thief, &forever
	if err := s.Client.Patch(t.Context(), &lease, client.MergeFrom(base)); err != nil {
		t.Fatal(err)
	}
	select {
	case <-a.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the agent runs on without its lease")
	}
	if err := a.Stop(); err == nil {
		t.Error("the agent ended with exit code 0")
	}
	if err := s.Client.Delete(t.Context(), &lease); err != nil {
		t.Fatal(err)
	}
}

// A claim made by hand, without a pool, becomes a node and goes again; its class waits for it (L-011).
func TestStandaloneClaim(t *testing.T) {
	s := set(t)
	s.StartAgent(t)
	c := &karpv1.NodeClaim{}
	c.Name = "by-hand"
	c.Spec.NodeClassRef = stage.Pool("x").Spec.Template.Spec.NodeClassRef
	c.Spec.Requirements = stage.Pool("x").Spec.Template.Spec.Requirements
	s.Create(t, c)
	s.Eventually(t, "the claim to be ready", func(ctx context.Context) (string, error) {
		var node corev1.NodeList
		err := s.Client.List(ctx, &node, client.MatchingLabels{"karpenter.sh/initialized": "true", "karpenter.k8s.aws/ec2nodeclass": "default"})
		if len(node.Items) != 1 {
			return fmt.Sprintf("%d initialized nodes; ", len(node.Items)), err
		}
		return "", err
	})
	class := stage.Class("default")
	if err := s.Client.Delete(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.Eventually(t, "claim, node, instance and class to be gone", func(ctx context.Context) (string, error) {
		left, err := s.Nothing(ctx)
		if left == "" && err == nil {
			if err = s.Client.Get(ctx, client.ObjectKeyFromObject(class), class); err == nil {
				left = "the class is there; "
			}
			err = client.IgnoreNotFound(err)
		}
		return left, err
	})
}
