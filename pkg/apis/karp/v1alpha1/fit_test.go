package v1alpha1_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/apis/karp/v1alpha1"
)

// full is a record with n of everything, and texts of n letters.
func full(n int, letter string) *v1alpha1.DecisionRecord {
	text := strings.Repeat(letter, n)
	r := &v1alpha1.DecisionRecord{}
	r.Name = "d-1"
	r.Spec = v1alpha1.DecisionRecordSpec{Type: v1alpha1.Launch, DecisionID: text, Code: text, Summary: text, NodePool: text, SavingPerHour: "1"}
	r.Spec.Chosen = &v1alpha1.Offering{InstanceType: text, Zone: text}
	for range n {
		r.Spec.Subjects = append(r.Spec.Subjects, v1alpha1.Subject{Kind: text, Name: text, UID: text})
		r.Spec.Findings = append(r.Spec.Findings, v1alpha1.Finding{Code: text, Message: text})
		r.Spec.Alternatives = append(r.Spec.Alternatives, v1alpha1.Offering{InstanceType: text, Code: text})
		r.Spec.Pods.Names = append(r.Spec.Pods.Names, text)
	}
	return r
}

func TestFit(t *testing.T) {
	small := full(2, "é")
	want := small.DeepCopy()
	small.Fit()
	if diff := cmp.Diff(want, small); diff != "" {
		t.Errorf("a small record was cut (-want +got):\n%s", diff)
	}
	for _, n := range []int{20, 400, 5000} {
		large := full(n, "é")
		large.Fit()
		raw, err := json.Marshal(large)
		if err != nil || len(raw) > v1alpha1.MaxBytes {
			t.Errorf("%d of everything takes %d bytes (%v), want at most %d", n, len(raw), err, v1alpha1.MaxBytes)
		}
		s := large.Spec
		if len(s.Subjects) < 2 || len(s.Findings) < 4 || s.DecisionID == "" || s.Summary == "" {
			t.Errorf("%d of everything lost too much: %d subjects, %d findings", n, len(s.Subjects), len(s.Findings))
		}
		if !utf8.ValidString(s.Summary) {
			t.Errorf("a letter was cut in two: %q", s.Summary)
		}
		worst := full(n, "<") // six bytes in JSON
		worst.Fit()
		if raw, err = json.Marshal(worst); err != nil || len(raw) > v1alpha1.MaxBytes || len(worst.Spec.Subjects) == 0 {
			t.Errorf("%d of everything takes %d bytes (%v) when escaped, want at most %d", n, len(raw), err, v1alpha1.MaxBytes)
		}
	}
}
