package cloud

import (
	"cmp"
	"slices"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog/ec2types"
)

// Family returns the image family of the class: the field, else that of the alias, else Custom.
func Family(spec *awsv1.EC2NodeClassSpec) ec2types.Family {
	if spec.AMIFamily != nil {
		return ec2types.Family(*spec.AMIFamily)
	}
	for _, t := range spec.AMISelectorTerms {
		if f, ok := ec2types.FamilyOfAlias(t.Alias); ok {
			return f
		}
	}
	return ec2types.Custom
}

// TypesOf returns what of a node class shapes its instance types, in the neutral form from which both agent and plugin derive them. Zones are
// those of the subnets in the status. Reservations carry no free count, and the placement group is not resolved: the provider adds both.
func TypesOf(class *awsv1.EC2NodeClass) ec2types.Class {
	spec := &class.Spec
	out := ec2types.Class{
		Family:               Family(spec),
		BlockDevices:         devices(spec.BlockDeviceMappings),
		RAID0:                spec.InstanceStorePolicy != nil && *spec.InstanceStorePolicy == awsv1.InstanceStoreRAID0,
		NestedVirtualization: spec.CPUOptions != nil && spec.CPUOptions.NestedVirtualization != nil && *spec.CPUOptions.NestedVirtualization == awsv1.NestedVirtualizationEnabled,
		ConnectionTracking:   spec.ConnectionTracking != nil,
		Zones:                zones(class.Status.Subnets),
	}
	out.Reservations = reservations(class.Status.CapacityReservations)
	for _, n := range spec.NetworkInterfaces {
		out.NICs = append(out.NICs, ec2types.NIC{
			Card: int(n.NetworkCardIndex), Device: int(n.DeviceIndex), EFAOnly: n.InterfaceType == awsv1.InterfaceTypeEFAOnly,
		})
	}
	if k := spec.Kubelet; k != nil {
		out.Kubelet = ec2types.Kubelet{MaxPods: k.MaxPods, KubeReserved: k.KubeReserved, SystemReserved: k.SystemReserved, EvictionHard: k.EvictionHard}
		if k.PodsPerCore != nil {
			out.Kubelet.PodsPerCore = *k.PodsPerCore
		}
	}
	return out
}

func reservations(list []awsv1.CapacityReservation) []ec2types.Reservation {
	var out []ec2types.Reservation
	for _, c := range list {
		out = append(out, ec2types.Reservation{
			ID: c.ID, InstanceType: c.InstanceType, Zone: c.AvailabilityZone, Kind: string(cmp.Or(c.ReservationType, awsv1.ReservationDefault)),
			Interruptible: c.Interruptible != nil && *c.Interruptible, Expiring: c.State == awsv1.ReservationExpiring,
		})
	}
	return out
}

// devices converts the mappings. A size that is none, such as the bare unit "Ti" which the schema admits, counts as not given; so does that
// of a mapping without a volume.
func devices(mappings []awsv1.BlockDeviceMapping) []ec2types.BlockDevice {
	var out []ec2types.BlockDevice
	for _, m := range mappings {
		if m.EBS == nil {
			continue
		}
		d := ec2types.BlockDevice{Root: m.RootVolume}
		if m.DeviceName != nil {
			d.Name = *m.DeviceName
		}
		if m.EBS.VolumeSize != nil {
			if bytes, err := ec2types.ParseBytes(string(*m.EBS.VolumeSize)); err == nil {
				d.Bytes = bytes
			}
		}
		out = append(out, d)
	}
	return out
}

func zones(subnets []awsv1.Subnet) []ec2types.Zone {
	var out []ec2types.Zone
	for _, s := range subnets {
		known := slices.IndexFunc(out, func(z ec2types.Zone) bool { return z.Name == s.Zone })
		if known < 0 {
			out = append(out, ec2types.Zone{Name: s.Zone, ID: s.ZoneID})
		} else if out[known].ID == "" {
			out[known].ID = s.ZoneID
		}
	}
	slices.SortFunc(out, func(a, b ec2types.Zone) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
