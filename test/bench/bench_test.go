package main_test

import (
	"context"
	"testing"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/check"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/units"
	"github.com/karp-sh/karp/test/bench/workload"
)

func zones() []string { return []string{"z-a", "z-b", "z-c"} }

func catalogue(tb testing.TB) *catalog.Catalog {
	types, err := workload.Types(zones()).InstanceTypes()
	if err != nil {
		tb.Fatal(err)
	}
	return catalog.New(types)
}

func generate(kind workload.Kind, pods int) *workload.Workload {
	return workload.Generate(kind, pods, 1, []string{"m5i.2xlarge", "c6a.4xlarge", "r4i.xlarge"}, zones())
}

// Every kind of workload is placed completely and correctly, and not far above what its resources cost at the best prices there are.
func TestWorkloads(t *testing.T) {
	c := catalogue(t)
	for _, tt := range []struct {
		kind workload.Kind
		most float64 // price over the fluid lower bound
	}{{workload.Homogeneous, 1.12}, {workload.Heterogeneous, 1.05}, {workload.Constrained, 1.10}, {workload.Existing, 1.10}} {
		t.Run(string(tt.kind), func(t *testing.T) {
			w := generate(tt.kind, 1000)
			o, err := w.Objects(c)
			if err != nil {
				t.Fatal(err)
			}
			s := o.Build().Snapshot(workload.Epoch())
			p := engine.Decide(s, engine.Policy{})
			for _, problem := range check.Plan(s, p) {
				t.Error(problem)
			}
			if len(p.Verdicts) > 0 {
				t.Errorf("%d pods are not placed, first: %+v", len(p.Verdicts), p.Verdicts[0])
			}
			var sum units.Money
			for _, x := range p.Claims {
				sum += x.Price
			}
			if bound := w.FluidBound(c); tt.most > 0 && sum.Dollars() > bound*tt.most {
				t.Errorf("%d claims cost %.3f $/h, more than %.2f times the bound of %.3f", len(p.Claims), sum.Dollars(), tt.most, bound)
			} else {
				t.Logf("%d claims, %.3f $/h, bound %.3f, ratio %.4f", len(p.Claims), sum.Dollars(), bound, sum.Dollars()/bound)
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	c := catalogue(b)
	for _, kind := range []workload.Kind{workload.Homogeneous, workload.Heterogeneous, workload.Constrained, workload.Existing} {
		b.Run(string(kind), func(b *testing.B) {
			o, err := generate(kind, 1000).Objects(c)
			if err != nil {
				b.Fatal(err)
			}
			s := o.Build().Snapshot(workload.Epoch())
			for b.Loop() {
				engine.Decide(s, engine.Policy{})
			}
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	c := catalogue(b)
	o, err := generate(workload.Existing, 5000).Objects(c)
	if err != nil {
		b.Fatal(err)
	}
	builder := o.Build()
	builder.Snapshot(workload.Epoch())
	for b.Loop() { // one pod changes
		builder.SetPod(o.Pods[0])
		builder.Snapshot(workload.Epoch())
	}
}

func BenchmarkCatalog(b *testing.B) {
	types, err := workload.Types(zones()).InstanceTypes()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		catalog.New(types)
	}
}

// From 10,000 API objects in memory to the snapshot.
func BenchmarkObserve(b *testing.B) {
	c := catalogue(b)
	for _, kind := range []workload.Kind{workload.Homogeneous, workload.Heterogeneous, workload.Constrained} {
		b.Run(string(kind), func(b *testing.B) {
			o, err := generate(kind, 10000).API(c)
			if err != nil {
				b.Fatal(err)
			}
			catalogs := kube.CatalogFunc(func(context.Context, *awsv1.EC2NodeClass) (*catalog.Catalog, error) { return c, nil })
			b.ReportAllocs()
			for b.Loop() {
				o.Snapshot(b.Context(), workload.Epoch(), workload.Settings(), catalogs)
			}
		})
	}
}
