package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"k8s.io/utils/clock"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
)

// Provider is AWS. It is safe for concurrent use.
type Provider struct {
	opts   Options
	region string
	clock  clock.PassiveClock
	log    *slog.Logger
	api    clients

	cluster   *cluster
	facts     *facts
	prices    *prices
	marks     *marks
	subnets   *subnets
	groups    *groups
	images    *images
	profiles  *profiles
	placement *placement
	// reservations are used only with Options.ReservedCapacity.
	reservations *reservations
	templates    *templates
	verdicts     *memo[verdict]
	holds        *memo[[]hold]   // by token
	young        *memo[struct{}] // ids of instances launched and not seen since
	seen         *seen
	describing   *batcher[*et.Instance]
	terminating  *batcher[struct{}]
	shifts       *shifts
	queue        *queue
	types        typeCache
	memory       memoryCache
}

var (
	_ cloud.Provider      = (*Provider)(nil)
	_ cloud.Catalogs      = (*Provider)(nil)
	_ cloud.Classes       = (*Provider)(nil)
	_ cloud.Drifts        = (*Provider)(nil)
	_ cloud.Interruptions = (*Provider)(nil)
	_ cloud.Shifts        = (*Provider)(nil)
	_ cloud.Reservations  = (*Provider)(nil)
)

// New connects to AWS and finds out what every later call needs: the region, permission to call EC2, the cluster's endpoint and version, and
// the instance types of the region. It fails when one of them cannot be had.
func New(ctx context.Context, options Options) (*Provider, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("checking the AWS settings: %w", err)
	}
	if o.Facts == nil {
		if o.Facts, err = ec2data.Load(); err != nil {
			return nil, err
		}
	}
	cfg, err := loadConfig(ctx, &o)
	if err != nil {
		return nil, err
	}
	p := assemble(o, cfg)
	if err := p.probe(ctx); err != nil {
		return nil, err
	}
	if err := p.cluster.discover(ctx); err != nil {
		return nil, err
	}
	if o.ZonalShift {
		if err := p.shifts.refresh(ctx); err != nil {
			return nil, err
		}
	}
	if err := p.facts.refresh(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

func assemble(o Options, cfg sdk.Config) *Provider {
	api := newClients(cfg, o.Rates)
	p := &Provider{opts: o, region: cfg.Region, clock: o.Clock, log: o.Logger, api: api}
	p.cluster = &cluster{opts: &p.opts, api: api.eks}
	p.facts = &facts{api: api.describe, embedded: o.Facts}
	p.prices = newPrices(cfg.Region, o.Facts)
	p.prices.listing, p.prices.spotAPI, p.prices.clock = api.pricing, api.describe, o.Clock
	p.marks = newMarks(o.Clock)
	p.subnets = newSubnets(api.describe, o.Clock, o.SubnetRefresh)
	p.groups = &groups{api: api.describe, found: newMemo[[]groupFound](o.Clock, time.Minute)}
	p.images = newImages(api.describe, api.ssm, o.Clock, o.AMIRefresh, o.Logger)
	p.profiles = newProfiles(api.iam, o.Clock, profileScope{region: cfg.Region, cluster: o.ClusterName})
	p.placement = &placement{api: api.describe, fresh: newMemo[placementAnswer](o.Clock, time.Minute)}
	p.reservations = newReservations(api.describe, o.Clock, o.Logger)
	p.templates = newTemplates(api.rest, o.Clock, o.ClusterName, o.Logger)
	p.holds = newMemo[[]hold](o.Clock, 10*time.Minute)
	p.young = newMemo[struct{}](o.Clock, youngFor)
	p.verdicts = newMemo[verdict](o.Clock, 30*time.Minute)
	p.seen = newSeen(o.Clock)
	p.describing = newBatcher(defaultBatch(), p.describeSome, p.describeOne)
	p.terminating = newBatcher(defaultBatch(), p.terminateSome, p.terminateOne)
	p.describing.report = func(size int, waited time.Duration) { o.Observer.Batched("describe_instances", size, waited) }
	p.terminating.report = func(size int, waited time.Duration) { o.Observer.Batched("terminate_instances", size, waited) }
	p.shifts = &shifts{api: api.shifts, clock: o.Clock, resource: p.cluster.clusterARN}
	p.queue = &queue{api: api.sqs, name: o.QueueName}
	return p
}

// probe makes sure that EC2 can be reached and called, before anything depends on it.
func (p *Provider) probe(ctx context.Context) error {
	_, err := p.api.describe.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{DryRun: new(true)})
	if code(err) == codeDryRun {
		return nil
	}
	if err == nil {
		err = errors.New("the trial call was executed")
	}
	return fmt.Errorf("calling EC2 in %s (check credentials and the permission ec2:DescribeInstanceTypes): %w", p.region, err)
}

// Reserved reports whether capacity reservations are used.
func (p *Provider) Reserved() bool { return p.opts.ReservedCapacity }

// Observer returns who is told what is counted.
func (p *Provider) Observer() Observer { return p.opts.Observer }

// Region returns the region the provider works in.
func (p *Provider) Region() string { return p.region }

// Refresher is a piece of knowledge that ages. The caller runs Refresh at the start and then every Every, sooner after an error.
type Refresher struct {
	Name    string
	Every   time.Duration
	Refresh func(context.Context) error
	// LeaderOnly tells that the refresh changes things in the cloud.
	LeaderOnly bool
}

// Refreshers lists what the caller has to run. None of them is needed for correctness; without them knowledge gets old.
func (p *Provider) Refreshers() []Refresher {
	list := []Refresher{
		{Name: "instance types", Every: 12 * time.Hour, Refresh: p.facts.refresh},
		{Name: "spot prices", Every: 12 * time.Hour, Refresh: p.prices.refreshSpot},
		{Name: "kubernetes version", Every: 5 * time.Minute, Refresh: p.cluster.refreshVersion},
		{Name: "image parameters", Every: 30 * time.Minute, Refresh: p.images.dropDeprecated},
		{Name: "launch templates", Every: time.Minute, Refresh: p.templates.sweep, LeaderOnly: true},
	}
	if p.opts.ZonalShift {
		list = append(list, Refresher{Name: "zonal shifts", Every: 30 * time.Second, Refresh: p.shifts.refresh})
	}
	if !p.opts.IsolatedVPC && p.prices.listable() {
		list = append(list, Refresher{Name: "on-demand prices", Every: 12 * time.Hour, Refresh: p.prices.refreshOnDemand})
	}
	return list
}

// cluster is what nodes must know to join.
type cluster struct {
	opts *Options
	api  eksAPI

	mu       sync.Mutex
	endpoint string
	ca       string
	cidr     string
	version  string
	arn      string
	// odd is the version that was last told to be out of the supported range.
	odd string
}

type eksAPI interface {
	DescribeCluster(context.Context, *eks.DescribeClusterInput, ...func(*eks.Options)) (*eks.DescribeClusterOutput, error)
}

// discover finds endpoint, certificate authority and version.
func (c *cluster) discover(ctx context.Context) error {
	c.endpoint, c.ca = c.opts.ClusterEndpoint, c.opts.ClusterCA
	if c.endpoint == "" || c.ca == "" {
		if err := c.describe(ctx); err != nil {
			return err
		}
		if c.endpoint == "" {
			return fmt.Errorf("EKS reports no endpoint of cluster %s: set cluster-endpoint", c.opts.ClusterName)
		}
	}
	return c.refreshVersion(ctx)
}

// describe asks EKS and fills what is still unknown; the version always.
func (c *cluster) describe(ctx context.Context) error {
	out, err := c.api.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &c.opts.ClusterName})
	if err != nil {
		return fmt.Errorf("describing cluster %s: %w", c.opts.ClusterName, err)
	}
	if out.Cluster == nil {
		return fmt.Errorf("describing cluster %s: the answer is empty", c.opts.ClusterName)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endpoint = cmp.Or(c.endpoint, val(out.Cluster.Endpoint))
	if a := out.Cluster.CertificateAuthority; a != nil {
		c.ca = cmp.Or(c.ca, val(a.Data))
	}
	if n := out.Cluster.KubernetesNetworkConfig; n != nil {
		c.cidr = cmp.Or(c.cidr, val(n.ServiceIpv4Cidr), val(n.ServiceIpv6Cidr))
	}
	c.arn = cmp.Or(val(out.Cluster.Arn), c.arn)
	// Who asks the API server for the version is not told another one by EKS.
	if c.opts.EKSControlPlane || c.opts.KubeVersion == nil || c.version == "" {
		c.version = cmp.Or(val(out.Cluster.Version), c.version)
	}
	return nil
}

// refreshVersion reads the version of Kubernetes. On an error the former one stays.
func (c *cluster) refreshVersion(ctx context.Context) error {
	defer c.reportVersion(ctx)
	if c.opts.EKSControlPlane || c.opts.KubeVersion == nil {
		return c.describe(ctx)
	}
	v, err := c.opts.KubeVersion(ctx)
	if err != nil {
		return fmt.Errorf("reading the Kubernetes version: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = strings.TrimSuffix(v, "+")
	return nil
}

// The minor versions of Kubernetes that the optimized images are known for.
const (
	firstMinor = 26
	lastMinor  = 36
)

// reportVersion says once for each version outside of the supported range that it is. Nothing is blocked by it.
func (c *cluster) reportVersion(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	minor := kubeMinor(c.version)
	if c.version == "" || strings.HasPrefix(c.version, "1.") && minor >= firstMinor && minor <= lastMinor {
		c.odd = ""
		return
	}
	if c.odd != c.version {
		c.odd = c.version
		c.opts.Logger.ErrorContext(ctx, "the version of Kubernetes is not among those that are supported; going on", "version", c.version,
			"supported", fmt.Sprintf("1.%d to 1.%d", firstMinor, lastMinor))
	}
}

// serviceCIDR returns the address range of services. It is asked for once.
func (c *cluster) serviceCIDR(ctx context.Context) (string, error) {
	if cidr := c.knownCIDR(); cidr != "" {
		return cidr, nil
	}
	if err := c.describe(ctx); err != nil {
		return "", err
	}
	if cidr := c.knownCIDR(); cidr != "" {
		return cidr, nil
	}
	return "", fmt.Errorf("EKS reports no service address range of cluster %s", c.opts.ClusterName)
}

func (c *cluster) knownCIDR() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cidr
}

// address returns the endpoint of the API server and its certificate authority.
func (c *cluster) address() (endpoint, ca string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.endpoint, c.ca
}

func (c *cluster) kubeVersion() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// ipv6 reports whether nodes get IPv6 addresses.
func (c *cluster) ipv6() bool { return strings.Contains(c.opts.ClusterDNS, ":") }

// settings are those that instance types depend on.
func (p *Provider) settings() ec2types.Settings {
	return ec2types.Settings{Region: p.region, MemoryOverhead: p.opts.MemoryOverhead, ReservedENIs: p.opts.ReservedENIs}
}
