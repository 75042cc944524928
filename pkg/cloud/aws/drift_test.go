package aws_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/cloud/aws"
	simcloud "github.com/karp-sh/karp/test/simaws/cloud"
)

// launched is the claim of an instance, as the agent fills it.
func launched(i *cloud.Instance) *karpv1.NodeClaim {
	c := order([]string{i.CapacityType}, i.Type)
	c.Labels = map[string]string{}
	for k, v := range i.Labels {
		c.Labels[k] = v
	}
	c.Annotations = i.Annotations
	c.Status.ProviderID, c.Status.ImageID = i.ProviderID, i.ImageID
	return c
}

func TestDrift(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	class.Annotations = map[string]string{awsv1.HashAnnotation: class.Hash(w.CABundle()), awsv1.HashVersionAnnotation: awsv1.HashVersion}
	i := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1))
	other := awsv1.AMI{ID: "ami-new", Requirements: []corev1.NodeSelectorRequirement{{Key: ec2types.LabelArch, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}}}}
	tests := []struct {
		name   string
		change func(*karpv1.NodeClaim, *awsv1.EC2NodeClass)
		want   cloud.DriftReason
		err    string
	}{
		{"nothing", nil, "", ""},
		{"A-233", func(_ *karpv1.NodeClaim, n *awsv1.EC2NodeClass) {
			n.Status.AMIs = append([]awsv1.AMI{other}, n.Status.AMIs...)
		}, cloud.AMIDrift, ""},
		{"A-233 an older image is listed too", func(_ *karpv1.NodeClaim, n *awsv1.EC2NodeClass) { n.Status.AMIs = append(n.Status.AMIs, other) }, "", ""},
		{"A-234 another group", func(_ *karpv1.NodeClaim, n *awsv1.EC2NodeClass) {
			n.Status.SecurityGroups = append(n.Status.SecurityGroups, awsv1.SecurityGroup{ID: "sg-2"})
		}, cloud.SecurityGroupDrift, ""},
		{"A-234 the reverse", func(_ *karpv1.NodeClaim, n *awsv1.EC2NodeClass) {
			n.Status.SecurityGroups = []awsv1.SecurityGroup{{ID: "sg-2"}}
		}, cloud.SecurityGroupDrift, ""},
		{"A-235", func(_ *karpv1.NodeClaim, n *awsv1.EC2NodeClass) {
			n.Status.Subnets = []awsv1.Subnet{{ID: "subnet-z", Zone: i.Zone}}
		}, cloud.SubnetDrift, ""},
		{"A-236", func(_ *karpv1.NodeClaim, n *awsv1.EC2NodeClass) { n.Annotations[awsv1.HashAnnotation] = "x" }, cloud.NodeClassDrift, ""},
		{"A-236 versions differ", func(_ *karpv1.NodeClaim, n *awsv1.EC2NodeClass) {
			n.Annotations[awsv1.HashAnnotation], n.Annotations[awsv1.HashVersionAnnotation] = "x", "v5"
		}, "", ""},
		{"A-236 no annotation", func(c *karpv1.NodeClaim, n *awsv1.EC2NodeClass) {
			n.Annotations[awsv1.HashAnnotation] = "x"
			delete(c.Annotations, awsv1.HashAnnotation)
		}, "", ""},
		{"A-238", func(c *karpv1.NodeClaim, _ *awsv1.EC2NodeClass) { c.Labels[ec2types.LabelPlacementGroup] = "pg-1" }, cloud.PlacementGroupDrift, ""},
		{"A-239", func(_ *karpv1.NodeClaim, n *awsv1.EC2NodeClass) {
			n.Status.AMIs, n.Status.Subnets = []awsv1.AMI{other}, []awsv1.Subnet{{ID: "subnet-z", Zone: i.Zone}}
		}, cloud.AMIDrift, ""},
		{"no pool", func(c *karpv1.NodeClaim, n *awsv1.EC2NodeClass) {
			n.Annotations[awsv1.HashAnnotation] = "x"
			delete(c.Labels, karpv1.NodePoolLabel)
		}, "", ""},
		{"the class ends", func(_ *karpv1.NodeClaim, n *awsv1.EC2NodeClass) {
			n.Annotations[awsv1.HashAnnotation], n.DeletionTimestamp = "x", new(metav1.Now())
		}, "", ""},
		{"no images", func(_ *karpv1.NodeClaim, n *awsv1.EC2NodeClass) { n.Status.AMIs = nil }, "", "no images"},
		{"no image id", func(c *karpv1.NodeClaim, _ *awsv1.EC2NodeClass) { c.Status.ImageID = "" }, "", "does not tell its image"},
		{"a type that is not offered", func(c *karpv1.NodeClaim, _ *awsv1.EC2NodeClass) {
			c.Labels[corev1.LabelInstanceTypeStable] = "x9.large"
		}, "", "x9.large"},
		{"no groups", func(_ *karpv1.NodeClaim, n *awsv1.EC2NodeClass) { n.Status.SecurityGroups = nil }, "", "no security groups"},
		{"A-232 provider ID", func(c *karpv1.NodeClaim, _ *awsv1.EC2NodeClass) { c.Status.ProviderID = "azure://x" }, "", "azure://x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, n := launched(i).DeepCopy(), class.DeepCopy()
			if tt.change != nil {
				tt.change(c, n)
			}
			got, err := w.Drift(t.Context(), c, n)
			if got != tt.want || tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%q, %v; want %q, error about %q", got, err, tt.want, tt.err)
			}
		})
	}
}

// TestDriftReads: one read of the instance serves the checks of two minutes; an instance that is gone is reported as such.
func TestDriftReads(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	i := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1))
	c := launched(i)
	drift := func() error {
		_, err := w.Drift(t.Context(), c, class)
		return err
	}
	before := w.mark()
	for range 3 {
		if err := drift(); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.count(before, "DescribeInstances"); n != 1 {
		t.Errorf("%d reads, want 1", n)
	}
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	if err := drift(); err != nil || w.count(before, "DescribeInstances") != 2 {
		t.Errorf("AX23: after two minutes %v and %d reads, want 2", err, w.count(before, "DescribeInstances"))
	}
}

// TestReservationDrift: A-237.
func TestReservationDrift(t *testing.T) {
	w, class, ids := reservedWorld(t, simcloud.CapacityReservation{Type: "m5.large", Zone: "us-west-2a", Total: 2})
	i := w.launch(t, w.resolve(t, order([]string{"reserved"}, "m5.large"), class, 1))
	c := launched(i)
	if got, err := w.Drift(t.Context(), c, class); got != "" || err != nil {
		t.Errorf("in a reservation of the class: %q, %v", got, err)
	}
	class.Status.CapacityReservations = nil
	before := w.mark()
	if got, err := w.Drift(t.Context(), c, class); got != cloud.CapacityReservationDrift || err != nil {
		t.Errorf("in %v, which the class does not select: %q, %v", ids, got, err)
	}
	if n := w.count(before, "DescribeInstances"); n != 1 {
		t.Errorf("%d reads past the cache, want 1", n)
	}
}

func TestHashDriftNeedsBoth(t *testing.T) {
	if cloud.HashDrift(&karpv1.NodeClaim{}, &awsv1.EC2NodeClass{}) {
		t.Error("objects without hash have drifted")
	}
	if _, err := aws.InstanceID(""); err == nil {
		t.Error("an empty provider ID is read")
	}
}
