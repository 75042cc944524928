package constraint_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/constraint"
)

// req reads "In a b", "Gt 3", "Exists"; several joined by & are intersected.
func req(s string) constraint.Requirement {
	var out constraint.Requirement
	for i, part := range strings.Split(s, "&") {
		f := strings.Fields(part)
		r := constraint.New(constraint.Expr{Key: "k", Operator: constraint.Operator(f[0]), Values: f[1:]})
		if i > 0 {
			r = out.Intersect(r)
		}
		out = r
	}
	return out
}

// form renders the requirement as the table of 6.2 has it, which does not say whether a NotIn needs the label.
func form(r constraint.Requirement) string { return strings.TrimPrefix(r.String(), "k Exists and ") }

// TestIntersect holds S-072 to S-074.
func TestIntersect(t *testing.T) {
	tests := []struct {
		a, b, want string
		conflict   bool
	}{
		{"In a b", "In b c", "k In b", false},
		{"In a", "In b", "k DoesNotExist", true},
		{"In a b", "NotIn b", "k In a", false},
		{"In a", "NotIn a", "k DoesNotExist", true},
		{"NotIn a", "NotIn b", "k NotIn a,b", false},
		{"Exists", "NotIn a", "k NotIn a", false},
		{"Exists", "In a", "k In a", false},
		{"DoesNotExist", "In a", "k DoesNotExist", true},
		{"DoesNotExist", "Exists", "k DoesNotExist", true},
		{"DoesNotExist", "Gt 1", "k DoesNotExist", true},
		{"DoesNotExist", "NotIn a", "k DoesNotExist", false},
		{"DoesNotExist", "DoesNotExist", "k DoesNotExist", false},
		{"In 1 5 9", "Gt 4", "k In 5,9", false},
		{"In x", "Gt 0", "k DoesNotExist", true},
		{"Gt 1", "Lt 5", "k Gte 2 and k Lte 4", false},
		{"Gt 5", "Lt 6", "k DoesNotExist", true},
		{"Gt 1", "Gte 7", "k Gte 7", false},
		{"NotIn 3", "Gte 2", "k Gte 2 and k NotIn 3", false},
		{"NotIn 1 x", "Gte 2", "k Gte 2", false},
		{"Gt 9223372036854775807", "Exists", "k DoesNotExist", true},
	}
	for _, tt := range tests {
		for _, pair := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
			a, b := req(pair[0]), req(pair[1])
			if got := form(a.Intersect(b)); got != tt.want {
				t.Errorf("(%s) and (%s) = %q, want %q", pair[0], pair[1], got, tt.want)
			}
			if got := a.Conflicts(b); got != tt.conflict {
				t.Errorf("(%s) conflicts with (%s): %v, want %v", pair[0], pair[1], got, tt.conflict)
			}
		}
	}
}

// TestPresence holds what the table of 6.2 leaves open and 29.3 settles: a NotIn beside Exists or bounds does not match a node without the label.
func TestPresence(t *testing.T) {
	tests := []struct {
		req    string
		absent bool
	}{
		{"NotIn a", true}, {"DoesNotExist", true}, {"NotIn a & NotIn b", true}, {"NotIn a & DoesNotExist", true}, {"NotIn a & In a", true},
		{"Exists", false}, {"In a", false}, {"Gt 1", false}, {"Exists & NotIn a", false}, {"NotIn a & Exists", false}, {"NotIn 3 & Gt 1", false},
		{"NotIn x & Lt 5", false}, {"Exists & NotIn a & NotIn b", false}, {"Exists & DoesNotExist", true},
	}
	for _, tt := range tests {
		if got := req(tt.req).AdmitsAbsent(); got != tt.absent {
			t.Errorf("%s admits absence: %v, want %v", tt.req, got, tt.absent)
		}
		if _, ok := constraint.Of(req(tt.req)).Match(nil); ok != tt.absent {
			t.Errorf("%s matches a node without labels: %v, want %v", tt.req, ok, tt.absent)
		}
	}
	if !req("Exists & NotIn a").Conflicts(req("DoesNotExist")) || req("NotIn a").Conflicts(req("DoesNotExist")) {
		t.Error("only the NotIn that needs the label conflicts with DoesNotExist")
	}
}

func TestAdmits(t *testing.T) {
	r := req("NotIn 3 & Gte 2")
	got := map[string]bool{}
	for _, v := range []string{"1", "2", "3", "4", "x", ""} {
		got[v] = r.Admits(v)
	}
	want := map[string]bool{"1": false, "2": true, "3": false, "4": true, "x": false, "": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("admitted values of %v (-want +got):\n%s", r, diff)
	}
}

func TestSample(t *testing.T) {
	tests := []struct {
		req, want string
		ok        bool
	}{
		{"In b a", "a", true}, {"DoesNotExist", "", false}, {"Gt 5 & Lt 10", "6", true}, {"Gt 5 & NotIn 6 7", "8", true},
		{"Lt 0", "-1", true}, {"Lt 7", "0", true}, {"Gte 3 & Lte 4 & NotIn 3 4", "", false}, {"NotIn karp-0", "karp-1", true}, {"Exists", "karp-0", true},
	}
	for _, tt := range tests {
		if got, ok := req(tt.req).Sample(); got != tt.want || ok != tt.ok {
			t.Errorf("sample of %s = %q, %v, want %q, %v", tt.req, got, ok, tt.want, tt.ok)
		}
	}
}

// TestCompatible is the table at the end of the rules on compatibility (6.3): keys that the target does not define.
func TestCompatible(t *testing.T) {
	const known, custom = constraint.ArchKey, "team"
	tests := []struct {
		op                          constraint.Operator
		values                      []string
		custom, known, existingNode bool
	}{
		{constraint.In, []string{"x"}, false, true, false},
		{constraint.Exists, nil, false, true, false},
		{constraint.Gt, []string{"1"}, false, true, false},
		{constraint.Lt, []string{"1"}, false, true, false},
		{constraint.NotIn, []string{"x"}, true, true, true},
		{constraint.DoesNotExist, nil, true, true, true},
	}
	for _, tt := range tests {
		for _, c := range []struct {
			key  string
			d    constraint.Definedness
			want bool
		}{{custom, constraint.WellKnownOptional, tt.custom}, {known, constraint.WellKnownOptional, tt.known}, {known, constraint.Strict, tt.existingNode}} {
			incoming := constraint.Parse([]constraint.Expr{{Key: c.key, Operator: tt.op, Values: tt.values}})
			mm, got := constraint.Requirements{}.Compatible(incoming, c.d)
			if got != c.want {
				t.Errorf("%v on nothing, definedness %v: %v, want %v", incoming, c.d, got, c.want)
			}
			if !got && (!mm.Undefined || mm.Key != c.key) {
				t.Errorf("%v on nothing: mismatch %+v, want %s undefined", incoming, mm, c.key)
			}
		}
	}
}

func TestAliases(t *testing.T) {
	for alias, want := range map[string]string{
		"failure-domain.beta.kubernetes.io/zone": constraint.ZoneKey, "topology.ebs.csi.aws.com/zone": constraint.ZoneKey,
		"failure-domain.beta.kubernetes.io/region": constraint.RegionKey, "beta.kubernetes.io/arch": constraint.ArchKey,
		"beta.kubernetes.io/os": constraint.OSKey, "beta.kubernetes.io/instance-type": constraint.InstanceTypeKey, "team": "team",
	} {
		if got := constraint.NewIn(alias, "x").Key; got != want {
			t.Errorf("key of %s is %s, want %s", alias, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	e := func(key string, op constraint.Operator, values ...string) constraint.Expr {
		return constraint.Expr{Key: key, Operator: op, Values: values}
	}
	tests := []struct {
		expr constraint.Expr
		want constraint.Rule
	}{
		{e("team", constraint.In, "x"), ""},
		{e("kubernetes.io/team", constraint.In, "x"), ""},
		{e(constraint.NodePoolKey, constraint.In, "np"), ""},
		{e(constraint.CapacityTypeKey, constraint.In, "spot", "bogus"), ""},
		{e("karpenter.k8s.aws/instance-tenancy", constraint.NotIn, "host"), ""},
		{e("team", constraint.Gt, "0"), ""},
		{e("team", constraint.In), constraint.V2},
		{e("team", "Near", "x"), constraint.V2},
		{e("team", constraint.Gt, "abc"), constraint.V2},
		{e("team", constraint.Gt, "-1"), constraint.V2},
		{e("team", constraint.Lt, "1", "2"), constraint.V2},
		{e("bad key", constraint.In, "x"), constraint.V2},
		{e("Upper.domain/key", constraint.In, "x"), constraint.V2},
		{e("team", constraint.In, "-x-"), constraint.V2},
		{e("team", constraint.In, strings.Repeat("x", 64)), constraint.V2},
		{e(constraint.HostnameKey, constraint.In, "n"), constraint.V3},
		{e("karpenter.sh/foo", constraint.Exists), constraint.V3},
		{e("sub.karpenter.sh/foo", constraint.Exists), constraint.V3},
		{e("karpenter.k8s.aws/ec2nodeclass", constraint.In, "c"), constraint.V3},
		{e(constraint.CapacityTypeKey, constraint.In, "bogus"), constraint.V4},
		{e("karpenter.k8s.aws/instance-tenancy", constraint.In, "host"), constraint.V4},
	}
	for _, tt := range tests {
		got := constraint.Rule("")
		if p := constraint.Validate(tt.expr); p != nil {
			got = p.Rule
		}
		if got != tt.want {
			t.Errorf("Validate(%v) = %q, want %q", tt.expr, got, tt.want)
		}
	}
}

// TestTolerates holds S-092 and S-095.
func TestTolerates(t *testing.T) {
	gpu := constraint.Taint{Key: "d", Value: "gpu", Effect: constraint.NoSchedule}
	level := constraint.Taint{Key: "level", Value: "5", Effect: constraint.NoSchedule}
	high := constraint.Taint{Key: "level", Value: "high", Effect: constraint.NoSchedule}
	tests := []struct {
		taint constraint.Taint
		tol   constraint.Toleration
		want  bool
	}{
		{gpu, constraint.Toleration{Key: "d", Operator: "Equal", Value: "gpu", Effect: constraint.NoSchedule}, true},
		{gpu, constraint.Toleration{Key: "d", Value: "gpu"}, true},
		{gpu, constraint.Toleration{Key: "d", Operator: "Equal", Value: "other"}, false},
		{gpu, constraint.Toleration{Key: "d", Operator: "Exists"}, true},
		{gpu, constraint.Toleration{Operator: "Exists"}, true},
		{gpu, constraint.Toleration{Operator: "Equal"}, false},
		{gpu, constraint.Toleration{Key: "d", Value: "gpu", Effect: constraint.NoExecute}, false},
		{level, constraint.Toleration{Key: "level", Operator: "Gt", Value: "3"}, true},
		{level, constraint.Toleration{Key: "level", Operator: "Gt", Value: "5"}, false},
		{level, constraint.Toleration{Key: "level", Operator: "Lt", Value: "6"}, true},
		{high, constraint.Toleration{Key: "level", Operator: "Gt", Value: "3"}, false},
	}
	for _, tt := range tests {
		if got := constraint.Tolerates([]constraint.Toleration{tt.tol}, tt.taint); got != tt.want {
			t.Errorf("%+v tolerates %+v: %v, want %v", tt.tol, tt.taint, got, tt.want)
		}
	}
}
