package cloud

import (
	"slices"
	"time"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
)

// Checks that EC2 makes of a launch beyond that what it names exists: what the
// type and the subnet can do, and what volumes may be.

func (c *Cloud) prepareInterfaces(p *pool, _ time.Time) *Error {
	network := &p.typ.Network
	if n := len(p.spec.Interfaces); n > network.MaxENIs {
		return fail("AttachmentLimitExceeded", "Interface count %d exceeds the limit for %s", n, p.typ.Name)
	}
	efas := 0
	for _, n := range p.spec.Interfaces {
		if n.Type == "efa" || n.Type == "efa-only" {
			efas++
		}
		if _, ok := network.Card(deref(n.Card)); !ok {
			return fail("InvalidParameterValue", "Network card index %d is not valid for the instance type %s.", deref(n.Card), p.typ.Name)
		}
		if err := p.checkAddresses(n); err != nil {
			return err
		}
	}
	if efas > 0 && network.MaxEFA == 0 {
		return fail("InvalidParameterCombination", "Elastic Fabric Adapter (EFA) is not supported on the instance type %s.", p.typ.Name)
	}
	if efas > network.MaxEFA {
		return fail("AttachmentLimitExceeded", "EFA interface count %d exceeds the limit of %d for %s", efas, network.MaxEFA, p.typ.Name)
	}
	return nil
}

func (p *pool) checkAddresses(n InterfaceSpec) *Error {
	network := &p.typ.Network
	prefixes, v6 := deref(n.IPv4Prefixes), deref(n.IPv6Addresses)+deref(n.IPv6Prefixes)
	switch {
	case prefixes+deref(n.IPv6Prefixes) > 0 && p.typ.Hypervisor != "nitro" && !p.typ.Flags.BareMetal:
		return fail("InvalidParameterValue", "The instance type %s does not support prefix delegation.", p.typ.Name)
	case prefixes+deref(n.SecondaryAddresses) > network.IPv4PerENI-1:
		return fail("PrivateIpAddressLimitExceeded", "Number of private addresses will exceed limit of %d for %s.", network.IPv4PerENI, p.typ.Name)
	case v6 > 0 && p.subnet.IPv6CIDR == "":
		return fail("InvalidParameterValue", "The subnet '%s' does not have an IPv6 CIDR block.", p.subnet.ID)
	case v6 > network.IPv6PerENI:
		return fail("Ipv6AddressLimitExceeded", "Number of IPv6 addresses will exceed limit of %d for %s.", network.IPv6PerENI, p.typ.Name)
	case n.Type == "efa-only" && prefixes+v6 > 0:
		return fail("InvalidParameterCombination", "An interface of type efa-only cannot have addresses.")
	}
	return nil
}

func (c *Cloud) prepareCPU(p *pool, _ time.Time) *Error {
	o := p.spec.CPU
	if o == nil {
		return nil
	}
	if deref(o.Cores) > p.typ.Cores || deref(o.ThreadsPerCore) > p.typ.ThreadsPerCore {
		return fail("InvalidParameterValue", "The specified CPU options are not valid for the instance type %s.", p.typ.Name)
	}
	return nil
}

// A volumeLimit is what a type of volume may be. Source: EBS user guide.
type volumeLimit struct {
	minGiB, maxGiB   int64
	minIOPS, maxIOPS int // 0: not settable
	maxThroughput    int // 0: not settable
}

func volumeLimits() map[string]volumeLimit {
	return map[string]volumeLimit{
		"gp2": {1, 16384, 0, 0, 0}, "gp3": {1, 65536, 3000, 80000, 2000}, "io1": {4, 16384, 100, 64000, 0}, "io2": {4, 65536, 100, 256000, 0},
		"st1": {125, 16384, 0, 0, 0}, "sc1": {125, 16384, 0, 0, 0}, "standard": {1, 1024, 0, 0, 0},
	}
}

func (c *Cloud) prepareVolumes(p *pool, _ time.Time) *Error {
	for _, d := range p.spec.BlockDevices {
		if d.EBS == nil {
			continue
		}
		at := slices.IndexFunc(p.image.Devices(), func(own ImageDevice) bool { return own.Device == d.Device })
		size := deref(d.EBS.SizeGiB)
		if at >= 0 {
			own := p.image.Devices()[at]
			orElse(&size, own.SizeGiB)
			if size < own.SizeGiB {
				return fail("InvalidBlockDeviceMapping", "Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB", size, p.image.Snapshot(), own.SizeGiB)
			}
		}
		if size == 0 && d.EBS.Snapshot == "" {
			return fail("MissingParameter", "The request must contain the parameter size or snapshotId")
		}
		if err := checkVolume(d.EBS, size); err != nil {
			return err
		}
	}
	return nil
}

func checkVolume(v *Volume, size int64) *Error {
	kind := v.Type
	orElse(&kind, "gp3")
	l, known := volumeLimits()[kind]
	iops, throughput := deref(v.IOPS), deref(v.Throughput)
	switch {
	case !known:
		return fail("InvalidParameterValue", "Value (%s) for parameter volumeType is invalid.", kind)
	case size != 0 && (size < l.minGiB || size > l.maxGiB):
		return fail("InvalidParameterValue", "Volume of %dGiB is not valid for volume type %s; must be between %dGiB and %dGiB.", size, kind, l.minGiB, l.maxGiB)
	case iops != 0 && l.maxIOPS == 0:
		return fail("InvalidParameterCombination", "The parameter iops is not supported for %s volumes.", kind)
	case throughput != 0 && l.maxThroughput == 0:
		return fail("InvalidParameterCombination", "The parameter throughput is not supported for %s volumes.", kind)
	case iops != 0 && (iops < l.minIOPS || iops > l.maxIOPS):
		return fail("InvalidParameterValue", "Volume iops of %d is not valid; it must be between %d and %d.", iops, l.minIOPS, l.maxIOPS)
	case throughput != 0 && (throughput < 125 || throughput > l.maxThroughput):
		return fail("InvalidParameterValue", "Throughput of %d MiBps is not valid; it must be between 125 and %d.", throughput, l.maxThroughput)
	case throughput > max(iops, l.minIOPS)/4 && throughput != 0:
		return fail("InvalidParameterValue", "Throughput (MiBps) to iops ratio is too high; maximum is 0.250000 MiBps per iops.")
	case kind[:2] == "io" && iops == 0:
		return fail("MissingParameter", "The request must contain the parameter iops for %s volumes.", kind)
	}
	return nil
}

// quotaOf names the vCPU quota a type counts against. Source: EC2 quotas.
func quotaOf(t *ec2data.Type) string {
	family := t.Family()
	for _, q := range []struct {
		name     string
		prefixes []string
	}{
		{"DL", []string{"dl"}}, {"Trn", []string{"trn"}}, {"Inf", []string{"inf"}}, {"HPC", []string{"hpc"}}, {"High Memory", []string{"u-", "u7"}},
		{"G and VT", []string{"g", "vt"}}, {"P", []string{"p"}}, {"F", []string{"f"}}, {"X", []string{"x"}},
	} {
		if slices.ContainsFunc(q.prefixes, func(prefix string) bool { return len(family) > len(prefix) && family[:len(prefix)] == prefix }) {
			return q.name
		}
	}
	return "Standard"
}
