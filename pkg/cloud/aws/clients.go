package aws

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/smithy-go/middleware"
)

const (
	// httpTimeout bounds one attempt of a call.
	httpTimeout = 4 * time.Minute
	// attempts of a call, the first one included.
	attempts = 3
)

// clients are the service clients. EC2 has one for each class of call, with a retry quota and a token bucket of its own, so that describing
// can never starve launching.
type clients struct {
	describe, launch, terminate, tag, rest *ec2.Client

	ssm     *ssm.Client
	iam     *iam.Client
	eks     *eks.Client
	pricing *pricing.Client
	sqs     *sqs.Client
	shifts  *arczonalshift.Client
}

// loadConfig reads the SDK's configuration and finds the region.
func loadConfig(ctx context.Context, o *Options) (sdk.Config, error) {
	base := []func(*config.LoadOptions) error{
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(httpTimeout)),
		config.WithAPIOptions([]func(*middleware.Stack) error{awsmiddleware.AddUserAgentKey("karpenter.sh-" + o.Version), observed(o.Observer)}),
	}
	if o.Region != "" {
		base = append(base, config.WithRegion(o.Region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, append(base, o.Load...)...)
	if err != nil {
		return cfg, fmt.Errorf("loading the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		out, err := imds.NewFromConfig(cfg).GetRegion(ctx, nil)
		if err != nil {
			return cfg, fmt.Errorf("finding the region (set AWS_REGION, or run on EC2): %w", err)
		}
		cfg.Region = out.Region
	}
	cfg.HTTPClient = plainBodies{cfg.HTTPClient}
	return cfg, nil
}

// plainBodies sends requests whose body is a reader and nothing more. The SDK's own body is an io.WriterTo that reports io.EOF as an error
// once it is closed (smithy-go 1.28); net/http then cuts the connection, and with it an answer that arrived early.
type plainBodies struct{ next sdk.HTTPClient }

// Do implements the SDK's HTTPClient.
func (c plainBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return c.next.Do(r)
}

func newClients(cfg sdk.Config, r Rates) clients {
	own := func(r Rate) *ec2.Client {
		return ec2.NewFromConfig(cfg, func(o *ec2.Options) {
			o.Retryer = newRetryer()
			o.APIOptions = append(o.APIOptions, limited(r))
		})
	}
	return clients{
		describe: own(r.Describe), launch: own(r.Launch), terminate: own(r.Terminate), tag: own(r.Tag), rest: own(r.Rest),
		ssm:     ssm.NewFromConfig(cfg, func(o *ssm.Options) { o.Retryer = newRetryer() }),
		iam:     iam.NewFromConfig(cfg, func(o *iam.Options) { o.Retryer = newRetryer() }),
		eks:     eks.NewFromConfig(cfg, func(o *eks.Options) { o.Retryer = newRetryer() }),
		pricing: pricing.NewFromConfig(cfg, func(o *pricing.Options) { o.Retryer = newRetryer(); o.Region = pricingRegion(cfg.Region) }),
		sqs:     sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.Retryer = newRetryer() }),
		shifts:  arczonalshift.NewFromConfig(cfg, func(o *arczonalshift.Options) { o.Retryer = newRetryer() }),
	}
}

func newRetryer() sdk.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts = attempts })
}

// once turns the SDK's retries off for one call.
func once(o *ec2.Options) { o.Retryer = sdk.NopRetryer{} }

// limited makes each attempt of a call wait for a token of a bucket.
func limited(r Rate) func(*middleware.Stack) error {
	bucket := newBucket(r)
	wait := middleware.FinalizeMiddlewareFunc("karpRateLimit",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			if err := bucket.Wait(ctx); err != nil {
				return middleware.FinalizeOutput{}, middleware.Metadata{}, fmt.Errorf("waiting for the client's rate limit: %w", err)
			}
			out, data, err := next.HandleFinalize(ctx, in)
			bucket.settle(err, time.Now())
			return out, data, err
		})
	return func(s *middleware.Stack) error { return s.Finalize.Insert(wait, "Retry", middleware.After) }
}

// observed tells of every attempt of every call.
func observed(o Observer) func(*middleware.Stack) error {
	watch := middleware.FinalizeMiddlewareFunc("karpObserve",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			from := time.Now()
			out, data, err := next.HandleFinalize(ctx, in)
			what := code(err)
			if err != nil && what == "" {
				what = "NoAnswer"
			}
			o.Called(awsmiddleware.GetServiceID(ctx), awsmiddleware.GetOperationName(ctx), what, time.Since(from))
			return out, data, err
		})
	return func(s *middleware.Stack) error { return s.Finalize.Insert(watch, "Retry", middleware.After) }
}
