package simaws_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/test/simaws/cloud"
	"github.com/karp-sh/karp/test/simaws/policy"
)

// statement is an Allow statement; more are further members, as JSON.
func allow(sid, actions, resources, more string) string {
	return `{"Sid":"` + sid + `","Effect":"Allow","Action":` + actions + `,"Resource":` + resources + more + `}`
}

func document(statements ...string) json.RawMessage {
	return json.RawMessage(`{"Version":"2012-10-17","Statement":[` + strings.Join(statements, ",") + `]}`)
}

// as is the world seen by the session of a role.
func (w *world) as(t *testing.T, role string) aws.Config {
	t.Helper()
	out := must[*sts.AssumeRoleOutput](t)(sts.NewFromConfig(w.config).AssumeRole(t.Context(), &sts.AssumeRoleInput{
		RoleArn: aws.String("arn:aws:iam::123456789012:role/" + role), RoleSessionName: aws.String("test")}))
	config := w.config
	c := out.Credentials
	config.Credentials = credentials.NewStaticCredentialsProvider(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)
	return config
}

const tagged = `,"Condition":{"StringEquals":{"aws:RequestTag/karpenter.sh/nodepool":"default"}}`

// launchPolicy lets a role launch what is tagged, from anything, and no more.
func launchPolicy() json.RawMessage {
	return document(
		allow("Read", `"ec2:Describe*"`, `"*"`, ""),
		allow("Launch", `["ec2:CreateFleet","ec2:RunInstances"]`, `["arn:aws:ec2:*::image/*","arn:aws:ec2:*::snapshot/*","arn:aws:ec2:*:*:subnet/*",`+
			`"arn:aws:ec2:*:*:security-group/*","arn:aws:ec2:*:*:launch-template/*","arn:aws:ec2:*:*:network-interface/*","arn:aws:ec2:*:*:volume/*","arn:aws:ec2:*:*:fleet/*"]`, ""),
		allow("LaunchTagged", `["ec2:CreateFleet","ec2:RunInstances"]`, `["arn:aws:ec2:*:*:instance/*","arn:aws:ec2:*:*:spot-instances-request/*"]`, tagged),
		allow("Tag", `"ec2:CreateTags"`, `"*"`, `,"Condition":{"StringEquals":{"ec2:CreateAction":["CreateFleet","RunInstances"]}}`),
		allow("Pass", `"iam:PassRole"`, `"arn:aws:iam::123456789012:role/KarpenterNodeRole-karp"`, `,"Condition":{"StringEquals":{"iam:PassedToService":"ec2.amazonaws.com"}}`),
		allow("End", `"ec2:TerminateInstances"`, `"arn:aws:ec2:*:*:instance/*"`, `,"Condition":{"StringEquals":{"aws:ResourceTag/karpenter.sh/nodepool":"default"}}`),
		allow("Never", `"ec2:StopInstances"`, `"*"`, ""))
}

func TestPoliciesDecideOnLaunches(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	in := fleet("nodes", onDemand, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))
	foreign := ids(w.launch(t, fleet("nodes", onDemand, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))))[0]
	must[*ec2.DeleteTagsOutput](t)(w.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{foreign}, Tags: []types.Tag{{Key: aws.String("karpenter.sh/nodepool")}}}))
	if err := w.sim.Give(ctx, "controller", map[string]json.RawMessage{"launch": launchPolicy()}); err != nil {
		t.Fatal(err)
	}
	c := ec2.NewFromConfig(w.as(t, "controller"))

	out := must[*ec2.CreateFleetOutput](t)(c.CreateFleet(ctx, in))
	if len(ids(out)) != 1 || len(out.Errors) != 0 {
		t.Fatalf("launch as the policy allows: %+v", out)
	}
	untagged := fleet("nodes", onDemand, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))
	untagged.TagSpecifications = nil
	_, err := c.CreateFleet(ctx, untagged)
	wantCode(t, err, "UnauthorizedOperation")
	text := err.Error()
	if !strings.Contains(text, "is not authorized to perform: ec2:CreateFleet on resource: arn:aws:ec2:us-east-1:123456789012:instance/*") ||
		!strings.Contains(text, "because no identity-based policy allows the ec2:CreateFleet action") {
		t.Errorf("denial: %s", text)
	}
	_, encoded, _ := strings.Cut(text, "Encoded authorization failure message: ")
	decoded := must[*sts.DecodeAuthorizationMessageOutput](t)(sts.NewFromConfig(w.config).DecodeAuthorizationMessage(ctx, &sts.DecodeAuthorizationMessageInput{EncodedMessage: &encoded}))
	if !strings.Contains(*decoded.DecodedMessage, `"action":"ec2:CreateFleet"`) {
		t.Errorf("decoded denial: %s", *decoded.DecodedMessage)
	}

	_, err = c.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{foreign}})
	wantCode(t, err, "UnauthorizedOperation")
	must[*ec2.TerminateInstancesOutput](t)(c.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids(out)}))
	_, err = c.CreateTags(ctx, &ec2.CreateTagsInput{Resources: ids(out), Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}})
	wantCode(t, err, "UnauthorizedOperation")

	report := must[policy.Report](t)(w.sim.Ledger(ctx, "controller"))
	var used, denied, unused []string
	for _, u := range report.Used {
		used = append(used, u.Action)
	}
	for _, d := range report.Denied {
		denied = append(denied, d.Action)
	}
	for _, g := range report.Unused {
		unused = append(unused, g.SID+" "+g.Pattern)
	}
	if diff := cmp.Diff([]string{"ec2:CreateFleet", "ec2:CreateTags", "ec2:RunInstances", "ec2:TerminateInstances", "iam:PassRole"}, used); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ec2:CreateFleet", "ec2:CreateTags", "ec2:TerminateInstances"}, denied); diff != "" {
		t.Errorf("denied (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Read ec2:Describe*", "Never ec2:StopInstances"}, unused); diff != "" {
		t.Errorf("unused (-want +got):\n%s", diff)
	}
}

// A role that may not be passed fails the pool, not the call.
func TestForeignRoleIsNotPassed(t *testing.T) {
	w := newWorld(t, cloud.Options{Roles: []string{"other"}})
	ctx := t.Context()
	w.profile(t)
	w.template(t, "nodes", "#!/bin/sh\n")
	if err := w.sim.Give(ctx, "controller", map[string]json.RawMessage{"launch": launchPolicy()}); err != nil {
		t.Fatal(err)
	}
	c := ec2.NewFromConfig(w.as(t, "controller"))
	out := must[*ec2.CreateFleetOutput](t)(c.CreateFleet(ctx, fleet("nodes", onDemand, 1, override("m5.large", w.subnet(t, "us-east-1a"), 1))))
	if len(ids(out)) != 0 || len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "UnauthorizedOperation" || !strings.Contains(*out.Errors[0].ErrorMessage, "iam:PassRole on resource: arn:aws:iam::123456789012:role/other") {
		t.Errorf("launch with a role that may not be passed: %+v", out)
	}
}

// An inline policy takes effect on the next call, and goes as it came.
func TestInlinePolicies(t *testing.T) {
	w := newWorld(t, cloud.Options{Roles: []string{"agent"}})
	ctx := t.Context()
	admin, agent := iam.NewFromConfig(w.config), ec2.NewFromConfig(w.as(t, "agent"))
	describe := func() string {
		_, err := agent.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
		return code(err)
	}
	if got := describe(); got != "" {
		t.Fatalf("a role without policies: %s", got)
	}
	deny := `{"Version":"2012-10-17","Statement":{"Effect":"Deny","Action":"ec2:DescribeSubnets","Resource":"*"}}`
	must[*iam.PutRolePolicyOutput](t)(admin.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: aws.String("agent"), PolicyName: aws.String("deny"), PolicyDocument: &deny}))
	_, err := agent.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	wantCode(t, err, "UnauthorizedOperation")
	if !strings.Contains(err.Error(), "with an explicit deny in an identity-based policy") {
		t.Errorf("denial: %v", err)
	}
	got := must[*iam.GetRolePolicyOutput](t)(admin.GetRolePolicy(ctx, &iam.GetRolePolicyInput{RoleName: aws.String("agent"), PolicyName: aws.String("deny")}))
	if text, err := url.PathUnescape(*got.PolicyDocument); err != nil || text != deny {
		t.Errorf("the policy reads %s, %v", text, err)
	}
	must[*iam.DeleteRolePolicyOutput](t)(admin.DeleteRolePolicy(ctx, &iam.DeleteRolePolicyInput{RoleName: aws.String("agent"), PolicyName: aws.String("deny")}))
	if got := describe(); got != "" {
		t.Errorf("after the policy has gone: %s", got)
	}
	_, err = admin.PutRolePolicy(ctx, &iam.PutRolePolicyInput{RoleName: aws.String("agent"), PolicyName: aws.String("bad"), PolicyDocument: aws.String("{}")})
	wantCode(t, err, "MalformedPolicyDocument")
}

// Each service words a denial in its own way.
func TestDenialsOfEachService(t *testing.T) {
	w := newWorld(t, cloud.Options{Queue: "q"})
	ctx := t.Context()
	if err := w.sim.Give(ctx, "nobody", map[string]json.RawMessage{"none": document(allow("None", `"s3:*"`, `"*"`, ""))}); err != nil {
		t.Fatal(err)
	}
	config := w.as(t, "nobody")
	for name, tt := range map[string]struct {
		call func() error
		want string
	}{
		"ec2": {func() error {
			_, err := ec2.NewFromConfig(config).DescribeImages(ctx, &ec2.DescribeImagesInput{})
			return err
		}, "UnauthorizedOperation"},
		"iam": {func() error {
			_, err := iam.NewFromConfig(config).GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String("x")})
			return err
		}, "AccessDenied"},
		"sqs": {func() error {
			_, err := sqs.NewFromConfig(config).GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("q")})
			return err
		}, "AccessDenied"},
		"ssm": {func() error {
			_, err := ssm.NewFromConfig(config).GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/x")})
			return err
		}, "AccessDeniedException"},
		"eks": {func() error {
			_, err := eks.NewFromConfig(config).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("karp")})
			return err
		}, "AccessDeniedException"},
		"pricing": {func() error {
			_, err := pricing.NewFromConfig(config).GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2")})
			return err
		}, "AccessDeniedException"},
	} {
		err := tt.call()
		if got := code(err); got != tt.want || !strings.Contains(err.Error(), "assumed-role/nobody/test is not authorized to perform: "+name+":") {
			t.Errorf("%s: code %q, want %q: %v", name, got, tt.want, err)
		}
	}
	me := must[*sts.GetCallerIdentityOutput](t)(sts.NewFromConfig(config).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}))
	if *me.Arn != "arn:aws:sts::123456789012:assumed-role/nobody/test" {
		t.Errorf("caller identity: %s", *me.Arn)
	}
	w.cloud.RemoveRole("nobody")
	_, err := sts.NewFromConfig(w.config).AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: aws.String("arn:aws:iam::123456789012:role/nobody"), RoleSessionName: aws.String("s")})
	wantCode(t, err, "AccessDenied")
}

func TestRolesAndAccessEntries(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	c, k := iam.NewFromConfig(w.config), eks.NewFromConfig(w.config)
	trust := cloud.ServiceTrust
	role := must[*iam.CreateRoleOutput](t)(c.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("mine"), Path: aws.String("/team/"), AssumeRolePolicyDocument: &trust,
		Tags: []iamtypes.Tag{{Key: aws.String("a"), Value: aws.String("b")}}})).Role
	if *role.Arn != "arn:aws:iam::123456789012:role/team/mine" {
		t.Errorf("role: %s", *role.Arn)
	}
	_, err := c.CreateRole(ctx, &iam.CreateRoleInput{RoleName: aws.String("mine"), AssumeRolePolicyDocument: &trust})
	wantCode(t, err, "EntityAlreadyExists")
	worker := aws.String("arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy")
	must[*iam.AttachRolePolicyOutput](t)(c.AttachRolePolicy(ctx, &iam.AttachRolePolicyInput{RoleName: aws.String("mine"), PolicyArn: worker}))
	_, err = c.DeleteRole(ctx, &iam.DeleteRoleInput{RoleName: aws.String("mine")})
	wantCode(t, err, "DeleteConflict")
	// It may do nothing: an attached policy of AWS allows nothing here.
	_, err = ec2.NewFromConfig(w.as(t, "mine")).DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	wantCode(t, err, "UnauthorizedOperation")

	entry := &eks.CreateAccessEntryInput{ClusterName: aws.String("karp"), PrincipalArn: role.Arn, Type: aws.String("EC2_LINUX")}
	made := must[*eks.CreateAccessEntryOutput](t)(k.CreateAccessEntry(ctx, entry)).AccessEntry
	if *made.Username != "system:node:{{EC2PrivateDNSName}}" || len(made.KubernetesGroups) != 1 || made.CreatedAt == nil {
		t.Errorf("access entry: %+v", made)
	}
	_, err = k.CreateAccessEntry(ctx, entry)
	wantCode(t, err, "ResourceInUseException")
	list := must[*eks.ListAccessEntriesOutput](t)(k.ListAccessEntries(ctx, &eks.ListAccessEntriesInput{ClusterName: aws.String("karp")}))
	if diff := cmp.Diff([]string{"arn:aws:iam::123456789012:role/KarpenterNodeRole-karp", *role.Arn}, list.AccessEntries); diff != "" {
		t.Errorf("access entries (-want +got):\n%s", diff)
	}
	must[*eks.DeleteAccessEntryOutput](t)(k.DeleteAccessEntry(ctx, &eks.DeleteAccessEntryInput{ClusterName: aws.String("karp"), PrincipalArn: role.Arn}))
	_, err = k.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: aws.String("karp"), PrincipalArn: role.Arn})
	wantCode(t, err, "ResourceNotFoundException")
}
