package ec2types

import (
	"fmt"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
)

// Incompatible says why the type cannot run under the class, or returns "".
func Incompatible(t *ec2data.Type, c *Class) string {
	switch {
	case c.Family == AL2023 && strings.HasPrefix(t.Name, "a1."):
		return "AL2023 does not run on a1 instances"
	case c.Family.Windows() && Arch(t) != "amd64":
		return "Windows runs on amd64 only"
	case c.NestedVirtualization && !slices.Contains(t.ProcessorFeatures, "nested-virtualization"):
		return "the type has no nested virtualization"
	case c.ConnectionTracking && t.Hypervisor != "nitro":
		return "connection tracking needs the nitro hypervisor"
	case c.PlacementGroup != nil && !slices.Contains(t.PlacementStrategies, c.PlacementGroup.Strategy):
		return fmt.Sprintf("the type cannot be in a placement group of strategy %s", c.PlacementGroup.Strategy)
	}
	return incompatibleNICs(t, c.NICs)
}

func incompatibleNICs(t *ec2data.Type, nics []NIC) string {
	if len(nics) == 0 {
		return ""
	}
	if len(t.Network.Cards) == 0 || t.Network.ENA == "unsupported" {
		return "the type has no enhanced networking"
	}
	for _, nic := range nics {
		card, ok := t.Network.Card(nic.Card)
		if !ok {
			return fmt.Sprintf("the type has no network card %d", nic.Card)
		}
		if nic.Device >= card.MaxENIs {
			return fmt.Sprintf("network card %d takes %d interfaces", nic.Card, card.MaxENIs)
		}
	}
	if n := efaOnly(nics, -1); n > t.Network.MaxEFA {
		return fmt.Sprintf("the type has %d EFA interfaces, the class wants %d", t.Network.MaxEFA, n)
	}
	return ""
}
