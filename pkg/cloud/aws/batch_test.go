package aws_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/cloud/aws"
)

// calls records what a batcher asks for.
type calls struct {
	mu     sync.Mutex
	start  time.Time
	merged [][]string
	at     []time.Duration
	single []string
}

func (c *calls) batcher(fail error, lacks ...string) aws.Batcher {
	c.start = time.Now()
	return aws.NewBatcher(func(_ context.Context, ids []string) (map[string]string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.merged, c.at = append(c.merged, slices.Sorted(slices.Values(ids))), append(c.at, time.Since(c.start))
		out := map[string]string{}
		for _, id := range ids {
			if !slices.Contains(lacks, id) {
				out[id] = "merged " + id
			}
		}
		return out, fail
	}, func(_ context.Context, id string) (string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.single = append(c.single, id)
		if id == "i-9" {
			return "", errors.New("i-9 is unknown")
		}
		return "single " + id, nil
	})
}

// ask asks for every id at its time and returns the answers.
func ask(t *testing.T, b aws.Batcher, every time.Duration, ids ...string) []string {
	t.Helper()
	out := make([]string, len(ids))
	var group sync.WaitGroup
	for i, id := range ids {
		group.Go(func() {
			value, err := b.Do(t.Context(), id)
			if err != nil {
				value = err.Error()
			}
			out[i] = value
		})
		time.Sleep(every)
	}
	group.Wait()
	return out
}

func many(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("i-%04d", i))
	}
	return out
}

func TestBatch(t *testing.T) {
	t.Run("A-225 fifty at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var c calls
			ask(t, c.batcher(nil), time.Millisecond, many(50)...)
			if len(c.merged) != 1 || len(c.merged[0]) != 50 || len(c.single) != 0 {
				t.Errorf("calls %v and %v", c.merged, c.single)
			}
			if want := 149 * time.Millisecond; c.at[0] != want { // the last one came at 49 ms
				t.Errorf("called after %v, want %v", c.at[0], want)
			}
		})
	})
	t.Run("the first waits a second at most", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var c calls
			ask(t, c.batcher(nil), 90*time.Millisecond, many(14)...)
			if len(c.merged) != 2 || c.at[0] != time.Second || len(c.merged[0]) != 12 {
				t.Errorf("%d calls at %v, the first of %d", len(c.merged), c.at, len(c.merged[0]))
			}
		})
	})
	t.Run("five hundred are one call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var c calls
			ask(t, c.batcher(nil), 0, many(700)...)
			slices.SortFunc(c.merged, func(a, b []string) int { return len(b) - len(a) })
			if len(c.merged) != 2 || len(c.merged[0]) != 500 || len(c.merged[1]) != 200 {
				t.Errorf("%d calls", len(c.merged))
			}
		})
	})
	t.Run("the same id twice, and one id alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var c calls
			got := ask(t, c.batcher(nil), 0, "i-1", "i-1")
			if diff := cmp.Diff([]string{"single i-1", "single i-1"}, got); diff != "" || len(c.merged) != 0 || len(c.single) != 1 {
				t.Errorf("%s; calls %v and %v", diff, c.merged, c.single)
			}
		})
	})
}

func TestBatchRetries(t *testing.T) {
	throttled := &smithy.GenericAPIError{Code: "RequestLimitExceeded", Message: "slow down"}
	unknown := &smithy.GenericAPIError{Code: "InvalidInstanceID.NotFound", Message: "i-9"}
	tests := []struct {
		name   string
		fail   error
		lacks  []string
		want   []string
		single int
	}{
		{"A-226 one is unknown", unknown, nil, []string{"single i-1", "single i-2", "i-9 is unknown"}, 3},
		{"one is missing from the answer", nil, []string{"i-2"}, []string{"merged i-1", "single i-2", "merged i-9"}, 1},
		{"AX28 throttled", throttled, nil, []string{throttled.Error(), throttled.Error(), throttled.Error()}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c calls
				got := ask(t, c.batcher(tt.fail, tt.lacks...), 0, "i-1", "i-2", "i-9")
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if len(c.single) != tt.single {
					t.Errorf("single calls %v, want %d", c.single, tt.single)
				}
			})
		})
	}
}

// TestBatchCaller: a caller that gives up does not end the call of the others.
func TestBatchCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c calls
		b := c.batcher(nil)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() {
			if _, err := b.Do(ctx, "i-1"); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want that it was cancelled", err)
			}
		})
		synctest.Wait()
		group.Go(func() {
			if v, err := b.Do(t.Context(), "i-2"); v != "merged i-2" || err != nil {
				t.Errorf("%q, %v", v, err)
			}
		})
		synctest.Wait()
		cancel()
		group.Wait()
	})
}
