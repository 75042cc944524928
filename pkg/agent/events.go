package agent

import (
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// events publishes Kubernetes events, each at most once in its window (lifecycle rules 25). Publishing never fails and never blocks.
type events struct {
	recorder record.EventRecorder
	clock    clock.PassiveClock

	mu    sync.Mutex
	until map[string]time.Time
	// nominated limits the events Nominated: 5 a second, 10 at once.
	tokens float64
	filled time.Time
}

// Windows within which an event is not repeated.
const (
	eventWindow      = 2 * time.Minute
	schedulingWindow = 5 * time.Minute

	nominatedRate  = 5
	nominatedBurst = 10
)

func newEvents(recorder record.EventRecorder, c clock.PassiveClock) *events {
	return &events{recorder: recorder, clock: c, until: map[string]time.Time{}, tokens: nominatedBurst, filled: c.Now()}
}

// Normal publishes an event about an object; the values of key tell apart events that are not repetitions of each other.
func (e *events) Normal(obj client.Object, reason, message string, key ...string) {
	e.publish(obj, corev1.EventTypeNormal, reason, message, eventWindow, key)
}

// NormalEvery publishes an event at most once in the window.
func (e *events) NormalEvery(window time.Duration, obj client.Object, reason, message string, key ...string) {
	e.publish(obj, corev1.EventTypeNormal, reason, message, window, key)
}

// Warn publishes a warning about an object.
func (e *events) Warn(obj client.Object, reason, message string, key ...string) {
	e.publish(obj, corev1.EventTypeWarning, reason, message, eventWindow, key)
}

// WarnEvery publishes a warning at most once in the window.
func (e *events) WarnEvery(window time.Duration, obj client.Object, reason, message string, key ...string) {
	e.publish(obj, corev1.EventTypeWarning, reason, message, window, key)
}

// WarnEveryWith is WarnEvery for messages that are costly to make.
func (e *events) WarnEveryWith(window time.Duration, obj client.Object, reason string, message func() string) {
	if e.first(strings.ToLower(reason), obj, window, nil) {
		e.recorder.Event(obj, corev1.EventTypeWarning, reason, message())
	}
}

// Nominated tells a pod where it will go. Beyond the rate the event is dropped, and it still counts as published (L-311).
func (e *events) Nominated(pod client.Object, message string) {
	if e.first("nominated", pod, eventWindow, nil) && e.take() {
		e.recorder.Event(pod, corev1.EventTypeNormal, "Nominated", message)
	}
}

func (e *events) publish(obj client.Object, kind, reason, message string, window time.Duration, key []string) {
	if e.first(strings.ToLower(reason), obj, window, key) {
		e.recorder.Event(obj, kind, reason, message)
	}
}

// first reports whether the event was not published within its window, and remembers it.
func (e *events) first(reason string, obj client.Object, window time.Duration, key []string) bool {
	id := reason + "\x00" + string(obj.GetUID()) + "\x00" + strings.Join(key, "\x00")
	now := e.clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Before(e.until[id]) {
		return false
	}
	const sweepAt = 10_000
	if len(e.until) > sweepAt {
		for k, t := range e.until {
			if !now.Before(t) {
				delete(e.until, k)
			}
		}
	}
	e.until[id] = now.Add(window)
	return true
}

// take spends one token of the limiter of Nominated.
func (e *events) take() bool {
	now := e.clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tokens = min(nominatedBurst, e.tokens+nominatedRate*now.Sub(e.filled).Seconds())
	e.filled = now
	if e.tokens < 1 {
		return false
	}
	e.tokens--
	return true
}
