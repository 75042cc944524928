// Command bench decides workloads and prints one JSON line for each: what it took, what it costs, how far that is from a lower bound, and
// whether the plan is right.
//
//	go run ./test/bench [-catalogue FILE] [-bounds FILE] [-rounds N] [WORKLOAD|KIND:PODS[:SEED][,OPTION=VALUE]...]...
//
// A workload is a JSON file of one pool, deployments and nodes (see package workload) or one that is generated, such as heterogeneous:50000:7
// or b:10000:7,mix=memory,spread=0.3; without any, a suite of generated ones runs, and -write keeps what was generated as files. Without -catalogue the
// types are generated, too. The bounds file maps the name of a workload to a proven lower bound in dollars an hour, or has a line of JSON with
// workload, bound_config_lp and bound_resource_lp for each; for the others it is that of package workload, which cuts pods at will and so is lower.
//
// Time is measured from API objects in memory (Pods, Nodes, NodeClaims, pool and class) to the plan, everything included but the catalogue.
// Run it with GOMAXPROCS=1 for numbers to compare.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine"
	"github.com/karp-sh/karp/pkg/engine/check"
	"github.com/karp-sh/karp/pkg/kube"
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
	Workload  string  `json:"workload"`
	Pending   int     `json:"pending"`
	Bound     int     `json:"bound_pods"`
	Nodes     int     `json:"existing_nodes"`
	Shapes    int     `json:"shapes"`
	WallMS    float64 `json:"wall_ms"`
	ObserveMS float64 `json:"observe_ms"` // of it, from API objects to the snapshot
	CPUMS     float64 `json:"cpu_ms"`
	// PeakMiB is the highest heap while deciding, BaseMiB that of the API objects and the catalogue before.
	PeakMiB float64 `json:"peak_heap_mib"`
	BaseMiB float64 `json:"base_heap_mib"`
	// PeakFactor is PeakMiB over BaseMiB.
	PeakFactor float64 `json:"peak_factor"`
	Claims     int     `json:"new_nodes"`
	// MinTypes is the least number of instance types that a claim lists, MinSpot the least that it can be bought as spot with at a price of at most
	// twice the cheapest.
	MinTypes  int      `json:"min_types"`
	MinSpot   int      `json:"min_spot_types"`
	OnNodes   int      `json:"placed_on_existing"`
	Dollars   float64  `json:"dollars_per_hour"`
	Least     float64  `json:"lower_bound,omitempty"`
	Proof     string   `json:"bound_from,omitempty"` // file or fluid
	Ratio     float64  `json:"ratio,omitempty"`
	NotPlaced int      `json:"not_placed"`
	Steps     int64    `json:"steps"`
	Cut       bool     `json:"cut"`     // the budget of steps was used up
	Verdict   string   `json:"checker"` // ok, wrong, or skipped
	Problems  []string `json:"problems,omitempty"`
}

// bench is what the flags say.
type bench struct {
	types    *catalog.Catalog
	bounds   map[string]float64
	rounds   int
	steps    int64
	check    bool
	write    string
	byName   map[string]*catalog.InstanceType
	nodeType []string
	zones    []string
}

func run() error {
	catPath := flag.String("catalogue", os.Getenv("KARP_BENCH_CATALOGUE"), "file of instance types; generated if empty")
	boundsPath := flag.String("bounds", "", "JSON file with a lower bound per workload")
	rounds := flag.Int("rounds", 3, "decide so often and report the least time and the highest heap")
	verifyPlans := flag.Bool("check", true, "verify plans")
	steps := flag.Int64("steps", 0, "budget of search steps; 0 for the engine's own")
	write := flag.String("write", "", "directory to write generated workloads to")
	profile := flag.String("cpuprofile", "", "write a CPU profile")
	flag.Parse()
	b := &bench{bounds: map[string]float64{}, rounds: *rounds, steps: *steps, check: *verifyPlans, write: *write}
	if *boundsPath != "" {
		if err := b.readBounds(*boundsPath); err != nil {
			return err
		}
	}
	if err := b.catalogue(*catPath); err != nil {
		return err
	}
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
	names := flag.Args()
	if len(names) == 0 {
		names = suite()
	}
	enc := json.NewEncoder(os.Stdout)
	for _, name := range names {
		r, err := b.measure(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// suite shows that cost grows with shapes, not with pods, and names what has to be fast.
func suite() []string {
	return []string{
		"homogeneous:10000", "heterogeneous:1000", "heterogeneous:2000", "heterogeneous:5000", "heterogeneous:10000", "heterogeneous:20000",
		"heterogeneous:50000", "heterogeneous:100000", "heterogeneous:200000", "heterogeneous:10000:2", "heterogeneous:10000:3",
		"constrained:1000", "constrained:10000", "existing:5000", "preferring:4000", "full:5000",
	}
}

// readBounds reads a map of bounds, or lines with one bound each.
func (b *bench) readBounds(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	d := json.NewDecoder(f)
	for {
		var raw map[string]any
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		if name, ok := raw["workload"].(string); ok {
			fluid, _ := raw["bound_resource_lp"].(float64)
			config, _ := raw["bound_config_lp"].(float64)
			b.bounds[name] = max(fluid, config)
			continue
		}
		for name, v := range raw {
			if n, ok := v.(float64); ok {
				b.bounds[name] = n
			}
		}
	}
}

// catalogue reads or generates the instance types.
func (b *bench) catalogue(path string) error {
	b.zones = []string{"z-a", "z-b", "z-c"}
	file := workload.Types(b.zones)
	if path != "" {
		file = &workload.Catalogue{}
		if err := workload.Read(path, file); err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, t := range file.Types {
			for _, o := range t.Offers {
				seen[o.Zone] = true
			}
		}
		b.zones = slices.Sorted(maps.Keys(seen))
	}
	types, err := file.InstanceTypes()
	if err != nil {
		return err
	}
	b.types, b.byName = catalog.New(types), map[string]*catalog.InstanceType{}
	for i, t := range types {
		b.byName[t.Name] = &types[i]
		if n := t.Capacity[units.CPU]; n >= 16000 && n <= 32000 && len(b.nodeType) < 3 {
			b.nodeType = append(b.nodeType, t.Name)
		}
	}
	return nil
}

// load reads a file or generates what the options say.
func (b *bench) load(name string) (*workload.Workload, error) {
	w := &workload.Workload{}
	if _, err := os.Stat(name); err == nil || !strings.Contains(name, ":") {
		return w, workload.Read(name, w)
	}
	o, err := workload.ParseOptions(name)
	if err != nil {
		return nil, err
	}
	w = o.Generate(b.nodeType, b.zones)
	if b.write == "" {
		return w, nil
	}
	text, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", w.Name, err)
	}
	return w, os.WriteFile(filepath.Join(b.write, w.Name+".json"), text, 0o644)
}

func (b *bench) measure(name string) (Result, error) {
	w, err := b.load(name)
	if err != nil {
		return Result{}, err
	}
	o, err := w.API(b.types)
	if err != nil {
		return Result{}, err
	}
	best := Result{}
	for i := range b.rounds {
		r := b.once(o, b.check && i == b.rounds-1) // the same plan each time
		if i == 0 {
			best = r
		}
		best.WallMS, best.ObserveMS = min(best.WallMS, r.WallMS), min(best.ObserveMS, r.ObserveMS)
		best.CPUMS, best.PeakMiB, best.PeakFactor = min(best.CPUMS, r.CPUMS), max(best.PeakMiB, r.PeakMiB), max(best.PeakFactor, r.PeakFactor)
		if r.Verdict != "" {
			best.Verdict, best.Problems = r.Verdict, r.Problems
		}
	}
	if best.Workload, best.Nodes = w.Name, len(w.Nodes); best.Verdict == "" {
		best.Verdict = "skipped"
	}
	if best.Least, best.Proof = b.bounds[w.Name], "file"; best.Least == 0 {
		best.Least, best.Proof = w.FluidBound(b.types), "fluid"
	}
	if best.Least > 0 {
		best.Ratio = best.Dollars / best.Least
	}
	return best, nil
}

func (b *bench) once(o *kube.Objects, verify bool) Result {
	catalogs := kube.CatalogFunc(func(context.Context, *awsv1.EC2NodeClass) (*catalog.Catalog, error) { return b.types, nil })
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop := watchHeap()
	cpu, start := cpuTime(), time.Now()
	s := o.Snapshot(context.Background(), workload.Epoch(), workload.Settings(), catalogs)
	observed := time.Now()
	p := engine.Decide(s, engine.Policy{Steps: b.steps})
	done, used := time.Now(), cpuTime()-cpu
	r := Result{WallMS: ms(done.Sub(start)), ObserveMS: ms(observed.Sub(start)), CPUMS: ms(used), PeakMiB: mib(stop()), BaseMiB: mib(before.HeapAlloc),
		Claims: len(p.Claims), OnNodes: len(p.Placements), NotPlaced: len(p.Verdicts), Steps: p.Steps, Cut: p.Cut}
	shapes := map[*cluster.Shape]bool{}
	for _, pod := range s.Pods {
		shapes[pod.Shape] = true
		if pod.Node == "" {
			r.Pending++
		} else {
			r.Bound++
		}
	}
	r.Shapes = len(shapes)
	r.PeakFactor = math.Round(100*r.PeakMiB/r.BaseMiB) / 100
	var sum units.Money
	for i, c := range p.Claims {
		sum += c.Price
		spot := b.spotTypes(&c)
		if i == 0 || len(c.Types) < r.MinTypes {
			r.MinTypes = len(c.Types)
		}
		if i == 0 || spot < r.MinSpot {
			r.MinSpot = spot
		}
	}
	r.Dollars = sum.Dollars()
	if verify {
		if r.Verdict, r.Problems = "ok", check.Plan(s, p); len(r.Problems) > 0 {
			r.Verdict = "wrong"
		}
	}
	return r
}

// spotTypes counts the types of a claim that can be bought as spot at a price of at most twice the cheapest.
func (b *bench) spotTypes(c *plan.Claim) int {
	n := 0
	for _, name := range c.Types {
		t := b.byName[name]
		if slices.ContainsFunc(t.Offerings, func(o catalog.Offering) bool { return o.CapacityType == catalog.Spot && o.Price <= 2*c.Price }) {
			n++
		}
	}
	return n
}

func mib(bytes uint64) float64 { return math.Round(float64(bytes)/(1<<20)*10) / 10 }

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
