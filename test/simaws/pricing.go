package simaws

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/test/simaws/cloud"
)

// pricingService answers GetProducts with the on-demand prices of EC2.
type pricingService struct{ cloud *cloud.Cloud }

var _ service = (*pricingService)(nil)

func (s *pricingService) action(c *call) string { return target(c, "AWSPriceListService") }

func (s *pricingService) refuse(_ *call, err *cloud.Error) reply {
	return jsonRefusal("1.1", err, jsonStatus(err.Code))
}

type productFilter struct{ Type, Field, Value string }

func (s *pricingService) serve(action string, c *call) (reply, *cloud.Error) {
	if action != "GetProducts" {
		return reply{}, unknownOperation(action)
	}
	var in struct {
		ServiceCode, FormatVersion, NextToken string
		Filters                               []productFilter
		MaxResults                            *int
	}
	if err := readJSON(c, &in); err != nil {
		return reply{}, err
	}
	if in.ServiceCode != "AmazonEC2" {
		return reply{}, apiError("InvalidParameterException", "simaws has prices of the service code AmazonEC2 only")
	}
	products, err := s.products(in.Filters)
	if err != nil {
		return reply{}, err
	}
	part, next, err := page(products, paging{in.MaxResults, in.NextToken}, pageLimits{1, 100, 100, false}, product.name)
	if err != nil {
		if err.Code == "InvalidNextToken" {
			err.Code = "InvalidNextTokenException"
		} else {
			err.Code = "InvalidParameterException"
		}
		return reply{}, err
	}
	list := []string{}
	for _, p := range part {
		list = append(list, p.json())
	}
	out := map[string]any{"FormatVersion": "aws_v1", "PriceList": list}
	if next != "" {
		out["NextToken"] = next
	}
	return jsonReply("1.1", out)
}

// A product is one entry of the price list.
type product struct {
	attributes map[string]string
	family     string
	nanos      int64
}

func (p product) name() string { return p.attributes["instanceType"] }

func (p product) json() string {
	sku := strings.ToUpper(checksum(p.name())[:16])
	body, err := json.Marshal(map[string]any{
		"product":     map[string]any{"productFamily": p.family, "attributes": p.attributes, "sku": sku},
		"serviceCode": "AmazonEC2",
		"terms": map[string]any{"OnDemand": map[string]any{sku + ".JRTCKXETXF": map[string]any{
			"priceDimensions": map[string]any{sku + ".JRTCKXETXF.6YS6EN2CT7": map[string]any{
				"unit": "Hrs", "pricePerUnit": map[string]string{"USD": dollarsExact(p.nanos)},
			}},
		}}},
		"version": "20261201000000", "publicationDate": "2026-12-01T00:00:00Z",
	})
	if err != nil {
		return "{}" // strings always encode
	}
	return string(body)
}

// dollarsExact writes nanos as Pricing does: ten decimals.
func dollarsExact(nanos int64) string { return fmt.Sprintf("%d.%09d0", nanos/1e9, nanos%1e9) }

// products are the entries that pass all filters.
func (s *pricingService) products(filters []productFilter) ([]product, *cloud.Error) {
	for _, f := range filters {
		if f.Type != "TERM_MATCH" {
			return nil, apiError("InvalidParameterException", "simaws implements filters of type TERM_MATCH only, not "+f.Type)
		}
	}
	region := s.cloud.Options().Region
	var out []product
	for _, price := range s.cloud.OnDemandPrices() {
		t, ok := s.cloud.Data().Type(price.Type)
		if !ok {
			continue
		}
		p := newProduct(t, region, price.NanosPerHour)
		if p.passes(filters) {
			out = append(out, p)
		}
	}
	return out, nil
}

func newProduct(t *ec2data.Type, region string, nanos int64) product {
	p := product{family: "Compute Instance", nanos: nanos, attributes: map[string]string{
		"instanceType": t.Name, "regionCode": region, "servicecode": "AmazonEC2", "operatingSystem": "Linux", "preInstalledSw": "NA",
		"capacitystatus": "Used", "marketoption": "OnDemand", "tenancy": "Shared",
	}}
	if t.Flags.BareMetal {
		p.family, p.attributes["tenancy"] = "Compute Instance (bare metal)", "Dedicated"
	}
	return p
}

func (p product) passes(filters []productFilter) bool {
	for _, f := range filters {
		have := p.attributes[f.Field]
		switch f.Field {
		case "productFamily":
			have = p.family
		case "serviceCode":
			have = "AmazonEC2"
		}
		if !strings.EqualFold(have, f.Value) {
			return false
		}
	}
	return true
}
