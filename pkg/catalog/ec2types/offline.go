package ec2types

import (
	"fmt"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/units"
)

// ListPrices is the market of a static price list, before anything was heard from the cloud: on-demand at list price, spot at the on-demand
// price of the type as an estimate. Nothing is sold out.
func ListPrices(list *ec2data.PriceList) Market {
	return func(a Ask) Quote {
		nanos, ok := list.Price(a.Type)
		return Quote{Price: units.Money(nanos), Priced: ok, Estimated: a.CapacityType == catalog.Spot}
	}
}

// Offline derives all types of a region from embedded facts alone, ascending by name. Spot prices are estimates (see [ListPrices]): the
// real ones are known to the cloud only. A class without zones gets those of the region.
func Offline(data *ec2data.Data, s Settings, c *Class) ([]catalog.InstanceType, error) {
	region, ok := data.Region(s.Region)
	if !ok {
		return nil, fmt.Errorf("no facts about region %q are embedded", s.Region)
	}
	prices, _ := data.OnDemand(s.Region)
	if prices == nil {
		return nil, fmt.Errorf("no price list for region %q is embedded", s.Region)
	}
	class := *c
	if len(class.Zones) == 0 {
		for _, z := range region.Zones {
			class.Zones = append(class.Zones, Zone{Name: z.Name, ID: z.ID})
		}
	}
	market := ListPrices(prices)
	var inputs []Input
	for i := range data.Types {
		t := &data.Types[i]
		zones := region.ZonesOf(t.Name)
		if len(zones) == 0 || !Usable(t) {
			continue
		}
		in := Input{Type: t, Settings: s, Class: &class, Market: market}
		for _, z := range zones {
			in.Offered = append(in.Offered, z.Name)
		}
		inputs = append(inputs, in)
	}
	return All(inputs)
}
