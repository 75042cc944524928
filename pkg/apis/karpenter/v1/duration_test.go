package v1_test

import (
	"math"
	"testing"
	"time"

	v1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
)

func TestDuration(t *testing.T) {
	tests := map[string]time.Duration{
		"0s":                     0,
		"90m":                    90 * time.Minute,
		"1h30m":                  90 * time.Minute,
		"30m1h":                  90 * time.Minute,
		"1s1s":                   2 * time.Second,
		"720h":                   720 * time.Hour,
		"99999999999999999999h":  math.MaxInt64,
		"9223372036s9223372036s": math.MaxInt64,
		"2562047h":               2562047 * time.Hour,
		"2562048h":               math.MaxInt64,
		"":                       0,
		"5":                      0,
		"h":                      0,
		"1d":                     0,
		"-1s":                    0,
	}
	for text, want := range tests {
		if got := v1.Duration(text).Value(); got != want {
			t.Errorf("Duration(%q) = %v, want %v", text, got, want)
		}
		if got, ends := v1.DurationOrNever(text).Value(); got != want || !ends {
			t.Errorf("DurationOrNever(%q) = %v, %v, want %v, true", text, got, ends, want)
		}
	}
	if _, ends := v1.Never.Value(); ends {
		t.Error("Never ends")
	}
}
