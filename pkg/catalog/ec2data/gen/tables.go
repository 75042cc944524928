package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
)

type offersTable struct {
	AsOf    string
	Regions map[string]struct {
		Zones   map[string]string
		Offered map[string]map[string]string
	}
}

func (t *offersTable) convert(d *ec2data.Data) ([]ec2data.Region, error) {
	var regions []ec2data.Region
	for _, name := range slices.Sorted(maps.Keys(t.Regions)) {
		rec := t.Regions[name]
		r := ec2data.Region{Name: name}
		for _, suffix := range slices.Sorted(maps.Keys(rec.Zones)) {
			r.Zones = append(r.Zones, ec2data.Zone{Name: name + suffix, Suffix: suffix, ID: rec.Zones[suffix]})
		}
		for zones, families := range rec.Offered {
			for family, sizes := range families {
				for size := range strings.FieldsSeq(sizes) {
					typ, ok := d.Type(family + "." + size)
					if !ok {
						return nil, fmt.Errorf("region %s offers unknown type %s.%s", name, family, size)
					}
					if !typ.Partial {
						r.Offers = append(r.Offers, ec2data.Offer{Type: typ.Name, Zones: zones})
					}
				}
			}
		}
		slices.SortFunc(r.Offers, func(a, b ec2data.Offer) int { return strings.Compare(a.Type, b.Type) })
		regions = append(regions, r)
	}
	return regions, nil
}

type pricesTable struct {
	Regions map[string]struct {
		Currency string
		AsOf     string
		Families map[string]map[string]float64
	}
}

func (t *pricesTable) convert() ([]ec2data.PriceList, error) {
	var lists []ec2data.PriceList
	for _, name := range slices.Sorted(maps.Keys(t.Regions)) {
		rec := t.Regions[name]
		l := ec2data.PriceList{Region: name, Currency: rec.Currency, AsOf: rec.AsOf}
		for family, sizes := range rec.Families {
			for size, price := range sizes {
				nanos, err := scaled(price, 1e9)
				if err != nil {
					return nil, fmt.Errorf("price of %s.%s in %s: %w", family, size, name, err)
				}
				l.Prices = append(l.Prices, ec2data.Price{Type: family + "." + size, NanosPerHour: nanos})
			}
		}
		slices.SortFunc(l.Prices, func(a, b ec2data.Price) int { return strings.Compare(a.Type, b.Type) })
		lists = append(lists, l)
	}
	return lists, nil
}

type bandwidthTable struct {
	AsOf     string
	Baseline map[string]map[string]int
}

// limitsTable rows are enis, ipv4PerEni, trunking, branchEnis, ...
type limitsTable struct {
	AsOf    string
	Columns []string
	Types   map[string][]any
}

func (t *limitsTable) apply(typ *ec2data.Type) error {
	row, ok := t.Types[typ.Name]
	if !ok {
		return nil
	}
	if len(row) != len(t.Columns) || t.Columns[0] != "enis" || t.Columns[1] != "ipv4PerEni" ||
		t.Columns[2] != "trunking" || t.Columns[3] != "branchEnis" {
		return fmt.Errorf("vpc limits: unexpected columns %v", t.Columns)
	}
	enis, ok1 := row[0].(float64)
	ipv4, ok2 := row[1].(float64)
	trunking, ok3 := row[2].(bool)
	branches, ok4 := row[3].(float64)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return fmt.Errorf("vpc limits: unexpected row %v", row)
	}
	if typ.Network.MaxENIs != int(enis) || typ.Network.IPv4PerENI != int(ipv4) {
		return fmt.Errorf("vpc limits: %v interfaces with %v addresses, instance types say %d with %d",
			enis, ipv4, typ.Network.MaxENIs, typ.Network.IPv4PerENI)
	}
	typ.VPC = ec2data.VPC{Known: true, Trunking: trunking, BranchENIs: int(branches)}
	return nil
}
