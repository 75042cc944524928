package aws_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/apis/conditions"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/cloud/aws"
	"github.com/karp-sh/karp/pkg/units"
	"github.com/karp-sh/karp/test/simaws"
	"github.com/karp-sh/karp/test/simaws/bootstrap"
	simcloud "github.com/karp-sh/karp/test/simaws/cloud"
)

// loadFacts decodes the embedded tables once for all tests; they are never changed.
var loadFacts = sync.OnceValues(ec2data.Load)

// world is a simulated AWS over HTTP, and a provider that talks to it through the real SDK.
type world struct {
	*aws.Provider
	sim   *simaws.Server
	clock *clocktesting.FakePassiveClock
	url   string
}

// newWorld is the fixture: region us-west-2 with a subnet in each of the zones a to c, cluster demo, Kubernetes 1.32.
func newWorld(t *testing.T) *world {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(start())
	sim, err := simaws.New(simaws.Options{Cloud: simcloud.Options{
		Region: "us-west-2", Zones: []string{"a", "b", "c"}, ClusterName: "demo", KubernetesVersion: "1.32", ClusterEndpoint: "https://demo.example",
		CertificateAuthority: "Y2E=", ServiceCIDR: "10.100.0.0/16", Roles: []string{"node-role", "r2"}, Clock: clock,
	}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	w := &world{sim: sim, clock: clock, url: server.URL}
	w.Provider = w.start(t, nil)
	return w
}

// start makes a provider, as a process does.
func (w *world) start(t *testing.T, change func(*aws.Options)) *aws.Provider {
	t.Helper()
	p, err := w.try(t.Context(), change)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (w *world) try(ctx context.Context, change func(*aws.Options)) (*aws.Provider, error) {
	data, err := loadFacts()
	if err != nil {
		return nil, err
	}
	fast := aws.Rate{PerSecond: 1000, Burst: 1000}
	o := aws.Options{
		ClusterName: "demo", Region: "us-west-2", ClusterDNS: "10.100.0.10", MemoryOverhead: 0.075, Clock: w.clock, Facts: data,
		KubeVersion: func(context.Context) (string, error) { return "1.32+", nil },
		Rates:       aws.Rates{Describe: fast, Launch: fast, Terminate: fast, Tag: fast, Rest: fast},
		Load: []func(*config.LoadOptions) error{
			config.WithBaseEndpoint(w.url), config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("AKID", "secret", "")),
		},
	}
	if change != nil {
		change(&o)
	}
	return aws.New(ctx, o)
}

// mark returns the number of the last call so far.
func (w *world) mark() int {
	calls := w.sim.Calls(0, "", "")
	if len(calls) == 0 {
		return 0
	}
	return calls[len(calls)-1].Seq
}

// count is how often an action was called since a mark.
func (w *world) count(since int, action string) int { return len(w.sim.Calls(since, "", action)) }

func nodeClass() *awsv1.EC2NodeClass {
	discovery := map[string]string{"karpenter.sh/discovery": "demo"}
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "nc", UID: "U1", Generation: 1, CreationTimestamp: metav1.NewTime(start())},
		Spec: awsv1.EC2NodeClassSpec{
			Role:                       "node-role",
			AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: discovery}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: discovery}},
		},
	}
}

// observe reconciles the class and stores the status.
func (w *world) observe(t *testing.T, class *awsv1.EC2NodeClass) error {
	t.Helper()
	status, err := w.Observe(t.Context(), class, w.clock.Now())
	class.Status = status
	return err
}

// readyClass is a class that was reconciled.
func (w *world) readyClass(t *testing.T) *awsv1.EC2NodeClass {
	t.Helper()
	class := nodeClass()
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, class, karpv1.ConditionReady, metav1.ConditionTrue, "")
	return class
}

func wantCondition(t *testing.T, class *awsv1.EC2NodeClass, conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
	t.Helper()
	c, ok := conditions.Find(class.Status.Conditions, conditionType)
	if !ok || c.Status != status || reason != "" && c.Reason != reason {
		t.Errorf("%s is %s, reason %s (%s), want %s %s", conditionType, c.Status, c.Reason, c.Message, status, reason)
	}
	return c
}

// order is a claim for a pod on one of the types.
func order(capacityTypes []string, names ...string) *karpv1.NodeClaim {
	c := claim(in(karpv1.CapacityTypeLabel, capacityTypes...), in(corev1.LabelInstanceTypeStable, names...))
	c.ObjectMeta = metav1.ObjectMeta{
		Name: "np-1", UID: types.UID("claim-1"),
		Labels: map[string]string{karpv1.NodePoolLabel: "np", awsv1.EC2NodeClassLabel: "nc", "team": "a"},
	}
	return c
}

func identity(attempt int) cloud.Identity {
	return cloud.Identity{ClusterUID: "cluster-1", ClaimUID: "claim-1", Attempt: attempt}
}

func (w *world) resolve(t *testing.T, c *karpv1.NodeClaim, class *awsv1.EC2NodeClass, attempt int) *cloud.Request {
	t.Helper()
	r, err := w.Resolve(t.Context(), c, class, identity(attempt))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (w *world) launch(t *testing.T, r *cloud.Request) *cloud.Instance {
	t.Helper()
	i, err := w.Launch(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func zoneOf(class *awsv1.EC2NodeClass, zone string) awsv1.Subnet {
	i := slices.IndexFunc(class.Status.Subnets, func(s awsv1.Subnet) bool { return s.Zone == zone })
	return class.Status.Subnets[i]
}

func TestStart(t *testing.T) {
	w := newWorld(t) // the trial call answers DryRunOperation
	if n := w.count(0, "DescribeCluster"); n != 1 {
		t.Errorf("A-005: %d DescribeCluster calls, want 1", n)
	}
	for name, change := range map[string]func(*aws.Options){
		"A-001 cluster-name":                   func(o *aws.Options) { o.ClusterName = "" },
		"A-002 cluster-endpoint":               func(o *aws.Options) { o.ClusterEndpoint = "demo.example" },
		"A-003 reserved-enis":                  func(o *aws.Options) { o.ReservedENIs = -1 },
		"A-003 vm-memory-overhead-percent":     func(o *aws.Options) { o.MemoryOverhead = -0.1 },
		"A-003 ami-refresh-interval":           func(o *aws.Options) { o.AMIRefresh = 30 * time.Second },
		"A-003 subnet-refresh-interval":        func(o *aws.Options) { o.SubnetRefresh = 59 * time.Second },
		"cluster-ca-bundle that is not base64": func(o *aws.Options) { o.ClusterCA = "!" },
	} {
		before := w.mark()
		_, err := w.try(t.Context(), change)
		setting := strings.Fields(strings.TrimLeft(name, "A-0123 "))[0]
		if err == nil || !strings.Contains(err.Error(), setting) {
			t.Errorf("%s: %v", name, err)
		}
		if w.mark() != before {
			t.Errorf("%s: AWS was called", name)
		}
	}
	w.sim.InjectFault(simaws.Fault{Service: "ec2", Action: "DescribeInstanceTypes", Code: "UnauthorizedOperation", Status: 403})
	if _, err := w.try(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "ec2:DescribeInstanceTypes") {
		t.Errorf("A-006: %v", err)
	}
}

func TestObserve(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	var params []string
	for _, c := range w.sim.Calls(0, "ssm", "GetParameter") {
		params = append(params, c.Params["body"])
	}
	if len(params) != 5 || !slices.ContainsFunc(params, func(s string) bool {
		return strings.Contains(s, "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/neuron/recommended/image_id")
	}) {
		t.Errorf("A-041, A-010: parameters %v", params)
	}
	if len(class.Status.AMIs) != 5 {
		t.Errorf("A-041: %d images, want 5: %+v", len(class.Status.AMIs), class.Status.AMIs)
	}
	if len(class.Status.Subnets) != 3 || class.Status.Subnets[0].ZoneID == "" || len(class.Status.SecurityGroups) != 2 {
		t.Errorf("A-031: %+v, %+v", class.Status.Subnets, class.Status.SecurityGroups)
	}
	profiles := w.sim.Cloud().Profiles("/karpenter/us-west-2/demo/U1/")
	if len(profiles) != 1 || profiles[0].Name != class.Status.InstanceProfile || !strings.HasPrefix(profiles[0].Name, "demo_") {
		t.Fatalf("A-064: profiles %+v, status %q", profiles, class.Status.InstanceProfile)
	}
	wantTags := simcloud.Tags{
		"kubernetes.io/cluster/demo": "owned", "eks:eks-cluster-name": "demo", "karpenter.k8s.aws/ec2nodeclass": "nc", "topology.kubernetes.io/region": "us-west-2",
	}
	if diff := cmp.Diff(wantTags, profiles[0].Tags); diff != "" {
		t.Errorf("A-064: tags (-want +got):\n%s", diff)
	}
	for action, want := range map[string]int{"CreateLaunchTemplate": 1, "CreateFleet": 1, "RunInstances": 1} {
		if got := w.count(0, action); got != want {
			t.Errorf("A-084: %d calls of %s, want %d", got, action, want)
		}
	}
	before := w.mark()
	w.clock.SetTime(start().Add(20 * time.Second))
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	if now := w.mark(); now != before {
		t.Errorf("A-036, A-065, A-085: calls were made: %v", w.sim.Calls(before, "", ""))
	}
	class.Generation++
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	if w.count(before, "DescribeSubnets") != 1 {
		t.Error("A-037: a new generation must look again")
	}
	wantCondition(t, class, karpv1.ConditionReady, metav1.ConditionTrue, "")
}

func TestObserveNothingMatches(t *testing.T) {
	w := newWorld(t)
	class := nodeClass()
	class.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"no": "such"}}}
	class.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{Name: "nobody"}}
	class.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Name: "nothing-*"}}
	class.Spec.AMIFamily = new(awsv1.AL2023)
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	wantCondition(t, class, awsv1.ConditionSubnetsReady, metav1.ConditionFalse, awsv1.ReasonSubnetsNotFound)
	wantCondition(t, class, awsv1.ConditionSecurityGroupsReady, metav1.ConditionFalse, awsv1.ReasonSecurityGroupsNotFound)
	wantCondition(t, class, awsv1.ConditionAMIsReady, metav1.ConditionFalse, awsv1.ReasonAMINotFound)
	wantCondition(t, class, awsv1.ConditionValidationSucceeded, metav1.ConditionFalse, awsv1.ReasonDependenciesNotReady)
	wantCondition(t, class, karpv1.ConditionReady, metav1.ConditionFalse, "")
	class = nodeClass()
	class.Spec = awsv1.EC2NodeClassSpec{}
	if err := w.observe(t, class); err != nil {
		t.Errorf("AX20: %v", err)
	}
	wantCondition(t, class, karpv1.ConditionReady, metav1.ConditionFalse, "")
	class = nodeClass()
	class.Generation, class.Spec.AMISelectorTerms[0].Alias = 2, "al2023@a@b"
	if err := w.observe(t, class); err != nil {
		t.Errorf("AX19: %v", err)
	}
	wantCondition(t, class, awsv1.ConditionAMIsReady, metav1.ConditionFalse, awsv1.ReasonUnsupportedAlias)
}

// A class that cannot be resolved says why on itself, not only in the agent's log.
func TestObserveSaysWhatFailed(t *testing.T) {
	for _, tt := range []struct {
		name, condition, says string
		change                func(*awsv1.EC2NodeClass)
	}{
		{"role", awsv1.ConditionInstanceProfileReady, "no-such-role", func(c *awsv1.EC2NodeClass) { c.Spec.Role = "no-such-role" }},
		{"user data", awsv1.ConditionValidationSucceeded, "TOML", func(c *awsv1.EC2NodeClass) {
			c.Spec.AMISelectorTerms[0].Alias, c.Spec.UserData = "bottlerocket@latest", new("[settings")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			class := nodeClass()
			tt.change(class)
			if err := w.observe(t, class); err == nil {
				t.Error("no error, so nobody would try again")
			}
			c := wantCondition(t, class, tt.condition, metav1.ConditionUnknown, "")
			if !strings.Contains(c.Message, tt.says) {
				t.Errorf("message %q does not name %s", c.Message, tt.says)
			}
		})
	}
}

func TestObserveKeepsWhatItCannotRead(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	good := class.Status.DeepCopy()
	w.clock.SetTime(start().Add(10 * time.Minute))
	w.sim.InjectFault(simaws.Fault{Service: "ec2", Action: "DescribeSubnets", Code: "InternalError", Status: 500})
	before := w.mark()
	if err := w.observe(t, class); err == nil {
		t.Error("no error")
	}
	if diff := cmp.Diff(*good, class.Status); diff != "" {
		t.Errorf("status changed (-before +after):\n%s", diff)
	}
	if w.count(before, "DescribeSecurityGroups") != 1 {
		t.Error("the other parts were not looked at")
	}
}

func TestInstanceProfiles(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	first := class.Status.InstanceProfile
	lost := nodeClass() // the status never arrived
	if err := w.observe(t, lost); err != nil || lost.Status.InstanceProfile != first {
		t.Errorf("A-069: %q after %q, %v", lost.Status.InstanceProfile, first, err)
	}
	class.Spec.Role, class.Generation = "path/to/r2", 2
	if err := w.observe(t, class); err != nil || class.Status.InstanceProfile == first {
		t.Errorf("A-066: %q, %v", class.Status.InstanceProfile, err)
	}
	if all := w.sim.Cloud().Profiles("/karpenter/us-west-2/demo/U1/"); len(all) != 2 {
		t.Errorf("A-066: %d profiles, want the old one kept", len(all))
	}
	w.clock.SetTime(start().Add(20 * time.Minute))
	second, before := class.Status.InstanceProfile, w.mark()
	if err := w.observe(t, class); err != nil || class.Status.InstanceProfile != second || w.count(before, "CreateInstanceProfile") != 0 {
		t.Errorf("A-070: a role with a path: %q after %q, %v", class.Status.InstanceProfile, second, err)
	}
	class.Spec.Role, class.Generation = "nobody", 3
	before = w.mark()
	for range 3 {
		if err := w.observe(t, class); err == nil {
			t.Error("A-068: no error")
		}
	}
	if n := w.count(before, "CreateInstanceProfile"); n != 1 || w.count(before, "DeleteInstanceProfile") != 1 {
		t.Errorf("A-068: %d profiles made", n)
	}
	class.Spec.Role, class.Spec.InstanceProfile, class.Generation = "", new("ip1"), 4
	before = w.mark()
	_ = w.observe(t, class) // the trial calls know no such profile
	if class.Status.InstanceProfile != "ip1" || len(w.sim.Calls(before, "iam", "")) != 0 {
		t.Errorf("A-071: %q", class.Status.InstanceProfile)
	}
	done, err := w.Release(t.Context(), class)
	if err != nil || !done {
		t.Errorf("A-099: %v, %v", done, err)
	}
	if left := w.sim.Cloud().Profiles("/karpenter/"); len(left) != 0 {
		t.Errorf("A-099: profiles left: %+v", left)
	}
	if n := len(w.sim.Calls(before, "ec2", "DeleteLaunchTemplate")); n == 0 {
		t.Error("A-099: no launch template deleted")
	}
}

func TestValidation(t *testing.T) {
	long := "#!/bin/sh\n" + strings.Repeat("# filler\n", 2500)
	scp := "You are not authorized: with an explicit deny in a service control policy"
	tests := []struct {
		name   string
		fault  *simaws.Fault
		change func(*awsv1.EC2NodeClass)
		reason string // "" is Unknown with an error
		text   string
		calls  map[string]int
	}{
		{"A-086", &simaws.Fault{Action: "CreateFleet", Code: "UnauthorizedOperation", Status: 403}, nil, awsv1.ReasonCreateFleetAuthCheckFailed, "ec2:CreateFleet", map[string]int{"CreateFleet": 1, "RunInstances": 0}},
		{"A-087", &simaws.Fault{Action: "CreateLaunchTemplate", Code: "UnauthorizedOperation", Message: scp, Status: 403}, nil, awsv1.ReasonCreateLaunchTemplateAuthCheckFailed, "SCP", map[string]int{"CreateFleet": 0}},
		{"A-088", &simaws.Fault{Action: "RunInstances", Times: 1, Code: "UnauthorizedOperation", Status: 403}, nil, "True", "", map[string]int{"RunInstances": 2}},
		{"A-089", &simaws.Fault{Action: "RunInstances", Code: "UnauthorizedOperation", Status: 403}, nil, awsv1.ReasonRunInstancesAuthCheckFailed, "ec2:RunInstances", map[string]int{"RunInstances": 3}},
		{"A-090", &simaws.Fault{Action: "RunInstances", Code: "InvalidParameterValue", Message: "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", Status: 400}, nil, "", "", map[string]int{"RunInstances": 3}},
		{"A-091", &simaws.Fault{Action: "CreateFleet", Code: "RequestLimitExceeded", Status: 503}, nil, "", "", map[string]int{"CreateFleet": 1}},
		{"A-092", nil, func(c *awsv1.EC2NodeClass) { c.Spec.UserData = &long }, awsv1.ReasonUserDataSizeLimitExceeded, "16384", nil},
		{"A-093 tag", nil, func(c *awsv1.EC2NodeClass) { c.Spec.Tags = map[string]string{"karpenter.sh/nodepool": "x"} }, awsv1.ReasonTagValidationFailed, "karpenter.sh/nodepool", map[string]int{"CreateFleet": 0}},
		{"AX14", nil, func(c *awsv1.EC2NodeClass) {
			c.Spec.Kubelet = &awsv1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": "many"}}
		}, awsv1.ReasonInvalidKubeletConfiguration, "kubeReserved", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			class := nodeClass()
			if tt.change != nil {
				tt.change(class)
			}
			if tt.fault != nil {
				tt.fault.Service = "ec2"
				w.sim.InjectFault(*tt.fault)
			}
			err := w.observe(t, class)
			switch tt.reason {
			case "":
				if err == nil {
					t.Error("no error")
				}
				wantCondition(t, class, awsv1.ConditionValidationSucceeded, metav1.ConditionUnknown, conditions.ReasonAwaitingReconciliation)
			case "True":
				wantCondition(t, class, awsv1.ConditionValidationSucceeded, metav1.ConditionTrue, "")
			default:
				c := wantCondition(t, class, awsv1.ConditionValidationSucceeded, metav1.ConditionFalse, tt.reason)
				if err != nil || !strings.Contains(c.Message, tt.text) {
					t.Errorf("message %q, error %v", c.Message, err)
				}
			}
			for action, want := range tt.calls {
				if got := w.count(0, action); got != want {
					t.Errorf("%d calls of %s, want %d", got, action, want)
				}
			}
			before := w.mark()
			if err == nil && w.observe(t, class) == nil && w.count(before, "CreateFleet")+w.count(before, "RunInstances") > 0 {
				t.Error("the verdict was not remembered")
			}
		})
	}
}

func TestLaunch(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	r := w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1)
	if len(r.Payload) > 4096 {
		t.Errorf("a request of one type takes %d bytes", len(r.Payload))
	}
	before := w.mark()
	got := w.launch(t, r)
	calls := w.sim.Calls(before, "ec2", "CreateFleet")
	if len(calls) != 1 {
		t.Fatalf("%d CreateFleet calls", len(calls))
	}
	for key, want := range map[string]string{
		"Type": "instant", "ClientToken": identity(1).Token(), "TargetCapacitySpecification.TotalTargetCapacity": "1",
		"TargetCapacitySpecification.DefaultTargetCapacityType": "on-demand", "OnDemandOptions.AllocationStrategy": "lowest-price",
		"LaunchTemplateConfigs.1.Overrides.3.Priority": "0.096", "LaunchTemplateConfigs.1.Overrides.1.AvailabilityZone": "us-west-2a",
		"LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version": "$Latest", "LaunchTemplateConfigs.1.Overrides.4.Priority": "",
	} {
		if calls[0].Params[key] != want {
			t.Errorf("A-208: %s is %q, want %q", key, calls[0].Params[key], want)
		}
	}
	live := w.sim.Cloud().All()
	if len(live) != 1 || live[0].ID != got.ID {
		t.Fatalf("instances %+v", live)
	}
	wantTags := map[string]string{
		"kubernetes.io/cluster/demo": "owned", "karpenter.sh/nodepool": "np", "eks:eks-cluster-name": "demo", "karpenter.k8s.aws/ec2nodeclass": "nc",
		"karp.sh/launch-id": "claim-1/1", "karp.sh/launch-token": identity(1).Token(),
	}
	for k, v := range wantTags {
		if live[0].Tags[k] != v {
			t.Errorf("A-208: tag %s is %q, want %q", k, live[0].Tags[k], v)
		}
	}
	want := map[string]string{
		"node.kubernetes.io/instance-type": "m5.large", "kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": got.Zone, "kubernetes.io/os": "linux",
		"topology.k8s.aws/zone-id": zoneOf(class, got.Zone).ZoneID, "karpenter.sh/capacity-type": "on-demand", "karpenter.k8s.aws/instance-tenancy": "default",
		"karpenter.sh/nodepool": "np", "topology.kubernetes.io/region": "us-west-2", "karpenter.k8s.aws/instance-hypervisor": "nitro",
	}
	for k, v := range want {
		if got.Labels[k] != v {
			t.Errorf("A-223: label %s is %q, want %q", k, got.Labels[k], v)
		}
	}
	if got.ProviderID != "aws:///"+got.Zone+"/"+got.ID || got.ImageID != live[0].ImageID || got.SubnetID != live[0].Subnet {
		t.Errorf("A-223: %+v", got)
	}
	if got.Annotations[awsv1.HashAnnotation] != class.Hash(w.CABundle()) || got.Annotations[awsv1.InstanceProfileAnnotation] != class.Status.InstanceProfile {
		t.Errorf("A-223: annotations %v", got.Annotations)
	}
	kubelet, err := bootstrap.Decode("al2023", live[0].UserData)
	if err != nil {
		t.Fatalf("the instance does not boot: %v\n%s", err, live[0].UserData)
	}
	wantCluster := bootstrap.Cluster{Name: "demo", Endpoint: "https://demo.example", CertificateAuthority: "Y2E=", CIDR: "10.100.0.0/16"}
	if diff := cmp.Diff(wantCluster, kubelet.Cluster); diff != "" {
		t.Errorf("the instance joins (-want +got):\n%s", diff)
	}
	if kubelet.Labels["team"] != "a" || kubelet.Labels["karpenter.sh/do-not-sync-taints"] != "true" || len(kubelet.Taints) != 1 {
		t.Errorf("the kubelet registers labels %v, taints %v", kubelet.Labels, kubelet.Taints)
	}
	if got.Capacity[units.Memory] != 7577<<20 || got.Allocatable[units.CPU] != 1930 || got.Capacity[units.Pods] != 29 {
		t.Errorf("capacity %v, allocatable %v", got.Capacity, got.Allocatable)
	}
}

func TestLaunchAgain(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	r := w.resolve(t, order([]string{"spot", "on-demand"}, "m5.large", "c5.large", "m5.xlarge"), class, 1)
	if r.CapacityType != "spot" {
		t.Errorf("capacity type %s, want spot", r.CapacityType)
	}
	first := w.launch(t, r)
	again := w.launch(t, r)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the repetition gave something else:\n%s", diff)
	}
	w.Provider = w.start(t, nil) // another process, which knows the request from the claim only
	if restarted := w.launch(t, r); restarted.ID != first.ID {
		t.Errorf("after a restart: %s, want %s", restarted.ID, first.ID)
	}
	if n := len(w.sim.Cloud().All()); n != 1 {
		t.Fatalf("%d instances, want 1", n)
	}
	if second := w.launch(t, w.resolve(t, order([]string{"spot"}, "m5.large"), class, 2)); second.ID == first.ID {
		t.Error("a new attempt gave the old instance")
	}
}

func TestUnknownOutcome(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	r := w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1)
	w.sim.InjectFault(simaws.Fault{Service: "ec2", Action: "CreateFleet", After: true, Drop: true})
	_, err := w.Launch(t.Context(), r)
	if _, ok := errors.AsType[*cloud.UnknownOutcome](err); !ok {
		t.Fatalf("error %v, want an unknown outcome", err)
	}
	w.sim.ClearFaults(0)
	got := w.launch(t, r)
	if live := w.sim.Cloud().All(); len(live) != 1 || live[0].ID != got.ID {
		t.Fatalf("%d instances, want the one that was launched", len(live))
	}
}

func TestTokenReused(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	first := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1))
	other := w.resolve(t, order([]string{"on-demand"}, "c5.large"), class, 1)
	if got := w.launch(t, other); got.ID != first.ID {
		t.Errorf("got %s, want the instance that carries the launch id", got.ID)
	}
	if err := w.Tag(t.Context(), first.ID, map[string]string{awsv1.TagLaunchID: "somebody else's"}); err != nil {
		t.Fatal(err)
	}
	_, err := w.Launch(t.Context(), other)
	if failed, ok := errors.AsType[*cloud.CreateFailed](err); !ok || failed.Reason != cloud.ReasonIdempotentParameterMismatch {
		t.Errorf("error %v, want the mismatch", err)
	}
	if n := len(w.sim.Cloud().All()); n != 1 {
		t.Errorf("%d instances, want 1", n)
	}
}

func offering(t *testing.T, list []catalog.InstanceType, name, zone, capacityType string) catalog.Offering {
	t.Helper()
	for _, it := range list {
		for _, o := range it.Offerings {
			if it.Name == name && o.Zone == zone && o.CapacityType == capacityType {
				return o
			}
		}
	}
	t.Fatalf("no offering %s %s %s", name, zone, capacityType)
	return catalog.Offering{}
}

func TestSoldOutOffering(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	w.sim.Cloud().TakeCapacity(simcloud.CapacityRule{Type: "c5.large", CapacityType: "on-demand"})
	generation := w.Generation()
	got := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.large", "c5.large"), class, 1))
	if got.Type != "m5.large" {
		t.Errorf("launched %s, want the other type", got.Type)
	}
	if w.Generation() == generation {
		t.Error("the generation did not move")
	}
	list, err := w.InstanceTypes(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range []string{"us-west-2a", "us-west-2b", "us-west-2c"} {
		o := offering(t, list, "c5.large", z, "on-demand")
		want := catalog.Unavailability{Reason: "InsufficientInstanceCapacity", Until: start().Add(3 * time.Minute)}
		if diff := cmp.Diff(want, o.Unavailable); o.Available || diff != "" {
			t.Errorf("%s: available %v (-want +got):\n%s", z, o.Available, diff)
		}
		if !offering(t, list, "c5.large", z, "spot").Available || !offering(t, list, "m5.large", z, "on-demand").Available {
			t.Errorf("%s: something else is marked too", z)
		}
	}
	other := nodeClass() // a second class sees the marks too
	other.Name, other.UID, other.Status = "other", "U2", class.Status
	if list, err = w.InstanceTypes(t.Context(), other); err != nil || offering(t, list, "c5.large", "us-west-2a", "on-demand").Available {
		t.Errorf("A-163: available for another class, %v", err)
	}
	w.clock.SetTime(start().Add(3*time.Minute + time.Second))
	if list, err = w.InstanceTypes(t.Context(), class); err != nil || !offering(t, list, "c5.large", "us-west-2a", "on-demand").Available {
		t.Errorf("A-161: still unavailable, %v", err)
	}
}

func TestMarkUnavailable(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	w.MarkUnavailable("spot", "m5.large", "us-west-2a", "SpotInterruption")
	list, err := w.InstanceTypes(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	if o := offering(t, list, "m5.large", "us-west-2a", "spot"); o.Available || o.Unavailable.Reason != "SpotInterruption" {
		t.Errorf("offering %+v", o)
	}
}

func TestAllSoldOut(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	w.sim.Cloud().TakeCapacity(simcloud.CapacityRule{Type: "m5.large"})
	r := w.resolve(t, order([]string{"spot", "on-demand"}, "m5.large"), class, 1)
	_, err := w.Launch(t.Context(), r)
	full, ok := errors.AsType[*cloud.NoCapacity](err)
	if !ok || !strings.Contains(full.Detail, "InsufficientInstanceCapacity m5.large in us-west-2") {
		t.Fatalf("error %v, want no capacity with the offerings", err)
	}
	next := w.resolve(t, order([]string{"spot", "on-demand"}, "m5.large"), class, 2)
	if next.CapacityType != "on-demand" {
		t.Errorf("the second attempt is %s, want on-demand", next.CapacityType)
	}
	if _, err := w.Launch(t.Context(), next); err == nil {
		t.Error("launched although sold out")
	}
	_, err = w.Resolve(t.Context(), order([]string{"spot", "on-demand"}, "m5.large"), class, identity(3))
	if full, ok := errors.AsType[*cloud.NoCapacity](err); !ok || !strings.Contains(full.Detail, "6 InsufficientInstanceCapacity") {
		t.Errorf("error %v, want no capacity that counts the offerings", err)
	}
	if n := len(w.sim.Cloud().All()); n != 0 {
		t.Errorf("%d instances", n)
	}
}

func TestSubnetExhausted(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	a := zoneOf(class, "us-west-2a")
	if err := w.sim.Cloud().SetFreeAddresses(a.ID, 0); err != nil {
		t.Fatal(err)
	}
	c := order([]string{"on-demand"}, "m5.large")
	c.Spec.Requirements = append(c.Spec.Requirements, in("topology.kubernetes.io/zone", "us-west-2a"))
	_, err := w.Launch(t.Context(), w.resolve(t, c, class, 1))
	if full, ok := errors.AsType[*cloud.NoCapacity](err); !ok || !strings.Contains(full.Detail, "InsufficientFreeAddressesInSubnet") {
		t.Fatalf("error %v, want no capacity for lack of addresses", err)
	}
	list, err := w.InstanceTypes(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	if o := offering(t, list, "r5.large", "us-west-2a", "spot"); o.Available || o.Unavailable.Reason != "InsufficientFreeAddressesInSubnet" {
		t.Errorf("other offerings of the zone: %+v", o)
	}
	if !offering(t, list, "r5.large", "us-west-2b", "spot").Available {
		t.Error("another zone is marked")
	}
	second, err := w.sim.Cloud().AddSubnet("us-west-2a", "10.9.0.0/24", simcloud.Tags{"karpenter.sh/discovery": "demo"})
	if err != nil {
		t.Fatal(err)
	}
	class.Generation++
	if err := w.observe(t, class); err != nil {
		t.Fatal(err)
	}
	if got := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.xlarge"), class, 2)); got.Zone == "us-west-2a" && got.SubnetID != second {
		t.Errorf("launched into %s, want a subnet with addresses", got.SubnetID)
	}
}

func TestLaunchTemplates(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	c := order([]string{"on-demand"}, "m5.large", "m5.xlarge", "c6g.large")
	before := w.mark()
	r := w.resolve(t, c, class, 1)
	if n := w.count(before, "CreateLaunchTemplate"); n != 3 {
		t.Errorf("A-192: %d launch templates, want 3", n)
	}
	before = w.mark()
	w.clock.SetTime(start().Add(30 * time.Second))
	w.resolve(t, c, class, 2)
	if w.count(before, "CreateLaunchTemplate")+w.count(before, "DescribeLaunchTemplates") != 0 {
		t.Error("A-193: launch templates were looked at again")
	}
	sweep := func() {
		t.Helper()
		for _, ref := range w.Refreshers() {
			if ref.Name == "launch templates" {
				if err := ref.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	w.Provider = w.start(t, nil)
	sweep()
	before = w.mark()
	w.resolve(t, c, class, 3)
	if w.count(before, "CreateLaunchTemplate")+w.count(before, "DescribeLaunchTemplates") != 0 {
		t.Error("A-195: launch templates of the former process were not taken over")
	}
	sweep()
	if w.count(before, "DeleteLaunchTemplate") != 0 {
		t.Error("A-194: deleted too early")
	}
	w.clock.SetTime(start().Add(3 * time.Minute))
	sweep()
	if n := w.count(before, "DeleteLaunchTemplate"); n < 3 {
		t.Errorf("A-194: %d launch templates deleted, want the 3 and that of the validation", n)
	}
	before = w.mark()
	got := w.launch(t, r) // they are gone, and are made again for the recorded request
	if w.count(before, "CreateLaunchTemplate") != 3 || w.count(before, "CreateFleet") != 2 {
		t.Errorf("A-196: calls %v", w.sim.Calls(before, "", ""))
	}
	w.clock.SetTime(start().Add(6 * time.Minute))
	sweep()
	w.Provider = w.start(t, nil)
	if again, err := w.Launch(t.Context(), r); err != nil || again.ID != got.ID {
		t.Errorf("recovery without launch templates: %+v, %v", again, err)
	}
	lost := w.resolve(t, c, class, 4)
	w.clock.SetTime(start().Add(9 * time.Minute))
	sweep()
	w.Provider = w.start(t, nil)
	_, err := w.Launch(t.Context(), lost)
	if failed, ok := errors.AsType[*cloud.CreateFailed](err); !ok || failed.Reason != karpv1.ReasonLaunchTemplateNotFound {
		t.Errorf("a request never sent whose launch templates are gone: %v", err)
	}
}

func TestLaunchRefused(t *testing.T) {
	w := newWorld(t)
	ready := w.readyClass(t)
	tests := []struct {
		name   string
		change func(*awsv1.EC2NodeClass)
		kind   string
	}{
		{"A-172", func(c *awsv1.EC2NodeClass) { c.DeletionTimestamp = new(metav1.NewTime(start())) }, "*cloud.NoCapacity"},
		{"A-173 False", func(c *awsv1.EC2NodeClass) { setReady(c, metav1.ConditionFalse, 1) }, "*cloud.ClassNotReady"},
		{"A-173 Unknown", func(c *awsv1.EC2NodeClass) { setReady(c, metav1.ConditionUnknown, 1) }, "*cloud.CreateFailed"},
		{"A-173 old", func(c *awsv1.EC2NodeClass) { c.Generation = 2 }, "*cloud.ClassNotReady"},
		{"A-174", func(c *awsv1.EC2NodeClass) { c.Spec.Tags = map[string]string{"karpenter.sh/nodepool": "x"} }, "*cloud.ClassNotReady"},
		{"A-106", func(c *awsv1.EC2NodeClass) { c.Spec.UserData = new("Content-Type: multipart/mixed\n\nx") }, "*cloud.CreateFailed"},
		{"A-116", func(c *awsv1.EC2NodeClass) {
			c.Spec.AMIFamily, c.Spec.UserData = new(awsv1.Bottlerocket), new("[settings")
		}, "*cloud.CreateFailed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			class := ready.DeepCopy()
			tt.change(class)
			before := w.mark()
			_, err := w.Resolve(t.Context(), order([]string{"on-demand"}, "m5.large"), class, identity(1))
			if got := fmt.Sprintf("%T", err); got != tt.kind {
				t.Errorf("%v is a %s, want %s", err, got, tt.kind)
			}
			if w.count(before, "CreateLaunchTemplate") != 0 {
				t.Error("a launch template was made")
			}
		})
	}
}

func setReady(c *awsv1.EC2NodeClass, s metav1.ConditionStatus, generation int64) {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == karpv1.ConditionReady {
			c.Status.Conditions[i].Status, c.Status.Conditions[i].ObservedGeneration = s, generation
		}
	}
}

func TestThrottledLaunch(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	r := w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1)
	w.sim.InjectFault(simaws.Fault{Service: "ec2", Action: "CreateFleet", Code: "RequestLimitExceeded", Status: 503})
	_, err := w.Launch(t.Context(), r)
	if failed, ok := errors.AsType[*cloud.CreateFailed](err); !ok || failed.Reason != karpv1.ReasonRequestLimitExceeded {
		t.Errorf("error %v, want the limit as reason", err)
	}
	w.sim.ClearFaults(0)
	w.launch(t, r)
}

func TestInstanceLifecycle(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	r := w.resolve(t, order([]string{"spot"}, "m5.large"), class, 1)
	launched := w.launch(t, r)
	got, err := w.Get(t.Context(), launched.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.CapacityType != "spot" || got.LaunchID != r.LaunchID || got.Token != r.Token || got.Zone != launched.Zone || got.ProviderID != launched.ProviderID {
		t.Errorf("got %+v", got)
	}
	for _, k := range []string{ec2types.LabelInstanceType, ec2types.LabelZone, ec2types.LabelZoneID, ec2types.LabelCapacityType, ec2types.LabelArch, karpv1.NodePoolLabel, ec2types.LabelTenancy} {
		if got.Labels[k] != launched.Labels[k] || got.Labels[k] == "" {
			t.Errorf("label %s is %q, at launch %q", k, got.Labels[k], launched.Labels[k])
		}
	}
	list, err := w.List(t.Context())
	if err != nil || !list.Complete || len(list.Instances) != 1 || list.Instances[0].ID != launched.ID {
		t.Errorf("list %+v, %v", list, err)
	}
	foreign := w.start(t, func(o *aws.Options) {
		o.ClusterName, o.ClusterEndpoint, o.ClusterCA = "demo2", "https://demo2.example", "Y2E="
	})
	if list, err := foreign.List(t.Context()); err != nil || len(list.Instances) != 0 {
		t.Errorf("A-231: another cluster sees %+v, %v", list, err)
	}
	if err := w.Tag(t.Context(), launched.ID, map[string]string{"Name": "node-1"}); err != nil {
		t.Fatal(err)
	}
	if got, err = w.Get(t.Context(), launched.ID); err != nil || got.Tags["Name"] != "node-1" {
		t.Errorf("tags %v, %v", got.Tags, err)
	}
	w.sim.Cloud().Configure(func(o *simcloud.Options) { o.ShutdownDelay = time.Minute })
	if err := w.Terminate(t.Context(), launched.ID); err != nil {
		t.Fatal(err)
	}
	before := w.mark()
	if err := w.Terminate(t.Context(), launched.ID); err != nil || w.count(before, "TerminateInstances") != 0 {
		t.Errorf("A-228: second termination: %v", err)
	}
	if got, err = w.Get(t.Context(), launched.ID); err != nil || !got.Gone() {
		t.Errorf("state %+v, %v", got, err)
	}
	w.clock.SetTime(start().Add(2 * time.Minute))
	for name, err := range map[string]error{"terminate": w.Terminate(t.Context(), launched.ID), "unknown": w.Terminate(t.Context(), "i-0123456789abcdef0")} {
		if _, ok := errors.AsType[*cloud.NotFound](err); !ok {
			t.Errorf("A-227: %s: %v", name, err)
		}
	}
	if err := w.Tag(t.Context(), "i-0123456789abcdef0", map[string]string{"a": "b"}); err == nil {
		t.Error("tagged an instance that is not there")
	}
	w.sim.InjectFault(simaws.Fault{Service: "ec2", Action: "DescribeInstances", Code: "UnauthorizedOperation", Status: 403})
	if list, err := w.List(t.Context()); err == nil || list.Complete {
		t.Errorf("a failed listing claims to be complete: %+v", list)
	}
}

func TestYoungInstance(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	w.sim.Cloud().Configure(func(o *simcloud.Options) { o.DescribeDelay = 30 * time.Second })
	launched := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1))
	for name, err := range map[string]error{"terminate": w.Terminate(t.Context(), launched.ID), "get": second(w.Get(t.Context(), launched.ID))} {
		if _, gone := errors.AsType[*cloud.NotFound](err); gone || err == nil {
			t.Errorf("%s of an instance not visible yet: %v, want an error that concludes nothing", name, err)
		}
	}
	w.clock.SetTime(start().Add(time.Minute))
	if err := w.Terminate(t.Context(), launched.ID); err != nil {
		t.Error(err)
	}
	w.clock.SetTime(start().Add(2 * time.Minute))
	if _, gone := errors.AsType[*cloud.NotFound](second(w.Get(t.Context(), launched.ID))); !gone {
		t.Error("a terminated instance is still found")
	}
}

func second[T any](_ T, err error) error { return err }

func TestRequestOfAnotherVersion(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	r := w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1)
	foreign := *r
	foreign.Payload = []byte(`{"v":99}`)
	if failed, ok := errors.AsType[*cloud.CreateFailed](second(w.Launch(t.Context(), &foreign))); !ok || !strings.Contains(failed.Error(), "version 99") {
		t.Errorf("never sent: %v", failed)
	}
	launched := w.launch(t, r)
	if got := w.launch(t, &foreign); got.ID != launched.ID {
		t.Errorf("sent before: %s, want %s", got.ID, launched.ID)
	}
}

func TestRefreshers(t *testing.T) {
	w := newWorld(t)
	class := w.readyClass(t)
	list, err := w.InstanceTypes(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	if o := offering(t, list, "m5.large", "us-west-2a", "spot"); !o.PriceUnknown {
		t.Error("A-151: a stand-in for the spot price must be called one")
	}
	generation := w.Generation()
	w.sim.Cloud().MoveOnDemandPrice("m5.large", 100_000_000)
	for _, r := range w.Refreshers() {
		if err := r.Refresh(t.Context()); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
	if w.Generation() == generation {
		t.Error("the generation did not move")
	}
	if list, err = w.InstanceTypes(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	spot, onDemand := offering(t, list, "m5.large", "us-west-2a", "spot"), offering(t, list, "m5.large", "us-west-2a", "on-demand")
	if spot.PriceUnknown || spot.Price == 0 || spot.Price >= onDemand.Price || onDemand.Price != 100_000_000 {
		t.Errorf("spot %v, on-demand %v", spot.Price, onDemand.Price)
	}
	again, err := w.InstanceTypes(t.Context(), class)
	if err != nil || &again[0] != &list[0] {
		t.Errorf("the list was made anew although nothing changed: %v", err)
	}
	for _, action := range []string{"GetProducts", "DescribeSpotPriceHistory", "DescribeInstanceTypes"} {
		w.sim.InjectFault(simaws.Fault{Action: action, Code: "AccessDeniedException", Status: 400})
	}
	generation = w.Generation()
	for _, r := range w.Refreshers() {
		err := r.Refresh(t.Context())
		if failing := slices.Contains([]string{"instance types", "spot prices", "on-demand prices"}, r.Name); failing != (err != nil) {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
	if w.Generation() != generation {
		t.Error("A-150, A-154: a failed refresh changed something")
	}
}

func TestObservedMemory(t *testing.T) { // AX26
	w := newWorld(t)
	class := w.readyClass(t)
	memory := func() int64 {
		t.Helper()
		list, err := w.InstanceTypes(t.Context(), class)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list, func(it catalog.InstanceType) bool { return it.Name == "m5.large" })
		return list[i].Capacity[units.Memory] >> 10
	}
	present := w.launch(t, w.resolve(t, order([]string{"on-demand"}, "m5.large"), class, 1)).ImageID
	for _, step := range []struct {
		image          string
		reported, want int64
	}{
		{present, 9_000_000, 7577 << 10}, {"ami-older", 7_600_000, 7577 << 10}, {present, 7_600_000, 7_600_000}, {present, 7_700_000, 7_600_000}, {present, 7_500_000, 7_500_000},
	} {
		w.ObserveMemory(t.Context(), class, "m5.large", step.image, step.reported<<10)
		if got := memory(); got != step.want {
			t.Errorf("after %dKi: %dKi, want %dKi", step.reported, got, step.want)
		}
	}
}
