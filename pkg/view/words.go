package view

import (
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/reason/words"
)

// Amount spells a quantity of a resource as package words does.
func Amount(resource string, n int64) string { return words.Amount(resource, n) }

// Duration spells a duration in at most two units, as package words does.
func Duration(d time.Duration) string { return words.Duration(d) }

// Clock spells an instant as seen at another, as package words does.
func Clock(t, at time.Time, zone *time.Location) string { return words.Clock(t, at, zone) }

// Percent spells a fraction with one decimal, as package words does.
func Percent(f float64) string { return words.Percent(f) }

func quantity(resource string, n int64) string { return words.Quantity(resource, n) }
func list(names []string) string               { return words.List(names) }
func either(names []string) string             { return words.Either(names) }
func count(n int, noun string) string          { return words.Count(n, noun) }
func nonEmpty(texts ...string) []string        { return words.NonEmpty(texts...) }
func selector(key, wants string) string        { return words.Selector(key, wants) }
func taintOf(c reason.ConstraintMiss) string   { return words.Taint(c) }
func purchase(p reason.Purchase) string        { return words.Purchase(p) }
func detail(code, text string) string          { return strings.Join(nonEmpty(code, text), ": ") }
