package workload

import (
	"fmt"
	"math/rand/v2"
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

// Generate makes a workload of about so many pending pods. The same seed gives the same workload. It uses types of a catalogue only for nodes.
func Generate(kind Kind, pods int, seed uint64, nodeTypes []string, zones []string) *Workload {
	r := rand.New(rand.NewPCG(seed, 2))
	w := &Workload{Name: fmt.Sprintf("%s-%d-seed%d", kind, pods, seed)}
	w.NodePool.Categories, w.NodePool.GenerationGt = []string{"c", "m", "r"}, 2
	w.NodePool.Arch, w.NodePool.CapacityTypes = []string{"amd64"}, []string{"spot", "on-demand"}
	if kind == Homogeneous {
		w.Deployments = []Deployment{{Name: "d00", CPU: 500, MemMiB: 1024, Replicas: pods}}
		return w
	}
	cpus, perCore := []int64{50, 100, 150, 200, 250, 300, 400, 500, 750, 1000, 1500, 2000, 3000, 4000, 8000}, []float64{0.25, 0.5, 1, 2, 3, 4, 6, 8, 12}
	const deployments = 50
	weights, sum := make([]float64, deployments), 0.0
	for i := range weights {
		weights[i] = 1 / (0.2 + r.Float64())
		sum += weights[i]
	}
	for i := range deployments {
		d := Deployment{Name: fmt.Sprintf("d%02d", i), CPU: cpus[r.IntN(len(cpus))], Replicas: max(1, int(float64(pods)*weights[i]/sum))}
		d.MemMiB = max(64, int64(float64(d.CPU)*1.024*perCore[r.IntN(len(perCore))]))
		if kind == Constrained {
			if i%2 == 0 {
				d.ZoneSpread = 1
			} else if i%10 == 7 {
				d.AntiHost, d.Replicas = true, min(d.Replicas, 80)
			}
		}
		if kind == Preferring {
			d.PreferApart = 1
		}
		w.Deployments = append(w.Deployments, d)
	}
	if kind == Full {
		w.fill(2*pods, r, nodeTypes, zones)
	}
	if kind == Existing {
		for i := range pods / 25 {
			n := Node{Name: fmt.Sprintf("n%05d", i), Type: nodeTypes[r.IntN(len(nodeTypes))], Zone: zones[r.IntN(len(zones))], CT: "on-demand"}
			n.Pods = [][2]int{{r.IntN(deployments), 1}}
			if w.Deployments[n.Pods[0][0]].CPU > 1000 || w.Deployments[n.Pods[0][0]].MemMiB > 4096 {
				n.Pods = nil
			}
			w.Nodes = append(w.Nodes, n)
		}
	}
	return w
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
