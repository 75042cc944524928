package ec2types

import (
	"errors"
	"fmt"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/pkg/units"
)

// overhead returns what of the computed capacity pods cannot use.
func overhead(t *ec2data.Type, c *Class, capacity units.List) (catalog.Overhead, error) {
	kube := units.List{
		units.CPU:              reservedCPU(capacity[units.CPU]),
		units.Memory:           (11*memoryPods(t, c, capacity) + 255) * mib,
		units.EphemeralStorage: gib,
	}
	system := units.List{}
	eviction := units.List{
		units.Memory:           100 * mib,
		units.EphemeralStorage: (capacity[units.EphemeralStorage] + 9) / 10,
	}
	err := errors.Join(
		replace(kube, "kubeReserved", c.Kubelet.KubeReserved),
		replace(system, "systemReserved", c.Kubelet.SystemReserved),
		threshold(eviction, c, capacity, "memory.available", units.Memory),
		threshold(eviction, c, capacity, "nodefs.available", units.EphemeralStorage),
	)
	return catalog.Overhead{KubeReserved: kube, SystemReserved: system, EvictionThreshold: eviction}, err
}

// reservedCPU is the kubelet's share of the CPU in millicores: tiers of the cores, each truncated.
func reservedCPU(milli int64) int64 {
	tiers := []struct{ width, perMyriad int64 }{{1000, 600}, {1000, 100}, {2000, 50}, {milli, 25}}
	var out int64
	for _, tier := range tiers {
		part := min(max(milli, 0), tier.width)
		out += part * tier.perMyriad / 10_000
		milli -= part
	}
	return out
}

// memoryPods is the number of pods that the memory reservation counts: what the network could carry where the image's
// bootstrap computes it so, the real number elsewhere.
func memoryPods(t *ec2data.Type, c *Class, capacity units.List) int64 {
	switch c.Family {
	case AL2, AL2023, Custom:
		return eniPods(t, 0, c)
	default:
		return capacity[units.Pods]
	}
}

// replace overwrites amounts by those the class gives. Process ids are no resource of the scheduler.
func replace(list units.List, field string, values map[string]string) error {
	var errs []error
	for name, text := range values {
		if name == "pid" {
			continue
		}
		scale := int64(1)
		if name == units.CPU {
			scale = 1000
		}
		v, err := parseQuantity(text, scale)
		if err != nil {
			errs = append(errs, fmt.Errorf("kubelet.%s[%s]: %w", field, name, err))
			continue
		}
		list[name] = v
	}
	return errors.Join(errs...)
}

func threshold(list units.List, c *Class, capacity units.List, key, resource string) error {
	text := c.Kubelet.EvictionHard[key]
	if text == "" {
		return nil
	}
	v, err := signal(text, capacity[resource])
	if err != nil {
		return fmt.Errorf("kubelet.evictionHard[%s]: %w", key, err)
	}
	list[resource] = v
	return nil
}
