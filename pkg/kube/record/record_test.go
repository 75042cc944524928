package record_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog/listing"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/kube/record"
	"github.com/karp-sh/karp/pkg/reason"
)

func at(minute int) time.Time { return time.Date(2026, 9, 8, 12, minute, 0, 0, time.UTC) }

func TestFacts(t *testing.T) {
	yes := true
	crashing := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cni-x", UID: "u", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "cni", UID: "d", Controller: &yes}}},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{RestartCount: 9, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
		}},
	}
	creating := crashing.DeepCopy()
	creating.Status.ContainerStatuses[0].State.Waiting.Reason = "ContainerCreating"
	unbound := crashing.DeepCopy()
	unbound.Spec.NodeName = ""
	claim := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
	claim.Status.Conditions = []metav1.Condition{
		{Type: karpv1.ConditionLaunched, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(at(1))},
		{Type: karpv1.ConditionRegistered, Status: metav1.ConditionUnknown, LastTransitionTime: metav1.NewTime(at(2))},
	}
	class := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "std"}}
	class.Status.Conditions = []metav1.Condition{
		{Type: "SubnetsReady", Status: metav1.ConditionFalse, Reason: "SubnetsNotFound", Message: "none", LastTransitionTime: metav1.NewTime(at(3))},
		{Type: "Ready", Status: metav1.ConditionFalse, Reason: "UnhealthyDependents"},
	}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool.Status.Conditions = []metav1.Condition{
		{Type: karpv1.ConditionValidationSucceeded, Status: metav1.ConditionFalse, Reason: "NodePoolValidationFailed", Message: "bad taint", LastTransitionTime: metav1.NewTime(at(4))},
		{Type: karpv1.ConditionNodeClassReady, Status: metav1.ConditionFalse, Reason: "NodeClassNotReady"},
		{Type: karpv1.ConditionNodeRegistrationHealthy, Status: metav1.ConditionFalse, Reason: "RegistrationFailed"},
	}
	series := &corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "a", Name: "p"}, Reason: "Nominated", EventTime: metav1.NewMicroTime(at(4)),
		Series: &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(at(5))},
	}
	got := record.Facts(record.Objects{
		Events: []*corev1.Event{series}, Pods: []*corev1.Pod{crashing, creating, unbound}, Claims: []*karpv1.NodeClaim{claim}, Classes: []*awsv1.EC2NodeClass{class},
		Pools: []*karpv1.NodePool{pool},
	})
	want := explain.Facts{
		Events: []explain.Event{{Object: reason.Object{Kind: "Pod", Namespace: "a", Name: "p"}, Reason: "Nominated", First: at(4), Last: at(5), Count: 3}},
		Failing: map[string][]reason.FailingPod{"n1": {{
			Pod:   reason.Object{Kind: "Pod", Namespace: "kube-system", Name: "cni-x", UID: "u"},
			Owner: reason.Object{Kind: "DaemonSet", Namespace: "kube-system", Name: "cni", UID: "d"}, Reason: "CrashLoopBackOff", Restarts: 9,
		}}},
		Claims:  map[string]explain.Milestones{"c1": {Launched: at(1)}},
		Pools:   map[string][]cluster.Condition{"default": {{Type: "ValidationSucceeded", Reason: "NodePoolValidationFailed", Message: "bad taint", Since: at(4)}}},
		Classes: map[string][]cluster.Condition{"std": {{Type: "SubnetsReady", Reason: "SubnetsNotFound", Message: "none", Since: at(3)}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}

func TestClosed(t *testing.T) {
	failed := func(claim, message string, when time.Time) *corev1.Event {
		return &corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "NodeClaim", Name: claim}, Reason: "InsufficientCapacityError", Message: message,
			LastTimestamp: metav1.NewTime(when),
		}
	}
	const sold = "We currently do not have sufficient m5.large capacity in the Availability Zone you requested (us-east-1a)."
	spot := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "s1"}, Spec: karpv1.NodeClaimSpec{Requirements: []karpv1.Requirement{
		{Key: karpv1.CapacityTypeLabel, Operator: karpv1.In, Values: []string{"spot"}},
	}}}
	got := record.Closed([]*corev1.Event{
		failed("gone", sold+" "+sold, at(19)),
		failed("s1", sold, at(18)),
		failed("old", "We currently do not have sufficient c5.large capacity in the Availability Zone you requested (us-east-1b).", at(10)),
		failed("later", "sufficient r5.large capacity in the Availability Zone you requested (us-east-1b)", at(30)),
		failed("q", "MaxSpotInstanceCountExceeded: Max spot instance count exceeded", at(20)),
		failed("v", "VcpuLimitExceeded: You have requested more vCPU capacity than your current limit", at(20)),
		failed("x", "Unauthorized", at(20)),
	}, []*karpv1.NodeClaim{spot}, at(20))
	want := []listing.Offering{
		{Type: "m5.large", Zone: "us-east-1a", CapacityType: "on-demand", Reason: "InsufficientInstanceCapacity"},
		{Type: "m5.large", Zone: "us-east-1a", CapacityType: "spot", Reason: "InsufficientInstanceCapacity"},
		{CapacityType: "spot", Reason: "MaxSpotInstanceCountExceeded"},
		{CapacityType: "on-demand", Reason: "VcpuLimitExceeded"},
	}
	if diff := cmp.Diff(want, got.Items); diff != "" {
		t.Errorf("closed offerings (-want +got):\n%s", diff)
	}
}
