package constraint

import (
	"fmt"
	"strings"
)

// Rule numbers a validation rule of the scheduling specification (2.2).
type Rule string

// The rules an expression of a pod can break.
const (
	V2 Rule = "V2" // malformed
	V3 Rule = "V3" // restricted key
	V4 Rule = "V4" // none of the values exists
)

// Problem is a rule that an expression breaks.
type Problem struct {
	Rule Rule
	Key  string
	Text string
}

// Validate checks an expression that a pod requires (rules V2 to V4). Nil means valid.
func Validate(e Expr) *Problem {
	key := Canonical(e.Key)
	if text := malformed(key, e); text != "" {
		return &Problem{V2, key, text}
	}
	if Restricted(key) {
		return &Problem{V3, key, "key is restricted"}
	}
	if known := closedValues(key); known != nil && e.Operator == In && New(e).Conflicts(NewIn(key, known...)) {
		return &Problem{V4, key, "none of the values exists, known are " + strings.Join(known, ", ")}
	}
	return nil
}

func malformed(key string, e Expr) string {
	if !QualifiedName(key) {
		return "key is not a qualified name"
	}
	switch e.Operator {
	case In, NotIn:
		if e.Operator == In && len(e.Values) == 0 {
			return "In needs a value"
		}
		for _, v := range e.Values {
			if !LabelValue(v) {
				return fmt.Sprintf("%q is not a label value", v)
			}
		}
	case Exists, DoesNotExist:
	case Gt, Lt, Gte, Lte:
		if len(e.Values) != 1 {
			return string(e.Operator) + " needs exactly one value"
		}
		if n, ok := integer(e.Values[0]); !ok || n < 0 {
			return fmt.Sprintf("%s needs a non-negative integer, not %q", e.Operator, e.Values[0])
		}
	default:
		return fmt.Sprintf("operator %q does not exist", e.Operator)
	}
	return ""
}

// QualifiedName reports whether s is a label key: an optional DNS subdomain and "/", then a name of at most 63 characters.
func QualifiedName(s string) bool {
	name := s
	if prefix, rest, ok := strings.Cut(s, "/"); ok {
		if !subdomain(prefix) {
			return false
		}
		name = rest
	}
	return name != "" && LabelValue(name)
}

// LabelValue reports whether s may be a label's value: empty, or at most 63 letters, digits, '-', '_' and '.', with a letter or digit at
// both ends.
func LabelValue(s string) bool {
	if s == "" {
		return true
	}
	if len(s) > 63 || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func subdomain(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !lowerAlphanumeric(label) {
			return false
		}
	}
	return true
}

func lowerAlphanumeric(label string) bool {
	if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
