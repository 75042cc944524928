package listing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/listing"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

const small = `{
  "apiVersion": "cli.karp.sh/v1alpha1", "kind": "Catalogue", "region": "r",
  "zones": {"ra": "r1", "rb": "r2"}, "labelKeys": ["gpu", "cpu"],
  "types": [
    {"name": "m.large", "labels": {"cpu": "2"}, "memoryRaw": "8Gi", "capacity": {"cpu": "2", "memory": "7577Mi"},
     "kubeReserved": {"cpu": "70m"}, "evictionThreshold": {"memory": "100Mi"}, "prices": {"on-demand": "0.096", "spot": "0.038"}},
    {"name": "g.large", "capacity": {"cpu": "4"}, "prices": {"on-demand": "1"}, "zones": ["rb"]}]}`

func TestInstanceTypes(t *testing.T) {
	f, err := listing.Decode([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	until := time.Date(2026, 9, 8, 12, 22, 10, 0, time.UTC)
	closed := listing.Offerings{Items: []listing.Offering{{Type: "m.large", Zone: "ra", CapacityType: "spot", Reason: "sold", Until: until}}}
	types, err := f.InstanceTypes([]string{"ra"}, closed)
	if err != nil {
		t.Fatal(err)
	}
	want := []catalog.InstanceType{{
		Name: "m.large",
		Requirements: []constraint.Expr{
			{Key: "cpu", Operator: constraint.In, Values: []string{"2"}},
			{Key: "gpu", Operator: constraint.DoesNotExist},
			{Key: "karpenter.sh/capacity-type", Operator: constraint.In, Values: []string{"on-demand", "spot"}},
			{Key: "node.kubernetes.io/instance-type", Operator: constraint.In, Values: []string{"m.large"}},
			{Key: "topology.k8s.aws/zone-id", Operator: constraint.In, Values: []string{"r1"}},
			{Key: "topology.kubernetes.io/region", Operator: constraint.In, Values: []string{"r"}},
			{Key: "topology.kubernetes.io/zone", Operator: constraint.In, Values: []string{"ra"}},
		},
		Capacity: units.List{"cpu": 2000, "memory": 7577 << 20}, MemoryRaw: 8 << 30,
		Overhead: catalog.Overhead{
			KubeReserved: units.List{"cpu": 70}, SystemReserved: units.List{}, EvictionThreshold: units.List{"memory": 100 << 20},
		},
		Offerings: []catalog.Offering{
			{Zone: "ra", ZoneID: "r1", CapacityType: "on-demand", Price: 96_000_000, Available: true},
			{Zone: "ra", ZoneID: "r1", CapacityType: "spot", Price: 38_000_000, Unavailable: catalog.Unavailability{Reason: "sold", Until: until}},
		},
	}}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("types in zone ra (-want +got):\n%s", diff)
	}
	all, err := f.InstanceTypes(nil, listing.Offerings{})
	if err != nil || len(all) != 2 || len(all[0].Offerings) != 4 || len(all[1].Offerings) != 1 {
		t.Errorf("no zones stand for all: %v, %v", all, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ name, old, with, want string }{
		{"kind", `"Catalogue"`, `"Menu"`, "want cli.karp.sh/v1alpha1 Catalogue"},
		{"amount", `"7577Mi"`, `"7577MB"`, `type m.large: capacity: amount "7577MB" of memory`},
		{"negative", `"70m"`, `"-70m"`, "kubeReserved"},
		{"price", `"0.096"`, `"cheap"`, "price of on-demand"},
		{"json", `"kind"`, `kind`, "reading the catalogue"},
	} {
		_, err := listing.Decode([]byte(strings.Replace(small, c.old, c.with, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
	if _, err := listing.DecodeOfferings([]byte(`{"kind": "PodList"}`)); err == nil {
		t.Error("a list of pods is no list of offerings")
	}
}

func TestAmount(t *testing.T) {
	for _, c := range []struct {
		resource, text string
		want           int64
	}{
		{"cpu", "1650m", 1650}, {"cpu", "2", 2000}, {"cpu", "0.1", 100}, {"cpu", "0.0001", 1}, {"memory", "1Ki", 1024}, {"memory", "1.5Gi", 3 << 29},
		{"memory", "1G", 1_000_000_000}, {"memory", "100m", 1}, {"pods", "29", 29}, {"memory", "2Ti", 2 << 40}, {"memory", "3k", 3000}, {"memory", "3M", 3_000_000},
	} {
		if got, err := listing.Amount(c.resource, c.text); err != nil || got != c.want {
			t.Errorf("%s %s: got %d, %v, want %d", c.resource, c.text, got, err, c.want)
		}
	}
}

// An item of a reservation says of its offering alone whether and how often it can be bought.
func TestApplyReservation(t *testing.T) {
	o, err := listing.DecodeOfferings([]byte(`{"apiVersion": "cli.karp.sh/v1alpha1", "kind": "OfferingList", "items": [
		{"type": "m5.large", "zone": "us-east-1a", "capacityType": "reserved", "reservationID": "cr-1", "reservationCount": 3, "available": true, "price": "0.000000009"},
		{"type": "m5.large", "zone": "us-east-1a", "capacityType": "reserved", "reservationID": "cr-2", "available": false, "reason": "ReservationCapacityExceeded"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []catalog.Offering{
		{Zone: "us-east-1a", CapacityType: "reserved", ReservationID: "cr-1", ReservationCount: 3, Available: true, Price: 9},
		{Zone: "us-east-1a", CapacityType: "reserved", ReservationID: "cr-2", Unavailable: catalog.Unavailability{Reason: "ReservationCapacityExceeded"}},
		{Zone: "us-east-1a", CapacityType: "on-demand", Available: true, Price: 5},
	} {
		got := catalog.Offering{Zone: want.Zone, CapacityType: want.CapacityType, ReservationID: want.ReservationID}
		if want.CapacityType == "on-demand" {
			got = want
		}
		o.Apply("m5.large", &got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("offering (-want +got):\n%s", diff)
		}
	}
}
