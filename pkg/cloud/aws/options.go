package aws

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"k8s.io/utils/clock"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2data"
)

// Options configure a Provider. ClusterName is required; the zero value of everything else is the default.
type Options struct {
	ClusterName string
	// Region; empty takes it from the SDK's configuration, else from instance metadata.
	Region string
	// ClusterEndpoint is the URL of the API server for nodes; empty asks EKS.
	ClusterEndpoint string
	// ClusterCA is the cluster's certificate authority, base64; empty asks EKS.
	ClusterCA string
	// ClusterDNS is the address of service kube-dns; empty is unknown. An IPv6 address makes an IPv6 cluster.
	ClusterDNS string
	// IsolatedVPC tells that services without VPC endpoint (price lists, IAM clean-up) cannot be reached.
	IsolatedVPC bool
	// EKSControlPlane takes the Kubernetes version from EKS rather than from KubeVersion.
	EKSControlPlane bool
	// ReservedCapacity uses capacity reservations (the feature gate of that name).
	ReservedCapacity bool
	// DisableDryRun skips the trial calls of node class validation.
	DisableDryRun bool
	// MemoryOverhead is the share of memory that hypervisors keep, usually 0.075.
	MemoryOverhead float64
	// ReservedENIs are network interfaces kept free of pods.
	ReservedENIs int
	// AMIRefresh and SubnetRefresh are how long answers about images and subnets are used again; 0 is one minute.
	AMIRefresh, SubnetRefresh time.Duration
	// Version of the program, for the user agent.
	Version string
	// KubeVersion returns the version of the API server as "1.32"; nil asks EKS.
	KubeVersion func(context.Context) (string, error)
	// Overlay corrects the types for the claims of a pool, in the order given and without changing them (the feature gate NodeOverlay); nil leaves
	// them.
	Overlay func(ctx context.Context, pool string, types []catalog.InstanceType) ([]catalog.InstanceType, error)
	// ZonalShift avoids the zones that ARC has shifted traffic away from.
	ZonalShift bool
	// QueueName is the SQS queue of news about instances; empty is none.
	QueueName string
	// Pools returns the pools whose claims use the class of the name, for a validation that tries what they would launch; nil is none.
	Pools func(ctx context.Context, class string) ([]karpv1.NodePool, error)
	// Observer is told what is counted; nil is nobody.
	Observer Observer
	// Rates bound the calls; zero fields take the defaults.
	Rates Rates
	// Facts are the embedded tables; nil loads them.
	Facts  *ec2data.Data
	Clock  clock.PassiveClock
	Logger *slog.Logger
	// Load are further options of the SDK, such as credentials and the base endpoint of a simulator. Environment and shared files of the
	// SDK count as everywhere.
	Load []func(*config.LoadOptions) error
}

// Rates are token buckets for the calls, by class of call: a storm in one class does not hold up another.
type Rates struct{ Describe, Launch, Terminate, Tag, Rest Rate }

// Rate is a token bucket.
type Rate struct {
	PerSecond float64
	Burst     int
}

func (r Rate) or(perSecond float64, burst int) Rate {
	if r.PerSecond <= 0 || r.Burst <= 0 {
		return Rate{perSecond, burst}
	}
	return r
}

// withDefaults returns the options with every default filled in, and checks them.
func (o Options) withDefaults() (Options, error) {
	if o.AMIRefresh == 0 {
		o.AMIRefresh = time.Minute
	}
	if o.SubnetRefresh == 0 {
		o.SubnetRefresh = time.Minute
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
	// Half of what EC2 grants an account by default, because others call too; describing and tagging come in bursts.
	o.Rates.Describe = o.Rates.Describe.or(10, 50)
	o.Rates.Launch = o.Rates.Launch.or(4, 40)
	o.Rates.Terminate = o.Rates.Terminate.or(4, 80)
	o.Rates.Tag = o.Rates.Tag.or(1, 10)
	o.Rates.Rest = o.Rates.Rest.or(4, 40)
	return o, o.validate()
}

func (o *Options) validate() error {
	var errs []error
	fail := func(setting, text string) { errs = append(errs, fmt.Errorf("%s: %s", setting, text)) }
	if o.ClusterName == "" {
		fail("cluster-name", "required")
	}
	if o.ClusterEndpoint != "" {
		if u, err := url.Parse(o.ClusterEndpoint); err != nil || u.Scheme == "" || u.Host == "" {
			fail("cluster-endpoint", fmt.Sprintf("%q is not an absolute URL such as https://host", o.ClusterEndpoint))
		}
	}
	if _, err := base64.StdEncoding.DecodeString(o.ClusterCA); err != nil {
		fail("cluster-ca-bundle", "not base64")
	}
	if o.MemoryOverhead < 0 || o.MemoryOverhead >= 1 {
		fail("vm-memory-overhead-percent", "must be at least 0 and below 1")
	}
	if o.ReservedENIs < 0 {
		fail("reserved-enis", "must not be negative")
	}
	if o.AMIRefresh < time.Minute {
		fail("ami-refresh-interval", "must be at least 1m")
	}
	if o.SubnetRefresh < time.Minute {
		fail("subnet-refresh-interval", "must be at least 1m")
	}
	return errors.Join(errs...)
}
