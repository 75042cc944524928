package view_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
	"github.com/karp-sh/karp/pkg/view"
)

// soldOut is one closed offering; every zone has its own price.
func soldOut(instance string, zone int) reason.OfferingState {
	return reason.OfferingState{
		Type: instance, Zone: fmt.Sprintf("us-east-1%c", 'a'+zone), CapacityType: "spot", Reason: "InsufficientInstanceCapacity",
		Price: units.FromDollars(0.1 + float64(zone)/100),
	}
}

// offerings are the cells of the table of offerings of an answer that names these.
func offerings(t *testing.T, states []reason.OfferingState) [][]string {
	t.Helper()
	a := reason.Pending{Code: reason.OfferingUnavailable, Layer: reason.Offering, Nearest: "general", Pools: []reason.PoolAnswer{{Pool: "general", Layer: reason.Offering, Code: reason.OfferingUnavailable, Offerings: states}}}
	for _, s := range view.Pending(a, view.PendingOptions{Zone: time.UTC}).Sections {
		if s.Title == "OFFERINGS" {
			var out [][]string
			for _, r := range s.Table.Rows {
				out = append(out, r.Cells)
			}
			return out
		}
	}
	t.Fatal("the answer has no table of offerings")
	return nil
}

func TestFewOfferingsAreListedOneByOne(t *testing.T) {
	got := offerings(t, []reason.OfferingState{soldOut("m5.large", 0), soldOut("m5.large", 1)})
	want := [][]string{
		{"m5.large", "us-east-1a", "spot", "0.100", "InsufficientInstanceCapacity, until unknown"},
		{"m5.large", "us-east-1b", "spot", "0.110", "InsufficientInstanceCapacity, until unknown"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestManyOfferingsAreJoinedByTypeThenCut(t *testing.T) {
	var states []reason.OfferingState
	for i := range 15 {
		for zone := range 3 {
			states = append(states, soldOut(fmt.Sprintf("m%d.large", i), zone))
		}
	}
	open := soldOut("m0.large", 3)
	open.Available, open.Reason = true, ""
	got := offerings(t, append(states, open))
	if len(got) != 13 {
		t.Fatalf("%d lines, want 12 and one that counts the others", len(got))
	}
	first := []string{"m0.large", "us-east-1a,b,c", "spot", "0.100–0.120", "InsufficientInstanceCapacity, until unknown"}
	if diff := cmp.Diff(first, got[0]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"… 4 more"}, got[12]); diff != "" {
		t.Error(diff)
	}
}

func TestLimitsSayNothingOfTypesThatLackNothing(t *testing.T) {
	for _, tc := range []struct {
		name  string
		short map[string]int64
		want  bool
	}{
		{name: "nothing short", short: map[string]int64{}},
		{name: "short of cpu", short: map[string]int64{"cpu": 500}, want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			miss := reason.LimitMiss{Resource: "cpu", Limit: 4000, Used: 2000, Left: 2000, Needs: 4000, NeedsType: "m5.xlarge", WithinType: "m5.large", Short: tc.short}
			a := reason.Pending{Code: reason.LimitReached, Layer: reason.NodePool, Nearest: "general", Pools: []reason.PoolAnswer{{Pool: "general", Layer: reason.NodePool, Code: reason.LimitReached, Limits: []reason.LimitMiss{miss}}}}
			text := view.Text(view.Pending(a, view.PendingOptions{Zone: time.UTC}), view.Style{Width: 200})
			if got := strings.Contains(text, "too small: m5.large lacks"); got != tc.want {
				t.Errorf("said that types are too small: %t, want %t\n%s", got, tc.want, text)
			}
		})
	}
}

func TestAllowedValueNamesItsKey(t *testing.T) {
	a := reason.Pending{Code: reason.LabelConflict, Fixes: []reason.Fix{{Owner: reason.ByPool, Verified: true, Changes: []reason.Change{{
		Action: reason.AddValue, Key: "karpenter.k8s.aws/instance-category", To: "g", Index: 2, Object: reason.Object{Kind: "NodePool", Name: "general"},
	}}}}}
	text := view.Text(view.Pending(a, view.PendingOptions{Zone: time.UTC}), view.Style{Width: 200})
	if want := "allow instance-category g in NodePool general"; !strings.Contains(text, want) {
		t.Errorf("the fix does not say %q\n%s", want, text)
	}
}

func TestSubnetsAreMentionedOnlyWhereNoneIsFound(t *testing.T) {
	for subnets, want := range []bool{true, false} {
		ready := &reason.ReadyState{SubnetSelector: "team=shop", Subnets: subnets, Chain: []reason.ReadyLink{{Object: reason.Object{Kind: "NodePool", Name: "general"}, Type: "Ready"}}}
		a := reason.Pending{
			Code: reason.NodePoolNotReady, Layer: reason.NodePool, Nearest: "general",
			Pools: []reason.PoolAnswer{{Pool: "general", Layer: reason.NodePool, Code: reason.NodePoolNotReady, Ready: ready}},
			Fixes: []reason.Fix{{Owner: reason.ByPool, Changes: []reason.Change{{Action: reason.MakeReady, Object: reason.Object{Kind: "NodePool", Name: "general"}}}}},
		}
		text := view.Text(view.Pending(a, view.PendingOptions{Zone: time.UTC}), view.Style{Width: 200})
		if got := strings.Contains(text, "subnet"); got != want {
			t.Errorf("with %d subnets the answer speaks of subnets: %t, want %t\n%s", subnets, got, want, text)
		}
	}
}
