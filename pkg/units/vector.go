package units

import (
	"maps"
	"math"
	"slices"
)

// Axis numbers resource names, so that amounts can be kept in dense vectors while many of them are compared. It is immutable.
type Axis struct {
	names []string
	index map[string]int
}

// NewAxis numbers the names that occur in the lists, in ascending order.
func NewAxis(lists ...List) *Axis {
	set := map[string]bool{}
	for _, l := range lists {
		for k := range l {
			set[k] = true
		}
	}
	a := &Axis{names: slices.Sorted(maps.Keys(set)), index: make(map[string]int, len(set))}
	for i, n := range a.names {
		a.index[n] = i
	}
	return a
}

// Names returns the resource names by number.
func (a *Axis) Names() []string { return a.names }

// Len is the number of resources.
func (a *Axis) Len() int { return len(a.names) }

// Index returns the number of a resource.
func (a *Axis) Index(name string) (int, bool) {
	i, ok := a.index[name]
	return i, ok
}

// Vector returns the amounts of a list in the order of the axis. Names the axis does not have are left out.
func (a *Axis) Vector(l List) Vector {
	v := make(Vector, len(a.names))
	for k, n := range l {
		if i, ok := a.index[k]; ok {
			v[i] = n
		}
	}
	return v
}

// List returns the non-zero amounts of a vector by name.
func (a *Axis) List(v Vector) List {
	out := List{}
	for i, n := range v {
		if n != 0 {
			out[a.names[i]] = n
		}
	}
	return out
}

// Vector is an amount per resource of an Axis.
type Vector []int64

// Add adds k times o.
func (v Vector) Add(o Vector, k int64) {
	for i := range v {
		v[i] += k * o[i]
	}
}

// Minus returns v - o in a new vector.
func (v Vector) Minus(o Vector) Vector {
	out := make(Vector, len(v))
	for i := range v {
		out[i] = v[i] - o[i]
	}
	return out
}

// FitsIn reports whether no amount exceeds what is free. Free amounts must not be negative.
func (v Vector) FitsIn(free Vector) bool {
	for i, n := range v {
		if n > free[i] {
			return false
		}
	}
	return true
}

// Times returns how often v fits into free, at most limit times.
func (v Vector) Times(free Vector, limit int) int {
	k := int64(limit)
	for i, n := range v {
		switch {
		case free[i] < 0:
			return 0
		case n > 0 && k > 0:
			k = min(k, free[i]/n)
		}
	}
	return int(min(k, math.MaxInt32))
}
