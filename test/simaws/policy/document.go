// Package policy evaluates IAM policies as AWS does: documents are read
// strictly, statements match actions, resources and conditions, an explicit
// deny beats an allow, and what nothing allows is denied.
//
// It knows neither wires nor accounts: a Request carries everything that a
// condition may ask for. A Ledger keeps what was used, what was denied and
// what was granted in vain.
//
// Source of the rules: IAM user guide, "IAM JSON policy reference" and "Policy
// evaluation logic".
package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Document is a policy.
type Document struct {
	Version    string
	ID         string
	Statements []Statement
}

// Effects of a statement.
const (
	Allow = "Allow"
	Deny  = "Deny"
)

// Statement is one statement of a policy. Of Actions and NotActions, and of
// Resources and NotResources, one is empty.
type Statement struct {
	SID                     string
	Effect                  string
	Actions, NotActions     []string
	Resources, NotResources []string
	Conditions              []Condition
}

// Condition is one operator applied to one key.
type Condition struct {
	Operator string // as written, e.g. ForAllValues:StringEquals
	Key      string
	Values   []string

	test operator
}

// Parse reads a policy document. Errors say what is malformed, as IAM refuses
// it with MalformedPolicyDocument.
func Parse(text []byte) (*Document, error) {
	var raw struct {
		Version   string
		ID        string `json:"Id"`
		Statement list[rawStatement]
	}
	if err := strict(text, &raw); err != nil {
		return nil, fmt.Errorf("parsing a policy: %w", err)
	}
	d := &Document{Version: raw.Version, ID: raw.ID}
	if d.Version == "" {
		d.Version = "2008-10-17"
	}
	if d.Version != "2012-10-17" && d.Version != "2008-10-17" {
		return nil, fmt.Errorf("parsing a policy: the policy must contain a valid version string, not %q", d.Version)
	}
	if len(raw.Statement) == 0 {
		return nil, errors.New("parsing a policy: no statement in it")
	}
	for i, s := range raw.Statement {
		out, err := s.statement()
		if err != nil {
			return nil, fmt.Errorf("parsing a policy: statement %d %s: %w", i+1, s.SID, err)
		}
		if out.SID != "" && slices.ContainsFunc(d.Statements, func(o Statement) bool { return o.SID == out.SID }) {
			return nil, fmt.Errorf("parsing a policy: statement IDs (SID) in a single policy must be unique: %s", out.SID)
		}
		d.Statements = append(d.Statements, out)
	}
	return d, nil
}

// strict decodes one JSON value and refuses unknown members and trailing text.
func strict(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("text after the document")
	}
	return nil
}

// list is a JSON value that may be written alone or as a list.
type list[T any] []T

func (l *list[T]) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return strict(text, (*[]T)(l))
	}
	var one T
	if err := strict(text, &one); err != nil {
		return err
	}
	*l = list[T]{one}
	return nil
}

// word is a condition value: a string, number or flag.
type word string

func (w *word) UnmarshalJSON(text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		*w = word(v)
	case bool, float64:
		*w = word(text)
	default:
		return fmt.Errorf("%s is not a string, number or flag", text)
	}
	return nil
}

type rawStatement struct {
	SID         string `json:"Sid"`
	Effect      string
	Action      list[string]
	NotAction   list[string]
	Resource    list[string]
	NotResource list[string]
	Principal   json.RawMessage // of trust and resource policies; not evaluated
	Condition   map[string]map[string]list[word]
}

func (r *rawStatement) statement() (Statement, error) {
	s := Statement{SID: r.SID, Effect: r.Effect, Actions: r.Action, NotActions: r.NotAction, Resources: r.Resource, NotResources: r.NotResource}
	switch {
	case s.Effect != Allow && s.Effect != Deny:
		return s, fmt.Errorf("effect %q is neither Allow nor Deny", s.Effect)
	case (len(s.Actions) == 0) == (len(s.NotActions) == 0):
		return s, errors.New("policy statement must contain actions: one of Action and NotAction")
	case len(s.Resources) > 0 && len(s.NotResources) > 0:
		return s, errors.New("Resource and NotResource must not be given together") //nolint:staticcheck // the names of elements
	case len(s.Resources)+len(s.NotResources) == 0 && r.Principal == nil:
		return s, errors.New("policy statement must contain resources")
	}
	for _, a := range slices.Concat(s.Actions, s.NotActions) {
		if service, name, ok := strings.Cut(a, ":"); a != "*" && (!ok || service == "" || name == "") {
			return s, fmt.Errorf("actions/conditions must be prefaced by a vendor, e.g. iam, sdb, ec2, etc.: %q", a)
		}
	}
	for _, res := range slices.Concat(s.Resources, s.NotResources) {
		if res != "*" && !strings.HasPrefix(res, "arn:") {
			return s, fmt.Errorf("resource %q must be in ARN format or \"*\"", res)
		}
	}
	for name, keys := range r.Condition {
		test, err := parseOperator(name)
		if err != nil {
			return s, err
		}
		for key, words := range keys {
			c := Condition{Operator: name, Key: key, test: test}
			for _, w := range words {
				c.Values = append(c.Values, string(w))
			}
			s.Conditions = append(s.Conditions, c)
		}
	}
	slices.SortFunc(s.Conditions, func(a, b Condition) int { return strings.Compare(a.Operator+" "+a.Key, b.Operator+" "+b.Key) })
	return s, nil
}

// Grants tells whether any statement allows something.
func (d *Document) Grants() bool {
	return slices.ContainsFunc(d.Statements, func(s Statement) bool { return s.Effect == Allow })
}
