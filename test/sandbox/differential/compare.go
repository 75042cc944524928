package differential

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Defect is the first rule needed that is a defect of karp.
func (c Comparison) Defect() (Rule, bool) {
	i := slices.IndexFunc(c.Because, Defects.Has)
	if i < 0 {
		return 0, false
	}
	return c.Because[i], true
}

// Bold tells that karp accepts a node that the scheduler refuses: a pod it counts on that node waits there for ever.
func (c Comparison) Bold() bool { return len(both(c.Karp, c.Scheduler)) < len(c.Karp) }

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
	out.Because, err = s.because(ctx, c, ours)
	return out, err
}

// because returns rules that are enough to explain karp's verdict, given that all of them together do: one if one is enough, else a set of
// which none can be left out.
func (s *Scheduler) because(ctx context.Context, c *Case, ours Verdict) ([]Rule, error) {
	for r := range rules {
		with, err := s.Model(ctx, c, Rules(1)<<r)
		if err != nil {
			return nil, fmt.Errorf("kube-scheduler: %w", err)
		}
		if with.Equal(ours) {
			return []Rule{r}, nil
		}
	}
	need := All
	for r := rules - 1; r >= 0; r-- {
		less, err := s.Model(ctx, c, need.Without(r))
		if err != nil {
			return nil, fmt.Errorf("kube-scheduler: %w", err)
		}
		if less.Equal(ours) {
			need = need.Without(r)
		}
	}
	if need == 0 {
		return nil, errors.New("the model without rules is not the scheduler")
	}
	return need.List(), nil
}
