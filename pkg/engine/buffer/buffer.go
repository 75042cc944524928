// Package buffer is what a CapacityBuffer amounts to: how many copies of a pod, the virtual pods that stand for them in a decision, and what the
// decision says about the buffer (scheduling rules 24, api rules 6).
package buffer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/units"
)

// Priority of virtual pods: every real pod goes first.
const Priority = math.MinInt32

// MaxPods is how many virtual pods one buffer has at most. It guards the agent against a mistyped number of replicas.
const MaxPods = 50_000

// Wish is how large a buffer wants to be.
type Wish struct {
	// Replicas and Percentage are nil if they are not given; the larger counts.
	Replicas, Percentage *int32
	// Scalable is the number of replicas of the workload that Percentage is of; nil without a workload, and then Percentage does not count.
	Scalable *int32
	// Limits bound what all copies request together; nil if there are none.
	Limits units.List
	// Request is what one copy requests.
	Request units.List
}

// Size is the number of copies.
func (w Wish) Size() int32 {
	limit, limited := w.limit()
	want, wanted := int64(0), false
	if w.Replicas != nil {
		want, wanted = int64(*w.Replicas), true
	}
	if w.Percentage != nil && w.Scalable != nil {
		share := (int64(*w.Scalable)*int64(*w.Percentage) + 99) / 100
		want, wanted = max(want, share), true
	}
	switch {
	case !limited:
	case !wanted:
		want = limit
	default:
		want = min(want, limit)
	}
	return int32(min(max(want, 0), math.MaxInt32))
}

// limit is the number of copies that the limits leave room for; ok is false if no limit is about something that a copy requests.
func (w Wish) limit() (n int64, ok bool) {
	for name, most := range w.Limits {
		if one := w.Request[name]; one > 0 && name != units.Pods {
			if k := most / one; !ok || k < n {
				n, ok = k, true
			}
		}
	}
	return n, ok
}

// Buffer is a buffer whose pod is known.
type Buffer struct {
	Namespace, Name, UID string
	Created              time.Time
	// Shape and Labels are those of the template's pods; the shape's volumes and priority do not matter.
	Shape    *cluster.Shape
	Labels   map[string]string
	Replicas int32
}

// Key names the buffer as virtual pods do.
func (b *Buffer) Key() string { return b.Namespace + "/" + b.Name }

// Pods are the virtual pods of the buffer. They wait for a node like pods the scheduler has refused.
func (b *Buffer) Pods() []*cluster.Pod {
	s := *b.Shape
	s.Namespace, s.Priority, s.Volumes, s.SchedulingGates = b.Namespace, Priority, nil, nil
	shape := cluster.NewShape(s)
	out := make([]*cluster.Pod, min(b.Replicas, MaxPods))
	for i := range out {
		n := strconv.Itoa(i + 1)
		out[i] = &cluster.Pod{
			UID: b.UID + "-" + n, Namespace: b.Namespace, Name: "capacity-buffer-" + b.Name + "-" + n, Created: b.Created, Shape: shape,
			Labels: b.Labels, Scheduled: "Unschedulable", Phase: "Pending", Buffer: b.Key(),
		}
	}
	return out
}

// Virtual returns the virtual pods of a snapshot: the buffer's key by UID. It is nil if there are none.
func Virtual(s *cluster.Snapshot) map[string]string {
	var out map[string]string
	for _, g := range s.Unbound() {
		for _, p := range g.Pods {
			if p.Buffer == "" {
				continue
			}
			if out == nil {
				out = map[string]string{}
			}
			out[p.UID] = p.Buffer
		}
	}
	return out
}

// Outcome is what became of the virtual pods of one buffer in a pass.
type Outcome struct {
	// Existing of them are on what exists, New on planned claims, Failed nowhere.
	Existing, New, Failed int
}

// Outcomes sorts the virtual pods of a plan by the keys of their buffers.
func Outcomes(s *cluster.Snapshot, p *plan.Plan) map[string]Outcome {
	virtual := Virtual(s)
	out := map[string]Outcome{}
	note := func(uid string, f func(*Outcome)) {
		if key, ok := virtual[uid]; ok {
			o := out[key]
			f(&o)
			out[key] = o
		}
	}
	for i := range p.Placements {
		note(p.Placements[i].Pod, func(o *Outcome) { o.Existing++ })
	}
	for i := range p.Claims {
		for _, uid := range p.Claims[i].Pods {
			note(uid, func(o *Outcome) { o.New++ })
		}
	}
	for i := range p.Verdicts {
		note(p.Verdicts[i].Pod, func(o *Outcome) { o.Failed++ })
	}
	return out
}

// Held counts the virtual pods of a plan by the node that has room for them, or by the claim while there is no node: those nodes are not empty.
func Held(s *cluster.Snapshot, p *plan.Plan) map[string]int {
	virtual := Virtual(s)
	out := map[string]int{}
	for _, x := range p.Placements {
		if _, ok := virtual[x.Pod]; !ok {
			continue
		}
		if x.Node != "" {
			out[x.Node]++
		} else {
			out[x.Claim]++
		}
	}
	return out
}

// Reasons of the condition Provisioning.
const (
	FitsExistingCapacity    = "FitsExistingCapacity"
	RequiresNewCapacity     = "RequiresNewCapacity"
	NotReadyForProvisioning = "NotReadyForProvisioning"
	BufferEmpty             = "BufferEmpty"
)

// Provisioning is the state of the condition Provisioning.
type Provisioning struct {
	OK              bool
	Reason, Message string
}

// Judge returns the condition that follows from a pass; ok is false if the pass says nothing new about the buffer: it saw none of its pods, or not
// as many as the status promises.
func Judge(ready bool, replicas int32, o Outcome) (c Provisioning, ok bool) {
	switch {
	case !ready:
		return Provisioning{Reason: NotReadyForProvisioning, Message: "the buffer's pod is not known"}, true
	case replicas <= 0:
		return Provisioning{Reason: BufferEmpty, Message: "the buffer has no replicas"}, true
	case o.New+o.Failed > 0:
		return Provisioning{Reason: RequiresNewCapacity, Message: fmt.Sprintf("%d on existing nodes, %d on new nodes, %d without a place", o.Existing, o.New, o.Failed)}, true
	case o.Existing == int(min(replicas, MaxPods)):
		return Provisioning{OK: true, Reason: FitsExistingCapacity, Message: fmt.Sprintf("%d on existing nodes", o.Existing)}, true
	}
	return Provisioning{}, false
}

// Quiet marks the verdicts on virtual pods, about which nobody is told by events.
func Quiet(s *cluster.Snapshot, p *plan.Plan) {
	virtual := Virtual(s)
	if virtual == nil {
		return
	}
	for i := range p.Verdicts {
		if _, ok := virtual[p.Verdicts[i].Pod]; ok {
			p.Verdicts[i].Silent = true
		}
	}
}

// Real returns the pods that are not virtual; the list itself if none is.
func Real(virtual map[string]string, pods []string) []string {
	if virtual == nil {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(uid string) bool { _, ok := virtual[uid]; return ok })
}
