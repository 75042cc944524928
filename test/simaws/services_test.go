package simaws_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

func TestInstanceProfiles(t *testing.T) {
	w := newWorld(t, cloud.Options{Roles: []string{"node"}})
	ctx := t.Context()
	c := iam.NewFromConfig(w.config)
	name, path := aws.String("karp_1"), "/karpenter/us-east-1/karp/uid/"
	create := &iam.CreateInstanceProfileInput{InstanceProfileName: name, Path: &path, Tags: []iamtypes.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}
	must[*iam.CreateInstanceProfileOutput](t)(c.CreateInstanceProfile(ctx, create))
	_, err := c.CreateInstanceProfile(ctx, create)
	wantCode(t, err, "EntityAlreadyExists")
	_, err = c.AddRoleToInstanceProfile(ctx, &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: aws.String("ghost")})
	wantCode(t, err, "NoSuchEntity")
	if !strings.Contains(err.Error(), "role with name ghost") {
		t.Errorf("missing role: %v, want it named", err)
	}
	add := &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: aws.String("node")}
	must[*iam.AddRoleToInstanceProfileOutput](t)(c.AddRoleToInstanceProfile(ctx, add))
	_, err = c.AddRoleToInstanceProfile(ctx, add)
	wantCode(t, err, "LimitExceeded")
	got := must[*iam.GetInstanceProfileOutput](t)(c.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: name})).InstanceProfile
	if *got.Path != path || len(got.Roles) != 1 || *got.Roles[0].RoleName != "node" || *got.Tags[0].Value != "b" || got.CreateDate == nil {
		t.Errorf("profile: %+v", got)
	}
	_, err = c.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "DeleteConflict")
	for _, n := range []string{"karp_2", "karp_3"} {
		must[*iam.CreateInstanceProfileOutput](t)(c.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: &n, Path: &path}))
	}
	pages := iam.NewListInstanceProfilesPaginator(c, &iam.ListInstanceProfilesInput{PathPrefix: aws.String("/karpenter/us-east-1/karp/"), MaxItems: aws.Int32(2)})
	var names []string
	for pages.HasMorePages() {
		for _, p := range must[*iam.ListInstanceProfilesOutput](t)(pages.NextPage(ctx)).InstanceProfiles {
			names = append(names, *p.InstanceProfileName)
		}
	}
	if diff := cmp.Diff([]string{"karp_1", "karp_2", "karp_3"}, names); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
	must[*iam.RemoveRoleFromInstanceProfileOutput](t)(c.RemoveRoleFromInstanceProfile(ctx, &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: aws.String("node")}))
	must[*iam.DeleteInstanceProfileOutput](t)(c.DeleteInstanceProfile(ctx, &iam.DeleteInstanceProfileInput{InstanceProfileName: name}))
	_, err = c.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "NoSuchEntity")
}

func TestSTS(t *testing.T) {
	w := newWorld(t, cloud.Options{AccountID: "210987654321"})
	ctx := t.Context()
	id := must[*sts.GetCallerIdentityOutput](t)(sts.NewFromConfig(w.config).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}))
	if *id.Account != "210987654321" {
		t.Errorf("account %s", *id.Account)
	}
	// The default chain of a pod: role and token file in the environment. The
	// SDK makes this STS client before it has read AWS_ENDPOINT_URL, so that the
	// variable of the service is needed.
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a.b.c"), 0o600); err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"AWS_ENDPOINT_URL_STS": w.url, "AWS_REGION": "us-east-1", "AWS_ROLE_ARN": "arn:aws:iam::210987654321:role/karp",
		"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_CONFIG_FILE": token + "none", "AWS_SHARED_CREDENTIALS_FILE": token + "none",
	} {
		t.Setenv(k, v)
	}
	cfg := must[aws.Config](t)(awsconfig.LoadDefaultConfig(ctx))
	creds := must[aws.Credentials](t)(cfg.Credentials.Retrieve(ctx))
	if creds.SessionToken == "" || !creds.CanExpire {
		t.Errorf("credentials: expiring %v, with session token %v", creds.CanExpire, creds.SessionToken != "")
	}
}

func TestSSM(t *testing.T) {
	w := newWorld(t, cloud.Options{KubernetesVersion: "1.37"})
	ctx := t.Context()
	c := ssm.NewFromConfig(w.config)
	read := func(name string) (string, error) {
		out, err := c.GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
		if err != nil {
			return "", err
		}
		return *out.Parameter.Value, nil
	}
	base := "/aws/service/eks/optimized-ami/1.37/amazon-linux-2023/"
	for _, name := range []string{
		base + "x86_64/standard/recommended/image_id", base + "x86_64/nvidia/recommended/image_id", base + "x86_64/neuron/recommended/image_id",
		base + "arm64/standard/recommended/image_id", base + "arm64/nvidia/recommended/image_id",
		base + "x86_64/standard/amazon-eks-node-al2023-x86_64-standard-1.37-v20261020/image_id",
		"/aws/service/bottlerocket/aws-k8s-1.37/x86_64/latest/image_id", "/aws/service/bottlerocket/aws-k8s-1.37-nvidia/arm64/1.61.0/image_id",
		"/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.37/image_id",
	} {
		if v, err := read(name); err != nil || !strings.HasPrefix(v, "ami-") {
			t.Errorf("%s = %q, %v", name, v, err)
		}
	}
	_, err := read(base + "arm64/neuron/recommended/image_id")
	wantCode(t, err, "ParameterNotFound")
	before, _ := read(base + "x86_64/standard/recommended/image_id")
	w.cloud.ReleaseAL2023(w.clock.Now())
	if after, err := read(base + "x86_64/standard/recommended/image_id"); err != nil || after == before {
		t.Errorf("after a release the recommended image is %s, %v; want another", after, err)
	}
}

func TestQueue(t *testing.T) {
	w := newWorld(t, cloud.Options{Queue: "interruptions"})
	ctx := t.Context()
	c := sqs.NewFromConfig(w.config)
	_, err := c.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("none")})
	if got := code(err); got != "QueueDoesNotExist" && got != "AWS.SimpleQueueService.NonExistentQueue" {
		t.Errorf("missing queue: code %q", got)
	}
	url := must[*sqs.GetQueueUrlOutput](t)(c.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("interruptions")})).QueueUrl
	receive := func(wait int32) *sqs.ReceiveMessageOutput {
		t.Helper()
		return must[*sqs.ReceiveMessageOutput](t)(c.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: url, MaxNumberOfMessages: 10, VisibilityTimeout: 20, WaitTimeSeconds: wait, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{"SentTimestamp", "ApproximateReceiveCount"},
		}))
	}
	if got := receive(0); len(got.Messages) != 0 {
		t.Fatalf("an empty queue has %d messages", len(got.Messages))
	}
	must[*sqs.SendMessageOutput](t)(c.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("hello")}))
	got := receive(20)
	if len(got.Messages) != 1 || *got.Messages[0].Body != "hello" || got.Messages[0].Attributes["SentTimestamp"] == "" {
		t.Fatalf("received %+v", got.Messages)
	}
	if again := receive(0); len(again.Messages) != 0 {
		t.Error("the message is visible twice within its visibility timeout")
	}
	w.clock.advance(20 * time.Second)
	second := receive(0)
	if len(second.Messages) != 1 || *second.Messages[0].ReceiptHandle == *got.Messages[0].ReceiptHandle || second.Messages[0].Attributes["ApproximateReceiveCount"] != "2" {
		t.Fatalf("after the timeout: %+v", second.Messages)
	}
	// An outdated receipt deletes nothing.
	must[*sqs.DeleteMessageOutput](t)(c.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: got.Messages[0].ReceiptHandle}))
	w.clock.advance(20 * time.Second)
	third := receive(0)
	if len(third.Messages) != 1 {
		t.Fatal("an outdated receipt deleted the message")
	}
	must[*sqs.DeleteMessageOutput](t)(c.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: third.Messages[0].ReceiptHandle}))
	w.clock.advance(time.Hour)
	if left := receive(0); len(left.Messages) != 0 {
		t.Error("a deleted message came back")
	}
	_, err = c.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 11})
	wantCode(t, err, "InvalidParameterValue")
}

func TestPricing(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	c := pricing.NewFromConfig(w.config)
	match := func(kv ...string) (out []pricingtypes.Filter) {
		for i := 0; i < len(kv); i += 2 {
			out = append(out, pricingtypes.Filter{Type: pricingtypes.FilterTypeTermMatch, Field: &kv[i], Value: &kv[i+1]})
		}
		return out
	}
	common := []string{"regionCode", "us-east-1", "serviceCode", "AmazonEC2", "preInstalledSw", "NA", "operatingSystem", "Linux", "capacitystatus", "Used", "marketoption", "OnDemand"}
	prices := func(extra ...string) map[string]string {
		t.Helper()
		out := map[string]string{}
		pages := pricing.NewGetProductsPaginator(c, &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(100), Filters: match(append(common, extra...)...)})
		for pages.HasMorePages() {
			for _, text := range must[*pricing.GetProductsOutput](t)(pages.NextPage(ctx)).PriceList {
				var item struct {
					Product struct {
						Attributes struct{ InstanceType string }
					}
					Terms struct {
						OnDemand map[string]struct {
							PriceDimensions map[string]struct{ PricePerUnit map[string]string }
						}
					}
				}
				if err := json.Unmarshal([]byte(text), &item); err != nil {
					t.Fatal(err)
				}
				for _, term := range item.Terms.OnDemand {
					for _, d := range term.PriceDimensions {
						out[item.Product.Attributes.InstanceType] = d.PricePerUnit["USD"]
					}
				}
			}
		}
		return out
	}
	shared := prices("tenancy", "Shared", "productFamily", "Compute Instance")
	metal := prices("tenancy", "Dedicated", "productFamily", "Compute Instance (bare metal)")
	if len(shared) < 1000 || shared["m5.large"] != "0.0960000000" || shared["m5.metal"] != "" {
		t.Errorf("%d shared prices, m5.large %q, m5.metal %q", len(shared), shared["m5.large"], shared["m5.metal"])
	}
	if len(metal) < 50 || metal["m5.metal"] != "4.6080000000" {
		t.Errorf("%d bare metal prices, m5.metal %q", len(metal), metal["m5.metal"])
	}
	w.cloud.MoveOnDemandPrice("m5.large", 100_000_001)
	if got := prices("tenancy", "Shared", "productFamily", "Compute Instance")["m5.large"]; got != "0.1000000010" {
		t.Errorf("moved price %s", got)
	}
	_, err := c.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: aws.String("AmazonRDS")})
	wantCode(t, err, "InvalidParameterException")
}

func TestDescribeCluster(t *testing.T) {
	w := newWorld(t, cloud.Options{ClusterName: "blue", ClusterEndpoint: "https://1.2.3.4", CertificateAuthority: "Y2E=", ServiceCIDR: "10.100.0.0/16"})
	ctx := t.Context()
	c := eks.NewFromConfig(w.config)
	got := must[*eks.DescribeClusterOutput](t)(c.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("blue")})).Cluster
	if *got.Endpoint != "https://1.2.3.4" || *got.CertificateAuthority.Data != "Y2E=" || *got.Version != "1.37" ||
		*got.KubernetesNetworkConfig.ServiceIpv4Cidr != "10.100.0.0/16" || !strings.HasSuffix(*got.Arn, ":cluster/blue") {
		t.Errorf("cluster: %+v", got)
	}
	_, err := c.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String("red")})
	wantCode(t, err, "ResourceNotFoundException")
}

func TestMetadataService(t *testing.T) {
	w := newWorld(t, cloud.Options{Region: "eu-west-1"})
	c := imds.New(imds.Options{Endpoint: w.url, ClientEnableState: imds.ClientEnabled})
	got := must[*imds.GetRegionOutput](t)(c.GetRegion(t.Context(), &imds.GetRegionInput{}))
	if got.Region != "eu-west-1" {
		t.Errorf("region %q, want eu-west-1", got.Region)
	}
}

func TestZonalShiftByCall(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	c := arczonalshift.NewFromConfig(w.config)
	cluster := aws.String(w.cloud.ClusterARN())
	in := &arczonalshift.StartZonalShiftInput{AwayFrom: aws.String("use1-az1"), Comment: aws.String("x"), ExpiresIn: aws.String("1h"), ResourceIdentifier: cluster}
	made := must[*arczonalshift.StartZonalShiftOutput](t)(c.StartZonalShift(ctx, in))
	_, err := c.StartZonalShift(ctx, in)
	wantCode(t, err, "ConflictException")
	got := must[*arczonalshift.GetManagedResourceOutput](t)(c.GetManagedResource(ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: cluster}))
	if len(got.ZonalShifts) != 1 || *got.ZonalShifts[0].AwayFrom != "use1-az1" || !got.ZonalShifts[0].ExpiryTime.Equal(w.clock.Now().Add(time.Hour)) || got.AppliedWeights["use1-az1"] != 0 || got.AppliedWeights["use1-az2"] != 1 {
		t.Errorf("managed resource: %+v", got)
	}
	must[*arczonalshift.CancelZonalShiftOutput](t)(c.CancelZonalShift(ctx, &arczonalshift.CancelZonalShiftInput{ZonalShiftId: made.ZonalShiftId}))
	if left := w.cloud.ZonalShifts(); len(left) != 0 {
		t.Errorf("after the cancellation: %+v", left)
	}
}

func TestMessageAttributesHaveTheirDigest(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	c := sqs.NewFromConfig(w.config) // it checks the digests itself
	url := must[*sqs.CreateQueueOutput](t)(c.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String("mine"), Attributes: map[string]string{"MessageRetentionPeriod": "60"}})).QueueUrl
	sent := must[*sqs.SendMessageOutput](t)(c.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: url, MessageBody: aws.String("hello"), DelaySeconds: 5,
		MessageAttributes: map[string]sqstypes.MessageAttributeValue{"kind": {DataType: aws.String("String"), StringValue: aws.String("greeting")}}}))
	receive := func() []sqstypes.Message {
		t.Helper()
		return must[*sqs.ReceiveMessageOutput](t)(c.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: url, MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{"All"}})).Messages
	}
	if early := receive(); len(early) != 0 {
		t.Errorf("a delayed message came at once: %+v", early)
	}
	w.clock.advance(5 * time.Second)
	got := receive()
	if len(got) != 1 || *got[0].MessageAttributes["kind"].StringValue != "greeting" || *got[0].MD5OfMessageAttributes != *sent.MD5OfMessageAttributes || got[0].Attributes["ApproximateFirstReceiveTimestamp"] == "" {
		t.Fatalf("received %+v", got)
	}
	state := must[*sqs.GetQueueAttributesOutput](t)(c.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []sqstypes.QueueAttributeName{"All"}})).Attributes
	if state["ApproximateNumberOfMessagesNotVisible"] != "1" || state["QueueArn"] != "arn:aws:sqs:us-east-1:123456789012:mine" {
		t.Errorf("attributes: %v", state)
	}
	w.clock.advance(2 * time.Minute)
	if late := receive(); len(late) != 0 {
		t.Errorf("a message outlived its retention: %+v", late)
	}
	batch := must[*sqs.DeleteMessageBatchOutput](t)(c.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: []sqstypes.DeleteMessageBatchRequestEntry{
		{Id: aws.String("1"), ReceiptHandle: got[0].ReceiptHandle}, {Id: aws.String("2"), ReceiptHandle: aws.String("bad")}}}))
	if len(batch.Successful) != 1 || len(batch.Failed) != 1 {
		t.Errorf("batch: %+v", batch)
	}
	must[*sqs.DeleteQueueOutput](t)(c.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: url}))
}

func TestCredentialsExpire(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	config := w.as(t, "agent")
	w.clock.advance(time.Hour)
	_, err := ec2.NewFromConfig(config).DescribeRegions(t.Context(), &ec2.DescribeRegionsInput{})
	wantCode(t, err, "RequestExpired")
	_, err = ssm.NewFromConfig(config).GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("/x")})
	wantCode(t, err, "ExpiredTokenException")
}
