package v1

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

var clusterTag = regexp.MustCompile(`^kubernetes\.io/cluster/[0-9A-Za-z][A-Za-z0-9\-_]*$`)

// ValidateTags reports the tags that the controller sets itself. The schema refuses them too, but a stored object may be
// older than the schema. The result belongs into ValidationSucceeded, reason TagValidationFailed.
func (c *EC2NodeClass) ValidateTags() error {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(c.Spec.Tags)) {
		reserved := []string{TagNodePool, TagNodeClaim, TagEC2NodeClass, TagClusterName}
		if slices.Contains(reserved, key) || clusterTag.MatchString(key) {
			errs = append(errs, fmt.Errorf("spec.tags[%s]: is set by the controller; remove it", key))
		}
	}
	return errors.Join(errs...)
}
