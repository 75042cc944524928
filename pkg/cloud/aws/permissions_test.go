package aws_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/cloud/aws"
	simcloud "github.com/karp-sh/karp/test/simaws/cloud"
)

const controller = "karp-controller"

// restricted is the fixture whose agent has exactly the permissions of manifests/iam.
func restricted(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "manifests", "iam", "controller-policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	policy := os.Expand(string(text), func(name string) string {
		return map[string]string{
			"AWS_PARTITION": "aws", "AWS_REGION": "us-west-2", "AWS_ACCOUNT_ID": w.sim.Cloud().Options().AccountID, "CLUSTER_NAME": "demo",
			"NODE_ROLE": "node-role", "INTERRUPTION_QUEUE": "demo",
		}[name]
	})
	if err := w.sim.Cloud().Give(controller, map[string][]byte{"karp": []byte(policy)}); err != nil {
		t.Fatal(err)
	}
	w.sim.Cloud().ActAs("AKID", controller)
	w.sim.Cloud().CreateQueue("demo", time.Hour)
	w.Provider = w.start(t, func(o *aws.Options) { o.ZonalShift, o.ReservedCapacity, o.QueueName = true, true, "demo" })
	return w
}

// TestPermissionsSuffice runs the provider through the whole life of a class and its nodes: no call is denied, and the policy grants nothing that
// was not needed.
func TestPermissionsSuffice(t *testing.T) {
	w := restricted(t)
	c := w.sim.Cloud()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	for _, r := range w.Refreshers() {
		must(r.Refresh(t.Context()))
	}
	reservation := c.AddReservation(simcloud.CapacityReservation{Type: "m5.large", Zone: "us-west-2a", Total: 1})
	group := c.AddPlacementGroup(simcloud.PlacementGroup{Name: "cluster", Strategy: "cluster"})
	class := nodeClass()
	class.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: reservation}}
	class.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{ID: group}
	must(w.observe(t, class))
	plain := class.DeepCopy()
	plain.Spec.PlacementGroupSelector, plain.Generation = nil, 2
	must(w.observe(t, plain))
	for attempt, kind := range []string{"on-demand", "spot", "reserved"} {
		i := w.launch(t, w.resolve(t, order([]string{kind}, "m5.large"), plain, attempt+1))
		must(w.Tag(t.Context(), i.ID, map[string]string{"Name": "node", "karpenter.sh/nodeclaim": "claim", "eks:eks-cluster-name": "demo"}))
		must(w.Terminate(t.Context(), i.ID))
	}
	grouped := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 9))
	must(w.Terminate(t.Context(), grouped.ID))
	if _, err := w.List(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := c.Send("demo", "{}"); err != nil {
		t.Error(err)
	}
	list, err := w.Receive(t.Context())
	must(err)
	for i := range list {
		must(w.Acknowledge(t.Context(), &list[i]))
	}
	_, err = w.Unhealthy(t.Context())
	must(err)
	w.clock.SetTime(w.clock.Now().Add(2 * time.Hour))
	w.refresh(t, "launch templates")
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	w.refresh(t, "launch templates")
	must(w.CollectProfiles(t.Context(), map[string]bool{class.Status.InstanceProfile: true}))
	done, err := w.Release(t.Context(), class)
	if must(err); !done {
		t.Error("the class is not released")
	}
	report, err := c.Ledger(controller)
	must(err)
	for _, d := range report.Denied {
		t.Errorf("denied: %s on %s, %d times", d.Action, d.Resource, d.Count)
	}
	for _, g := range report.Unused {
		t.Errorf("granted and not used: %+v", g)
	}
	if len(report.Used) < 20 {
		t.Errorf("only %d actions were used: the ledger does not work", len(report.Used))
	}
}

// TestPermissionsAreBounded: what is not ours cannot be ended, and no other role be passed.
func TestPermissionsAreBounded(t *testing.T) {
	w := restricted(t)
	class := nodeClass()
	class.Spec.Role = "r2"
	if err := w.observe(t, class); err == nil || !strings.Contains(err.Error(), "iam:PassRole") {
		t.Errorf("passing role r2: %v", err)
	}
	class = w.readyClass(t)
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-west-2"), config.WithBaseEndpoint(w.url),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("SOMEBODY", "secret", "")))
	if err != nil {
		t.Fatal(err)
	}
	out, err := ec2.NewFromConfig(cfg).RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: &class.Status.AMIs[0].ID, InstanceType: "m5.large", MinCount: new(int32(1)), MaxCount: new(int32(1)), SubnetId: &class.Status.Subnets[0].ID,
		TagSpecifications: []et.TagSpecification{{ResourceType: et.ResourceTypeInstance, Tags: []et.Tag{
			{Key: new("kubernetes.io/cluster/other"), Value: new("owned")}, {Key: new("karpenter.sh/nodepool"), Value: new("np")},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	foreign := *out.Instances[0].InstanceId
	if err := w.Terminate(t.Context(), foreign); err == nil || !strings.Contains(err.Error(), "UnauthorizedOperation") {
		t.Errorf("terminating an instance of another cluster: %v", err)
	}
	if err := w.Tag(t.Context(), foreign, map[string]string{"Name": "mine"}); err == nil || !strings.Contains(err.Error(), "UnauthorizedOperation") {
		t.Errorf("tagging an instance of another cluster: %v", err)
	}
	own := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1))
	if err := w.Tag(t.Context(), own.ID, map[string]string{"kubernetes.io/cluster/demo": "x"}); err == nil {
		t.Error("a tag that says whose the instance is could be changed")
	}
}
