package v1

import (
	"math"
	"time"
)

// Never is the text of a duration that never ends.
const Never DurationOrNever = "Never"

// Duration is a length of time in whole hours, minutes and seconds, as the user wrote it ("90m" stays "90m").
// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
type Duration string

// DurationOrNever is a Duration or the word Never.
// +kubebuilder:validation:Pattern=`^(([0-9]+(s|m|h))+|Never)$`
type DurationOrNever string

// Value is the length of time. A number too large for Go's type counts as the largest it can hold (292 years), so that
// no text which the schema admits can fail; text it does not admit is 0.
func (d Duration) Value() time.Duration { return parse(string(d)) }

// Value is the length of time, and false for Never.
func (d DurationOrNever) Value() (time.Duration, bool) {
	if d == Never {
		return 0, false
	}
	return parse(string(d)), true
}

// parse reads a sum of terms "<digits><s|m|h>", saturating.
func parse(text string) time.Duration {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour}
	var total, n time.Duration
	digits := 0
	for i := range len(text) {
		c := text[i]
		if c >= '0' && c <= '9' {
			n = add(multiply(n, 10), time.Duration(c-'0'))
			digits++
			continue
		}
		unit, ok := units[c]
		if !ok || digits == 0 {
			return 0
		}
		total = add(total, multiply(n, unit))
		n, digits = 0, 0
	}
	if digits > 0 {
		return 0
	}
	return total
}

func add(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func multiply(a, b time.Duration) time.Duration {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}
