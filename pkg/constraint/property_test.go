package constraint_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/karp-sh/karp/pkg/constraint"
)

// universe is what drawn requirements speak about; the empty string stands for the absence of the label.
func universe() []string { return []string{"a", "b", "c", "-2", "0", "1", "2", "3", "7", "9"} }

func drawReq(t *rapid.T, name string) constraint.Requirement {
	ops := []constraint.Operator{constraint.In, constraint.NotIn, constraint.Exists, constraint.DoesNotExist, constraint.Gt, constraint.Gte, constraint.Lt, constraint.Lte}
	e := constraint.Expr{Key: "k", Operator: rapid.SampledFrom(ops).Draw(t, name+" operator")}
	switch e.Operator {
	case constraint.In, constraint.NotIn:
		e.Values = rapid.SliceOfN(rapid.SampledFrom(universe()), 0, 5).Draw(t, name+" values")
	case constraint.Gt, constraint.Gte, constraint.Lt, constraint.Lte:
		e.Values = []string{rapid.SampledFrom([]string{"0", "1", "2", "5", "8"}).Draw(t, name+" bound")}
	default: // takes no values
	}
	return constraint.New(e)
}

func drawReqs(t *rapid.T, name string) constraint.Requirement {
	out := drawReq(t, name)
	for range rapid.IntRange(0, 2).Draw(t, name+" more") {
		out = out.Intersect(drawReq(t, name))
	}
	return out
}

// An intersection admits exactly what both admit.
func TestIntersectionAdmits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawReqs(t, "a"), drawReqs(t, "b")
		both := a.Intersect(b)
		for _, v := range universe() {
			if got, want := both.Admits(v), a.Admits(v) && b.Admits(v); got != want {
				t.Fatalf("(%v) and (%v) = (%v) admits %q: %v, want %v", a, b, both, v, got, want)
			}
		}
	})
}

// A node without the label satisfies a conjunction of expressions if and only if it satisfies each of them, as in kube-scheduler; and none that
// leaves nothing to it but absence.
func TestIntersectionOfAbsence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawReq(t, "first")
		want, all := a.AdmitsAbsent(), []constraint.Requirement{a}
		for range rapid.IntRange(0, 3).Draw(t, "more") {
			b := drawReq(t, "next")
			want = want && b.AdmitsAbsent()
			all, a = append(all, b), a.Intersect(b)
		}
		if got := a.AdmitsAbsent(); got != want && a.Operator() != constraint.DoesNotExist {
			t.Fatalf("%v is %v and admits absence: %v, want %v", all, a, got, want)
		}
		if got := a.AdmitsAbsent(); want && !got {
			t.Fatalf("%v is %v and does not admit absence, though each does", all, a)
		}
	})
}

// Intersection is commutative, associative and idempotent.
func TestIntersectionLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawReqs(t, "a"), drawReqs(t, "b"), drawReqs(t, "c")
		if x, y := a.Intersect(b), b.Intersect(a); !x.Equal(y) {
			t.Fatalf("not commutative: %v, %v", x, y)
		}
		if x, y := a.Intersect(b).Intersect(c), a.Intersect(b.Intersect(c)); !x.Equal(y) {
			t.Fatalf("not associative: %v, %v", x, y)
		}
		if x := a.Intersect(a); !x.Equal(a) {
			t.Fatalf("not idempotent: %v becomes %v", a, x)
		}
	})
}

// A value that both admit rules out a conflict; a conflict means that the intersection admits nothing.
func TestConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawReqs(t, "a"), drawReqs(t, "b")
		common := slices.ContainsFunc(universe(), func(v string) bool { return a.Admits(v) && b.Admits(v) })
		if a.Conflicts(b) && common || a.Conflicts(b) != b.Conflicts(a) {
			t.Fatalf("(%v) conflicts with (%v): %v, common value: %v", a, b, a.Conflicts(b), common)
		}
		if a.Conflicts(b) && a.Intersect(b).Operator() != constraint.DoesNotExist {
			t.Fatalf("(%v) and (%v) conflict, but intersect to %v", a, b, a.Intersect(b))
		}
	})
}

// What implies another is never admitted where the other is not.
func TestImplies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawReqs(t, "a"), drawReqs(t, "b")
		if !a.Implies(b) {
			return
		}
		for _, v := range universe() {
			if a.Admits(v) && !b.Admits(v) {
				t.Fatalf("(%v) implies (%v), but %q", a, b, v)
			}
		}
		if a.AdmitsAbsent() && !b.AdmitsAbsent() {
			t.Fatalf("(%v) implies (%v), but absence", a, b)
		}
	})
}

// Expressions written out and read again mean the same (S-406: bounds and exclusions are both written).
func TestExprsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawReqs(t, "a")
		got, ok := constraint.Parse(a.Exprs()).Get("k")
		if !ok || !got.Equal(a) {
			t.Fatalf("%v is written as %v and read as %v", a, a.Exprs(), got)
		}
	})
}

// A sample is admitted.
func TestSampleIsAdmitted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawReqs(t, "a")
		if v, ok := a.Sample(); ok && !a.Admits(v) {
			t.Fatalf("%v does not admit its sample %q", a, v)
		}
	})
}

// A conjunction of requirements treats every key by itself.
func TestAnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) map[string]constraint.Requirement {
			out := map[string]constraint.Requirement{}
			for _, k := range []string{"x", "y", "z"} {
				if rapid.Bool().Draw(t, name+" has "+k) {
					r := drawReq(t, name+k)
					r.Key = k
					out[k] = r
				}
			}
			return out
		}
		a, b := draw("a"), draw("b")
		of := func(m map[string]constraint.Requirement) constraint.Requirements {
			var list []constraint.Requirement
			for _, r := range m {
				list = append(list, r)
			}
			return constraint.Of(list...)
		}
		both := of(a).And(of(b))
		for _, k := range []string{"x", "y", "z"} {
			ra, inA := a[k]
			rb, inB := b[k]
			got, ok := both.Get(k)
			want := ra
			switch {
			case inA && inB:
				want = ra.Intersect(rb)
			case inB:
				want = rb
			}
			if ok != (inA || inB) || ok && !got.Equal(want) {
				t.Fatalf("%v and %v: %s is %v, want %v", of(a), of(b), k, got, want)
			}
		}
	})
}
