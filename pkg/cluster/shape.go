package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/karp-sh/karp/pkg/constraint"
)

// NewShape returns s with its Key computed from all other fields.
func NewShape(s Shape) *Shape {
	s.Key = ""
	// A Shape is plain data and maps are written in key order, so this cannot fail and is the same everywhere.
	b, _ := json.Marshal(s)
	sum := sha256.Sum256(b)
	s.Key = hex.EncodeToString(sum[:16])
	return &s
}

// Matches reports whether the selector selects these labels. A nil selector selects nothing.
func (s *Selector) Matches(labels map[string]string) bool {
	if s == nil {
		return false
	}
	for k, v := range s.MatchLabels {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	for _, e := range s.Exprs {
		have, ok := labels[e.Key]
		match := false
		switch e.Operator {
		case constraint.In:
			match = ok && slices.Contains(e.Values, have)
		case constraint.NotIn:
			match = !ok || !slices.Contains(e.Values, have)
		case constraint.Exists:
			match = ok
		case constraint.DoesNotExist:
			match = !ok
		default: // selectors of labels know no bounds
		}
		if !match {
			return false
		}
	}
	return true
}
