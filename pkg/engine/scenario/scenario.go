// Package scenario is a small language for test cases of the engine: a few lines describe pools, nodes and pods and become a snapshot; a
// plan becomes a few lines again. It has the fixtures of the scheduling specification (32.1).
//
// A line is a kind, a name and attributes separated by semicolons:
//
//	pool np: weight 10; limit cpu 6; req fam In t; taint d=x:NoSchedule; label tier=gold
//	node n: type t.medium; zone z-a; uninit; taint other=x:NoSchedule
//	pod web x3: cpu 1; app web; anti host app=web; tsc zone 1
//	bound db on n: app db
//	daemon ds: cpu 1; req gpuC Exists
//
// Keys may be written short: zone, host, ct, arch, type, fam, gen, cpuL, memL, gpuC, size, resv (the reservation's ID), nodepool, region.
package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/overlay"
	"github.com/karp-sh/karp/pkg/units"
)

// World is a cluster under construction.
type World struct {
	Builder *cluster.Builder
	// Catalog is what pools use that do not name their own.
	Catalog []catalog.InstanceType

	settings cluster.Settings
	nodes    map[string]*cluster.Node
	claims   map[string]*cluster.Claim
	serial   int
	pools    int

	overlays    []overlay.Overlay
	tuned       map[string]tuned
	buffers     map[string]int // their sizes
	services    []map[string]string
	clock       time.Duration
	nominated   map[string]time.Time
	held        map[string]int // virtual pods by node, as if a pass had put them there
	controllers map[string]controller

	slices    map[string]*cluster.DeviceSlice
	selectors map[string]bool
}

// Epoch is the time of every snapshot.
func Epoch() time.Time { return time.Date(2026, 9, 8, 12, 0, 0, 0, time.UTC) }

// New returns an empty world with the fixture catalogue and default settings.
func New() *World {
	w := &World{Builder: cluster.NewBuilder(), Catalog: CAT(), nodes: map[string]*cluster.Node{}, claims: map[string]*cluster.Claim{},
		tuned: map[string]tuned{}, buffers: map[string]int{}, controllers: map[string]controller{},
		slices: map[string]*cluster.DeviceSlice{}, selectors: map[string]bool{},
		nominated: map[string]time.Time{}, held: map[string]int{}}
	w.settings = cluster.Settings{IgnoreDRA: true, StaticCapacity: true, ReservedCapacity: true, NodeOverlay: true, CapacityBuffer: true,
		MinimumSaving: 20_000}
	w.Builder.SetSettings(w.settings)
	w.Builder.SetNamespace("default", nil)
	return w
}

// Snapshot returns the state at Epoch, or so much later as lines have let time go on.
func (w *World) Snapshot() *cluster.Snapshot {
	w.tune()
	w.evaluate()
	w.Builder.SetNominated(w.nominated)
	if len(w.held) > 0 {
		w.Builder.SetBuffered(w.held)
	}
	return w.Builder.Snapshot(w.Time())
}

// Apply reads lines; empty ones and those that start with # are skipped.
func (w *World) Apply(text string) error {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := w.line(line); err != nil {
			return fmt.Errorf("reading %q: %w", line, err)
		}
	}
	return nil
}

func (w *World) line(line string) error {
	head, rest, _ := strings.Cut(line, ":")
	if ok, err := w.shorthand(head, rest); ok {
		return err
	}
	words := strings.Fields(head)
	if len(words) < 2 {
		return fmt.Errorf("want a kind and a name before the colon")
	}
	var attrs []attr
	for a := range strings.SplitSeq(rest, ";") {
		if f := strings.Fields(a); len(f) > 0 {
			attrs = append(attrs, attr{f[0], f[1:]})
		}
	}
	switch kind, name := words[0], words[1]; kind {
	case "pool":
		return w.pool(name, attrs)
	case "node":
		return w.node(name, attrs)
	case "pod", "bound":
		return w.pods(kind, name, words[2:], attrs)
	case "daemon":
		s, _, err := shape(attrs)
		if err != nil {
			return err
		}
		for _, r := range []string{units.CPU, units.Memory} {
			if !slices.ContainsFunc(attrs, func(a attr) bool { return a.name == short(r) }) {
				delete(s.Requests, r)
			}
		}
		w.Builder.SetDaemonSet(&cluster.DaemonSet{Namespace: "default", Name: name, UID: name, Shape: cluster.NewShape(s)})
	case "namespace":
		labels := map[string]string{}
		for _, a := range attrs {
			if a.name == "label" {
				k, v, _ := strings.Cut(a.arg(0), "=")
				labels[k] = v
			}
		}
		w.Builder.SetNamespace(name, labels)
	case "U":
		return w.room(name, strings.TrimSpace(rest))
	case "pdb":
		return w.pdb(name, attrs)
	case "at":
		var err error
		w.clock, err = time.ParseDuration(name)
		return err
	case "unknown":
		w.Builder.SetUnknown(cluster.Unknown{Kind: name, Problem: strings.TrimSpace(rest)})
	case "overlay":
		return w.overlay(name, attrs)
	case "buffer":
		return w.buffer(name, words[2:], attrs)
	case "default":
		return w.defaultSpread(words[1:])
	case "service":
		return w.service(attrs)
	case "controller":
		return w.controller(name, attrs)
	case "slice":
		return w.slice(name, attrs)
	case "class":
		w.class(name, attrs)
	case "claim":
		return w.deviceClaim(name, words[2:], attrs)
	case "setting":
		return w.setting(name)
	case "catalog":
		return w.catalog(name)
	case "offer":
		return w.offer(name, attrs)
	case "type":
		return w.addTypes(name, words[2:], attrs)
	case "delete":
		w.Builder.DeletePod(name)
		w.Builder.DeleteDeviceClaim("default", name)
		w.Builder.DeleteNode(name)
		w.Builder.DeleteClaim(name)
	default:
		return fmt.Errorf("kind %q does not exist", kind)
	}
	return nil
}

func short(resource string) string {
	if resource == units.Memory {
		return "mem"
	}
	return resource
}

type attr struct {
	name string
	args []string
}

func (a attr) arg(i int) string {
	if i < len(a.args) {
		return a.args[i]
	}
	return ""
}

func (w *World) setting(name string) error {
	switch name {
	case "ignore-preferences":
		w.settings.IgnorePreferences = true
	case "no-reservations":
		w.settings.ReservedCapacity = false
	case "no-overlays":
		w.settings.NodeOverlay = false
	case "dra":
		w.settings.IgnoreDRA = false
	case "grace-30m":
		w.settings.DefaultGrace = "30m"
	case "best-effort":
		w.settings.BestEffortMinValues = true
	case "spot-to-spot":
		w.settings.SpotToSpot = true
	default:
		return fmt.Errorf("setting %q does not exist", name)
	}
	w.Builder.SetSettings(w.settings)
	return nil
}

// catalog chooses the fixture for pools declared after it.
func (w *World) catalog(name string) error {
	switch name {
	case "none":
		w.Catalog = nil
	case "CAT":
		w.Catalog = CAT()
	case "RES":
		w.Catalog = RES()
	case "F":
		w.Catalog = F()
	case "S":
		w.Catalog = S()
	case "FX": // F with a reservation of f.x
		w.Catalog = reserve(F(), "z1", map[string]string{"f.x": "r1"})
	case "FS": // F with reservations of f.s and f.2x
		w.Catalog = reserve(F(), "z1", map[string]string{"f.s": "r1", "f.2x": "r2"})
	case "DRA":
		w.Catalog = DRA()
		w.class("gpu", []attr{{name: "driver=" + gpuDriver}})
	default:
		return fmt.Errorf("catalogue %q does not exist", name)
	}
	return nil
}

// Key expands a short key.
func Key(s string) string {
	long := map[string]string{"zone": constraint.ZoneKey, "host": constraint.HostnameKey, "ct": constraint.CapacityTypeKey,
		"arch": constraint.ArchKey, "os": constraint.OSKey, "type": constraint.InstanceTypeKey, "region": constraint.RegionKey,
		"nodepool": constraint.NodePoolKey, "fam": "karpenter.k8s.aws/instance-family", "gen": "karpenter.k8s.aws/instance-generation",
		"cpuL": "karpenter.k8s.aws/instance-cpu", "memL": "karpenter.k8s.aws/instance-memory", "gpuC": "karpenter.k8s.aws/instance-gpu-count",
		"size": "karpenter.k8s.aws/instance-size", "resv": constraint.ReservationIDKey}
	if k, ok := long[s]; ok {
		return k
	}
	return s
}

// expr reads "key Op value value"; nothing after the key of a value list means none.
func expr(f []string) constraint.Expr {
	e := constraint.Expr{Key: Key(f[0])}
	if len(f) > 1 {
		e.Operator = constraint.Operator(f[1])
	}
	for i := 2; i < len(f); i++ {
		if f[i] == "min" && i+1 < len(f) {
			e.MinValues, _ = strconv.Atoi(f[i+1])
			break
		}
		e.Values = append(e.Values, strings.Trim(f[i], `"`))
	}
	return e
}

// terms reads expressions joined by & into terms joined by |.
func terms(f []string) [][]constraint.Expr {
	var out [][]constraint.Expr
	for term := range strings.SplitSeq(strings.Join(f, " "), "|") {
		var es []constraint.Expr
		for e := range strings.SplitSeq(term, "&") {
			es = append(es, expr(strings.Fields(e)))
		}
		out = append(out, es)
	}
	return out
}

// taint reads key=value:Effect.
func taint(s string) constraint.Taint {
	kv, effect, _ := cutLast(s, ":")
	k, v, _ := strings.Cut(kv, "=")
	return constraint.Taint{Key: k, Value: v, Effect: constraint.Effect(effect)}
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// amount reads a quantity: cpu in cores or with m, anything else with Ki, Mi, Gi or Ti.
func amount(resource, s string) (int64, error) {
	mult := int64(1)
	if resource == units.CPU {
		if n, ok := strings.CutSuffix(s, "m"); ok {
			return strconv.ParseInt(n, 10, 64)
		}
		mult = 1000
	}
	for i, suffix := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if n, ok := strings.CutSuffix(s, suffix); ok {
			s, mult = n, 1<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n * mult, err
}

func resource(s string) string {
	switch s {
	case "mem":
		return units.Memory
	case "gpu":
		return "nvidia.com/gpu"
	case "neuron":
		return "aws.amazon.com/neuron"
	case "neuroncore":
		return "aws.amazon.com/neuroncore"
	}
	return s
}

func (w *World) pool(name string, attrs []attr) error {
	p := &cluster.Pool{Name: name, UID: "uid-" + name, Generation: 1, Ready: true, Labels: map[string]string{}, Annotations: map[string]string{},
		NodeClass: cluster.ClassRef{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "cls"}, Hash: "h-" + name, HashVersion: "v4"}
	types := w.Catalog
	for _, a := range attrs {
		switch a.name {
		case "weight":
			n, err := int32Of(a.arg(0))
			if err != nil {
				return err
			}
			p.Weight = n
		case "req":
			p.Requirements = append(p.Requirements, expr(a.args))
		case "limit":
			r := resource(a.arg(0))
			n, err := amount(r, a.arg(1))
			if err != nil {
				return err
			}
			if p.Limits == nil {
				p.Limits = units.List{}
			}
			p.Limits[r] = n
		case "taint":
			p.Taints = append(p.Taints, taint(a.arg(0)))
		case "startup":
			p.StartupTaints = append(p.StartupTaints, taint(a.arg(0)))
		case "label":
			k, v, _ := strings.Cut(a.arg(0), "=")
			p.Labels[Key(k)] = v
		case "annotation":
			k, v, _ := strings.Cut(a.arg(0), "=")
			p.Annotations[k] = v
		case "expire":
			p.ExpireAfter = a.arg(0)
		case "grace":
			p.TerminationGracePeriod = a.arg(0)
		case "notready":
			p.Ready, p.NotReady = false, cluster.Condition{Type: "Ready", Reason: "NodeClassNotReady"}
		case "deleting":
			p.Deleting = true
		case "replicas":
			n, err := strconv.ParseInt(a.arg(0), 10, 64)
			if err != nil {
				return err
			}
			p.Replicas = &n
		case "unevaluated":
			types, p.CatalogProblem = nil, "node overlays are not evaluated yet"
		case "nofetch":
			types, p.CatalogProblem = nil, "describing instance types: timeout"
		default:
			if ok, err := poolDisruption(p, a); ok || err != nil {
				if err != nil {
					return err
				}
				continue
			}
			return fmt.Errorf("attribute %q does not exist", a.name)
		}
	}
	if types != nil {
		p.Catalog = catalog.New(types)
	}
	w.pools++
	w.tuned[name] = tuned{p, types}
	w.Builder.SetPool(p)
	return nil
}

// offer changes offerings of the catalogue used by pools declared after it: "offer t.small: zone z-b; ct spot; gone", "price 0.5", or
// "ct reserved; id cr-1; count 2"; the name "*" stands for all types.
func (w *World) offer(name string, attrs []attr) error {
	types := slices.Clone(w.Catalog)
	for i := range types {
		if name != "*" && types[i].Name != name {
			continue
		}
		types[i].Offerings = slices.Clone(types[i].Offerings)
		for j := range types[i].Offerings {
			if err := change(&types[i].Offerings[j], attrs); err != nil {
				return err
			}
		}
	}
	w.Catalog = types
	return nil
}

func change(o *catalog.Offering, attrs []attr) error {
	for _, a := range attrs {
		switch a.name {
		case "zone":
			if o.Zone != a.arg(0) {
				return nil
			}
		case "ct":
			if o.CapacityType != a.arg(0) {
				return nil
			}
		case "gone":
			o.Available, o.Unavailable.Reason = false, "InsufficientInstanceCapacity"
		case "id":
			*o = reservedOffering(o.Zone, a.arg(0), o.ReservationCount, o.Price)
		case "count":
			n, err := strconv.Atoi(a.arg(0))
			if err != nil {
				return err
			}
			o.ReservationCount, o.Available = n, n > 0
		case "price":
			f, err := strconv.ParseFloat(a.arg(0), 64)
			if err != nil {
				return err
			}
			o.Price = units.FromDollars(f)
		case "allocatable":
			n, err := amount(resource(a.arg(0)), a.arg(1))
			if err != nil {
				return err
			}
			o.Capacity = units.List{resource(a.arg(0)): n}
		default:
			return fmt.Errorf("attribute %q does not exist", a.name)
		}
	}
	return nil
}

// addTypes adds one type, or with "xN" the types NAME0001 to NAMEn, each a little dearer than the one before.
func (w *World) addTypes(name string, words []string, attrs []attr) error {
	if len(words) == 0 {
		return w.addType(name, attrs)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(words[0], "x"))
	for i := range n {
		if err := w.addType(fmt.Sprintf("%s%04d", name, i+1), attrs); err != nil {
			return err
		}
		t := &w.Catalog[len(w.Catalog)-1]
		for j := range t.Offerings {
			t.Offerings[j].Price += units.Money(i) * units.Dollar / 10_000
		}
	}
	return err
}

// addType adds a type: "type h.large: cpu 8; mem 16Gi; pods 40; price 0.5 0.2; hugepages-2Mi 4Gi; reserved cpu 200m; fam h".
func (w *World) addType(name string, attrs []attr) error {
	t := typeSpec{name: name, arch: "amd64", gen: "1", extra: units.List{}}
	reserved, pool := units.List{}, catalog.DevicePool{Driver: gpuDriver, Name: "node"}
	for _, a := range attrs {
		switch a.name {
		case "devices":
			more, err := devices(a.args, len(pool.Devices))
			if err != nil {
				return err
			}
			pool.Devices = append(pool.Devices, more...)
		case "counter":
			sets, err := counter(pool.Counters, a.arg(0))
			if err != nil {
				return err
			}
			pool.Counters = sets
		case "price":
			t.od, _ = strconv.ParseFloat(a.arg(0), 64)
			t.spot, _ = strconv.ParseFloat(a.arg(1), 64)
		case "reserved":
			n, err := amount(resource(a.arg(0)), a.arg(1))
			if err != nil {
				return err
			}
			reserved[resource(a.arg(0))] = n
		case "fam":
			t.fam = a.arg(0)
		default:
			n, err := amount(resource(a.name), a.arg(0))
			if err != nil {
				return err
			}
			t.extra[resource(a.name)] = n
		}
	}
	x := t.build()
	x.Overhead.KubeReserved = reserved
	if len(pool.Devices) > 0 {
		x.Devices = []catalog.DevicePool{pool}
	}
	w.Catalog = append(slices.Clone(w.Catalog), x)
	return nil
}

// pods adds pods: "pod NAME [xN]" pending, "bound NAME [xN] on NODE" running.
func (w *World) pods(kind, name string, words []string, attrs []attr) error {
	n, node := 1, ""
	for i, word := range words {
		if c, ok := strings.CutPrefix(word, "x"); ok && word != "x" {
			if k, err := strconv.Atoi(c); err == nil {
				n = k
			}
		}
		if word == "on" && i+1 < len(words) {
			node = words[i+1]
		}
	}
	s, p, err := shape(attrs)
	if err != nil {
		return err
	}
	shared := w.defaulted(cluster.NewShape(s), &p)
	for i := range n {
		w.serial++
		q := p
		q.Namespace, q.Shape = s.Namespace, shared
		q.Name = name
		if n > 1 {
			q.Name = name + "-" + strconv.Itoa(i+1)
		}
		if q.UID == "" {
			q.UID = q.Name
		}
		q.DeviceClaims = numbered(p.DeviceClaims, i+1)
		if q.Created.IsZero() {
			q.Created = Epoch().Add(time.Duration(w.serial) * time.Millisecond)
		}
		if kind == "bound" {
			q.Node, q.Scheduled = node, ""
			if q.Phase == "" {
				q.Phase = "Running"
			}
		} else if q.Phase == "" {
			q.Phase = "Pending"
		}
		w.Builder.SetPod(&q)
	}
	return nil
}

// node adds a node with its claim (see the specification's shorthand): states are uninit, unreg, unlaunched, unmanaged; default initialized.
func (w *World) node(name string, attrs []attr) error {
	n := &cluster.Node{Name: name, UID: "uid-" + name, ProviderID: "aws:///" + name, Labels: map[string]string{}, Created: Epoch()}
	c := &cluster.Claim{Name: "claim-" + name, UID: "uid-claim-" + name, ProviderID: n.ProviderID, NodeName: name, Pool: "np", Labels: map[string]string{},
		Launched: true, Registered: true, Initialized: true, Created: Epoch()}
	st := &nodeState{kind: "t.medium", zone: "z-a", ct: catalog.OnDemand, state: "init", node: n, claim: c}
	for _, a := range attrs {
		ok, err := st.disrupt(w, a)
		if !ok && err == nil {
			err = st.set(a)
		}
		if err != nil {
			return err
		}
	}
	if err := w.assemble(st); err != nil {
		return err
	}
	st.stand()
	if st.state != "unmanaged" && !st.noclaim {
		w.Builder.SetClaim(c)
	}
	if (st.state != "unreg" && st.state != "unlaunched" || st.present) && !st.nonode {
		w.Builder.SetNode(n)
	}
	if st.full {
		s := cluster.NewShape(cluster.Shape{Namespace: "default", Requests: units.List{units.CPU: n.Allocatable[units.CPU], units.Pods: 1}})
		w.Builder.SetPod(&cluster.Pod{UID: "filler-" + name, Namespace: "default", Name: "filler-" + name, Shape: s, Node: name, Phase: "Running", Created: Epoch()})
	}
	return nil
}

type nodeState struct {
	kind, zone, ct, state string
	full, present         bool
	young, unready        bool
	noclaim, nonode       bool
	reports               units.List
	node                  *cluster.Node
	claim                 *cluster.Claim
	nolabel               []string
}

func (s *nodeState) set(a attr) error {
	switch a.name {
	case "type":
		s.kind = a.arg(0)
	case "zone":
		s.zone = a.arg(0)
	case "ct":
		s.ct = a.arg(0)
	case "uninit", "unreg", "unlaunched", "unmanaged":
		s.state = a.name
	case "present":
		s.present = true
	case "full":
		s.full = true
	case "pool":
		s.claim.Pool = a.arg(0)
	case "taint":
		s.node.Taints = append(s.node.Taints, taint(a.arg(0)))
	case "startup":
		s.claim.StartupTaints = append(s.claim.StartupTaints, taint(a.arg(0)))
	case "label":
		k, v, _ := strings.Cut(a.arg(0), "=")
		s.node.Labels[Key(k)], s.claim.Labels[Key(k)] = v, v
	case "nolabel":
		s.nolabel = append(s.nolabel, Key(a.arg(0)))
	case "marked":
		s.claim.Marked = true
	case "deleting":
		s.claim.Deleted, s.node.Deleted = Epoch(), Epoch()
	case "terminating":
		s.claim.Terminating = true
	case "noprovider":
		s.node.ProviderID = ""
	case "reports":
		n, err := amount(resource(a.arg(0)), a.arg(1))
		if err != nil {
			return err
		}
		if s.reports == nil {
			s.reports = units.List{}
		}
		s.reports[resource(a.arg(0))] = n
	case "attach":
		n, err := strconv.ParseInt(a.arg(0), 10, 64)
		if err != nil {
			return err
		}
		s.node.AttachLimits = map[string]int64{"ebs.csi.aws.com": n}
	case "req":
		s.claim.Requirements = append(s.claim.Requirements, expr(a.args))
	case "requests":
		n, err := amount(resource(a.arg(0)), a.arg(1))
		if err != nil {
			return err
		}
		if s.claim.Requests == nil {
			s.claim.Requests = units.List{}
		}
		s.claim.Requests[resource(a.arg(0))] = n
	default:
		return fmt.Errorf("attribute %q does not exist", a.name)
	}
	return nil
}

func (w *World) assemble(s *nodeState) error {
	i := slices.IndexFunc(w.Catalog, func(t catalog.InstanceType) bool { return t.Name == s.kind })
	if i < 0 {
		return fmt.Errorf("instance type %q does not exist", s.kind)
	}
	t, n, c := w.Catalog[i], s.node, s.claim
	n.Capacity, n.Allocatable, n.Ready = t.Capacity.Clone(), t.Allocatable(), true
	c.Capacity, c.Allocatable = t.Capacity.Clone(), t.Allocatable()
	maps.Copy(n.Capacity, s.reports)
	maps.Copy(n.Allocatable, s.reports)
	labels := map[string]string{constraint.HostnameKey: n.Name}
	if s.state != "unmanaged" {
		for _, e := range t.Requirements {
			if len(e.Values) == 1 {
				labels[e.Key] = e.Values[0]
			}
		}
		labels[constraint.ZoneKey], labels[constraint.CapacityTypeKey] = s.zone, s.ct
		labels[constraint.NodePoolKey], labels[constraint.RegisteredKey] = c.Pool, "true"
		if s.state == "init" {
			labels[constraint.InitializedKey] = "true"
		}
	} else {
		labels[constraint.ZoneKey] = s.zone
	}
	for k, v := range labels {
		if _, ok := n.Labels[k]; !ok {
			n.Labels[k] = v
		}
	}
	for _, k := range s.nolabel {
		delete(n.Labels, k)
	}
	switch s.state {
	case "uninit":
		c.Initialized = false
	case "unreg":
		c.Registered, c.Initialized = false, false
		delete(n.Labels, constraint.RegisteredKey)
		maps.Copy(c.Labels, n.Labels)
		delete(c.Labels, constraint.HostnameKey)
	case "unlaunched":
		c.Launched, c.Registered, c.Initialized, c.ProviderID = false, false, false, ""
		c.Capacity, c.Allocatable = nil, nil
		c.Labels[constraint.NodePoolKey] = c.Pool
	}
	return nil
}
