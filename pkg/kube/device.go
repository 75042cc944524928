package kube

import (
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/constraint"
)

// Problems of resource claims and device classes: what scheduling rules 22.4 reject. They appear in cluster.DeviceClaim.Problem and
// cluster.DeviceClass.Problem.
const (
	// UnsupportedConstraint: a constraint other than matchAttribute.
	UnsupportedConstraint = "UnsupportedConstraint"
	// UnsupportedRequest: a request that is neither exactly nor firstAvailable, or that derives attributes.
	UnsupportedRequest = "UnsupportedRequest"
	// UnsupportedSelector: a selector that is not in CEL.
	UnsupportedSelector = "UnsupportedSelector"
)

// NewDeviceSlice converts a ResourceSlice.
func NewDeviceSlice(in *resourcev1.ResourceSlice) *cluster.DeviceSlice {
	spec := &in.Spec
	out := &cluster.DeviceSlice{Name: in.Name, Driver: spec.Driver, Pool: spec.Pool.Name, Generation: spec.Pool.Generation, Count: spec.Pool.ResourceSliceCount}
	for i := range in.OwnerReferences {
		if o := &in.OwnerReferences[i]; o.Kind == "Node" {
			out.OwnerNode = o.Name
		}
	}
	reach := reachOf(spec.NodeName, spec.NodeSelector)
	for i := range spec.Devices {
		d := &spec.Devices[i]
		x := cluster.PublishedDevice{Device: newDevice(spec.Driver, d), Reach: reach}
		if spec.PerDeviceNodeSelection != nil && *spec.PerDeviceNodeSelection {
			x.Reach = reachOf(d.NodeName, d.NodeSelector)
		}
		out.Devices = append(out.Devices, x)
	}
	for _, s := range spec.SharedCounters {
		out.Counters = append(out.Counters, catalog.Counters{Name: s.Name, Values: counters(s.Counters)})
	}
	return out
}

// reachOf converts where devices can be used; with neither name nor selector it is everywhere.
func reachOf(node *string, selector *corev1.NodeSelector) cluster.Reach {
	var out cluster.Reach
	if node != nil {
		out.Node = *node
	}
	if selector == nil {
		return out
	}
	for _, t := range selector.NodeSelectorTerms {
		out.Terms = append(out.Terms, reachTerm(t))
	}
	if len(out.Terms) == 0 {
		out.Terms = []cluster.ReachTerm{{Nodes: []string{}}} // no term selects nothing
	}
	return out
}

// reachTerm converts a term; the only field there is, is the node's name.
func reachTerm(t corev1.NodeSelectorTerm) cluster.ReachTerm {
	out := cluster.ReachTerm{Exprs: nodeExprs(t.MatchExpressions)}
	if len(t.MatchExpressions)+len(t.MatchFields) == 0 {
		out.Nodes = []string{}
	}
	for _, f := range t.MatchFields {
		switch {
		case f.Key != "metadata.name" || f.Operator != corev1.NodeSelectorOpIn:
			out.Nodes = []string{}
		case out.Nodes == nil:
			out.Nodes = slices.Clone(f.Values)
		default:
			out.Nodes = slices.DeleteFunc(out.Nodes, func(n string) bool { return !slices.Contains(f.Values, n) })
		}
	}
	return out
}

// qualified adds the driver to a name without domain.
func qualified(driver string, name resourcev1.QualifiedName) string {
	if strings.Contains(string(name), "/") {
		return string(name)
	}
	return driver + "/" + string(name)
}

func newDevice(driver string, d *resourcev1.Device) catalog.Device {
	out := catalog.Device{Name: d.Name, Shared: d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations}
	if len(d.Attributes) > 0 {
		out.Attributes = make(map[string]catalog.Attribute, len(d.Attributes))
	}
	for name, a := range d.Attributes {
		out.Attributes[qualified(driver, name)] = attribute(a)
	}
	if len(d.Capacity) > 0 {
		out.Capacity = make(map[string]catalog.DeviceCapacity, len(d.Capacity))
	}
	for name, c := range d.Capacity {
		out.Capacity[qualified(driver, name)] = catalog.DeviceCapacity{Value: thousandths(c.Value), Policy: policy(c.RequestPolicy)}
	}
	for _, c := range d.ConsumesCounters {
		out.Consumes = append(out.Consumes, catalog.CounterUse{Set: c.CounterSet, Values: counters(c.Counters)})
	}
	for _, t := range d.Taints {
		out.Taints = append(out.Taints, constraint.Taint{Key: t.Key, Value: t.Value, Effect: constraint.Effect(t.Effect)})
	}
	return out
}

func attribute(a resourcev1.DeviceAttribute) catalog.Attribute {
	one := func(kind, v string) catalog.Attribute { return catalog.Attribute{Kind: kind, Values: []string{v}} }
	many := func(kind string, vs []string) catalog.Attribute {
		return catalog.Attribute{Kind: kind, List: true, Values: vs}
	}
	switch {
	case a.IntValue != nil:
		return one("int", strconv.FormatInt(*a.IntValue, 10))
	case a.BoolValue != nil:
		return one("bool", strconv.FormatBool(*a.BoolValue))
	case a.StringValue != nil:
		return one("string", *a.StringValue)
	case a.VersionValue != nil:
		return one("version", *a.VersionValue)
	case a.IntValues != nil:
		var vs []string
		for _, n := range a.IntValues {
			vs = append(vs, strconv.FormatInt(n, 10))
		}
		return many("int", vs)
	case a.BoolValues != nil:
		var vs []string
		for _, b := range a.BoolValues {
			vs = append(vs, strconv.FormatBool(b))
		}
		return many("bool", vs)
	case a.StringValues != nil:
		return many("string", a.StringValues)
	}
	return many("version", a.VersionValues)
}

func counters(in map[string]resourcev1.Counter) map[string]int64 {
	out := make(map[string]int64, len(in))
	for name, c := range in {
		out[name] = thousandths(c.Value)
	}
	return out
}

// thousandths returns the amount, the largest there is if it is larger.
func thousandths(q resource.Quantity) int64 {
	if q.Value() > math.MaxInt64/1000 {
		return math.MaxInt64
	}
	return q.MilliValue()
}

func policy(in *resourcev1.CapacityRequestPolicy) *catalog.CapacityPolicy {
	if in == nil {
		return nil
	}
	optional := func(q *resource.Quantity) *int64 {
		if q == nil {
			return nil
		}
		return new(thousandths(*q))
	}
	out := &catalog.CapacityPolicy{Default: optional(in.Default)}
	for _, q := range in.ValidValues {
		out.Valid = append(out.Valid, thousandths(q))
	}
	slices.Sort(out.Valid)
	if r := in.ValidRange; r != nil {
		out.Ranged, out.Max, out.Step = true, optional(r.Max), optional(r.Step)
		if r.Min != nil {
			out.Min = thousandths(*r.Min)
		}
	}
	return out
}

// NewDeviceClass converts a DeviceClass.
func NewDeviceClass(in *resourcev1.DeviceClass) *cluster.DeviceClass {
	out := &cluster.DeviceClass{Name: in.Name}
	out.Selectors, out.Problem = selectors(in.Spec.Selectors)
	return out
}

func selectors(in []resourcev1.DeviceSelector) (out []string, problem string) {
	for _, s := range in {
		if s.CEL == nil {
			problem = UnsupportedSelector
			continue
		}
		out = append(out, s.CEL.Expression)
	}
	return out, problem
}

// NewDeviceClaim converts a ResourceClaim.
func NewDeviceClaim(in *resourcev1.ResourceClaim) *cluster.DeviceClaim {
	out := &cluster.DeviceClaim{Namespace: in.Namespace, Name: in.Name, UID: string(in.UID), Deleting: in.DeletionTimestamp != nil}
	for i := range in.Spec.Devices.Requests {
		out.Requests = append(out.Requests, deviceRequest(out, &in.Spec.Devices.Requests[i]))
	}
	for _, c := range in.Spec.Devices.Constraints {
		if c.MatchAttribute == nil {
			out.Problem = UnsupportedConstraint
			continue
		}
		out.Match = append(out.Match, cluster.DeviceMatch{Attribute: string(*c.MatchAttribute), Requests: c.Requests})
	}
	for _, r := range in.Status.ReservedFor {
		out.ReservedFor = append(out.ReservedFor, string(r.UID))
	}
	if a := in.Status.Allocation; a != nil {
		out.Bound, out.Reach = true, reachOf(nil, a.NodeSelector)
		for i := range a.Devices.Results {
			out.Allocated = append(out.Allocated, allocatedDevice(&a.Devices.Results[i]))
		}
	}
	return out
}

// deviceRequest converts a request; what cannot be simulated becomes the claim's problem.
func deviceRequest(claim *cluster.DeviceClaim, r *resourcev1.DeviceRequest) cluster.DeviceRequest {
	out := cluster.DeviceRequest{Name: r.Name}
	add := func(w cluster.DeviceWay, list []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, capacity *resourcev1.CapacityRequirements,
		tolerations []resourcev1.DeviceToleration, derived int) {
		var problem string
		if w.Selectors, problem = selectors(list); problem != "" {
			claim.Problem = problem
		}
		if w.All = mode == resourcev1.DeviceAllocationModeAll; !w.All && mode != resourcev1.DeviceAllocationModeExactCount && mode != "" || derived > 0 {
			claim.Problem = UnsupportedRequest
		}
		if !w.All && w.Count == 0 {
			w.Count = 1 // the API server's default
		}
		if capacity != nil && len(capacity.Requests) > 0 {
			w.Capacity = make(map[string]int64, len(capacity.Requests))
			for name, q := range capacity.Requests {
				w.Capacity[string(name)] = thousandths(q)
			}
		}
		for _, t := range tolerations {
			w.Tolerations = append(w.Tolerations, constraint.Toleration{Key: t.Key, Operator: string(t.Operator), Value: t.Value, Effect: constraint.Effect(t.Effect)})
		}
		out.Ways = append(out.Ways, w)
	}
	if e := r.Exactly; e != nil {
		add(cluster.DeviceWay{Class: e.DeviceClassName, Count: e.Count, Admin: e.AdminAccess != nil && *e.AdminAccess}, e.Selectors, e.AllocationMode, e.Capacity,
			e.Tolerations, len(e.DerivedAttributes))
	}
	for i := range r.FirstAvailable {
		s := &r.FirstAvailable[i]
		add(cluster.DeviceWay{Name: s.Name, Class: s.DeviceClassName, Count: s.Count}, s.Selectors, s.AllocationMode, s.Capacity, s.Tolerations, len(s.DerivedAttributes))
	}
	if len(out.Ways) == 0 {
		claim.Problem = UnsupportedRequest
	}
	return out
}

func allocatedDevice(r *resourcev1.DeviceRequestAllocationResult) cluster.AllocatedDevice {
	out := cluster.AllocatedDevice{Request: r.Request, Driver: r.Driver, Pool: r.Pool, Device: r.Device, Admin: r.AdminAccess != nil && *r.AdminAccess}
	if len(r.ConsumedCapacity) > 0 {
		out.Consumed = make(map[string]int64, len(r.ConsumedCapacity))
		for name, q := range r.ConsumedCapacity {
			out.Consumed[qualified(r.Driver, name)] = thousandths(q)
		}
	}
	return out
}

// deviceClaims lists the claims that a pod uses (scheduling rules 22.2): by name, or as its status tells of those made from a template.
func deviceClaims(pod *corev1.Pod) []cluster.DeviceClaimRef {
	var out []cluster.DeviceClaimRef
	for i := range pod.Spec.ResourceClaims {
		c := &pod.Spec.ResourceClaims[i]
		ref := cluster.DeviceClaimRef{Name: c.Name}
		if c.ResourceClaimName != nil {
			ref.Claim = *c.ResourceClaimName
		} else if at := slices.IndexFunc(pod.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool { return s.Name == c.Name }); at >= 0 {
			name := pod.Status.ResourceClaimStatuses[at].ResourceClaimName
			if name == nil {
				continue // none was needed
			}
			ref.Claim = *name
		}
		out = append(out, ref)
	}
	return out
}
