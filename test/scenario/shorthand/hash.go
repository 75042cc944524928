package shorthand

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

// poolHash is a stand-in for the hash of a pool's template: what matters in a scenario is whether two are equal.
func poolHash(np *karpv1.NodePool) string {
	t := np.Spec.Template.DeepCopy()
	t.Spec.Requirements = nil
	text, err := json.Marshal(t)
	if err != nil {
		return ""
	}
	h := fnv.New64a()
	h.Write(text)
	return strconv.FormatUint(h.Sum64(), 10)
}
