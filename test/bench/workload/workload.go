// Package workload turns the benchmark's files into clusters: a catalogue of EC2 types and, per workload, one pool, deployments and nodes.
package workload

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
)

// Catalogue is the file of instance types.
type Catalogue struct {
	Types []Type `json:"types"`
}

// Type is one instance type; amounts are Kubernetes quantities, an empty list of values means that the label does not exist.
type Type struct {
	Name     string              `json:"name"`
	Capacity map[string]string   `json:"capacity"`
	Overhead map[string]string   `json:"overhead"`
	Reqs     map[string][]string `json:"reqs"`
	Offers   []Offer             `json:"offers"`
}

// Offer is a price per hour.
type Offer struct {
	Zone  string  `json:"zone"`
	CT    string  `json:"ct"`
	Price float64 `json:"price"`
}

// Workload is one file of pods and nodes.
type Workload struct {
	Name     string `json:"name"`
	NodePool struct {
		Categories    []string `json:"categories"`
		GenerationGt  int      `json:"generation_gt"`
		Arch          []string `json:"arch"`
		CapacityTypes []string `json:"capacity_types"`
		MaxCPU        int      `json:"max_cpu"`
		// LimitCPU is the pool's limit in cores; 0 for none.
		LimitCPU int64 `json:"limit_cpu,omitempty"`
	} `json:"nodepool"`
	Deployments []Deployment `json:"deployments"`
	Nodes       []Node       `json:"nodes"`
}

// Deployment is a number of equal pods.
type Deployment struct {
	Name       string `json:"name"`
	CPU        int64  `json:"cpu_m"`
	MemMiB     int64  `json:"mem_mib"`
	Replicas   int    `json:"replicas"`
	ZoneSpread int32  `json:"zone_spread"`
	AntiHost   bool   `json:"anti_host"`
	// PreferApart is the weight of a preferred anti-affinity to itself on the hostname; 0 for none.
	PreferApart int32 `json:"prefer_apart,omitempty"`
}

// Node is an existing node; Pods are pairs of deployment and count.
type Node struct {
	Name string   `json:"name"`
	Type string   `json:"type"`
	Zone string   `json:"zone"`
	CT   string   `json:"ct"`
	Pods [][2]int `json:"pods"`
}

// Read decodes a JSON file, compressed or not.
func Read(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
		r = z
	}
	if err := json.NewDecoder(r).Decode(into); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

// InstanceTypes converts the catalogue.
func (c *Catalogue) InstanceTypes() ([]catalog.InstanceType, error) {
	var out []catalog.InstanceType
	for _, t := range c.Types {
		x := catalog.InstanceType{Name: t.Name}
		var err error
		if x.Capacity, err = list(t.Capacity); err != nil {
			return nil, fmt.Errorf("reading capacity of %s: %w", t.Name, err)
		}
		if x.Overhead.KubeReserved, err = list(t.Overhead); err != nil {
			return nil, fmt.Errorf("reading overhead of %s: %w", t.Name, err)
		}
		keys := make([]string, 0, len(t.Reqs))
		for k := range t.Reqs {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			e := constraint.Expr{Key: k, Operator: constraint.In, Values: t.Reqs[k]}
			if len(e.Values) == 0 {
				e.Operator = constraint.DoesNotExist
			}
			x.Requirements = append(x.Requirements, e)
		}
		for _, o := range t.Offers {
			x.Offerings = append(x.Offerings, catalog.Offering{Zone: o.Zone, CapacityType: o.CT, Price: units.FromDollars(o.Price), Available: true})
		}
		out = append(out, x)
	}
	return out, nil
}

// list reads quantities: cpu in millicores, the rest in base units.
func list(m map[string]string) (units.List, error) {
	out := units.List{}
	for k, s := range m {
		mult := int64(1)
		if k == units.CPU {
			mult = 1000
		}
		if n, ok := strings.CutSuffix(s, "m"); ok {
			s, mult = n, 1
		}
		for i, suffix := range []string{"Ki", "Mi", "Gi", "Ti"} {
			if n, ok := strings.CutSuffix(s, suffix); ok {
				s, mult = n, 1<<(10*(i+1))
			}
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", k, s, err)
		}
		if n != 0 {
			out[k] = n * mult
		}
	}
	return out, nil
}

// Pool returns the workload's pool on a catalogue.
func (w *Workload) Pool(c *catalog.Catalog) *cluster.Pool {
	in := func(key string, vs ...string) constraint.Expr {
		return constraint.Expr{Key: key, Operator: constraint.In, Values: vs}
	}
	const aws = "karpenter.k8s.aws/instance-"
	p := &cluster.Pool{Name: "default", UID: "default", Generation: 1, Ready: true, Catalog: c, NodeClass: cluster.ClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}}
	p.Requirements = []constraint.Expr{in(aws+"category", w.NodePool.Categories...), in(constraint.ArchKey, w.NodePool.Arch...),
		in(constraint.CapacityTypeKey, w.NodePool.CapacityTypes...), in(constraint.OSKey, "linux"),
		{Key: aws + "generation", Operator: constraint.Gt, Values: []string{strconv.Itoa(w.NodePool.GenerationGt)}}}
	if w.NodePool.MaxCPU > 0 {
		p.Requirements = append(p.Requirements, constraint.Expr{Key: aws + "cpu", Operator: constraint.Lte, Values: []string{strconv.Itoa(w.NodePool.MaxCPU)}})
	}
	if w.NodePool.LimitCPU > 0 {
		p.Limits = units.List{units.CPU: 1000 * w.NodePool.LimitCPU}
	}
	return p
}

func (d *Deployment) shape() *cluster.Shape {
	s := cluster.Shape{Namespace: "default", Requests: units.List{units.CPU: d.CPU, units.Memory: d.MemMiB << 20, units.Pods: 1}, SchedulerName: "default-scheduler"}
	sel := &cluster.Selector{MatchLabels: map[string]string{"app": d.Name}}
	if d.ZoneSpread > 0 {
		s.Spread = []cluster.Spread{{Key: constraint.ZoneKey, MaxSkew: d.ZoneSpread, Hard: true, Selector: sel, HonorAffinity: true}}
	}
	if d.AntiHost {
		s.AntiAffinity.Required = []cluster.PodTerm{{TopologyKey: constraint.HostnameKey, Selector: sel}}
	}
	if d.PreferApart > 0 {
		s.AntiAffinity.Preferred = []cluster.WeightedPodTerm{{Weight: d.PreferApart, Term: cluster.PodTerm{TopologyKey: constraint.HostnameKey, Selector: sel}}}
	}
	return cluster.NewShape(s)
}

// Objects are the parts of a cluster, ready to be put into a builder.
type Objects struct {
	Pool   *cluster.Pool
	Nodes  []*cluster.Node
	Claims []*cluster.Claim
	Pods   []*cluster.Pod
}

// Objects expands the workload.
func (w *Workload) Objects(c *catalog.Catalog) (*Objects, error) {
	o := &Objects{Pool: w.Pool(c)}
	now := Epoch()
	shapes, labels := make([]*cluster.Shape, len(w.Deployments)), make([]map[string]string, len(w.Deployments))
	pod := func(d, i int, node string) *cluster.Pod {
		name := w.Deployments[d].Name + "-" + strconv.Itoa(i)
		p := &cluster.Pod{UID: "uid-" + name, Namespace: "default", Name: name, Created: now, Shape: shapes[d], Labels: labels[d],
			Owner: cluster.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: w.Deployments[d].Name}, Phase: "Pending", Scheduled: "Unschedulable"}
		if node != "" {
			p.Node, p.Phase, p.Scheduled = node, "Running", ""
		}
		return p
	}
	serial := make([]int, len(w.Deployments))
	for d := range w.Deployments {
		shapes[d], labels[d] = w.Deployments[d].shape(), map[string]string{"app": w.Deployments[d].Name}
		for range w.Deployments[d].Replicas {
			o.Pods = append(o.Pods, pod(d, serial[d], ""))
			serial[d]++
		}
	}
	types := map[string]*catalog.InstanceType{}
	for i := range c.Types() {
		types[c.Types()[i].Name] = &c.Types()[i]
	}
	for _, n := range w.Nodes {
		t := types[n.Type]
		if t == nil {
			return nil, fmt.Errorf("node %s: instance type %q does not exist", n.Name, n.Type)
		}
		node, claim := w.node(n, t)
		o.Nodes, o.Claims = append(o.Nodes, node), append(o.Claims, claim)
		for _, x := range n.Pods {
			for range x[1] {
				o.Pods = append(o.Pods, pod(x[0], serial[x[0]], n.Name))
				serial[x[0]]++
			}
		}
	}
	return o, nil
}

func (w *Workload) node(n Node, t *catalog.InstanceType) (*cluster.Node, *cluster.Claim) {
	labels := map[string]string{constraint.HostnameKey: n.Name, constraint.NodePoolKey: "default", constraint.RegisteredKey: "true", constraint.InitializedKey: "true"}
	for _, e := range t.Requirements {
		if len(e.Values) == 1 {
			labels[e.Key] = e.Values[0]
		}
	}
	labels[constraint.ZoneKey], labels[constraint.CapacityTypeKey] = n.Zone, n.CT
	node := &cluster.Node{Name: n.Name, UID: n.Name, ProviderID: "aws:///" + n.Zone + "/i-" + n.Name, Labels: labels, Capacity: t.Capacity, Allocatable: t.Allocatable(), Created: Epoch(), Ready: true}
	claim := &cluster.Claim{Name: "c-" + n.Name, UID: "c-" + n.Name, ProviderID: node.ProviderID, NodeName: n.Name, Pool: "default", Labels: labels, Capacity: t.Capacity,
		Allocatable: node.Allocatable, Launched: true, Registered: true, Initialized: true, Created: Epoch()}
	return node, claim
}

// Build puts everything into a builder, as watches would.
func (o *Objects) Build() *cluster.Builder {
	b := cluster.NewBuilder()
	b.SetSettings(cluster.Settings{IgnoreDRA: true, StaticCapacity: true, ReservedCapacity: true})
	b.SetNamespace("default", nil)
	b.SetPool(o.Pool)
	for _, n := range o.Nodes {
		b.SetNode(n)
	}
	for _, c := range o.Claims {
		b.SetClaim(c)
	}
	for _, p := range o.Pods {
		b.SetPod(p)
	}
	return b
}

// Epoch is the time of all snapshots.
func Epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }
