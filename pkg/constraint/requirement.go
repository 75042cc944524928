package constraint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Requirement is the canonical form of what is asked of one label (scheduling rules 6.1): either a finite set of admitted
// values or everything but a finite set, the latter optionally bounded to a range of integers. The zero value admits every
// value of the key "".
type Requirement struct {
	Key string
	// MinValues is the number of distinct values wanted among the instance types of a claim, 0 if unset.
	MinValues int

	allow  bool
	values []string // sorted, distinct; admitted if allow, else excluded
	lo, hi bound
	// optional tells, of one that excludes values, that a node without the label will do: that nothing beside the exclusions was asked.
	optional bool
}

// bound is one end of an inclusive range of integers.
type bound struct {
	set bool
	n   int64
}

// New returns the canonical form of an expression; the key's alias is resolved (scheduling rules 6.5). A bound that is not one
// integer admits nothing, as does an unknown operator: Validate tells users about them.
func New(e Expr) Requirement {
	r := Requirement{Key: Canonical(e.Key), MinValues: e.MinValues}
	switch e.Operator {
	case In:
		r.allow, r.values = true, sorted(e.Values)
	case NotIn:
		r.values = sorted(e.Values)
		r.optional = len(r.values) > 0
	case Exists:
	case Gt, Gte, Lt, Lte:
		r.boundBy(e)
	default:
		r.allow = true
	}
	return r
}

// NewIn returns the requirement that admits the given values.
func NewIn(key string, values ...string) Requirement {
	return New(Expr{Key: key, Operator: In, Values: values})
}

func (r *Requirement) boundBy(e Expr) {
	n, ok := int64(0), len(e.Values) == 1
	if ok {
		n, ok = integer(e.Values[0])
	}
	switch {
	case !ok, e.Operator == Gt && n == math.MaxInt64, e.Operator == Lt && n == math.MinInt64:
		r.allow = true
	case e.Operator == Gt:
		r.lo = bound{true, n + 1}
	case e.Operator == Gte:
		r.lo = bound{true, n}
	case e.Operator == Lt:
		r.hi = bound{true, n - 1}
	default:
		r.hi = bound{true, n}
	}
}

func integer(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func sorted(vs []string) []string {
	if len(vs) < 2 || slices.IsSorted(vs) {
		return slices.Compact(slices.Clone(vs))
	}
	return slices.Compact(slices.Sorted(slices.Values(vs)))
}

// Operator classifies the requirement as In, NotIn, Exists or DoesNotExist; one with bounds only counts as Exists, one with bounds
// and exclusions inside them as NotIn (scheduling rules 6.1).
func (r Requirement) Operator() Operator {
	switch {
	case r.allow && len(r.values) == 0:
		return DoesNotExist
	case r.allow:
		return In
	case len(r.values) > 0:
		return NotIn
	default:
		return Exists
	}
}

// Values returns the admitted values of an In, the excluded ones of a NotIn, ascending. The slice must not be changed.
func (r Requirement) Values() []string { return r.values }

// Bounds returns the inclusive range of admitted integers; ok tells that there is one at either end. An open end is the smallest
// or largest int64.
func (r Requirement) Bounds() (lo, hi int64, ok bool) {
	lo, hi = math.MinInt64, math.MaxInt64
	if r.lo.set {
		lo = r.lo.n
	}
	if r.hi.set {
		hi = r.hi.n
	}
	return lo, hi, r.lo.set || r.hi.set
}

// Single returns the only admitted value, if there is exactly one.
func (r Requirement) Single() (string, bool) {
	if r.allow && len(r.values) == 1 {
		return r.values[0], true
	}
	return "", false
}

// Admits reports whether a label with this value satisfies the requirement.
func (r Requirement) Admits(v string) bool {
	_, found := slices.BinarySearch(r.values, v)
	return found == r.allow && r.inside(v)
}

// AdmitsAbsent reports whether a node without the label satisfies the requirement: NotIn and DoesNotExist do. What is NotIn and also Exists or
// bounded counts as NotIn (scheduling rules 6.2), but needs the label, as it does for kube-scheduler (29.3).
func (r Requirement) AdmitsAbsent() bool { return r.optional || r.allow && len(r.values) == 0 }

func (r Requirement) inside(v string) bool {
	if !r.lo.set && !r.hi.set {
		return true
	}
	n, ok := integer(v)
	return ok && (!r.lo.set || n >= r.lo.n) && (!r.hi.set || n <= r.hi.n)
}

// Intersect returns the requirement that admits what both admit (scheduling rules 6.2). It keeps r's key and the greater MinValues.
func (r Requirement) Intersect(o Requirement) Requirement {
	out := Requirement{Key: r.Key, MinValues: max(r.MinValues, o.MinValues)}
	switch {
	case r.allow:
		out.allow, out.values = true, filter(r.values, o.Admits)
	case o.allow:
		out.allow, out.values = true, filter(o.values, r.Admits)
	default:
		out.lo, out.hi = higher(r.lo, o.lo), lower(r.hi, o.hi)
		if out.lo.set && out.hi.set && out.lo.n > out.hi.n {
			return Requirement{Key: r.Key, MinValues: out.MinValues, allow: true}
		}
		out.values = filter(union(r.values, o.values), out.inside)
		out.optional = r.optional && o.optional
	}
	return out
}

func filter(vs []string, keep func(string) bool) []string {
	for i, v := range vs {
		if keep(v) {
			continue
		}
		out := slices.Clone(vs[:i])
		for _, v := range vs[i+1:] {
			if keep(v) {
				out = append(out, v)
			}
		}
		return out
	}
	return vs
}

func union(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	return sorted(append(slices.Clone(a), b...))
}

func higher(a, b bound) bound {
	if !a.set || b.set && b.n > a.n {
		return b
	}
	return a
}

func lower(a, b bound) bound {
	if !a.set || b.set && b.n < a.n {
		return b
	}
	return a
}

// Conflicts reports whether no value is admitted by both. Two requirements that both accept the label's absence never conflict
// (scheduling rules 6.3).
func (r Requirement) Conflicts(o Requirement) bool {
	if r.AdmitsAbsent() && o.AdmitsAbsent() {
		return false
	}
	switch {
	case r.allow:
		return !slices.ContainsFunc(r.values, o.Admits)
	case o.allow:
		return !slices.ContainsFunc(o.values, r.Admits)
	}
	lo, hi := higher(r.lo, o.lo), lower(r.hi, o.hi)
	return lo.set && hi.set && lo.n > hi.n
}

// Implies reports whether everything that r admits is admitted by o, absence included, so that a node chosen under r satisfies o for certain.
func (r Requirement) Implies(o Requirement) bool {
	if r.allow {
		if len(r.values) == 0 {
			return o.AdmitsAbsent()
		}
		for _, v := range r.values {
			if !o.Admits(v) {
				return false
			}
		}
		return true
	}
	if r.optional && !o.AdmitsAbsent() {
		return false
	}
	if o.allow || o.lo.set && (!r.lo.set || r.lo.n < o.lo.n) || o.hi.set && (!r.hi.set || r.hi.n > o.hi.n) {
		return false
	}
	for _, v := range o.values {
		if r.Admits(v) {
			return false
		}
	}
	return true
}

// Equal reports whether both admit the same values and want the same number of them.
func (r Requirement) Equal(o Requirement) bool {
	return r.Key == o.Key && r.MinValues == o.MinValues && r.allow == o.allow && r.lo == o.lo && r.hi == o.hi &&
		r.optional == o.optional && slices.Equal(r.values, o.values)
}

// Exprs returns expressions whose intersection is the requirement: bounds as Gte and Lte, exclusions beside them as NotIn
// (scheduling rules 25.3), Exists beside exclusions where the label must be there. MinValues is on the first.
func (r Requirement) Exprs() []Expr {
	var out []Expr
	add := func(op Operator, vs ...string) {
		out = append(out, Expr{Key: r.Key, Operator: op, Values: vs})
	}
	if r.lo.set {
		add(Gte, strconv.FormatInt(r.lo.n, 10))
	}
	if r.hi.set {
		add(Lte, strconv.FormatInt(r.hi.n, 10))
	}
	op := r.Operator()
	if op == NotIn && len(out) == 0 && !r.optional {
		add(Exists)
	}
	if len(out) == 0 || op == NotIn {
		add(op, slices.Clone(r.values)...)
	}
	out[0].MinValues = r.MinValues
	return out
}

// Sample returns a value that the requirement admits, the smallest of an In, else a made-up one; ok is false for DoesNotExist or when
// every integer in the bounds is excluded (scheduling rules 25.2).
func (r Requirement) Sample() (v string, ok bool) {
	if r.allow {
		if len(r.values) == 0 {
			return "", false
		}
		return r.values[0], true
	}
	lo, hi, bounded := r.Bounds()
	if !bounded {
		return r.sampleWord(), true
	}
	n, step := lo, int64(1)
	if !r.lo.set {
		n, step = hi, -1
		if hi > 0 {
			n, step = 0, 1
		}
	}
	for range len(r.values) + 1 {
		if v := strconv.FormatInt(n, 10); r.Admits(v) {
			return v, true
		}
		if n == hi && step > 0 || n == lo && step < 0 {
			return "", false
		}
		n += step
	}
	return "", false
}

func (r Requirement) sampleWord() string {
	for i := 0; ; i++ {
		if v := "karp-" + strconv.Itoa(i); r.Admits(v) {
			return v
		}
	}
}

// String renders the requirement for test output and errors of programmers, e.g. "zone In [a b]".
func (r Requirement) String() string {
	parts := make([]string, 0, 2)
	for _, e := range r.Exprs() {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ","))))
	}
	return strings.Join(parts, " and ")
}
