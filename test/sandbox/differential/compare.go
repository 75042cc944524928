package differential

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Comparison is what both sides say about a case.
type Comparison struct {
	Scheduler, Karp Verdict
	// Expected is the scheduler's verdict under all rules; it is only known when the two differ.
	Expected Verdict
	// Because are the rules that are needed to explain the difference; empty if there is none or if no rules do.
	Because []Rule
}

// Agree tells that the two say the same.
func (c Comparison) Agree() bool { return c.Scheduler.Equal(c.Karp) }

// Explained tells that the two agree or differ as rules demand.
func (c Comparison) Explained() bool { return c.Agree() || len(c.Because) > 0 }

// Reason names the rules that explain the difference.
func (c Comparison) Reason() string {
	var names []string
	for _, r := range c.Because {
		names = append(names, r.String())
	}
	return strings.Join(names, "+")
}

// Compare asks both sides about the case.
func (s *Scheduler) Compare(ctx context.Context, c *Case) (Comparison, error) {
	theirs, err := s.Filter(ctx, c)
	if err != nil {
		return Comparison{}, fmt.Errorf("kube-scheduler: %w", err)
	}
	ours, err := Karp(c)
	if err != nil {
		return Comparison{}, err
	}
	out := Comparison{Scheduler: theirs, Karp: ours}
	if out.Agree() {
		return out, nil
	}
	if out.Expected, err = s.Model(ctx, c, All); err != nil {
		return out, fmt.Errorf("kube-scheduler: %w", err)
	}
	if !out.Expected.Equal(ours) {
		return out, nil
	}
	need := All
	for r := range rules {
		less, err := s.Model(ctx, c, need.Without(r))
		if err != nil {
			return out, fmt.Errorf("kube-scheduler: %w", err)
		}
		if less.Equal(ours) {
			need = need.Without(r)
		}
	}
	out.Because = need.List()
	if len(out.Because) == 0 {
		return out, errors.New("the model without rules is not the scheduler")
	}
	return out, nil
}
