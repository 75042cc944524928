// Package explain answers questions about decisions with the engine's own means: why a pod is pending, what would help, and what a
// change of pools or pods would do.
//
// Everything is a pure function of a snapshot, a policy and recorded facts. Answers are data (package reason); nothing here builds sentences.
// Every fix that is marked verified was applied to a copy of the snapshot on which the engine then placed the pod.
package explain

import (
	"time"

	"github.com/karp-sh/karp/pkg/cluster"
	"github.com/karp-sh/karp/pkg/reason"
)

// PendingAnswer says why a pod has no node.
type PendingAnswer = reason.Pending

// Facts are records beside the snapshot on which an answer may rest. They are optional: without them answers that need a record
// become less certain.
type Facts struct {
	Events []Event
	// Failing lists pods that wait in CrashLoopBackOff, ImagePullBackOff and the like, by node name.
	Failing map[string][]reason.FailingPod
	// Claims holds when each claim passed its milestones, by claim name.
	Claims map[string]Milestones
	// Classes holds what each node class lacks (its conditions that are False, except Ready), by class name.
	Classes map[string][]cluster.Condition
	// Pools holds the same of pools, by pool name.
	Pools map[string][]cluster.Condition
}

// Event is one recorded Kubernetes event.
type Event struct {
	// Object is what the event is about.
	Object          reason.Object
	Reason, Message string
	// First and Last occurrence.
	First, Last time.Time
	Count       int
}

// Milestones of a claim; zero times are unknown or not reached.
type Milestones struct {
	Launched, Registered, Initialized time.Time
}

// about returns the events about an object with one of the reasons.
func (f Facts) about(kind, namespace, name string, reasons ...string) []Event {
	var out []Event
	for _, e := range f.Events {
		if e.Object.Kind != kind || e.Object.Namespace != namespace || e.Object.Name != name {
			continue
		}
		for _, r := range reasons {
			if e.Reason == r {
				out = append(out, e)
			}
		}
	}
	return out
}

// Question asks about one pod.
type Question struct {
	Pod *cluster.Pod
	// Assume replaces labels the pod asks for, to test an idea ("zone=us-east-1b").
	Assume map[string]string
	// Pools restricts the answer to these pools; empty means all.
	Pools []string
	// Bare leaves out everything that needs a simulation: whether the engine has a place for the pod, which whoever asks knows already, and the fixes.
	Bare bool
	// MaxFixes ends the simulation of fixes after that many were confirmed; 0 confirms all.
	MaxFixes int
}
