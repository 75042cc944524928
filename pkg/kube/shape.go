package kube

import (
	"encoding/binary"

	corev1 "k8s.io/api/core/v1"

	"github.com/karp-sh/karp/pkg/cluster"
)

// Shaper turns pods into shapes and gives equal pods the same shape.
//
// It writes the fields of a pod that matter for scheduling into a buffer and looks that up, so a pod of a known shape costs one pass over its
// spec and no allocation. The whole encoding is the key, so two different pods can never collide. It is not safe for concurrent use; the
// zero value is ready.
type Shaper struct {
	// known maps an encoding to its shape, canon a shape's Key to the one shape with that key: pods can differ in their encoding and still be
	// the same to the scheduler, for example when a request moves from one container to another.
	known, canon map[string]*cluster.Shape
	buf          encoder
}

// Shape returns the shape of a pod. Volumes are the pod's claims, resolved; they are part of the shape.
func (s *Shaper) Shape(pod *corev1.Pod, volumes []cluster.Volume) *cluster.Shape {
	s.buf.reset()
	s.buf.pod(pod)
	if len(volumes) > 0 {
		s.buf.volumes(volumes)
	}
	if shape, ok := s.known[string(s.buf.b)]; ok {
		return shape
	}
	if s.known == nil {
		s.known, s.canon = map[string]*cluster.Shape{}, map[string]*cluster.Shape{}
	}
	encoding := string(s.buf.b)
	shape := newShape(pod, volumes)
	if same, ok := s.canon[shape.Key]; ok {
		shape = same
	} else {
		s.canon[shape.Key] = shape
	}
	s.known[encoding] = shape
	return shape
}

// Len returns the number of encodings kept.
func (s *Shaper) Len() int { return len(s.known) }

// Retain forgets all shapes for which used is false. A long-running owner calls it now and then with the shapes of its pods.
func (s *Shaper) Retain(used func(*cluster.Shape) bool) {
	for encoding, shape := range s.known {
		if !used(shape) {
			delete(s.known, encoding)
			delete(s.canon, shape.Key)
		}
	}
}

// newShape converts the scheduling-relevant part of a pod.
func newShape(pod *corev1.Pod, volumes []cluster.Volume) *cluster.Shape {
	spec := &pod.Spec
	out := &cluster.Shape{
		Namespace: pod.Namespace, Requests: Requests(pod), NodeSelector: spec.NodeSelector,
		Required: requiredTerms(spec.Affinity), Preferred: preferredTerms(spec.Affinity),
		Tolerations: tolerations(spec.Tolerations), Spread: spreads(spec.TopologySpreadConstraints),
		HostPorts: hostPorts(spec), Volumes: volumes, PriorityClass: spec.PriorityClassName, SchedulerName: spec.SchedulerName,
	}
	if spec.Priority != nil {
		out.Priority = *spec.Priority
	}
	if a := spec.Affinity; a != nil {
		if p := a.PodAffinity; p != nil {
			out.PodAffinity = podAffinity(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
		}
		if p := a.PodAntiAffinity; p != nil {
			out.AntiAffinity = podAffinity(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)
		}
	}
	for i := range spec.ResourceClaims {
		out.ResourceClaims = append(out.ResourceClaims, spec.ResourceClaims[i].Name)
	}
	for i := range spec.SchedulingGates {
		out.SchedulingGates = append(out.SchedulingGates, spec.SchedulingGates[i].Name)
	}
	return cluster.NewShape(*out)
}

// encoder writes values so that different values give different bytes: every string and list carries its length.
type encoder struct {
	b     []byte
	pairs []pair
	// need collects the requests of one container.
	need []quantity
}

type pair struct{ k, v string }

type quantity struct {
	name corev1.ResourceName
	v    int64
}

func (e *encoder) reset()      { e.b = e.b[:0] }
func (e *encoder) tag(c byte)  { e.b = append(e.b, c) }
func (e *encoder) len(n int)   { e.b = binary.AppendUvarint(e.b, uint64(n)) }
func (e *encoder) num(n int64) { e.b = binary.AppendVarint(e.b, n) }

func (e *encoder) str(s string) {
	e.len(len(s))
	e.b = append(e.b, s...)
}

func (e *encoder) strs(list []string) {
	e.len(len(list))
	for _, s := range list {
		e.str(s)
	}
}

func (e *encoder) bool(v bool) {
	if v {
		e.tag(1)
		return
	}
	e.tag(0)
}

// dict writes a map in the order of its keys.
func (e *encoder) dict(m map[string]string) {
	e.len(len(m))
	if len(m) == 0 {
		return
	}
	e.pairs = e.pairs[:0]
	for k, v := range m {
		i := len(e.pairs)
		e.pairs = append(e.pairs, pair{})
		for ; i > 0 && e.pairs[i-1].k > k; i-- {
			e.pairs[i] = e.pairs[i-1]
		}
		e.pairs[i] = pair{k, v}
	}
	for _, p := range e.pairs {
		e.str(p.k)
		e.str(p.v)
	}
}

// pod writes everything but the volumes.
func (e *encoder) pod(pod *corev1.Pod) {
	e.placement(pod)
	infeasible := resizeInfeasible(pod)
	e.tag('c')
	for i := range pod.Spec.Containers {
		e.container(pod, &pod.Spec.Containers[i], infeasible)
	}
	e.tag('i')
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		e.bool(sidecar(c))
		e.container(pod, c, infeasible)
	}
	if pod.Spec.Resources != nil {
		e.tag('l')
		e.bool(infeasible)
		e.requests(pod.Spec.Resources.Requests)
		e.bool(pod.Status.Resources != nil)
		if pod.Status.Resources != nil {
			e.requests(pod.Status.Resources.Requests)
			e.requests(pod.Status.AllocatedResources)
		}
	}
	if len(pod.Spec.Overhead) > 0 {
		e.tag('o')
		e.requests(pod.Spec.Overhead)
	}
}

// placement writes what is copied into the shape as it stands.
func (e *encoder) placement(pod *corev1.Pod) {
	spec := &pod.Spec
	e.str(pod.Namespace)
	e.str(spec.SchedulerName)
	e.str(spec.PriorityClassName)
	if spec.Priority != nil {
		e.num(int64(*spec.Priority))
	} else {
		e.num(0)
	}
	e.dict(spec.NodeSelector)
	e.len(len(spec.Tolerations))
	for i := range spec.Tolerations {
		t := &spec.Tolerations[i]
		e.str(t.Key)
		e.str(string(t.Operator))
		e.str(t.Value)
		e.str(string(t.Effect))
	}
	if spec.Affinity != nil {
		e.affinity(spec.Affinity)
	}
	if len(spec.TopologySpreadConstraints) > 0 {
		e.tag('s')
		e.spread(spec.TopologySpreadConstraints)
	}
	if len(spec.ResourceClaims) > 0 {
		e.tag('d')
		e.len(len(spec.ResourceClaims))
		for i := range spec.ResourceClaims {
			e.str(spec.ResourceClaims[i].Name)
		}
	}
	if len(spec.SchedulingGates) > 0 {
		e.tag('g')
		e.len(len(spec.SchedulingGates))
		for i := range spec.SchedulingGates {
			e.str(spec.SchedulingGates[i].Name)
		}
	}
	e.tag('.')
}

// container writes the ports and the requests that count for one container.
func (e *encoder) container(pod *corev1.Pod, c *corev1.Container, infeasible bool) {
	e.tag('{')
	e.need = e.need[:0]
	status := containerStatus(pod, c.Name)
	if !infeasible {
		e.collect(c.Resources.Requests)
	}
	if status != nil {
		if status.Resources != nil {
			e.collect(status.Resources.Requests)
		}
		e.collect(status.AllocatedResources)
	}
	e.flush()
	for i := range c.Ports {
		if p := &c.Ports[i]; p.HostPort > 0 {
			e.tag('p')
			e.str(p.HostIP)
			e.str(string(p.Protocol))
			e.num(int64(p.HostPort))
		}
	}
	e.tag('}')
}

func (e *encoder) requests(list corev1.ResourceList) {
	e.need = e.need[:0]
	e.collect(list)
	e.flush()
}

// collect merges a list into need, keeping the larger amount, ordered by name.
func (e *encoder) collect(list corev1.ResourceList) {
	if len(e.need) == 0 && e.usual(list) {
		return
	}
	for name, q := range list {
		v := amount(name, &q)
		at := len(e.need)
		for at > 0 && e.need[at-1].name > name {
			at--
		}
		if at > 0 && e.need[at-1].name == name {
			e.need[at-1].v = max(e.need[at-1].v, v)
			continue
		}
		e.need = append(e.need, quantity{})
		copy(e.need[at+1:], e.need[at:])
		e.need[at] = quantity{name, v}
	}
}

// usual collects a list of no more than CPU and memory, which most are: two look-ups cost less than an iteration.
func (e *encoder) usual(list corev1.ResourceList) bool {
	if len(list) > 2 {
		return false
	}
	for _, name := range [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if q, ok := list[name]; ok {
			e.need = append(e.need, quantity{name, amount(name, &q)})
		}
	}
	if len(e.need) == len(list) {
		return true
	}
	e.need = e.need[:0]
	return false
}

func (e *encoder) flush() {
	e.len(len(e.need))
	for _, q := range e.need {
		e.str(string(q.name))
		e.num(q.v)
	}
}

func (e *encoder) volumes(list []cluster.Volume) {
	e.tag('v')
	e.len(len(list))
	for i := range list {
		v := &list[i]
		for _, s := range [...]string{v.Claim, v.PV, v.ID, v.Driver, v.Problem, v.ProblemDetail} {
			e.str(s)
		}
		e.len(len(v.Alternatives))
		for _, term := range v.Alternatives {
			e.len(len(term))
			for _, x := range term {
				e.str(x.Key)
				e.str(string(x.Operator))
				e.strs(x.Values)
			}
		}
	}
}
