package aws

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/units"
)

// What tests outside the package may see of it.

// Boot is what the tests vary of the input of user data.
type Boot struct {
	Family   ec2types.Family
	Endpoint string
	CA       string
	CIDR     string
	DNS      []string
	MaxPods  int64
	Labels   map[string]string
	Taints   []corev1.Taint
	Startup  []corev1.Taint
	Kubelet  *awsv1.KubeletConfiguration
	RAID0    bool
	BindDirs bool
	User     string
}

// RenderUserData renders user data for an on-demand launch into cluster demo, not encoded.
func RenderUserData(b Boot) (string, error) {
	out, err := userData(bootInput{
		family: b.Family, clusterName: "demo", endpoint: b.Endpoint, ca: b.CA, cidr: b.CIDR, dns: b.DNS, maxPods: b.MaxPods,
		labels: bootLabels(b.Labels, catalog.OnDemand, b.Family), taints: bootTaints(b.Taints, b.Startup), kubelet: b.Kubelet, raid0: b.RAID0,
		bindDirs: b.BindDirs, user: b.User,
	})
	return out.text, err
}

var (
	LaunchReason   = launchReason
	LaunchError    = launchError
	FleetError     = fleetError
	CapacityCode   = capacityCode
	Product        = product
	PricingRegion  = pricingRegion
	SubnetFilters  = subnetFilters
	GroupFilters   = groupFilters
	DeviceMappings = deviceMappings
	BindsByDefault = bindsByDefault
	ShellQuote     = shellQuote
)

type Marks struct{ *marks }

func NewMarks(c clock.PassiveClock) Marks { return Marks{newMarks(c)} }

func (m Marks) Offering(capacityType, typ, zone, group, partition string) {
	m.offering(offeringKey{capacityType, typ, zone, group, partition}, codeICE)
}

func (m Marks) CapacityType(ct string) { m.capacityType(ct, codeSpotRole) }
func (m Marks) Subnet(id string)       { m.subnet(id, codeNoAddresses) }
func (m Marks) Sequence() uint64       { return m.sequence() }

func (m Marks) Find(capacityType, typ, zone, group, partition string, subnets ...string) *catalog.Unavailability {
	return m.find(offeringKey{capacityType, typ, zone, group, partition}, subnets)
}

// Pick runs the launch filters and returns the capacity type and, for each type left, the zones of the offerings it would use.
func Pick(types []catalog.InstanceType, claim *karpv1.NodeClaim) (capacityType, tenancy string, names []string, zones map[string][]string, err error) {
	w := wishOf(claim)
	list, err := candidates(types, &w, claim.Annotations[karpv1.MinValuesRelaxedAnnotation] == "true")
	if err != nil {
		return "", "", nil, nil, err
	}
	capacityType = capacityTypeOf(list)
	zones = map[string][]string{}
	for _, c := range restrict(list, func(o *catalog.Offering) bool { return o.CapacityType == capacityType }) {
		names = append(names, c.Name)
		for _, o := range c.offers {
			zones[c.Name] = append(zones[c.Name], o.Zone)
		}
	}
	return capacityType, w.tenancy(), names, zones, nil
}

func ImageFor(amis []awsv1.AMI, t *catalog.InstanceType) string {
	a, ok := imageFor(amis, t)
	if !ok {
		return ""
	}
	return a.ID
}

func AliasParameters(alias, kube string) ([]string, error) {
	family, version, err := splitAlias(alias, kube)
	if err != nil {
		if _, ok := errors.AsType[*unsupportedAlias](err); !ok {
			return nil, errors.New("not an *unsupportedAlias: " + err.Error())
		}
		return nil, err
	}
	var out []string
	for _, p := range aliasParameters(family, version, kube) {
		out = append(out, p.name)
	}
	return out, nil
}

// ChooseImages deduplicates images found by terms.
func ChooseImages(c clock.PassiveClock, list []et.Image) []awsv1.AMI {
	i := &images{clock: c}
	var found []image
	for _, d := range list {
		if arch := imageArch(d); arch != "" {
			found = append(found, i.candidate(d, arch, nil))
		}
	}
	return i.choose(found)
}

type Prices struct{ *prices }

func NewPrices(region string, data *ec2data.Data) Prices { return Prices{newPrices(region, data)} }

func (p Prices) Quote(typ, capacityType, zone string) ec2types.Quote {
	return p.quote(ec2types.Ask{Type: typ, CapacityType: capacityType, Zone: zone})
}

func (p Prices) Spot(records ...et.SpotPrice) {
	newest := map[[2]string]spotLast{}
	for _, r := range records {
		noteSpot(newest, r)
	}
	p.mergeSpot(newest)
}

type Subnets struct{ *subnets }

func NewSubnets(c clock.PassiveClock) Subnets { return Subnets{newSubnets(nil, c, time.Minute)} }

func (s Subnets) Report(free map[string]int) {
	var list []subnetFound
	for id, n := range free {
		list = append(list, subnetFound{awsv1.Subnet{ID: id}, n})
	}
	s.report(list)
}

func (s Subnets) Left(id string) int { return s.count[id].inflight }

type Holds []hold

func (s Subnets) Take(list []awsv1.Subnet, perZone map[string]int) (map[string]string, Holds) {
	chosen, holds := s.take(list, perZone)
	out := map[string]string{}
	for zone, sub := range chosen {
		out[zone] = sub.ID
	}
	return out, holds
}

func (s Subnets) GiveBack(h Holds, used string) { s.giveBack(h, used) }

// FleetOf builds the call that a recorded request stands for.
func FleetOf(r *cloud.Request) (*ec2.CreateFleetInput, error) {
	p, err := thaw(r)
	if err != nil {
		return nil, err
	}
	return p.fleet(r), nil
}

// WidestRequest freezes a spot launch of 60 types in 6 zones, each with a price of its own.
func WidestRequest(id cloud.Identity, class ec2types.Class, types []string) (*cloud.Request, error) {
	p := &payload{Version: payloadVersion, Tenancy: "default", Pool: "np", ClassName: "nc", Tags: map[string]string{}, Class: class}
	for i := range 6 {
		p.Subnets = append(p.Subnets, payloadSubnet{"subnet-0123456789abcdef" + string(rune('0'+i)), "us-east-1" + string(rune('a'+i)), "use1-az1"})
	}
	for i := 0; i < len(types); i += 6 {
		t := payloadTemplate{Name: "karpenter.k8s.aws/18446744073709551615", Image: "ami-0123456789abcdef0"}
		for _, name := range types[i:min(i+6, len(types))] {
			typ := payloadType{Name: name}
			for s := range 6 {
				typ.Subnets = append(typ.Subnets, s)
				typ.Prices = append(typ.Prices, units.Money(123_456_700+s*1_000))
			}
			t.Types = append(t.Types, typ)
		}
		p.Templates = append(p.Templates, t)
	}
	return freeze(p, catalog.Spot, id)
}

// ParseMessage reads a message for account 123456789012 in us-west-2.
func ParseMessage(body string) cloud.Message { return parseMessage(body, "123456789012", "us-west-2") }

// Findings judges one answer about the status of an instance.
func Findings(s et.InstanceStatus, now time.Time) []cloud.Finding { return findings(&s, now) }

// Batcher is a batcher of texts with the limits of the provider.
type Batcher struct{ *batcher[string] }

func NewBatcher(merged func(context.Context, []string) (map[string]string, error), single func(context.Context, string) (string, error)) Batcher {
	return Batcher{newBatcher(defaultBatch(), merged, single)}
}

func (b Batcher) Do(ctx context.Context, id string) (string, error) { return b.do(ctx, id) }

// AddressesLeft is how many addresses the provider takes a subnet to have.
func AddressesLeft(p *Provider, subnet string) int {
	p.subnets.mu.Lock()
	defer p.subnets.mu.Unlock()
	return p.subnets.count[subnet].inflight
}

// EnclaveOf reports whether the launch template of the claim turns enclaves on.
func EnclaveOf(p *Provider, class *awsv1.EC2NodeClass, claim *karpv1.NodeClaim) bool {
	w := wishOf(claim)
	in, err := p.templateData(context.Background(), nodeSpec{class: class, image: "ami-1", capacityType: catalog.OnDemand, enclave: w.requests[nipSlots] > 0})
	return err == nil && *in.EnclaveOptions.Enabled
}

// MetadataIPv6 is the metadata option of the region that the isolated partitions lack.
func MetadataIPv6(region string) string {
	return string((&Provider{region: region}).metadataOptions(nil).HttpProtocolIpv6)
}

// Bucket is the token bucket of one class of calls.
type Bucket struct{ *bucket }

func NewBucket(r Rate) Bucket { return Bucket{newBucket(r)} }

func (b Bucket) Settle(err error, now time.Time) { b.settle(err, now) }
