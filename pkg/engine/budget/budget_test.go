package budget_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/budget"
)

func pool(bs ...cluster.Budget) *cluster.Pool {
	return &cluster.Pool{Name: "p", Disruption: cluster.Disruption{Budgets: bs}}
}

func allowed(bs []cluster.Budget, n int, at time.Time) [3]int {
	p := budget.Of(pool(bs...))
	var out [3]int
	for i, r := range budget.Reasons() {
		out[i], _ = p.Allowed(r, n, at)
	}
	return out
}

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t
}

// What a pool allows for Empty, Drifted and Underutilized.
func TestAllowed(t *testing.T) {
	const none = budget.Unlimited
	for _, tt := range []struct {
		id      string
		budgets []cluster.Budget
		n       int
		want    [3]int
	}{
		{"D-066", []cluster.Budget{{Nodes: "10%"}}, 19, [3]int{2, 2, 2}},
		{"D-067 10%", []cluster.Budget{{Nodes: "10%"}}, 4, [3]int{1, 1, 1}},
		{"D-067 20%", []cluster.Budget{{Nodes: "20%"}}, 19, [3]int{4, 4, 4}},
		{"D-067 0%", []cluster.Budget{{Nodes: "0%"}}, 50, [3]int{}},
		{"D-067 100%", []cluster.Budget{{Nodes: "100%"}}, 7, [3]int{7, 7, 7}},
		{"D-067 1%", []cluster.Budget{{Nodes: "1%"}}, 1, [3]int{1, 1, 1}},
		{"D-068", nil, 10, [3]int{none, none, none}},
		{"D-073", []cluster.Budget{{Nodes: "50%"}}, 10, [3]int{5, 5, 5}},
		{"D-077", []cluster.Budget{{Nodes: "20%", Reasons: []string{"Empty", "Drifted"}}, {Nodes: "5"}}, 19, [3]int{4, 4, 5}},
		{"D-078", []cluster.Budget{{Nodes: "10"}, {Nodes: "15", Reasons: []string{"Drifted", "Underutilized"}}, {Nodes: "5", Reasons: []string{"Drifted"}},
			{Nodes: "4", Reasons: []string{"Empty"}}}, 100, [3]int{4, 5, 10}},
		{"D-079", []cluster.Budget{{Nodes: "50%"}, {Nodes: "3", Reasons: []string{"Drifted"}, Schedule: "0 0 * * 7", Duration: "1h"}}, 10, [3]int{}},
		{"D-083", []cluster.Budget{{Nodes: "5", Schedule: "TZ=Europe/Paris 0 9 * * *", Duration: "8h"}}, 10, [3]int{}},
		{"D-084", []cluster.Budget{{Nodes: "5", Schedule: "0 0 * * tue-mon", Duration: "6h"}}, 10, [3]int{}},
		{"D-086", []cluster.Budget{{Nodes: "0", Reasons: []string{}}}, 10, [3]int{none, none, none}},
		{"D-008", []cluster.Budget{{Nodes: "5", Schedule: "@wrongly", Duration: "1h"}}, 10, [3]int{}},
		{"schedule without duration", []cluster.Budget{{Nodes: "5", Schedule: "@daily"}}, 10, [3]int{}},
		{"seconds", []cluster.Budget{{Nodes: "5", Schedule: "@daily", Duration: "90s"}}, 10, [3]int{}},
		{"fraction", []cluster.Budget{{Nodes: "5.5"}}, 10, [3]int{}},
		{"above 100%", []cluster.Budget{{Nodes: "101%"}}, 10, [3]int{}},
		{"a huge number", []cluster.Budget{{Nodes: "99999999999999999999"}}, 10, [3]int{none, none, none}},
	} {
		if diff := cmp.Diff(tt.want, allowed(tt.budgets, tt.n, at("2026-09-08 12:00:00"))); diff != "" {
			t.Errorf("%s: %+v of %d nodes (-want +got):\n%s", tt.id, tt.budgets, tt.n, diff)
		}
	}
}

// When a budget of no nodes applies.
func TestActive(t *testing.T) {
	for _, tt := range []struct {
		id, schedule, duration string
		at                     string
		want                   bool
	}{
		{"D-080", "0 9 * * mon-fri", "8h", "2026-09-08 08:59:59", false}, // a Tuesday
		{"D-080", "0 9 * * mon-fri", "8h", "2026-09-08 09:00:00", true},
		{"D-080", "0 9 * * mon-fri", "8h", "2026-09-08 16:59:59", true},
		{"D-080", "0 9 * * mon-fri", "8h", "2026-09-08 17:00:00", false},
		{"D-081", "@daily", "30m", "2026-09-07 23:00:00", false},
		{"D-082", "@daily", "48h", "2026-09-08 23:59:59", true},
		{"D-085 Friday the 6th", "0 0 13 * fri", "24h", "2026-11-06 12:00:00", true},
		{"D-085 Friday the 13th", "0 0 13 * fri", "24h", "2026-11-13 12:00:00", true},
		{"D-085 Sunday the 13th", "0 0 13 * fri", "24h", "2026-09-13 12:00:00", true},
		{"D-085 Saturday the 12th", "0 0 13 * fri", "24h", "2026-09-12 12:00:00", false},
		{"steps", "*/15 8-10/2 * * *", "1m", "2026-09-08 10:45:30", true},
		{"steps", "*/15 8-10/2 * * *", "1m", "2026-09-08 09:45:30", false},
		{"step from a value", "30/20 * * * *", "1m", "2026-09-08 09:50:00", true},
		{"lists, names in any case", "0 0 1,15 JAN,sep *", "24h", "2026-09-15 10:00:00", true},
		{"no such date", "0 0 30 2 *", "24h", "2026-03-01 00:00:00", false},
		{"leap day", "0 0 29 2 *", "24h", "2028-02-29 12:00:00", true},
		{"trailing seconds", "@hourly", "1h30m0s", "2026-09-08 12:59:00", true},
		{"end of the year", "@yearly", "30m", "2027-01-01 00:29:59", true},
	} {
		got := allowed([]cluster.Budget{{Nodes: "0", Schedule: tt.schedule, Duration: tt.duration}}, 10, at(tt.at))[0] == 0
		if p := budget.Of(pool(cluster.Budget{Nodes: "0", Schedule: tt.schedule, Duration: tt.duration})); p.Problem != nil {
			t.Errorf("%s: %v", tt.id, p.Problem)
		}
		if got != tt.want {
			t.Errorf("%s: %q for %s at %s: active %v, want %v", tt.id, tt.schedule, tt.duration, tt.at, got, tt.want)
		}
	}
}

func TestBadSchedules(t *testing.T) {
	for _, text := range []string{"", "@never", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 13 *", "* * * * 7",
		"*/0 * * * *", "5-1 * * * *", "a * * * *", "1,,2 * * * *", "* * * * funday", "-1 * * * *", "CRON_TZ=UTC * * * * *"} {
		if _, err := budget.ParseSchedule(text); err == nil || !strings.HasPrefix(err.Error(), "schedule ") {
			t.Errorf("%q: error %v, want one that names the schedule", text, err)
		}
	}
}

// Next finds exactly the minutes that match, which a walk over all minutes confirms.
func TestNextByWalk(t *testing.T) {
	for _, text := range []string{"*/7 3,17 * * *", "0 0 13 * fri", "5 4 * 2-3 *", "0 12 */10 * mon"} {
		s, err := budget.ParseSchedule(text)
		if err != nil {
			t.Fatal(err)
		}
		from, hits := at("2026-01-30 23:58:30"), 0
		next, _ := s.Next(from)
		for m := from.Truncate(time.Minute).Add(time.Minute); m.Before(from.AddDate(0, 0, 45)); m = m.Add(time.Minute) {
			before, _ := s.Next(m.Add(-time.Second))
			if got := before.Equal(m); got != m.Equal(next) {
				t.Fatalf("%q: hit at %s %v, but the next after the last hit is %s", text, m, got, next)
			}
			if m.Equal(next) {
				hits++
				next, _ = s.Next(m)
			}
		}
		if hits == 0 {
			t.Errorf("%q: no hit in 45 days", text)
		}
	}
}

func TestTimeline(t *testing.T) {
	p := budget.Of(pool(cluster.Budget{Nodes: "10%"}, cluster.Budget{Nodes: "0", Schedule: "0 9 * * mon-fri", Duration: "8h"},
		cluster.Budget{Nodes: "1", Reasons: []string{"Drifted"}, Schedule: "@weekly", Duration: "24h"}))
	show := func(steps []budget.Step) string {
		out := ""
		for _, s := range steps {
			out += fmt.Sprintf("%s %d by %d\n", s.At.Format("Mon 15:04"), s.Allowed, s.By)
		}
		return out
	}
	from := at("2026-09-11 12:00:00") // a Friday
	want := "Fri 12:00 0 by 1\nFri 17:00 3 by 0\nSun 00:00 1 by 2\nMon 00:00 3 by 0\nMon 09:00 0 by 1\n"
	if diff := cmp.Diff(want, show(p.Timeline("Drifted", 30, from, from.AddDate(0, 0, 3)))); diff != "" {
		t.Errorf("drift (-want +got):\n%s", diff)
	}
	want = "Fri 12:00 0 by 1\nFri 17:00 3 by 0\nMon 09:00 0 by 1\n"
	if diff := cmp.Diff(want, show(p.Timeline("Empty", 30, from, from.AddDate(0, 0, 3)))); diff != "" {
		t.Errorf("emptiness (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		reason string
		used   int
		want   string
	}{{"Empty", 0, "Fri 17:00"}, {"Drifted", 2, "Fri 17:00"}, {"Drifted", 3, "never"}} {
		got := "never"
		if when, ok := p.Opening(tt.reason, 30, tt.used, from); ok {
			got = when.Format("Mon 15:04")
		}
		if got != tt.want {
			t.Errorf("opening for %s with %d used: %s, want %s", tt.reason, tt.used, got, tt.want)
		}
	}
	// Windows that follow each other without a gap are one.
	always := budget.Of(pool(cluster.Budget{Nodes: "0", Schedule: "@hourly", Duration: "1h"}))
	if when, ok := always.Opening("Empty", 5, 0, from); ok {
		t.Errorf("a budget that is always active opens at %s", when)
	}
}

// member puts a node of pool p into the builder; edit changes it before.
func member(b *cluster.Builder, name string, edit func(*cluster.Node, *cluster.Claim)) {
	n := &cluster.Node{Name: name, ProviderID: name, Ready: true, Labels: map[string]string{
		constraint.NodePoolKey: "p", constraint.RegisteredKey: "true", constraint.InitializedKey: "true"}}
	c := &cluster.Claim{Name: "c-" + name, ProviderID: name, Pool: "p", Launched: true}
	if edit != nil {
		edit(n, c)
	}
	b.SetNode(n)
	if c.ProviderID != "" {
		b.SetClaim(c)
	}
}

func TestCount(t *testing.T) {
	type edit = func(*cluster.Node, *cluster.Claim)
	unready := func(n *cluster.Node, _ *cluster.Claim) { n.Ready = false }
	deleted := func(_ *cluster.Node, c *cluster.Claim) { c.Deleted = at("2026-09-08 12:00:00") }
	for _, tt := range []struct {
		id    string
		plain int
		more  []edit
		want  budget.Usage
	}{
		{"D-071", 8, []edit{unready, deleted}, budget.Usage{Nodes: 10, Disrupting: 2}},
		{"D-072", 8, []edit{unready, unready}, budget.Usage{Nodes: 10, Disrupting: 2}},
		{"D-073", 10, []edit{func(n *cluster.Node, _ *cluster.Claim) { delete(n.Labels, constraint.InitializedKey) }}, budget.Usage{Nodes: 10}},
		{"D-074", 8, []edit{func(_ *cluster.Node, c *cluster.Claim) { c.Terminating = true }}, budget.Usage{Nodes: 8}},
		{"D-075", 10, []edit{func(_ *cluster.Node, c *cluster.Claim) { c.ProviderID = "" }}, budget.Usage{Nodes: 10}},
		{"held by a command", 3, []edit{func(_ *cluster.Node, c *cluster.Claim) { c.Command = "x" }}, budget.Usage{Nodes: 4, Disrupting: 1}},
		{"marked", 3, []edit{func(_ *cluster.Node, c *cluster.Claim) { c.Marked = true }}, budget.Usage{Nodes: 4, Disrupting: 1}},
	} {
		b := cluster.NewBuilder()
		for i := range tt.plain {
			member(b, fmt.Sprintf("n%d", i), nil)
		}
		for i, e := range tt.more {
			member(b, fmt.Sprintf("m%d", i), e)
		}
		if diff := cmp.Diff(tt.want, budget.Count(b.Snapshot(at("2026-09-08 12:00:00")))["p"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.id, diff)
		}
	}
	if got := (budget.Usage{Nodes: 10, Disrupting: 10}).Remaining(1); got != 0 { // D-076
		t.Errorf("remaining with all nodes leaving: %d, want 0", got)
	}
}
