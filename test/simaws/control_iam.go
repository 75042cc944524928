package simaws

import (
	"encoding/json"
	"net/http"
)

// Policies are IAM policy documents by name.
type Policies map[string]json.RawMessage

func (p Policies) documents() map[string][]byte {
	out := map[string][]byte{}
	for name, text := range p {
		out[name] = text
	}
	return out
}

// RolePolicies say what a role may do; a field that is absent stays.
type RolePolicies struct {
	// Allow are all policies the role has beside those given by IAM calls. With
	// none it may do everything again, if the test's hand made it.
	Allow *Policies `json:"allow,omitempty"`
	// Boundary is the permissions boundary; null removes it.
	Boundary json.RawMessage `json:"boundary,omitempty"`
}

// SetRolePolicies says what a role may do. A role that does not exist is made.
func (s *Server) SetRolePolicies(role string, p RolePolicies) error {
	if p.Allow != nil {
		if err := s.cloud.Give(role, p.Allow.documents()); err != nil {
			return err
		}
	}
	if p.Boundary != nil {
		if string(p.Boundary) == "null" {
			return s.cloud.GiveBoundary(role, nil)
		}
		return s.cloud.GiveBoundary(role, p.Boundary)
	}
	return nil
}

// controlIAM adds roles, callers, policies and the ledger of their use.
func (s *Server) controlIAM(mux *http.ServeMux) {
	controlPost(mux, "roles/{name}", func(r *http.Request, in struct {
		Gone bool `json:"gone"`
	}) (any, error) {
		if in.Gone {
			s.cloud.RemoveRole(r.PathValue("name"))
		} else {
			s.cloud.AddRole(r.PathValue("name"))
		}
		return nil, nil
	})
	controlPost(mux, "roles/{name}/policies", func(r *http.Request, in RolePolicies) (any, error) {
		return nil, s.SetRolePolicies(r.PathValue("name"), in)
	})
	controlPost(mux, "organization/policies", func(_ *http.Request, in Policies) (any, error) {
		return nil, s.cloud.GiveOrganization(in.documents())
	})
	controlPost(mux, "callers", func(_ *http.Request, in struct {
		Key  string `json:"key"`
		Role string `json:"role"`
	}) (any, error) {
		s.cloud.ActAs(in.Key, in.Role)
		return nil, nil
	})
	mux.HandleFunc("GET /_sim/ledger", func(w http.ResponseWriter, r *http.Request) {
		controlAnswer(w, r, func(r *http.Request) (any, error) { return s.cloud.Ledger(r.URL.Query().Get("role")) })
	})
	controlPost(mux, "ledger/reset", func(*http.Request, struct{}) (any, error) { s.cloud.ResetLedgers(); return nil, nil })
}
