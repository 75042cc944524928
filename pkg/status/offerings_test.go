package status_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/karp-sh/karp/pkg/status"
)

// market sells one offering, and a second one for pool gpu alone.
type market struct{}

func (market) Offerings(_ context.Context, nodePool string) (status.Offerings, error) {
	until := at.Add(time.Minute)
	out := status.Offerings{Meta: status.Meta{ObservedAt: at}, Items: []status.Offering{{Type: "m5.large", Zone: "a", CapacityType: "spot", Price: "0.038", Available: true}}}
	switch nodePool {
	case "":
	case "gpu":
		out.Items = append(out.Items, status.Offering{Type: "p5.48xlarge", Zone: "a", CapacityType: "on-demand", Reason: "InsufficientInstanceCapacity", Until: &until})
	default:
		return status.Offerings{}, fmt.Errorf("NodePool %s: %w", nodePool, status.ErrNotFound)
	}
	return out, nil
}

func TestServerOfferings(t *testing.T) {
	s := server(t, (&apiServer{}).start(t), time.Now, true, nil)
	s.Offerings = market{}
	h := s.Handler()
	for path, want := range map[string]string{
		"/status/v1alpha1/offerings":               `"leader":"pod-1_uid","items":[{"type":"m5.large","zone":"a","capacityType":"spot","price":"0.038","available":true}]}`,
		"/status/v1alpha1/offerings?nodepool=gpu":  `{"type":"p5.48xlarge","zone":"a","capacityType":"on-demand","available":false,"reason":"InsufficientInstanceCapacity","until":"2026-01-02T03:05:05Z"}`,
		"/status/v1alpha1/offerings?nodepool=none": "NodePool none: not found",
	} {
		if got := get(h, "GET", path, good); !strings.Contains(got.Body.String(), want) {
			t.Errorf("%s: %d %s; want %s", path, got.Code, got.Body, want)
		}
	}
	if got := get(h, "GET", "/status/v1alpha1/offerings", ""); got.Code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", got.Code)
	}
	s.Offerings = nil
	if got := get(s.Handler(), "GET", "/status/v1alpha1/offerings", good); got.Code != http.StatusNotFound {
		t.Errorf("without a source: %d", got.Code)
	}
}

func TestClientOfferings(t *testing.T) {
	api := &apiServer{}
	cfg := api.start(t)
	s := server(t, cfg, time.Now, true, nil)
	s.Offerings = market{}
	api.backends = []http.Handler{s.Handler()}
	c := client(t, cfg, status.Proxy)
	for pool, want := range map[string][]string{"": {"m5.large"}, "gpu": {"m5.large", "p5.48xlarge"}} {
		got, err := c.Offerings(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		var types []string
		for _, i := range got.Items {
			types = append(types, i.Type)
		}
		if diff := cmp.Diff(want, types); diff != "" {
			t.Errorf("types for pool %q (-want +got):\n%s", pool, diff)
		}
	}
	if _, err := c.Offerings(t.Context(), "a/b?c"); !errors.Is(err, status.ErrNotFound) {
		t.Errorf("unknown pool: %v", err)
	}
}
