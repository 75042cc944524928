package simaws_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/karp-sh/karp/test/simaws"
	"github.com/karp-sh/karp/test/simaws/cloud"
	"github.com/karp-sh/karp/test/simaws/simclient"
)

// clock is a clock the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a server with real clients in front of it.
type world struct {
	server *simaws.Server
	cloud  *cloud.Cloud
	clock  *clock
	url    string
	config aws.Config
	ec2    *ec2.Client
	sim    *simclient.Client
}

func newWorld(t *testing.T, opts cloud.Options) *world {
	t.Helper()
	w := &world{clock: &clock{now: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}}
	opts.Clock = w.clock
	server, err := simaws.New(simaws.Options{Cloud: opts})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	w.server, w.cloud, w.url = server, server.Cloud(), h.URL
	w.config = aws.Config{
		Region: server.Cloud().Options().Region, BaseEndpoint: &h.URL, HTTPClient: h.Client(),
		Credentials:      credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		RetryMaxAttempts: 1,
	}
	w.ec2 = ec2.NewFromConfig(w.config)
	w.sim = simclient.New(h.URL, h.Client())
	return w
}

// code is the AWS error code of an error, or "" for none.
func code(err error) string {
	if err == nil {
		return ""
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return "not an API error: " + err.Error()
}

func wantCode(t *testing.T, err error, want string) {
	t.Helper()
	if got := code(err); got != want {
		t.Fatalf("error code %q, want %q (error: %v)", got, want, err)
	}
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// raw sends a query-protocol request as written and returns status and body.
func (w *world) raw(t *testing.T, service, form string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKID/20261201/us-east-1/"+service+"/aws4_request, SignedHeaders=host, Signature=0")
	resp, err := w.config.HTTPClient.(*http.Client).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
	}()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestMalformedRequestsAreRefusedAsAWSDoes(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	v := "&Version=2016-11-15"
	tests := []struct{ name, service, form, want string }{
		{"unknown action", "ec2", "Action=DescribeMoon" + v, "InvalidAction"},
		{"no action", "ec2", "Foo=1" + v, "MissingAction"},
		{"wrong version", "ec2", "Action=DescribeSubnets&Version=2014-01-01", "InvalidParameterValue"},
		{"unknown parameter", "ec2", "Action=DescribeSubnets&Subnet.1=x" + v, "UnknownParameter"},
		{"unknown nested parameter", "ec2", "Action=CreateFleet&Type=instant&LaunchTemplateConfigs.1.Overrides.1.Colour=red&TargetCapacitySpecification.TotalTargetCapacity=1" + v, "UnknownParameter"},
		{"list without index", "ec2", "Action=DescribeSubnets&SubnetId.x=1" + v, "UnknownParameter"},
		{"text for a number", "ec2", "Action=DescribeSubnets&MaxResults=many" + v, "InvalidParameterValue"},
		{"text for a flag", "ec2", "Action=DescribeSubnets&DryRun=yes" + v, "InvalidParameterValue"},
		{"number out of range", "ec2", "Action=DescribeSubnets&MaxResults=3" + v, "InvalidParameterValue"},
		{"missing parameter", "ec2", "Action=TerminateInstances" + v, "MissingParameter"},
		{"unknown filter", "ec2", "Action=DescribeSubnets&Filter.1.Name=colour&Filter.1.Value.1=red" + v, "InvalidParameterValue"},
		{"filter without values", "ec2", "Action=DescribeSubnets&Filter.1.Name=vpc-id" + v, "InvalidParameterValue"},
		{"foreign token", "ec2", "Action=DescribeSubnets&NextToken=bm9uZQ%3D%3D" + v, "InvalidNextToken"},
		{"not implemented", "ec2", "Action=CreateFleet&Type=instant&SpotOptions.MinTargetCapacity=1&LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1&TargetCapacitySpecification.TotalTargetCapacity=1" + v, "UnsupportedOperation"},
		{"dry run of a read", "ec2", "Action=DescribeSubnets&DryRun=true" + v, "DryRunOperation"},
		{"bad form", "ec2", "Action=%zz", "MalformedQueryString"},
		{"iam action", "iam", "Action=DeleteAccount&Version=2010-05-08", "InvalidAction"},
		{"iam parameter", "iam", "Action=GetInstanceProfile&Version=2010-05-08&InstanceProfileName=x&Colour=red", "UnknownParameter"},
		{"sts action", "sts", "Action=GetNothing&Version=2011-06-15", "InvalidAction"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := w.raw(t, tt.service, tt.form)
			if !strings.Contains(body, "<Code>"+tt.want+"</Code>") || status < 400 {
				t.Errorf("%s: status %d, body %s; want code %s", tt.form, status, body, tt.want)
			}
		})
	}
	if status, _ := w.raw(t, "s3", "Action=x"); status != http.StatusNotFound {
		t.Errorf("unknown service: status %d, want 404", status)
	}
}

func TestControlAPIRefusesNonsense(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	if err := w.sim.Healthy(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.sim.Terminate(ctx, "i-00000000000000000", ""); err == nil {
		t.Error("terminating an unknown instance succeeded")
	}
	if err := w.sim.SetFreeAddresses(ctx, "subnet-x", 1); err == nil {
		t.Error("setting addresses of an unknown subnet succeeded")
	}
	resp, err := http.Post(w.url+"/_sim/settings", "application/json", strings.NewReader(`{"colour":"red"}`)) // a test's one request
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("unknown setting: status %d, %v; want 400", resp.StatusCode, err)
	}
}

func TestCallsAreLogged(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	_, err := w.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-00000000000000000"}})
	wantCode(t, err, "InvalidSubnetID.NotFound")
	must[*ec2.DescribeRegionsOutput](t)(w.ec2.DescribeRegions(ctx, &ec2.DescribeRegionsInput{}))
	calls := must[[]simaws.Call](t)(w.sim.Calls(ctx, 0, "ec2", "DescribeSubnets"))
	if len(calls) != 1 || calls[0].Result != "InvalidSubnetID.NotFound" || calls[0].Params["SubnetId.1"] != "subnet-00000000000000000" {
		t.Errorf("log of DescribeSubnets: %+v", calls)
	}
	if all := must[[]simaws.Call](t)(w.sim.Calls(ctx, calls[0].Seq, "", "")); len(all) != 1 || all[0].Action != "DescribeRegions" || all[0].Result != "ok" {
		t.Errorf("log after %d: %+v", calls[0].Seq, all)
	}
}

func TestFaults(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	describe := func() error {
		_, err := w.ec2.DescribeRegions(ctx, &ec2.DescribeRegionsInput{})
		return err
	}
	id := must[int](t)(w.sim.InjectFault(ctx, simaws.Fault{Service: "ec2", Action: "DescribeRegions", Nth: 2, Times: 2, Code: "InternalError"}))
	for i, want := range []string{"", "InternalError", "InternalError", ""} {
		if got := code(describe()); got != want {
			t.Errorf("call %d: code %q, want %q", i+1, got, want)
		}
	}
	if err := w.sim.ClearFaults(ctx, id); err != nil {
		t.Fatal(err)
	}
	must[int](t)(w.sim.InjectFault(ctx, simaws.Fault{Service: "ec2", Drop: true}))
	err := describe()
	var cut *url.Error
	if !errors.As(err, &cut) {
		t.Errorf("dropped connection: error %v, want a transport error", err)
	}
	if err := w.sim.ClearFaults(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := describe(); err != nil {
		t.Errorf("after clearing: %v", err)
	}
}

func TestThrottling(t *testing.T) {
	w := newWorld(t, cloud.Options{})
	ctx := t.Context()
	on := true
	if err := w.sim.Change(ctx, simaws.Settings{Throttling: &on}); err != nil {
		t.Fatal(err)
	}
	describe := func() string {
		_, err := w.ec2.DescribeRegions(ctx, &ec2.DescribeRegionsInput{})
		return code(err)
	}
	for i := range 100 {
		if got := describe(); got != "" {
			t.Fatalf("call %d of the burst: %s", i, got)
		}
	}
	if got := describe(); got != "RequestLimitExceeded" {
		t.Fatalf("call after the burst: code %q", got)
	}
	w.clock.advance(time.Second) // refills 20
	for i := range 20 {
		if got := describe(); got != "" {
			t.Fatalf("call %d after a second: %s", i, got)
		}
	}
	if got := describe(); got != "RequestLimitExceeded" {
		t.Fatalf("call 21 after a second: code %q", got)
	}
}
