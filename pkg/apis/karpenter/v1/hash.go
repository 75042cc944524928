package v1

import (
	"strconv"

	"github.com/karp-sh/karp/pkg/apis/internal/canonical"
)

// HashVersion names what Hash covers and how it computes. Hashes of different versions are not compared: the owner stamps
// them anew instead. It must change when a default of a hashed field changes, when a field that objects already have
// becomes hashed, or when one leaves the hash.
const HashVersion = "karp1"

// Hash covers the template but for its requirements, which drift is checked for separately. Lists count as sets, empty
// equals absent, durations count by value.
func (p *NodePool) Hash() string {
	t := p.Spec.Template.DeepCopy()
	t.Spec.Requirements = nil
	if d := t.Spec.TerminationGracePeriod; d != nil {
		*d = Duration(strconv.FormatInt(int64(d.Value()), 10))
	}
	if d := t.Spec.ExpireAfter; d != nil {
		if value, ends := d.Value(); ends {
			*d = DurationOrNever(strconv.FormatInt(int64(value), 10))
		}
	}
	hash, err := canonical.Hash(t)
	if err != nil {
		return "" // cannot be: the template is made of texts, numbers, lists and maps
	}
	return hash
}
