package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Kind of a generated workload.
type Kind string

// The kinds: equal pods; many deployments; half of them spread over zones and a tenth apart on nodes; and deployments on a cluster with nodes.
const (
	Homogeneous   Kind = "homogeneous"
	Heterogeneous Kind = "heterogeneous"
	Constrained   Kind = "constrained"
	Existing      Kind = "existing"
	// Preferring is many deployments whose pods had rather not share a node with their like; Full a cluster of two nodes per pending pod, twenty
	// pods on each.
	Preferring Kind = "preferring"
	Full       Kind = "full"
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{Homogeneous, Heterogeneous, Constrained, Existing, Preferring, Full}
}

// Options say what to generate. The zero value of a field leaves it to the kind.
type Options struct {
	Kind Kind
	// Pods is about how many wait for a node; Seed chooses among workloads of the same options; Deployments is 50 by default.
	Pods        int
	Seed        uint64
	Deployments int
	// Spread, Apart and Prefer are the parts of the deployments that are spread over zones, that must have nodes of their own, and that would
	// rather have them.
	Spread, Apart, Prefer float64
	// MaxCPU, the pool's limit of cores and Arch restrict the pool.
	MaxCPU, Limit int
	Arch          string
	// Mix chooses what pods ask for.
	Mix Mix
	// Huge is a number of single pods of 40 to 90 cores.
	Huge int
}

// Mix is a way to choose requests.
type Mix string

// The mixes: round amounts at ratios from 0.25 to 12 GiB a core; much memory; little memory; arbitrary amounts; large pods; small ones.
const (
	Round  Mix = "round"
	Memory Mix = "memory"
	CPU    Mix = "cpu"
	Odd    Mix = "odd"
	Large  Mix = "large"
	Small  Mix = "small"
)

// ParseOptions reads "KIND:PODS[:SEED][,NAME=VALUE...]" with the names deployments, spread, apart, prefer, maxcpu, limit, arch, mix and huge. The kinds
// have the one-letter names a, b, c and e of the recorded workloads, too.
func ParseOptions(text string) (Options, error) {
	head, rest, _ := strings.Cut(text, ",")
	parts := strings.Split(head, ":")
	o := Options{Kind: Kind(parts[0]), Seed: 1}
	if long, ok := map[Kind]Kind{"a": Homogeneous, "b": Heterogeneous, "c": Constrained, "e": Existing}[o.Kind]; ok {
		o.Kind = long
	}
	if !slices.Contains(Kinds(), o.Kind) {
		return o, fmt.Errorf("there is no kind %q: use one of %v", parts[0], Kinds())
	}
	if len(parts) < 2 || len(parts) > 3 {
		return o, fmt.Errorf("%q: want KIND:PODS[:SEED]", head)
	}
	var err error
	if o.Pods, err = strconv.Atoi(parts[1]); err != nil {
		return o, fmt.Errorf("reading the number of pods: %w", err)
	}
	if len(parts) == 3 {
		if o.Seed, err = strconv.ParseUint(parts[2], 10, 64); err != nil {
			return o, fmt.Errorf("reading the seed: %w", err)
		}
	}
	for _, x := range strings.FieldsFunc(rest, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(x, "=")
		if err := o.set(name, value); err != nil {
			return o, fmt.Errorf("option %q: %w", x, err)
		}
	}
	return o, nil
}

func (o *Options) set(name, value string) (err error) {
	switch name {
	case "deployments":
		o.Deployments, err = strconv.Atoi(value)
	case "spread":
		o.Spread, err = strconv.ParseFloat(value, 64)
	case "apart":
		o.Apart, err = strconv.ParseFloat(value, 64)
	case "prefer":
		o.Prefer, err = strconv.ParseFloat(value, 64)
	case "maxcpu":
		o.MaxCPU, err = strconv.Atoi(value)
	case "limit":
		o.Limit, err = strconv.Atoi(value)
	case "huge":
		o.Huge, err = strconv.Atoi(value)
	case "arch":
		o.Arch = value
	case "mix":
		if o.Mix = Mix(value); !slices.Contains([]Mix{Round, Memory, CPU, Odd, Large, Small}, o.Mix) {
			err = errors.New("there is no such mix")
		}
	default:
		err = errors.New("there is no such option")
	}
	return err
}

// String names the options as ParseOptions reads them, with characters that suit a file name.
func (o Options) String() string {
	out := fmt.Sprintf("%s-%d-seed%d", o.Kind, o.Pods, o.Seed)
	for _, x := range []struct {
		name  string
		value any
		given bool
	}{{"deployments", o.Deployments, o.Deployments > 0}, {"spread", o.Spread, o.Spread > 0}, {"apart", o.Apart, o.Apart > 0}, {"prefer", o.Prefer, o.Prefer > 0},
		{"maxcpu", o.MaxCPU, o.MaxCPU > 0}, {"limit", o.Limit, o.Limit > 0}, {"huge", o.Huge, o.Huge > 0}, {"arch", o.Arch, o.Arch != ""}, {"mix", o.Mix, o.Mix != ""}} {
		if x.given {
			out += fmt.Sprintf("-%s%v", x.name, x.value)
		}
	}
	return out
}

// Generate makes a workload of a kind with about so many pending pods.
func Generate(kind Kind, pods int, seed uint64, nodeTypes []string, zones []string) *Workload {
	return Options{Kind: kind, Pods: pods, Seed: seed}.Generate(nodeTypes, zones)
}

// Generate makes a workload. The same options give the same workload. It uses types of a catalogue only for nodes.
func (o Options) Generate(nodeTypes []string, zones []string) *Workload {
	r := rand.New(rand.NewPCG(o.Seed, 2))
	w := &Workload{Name: o.String()}
	w.NodePool.Categories, w.NodePool.GenerationGt, w.NodePool.MaxCPU = []string{"c", "m", "r"}, 2, o.MaxCPU
	w.NodePool.Arch, w.NodePool.CapacityTypes = []string{cmp.Or(o.Arch, "amd64")}, []string{"spot", "on-demand"}
	w.NodePool.LimitCPU = int64(o.Limit)
	if o.Kind == Homogeneous {
		w.Deployments = []Deployment{o.deployment(0, r)}
		w.Deployments[0].Replicas = o.Pods
		return w
	}
	weights, sum := make([]float64, cmp.Or(o.Deployments, 50)), 0.0
	for i := range weights {
		weights[i] = 1 / (0.2 + r.Float64())
		sum += weights[i]
	}
	for i, weight := range weights {
		d := o.deployment(i, r)
		d.Replicas = max(1, int(float64(o.Pods)*weight/sum))
		o.restrict(&d, i, r)
		w.Deployments = append(w.Deployments, d)
	}
	for i := range o.Huge {
		cpu := int64(40000 + r.IntN(50000))
		w.Deployments = append(w.Deployments, Deployment{Name: fmt.Sprintf("huge%d", i), CPU: cpu, MemMiB: cpu * int64(1+r.IntN(7)), Replicas: 1})
	}
	switch o.Kind {
	case Full:
		w.fill(2*o.Pods, r, nodeTypes, zones)
	case Existing:
		w.occupy(o.Pods/25, r, nodeTypes, zones)
	default: // starts on an empty cluster
	}
	return w
}

// deployment chooses what the pods of a deployment ask for.
func (o Options) deployment(i int, r *rand.Rand) Deployment {
	cpus, perCore := []int64{50, 100, 150, 200, 250, 300, 400, 500, 750, 1000, 1500, 2000, 3000, 4000, 8000}, []float64{0.25, 0.5, 1, 2, 3, 4, 6, 8, 12}
	d := Deployment{Name: fmt.Sprintf("d%02d", i)}
	switch {
	case o.Kind == Homogeneous && o.Mix == "":
		d.CPU, d.MemMiB = 500, 1024
		return d
	case o.Mix == Memory:
		perCore = perCore[5:]
	case o.Mix == CPU:
		perCore = perCore[:4]
	case o.Mix == Large:
		cpus = []int64{3500, 5000, 6000, 7000, 8000, 10000, 12000, 15000, 20000}
	case o.Mix == Small:
		cpus = []int64{10, 20, 50, 75, 100, 150, 200, 250}
	case o.Mix == Odd:
		d.CPU, d.MemMiB = int64(10+r.IntN(300)*(1+r.IntN(30))), int64(33+r.IntN(500)*(1+r.IntN(60)))
		return d
	}
	d.CPU = cpus[r.IntN(len(cpus))]
	d.MemMiB = max(64, int64(float64(d.CPU)*1.024*perCore[r.IntN(len(perCore))]))
	return d
}

// restrict adds the ties that the kind or the options want.
func (o Options) restrict(d *Deployment, i int, r *rand.Rand) {
	if o.Kind == Constrained && o.Spread+o.Apart == 0 {
		if i%2 == 0 {
			d.ZoneSpread = 1
		} else if i%10 == 7 {
			d.AntiHost, d.Replicas = true, min(d.Replicas, 80)
		}
	}
	if o.Kind == Preferring {
		d.PreferApart = 1
	}
	if o.Spread+o.Apart+o.Prefer == 0 {
		return
	}
	switch x := r.Float64(); {
	case x < o.Spread:
		d.ZoneSpread = 1
	case x < o.Spread+o.Apart:
		d.AntiHost, d.Replicas = true, min(d.Replicas, 80)
	case x < o.Spread+o.Apart+o.Prefer:
		d.PreferApart = 1
	}
}

// occupy adds nodes with a small pod on most of them.
func (w *Workload) occupy(nodes int, r *rand.Rand, nodeTypes, zones []string) {
	for i := range nodes {
		n := Node{Name: fmt.Sprintf("n%05d", i), Type: nodeTypes[r.IntN(len(nodeTypes))], Zone: zones[r.IntN(len(zones))], CT: "on-demand"}
		n.Pods = [][2]int{{r.IntN(len(w.Deployments)), 1}}
		if w.Deployments[n.Pods[0][0]].CPU > 1000 || w.Deployments[n.Pods[0][0]].MemMiB > 4096 {
			n.Pods = nil
		}
		w.Nodes = append(w.Nodes, n)
	}
}

// fill adds nodes with twenty pods each, of a deployment for each twentieth of a node.
func (w *Workload) fill(nodes int, r *rand.Rand, nodeTypes, zones []string) {
	first := len(w.Deployments)
	for i := range 20 {
		w.Deployments = append(w.Deployments, Deployment{Name: fmt.Sprintf("r%02d", i), CPU: int64(400 + 25*i), MemMiB: int64(512 + 32*i)})
	}
	for i := range nodes {
		n := Node{Name: fmt.Sprintf("n%05d", i), Type: nodeTypes[r.IntN(len(nodeTypes))], Zone: zones[r.IntN(len(zones))], CT: "on-demand"}
		for j := range 20 {
			n.Pods = append(n.Pods, [2]int{first + (i+j)%20, 1})
		}
		w.Nodes = append(w.Nodes, n)
	}
}

// Types returns a catalogue like EC2's: families of the categories c, m and r in three generations and two makes, from large to 32xlarge, at
// prices that differ a little from generation to generation.
func Types(zones []string) *Catalogue {
	out := &Catalogue{}
	for _, f := range families() {
		for i, size := range []struct {
			name string
			cpu  int64
		}{{"large", 2}, {"xlarge", 4}, {"2xlarge", 8}, {"4xlarge", 16}, {"8xlarge", 32}, {"16xlarge", 64}, {"32xlarge", 128}} {
			out.add(f, size.name, size.cpu, []int{29, 58, 58, 234, 234, 737, 737}[i], zones)
		}
	}
	return out
}

type family struct {
	name, category, generation, arch string
	gib                              int64 // per vCPU
	dollars                          float64
}

func families() []family {
	var out []family
	for _, c := range []struct {
		category string
		gib      int64
		dollars  float64
	}{{"c", 2, 0.0425}, {"m", 4, 0.048}, {"r", 8, 0.063}} {
		for gen := 3; gen <= 8; gen++ {
			for _, make := range []struct {
				suffix, arch string
				factor       float64
			}{{"i", "amd64", 1}, {"a", "amd64", 0.91}, {"g", "arm64", 0.81}} {
				out = append(out, family{name: fmt.Sprintf("%s%d%s", c.category, gen, make.suffix), category: c.category, generation: fmt.Sprint(gen), arch: make.arch,
					gib: c.gib, dollars: c.dollars * make.factor * (1 + 0.013*float64(gen%4))})
			}
		}
	}
	return out
}

func (c *Catalogue) add(f family, size string, cpu int64, pods int, zones []string) {
	const aws = "karpenter.k8s.aws/instance-"
	mem := cpu * f.gib * 1024 * 925 / 1000
	reserved := 60 + 10*cpu
	t := Type{Name: f.name + "." + size,
		Capacity: map[string]string{"cpu": fmt.Sprint(cpu), "memory": fmt.Sprintf("%dMi", mem), "pods": fmt.Sprint(pods)},
		Overhead: map[string]string{"cpu": fmt.Sprintf("%dm", reserved), "memory": fmt.Sprintf("%dMi", 355+11*pods)},
		Reqs: map[string][]string{"node.kubernetes.io/instance-type": {f.name + "." + size}, "kubernetes.io/arch": {f.arch}, "kubernetes.io/os": {"linux"},
			aws + "category": {f.category}, aws + "generation": {f.generation}, aws + "family": {f.name}, aws + "size": {size}, aws + "cpu": {fmt.Sprint(cpu)},
			aws + "memory": {fmt.Sprint(cpu * f.gib * 1024)}, "topology.kubernetes.io/zone": zones, "karpenter.sh/capacity-type": {"on-demand", "spot"}}}
	for _, z := range zones {
		for _, ct := range []string{"on-demand", "spot"} {
			price := f.dollars * float64(cpu)
			if ct == "spot" {
				price *= 0.35
			}
			t.Offers = append(t.Offers, Offer{Zone: z, CT: ct, Price: price})
		}
	}
	c.Types = append(c.Types, t)
}
