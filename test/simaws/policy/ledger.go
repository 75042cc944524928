package policy

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// Ledger keeps what a principal's policies were asked. The zero value is
// ready; it is safe for concurrent use.
type Ledger struct {
	mu     sync.Mutex
	used   map[string]*Use
	denied map[Denial]int
	hits   map[Grant]bool
}

// Use is an action that was allowed.
type Use struct {
	Action    string   `json:"action"`
	Count     int      `json:"count"`
	Resources []string `json:"resources"` // up to maxResources
	By        []Grant  `json:"by"`
}

// Denial is an action on a resource that was refused.
type Denial struct {
	Action   string `json:"action"`
	Resource string `json:"resource"`
	Explicit bool   `json:"explicit"`
	Kind     string `json:"kind"`
}

// Denied is a denial with how often it happened.
type Denied struct {
	Denial
	Count int `json:"count"`
}

// Report is what a ledger says of a principal.
type Report struct {
	Used   []Use    `json:"used"`
	Denied []Denied `json:"denied"`
	// Unused are the action patterns of Allow statements that no request ever
	// needed.
	Unused []Grant `json:"unused"`
}

const maxResources = 20

// Record enters a decision.
func (l *Ledger) Record(r *Request, d Decision) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !d.Allowed {
		if l.denied == nil {
			l.denied = map[Denial]int{}
		}
		l.denied[Denial{r.Action, r.Resource, d.Explicit, d.Kind}]++
		return
	}
	if l.used == nil {
		l.used, l.hits = map[string]*Use{}, map[Grant]bool{}
	}
	u := l.used[r.Action]
	if u == nil {
		u = &Use{Action: r.Action}
		l.used[r.Action] = u
	}
	u.Count++
	if len(u.Resources) < maxResources && !slices.Contains(u.Resources, r.Resource) {
		u.Resources = append(u.Resources, r.Resource)
	}
	for _, g := range d.Because {
		l.hits[g] = true
		if !slices.Contains(u.By, g) {
			u.By = append(u.By, g)
		}
	}
}

// Report compares the ledger with what the set grants.
func (l *Ledger) Report(s *Set) Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := Report{Used: []Use{}, Denied: []Denied{}, Unused: []Grant{}}
	for _, action := range slices.Sorted(maps.Keys(l.used)) {
		u := *l.used[action]
		u.Resources, u.By = slices.Sorted(slices.Values(u.Resources)), slices.Clone(u.By)
		out.Used = append(out.Used, u)
	}
	for d, n := range l.denied {
		out.Denied = append(out.Denied, Denied{d, n})
	}
	slices.SortFunc(out.Denied, func(a, b Denied) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Kind, b.Kind))
	})
	for _, g := range s.Grants() {
		if !l.hits[g] {
			out.Unused = append(out.Unused, g)
		}
	}
	return out
}

// Reset forgets everything.
func (l *Ledger) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used, l.denied, l.hits = nil, nil, nil
}
