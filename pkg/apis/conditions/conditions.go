// Package conditions computes status conditions: which ones an object has, when they change, and the roll-up Ready.
//
// All functions are pure. They take the stored list and return a new one; the caller writes it when Equal says that it
// differs, with a resourceVersion precondition, because a list is replaced as a whole.
//
// The rules: a condition is stamped with the object's generation; its transition time moves only with its status; missing
// dependents and the roll-up exist as Unknown from the object's creation on (so timers that count from a transition start
// there); every write computes the roll-up anew. Dependents are those conditions that the roll-up is made of.
package conditions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons that the arithmetic itself gives.
const (
	// ReasonAwaitingReconciliation is that of a condition which nobody has decided yet.
	ReasonAwaitingReconciliation = "AwaitingReconciliation"
	// ReasonReady is that of a true roll-up.
	ReasonReady = "Ready"
	// ReasonUnhealthyDependents is that of a roll-up with a dependent that is False.
	ReasonUnhealthyDependents = "UnhealthyDependents"
	// ReasonReconcilingDependents is that of a roll-up with a dependent that is Unknown or was decided for an older generation.
	ReasonReconcilingDependents = "ReconcilingDependents"
)

const messageAwaiting = "object is awaiting reconciliation"

// ErrDependent is returned for clearing a condition that the roll-up needs.
var ErrDependent = errors.New("condition is part of the roll-up and cannot be cleared")

// Object is what the arithmetic needs to know of the object that has the conditions.
type Object struct {
	Generation int64
	Created    time.Time
	Deleting   bool
}

// Of reads the metadata of an API object.
func Of(m metav1.Object) Object {
	return Object{Generation: m.GetGeneration(), Created: m.GetCreationTimestamp().Time, Deleting: m.GetDeletionTimestamp() != nil}
}

// True is a condition that holds. Its reason is the type and its message empty.
func True(conditionType string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: conditionType}
}

// TrueBecause is a condition that holds for a reason.
func TrueBecause(conditionType, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False is a condition that does not hold.
func False(conditionType, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// Unknown is a condition that nobody can tell yet.
func Unknown(conditionType, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

// Find is the condition of a type, and whether it is in the list.
func Find(list []metav1.Condition, conditionType string) (metav1.Condition, bool) {
	i := index(list, conditionType)
	if i < 0 {
		return metav1.Condition{}, false
	}
	return list[i], true
}

// IsTrue reports whether a condition is there and True, for whatever generation.
func IsTrue(list []metav1.Condition, conditionType string) bool {
	c, ok := Find(list, conditionType)
	return ok && c.Status == metav1.ConditionTrue
}

// IsCurrentlyTrue reports whether a condition is True and was decided for the object's current generation.
func IsCurrentlyTrue(list []metav1.Condition, conditionType string, generation int64) bool {
	c, ok := Find(list, conditionType)
	return ok && c.Status == metav1.ConditionTrue && c.ObservedGeneration == generation
}

// Equal reports whether two lists are stored as the same bytes, so that no write is needed.
func Equal(a, b []metav1.Condition) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.Condition) bool {
		same := x.LastTransitionTime.Equal(&y.LastTransitionTime)
		x.LastTransitionTime, y.LastTransitionTime = metav1.Time{}, metav1.Time{}
		return same && x == y
	})
}

// Init adds the dependents and the roll-up that the list lacks, as Unknown since the object's creation.
func (k Kind) Init(list []metav1.Condition, o Object) []metav1.Condition {
	out := slices.Clone(list)
	for _, t := range k.types() {
		if index(out, t) < 0 {
			c := Unknown(t, ReasonAwaitingReconciliation, messageAwaiting)
			c.LastTransitionTime, c.ObservedGeneration = stamp(o.Created), o.Generation
			out = append(out, c)
		}
	}
	return k.sorted(out)
}

// Set decides a condition. Of c, the type, status, reason and message count. The roll-up is computed and cannot be set.
func (k Kind) Set(list []metav1.Condition, o Object, c metav1.Condition, now time.Time) []metav1.Condition {
	out := k.Init(list, o)
	if c.Type == k.root {
		return out
	}
	if c.Reason == "" {
		c.Reason = c.Type
	}
	c.ObservedGeneration, c.LastTransitionTime = o.Generation, stamp(now)
	i := index(out, c.Type)
	switch {
	case i < 0:
		out = append(out, c)
	case out[i].Status == c.Status:
		c.LastTransitionTime = out[i].LastTransitionTime
		if out[i] == c && (!o.Deleting || !k.anyStale(out, o)) {
			return out
		}
		out[i] = c
	default:
		out[i] = c
	}
	return k.settle(out, o, now)
}

// Clear removes a condition. Dependents and the roll-up cannot be removed (ErrDependent).
func (k Kind) Clear(list []metav1.Condition, o Object, conditionType string, now time.Time) ([]metav1.Condition, error) {
	if slices.Contains(k.types(), conditionType) {
		return list, fmt.Errorf("clearing %s of a %s: %w", conditionType, k.name, ErrDependent)
	}
	out := k.Init(list, o)
	i := index(out, conditionType)
	if i < 0 {
		return out, nil
	}
	return k.settle(slices.Delete(out, i, i+1), o, now), nil
}

// settle finishes a write: a deleting object's other conditions follow its generation, then the roll-up is computed.
func (k Kind) settle(list []metav1.Condition, o Object, now time.Time) []metav1.Condition {
	if o.Deleting {
		for i := range list {
			list[i].ObservedGeneration = o.Generation
		}
	}
	if i := index(list, k.root); i >= 0 {
		root := k.rollUp(list, o)
		root.ObservedGeneration, root.LastTransitionTime = o.Generation, stamp(now)
		if list[i].Status == root.Status {
			root.LastTransitionTime = list[i].LastTransitionTime
		}
		list[i] = root
	}
	return k.sorted(list)
}

func (k Kind) rollUp(list []metav1.Condition, o Object) metav1.Condition {
	var open []metav1.Condition
	failed := false
	for _, t := range k.dependents {
		c, _ := Find(list, t)
		current := c.ObservedGeneration == o.Generation
		if c.Status == metav1.ConditionTrue && current {
			continue
		}
		open = append(open, c)
		failed = failed || (c.Status == metav1.ConditionFalse && current)
	}
	if len(open) == 0 {
		return TrueBecause(k.root, ReasonReady, "")
	}
	slices.SortStableFunc(open, func(a, b metav1.Condition) int { return b.LastTransitionTime.Compare(a.LastTransitionTime.Time) })
	parts := make([]string, len(open))
	for i, c := range open {
		parts[i] = c.Type + "=" + string(c.Status)
	}
	if failed {
		return False(k.root, ReasonUnhealthyDependents, strings.Join(parts, ", "))
	}
	return Unknown(k.root, ReasonReconcilingDependents, strings.Join(parts, ", "))
}

// sorted orders by transition, oldest first, the roll-up last.
func (k Kind) sorted(list []metav1.Condition) []metav1.Condition {
	slices.SortStableFunc(list, func(a, b metav1.Condition) int {
		switch {
		case a.Type == k.root:
			return 1
		case b.Type == k.root:
			return -1
		}
		return a.LastTransitionTime.Compare(b.LastTransitionTime.Time)
	})
	return list
}

func (k Kind) anyStale(list []metav1.Condition, o Object) bool {
	return slices.ContainsFunc(list, func(c metav1.Condition) bool { return c.ObservedGeneration != o.Generation })
}

func index(list []metav1.Condition, conditionType string) int {
	return slices.IndexFunc(list, func(c metav1.Condition) bool { return c.Type == conditionType })
}

// stamp cuts a time to what the API stores, so that a list compares equal with itself after it was read back.
func stamp(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

// maxMessage is the longest error text that a condition or event carries, in characters.
const maxMessage = 300

// Truncate cuts an error text for a condition or event: 300 characters or more become the first 300 and "...".
func Truncate(text string) string {
	runes := []rune(text)
	if len(runes) < maxMessage {
		return text
	}
	return string(runes[:maxMessage]) + "..."
}
