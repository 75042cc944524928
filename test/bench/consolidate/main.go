// Command consolidate plays consolidation on clusters until nothing is left to do, and prints one JSON line for each: what it took, what it costs
// in the end, how far that is from a lower bound, and how many pods were moved for it.
//
//	go run ./test/bench/consolidate -catalogue FILE [-bounds FILE] [-budget 10%] [-rounds N] [-v] WORKLOAD...
//
// Workloads are files of one pool, deployments and nodes (see package workload). With packed:N: before the name of one with pending pods, these get
// the nodes that the engine plans for them first, none larger than N cores, all on demand (packed:16x5: with five times the replicas); with giants: as few and large nodes as possible; times:N: repeats the nodes of a workload. Run it with
// GOMAXPROCS=1 for numbers to compare.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/engine/disrupt"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/test/bench/consolidate/rounds"
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
	Workload      string  `json:"workload"`
	NodesBefore   int     `json:"nodes_before"`
	Nodes         int     `json:"nodes"`
	Pods          int     `json:"pods"`
	Before        float64 `json:"dollars_before"`
	Dollars       float64 `json:"dollars_per_hour"`
	Least         float64 `json:"lower_bound"`
	Ratio         float64 `json:"ratio"`
	Rounds        int     `json:"rounds"`
	Converged     bool    `json:"converged"`
	Standing      bool    `json:"within_1_percent"`
	Moved         int     `json:"pods_moved"`
	Rejected      int     `json:"rejected"`
	PodsPerDollar float64 `json:"pods_per_dollar"`
	// Prefix is the search to compare with, if asked for: what it ends at, how many pods it moves, and how many this one has moved for the same saving.
	Prefix *Prefix `json:"prefix_search,omitempty"`
	// FirstMS is the first pass from API objects, of which ObserveMS go to the snapshot; SlowestMS the slowest later decision, FinalMS the one that
	// found nothing. All are processor time.
	FirstMS   float64 `json:"first_pass_ms"`
	ObserveMS float64 `json:"observe_ms"`
	SlowestMS float64 `json:"slowest_ms"`
	FinalMS   float64 `json:"final_ms"`
}

// Prefix is the outcome of the search by prefixes.
type Prefix struct {
	Dollars   float64 `json:"dollars_per_hour"`
	Nodes     int     `json:"nodes"`
	Passes    int     `json:"passes"`
	Converged bool    `json:"converged"`
	Moved     int     `json:"pods_moved"`
	OursMoved float64 `json:"our_pods_moved_for_that"`
}

// passes of the search to compare with.
var passes = flag.Int("prefix", 0, "compare with so many passes of a search that only tries prefixes of one order, and at most one new node")

func run() error {
	path := flag.String("catalogue", os.Getenv("KARP_BENCH_CATALOGUE"), "file of instance types")
	boundsPath := flag.String("bounds", "", "JSON file with a lower bound per workload")
	budget := flag.String("budget", "10%", "disruption budget of the pool")
	most := flag.Int("rounds", 40, "give up after so many rounds")
	verbose := flag.Bool("v", false, "show every round")
	profile := flag.String("cpuprofile", "", "write a CPU profile")
	flag.Parse()
	if *path == "" {
		return errors.New("name a catalogue with -catalogue")
	}
	var file workload.Catalogue
	if err := workload.Read(*path, &file); err != nil {
		return err
	}
	list, err := file.InstanceTypes()
	if err != nil {
		return err
	}
	types, bounds := catalog.New(list), map[string]float64{}
	if *boundsPath != "" {
		if err := workload.Read(*boundsPath, &bounds); err != nil {
			return err
		}
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
	for _, name := range flag.Args() {
		w, err := load(name, types)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r, err := play(w, types, *budget, *most, *verbose)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if b := bounds[w.Name]; b > 0 {
			r.Least = b
		}
		r.Ratio = r.Dollars / r.Least
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// load reads a workload and gives its pods nodes if the name asks for it.
func load(name string, types *catalog.Catalog) (*workload.Workload, error) {
	w := &workload.Workload{}
	kind, path, made := strings.Cut(name, ":")
	if !made {
		return w, workload.Read(name, w)
	}
	size, rest, sized := strings.Cut(path, ":")
	if sized {
		path = rest
	}
	if err := workload.Read(path, w); err != nil {
		return nil, err
	}
	w.NodePool.CapacityTypes = []string{catalog.OnDemand}
	switch kind {
	case "giants":
		return rounds.Giants(w, types), nil
	case "times":
		n, err := strconv.Atoi(size)
		return rounds.Times(w, n), err
	}
	size, times, scaled := strings.Cut(size, "x")
	most, err := strconv.Atoi(size)
	factor := 1
	if err == nil && scaled {
		factor, err = strconv.Atoi(times)
	}
	if err != nil {
		return nil, fmt.Errorf("want packed:CORES[xFACTOR]:FILE: %w", err)
	}
	for i := range w.Deployments {
		w.Deployments[i].Replicas *= factor
	}
	return rounds.Packed(w, types, most)
}

func play(w *workload.Workload, types *catalog.Catalog, budget string, most int, verbose bool) (Result, error) {
	r := Result{Workload: w.Name}
	if err := first(w, types, budget, &r); err != nil {
		return r, err
	}
	c, err := rounds.New(w, types, cluster.Budget{Nodes: budget})
	if err != nil {
		return r, err
	}
	r.Pods, r.Least = len(c.Snapshot().Pods), c.Bound(w)
	show := func(x rounds.Round) {
		if verbose {
			fmt.Fprintf(os.Stderr, "%3d commands: %4d nodes out, %3d in, %5d pods moved, %9.3f $/h, %4.0f ms, %d steps\n", x.Commands, x.Removed, x.Launched, x.Moved,
				x.Cost, ms(x.Took), x.Steps)
		}
	}
	game, err := c.Play(most, show)
	if err != nil {
		return r, err
	}
	if bad := c.Overfull(); len(bad) > 0 {
		return r, fmt.Errorf("nodes hold more than they can: %v", bad)
	}
	if *passes > 0 {
		if err := compare(w, types, &game, &r); err != nil {
			return r, err
		}
	}
	r.NodesBefore, r.Nodes, r.Before, r.Dollars = game.NodesBefore, game.Nodes, game.Before, game.After
	r.Rounds, r.Converged, r.Standing, r.Moved = len(game.Rounds), game.Converged, game.Standing, game.Moved
	r.Rejected = game.Rejected
	if r.FinalMS = ms(game.Final); len(game.Rounds) > 0 {
		r.SlowestMS, r.PodsPerDollar = ms(game.Slowest()), game.PodsPerDollar()
	}
	return r, nil
}

// compare plays the same cluster with the search by prefixes, under a budget of 10 %.
func compare(w *workload.Workload, types *catalog.Catalog, game *rounds.Result, r *Result) error {
	c, err := rounds.New(w, types)
	if err != nil {
		return err
	}
	other, err := c.PlayPrefix(*passes, 0.1, nil)
	if err != nil {
		return err
	}
	r.Prefix = &Prefix{Dollars: other.After, Nodes: other.Nodes, Passes: len(other.Rounds), Converged: other.Converged, Moved: other.Moved}
	r.Prefix.OursMoved, _ = game.MovedFor(other.Before - other.After)
	return nil
}

// first measures the first pass from API objects in memory.
func first(w *workload.Workload, types *catalog.Catalog, budget string, r *Result) error {
	o, err := w.API(types)
	if err != nil {
		return err
	}
	catalogs := kube.CatalogFunc(func(context.Context, *awsv1.EC2NodeClass) (*catalog.Catalog, error) { return types, nil })
	for _, c := range o.NodeClaims {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: karpv1.ConditionConsolidatable, Status: metav1.ConditionTrue})
	}
	for _, p := range o.NodePools {
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: budget}}
	}
	start := rounds.CPU()
	s := o.Snapshot(context.Background(), workload.Epoch(), rounds.Settings(), catalogs)
	observed := rounds.CPU()
	disrupt.Decide(s, disrupt.Options{})
	r.FirstMS, r.ObserveMS = ms(rounds.CPU()-start), ms(observed-start)
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
