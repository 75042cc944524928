package simaws

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// Call is one entry of the log of calls.
type Call struct {
	Seq       int               `json:"seq"`
	At        time.Time         `json:"at"`
	Service   string            `json:"service"`
	Action    string            `json:"action"`
	Caller    string            `json:"caller,omitempty"` // ARN
	Params    map[string]string `json:"params,omitempty"`
	Result    string            `json:"result"` // ok or the error code
	Message   string            `json:"message,omitempty"`
	Injected  bool              `json:"injected,omitempty"` // the result was made by a fault
	RequestID string            `json:"requestId"`
}

// keptCalls is how many calls the log holds.
const keptCalls = 100_000

type callLog struct {
	mu    sync.Mutex
	seq   int
	calls []Call
}

func (l *callLog) add(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	c.Seq = l.seq
	l.calls = append(l.calls, c)
	if len(l.calls) > keptCalls {
		l.calls = slices.Delete(l.calls, 0, keptCalls/10)
	}
}

// Calls returns the calls with a sequence number above after, of a service and
// an action if these are not empty.
func (s *Server) Calls(after int, service, action string) []Call {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	var out []Call
	for _, c := range s.calls.calls {
		if c.Seq > after && (service == "" || c.Service == service) && (action == "" || c.Action == action) {
			copied := c
			copied.Params = maps.Clone(c.Params)
			out = append(out, copied)
		}
	}
	return out
}

// params are what the log keeps of a call: its form, or its body if that is
// JSON, or its path.
func params(c *call) map[string]string {
	switch {
	case c.header.Get("X-Amz-Target") != "":
		return map[string]string{"body": string(c.body)}
	case c.method == "POST" && c.path != "/":
		return map[string]string{"path": c.path, "body": string(c.body)}
	case c.method != "POST":
		return map[string]string{"path": c.path}
	}
	form, err := c.values()
	if err != nil {
		return nil
	}
	out := map[string]string{}
	for k, v := range form {
		if k != "Action" && k != "Version" && !strings.HasSuffix(k, "WebIdentityToken") {
			out[k] = strings.Join(v, ",")
		}
	}
	return out
}

// Fault is a failure to inject into calls.
type Fault struct {
	ID      int    `json:"id,omitempty"` // set by the server
	Service string `json:"service"`      // ec2, sqs, ...; empty: any
	Action  string `json:"action"`       // empty: any
	// Nth is the first matching call that fails, counted from 1; 0 is 1.
	Nth int `json:"nth,omitempty"`
	// Times is how many calls fail from then on; 0 means all, until cleared.
	Times int `json:"times,omitempty"`
	// After lets the call take effect before it fails.
	After bool `json:"after,omitempty"`
	// Code and Message of the error; an empty code only adds the latency.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Status overrides the HTTP status.
	Status int `json:"status,omitempty"`
	// Drop cuts the connection instead of answering.
	Drop bool `json:"drop,omitempty"`
	// LatencyMillis delays matching calls.
	LatencyMillis int `json:"latencyMillis,omitempty"`

	seen  int
	fired bool // by the call that holds this copy
}

func (f *Fault) latency() time.Duration {
	if f == nil || f.seen < f.Nth {
		return 0
	}
	return time.Duration(f.LatencyMillis) * time.Millisecond
}

func (f *Fault) fires() bool { return f != nil && f.fired && (f.Code != "" || f.Drop) }

func (f *Fault) err() *cloud.Error {
	code := f.Code
	if code == "" {
		code = "InternalError"
	}
	message := f.Message
	if message == "" {
		message = "injected fault"
	}
	return &cloud.Error{Code: code, Message: message}
}

type faults struct {
	mu   sync.Mutex
	last int
	list []*Fault
}

// InjectFault adds a fault and returns its id.
func (s *Server) InjectFault(f Fault) int {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.last++
	f.ID, f.seen, f.fired = s.faults.last, 0, false
	f.Nth = max(f.Nth, 1)
	s.faults.list = append(s.faults.list, &f)
	return f.ID
}

// ClearFaults removes the fault with this id, or all for 0.
func (s *Server) ClearFaults(id int) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.list = slices.DeleteFunc(s.faults.list, func(f *Fault) bool { return id == 0 || f.ID == id })
}

// Faults lists the faults that are in force.
func (s *Server) Faults() []Fault {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	var out []Fault
	for _, f := range s.faults.list {
		out = append(out, *f)
	}
	return out
}

// next counts the call for every fault it matches and returns the first that
// fires, as a copy.
func (fs *faults) next(service, action string) *Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var hit *Fault
	for _, f := range fs.list {
		if f.Service != "" && f.Service != service || f.Action != "" && f.Action != action {
			continue
		}
		f.seen++
		if f.seen < f.Nth || f.Times > 0 && f.seen >= f.Nth+f.Times || hit != nil {
			continue
		}
		copied := *f
		copied.fired = true
		hit = &copied
	}
	return hit
}
