// Package listing is a catalogue written down: the instance types, prices and closed offerings of one instant as a file.
//
// The plugin answers from such files when it has neither cloud nor agent (kubectl karp --snapshot DIR with catalogue.yaml and offerings.yaml),
// and tests use them to fix every number. The text is JSON, or YAML converted to JSON by the caller:
//
//	apiVersion: cli.karp.sh/v1alpha1
//	kind: Catalogue
//	region: us-east-1
//	zones: {us-east-1a: use1-az1}                 # zone name: zone id
//	labelKeys: [karpenter.k8s.aws/instance-cpu]   # a type lacks these labels unless it lists them
//	types:
//	- name: m5.large
//	  labels: {karpenter.k8s.aws/instance-cpu: "2"}
//	  memoryRaw: 8192Mi                           # of the hardware
//	  capacity: {cpu: "2", memory: 7577Mi, pods: "29"}
//	  kubeReserved: {cpu: 70m, memory: 574Mi}
//	  evictionThreshold: {memory: 100Mi}
//	  prices: {on-demand: "0.096", spot: "0.038"} # per hour, the same in all zones
//	  zones: [us-east-1a, us-east-1b]             # absent: all
//	  observed: false                             # true: sizes are those of a live node
//
// Offerings that cannot be bought are listed apart, because they change by the minute:
//
//	apiVersion: cli.karp.sh/v1alpha1
//	kind: OfferingList
//	items:
//	- {type: g5.xlarge, zone: us-east-1a, capacityType: on-demand, available: false,
//	   reason: InsufficientInstanceCapacity, until: "2026-09-08T12:22:10Z"}
//
// An empty type, zone, capacityType or reservationID of an item stands for all; an item of a reservation also says how many instances are free
// (reservationCount).
package listing

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// Kinds and version of the two files.
const (
	APIVersion    = "cli.karp.sh/v1alpha1"
	CatalogueKind = "Catalogue"
	OfferingKind  = "OfferingList"
)

// Labels that the offerings define; a type lists their values from its zones and prices.
const (
	zoneLabel         = "topology.kubernetes.io/zone"
	zoneIDLabel       = "topology.k8s.aws/zone-id"
	regionLabel       = "topology.kubernetes.io/region"
	typeLabel         = "node.kubernetes.io/instance-type"
	capacityTypeLabel = "karpenter.sh/capacity-type"
)

// File is a catalogue as written.
type File struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Region     string            `json:"region"`
	Zones      map[string]string `json:"zones"`
	LabelKeys  []string          `json:"labelKeys"`
	Types      []Type            `json:"types"`
}

// Type is one instance type as written; amounts are Kubernetes quantities.
type Type struct {
	Name              string            `json:"name"`
	Labels            map[string]string `json:"labels"`
	MemoryRaw         string            `json:"memoryRaw"`
	Capacity          map[string]string `json:"capacity"`
	KubeReserved      map[string]string `json:"kubeReserved"`
	SystemReserved    map[string]string `json:"systemReserved"`
	EvictionThreshold map[string]string `json:"evictionThreshold"`
	Prices            map[string]string `json:"prices"`
	Zones             []string          `json:"zones"`
	Observed          bool              `json:"observed"`
}

// Offerings is the list of offerings that cannot be bought, as written.
type Offerings struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Items      []Offering `json:"items"`
}

// Offering is the state of the offerings that match it.
type Offering struct {
	Type         string `json:"type,omitempty"`
	Zone         string `json:"zone,omitempty"`
	CapacityType string `json:"capacityType,omitempty"`
	// ReservationID is of a capacity reservation, ReservationCount its free instances.
	ReservationID    string    `json:"reservationID,omitempty"`
	ReservationCount int       `json:"reservationCount,omitempty"`
	Available        bool      `json:"available"`
	Reason           string    `json:"reason,omitempty"`
	Until            time.Time `json:"until,omitzero"`
	// Price per hour in US dollars replaces the catalogue's, if it is known better ("0.0416").
	Price string `json:"price,omitempty"`
}

// Decode reads a catalogue from JSON. Unknown kinds and malformed amounts are errors that name the place.
func Decode(text []byte) (*File, error) {
	var f File
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("reading the catalogue: %w", err)
	}
	if f.APIVersion != APIVersion || f.Kind != CatalogueKind {
		return nil, fmt.Errorf("reading the catalogue: is %s %s, want %s %s", f.APIVersion, f.Kind, APIVersion, CatalogueKind)
	}
	if _, err := f.InstanceTypes(nil, Offerings{}); err != nil {
		return nil, err
	}
	return &f, nil
}

// DecodeOfferings reads a list of closed offerings from JSON.
func DecodeOfferings(text []byte) (Offerings, error) {
	var o Offerings
	if err := json.Unmarshal(text, &o); err != nil {
		return o, fmt.Errorf("reading offerings: %w", err)
	}
	if o.APIVersion != APIVersion || o.Kind != OfferingKind {
		return o, fmt.Errorf("reading offerings: is %s %s, want %s %s", o.APIVersion, o.Kind, APIVersion, OfferingKind)
	}
	for n, i := range o.Items {
		if price, err := strconv.ParseFloat(i.Price, 64); i.Price != "" && (err != nil || price < 0) {
			return o, fmt.Errorf("reading offerings: item %d: price %q is no amount of dollars such as \"0.0416\"", n+1, i.Price)
		}
	}
	return o, nil
}

// InstanceTypes returns the types as a class with subnets in the given zones can launch them; no zones stands for all. Types that are
// sold in none of the zones are left out.
func (f *File) InstanceTypes(zones []string, closed Offerings) ([]catalog.InstanceType, error) {
	if len(zones) == 0 {
		zones = slices.Sorted(maps.Keys(f.Zones))
	}
	out := make([]catalog.InstanceType, 0, len(f.Types))
	for _, t := range f.Types {
		it, err := f.instanceType(t, zones, closed)
		if err != nil {
			return nil, fmt.Errorf("reading the catalogue: type %s: %w", t.Name, err)
		}
		if len(it.Offerings) > 0 {
			out = append(out, it)
		}
	}
	return out, nil
}

func (f *File) instanceType(t Type, zones []string, closed Offerings) (catalog.InstanceType, error) {
	it := catalog.InstanceType{Name: t.Name, Observed: t.Observed}
	for _, part := range []struct {
		to   *units.List
		from map[string]string
		what string
	}{
		{&it.Capacity, t.Capacity, "capacity"},
		{&it.Overhead.KubeReserved, t.KubeReserved, "kubeReserved"},
		{&it.Overhead.SystemReserved, t.SystemReserved, "systemReserved"},
		{&it.Overhead.EvictionThreshold, t.EvictionThreshold, "evictionThreshold"},
	} {
		l, err := amounts(part.from)
		if err != nil {
			return it, fmt.Errorf("%s: %w", part.what, err)
		}
		*part.to = l
	}
	if t.MemoryRaw != "" {
		raw, err := Amount(units.Memory, t.MemoryRaw)
		if err != nil {
			return it, fmt.Errorf("memoryRaw: %w", err)
		}
		it.MemoryRaw = raw
	}
	for _, zone := range zones {
		if _, known := f.Zones[zone]; !known || len(t.Zones) > 0 && !slices.Contains(t.Zones, zone) {
			continue
		}
		for _, buyAs := range slices.Sorted(maps.Keys(t.Prices)) {
			price, err := strconv.ParseFloat(t.Prices[buyAs], 64)
			if err != nil {
				return it, fmt.Errorf("price of %s: %w", buyAs, err)
			}
			o := catalog.Offering{Zone: zone, ZoneID: f.Zones[zone], CapacityType: buyAs, Price: units.FromDollars(price), Available: true}
			closed.Apply(t.Name, &o)
			it.Offerings = append(it.Offerings, o)
		}
	}
	it.Requirements = f.requirements(t, it.Offerings)
	return it, nil
}

// ByType returns a function that keeps the items which can match a type, in their order. It spares Apply to look at thousands of items of other
// types for each offering.
func (o Offerings) ByType() func(typ string) Offerings {
	places := map[string][]int{}
	for n, i := range o.Items {
		places[i.Type] = append(places[i.Type], n)
	}
	return func(typ string) Offerings {
		found := slices.Concat(places[typ], places[""])
		slices.Sort(found)
		out := Offerings{APIVersion: o.APIVersion, Kind: o.Kind}
		for _, n := range found {
			out.Items = append(out.Items, o.Items[n])
		}
		return out
	}
}

// Apply closes the offering, or gives it another price, if one of the items matches it; the first one wins.
func (o Offerings) Apply(typ string, to *catalog.Offering) {
	for _, i := range o.Items {
		if i.matches(typ, to) {
			to.Available = i.Available
			if i.ReservationID != "" {
				to.ReservationCount = i.ReservationCount
			}
			if price, err := strconv.ParseFloat(i.Price, 64); err == nil && price > 0 {
				to.Price, to.PriceUnknown = units.FromDollars(price), false
			}
			if !i.Available {
				to.Unavailable = catalog.Unavailability{Reason: i.Reason, Until: i.Until}
			}
			return
		}
	}
}

func (i *Offering) matches(typ string, o *catalog.Offering) bool {
	return (i.Type == "" || i.Type == typ) && (i.Zone == "" || i.Zone == o.Zone) && (i.CapacityType == "" || i.CapacityType == o.CapacityType) &&
		(i.ReservationID == "" || i.ReservationID == o.ReservationID)
}

// requirements spells the labels of a type, ascending by key.
func (f *File) requirements(t Type, offerings []catalog.Offering) []constraint.Expr {
	values := map[string][]string{typeLabel: {t.Name}, regionLabel: {f.Region}}
	for k, v := range t.Labels {
		values[k] = []string{v}
	}
	for _, o := range offerings {
		values[zoneLabel] = append(values[zoneLabel], o.Zone)
		values[capacityTypeLabel] = append(values[capacityTypeLabel], o.CapacityType)
		if o.ZoneID != "" {
			values[zoneIDLabel] = append(values[zoneIDLabel], o.ZoneID)
		}
	}
	keys := slices.Sorted(maps.Keys(values))
	keys = append(keys, f.LabelKeys...)
	slices.Sort(keys)
	out := make([]constraint.Expr, 0, len(keys))
	for _, k := range slices.Compact(keys) {
		vs := values[k]
		slices.Sort(vs)
		e := constraint.Expr{Key: k, Operator: constraint.In, Values: slices.Compact(vs)}
		if len(vs) == 0 {
			e = constraint.Expr{Key: k, Operator: constraint.DoesNotExist}
		}
		out = append(out, e)
	}
	return out
}

func amounts(m map[string]string) (units.List, error) {
	out := make(units.List, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		v, err := Amount(k, m[k])
		if err != nil {
			return nil, err
		}
		out[k] = v
	}
	return out, nil
}

// Amount reads a Kubernetes quantity of a resource: millicores for cpu, else base units, rounded up. It knows plain decimals and the
// suffixes m, k, M, G, T, Ki, Mi, Gi and Ti.
func Amount(resource, text string) (int64, error) {
	digits := strings.TrimRight(text, "mkKMGTi")
	scale, known := suffix(text[len(digits):])
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !known || v < 0 {
		return 0, fmt.Errorf("amount %q of %s is no quantity", text, resource)
	}
	if resource == units.CPU {
		scale *= 1000
	}
	return int64(math.Ceil(math.Round(v*scale*1e6) / 1e6)), nil
}

func suffix(s string) (float64, bool) {
	switch s {
	case "":
		return 1, true
	case "m":
		return 1e-3, true
	case "k":
		return 1e3, true
	case "M":
		return 1e6, true
	case "G":
		return 1e9, true
	case "T":
		return 1e12, true
	case "Ki":
		return 1 << 10, true
	case "Mi":
		return 1 << 20, true
	case "Gi":
		return 1 << 30, true
	case "Ti":
		return 1 << 40, true
	}
	return 0, false
}
