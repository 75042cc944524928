// Package units holds the two quantities the engine computes with: amounts of resources and money.
//
// All arithmetic is on int64, so that the same input gives the same result on every machine.
package units

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Names of the resources every node has. Extended resources appear under the names Kubernetes uses.
const (
	CPU              = "cpu"               // millicores
	Memory           = "memory"            // bytes
	EphemeralStorage = "ephemeral-storage" // bytes
	Pods             = "pods"              // count
	Nodes            = "nodes"             // pseudo resource of NodePool limits: 1 a node
)

// List is an amount per resource name. CPU is in millicores, everything else in the base unit of its
// Kubernetes quantity (bytes, count), rounded up. A missing name is 0. List is the exchange form between
// packages; the engine keeps its own dense vectors.
type List map[string]int64

// Clone returns an independent copy.
func (l List) Clone() List { return maps.Clone(l) }

// Names returns the resource names in ascending order.
func (l List) Names() []string { return slices.Sorted(maps.Keys(l)) }

// Add returns l + m.
func (l List) Add(m List) List {
	out := make(List, len(l)+len(m))
	maps.Copy(out, l)
	for k, v := range m {
		out[k] += v
	}
	return out
}

// Sub returns l - m; results may be negative.
func (l List) Sub(m List) List {
	out := make(List, len(l)+len(m))
	maps.Copy(out, l)
	for k, v := range m {
		out[k] -= v
	}
	return out
}

// Max returns the element-wise maximum.
func (l List) Max(m List) List {
	out := l.Clone()
	if out == nil {
		out = List{}
	}
	for k, v := range m {
		if have, ok := out[k]; !ok || v > have {
			out[k] = v
		}
	}
	return out
}

// Fits reports whether request fits into free: no amount in free is negative and no requested amount
// exceeds it. A zero request for an unknown resource fits (scheduling rules 5.2).
func Fits(request, free List) bool {
	for _, v := range free {
		if v < 0 {
			return false
		}
	}
	for k, v := range request {
		if v > free[k] {
			return false
		}
	}
	return true
}

// Money is an amount in nano-dollars (10^-9 USD). Prices are per hour. The scale keeps a reserved offering
// (on-demand / 10^7) above zero and the sum over 10,000 of the dearest instances far from overflow.
type Money int64

// Dollar is one USD.
const Dollar Money = 1_000_000_000

// FromDollars converts a decimal price such as 0.0416, rounding to the nearest nano-dollar.
func FromDollars(d float64) Money {
	if d < 0 {
		return -FromDollars(-d)
	}
	return Money(d*float64(Dollar) + 0.5)
}

// Dollars returns the amount as a floating-point number, for display and ratios only.
func (m Money) Dollars() float64 { return float64(m) / float64(Dollar) }

// Decimal returns the exact amount as a decimal string without trailing zeros, for JSON ("0.0416").
func (m Money) Decimal() string {
	return strconv.FormatFloat(m.Dollars(), 'f', -1, 64)
}

// PerHour formats the amount for people: three decimals, as in "$0.042/h".
func (m Money) PerHour() string { return fmt.Sprintf("$%.3f/h", m.Dollars()) }
