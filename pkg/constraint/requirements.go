package constraint

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// Requirements is a conjunction of requirements, at most one a key, ordered by key. The zero value asks for nothing. It is a value:
// no method changes it.
type Requirements struct {
	list []Requirement
}

// Of returns the conjunction of the given requirements; several on one key are intersected.
func Of(rs ...Requirement) Requirements {
	list := slices.Clone(rs)
	slices.SortStableFunc(list, func(a, b Requirement) int { return cmp.Compare(a.Key, b.Key) })
	out := list[:0]
	for _, r := range list {
		if n := len(out); n > 0 && out[n-1].Key == r.Key {
			out[n-1] = out[n-1].Intersect(r)
			continue
		}
		out = append(out, r)
	}
	return Requirements{list: out}
}

// Parse returns the conjunction of expressions.
func Parse(exprs []Expr) Requirements {
	rs := make([]Requirement, len(exprs))
	for i, e := range exprs {
		rs[i] = New(e)
	}
	return Of(rs...)
}

// FromLabels returns the requirements that exactly these labels satisfy: In with one value for each.
func FromLabels(labels map[string]string) Requirements {
	rs := make([]Requirement, 0, len(labels))
	for k, v := range labels {
		rs = append(rs, NewIn(k, v))
	}
	// An alias may stand beside its canonical key; the order of intersection does not matter.
	return Of(rs...)
}

// Len returns the number of keys.
func (r Requirements) Len() int { return len(r.list) }

// All yields the requirements by ascending key.
func (r Requirements) All() iter.Seq[Requirement] { return slices.Values(r.list) }

// Get returns the requirement on a canonical key.
func (r Requirements) Get(key string) (Requirement, bool) {
	for i := range r.list {
		switch c := strings.Compare(r.list[i].Key, key); {
		case c == 0:
			return r.list[i], true
		case c > 0:
			return Requirement{Key: key}, false
		}
	}
	return Requirement{Key: key}, false
}

// Has reports whether the key is defined.
func (r Requirements) Has(key string) bool {
	_, ok := r.Get(key)
	return ok
}

// And returns the conjunction of both.
func (r Requirements) And(o Requirements) Requirements {
	switch {
	case len(o.list) == 0:
		return r
	case len(r.list) == 0:
		return o
	}
	out := make([]Requirement, 0, len(r.list)+len(o.list))
	i, j := 0, 0
	for i < len(r.list) && j < len(o.list) {
		switch c := strings.Compare(r.list[i].Key, o.list[j].Key); {
		case c < 0:
			out = append(out, r.list[i])
			i++
		case c > 0:
			out = append(out, o.list[j])
			j++
		default:
			out = append(out, r.list[i].Intersect(o.list[j]))
			i, j = i+1, j+1
		}
	}
	out = append(out, r.list[i:]...)
	return Requirements{list: append(out, o.list[j:]...)}
}

// With returns the conjunction with further requirements.
func (r Requirements) With(rs ...Requirement) Requirements { return r.And(Of(rs...)) }

// Replace returns r with the requirement on q's key replaced by q.
func (r Requirements) Replace(q Requirement) Requirements {
	return r.Without(func(key string) bool { return key == q.Key }).With(q)
}

// Without returns the requirements whose key drop does not select.
func (r Requirements) Without(drop func(key string) bool) Requirements {
	return Requirements{list: slices.DeleteFunc(slices.Clone(r.list), func(q Requirement) bool { return drop(q.Key) })}
}

// Exprs returns expressions whose conjunction this is, by ascending key.
func (r Requirements) Exprs() []Expr {
	out := make([]Expr, 0, len(r.list))
	for _, q := range r.list {
		out = append(out, q.Exprs()...)
	}
	return out
}

// Equal reports whether both hold equal requirements.
func (r Requirements) Equal(o Requirements) bool {
	return slices.EqualFunc(r.list, o.list, Requirement.Equal)
}

// Conflict returns the first key, in ascending order, on which the two conflict. Keys that only one defines are ignored.
func (r Requirements) Conflict(o Requirements) (key string, conflict bool) {
	i, j := 0, 0
	for i < len(r.list) && j < len(o.list) {
		switch c := strings.Compare(r.list[i].Key, o.list[j].Key); {
		case c < 0:
			i++
		case c > 0:
			j++
		default:
			if r.list[i].Conflicts(o.list[j]) {
				return r.list[i].Key, true
			}
			i, j = i+1, j+1
		}
	}
	return "", false
}

// Definedness says which keys an incoming requirement may use although the target does not define them (scheduling rules 6.3).
type Definedness int

const (
	// Strict: none, as on existing nodes, which must really carry a label.
	Strict Definedness = iota
	// WellKnownOptional: the well-known keys, as on templates and planned claims.
	WellKnownOptional
)

// Mismatch says why requirements are not compatible.
type Mismatch struct {
	Key string
	// Undefined tells that the target does not define the key at all; else the two conflict on it.
	Undefined bool
}

// Compatible reports whether incoming may be merged into r; if not, where they clash first by key (scheduling rules 6.3).
func (r Requirements) Compatible(incoming Requirements, d Definedness) (Mismatch, bool) {
	i := 0
	for _, q := range incoming.list {
		for i < len(r.list) && r.list[i].Key < q.Key {
			i++
		}
		if i < len(r.list) && r.list[i].Key == q.Key {
			if r.list[i].Conflicts(q) {
				return Mismatch{Key: q.Key}, false
			}
			continue
		}
		if !q.AdmitsAbsent() && (d == Strict || !WellKnown(q.Key)) {
			return Mismatch{Key: q.Key, Undefined: true}, false
		}
	}
	return Mismatch{}, true
}

// Implies reports whether whatever satisfies r certainly satisfies o; keys that r leaves undefined count as absent labels.
func (r Requirements) Implies(o Requirements) (Mismatch, bool) {
	i := 0
	for _, q := range o.list {
		for i < len(r.list) && r.list[i].Key < q.Key {
			i++
		}
		if i < len(r.list) && r.list[i].Key == q.Key {
			if !r.list[i].Implies(q) {
				return Mismatch{Key: q.Key}, false
			}
			continue
		}
		if !q.AdmitsAbsent() {
			return Mismatch{Key: q.Key, Undefined: true}, false
		}
	}
	return Mismatch{}, true
}

// Match reports whether a node with these labels satisfies r; if not, on which key it fails first. Keys of labels must be canonical.
func (r Requirements) Match(labels map[string]string) (Mismatch, bool) {
	for _, q := range r.list {
		v, ok := labels[q.Key]
		if ok && !q.Admits(v) || !ok && !q.AdmitsAbsent() {
			return Mismatch{Key: q.Key, Undefined: !ok}, false
		}
	}
	return Mismatch{}, true
}

// String renders the requirements for test output, by ascending key.
func (r Requirements) String() string {
	parts := make([]string, len(r.list))
	for i, q := range r.list {
		parts[i] = q.String()
	}
	return strings.Join(parts, ", ")
}
