package simaws

import (
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// Bucket is a token bucket of an account: calls of the actions that match it
// take a token each.
type Bucket struct {
	Name    string `json:"name"`
	Service string `json:"service"` // ec2, ssm, ...
	// Actions are patterns with *; the first bucket that matches is the one.
	Actions []string `json:"actions"`
	Refill  float64  `json:"refill"` // tokens per second
	Burst   float64  `json:"burst"`
	// Each tells that a call takes as many tokens as it wants instances, from
	// this bucket beside the one of its action.
	Each bool `json:"each,omitempty"`
}

// DefaultBuckets are AWS's limits: EC2's are per kind of action, the other
// services' per action or account. Sources: EC2 "Request throttling", SSM,
// IAM, Pricing, SQS and EKS quotas.
func DefaultBuckets() []Bucket {
	return []Bucket{
		{Name: "fleet instances", Service: "ec2", Actions: []string{"CreateFleet"}, Refill: 2, Burst: 1000, Each: true},
		{Name: "terminate", Service: "ec2", Actions: []string{"TerminateInstances"}, Refill: 5, Burst: 100},
		{Name: "tags", Service: "ec2", Actions: []string{"CreateTags", "DeleteTags"}, Refill: 10, Burst: 100},
		{Name: "run", Service: "ec2", Actions: []string{"RunInstances"}, Refill: 2, Burst: 5},
		{Name: "describe", Service: "ec2", Actions: []string{"Describe*", "Get*"}, Refill: 20, Burst: 100},
		{Name: "mutating", Service: "ec2", Actions: []string{"*"}, Refill: 5, Burst: 50},
		{Name: "parameters", Service: "ssm", Actions: []string{"GetParameter*"}, Refill: 40, Burst: 40},
		{Name: "iam reads", Service: "iam", Actions: []string{"Get*", "List*"}, Refill: 15, Burst: 100},
		{Name: "iam writes", Service: "iam", Actions: []string{"*"}, Refill: 5, Burst: 20},
		{Name: "prices", Service: "pricing", Actions: []string{"*"}, Refill: 10, Burst: 10},
		{Name: "clusters", Service: "eks", Actions: []string{"*"}, Refill: 10, Burst: 100},
	}
}

// throttle is request throttling, off until switched on.
type throttle struct {
	mu      sync.Mutex
	on      bool
	clock   cloud.Clock
	buckets []Bucket
	levels  map[string]level
}

// A level is how full a bucket was.
type level struct {
	tokens float64
	at     time.Time
}

// SetThrottling switches request throttling on, with full buckets, or off.
func (s *Server) SetThrottling(on bool) {
	t := &s.throttle
	t.mu.Lock()
	defer t.mu.Unlock()
	t.on, t.levels = on, map[string]level{}
	if t.buckets == nil {
		t.buckets = DefaultBuckets()
	}
}

// SetBuckets replaces the buckets of the same names and adds the others in
// front; all are full then.
func (s *Server) SetBuckets(list []Bucket) {
	t := &s.throttle
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buckets == nil {
		t.buckets = DefaultBuckets()
	}
	t.levels = map[string]level{}
	for _, b := range slices.Backward(list) {
		if at := slices.IndexFunc(t.buckets, func(have Bucket) bool { return have.Name == b.Name }); at >= 0 {
			t.buckets[at] = b
		} else {
			t.buckets = slices.Insert(t.buckets, 0, b)
		}
	}
}

// Buckets lists the buckets in their order, with the tokens they hold.
func (s *Server) Buckets() ([]Bucket, map[string]float64) {
	t := &s.throttle
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.buckets
	if list == nil {
		list = DefaultBuckets()
	}
	levels := map[string]float64{}
	for name := range maps.Keys(t.levels) {
		levels[name] = t.levels[name].tokens
	}
	return slices.Clone(list), levels
}

func (b *Bucket) covers(service, action string) bool {
	return b.Service == service && slices.ContainsFunc(b.Actions, func(pattern string) bool {
		ok, err := path.Match(pattern, action)
		return err == nil && ok
	})
}

// refuses takes tokens and says, as the service does, that there were none.
func (t *throttle) refuses(service, action string, c *call) *cloud.Error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.on {
		return nil
	}
	for _, b := range t.buckets {
		if !b.covers(service, action) {
			continue
		}
		n := 1.0
		if b.Each {
			n = float64(wanted(c))
		}
		if !t.take(b, n) {
			return throttled(service)
		}
		if !b.Each {
			return nil
		}
	}
	return nil
}

func throttled(service string) *cloud.Error {
	switch service {
	case "ec2":
		return apiError("RequestLimitExceeded", "Request limit exceeded.")
	case "iam", "sts":
		return apiError("Throttling", "Rate exceeded")
	}
	return apiError("ThrottlingException", "Rate exceeded")
}

func (t *throttle) take(b Bucket, n float64) bool {
	now := t.clock.Now()
	l, ok := t.levels[b.Name]
	if !ok {
		l = level{b.Burst, now}
	}
	l.tokens = min(b.Burst, l.tokens+b.Refill*now.Sub(l.at).Seconds())
	l.at = now
	enough := l.tokens >= n
	if enough {
		l.tokens -= n
	}
	t.levels[b.Name] = l
	return enough
}
