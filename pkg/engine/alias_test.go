package engine_test

import (
	"github.com/karp-sh/karp/pkg/cluster"
	karpplan "github.com/karp-sh/karp/pkg/plan"
)

type (
	snapshot = cluster.Snapshot
	plan     = karpplan.Plan
)
