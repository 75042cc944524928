package scenario_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/explain"
	"github.com/karp-sh/karp/pkg/kube/offline"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/test/scenario/fixture"
	"github.com/karp-sh/karp/test/scenario/shorthand"
)

// whatIfCommand tries a change: pools of the input replace those of the same name, pods are added, nodes named in the argument go.
//
//	what-if [remove=(NODE,...)]
//	pools: [...]
//	pods: [...]
//	----
func whatIfCommand(t *testing.T, w *world, d *datadriven.TestData) string {
	t.Helper()
	change, err := shorthand.Parse([]byte(d.Input))
	if err != nil {
		return "error: " + err.Error()
	}
	var p explain.Proposal
	for _, arg := range d.CmdArgs {
		if arg.Key == "remove" {
			p.RemoveNodes = arg.Vals
		}
	}
	expanded, err := change.Expand(fixture.Catalogue())
	if err != nil {
		return "error: " + err.Error()
	}
	dir := t.TempDir()
	if err := expanded.Write(dir); err != nil {
		t.Fatal(err)
	}
	read, err := offline.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := read.Snapshot(t.Context(), w.snapshot.At)
	for _, x := range s.Pools {
		// The catalogue is that of the cluster, with what is sold out there.
		for _, old := range w.snapshot.Pools {
			x.Catalog = old.Catalog
		}
		p.Pools = append(p.Pools, x)
	}
	p.Pods = s.Pods
	return dumpWhatIf(explain.WhatIf(w.snapshot, engine.Policy{}, p))
}

func dumpWhatIf(e reason.WhatIf) string {
	var b strings.Builder
	place := func(p *reason.Place) string {
		switch {
		case p == nil:
			return "nowhere"
		case p.Launch != nil:
			return purchaseText(*p.Launch)
		}
		return "node " + p.Node
	}
	for _, x := range e.Pending {
		fmt.Fprintf(&b, "pending %s: %s -> %s %s\n", x.Pod, place(x.Before), place(x.After), x.Code)
	}
	for _, x := range e.Launches {
		fmt.Fprintf(&b, "launch %s\n", purchaseText(x))
	}
	for _, x := range e.Drift {
		fmt.Fprintf(&b, "drift %s %s static %t, requirements %v\n", x.Pool, x.Node, x.Static, x.Keys)
	}
	if e.Rollover.Moved > 0 {
		fmt.Fprintf(&b, "moved %d pod(s)\n", e.Rollover.Moved)
	}
	for _, x := range e.Rollover.Homeless {
		fmt.Fprintf(&b, "homeless %s: %s\n", x.Pod, x.Code)
	}
	for _, x := range e.Rollover.Launches {
		fmt.Fprintf(&b, "replacement %s\n", purchaseText(x))
	}
	fmt.Fprintf(&b, "cost %s -> %s\n", e.CostNow.PerHour(), e.CostAfter.PerHour())
	return b.String()
}
