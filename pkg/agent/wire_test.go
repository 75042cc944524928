package agent_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/karp-sh/karp/pkg/agent"
	"github.com/karp-sh/karp/pkg/config"
)

// L-326: profiles are served only when they are asked for, and behind the same door as the metrics.
func TestProfiles(t *testing.T) {
	cfg := config.Default()
	if o := agent.MetricsOptions(cfg); len(o.ExtraHandlers) > 0 {
		t.Errorf("handlers without ENABLE_PROFILING: %v", o.ExtraHandlers)
	}
	cfg.EnableProfiling, cfg.MetricsSecure = true, true
	o := agent.MetricsOptions(cfg)
	if o.FilterProvider == nil || !o.SecureServing {
		t.Error("profiles are open to everybody")
	}
	index := o.ExtraHandlers["/debug/pprof/"]
	if index == nil {
		t.Fatal("no profiles with ENABLE_PROFILING")
	}
	answer := httptest.NewRecorder()
	index.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/debug/pprof/", nil))
	if answer.Code != 200 || answer.Body.Len() == 0 {
		t.Errorf("the index answers %d", answer.Code)
	}
}
