package v1

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
)

// WellKnownLabels are the labels that pods may select although the pool does not mention them: the instance type tells.
func WellKnownLabels() []string {
	return append(coreLabels(), awsv1.WellKnownLabels()...)
}

func coreLabels() []string {
	return []string{
		NodePoolLabel, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable,
		corev1.LabelArchStable, corev1.LabelOSStable, CapacityTypeLabel, corev1.LabelWindowsBuild,
	}
}

// IsWellKnown reports whether a label is one of WellKnownLabels.
func IsWellKnown(key string) bool {
	return slices.Contains(coreLabels(), key) || awsv1.IsWellKnown(key)
}

// IsRestricted reports whether a label may be neither set by a pool nor selected by a pod: it is not well known, and is the
// host name or in a domain (or a subdomain of one) that the controller owns. The schema is stricter in its own way: it
// tests the end of the domain without regard for dots.
func IsRestricted(key string) bool {
	if IsWellKnown(key) {
		return false
	}
	if key == corev1.LabelHostname {
		return true
	}
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	for _, own := range []string{Group, awsv1.Group} {
		if domain == own || strings.HasSuffix(domain, "."+own) {
			return true
		}
	}
	return false
}

// NormalizeLabel is the current name of a label that has an older one, and the key itself otherwise. It applies to pods,
// pools and volumes before anything is compared.
func NormalizeLabel(key string) string {
	switch key {
	case corev1.LabelFailureDomainBetaZone, awsv1.LabelTopologyZoneEBS:
		return corev1.LabelTopologyZone
	case corev1.LabelFailureDomainBetaRegion:
		return corev1.LabelTopologyRegion
	case "beta.kubernetes.io/arch":
		return corev1.LabelArchStable
	case "beta.kubernetes.io/os":
		return corev1.LabelOSStable
	case corev1.LabelInstanceType:
		return corev1.LabelInstanceTypeStable
	}
	return key
}

// KnownValues are the values that a label can have, or nil for a label with any.
func KnownValues(key string) []string {
	switch key {
	case CapacityTypeLabel:
		return []string{CapacityTypeOnDemand, CapacityTypeSpot, CapacityTypeReserved}
	case awsv1.LabelInstanceTenancy:
		return []string{awsv1.TenancyDefault, awsv1.TenancyDedicated}
	}
	return nil
}
