package cloud

import (
	"slices"
	"strconv"
	"time"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
)

func typeProperty(t *ec2data.Type) property {
	return func(name string) ([]string, bool) {
		switch name {
		case "instance-type":
			return []string{t.Name}, true
		case "supported-virtualization-type":
			return t.VirtualizationTypes, true
		case "processor-info.supported-architecture":
			return t.Architectures, true
		case "supported-usage-class":
			return t.UsageClasses, true
		case "supported-boot-mode":
			return t.BootModes, true
		case "supported-root-device-type":
			return t.RootDeviceTypes, true
		case "hypervisor":
			return []string{t.Hypervisor}, true
		case "bare-metal":
			return []string{strconv.FormatBool(t.Flags.BareMetal)}, true
		case "burstable-performance-supported":
			return []string{strconv.FormatBool(t.Flags.Burstable)}, true
		case "current-generation":
			return []string{strconv.FormatBool(t.Flags.CurrentGeneration)}, true
		case "free-tier-eligible":
			return []string{strconv.FormatBool(t.Flags.FreeTier)}, true
		case "instance-storage-supported":
			return []string{strconv.FormatBool(t.Disk != nil)}, true
		case "memory-info.size-in-mib":
			return []string{strconv.FormatInt(t.MemoryMiB, 10)}, true
		case "vcpu-info.default-vcpus":
			return []string{strconv.Itoa(t.VCPUs)}, true
		case "vcpu-info.default-cores":
			return []string{strconv.Itoa(t.Cores)}, true
		}
		return nil, false
	}
}

// Types is DescribeInstanceTypes: the types offered in the region, or with
// everywhere all known ones, by name.
func (c *Cloud) Types(names []string, filters []Filter, everywhere bool) ([]*ec2data.Type, *Error) {
	for _, n := range names {
		if t, ok := c.data.Type(n); !ok || t.Partial {
			return nil, fail("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", n)
		}
	}
	if err := check(filters, typeProperty(new(ec2data.Type))); err != nil {
		return nil, err
	}
	var out []*ec2data.Type
	for i := range c.data.Types {
		t := &c.data.Types[i]
		if t.Partial || names != nil && !slices.Contains(names, t.Name) {
			continue
		}
		ok, err := pass(filters, nil, typeProperty(t))
		if err != nil {
			return nil, err
		}
		if ok && (everywhere || len(c.area.ZonesOf(t.Name)) > 0) {
			out = append(out, t)
		}
	}
	return out, nil
}

// Offering is one answer of DescribeInstanceTypeOfferings.
type Offering struct{ Type, Location string }

func (o *Offering) property(name string) ([]string, bool) {
	switch name {
	case "instance-type":
		return []string{o.Type}, true
	case "location":
		return []string{o.Location}, true
	}
	return nil, false
}

// Offerings is DescribeInstanceTypeOfferings by location type: region,
// availability-zone or availability-zone-id.
func (c *Cloud) Offerings(locationType string, filters []Filter) ([]Offering, *Error) {
	if err := check(filters, new(Offering).property); err != nil {
		return nil, err
	}
	var out []Offering
	add := func(o Offering) {
		if ok, err := pass(filters, nil, o.property); ok && err == nil {
			out = append(out, o)
		}
	}
	for _, offer := range c.area.Offers {
		if locationType == "region" {
			add(Offering{offer.Type, c.area.Name})
			continue
		}
		for _, z := range c.zonesOf(offer.Type) {
			location := z.Name
			if locationType == "availability-zone-id" {
				location = z.ID
			}
			add(Offering{offer.Type, location})
		}
	}
	return out, nil
}

// SpotPriceRecord is one answer of DescribeSpotPriceHistory.
type SpotPriceRecord struct {
	Type, Zone, ZoneID string
	Nanos              int64
	At                 time.Time
}

func (r *SpotPriceRecord) property(name string) ([]string, bool) {
	switch name {
	case "availability-zone":
		return []string{r.Zone}, true
	case "availability-zone-id":
		return []string{r.ZoneID}, true
	case "instance-type":
		return []string{r.Type}, true
	case "product-description":
		return []string{SpotProduct}, true
	}
	return nil, false
}

// SpotProduct is the one product spot prices are kept for.
const SpotProduct = "Linux/UNIX"

// SpotPrices is DescribeSpotPriceHistory as of now: the current price of each
// type and zone.
func (c *Cloud) SpotPrices(types []string, filters []Filter) ([]SpotPriceRecord, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	if err := check(filters, new(SpotPriceRecord).property); err != nil {
		return nil, err
	}
	var out []SpotPriceRecord
	for _, offer := range c.area.Offers {
		if types != nil && !slices.Contains(types, offer.Type) {
			continue
		}
		for _, z := range c.zonesOf(offer.Type) {
			nanos, ok := c.spotPrice(offer.Type, z.Name)
			if !ok {
				continue
			}
			r := SpotPriceRecord{Type: offer.Type, Zone: z.Name, ZoneID: z.ID, Nanos: nanos, At: now.Truncate(time.Hour)}
			if ok, err := pass(filters, nil, r.property); ok && err == nil {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// OnDemandPrices lists the types with an on-demand price, by name.
func (c *Cloud) OnDemandPrices() []ec2data.Price {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []ec2data.Price
	for _, offer := range c.area.Offers {
		if nanos, ok := c.onDemandPrice(offer.Type); ok {
			out = append(out, ec2data.Price{Type: offer.Type, NanosPerHour: nanos})
		}
	}
	return out
}
