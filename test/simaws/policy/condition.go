package policy

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// An operator is a condition operator with its prefix and suffix.
type operator struct {
	compare  func(have, want string) bool
	negated  bool   // Not…: true when none of the wanted values matches
	set      string // "", ForAllValues, ForAnyValue
	ifExists bool
	null     bool
}

// comparisons are the operators without Not, prefixes and suffixes.
func comparisons() map[string]func(have, want string) bool {
	return map[string]func(have, want string) bool{
		"StringEquals":           func(have, want string) bool { return have == want },
		"StringEqualsIgnoreCase": strings.EqualFold,
		"StringLike":             func(have, want string) bool { return Match(want, have) },
		"ArnEquals":              matchARN,
		"ArnLike":                matchARN,
		"BinaryEquals":           func(have, want string) bool { return have == want },
		"Bool":                   strings.EqualFold,
		"IpAddress":              inNetwork,
		"NumericEquals":          numeric(func(c int) bool { return c == 0 }),
		"NumericLessThan":        numeric(func(c int) bool { return c < 0 }),
		"NumericLessThanEquals":  numeric(func(c int) bool { return c <= 0 }),
		"NumericGreaterThan":     numeric(func(c int) bool { return c > 0 }),
		"NumericGreaterThanEquals": numeric(func(c int) bool {
			return c >= 0
		}),
		"DateEquals":            date(func(c int) bool { return c == 0 }),
		"DateLessThan":          date(func(c int) bool { return c < 0 }),
		"DateLessThanEquals":    date(func(c int) bool { return c <= 0 }),
		"DateGreaterThan":       date(func(c int) bool { return c > 0 }),
		"DateGreaterThanEquals": date(func(c int) bool { return c >= 0 }),
	}
}

// negations are the operators with Not and what they negate.
func negations() map[string]string {
	return map[string]string{
		"StringNotEquals": "StringEquals", "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase", "StringNotLike": "StringLike",
		"ArnNotEquals": "ArnEquals", "ArnNotLike": "ArnLike", "NotIpAddress": "IpAddress",
		"NumericNotEquals": "NumericEquals", "DateNotEquals": "DateEquals",
	}
}

func parseOperator(name string) (operator, error) {
	var o operator
	bare := name
	for _, set := range []string{"ForAllValues", "ForAnyValue"} {
		if rest, ok := strings.CutPrefix(bare, set+":"); ok {
			o.set, bare = set, rest
		}
	}
	bare, o.ifExists = strings.CutSuffix(bare, "IfExists")
	if bare == "Null" {
		o.null = true
		if o.ifExists || o.set != "" {
			return o, fmt.Errorf("invalid condition type: %s", name)
		}
		return o, nil
	}
	if positive, ok := negations()[bare]; ok {
		o.negated, bare = true, positive
	}
	if o.compare = comparisons()[bare]; o.compare == nil {
		return o, fmt.Errorf("invalid condition type: %s", name)
	}
	return o, nil
}

// holds evaluates one condition of a request.
func (c *Condition) holds(r *Request) bool {
	have, exists := r.values(c.Key)
	o := c.test
	if o.null {
		return len(c.Values) > 0 && strings.EqualFold(c.Values[0], strconv.FormatBool(!exists))
	}
	if !exists {
		// Without the key: IfExists and ForAllValues hold, negated operators too.
		return o.ifExists || o.set == "ForAllValues" || o.negated && o.set == ""
	}
	one := func(v string) bool {
		for _, want := range c.Values {
			if o.compare(v, r.expand(want)) {
				return !o.negated
			}
		}
		return o.negated
	}
	if o.set == "ForAllValues" {
		for _, v := range have {
			if !one(v) {
				return false
			}
		}
		return true
	}
	for _, v := range have {
		if one(v) {
			return true
		}
	}
	return false
}

var variable = regexp.MustCompile(`\$\{[^}]*\}`)

// expand puts in policy variables; one without a value matches nothing.
func (r *Request) expand(s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	return variable.ReplaceAllStringFunc(s, func(v string) string {
		name, preset, _ := strings.Cut(v[2:len(v)-1], ",")
		name = strings.TrimSpace(name)
		if name == "*" || name == "?" || name == "$" {
			return name
		}
		if have, ok := r.values(name); ok && len(have) == 1 {
			return have[0]
		}
		if preset = strings.Trim(strings.TrimSpace(preset), "'"); preset != "" {
			return preset
		}
		return "\x00"
	})
}

// Match matches a pattern with the wildcards * and ?.
func Match(pattern, s string) bool {
	star, mark, i, j := -1, 0, 0, 0
	for j < len(s) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, j
			i++
		case i < len(pattern) && (pattern[i] == '?' || pattern[i] == s[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}

// matchARN compares the six parts one by one.
func matchARN(have, want string) bool {
	h, w := strings.SplitN(have, ":", 6), strings.SplitN(want, ":", 6)
	if want == "*" {
		return true
	}
	if len(h) != 6 || len(w) != 6 {
		return false
	}
	for i := range h {
		if !Match(w[i], h[i]) {
			return false
		}
	}
	return true
}

func inNetwork(have, want string) bool {
	addr, err := netip.ParseAddr(have)
	if err != nil {
		return false
	}
	if p, err := netip.ParsePrefix(want); err == nil {
		return p.Contains(addr)
	}
	w, err := netip.ParseAddr(want)
	return err == nil && w == addr
}

func numeric(ok func(int) bool) func(have, want string) bool {
	return func(have, want string) bool {
		h, err1 := strconv.ParseFloat(have, 64)
		w, err2 := strconv.ParseFloat(want, 64)
		if err1 != nil || err2 != nil {
			return false
		}
		switch {
		case h < w:
			return ok(-1)
		case h > w:
			return ok(1)
		}
		return ok(0)
	}
}

func date(ok func(int) bool) func(have, want string) bool {
	parse := func(s string) (time.Time, error) {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return time.Unix(n, 0), nil
		}
		return time.Parse(time.RFC3339, s)
	}
	return func(have, want string) bool {
		h, err1 := parse(have)
		w, err2 := parse(want)
		return err1 == nil && err2 == nil && ok(h.Compare(w))
	}
}
