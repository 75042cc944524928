package rbac_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/karp-sh/karp/pkg/status"
	"github.com/karp-sh/karp/test/cluster"
)

type info struct{}

func (info) StatusInfo(context.Context) (status.Info, error) {
	return status.Info{Version: "v1", ClusterName: "sandbox"}, nil
}

// Leading makes the test's server the leader.
func (info) Leading() (bool, string) { return true, "test_1" }

// statusEndpoint runs the server with the agent's rights and asks it as users of different rights (S3): no token, a foreign audience, a wrong role, the
// right role.
func statusEndpoint(t *testing.T, c *cluster.Cluster, _ client.Client) {
	admin := clients(t, c.Config)
	agent := clients(t, c.ServiceAccount(t, "kube-system", "karp-agent"))
	authority, err := status.NewAuthority(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := &status.Server{Info: info{}, Leadership: info{}, Access: status.NewAccess(agent, time.Now), Authority: authority, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	url := "https://" + l.Addr().String()

	insecure := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // the codes are tested
	for name, tc := range map[string]struct {
		token string
		code  int
	}{
		"no token":                    {"", 401},
		"reader, API's audience":      {token(t, admin, "kube-system", "karp-reader", "https://kubernetes.default.svc"), 401},
		"other account, our audience": {token(t, admin, "default", "default", status.Audience), 403},
		"reader":                      {token(t, admin, "kube-system", "karp-reader", status.Audience), 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+status.Prefix+"/info", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.token != "" {
			r.Header.Set(status.Header, "Bearer "+tc.token)
		}
		got, err := insecure.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode != tc.code {
			t.Errorf("%s: %d, want %d", name, got.StatusCode, tc.code)
		}
	}

	lease(t, admin)
	where := status.Lease{Namespace: "kube-system", Name: "karpenter-leader-election"}
	if err := status.Publish(t.Context(), agent, where, authority.PEM(), url); err != nil {
		t.Fatalf("publishing with the agent's rights: %v", err)
	}
	as := func(user string) *status.Client {
		t.Helper()
		cfg := rest.CopyConfig(c.Config)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: user}
		out, err := status.NewClient(status.ClientOptions{Config: cfg, Lease: where})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(out.Close)
		return out
	}
	asker := as("asker")
	if got, err := asker.Info(t.Context()); err != nil || got.Version != "v1" || asker.Way() != status.Direct {
		t.Errorf("with role karp-status: %+v, %v, way %q", got, err, asker.Way())
	}
	var unreachable *status.Unreachable
	if _, err := as("nobody").Info(t.Context()); !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "serviceaccounts/token") {
		t.Errorf("without the role: %v", err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
