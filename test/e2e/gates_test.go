package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscalingv1beta1 "github.com/karp-sh/karp/pkg/apis/autoscaling/v1beta1"
	"github.com/karp-sh/karp/pkg/apis/conditions"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	karpv1alpha1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1alpha1"
	"github.com/karp-sh/karp/test/e2e/stage"
)

// created creates objects that go at the end of the test.
func created(t *testing.T, s *stage.Stage, objects ...client.Object) {
	t.Helper()
	s.Create(t, objects...)
	t.Cleanup(func() {
		for _, o := range objects {
			if err := client.IgnoreNotFound(s.Client.Delete(context.Background(), o)); err != nil {
				t.Error(err)
			}
		}
	})
}

func nodeOverlay(name, price string, weight int32) *karpv1alpha1.NodeOverlay {
	o := &karpv1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.Spec.Requirements = []karpv1alpha1.Requirement{{Key: corev1.LabelInstanceTypeStable, Operator: karpv1.In, Values: []string{"r5.2xlarge"}}}
	o.Spec.Price, o.Spec.Weight = &price, &weight
	return o
}

// Overlays decide what is launched, say whether they are applied, and what they promise is planned with once (S-376, S-380, S-382).
func TestNodeOverlay(t *testing.T) {
	s := set(t)
	fuse := nodeOverlay("fuse", "0.001", 5)
	fuse.Spec.Capacity = corev1.ResourceList{"acme.com/fuse": resource.MustParse("2")}
	created(t, s, fuse, nodeOverlay("clash", "0.002", 5))
	s.StartAgent(t, "FEATURE_GATES=NodeOverlay=true")
	s.Eventually(t, "the overlays to be judged", func(ctx context.Context) (string, error) {
		for name, want := range map[string]string{"fuse": "ValidationSucceeded", "clash": "Conflict"} {
			var o karpv1alpha1.NodeOverlay
			if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, &o); err != nil {
				return "", err
			}
			c, _ := conditions.Find(o.Status.Conditions, karpv1.ConditionValidationSucceeded)
			if c.Reason != want || conditions.IsTrue(o.Status.Conditions, karpv1.ConditionReady) != (want == "ValidationSucceeded") {
				return fmt.Sprintf("overlay %s has conditions %v; ", name, o.Status.Conditions), nil
			}
		}
		return "", nil
	})
	web := stage.Deployment("web", 1, "1", false)
	web.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"acme.com/fuse": resource.MustParse("1")}
	created(t, s, web)
	s.Eventually(t, "the claim to be launched", func(context.Context) (string, error) {
		claims := s.Claims(t)
		if len(claims) == 0 || claims[0].Status.ProviderID == "" {
			return "no launched claim; ", nil
		}
		return "", nil
	})
	c := s.Claims(t)[0]
	if c.Annotations[karpv1.PriceOverlayAppliedAnnotation] != "true" || c.Annotations["karpenter.sh/capacity-overlay-applied"] != "true" {
		t.Errorf("claim %s has annotations %v", c.Name, c.Annotations)
	}
	if got := c.Labels[corev1.LabelInstanceTypeStable]; got != "r5.2xlarge" {
		t.Errorf("launched as %s, want r5.2xlarge", got)
	}
	if q := c.Status.Capacity["acme.com/fuse"]; q.Value() != 2 {
		t.Errorf("the claim's capacity is %v, want two fuses", c.Status.Capacity)
	}
	// A second pod that needs a fuse finds the one that is promised.
	more := stage.Deployment("more", 1, "1", false)
	more.Spec.Template.Spec.Containers[0].Resources.Limits = web.Spec.Template.Spec.Containers[0].Resources.Limits
	created(t, s, more)
	s.Eventually(t, "the second pod to be nominated", func(ctx context.Context) (string, error) {
		var list corev1.EventList
		err := s.Client.List(ctx, &list, client.InNamespace("default"))
		for _, e := range list.Items {
			if e.Reason == "Nominated" && len(e.InvolvedObject.Name) > 4 && e.InvolvedObject.Name[:5] == "more-" {
				return "", err
			}
		}
		return "no event; ", err
	})
	if n := len(s.Claims(t)); n != 1 {
		t.Errorf("%d claims, want 1", n)
	}
}

// A capacity buffer gets nodes without any pod, then finds that it has its room; a template that goes makes it not ready (S-392, S-393, S-396).
func TestCapacityBuffer(t *testing.T) {
	s := set(t)
	replicas := int32(3)
	template := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "spare"}, Template: stage.Deployment("spare", 1, "1", false).Spec.Template}
	b := &autoscalingv1beta1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "spare"}}
	b.Spec.PodTemplateRef, b.Spec.Replicas = &autoscalingv1beta1.LocalObjectRef{Name: "spare"}, &replicas
	created(t, s, template, b)
	s.StartAgent(t, "FEATURE_GATES=CapacityBuffer=true")
	reasons := func(ready, provisioning string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			var now autoscalingv1beta1.CapacityBuffer
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(b), &now)
			r, _ := conditions.Find(now.Status.Conditions, autoscalingv1beta1.ConditionReadyForProvisioning)
			p, _ := conditions.Find(now.Status.Conditions, autoscalingv1beta1.ConditionProvisioning)
			if r.Reason != ready || p.Reason != provisioning {
				return fmt.Sprintf("conditions are %v; ", now.Status.Conditions), err
			}
			return "", err
		}
	}
	s.Eventually(t, "claims", func(context.Context) (string, error) {
		if len(s.Claims(t)) == 0 {
			return "none; ", nil
		}
		return "", nil
	})
	cpu := int64(0)
	for _, c := range s.Claims(t) {
		cpu += c.Spec.Resources.Requests.Cpu().MilliValue()
	}
	if cpu != 3000 {
		t.Errorf("the claims request %dm CPU, want 3000m", cpu)
	}
	s.EventuallyWithin(t, 2*time.Minute, "the room to be there", reasons("Resolved", "FitsExistingCapacity"))
	var pods corev1.PodList
	var events corev1.EventList
	if err := s.Client.List(t.Context(), &pods, client.InNamespace("default")); err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods, %v", len(pods.Items), err)
	}
	if err := s.Client.List(t.Context(), &events, client.InNamespace("default")); err != nil {
		t.Error(err)
	}
	for _, e := range events.Items {
		if len(e.InvolvedObject.Name) > 15 && e.InvolvedObject.Name[:15] == "capacity-buffer" {
			t.Errorf("event %s about %s", e.Reason, e.InvolvedObject.Name)
		}
	}
	if err := s.Client.Delete(t.Context(), template); err != nil {
		t.Fatal(err)
	}
	s.Eventually(t, "the buffer not to be ready", reasons("PodTemplateNotFound", "NotReadyForProvisioning"))
}

// Pods without constraints are spread as the scheduler configuration says, and stay as they were written (S-269, S-287).
func TestDefaultSpread(t *testing.T) {
	s := set(t)
	s.StartAgent(t, `SCHEDULER_CONFIG={"podTopologySpread": {"defaultConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}]}}`)
	created(t, s, stage.Deployment("web", 2, "1", false))
	s.Eventually(t, "pods to run", s.PodsRunning("web", 2))
	var zones []string
	for _, c := range s.Claims(t) {
		zones = append(zones, c.Labels[corev1.LabelTopologyZone])
	}
	slices.Sort(zones)
	if len(slices.Compact(slices.Clone(zones))) != 2 {
		t.Errorf("the claims are in zones %v, want two", zones)
	}
	var pods corev1.PodList
	var web appsv1.Deployment
	if err := s.Client.List(t.Context(), &pods, client.MatchingLabels{"app": "web"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, &web); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if len(p.Spec.TopologySpreadConstraints)+len(web.Spec.Template.Spec.TopologySpreadConstraints) > 0 {
			t.Errorf("S-287: pod %s has constraints %v", p.Name, p.Spec.TopologySpreadConstraints)
		}
	}
}
