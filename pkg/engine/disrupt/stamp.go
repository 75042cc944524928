package disrupt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/karp-sh/karp/pkg/cluster"
)

// Stamp identifies what has to change before methods that were exhausted find something new (rules 11): nodes, their state and whether they are
// Consolidatable, which pods run where, and the pools. While it stays the same, and for five minutes at most, they may be skipped.
func Stamp(s *cluster.Snapshot) string {
	h := sha256.New()
	for _, t := range s.Targets() {
		if t.Claim != nil && t.Claim.ProviderID == "" {
			continue // it counts once it is launched
		}
		_, _ = fmt.Fprintf(h, "%q %v", t.Name, t.Initialized)
		if c := t.Claim; c != nil {
			_, _ = fmt.Fprintf(h, " %v %v %v", c.Consolidatable, c.Deleted.IsZero(), c.Terminating)
		} else {
			_, _ = fmt.Fprintf(h, " %v", t.Node.Deleted.IsZero())
		}
	}
	for _, p := range s.Pods {
		if p.Buffer == "" && p.Node != "" {
			h.Write([]byte(p.UID + " " + p.Node + "\n"))
		}
	}
	for _, p := range s.Pools {
		_, _ = fmt.Fprintf(h, "%q %d", p.UID, p.Generation)
		if p.Catalog != nil {
			_, _ = fmt.Fprintf(h, " %s", p.Catalog.Digest())
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
