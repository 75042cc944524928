package record

import (
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/listing"
)

// Retry is how long after a failed launch the offering is left alone (Karpenter and karp: 3 minutes).
const Retry = 3 * time.Minute

// soldOut matches EC2's message for a type that a zone has no room for.
var soldOut = regexp.MustCompile(`sufficient ([a-z0-9-]+\.[a-z0-9-]+) capacity in the Availability Zone you requested \(([a-z0-9-]+)\)`)

// quota matches the codes of the account's quotas.
var quota = regexp.MustCompile(`MaxSpotInstanceCountExceeded|VcpuLimitExceeded|InstanceLimitExceeded`)

// Closed reads from events which offerings could not be bought a moment ago. It is what is known without an agent: who watches from outside
// sees when a launch failed, not when it is tried again, so Until stays unknown.
func Closed(events []*corev1.Event, claims []*karpv1.NodeClaim, at time.Time) listing.Offerings {
	buyAs := map[string]string{}
	for _, c := range claims {
		buyAs[c.Name] = capacityType(c)
	}
	out := listing.Offerings{APIVersion: listing.APIVersion, Kind: listing.OfferingKind}
	for _, e := range events {
		x := event(e)
		if x.Last.After(at) || at.Sub(x.Last) > Retry {
			continue
		}
		for _, o := range closed(x.Message, buyAs[x.Object.Name]) {
			if !slices.Contains(out.Items, o) {
				out.Items = append(out.Items, o)
			}
		}
	}
	return out
}

// closed are the offerings a message speaks of. The claim is usually gone by then; EC2 words it like this for on-demand, and names no type when
// spot is short.
func closed(message, buyAs string) []listing.Offering {
	var out []listing.Offering
	if buyAs == "" {
		buyAs = catalog.OnDemand
	}
	for _, m := range soldOut.FindAllStringSubmatch(message, -1) {
		out = append(out, listing.Offering{Type: m[1], Zone: m[2], CapacityType: buyAs, Reason: "InsufficientInstanceCapacity"})
	}
	for _, code := range quota.FindAllString(message, -1) {
		full := catalog.OnDemand
		if code == "MaxSpotInstanceCountExceeded" {
			full = catalog.Spot
		}
		out = append(out, listing.Offering{CapacityType: full, Reason: code})
	}
	return out
}

// capacityType is the one a claim must be bought with, empty if it may choose.
func capacityType(c *karpv1.NodeClaim) string {
	if v := c.Labels[karpv1.CapacityTypeLabel]; v != "" {
		return v
	}
	for _, r := range c.Spec.Requirements {
		if r.Key == karpv1.CapacityTypeLabel && r.Operator == karpv1.In && len(r.Values) == 1 {
			return r.Values[0]
		}
	}
	return ""
}
