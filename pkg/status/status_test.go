package status_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/karp-sh/karp/pkg/plan"
	"github.com/karp-sh/karp/pkg/reason"
	"github.com/karp-sh/karp/pkg/status"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// apiServer plays the few parts of the API server that the endpoint and its client use. Tokens are "<user>|<audience>"; user karp-reader may
// read /status/*.
type apiServer struct {
	mu sync.Mutex
	// reviews counts token and access reviews; fail makes them fail.
	reviews int
	fail    bool
	// forbidden lists path fragments that the user may not ask for.
	forbidden []string
	lease     coordinationv1.Lease
	// backend is what the service proxy leads to, one of them in turn.
	backends []http.Handler
	turn     int
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range a.forbidden {
		if strings.Contains(r.URL.Path, f) {
			reply(w, http.StatusForbidden, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 403, Reason: metav1.StatusReasonForbidden, Message: f + " is forbidden for dana"})
			return
		}
	}
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/tokenreviews"):
		a.reviewToken(w, r)
	case strings.HasSuffix(path, "/subjectaccessreviews"):
		a.reviewAccess(w, r)
	case strings.HasSuffix(path, "/serviceaccounts/karp-reader/token"):
		var request authenticationv1.TokenRequest
		decode(r, &request)
		request.Status.Token = "karp-reader|" + strings.Join(request.Spec.Audiences, ",")
		reply(w, http.StatusCreated, request)
	case strings.HasSuffix(path, "/leases/lease") && r.Method == http.MethodPatch:
		var patch struct {
			Metadata struct{ Annotations map[string]*string }
		}
		decode(r, &patch)
		if a.lease.Annotations == nil {
			a.lease.Annotations = map[string]string{}
		}
		for k, v := range patch.Metadata.Annotations {
			if v == nil {
				delete(a.lease.Annotations, k)
			} else {
				a.lease.Annotations[k] = *v
			}
		}
		reply(w, http.StatusOK, a.lease)
	case strings.HasSuffix(path, "/leases/lease"):
		reply(w, http.StatusOK, a.lease)
	case strings.Contains(path, "/services/https:karp-agent:status/proxy/") && len(a.backends) > 0:
		// As the real proxy does: the caller's credential is removed, other headers pass.
		r2 := r.Clone(r.Context())
		r2.Header.Del("Authorization")
		_, r2.URL.Path, _ = strings.Cut(path, "/proxy")
		backend := a.backends[a.turn%len(a.backends)]
		a.turn++
		a.mu.Unlock()
		backend.ServeHTTP(w, r2)
		a.mu.Lock()
	default:
		reply(w, http.StatusServiceUnavailable, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 503, Message: "no endpoints available"})
	}
}

func (a *apiServer) reviewToken(w http.ResponseWriter, r *http.Request) {
	a.reviews++
	if a.fail {
		http.Error(w, "etcd is down", http.StatusInternalServerError)
		return
	}
	var review authenticationv1.TokenReview
	decode(r, &review)
	user, audience, _ := strings.Cut(review.Spec.Token, "|")
	if user != "" && audience == review.Spec.Audiences[0] {
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{audience}, User: authenticationv1.UserInfo{Username: user}}
	}
	reply(w, http.StatusCreated, review)
}

func (a *apiServer) reviewAccess(w http.ResponseWriter, r *http.Request) {
	a.reviews++
	var review authorizationv1.SubjectAccessReview
	decode(r, &review)
	n := review.Spec.NonResourceAttributes
	review.Status.Allowed = n != nil && review.Spec.User == "karp-reader" && n.Verb == "get" && strings.HasPrefix(n.Path, "/status/")
	reply(w, http.StatusCreated, review)
}

func decode(r *http.Request, into any) {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		panic(err) // the test server's own client wrote it
	}
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

func (a *apiServer) start(t *testing.T) *rest.Config {
	t.Helper()
	s := httptest.NewServer(a)
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

type source struct{ err error }

func (s source) StatusInfo(context.Context) (status.Info, error) {
	return status.Info{Meta: status.Meta{ObservedAt: at}, Version: "v1", ClusterName: "prod", Synced: true}, s.err
}

func (s source) PodVerdict(_ context.Context, namespace, name string) (status.PodVerdict, error) {
	if name == "none" {
		return status.PodVerdict{}, fmt.Errorf("pod %s/%s: %w", namespace, name, status.ErrNotFound)
	}
	return status.PodVerdict{Namespace: namespace, Name: name, DecidedAt: at, Verdict: status.NewVerdict(&plan.Verdict{
		Layer: reason.InstanceType, Code: reason.TooBig, Detail: "cpu",
		Pools: []plan.PoolFinding{{Pool: "a", Layer: reason.Offering, Code: reason.OutOfIPs, Funnel: reason.Funnel{{Types: 800, Offerings: 4000}, {Code: reason.TooBig, Types: 3, Offerings: 9}}}},
	})}, s.err
}

type leads bool

func (l leads) Leading() (bool, string) { return bool(l), "pod-1_uid" }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func server(t *testing.T, cfg *rest.Config, now func() time.Time, leading bool, err error) *status.Server {
	t.Helper()
	clients, e := kubernetes.NewForConfig(cfg)
	if e != nil {
		t.Fatal(e)
	}
	authority, e := status.NewAuthority(time.Now)
	if e != nil {
		t.Fatal(e)
	}
	return &status.Server{Info: source{err}, Pods: source{err}, Leadership: leads(leading), Access: status.NewAccess(clients, now), Authority: authority, Log: quiet()}
}

func get(h http.Handler, method, path, token string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	if token != "" {
		r.Header.Set(status.Header, "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const good = "karp-reader|karp-agent"

func TestServerAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path, token string
		header              []string
		follower            bool
		err                 error
		code                int
		body                string
	}{
		"info":                      {path: "/status/v1alpha1/info", token: good, code: 200, body: `"leader":"pod-1_uid","version":"v1"`},
		"pod":                       {path: "/status/v1alpha1/pods/ns/p", token: good, code: 200, body: `"verdict":{"layer":"InstanceType","code":"TooBig","detail":"cpu","pools":[{"pool":"a","layer":"Offering","code":"OutOfIPs","funnel":[{"types":800,"offerings":4000},{"code":"TooBig","types":3,"offerings":9}]}]}`},
		"unknown pod":               {path: "/status/v1alpha1/pods/ns/none", token: good, code: 404, body: "pod ns/none: not found"},
		"no token":                  {path: "/status/v1alpha1/info", code: 401, body: status.Header},
		"token in the usual header": {path: "/status/v1alpha1/info", header: []string{"Authorization", "Bearer " + good}, code: 401},
		"other scheme":              {path: "/status/v1alpha1/info", header: []string{status.Header, "Basic " + good}, code: 401},
		"other audience":            {path: "/status/v1alpha1/info", token: "karp-reader|https://kubernetes.default.svc", code: 401},
		"garbage":                   {path: "/status/v1alpha1/info", token: "x", code: 401},
		"wrong role":                {path: "/status/v1alpha1/info", token: "eve|karp-agent", code: 403, body: "karp-reader"},
		"path outside":              {path: "/metrics", token: good, code: 403},
		"no such path":              {path: "/status/v1alpha1/nothing", token: good, code: 404},
		"write":                     {method: "POST", path: "/status/v1alpha1/info", token: good, code: 405},
		"follower":                  {path: "/status/v1alpha1/info", token: good, follower: true, code: 421, body: `"leader":"pod-1_uid"`},
		"follower, no token":        {path: "/status/v1alpha1/info", follower: true, code: 401},
		"source fails":              {path: "/status/v1alpha1/info", token: good, err: errors.New("secret detail"), code: 500, body: "log says why"},
	} {
		t.Run(name, func(t *testing.T) {
			h := server(t, (&apiServer{}).start(t), time.Now, !tc.follower, tc.err).Handler()
			method := tc.method
			if method == "" {
				method = "GET"
			}
			got := get(h, method, tc.path, tc.token, tc.header...)
			if got.Code != tc.code || !strings.Contains(got.Body.String(), tc.body) {
				t.Errorf("%d %s; want %d with %s", got.Code, got.Body, tc.code, tc.body)
			}
			if strings.Contains(got.Body.String(), "secret") {
				t.Errorf("an internal error leaked: %s", got.Body)
			}
			if got.Header().Get("Cache-Control") != "no-store" {
				t.Error("the answer may be cached")
			}
		})
	}
}

func TestServerFailsClosed(t *testing.T) {
	api := &apiServer{fail: true}
	h := server(t, api.start(t), time.Now, true, nil).Handler()
	if got := get(h, "GET", "/status/v1alpha1/info", good); got.Code != 503 {
		t.Errorf("%d while the API server fails, want 503", got.Code)
	}
}

func TestETag(t *testing.T) {
	h := server(t, (&apiServer{}).start(t), time.Now, true, nil).Handler()
	first := get(h, "GET", "/status/v1alpha1/info", good)
	tag := first.Header().Get("ETag")
	if got := get(h, "GET", "/status/v1alpha1/info", good, "If-None-Match", tag); got.Code != 304 || got.Body.Len() != 0 {
		t.Errorf("%d with %d bytes for an unchanged answer, want 304", got.Code, got.Body.Len())
	}
}

func TestRateLimit(t *testing.T) {
	h := server(t, (&apiServer{}).start(t), time.Now, true, nil).Handler()
	codes := map[int]int{}
	for range 100 {
		codes[get(h, "GET", "/status/v1alpha1/info", good).Code]++
	}
	if codes[200] < 10 || codes[429] == 0 {
		t.Errorf("codes of 100 requests at once: %v, want some refused", codes)
	}
}

func TestAccessIsRemembered(t *testing.T) {
	now := at
	api := &apiServer{}
	cfg := api.start(t)
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a := status.NewAccess(clients, func() time.Time { return now })
	ask := func(token string) int {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "/status/v1alpha1/info", nil)
		r.Header.Set(status.Header, "Bearer "+token)
		code, err := a.Check(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return code
	}
	for _, step := range []struct {
		wait    time.Duration
		token   string
		code    int
		reviews int
	}{
		{0, good, 200, 2},
		{4 * time.Minute, good, 200, 2},
		{2 * time.Minute, good, 200, 4},
		{0, "bad", 401, 5},
		{20 * time.Second, "bad", 401, 5},
		{20 * time.Second, "bad", 401, 6},
	} {
		now = now.Add(step.wait)
		if code := ask(step.token); code != step.code || api.reviews != step.reviews {
			t.Errorf("%s after %s: %d with %d reviews, want %d with %d", step.token, step.wait, code, api.reviews, step.code, step.reviews)
		}
	}
}

func TestCertificate(t *testing.T) {
	now := at
	a, err := status.NewAuthority(func() time.Time { return now }, "10.0.0.7")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(a.PEM()) {
		t.Fatal("no certificate in the PEM")
	}
	leaf := func() *x509.Certificate {
		t.Helper()
		c, err := a.Certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"karp-agent", "localhost", "127.0.0.1", "10.0.0.7"} {
			if _, err := out.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, CurrentTime: now}); err != nil {
				t.Errorf("%s at %s: %v", host, now, err)
			}
		}
		return out
	}
	first := leaf()
	now = now.Add(19 * 24 * time.Hour)
	if !leaf().Equal(first) {
		t.Error("the certificate was renewed too early")
	}
	now = now.Add(2 * 24 * time.Hour)
	if leaf().Equal(first) {
		t.Error("the certificate was not renewed before its end")
	}
}

func client(t *testing.T, cfg *rest.Config, way status.Way) *status.Client {
	t.Helper()
	c, err := status.NewClient(status.ClientOptions{Config: cfg, Lease: status.Lease{Namespace: "kube-system", Name: "lease"}, Way: way})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestClientThroughProxy(t *testing.T) {
	api := &apiServer{}
	cfg := api.start(t)
	follower, leader := server(t, cfg, time.Now, false, nil).Handler(), server(t, cfg, time.Now, true, nil).Handler()
	// Two followers answer before the leader does.
	api.backends = []http.Handler{follower, follower, leader}
	c := client(t, cfg, status.Auto)
	info, err := c.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := status.Info{Meta: status.Meta{ObservedAt: at, Leader: "pod-1_uid"}, Version: "v1", ClusterName: "prod", Synced: true}
	if diff := cmp.Diff(want, info); diff != "" || c.Way() != status.Proxy {
		t.Errorf("way %s, info (-want +got):\n%s", c.Way(), diff)
	}
	api.backends = []http.Handler{leader}
	verdict, err := c.Pod(t.Context(), "ns", "p")
	if err != nil || verdict.Verdict == nil || verdict.Verdict.Code != "TooBig" || len(verdict.Verdict.Pools) != 1 {
		t.Errorf("verdict %+v, %v", verdict, err)
	}
	if _, err := c.Pod(t.Context(), "ns", "none"); !errors.Is(err, status.ErrNotFound) {
		t.Errorf("unknown pod: %v", err)
	}
}

func TestClientDirect(t *testing.T) {
	api := &apiServer{}
	cfg := api.start(t)
	s := server(t, cfg, time.Now, true, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	clients, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lease := status.Lease{Namespace: "kube-system", Name: "lease"}
	if err := status.Publish(t.Context(), clients, lease, s.Authority.PEM(), "https://"+l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	c := client(t, cfg, status.Auto)
	if info, err := c.Info(t.Context()); err != nil || info.Version != "v1" || c.Way() != status.Direct {
		t.Errorf("way %s, info %+v, error %v", c.Way(), info, err)
	}
	// HTTP/2 is off, and an old TLS is refused.
	for _, bad := range []*tls.Config{{MaxVersion: tls.VersionTLS11}} {
		bad.InsecureSkipVerify = true // only the handshake is looked at
		if conn, err := tls.Dial("tcp", l.Addr().String(), bad); err == nil {
			_ = conn.Close()
			t.Error("TLS 1.1 was accepted")
		}
	}
	conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}) // only the protocol is looked at
	if err != nil {
		t.Fatal(err)
	}
	if p := conn.ConnectionState().NegotiatedProtocol; p != "http/1.1" {
		t.Errorf("protocol %q, want http/1.1", p)
	}
	_ = conn.Close()
	// Another authority in the lease: somebody sits between.
	other, err := status.NewAuthority(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := status.Publish(t.Context(), clients, lease, other.PEM(), "https://"+l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	var unreachable *status.Unreachable
	if _, err := client(t, cfg, status.Auto).Info(t.Context()); !errors.As(err, &unreachable) || unreachable.Attempts[0].Way != status.Direct {
		t.Errorf("with a wrong authority: %v", err)
	}
	if err := status.Publish(t.Context(), clients, lease, other.PEM(), ""); err != nil || api.lease.Annotations[status.URLAnnotation] != "" {
		t.Errorf("%v; annotations %v, want no URL", err, api.lease.Annotations)
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("serving ended with %v", err)
	}
}

func TestClientGoesWithout(t *testing.T) {
	for name, tc := range map[string]struct {
		way       status.Way
		forbidden []string
		want      []string
		attempts  int
	}{
		"none":                {way: status.None, want: []string{"not asked"}},
		"no token":            {way: status.Auto, forbidden: []string{"/token"}, want: []string{"karp-reader", "forbidden for dana"}, attempts: 1},
		"proxy forbidden":     {way: status.Proxy, forbidden: []string{"/proxy"}, want: []string{"proxy: /proxy is forbidden for dana"}, attempts: 1},
		"both fail":           {way: status.Auto, forbidden: []string{"/proxy", "/leases"}, want: []string{"proxy: ", "port-forward: reading lease kube-system/lease: /leases is forbidden"}, attempts: 2},
		"nobody holds":        {way: status.PortForward, want: []string{"the leader is not a pod of this cluster"}, attempts: 1},
		"no endpoints behind": {way: status.Proxy, want: []string{"no endpoints available"}, attempts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			api := &apiServer{forbidden: tc.forbidden}
			c := client(t, api.start(t), tc.way)
			_, err := c.Info(t.Context())
			var unreachable *status.Unreachable
			if !errors.As(err, &unreachable) || len(unreachable.Attempts) != tc.attempts {
				t.Fatalf("error %v, want %d attempts", err, tc.attempts)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
			// The next question does not try again.
			api.forbidden = nil
			if _, again := c.Info(t.Context()); !errors.As(again, &unreachable) {
				t.Errorf("second question: %v", again)
			}
		})
	}
}

func TestClientStopsAtFollowers(t *testing.T) {
	api := &apiServer{}
	cfg := api.start(t)
	asked := 0
	follower := server(t, cfg, time.Now, false, nil).Handler()
	api.backends = []http.Handler{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		follower.ServeHTTP(w, r)
	})}
	_, err := client(t, cfg, status.Proxy).Info(t.Context())
	if err == nil || asked != 9 {
		t.Errorf("asked %d times, error %v; want the first and 8 more", asked, err)
	}
}

func TestParseWay(t *testing.T) {
	for _, s := range []string{"auto", "proxy", "port-forward", "none"} {
		if w, err := status.ParseWay(s); err != nil || string(w) != s {
			t.Errorf("%s: %v, %v", s, w, err)
		}
	}
	if _, err := status.ParseWay("direct"); err == nil || !strings.Contains(err.Error(), "is not one of") {
		t.Errorf("direct: %v", err)
	}
}

func TestPodName(t *testing.T) {
	for holder, want := range map[string]string{"karp-agent-7d9-x_0b5e": "karp-agent-7d9-x", "host": "host", "": ""} {
		if got := status.PodName(holder); got != want {
			t.Errorf("%q: %q, want %q", holder, got, want)
		}
	}
}
