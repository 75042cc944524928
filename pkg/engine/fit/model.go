package fit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/engine/device"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/units"
)

// Model is a snapshot made ready for questions about fit. It caches and so is not safe for concurrent use.
type Model struct {
	Snapshot *cluster.Snapshot
	// Axis numbers the resources that pods of the batch or daemons ask for.
	Axis *units.Axis
	// Groups are the pods to place, in queue order (rules 9.1).
	Groups []*Group
	// Ignored are the verdicts on pods that failed validation (rules 2.2).
	Ignored []plan.Verdict
	// Candidates tells that some pool may get claims at all (rules 4.1); without one a pass does nothing.
	Candidates bool
	// Templates are the usable pools in the order in which they are tried (rules 4.2).
	Templates []*Template
	// Pools are the verdicts on those that are not usable, in the same order.
	Pools []plan.PoolVerdict
	// Reservations are the capacity reservations that some pool can use (rules 15), by ID.
	Reservations []Reservation
	// Devices is what pods of the batch may ask of devices, nil if none does.
	Devices *device.Inventory
	// Targets that can take pods: initialized ones first, then by name (rules 9.2).
	Targets []*Target

	moved, closed map[string]bool // by target name, see Simulation

	daemons    []daemon
	softTaints bool // some candidate pool has a PreferNoSchedule taint
	eligible   []*cluster.Group
	inBatch    map[string]bool // displaced pods, by UID
	selectors  []*cluster.Selector
	levels     [][]*Spec
	drafts     []draft
	topologies map[string]*Topology
	byID       []*Topology
	residents  []population
	universes  map[string]universe
	candidates []*cluster.Pool
	inverses   []*Topology
}

// Simulation is what a simulation of disruption changes about the rules.
type Simulation struct {
	// Moved are the targets whose pods are moved off although nobody is deleting them; the snapshot has them as leaving. Closed are those that
	// take no such pods, as long as these do not wait to start (rules 10, consolidateAfter). Both are names of targets.
	Moved, Closed []string
}

// New prepares a snapshot.
func New(s *cluster.Snapshot) *Model { return Simulate(s, Simulation{}) }

// Simulate prepares a snapshot for a simulation.
func Simulate(s *cluster.Snapshot, sim Simulation) *Model {
	m := &Model{Snapshot: s, inBatch: map[string]bool{}, topologies: map[string]*Topology{}, universes: map[string]universe{},
		moved: set(sim.Moved), closed: set(sim.Closed)}
	m.collect()
	m.findSelectors()
	m.findDevices()
	m.batch()
	m.axis()
	m.daemons = m.daemonsOf(s.DaemonSets)
	m.findReservations()
	m.findTemplates()
	m.findTargets()
	m.levels, m.drafts = make([][]*Spec, len(m.Groups)), make([]draft, len(m.Groups))
	return m
}

func set(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

func (m *Model) axis() {
	lists := []units.List{{units.CPU: 0, units.Memory: 0, units.Pods: 0}}
	for _, g := range m.Groups {
		lists = append(lists, positive(g.Shape.Requests))
	}
	for _, d := range m.Snapshot.DaemonSets {
		lists = append(lists, positive(d.Shape.Requests))
	}
	m.Axis = units.NewAxis(lists...)
	for _, g := range m.Groups {
		g.Request = m.Axis.Vector(g.Shape.Requests)
	}
}

// positive leaves out zero amounts: a zero request fits everywhere (rules 5.2).
func positive(l units.List) units.List {
	for _, v := range l {
		if v == 0 {
			out := units.List{}
			for k, v := range l {
				if v != 0 {
					out[k] = v
				}
			}
			return out
		}
	}
	return l
}

// daemon is a DaemonSet with what decides where it runs (rules 8.2).
type daemon struct {
	set     *cluster.DaemonSet
	request units.List
	ports   []cluster.HostPort
	// terms are node selector and one required term each; any may match.
	terms []constraint.Requirements
}

func (m *Model) daemonsOf(sets []*cluster.DaemonSet) []daemon {
	var out []daemon
	for _, d := range sets {
		if len(d.Shape.ResourceClaims) > 0 && m.Snapshot.Settings.IgnoreDRA {
			continue
		}
		x := daemon{set: d, request: d.Shape.Requests, ports: d.Shape.HostPorts}
		base := constraint.FromLabels(d.Shape.NodeSelector)
		for _, t := range d.Shape.Required {
			x.terms = append(x.terms, base.And(constraint.Parse(t.Exprs)))
		}
		if len(x.terms) == 0 {
			x.terms = []constraint.Requirements{base}
		}
		out = append(out, x)
	}
	return out
}

// runsOn reports whether the daemon counts on an existing target (rules 8.3).
func (d *daemon) runsOn(t *cluster.Target) bool {
	if _, bad := constraint.UntoleratedHard(t.Taints, d.set.Shape.Tolerations); bad {
		return false
	}
	return slices.ContainsFunc(d.terms, func(r constraint.Requirements) bool {
		_, ok := matchTarget(t, r)
		return ok
	})
}

// matchTarget reports whether a target certainly satisfies requirements: its labels do, or, while it is a claim that is not launched,
// everything it can become does.
func matchTarget(t *cluster.Target, rs constraint.Requirements) (constraint.Mismatch, bool) {
	if !t.Pending {
		return rs.Match(t.Labels)
	}
	for r := range rs.All() {
		if own, ok := t.Requirements.Get(r.Key); ok {
			if own.Implies(r) {
				continue
			}
			if _, certain := own.Single(); certain {
				return constraint.Mismatch{Key: r.Key}, false
			}
		}
		if t.Offers != nil {
			if ok, known := t.Catalog.Ensures(t.Offers, r); known {
				if ok {
					continue
				}
				return constraint.Mismatch{Key: r.Key}, false
			}
		}
		if !t.Requirements.Has(r.Key) && r.AdmitsAbsent() {
			continue
		}
		return constraint.Mismatch{Key: r.Key, Undefined: !t.Requirements.Has(r.Key)}, false
	}
	return constraint.Mismatch{}, true
}

// Target is an existing or coming place with what the batch finds there.
type Target struct {
	*cluster.Target
	// Index is the position in Model.Targets.
	Index int
	// Free is what pods can still use, after what daemons will take (rules 8.3).
	Free units.Vector
	// Overdrawn tells that some resource is used beyond what the target has, so that nothing fits (rules 5.2).
	Overdrawn bool
	// Closed tells that it takes no pods that are only moved, see Simulation.
	Closed bool
	// Ports taken by bound pods.
	Ports []cluster.HostPort
	// Volumes attached, as driver -> volume IDs; nil unless the node has attach limits.
	Volumes map[string]map[string]bool
}

func (m *Model) findTargets() {
	for _, t := range m.Snapshot.Targets() {
		if !t.Leaving {
			m.Targets = append(m.Targets, m.newTarget(t))
		}
	}
	slices.SortStableFunc(m.Targets, func(a, b *Target) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
	for i, t := range m.Targets {
		t.Index = i
	}
}

func rank(t *Target) int {
	if t.Initialized {
		return 0
	}
	return 1
}

func (m *Model) newTarget(t *cluster.Target) *Target {
	out := &Target{Target: t, Free: m.Axis.Vector(t.Allocatable), Closed: m.closed[t.Name]}
	for k, used := range t.Used {
		if used > t.Allocatable[k] {
			out.Overdrawn = true
		}
		if i, ok := m.Axis.Index(k); ok {
			out.Free[i] -= used
		}
	}
	for k, v := range m.reserve(t) {
		if i, ok := m.Axis.Index(k); ok && v > 0 {
			out.Free[i] -= v
			out.Overdrawn = out.Overdrawn || out.Free[i] < 0
		}
	}
	for _, r := range t.Residents {
		out.Ports = append(out.Ports, r.Shape.HostPorts...)
	}
	if t.Node != nil && len(t.Node.AttachLimits) > 0 {
		out.Volumes = map[string]map[string]bool{}
		for _, r := range t.Residents {
			Attach(out.Volumes, r.Shape.Volumes)
		}
	}
	return out
}

// reserve is what daemons that do not run there yet will take; of a claim that is not launched, the least over its types, as its requests
// contain it (rules 8.4).
func (m *Model) reserve(t *cluster.Target) units.List {
	if len(m.daemons) == 0 {
		return nil
	}
	if t.Pending && t.Offers != nil {
		for _, tmpl := range m.Templates {
			if tmpl.Pool.Name == t.Pool && tmpl.Catalog == t.Catalog {
				return tmpl.LeastOverhead(t.Offers)
			}
		}
	}
	out := units.List{}
	for i := range m.daemons {
		if m.daemons[i].runsOn(t) {
			out = out.Add(m.daemons[i].request)
		}
	}
	for _, r := range t.Residents {
		for _, p := range r.Pods {
			if p.Owner.APIVersion == "apps/v1" && p.Owner.Kind == "DaemonSet" {
				out = out.Sub(r.Shape.Requests)
			}
		}
	}
	return out
}

// Attach adds volumes to the set of those attached, by driver.
func Attach(attached map[string]map[string]bool, vs []cluster.Volume) {
	for _, v := range vs {
		if v.Driver == "" {
			continue
		}
		if attached[v.Driver] == nil {
			attached[v.Driver] = map[string]bool{}
		}
		attached[v.Driver][v.ID] = true
	}
}

// Attachable reports whether the volumes stay within the node's limits beside those attached (rules 19.4).
func (t *Target) Attachable(attached map[string]map[string]bool, vs []cluster.Volume) bool {
	if t.Volumes == nil || len(vs) == 0 {
		return true
	}
	fresh := map[string]map[string]bool{}
	for _, v := range vs {
		if v.Driver != "" && !attached[v.Driver][v.ID] {
			Attach(fresh, []cluster.Volume{v})
		}
	}
	for driver, ids := range fresh {
		if limit, ok := t.Node.AttachLimits[driver]; ok && int64(len(attached[driver])+len(ids)) > limit {
			return false
		}
	}
	return true
}

// PortsCollide reports whether a port of one list cannot be on the same node as one of the other (rules 20).
func PortsCollide(a, b []cluster.HostPort) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Port == y.Port && x.Protocol == y.Protocol && (x.IP == y.IP || anyAddress(x.IP) || anyAddress(y.IP)) {
				return true
			}
		}
	}
	return false
}

func anyAddress(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }

// Admits reports whether taints and labels let the spec onto the target, for one of its volume alternatives and leaving resources and
// topology aside (rules 10).
func (t *Target) Admits(s *Spec) (reason.Code, string, bool) {
	if x, bad := constraint.Untolerated(t.Taints, s.Tolerations); bad {
		return reason.TaintNotTolerated, TaintString(x), false
	}
	if s.Contradiction != "" {
		return reason.LabelConflict, s.Contradiction, false
	}
	if mm, ok := matchTarget(t.Target, s.Full); !ok {
		return mismatchCode(mm), mm.Key, false
	}
	for _, v := range s.Volumes {
		if _, ok := matchTarget(t.Target, v); ok {
			return "", "", true
		}
	}
	return reason.VolumeZoneConflict, "", false
}

func mismatchCode(mm constraint.Mismatch) reason.Code {
	if mm.Undefined {
		return reason.LabelUnknown
	}
	return reason.LabelConflict
}

// TaintString renders a taint as kubectl does: key=value:Effect.
func TaintString(t constraint.Taint) string {
	var b strings.Builder
	b.WriteString(t.Key)
	if t.Value != "" {
		b.WriteString("=" + t.Value)
	}
	b.WriteString(":" + string(t.Effect))
	return b.String()
}
