package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pt "github.com/aws/aws-sdk-go-v2/service/pricing/types"
	"k8s.io/utils/clock"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
	"github.com/karp-sh/karp/pkg/units"
)

// prices are what instances cost per hour: list prices at first, then what AWS answers.
type prices struct {
	region  string
	listing pricing.GetProductsAPIClient
	spotAPI ec2.DescribeSpotPriceHistoryAPIClient
	clock   clock.PassiveClock

	mu         sync.RWMutex
	generation uint64
	onDemand   map[string]units.Money
	// spot is by type and zone; nil until the first refresh, while the on-demand price stands in.
	spot map[string]map[string]units.Money
}

// spotLast tells which record a spot price came from, to find the newest.
type spotLast struct {
	price units.Money
	at    time.Time
}

func newPrices(region string, embedded *ec2data.Data) *prices {
	p := &prices{region: region, onDemand: map[string]units.Money{}}
	if list, _ := embedded.OnDemand(region); list != nil {
		for _, e := range list.Prices {
			p.onDemand[e.Type] = units.Money(e.NanosPerHour)
		}
	}
	return p
}

// pricingRegion is where the price list of a region is served.
func pricingRegion(region string) string {
	switch prefix, _, _ := strings.Cut(region, "-"); prefix {
	case "ap":
		return "ap-south-1"
	case "cn":
		return "cn-northwest-1"
	case "eu":
		return "eu-central-1"
	}
	return "us-east-1"
}

// listable reports whether the region has a price list to ask for.
func (p *prices) listable() bool { return !strings.HasPrefix(p.region, "us-gov-") }

// quote returns the price of an offering, without availability.
func (p *prices) quote(a ec2types.Ask) ec2types.Quote {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if a.CapacityType == catalog.Spot && p.spot != nil {
		price, ok := p.spot[a.Type][a.Zone]
		return ec2types.Quote{Price: price, Priced: ok}
	}
	price, ok := p.onDemand[a.Type]
	return ec2types.Quote{Price: price, Priced: ok, Estimated: a.CapacityType == catalog.Spot}
}

func (p *prices) sequence() uint64 {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.generation
}

// refreshOnDemand reads the price list. An incomplete answer changes nothing; types that vanished keep their price.
func (p *prices) refreshOnDemand(ctx context.Context) error {
	fresh := map[string]units.Money{}
	for _, q := range []struct{ tenancy, family string }{{"Shared", "Compute Instance"}, {"Dedicated", "Compute Instance (bare metal)"}} {
		found, err := p.products(ctx, q.tenancy, q.family)
		if err != nil {
			return fmt.Errorf("reading the on-demand prices of %q: %w", q.family, err)
		}
		maps.Copy(fresh, found)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	merged := maps.Clone(p.onDemand)
	maps.Copy(merged, fresh)
	if !maps.Equal(merged, p.onDemand) {
		p.onDemand = merged
		p.generation++
	}
	return nil
}

func (p *prices) products(ctx context.Context, tenancy, family string) (map[string]units.Money, error) {
	match := func(field, value string) pt.Filter {
		return pt.Filter{Field: &field, Type: pt.FilterTypeTermMatch, Value: &value}
	}
	pages := pricing.NewGetProductsPaginator(p.listing, &pricing.GetProductsInput{
		ServiceCode: new("AmazonEC2"), MaxResults: new(int32(100)),
		Filters: []pt.Filter{
			match("regionCode", p.region), match("serviceCode", "AmazonEC2"), match("preInstalledSw", "NA"), match("operatingSystem", "Linux"),
			match("capacitystatus", "Used"), match("marketoption", "OnDemand"), match("tenancy", tenancy), match("productFamily", family),
		},
	})
	out := map[string]units.Money{}
	items := 0
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		items += len(page.PriceList)
		for _, text := range page.PriceList {
			if name, price, ok := product(text, strings.HasPrefix(p.region, "cn-")); ok {
				out[name] = price
			}
		}
	}
	if items == 0 {
		return nil, errors.New("the answer is empty")
	}
	return out, nil
}

// product reads one entry of the price list; ok is false for an entry without name or without a price above zero.
func product(text string, china bool) (name string, price units.Money, ok bool) {
	var item struct {
		Product struct {
			Attributes struct {
				InstanceType string `json:"instanceType"`
			} `json:"attributes"`
		} `json:"product"`
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct {
					PricePerUnit map[string]string `json:"pricePerUnit"`
				} `json:"priceDimensions"`
			} `json:"OnDemand"`
		} `json:"terms"`
	}
	if json.Unmarshal([]byte(text), &item) != nil || item.Product.Attributes.InstanceType == "" {
		return "", 0, false
	}
	currency := "USD"
	if china {
		currency = "CNY"
	}
	for _, term := range item.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			if v, err := strconv.ParseFloat(d.PricePerUnit[currency], 64); err == nil && v > 0 {
				// Of several prices the greatest counts, so that the answer does not depend on the order of a map.
				price = max(price, units.FromDollars(v))
			}
		}
	}
	return item.Product.Attributes.InstanceType, price, price > 0
}

// refreshSpot reads the present spot prices. Prices of zones that the answer lacks stay.
func (p *prices) refreshSpot(ctx context.Context) error {
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(p.spotAPI, &ec2.DescribeSpotPriceHistoryInput{
		ProductDescriptions: []string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}, StartTime: new(p.clock.Now()), MaxResults: new(int32(2000)),
	})
	newest := map[[2]string]spotLast{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("reading spot prices: %w", err)
		}
		for _, r := range page.SpotPriceHistory {
			noteSpot(newest, r)
		}
	}
	if len(newest) == 0 {
		return errors.New("reading spot prices: the answer is empty")
	}
	p.mergeSpot(newest)
	return nil
}

func noteSpot(newest map[[2]string]spotLast, r et.SpotPrice) {
	v, err := strconv.ParseFloat(val(r.SpotPrice), 64)
	if err != nil || r.Timestamp == nil {
		return
	}
	key := [2]string{string(r.InstanceType), val(r.AvailabilityZone)}
	if have, ok := newest[key]; !ok || r.Timestamp.After(have.at) {
		newest[key] = spotLast{units.FromDollars(v), *r.Timestamp}
	}
}

func (p *prices) mergeSpot(newest map[[2]string]spotLast) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := p.spot == nil
	if p.spot == nil {
		p.spot = map[string]map[string]units.Money{}
	}
	for key, last := range newest {
		zones := p.spot[key[0]]
		if zones == nil {
			zones = map[string]units.Money{}
			p.spot[key[0]] = zones
		}
		if have, ok := zones[key[1]]; !ok || have != last.price {
			zones[key[1]] = last.price
			changed = true
		}
	}
	if changed {
		p.generation++
	}
}
