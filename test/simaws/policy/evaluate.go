package policy

import (
	"slices"
	"strings"
)

// Request is one action on one resource by one principal.
type Request struct {
	Principal string // ARN
	Action    string // ec2:RunInstances
	Resource  string // ARN, or * when the action has no resource
	// Context has the values of condition keys. A key that is missing is
	// absent, which is not the same as empty.
	Context map[string][]string
}

// values looks a condition key up: names are case-insensitive, the tag key
// behind the slash is not.
func (r *Request) values(key string) ([]string, bool) {
	if v, ok := r.Context[key]; ok {
		return v, true
	}
	for k, v := range r.Context {
		if sameKey(k, key) {
			return v, true
		}
	}
	return nil, false
}

func sameKey(a, b string) bool {
	nameA, tagA, hasA := strings.Cut(a, "/")
	nameB, tagB, hasB := strings.Cut(b, "/")
	return hasA == hasB && tagA == tagB && strings.EqualFold(nameA, nameB)
}

// Set are the policies that decide on one principal's requests. A nil list is
// a kind of policy that is not in use.
type Set struct {
	Identity []Named // of the role, inline and attached
	Boundary *Named  // permissions boundary
	Service  []Named // service control policies of the organization
}

// Named is a policy with its name.
type Named struct {
	Name string
	*Document
}

// Decision is what a set says of a request.
type Decision struct {
	Allowed bool
	// Explicit tells that a statement denies it; else nothing allows it.
	Explicit bool
	// Kind of policy that denies it: "identity-based policy", "permissions
	// boundary" or "service control policy".
	Kind string
	// Because are the statements that decided: the denying one, or those of
	// the identity policies that allow.
	Because []Grant
}

// Grant names one action pattern of a statement.
type Grant struct {
	Policy  string `json:"policy"`
	SID     string `json:"sid"`
	Index   int    `json:"index"` // of the statement, from 0
	Pattern string `json:"action"`
}

// The kinds of policies, as refusals word them.
const (
	IdentityPolicy = "identity-based policy"
	Boundary       = "permissions boundary"
	ServiceControl = "service control policy"
)

// Decide evaluates a request.
func (s *Set) Decide(r *Request) Decision {
	layers := []struct {
		kind     string
		policies []Named
	}{{ServiceControl, s.Service}, {Boundary, s.boundary()}, {IdentityPolicy, s.Identity}}
	for _, l := range layers {
		if by := matching(l.policies, r, Deny); len(by) > 0 {
			return Decision{Explicit: true, Kind: l.kind, Because: by[:1]}
		}
	}
	var by []Grant
	for _, l := range layers {
		if l.policies == nil {
			continue
		}
		if by = matching(l.policies, r, Allow); len(by) == 0 {
			return Decision{Kind: l.kind}
		}
	}
	if s.Identity == nil {
		return Decision{Kind: IdentityPolicy}
	}
	return Decision{Allowed: true, Because: by}
}

func (s *Set) boundary() []Named {
	if s.Boundary == nil {
		return nil
	}
	return []Named{*s.Boundary}
}

// Grants lists what the identity policies allow, by action pattern.
func (s *Set) Grants() []Grant {
	var out []Grant
	for _, p := range s.Identity {
		for i, st := range p.Statements {
			if st.Effect != Allow {
				continue
			}
			for _, pattern := range st.patterns() {
				out = append(out, Grant{p.Name, st.SID, i, pattern})
			}
		}
	}
	return out
}

func (st *Statement) patterns() []string {
	if len(st.Actions) > 0 {
		return st.Actions
	}
	return []string{"NotAction " + strings.Join(st.NotActions, ",")}
}

// matching are the statements of an effect that apply to a request.
func matching(policies []Named, r *Request, effect string) []Grant {
	var out []Grant
	for _, p := range policies {
		for i := range p.Statements {
			st := &p.Statements[i]
			if st.Effect != effect {
				continue
			}
			if pattern, ok := st.covers(r); ok {
				out = append(out, Grant{p.Name, st.SID, i, pattern})
			}
		}
	}
	return out
}

// covers tells whether a statement applies, and by which action pattern.
func (st *Statement) covers(r *Request) (string, bool) {
	pattern, ok := st.coversAction(r.Action)
	if !ok || !st.coversResource(r) {
		return "", false
	}
	for i := range st.Conditions {
		if !st.Conditions[i].holds(r) {
			return "", false
		}
	}
	return pattern, true
}

func (st *Statement) coversAction(action string) (string, bool) {
	covers := func(pattern string) bool { return Match(strings.ToLower(pattern), strings.ToLower(action)) }
	if len(st.NotActions) > 0 {
		return st.patterns()[0], !slices.ContainsFunc(st.NotActions, covers)
	}
	if i := slices.IndexFunc(st.Actions, covers); i >= 0 {
		return st.Actions[i], true
	}
	return "", false
}

func (st *Statement) coversResource(r *Request) bool {
	covers := func(pattern string) bool { return pattern == "*" || Match(r.expand(pattern), r.Resource) }
	if len(st.NotResources) > 0 {
		return !slices.ContainsFunc(st.NotResources, covers)
	}
	return slices.ContainsFunc(st.Resources, covers)
}
