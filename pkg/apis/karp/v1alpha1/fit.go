package v1alpha1

import (
	"encoding/json"
	"unicode/utf8"
)

// Fit cuts a record to what its CRD admits and to MaxBytes, so that writing it cannot fail for its size: texts and lists lose
// their ends, then findings go before subjects and subjects before alternatives.
func (r *DecisionRecord) Fit() {
	s := &r.Spec
	s.DecisionID, s.Code, s.NodePool = cut(s.DecisionID, 64), cut(s.Code, 64), cut(s.NodePool, 253)
	s.Summary, s.SavingPerHour = cut(s.Summary, 512), cut(s.SavingPerHour, 32)
	s.Subjects, s.Findings, s.Alternatives = first(s.Subjects, 16), first(s.Findings, 16), first(s.Alternatives, 5)
	s.Pods.Names = first(s.Pods.Names, 3)
	for i, name := range s.Pods.Names {
		s.Pods.Names[i] = cut(name, 317)
	}
	for i := range s.Subjects {
		o := &s.Subjects[i]
		o.Kind, o.Name, o.UID = cut(o.Kind, 63), cut(o.Name, 253), cut(o.UID, 64)
	}
	for i := range s.Findings {
		f := &s.Findings[i]
		f.Code, f.Message = cut(f.Code, 64), cut(f.Message, 256)
	}
	for i := range s.Alternatives {
		s.Alternatives[i].fit()
	}
	if s.Chosen != nil {
		s.Chosen.fit()
	}
	for r.size() > MaxBytes && r.dropOne() {
	}
}

func (o *Offering) fit() {
	o.InstanceType, o.Zone, o.CapacityType = cut(o.InstanceType, 63), cut(o.Zone, 63), cut(o.CapacityType, 32)
	o.PricePerHour, o.Code = cut(o.PricePerHour, 32), cut(o.Code, 64)
}

// dropOne drops what is missed least, and reports whether there was anything.
func (r *DecisionRecord) dropOne() bool {
	s := &r.Spec
	switch {
	case len(s.Findings) > 4:
		s.Findings = s.Findings[:len(s.Findings)-1]
	case len(s.Subjects) > 2:
		s.Subjects = s.Subjects[:len(s.Subjects)-1]
	case len(s.Alternatives) > 0:
		s.Alternatives = s.Alternatives[:len(s.Alternatives)-1]
	case len(s.Findings) > 0:
		s.Findings = s.Findings[:len(s.Findings)-1]
	case len(s.Pods.Names) > 0:
		s.Pods.Names = nil
	case len(s.Subjects) > 1:
		s.Subjects = s.Subjects[:1]
	case s.Chosen != nil:
		s.Chosen = nil
	default:
		return false
	}
	return true
}

// size in bytes as JSON.
func (r *DecisionRecord) size() int {
	raw, err := json.Marshal(r)
	if err != nil {
		return 0 // cannot be: a record is made of texts, numbers and lists
	}
	return len(raw)
}

// cut is the beginning of a text, at most n bytes of whole characters.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }
