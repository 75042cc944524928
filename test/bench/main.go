// Command bench decides workloads and prints one JSON line for each: what it took, what it costs, how far that is from the lower bound.
//
//	go run ./test/bench -catalogue catalogue.json.gz [-bounds bounds.json] WORKLOAD...
//
// A workload is a JSON file of one pool, deployments and nodes (see package workload). The bounds file maps the name of a workload to a proven
// lower bound in dollars an hour. Time is measured from a builder that already knows nodes and claims but no pod, to the plan.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/check"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
	"github.com/karp-sh/karp/test/bench/workload"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Result is one line of output.
type Result struct {
	Workload  string   `json:"workload"`
	Pods      int      `json:"pods"`
	Nodes     int      `json:"existing_nodes"`
	ObserveMS float64  `json:"observe_ms"` // pods into the builder, and the snapshot
	DecideMS  float64  `json:"decide_ms"`
	CPUMS     float64  `json:"cpu_ms"` // both
	PeakMiB   float64  `json:"peak_heap_mib"`
	Claims    int      `json:"new_nodes"`
	OnNodes   int      `json:"pods_on_existing"`
	Dollars   float64  `json:"dollars_per_hour"`
	Bound     float64  `json:"bound,omitempty"`
	Ratio     float64  `json:"ratio,omitempty"`
	NotPlaced int      `json:"not_placed"`
	Steps     int64    `json:"steps"`
	Problems  []string `json:"problems"`
}

func run() error {
	catPath := flag.String("catalogue", os.Getenv("KARP_BENCH_CATALOGUE"), "file of instance types")
	boundsPath := flag.String("bounds", "", "JSON file with a lower bound per workload")
	rounds := flag.Int("rounds", 3, "decide so often and report the fastest")
	verifyPlans := flag.Bool("check", true, "verify plans")
	profile := flag.String("cpuprofile", "", "write a CPU profile")
	flag.Parse()
	bounds := map[string]float64{}
	if *boundsPath != "" {
		if err := workload.Read(*boundsPath, &bounds); err != nil {
			return err
		}
	}
	var file workload.Catalogue
	if err := workload.Read(*catPath, &file); err != nil {
		return err
	}
	types, err := file.InstanceTypes()
	if err != nil {
		return err
	}
	cat := catalog.New(types)
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	enc := json.NewEncoder(os.Stdout)
	for _, path := range flag.Args() {
		r, err := measure(path, cat, bounds, *rounds, *verifyPlans)
		if err != nil {
			return err
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func measure(path string, cat *catalog.Catalog, bounds map[string]float64, rounds int, verifyPlans bool) (Result, error) {
	var w workload.Workload
	if err := workload.Read(path, &w); err != nil {
		return Result{}, err
	}
	o, err := w.Objects(cat)
	if err != nil {
		return Result{}, err
	}
	best := Result{}
	for i := range rounds {
		r := once(o, verifyPlans)
		if i == 0 || r.DecideMS+r.ObserveMS < best.DecideMS+best.ObserveMS {
			best = r
		}
	}
	best.Workload, best.Bound = w.Name, bounds[w.Name]
	if best.Bound > 0 {
		best.Ratio = best.Dollars / best.Bound
	}
	return best, nil
}

func once(o *workload.Objects, verifyPlan bool) Result {
	pods := o.Pods
	b := (&workload.Objects{Pool: o.Pool, Nodes: o.Nodes, Claims: o.Claims}).Build()
	b.Snapshot(workload.Epoch())
	runtime.GC()
	stop := watchHeap()
	cpu, start := cpuTime(), time.Now()
	for _, p := range pods {
		b.SetPod(p)
	}
	s := b.Snapshot(workload.Epoch())
	observed := time.Now()
	p := engine.Decide(s, engine.Policy{})
	done := time.Now()
	r := Result{Pods: len(pods), Nodes: len(o.Nodes), ObserveMS: ms(observed.Sub(start)), DecideMS: ms(done.Sub(observed)), CPUMS: ms(cpuTime() - cpu),
		PeakMiB: float64(stop()) / (1 << 20), Claims: len(p.Claims), OnNodes: len(p.Placements), NotPlaced: len(p.Verdicts), Steps: p.Steps}
	return priced(r, s, p, verifyPlan)
}

func priced(r Result, s *cluster.Snapshot, p plan.Plan, verify bool) Result {
	var sum units.Money
	for _, c := range p.Claims {
		sum += c.Price
	}
	r.Dollars = sum.Dollars()
	if verify {
		r.Problems = check.Plan(s, p)
	}
	return r
}

// watchHeap samples the heap until stopped and returns its peak.
func watchHeap() (stop func() uint64) {
	quit, done := make(chan struct{}), make(chan uint64)
	go func() {
		var m runtime.MemStats
		var peak uint64
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
			select {
			case <-quit:
				done <- peak
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 { close(quit); return <-done }
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
