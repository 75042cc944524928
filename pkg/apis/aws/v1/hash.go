package v1

import (
	"time"

	"github.com/karp-sh/karp/pkg/apis/internal/canonical"
)

// HashVersion names what Hash covers and how it computes; see the constant of the same name for NodePool.
const HashVersion = "karp1"

// hashed is what Hash covers.
type hashed struct {
	Spec     EC2NodeClassSpec `json:"spec"`
	Family   AMIFamily        `json:"family"`
	CABundle string           `json:"caBundle"`
}

// Hash covers what a new instance gets at its launch and an old one cannot be given: the spec without what is compared
// with the status instead (the selector terms) and without ipPrefixCount; the family in effect; the cluster's CA bundle.
// Lists count as sets, empty equals absent, an absent number or bool differs from 0 or false.
func (c *EC2NodeClass) Hash(caBundle string) string {
	h := hashed{Spec: *c.Spec.DeepCopy(), Family: c.Family(), CABundle: caBundle}
	h.Spec.SubnetSelectorTerms = nil
	h.Spec.SecurityGroupSelectorTerms = nil
	h.Spec.CapacityReservationSelectorTerms = nil
	h.Spec.AMISelectorTerms = nil
	h.Spec.AMIFamily = nil
	h.Spec.IPPrefixCount = nil
	for i := range h.Spec.BlockDeviceMappings {
		canonicalSize(h.Spec.BlockDeviceMappings[i].EBS)
	}
	if k := h.Spec.Kubelet; k != nil {
		canonicalDurations(k.EvictionSoftGracePeriod)
	}
	hash, err := canonical.Hash(h)
	if err != nil {
		return "" // cannot be: the spec is made of texts, numbers, lists and maps
	}
	return hash
}

// canonicalSize makes 1024Gi and 1Ti equal.
func canonicalSize(d *BlockDevice) {
	if d == nil || d.VolumeSize == nil {
		return
	}
	if q, err := d.VolumeSize.Quantity(); err == nil {
		*d.VolumeSize = VolumeSize(q.String())
	}
}

// canonicalDurations makes 60s and 1m equal.
func canonicalDurations(m map[string]string) {
	for k, text := range m {
		if d, err := time.ParseDuration(text); err == nil {
			m[k] = d.String()
		}
	}
}
