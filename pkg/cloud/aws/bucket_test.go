package aws_test

import (
	"testing"
	"time"

	"github.com/aws/smithy-go"

	"github.com/karp-sh/karp/pkg/cloud/aws"
)

// TestBucket: a throttled call halves the rate, once for all calls of a second; others give it back; it never falls to nothing.
func TestBucket(t *testing.T) {
	b := aws.NewBucket(aws.Rate{PerSecond: 16, Burst: 160})
	throttled := &smithy.GenericAPIError{Code: "RequestLimitExceeded"}
	now := start()
	want := func(step string, rate float64, burst int) {
		t.Helper()
		if float64(b.Limit()) != rate || b.Burst() != burst {
			t.Errorf("%s: %v a second, %d at once; want %v, %d", step, b.Limit(), b.Burst(), rate, burst)
		}
	}
	want("at first", 16, 160)
	b.Settle(nil, now)
	want("a success at full rate", 16, 160)
	b.Settle(throttled, now)
	b.Settle(throttled, now.Add(time.Millisecond))
	want("throttled twice at once", 8, 80)
	b.Settle(&smithy.GenericAPIError{Code: "UnauthorizedOperation"}, now)
	want("refused for another reason", 8.5, 85)
	for i := range 20 {
		b.Settle(throttled, now.Add(time.Duration(i+1)*time.Second))
	}
	want("throttled for long", 1, 10)
	for range 30 {
		b.Settle(nil, now)
	}
	want("recovered", 16, 160)
	if !b.AllowN(now.Add(time.Minute), 160) {
		t.Error("the recovered bucket is not full after a minute")
	}
}
