// Package fault crashes the real agent at every kind of write it makes and checks that nothing is lost, leaked or launched twice.
//
// A Gate stands between the agent and both servers, the API server and AWS. It lets reads pass, names each write by its site (such as
// "PATCH nodeclaims/status" or "ec2 CreateFleet"), and kills the agent by SIGKILL just before or just after a write whose site was not crashed
// at often enough. A supervisor starts the agent again, so that a run of the agent's whole work is cut into many short lives.
package fault

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Moment is when to crash, relative to a write.
type Moment string

// The moments. After means that the write took effect and the agent never learns of it. Lost and Dropped are no crashes: the connection breaks
// after the write has taken effect, or before it could, and the agent cannot tell which.
const (
	Before  Moment = "before"
	After   Moment = "after"
	Lost    Moment = "lost"
	Dropped Moment = "dropped"
)

// Gate decides about writes. Kill ends the agent and returns when it is dead.
type Gate struct {
	Moment Moment
	// Times is how often each site is crashed at.
	Times int
	Kill  func()
	// Check is called with each write to AWS before it is made; what it returns is a violation.
	Check func(action string, form url.Values) string

	mu         sync.Mutex
	crashed    map[string]int
	reached    map[string]int
	violations []string
}

// write lets a write pass, or crashes. It returns false if the write's answer must not reach the agent.
func (g *Gate) write(site string, do func()) bool {
	g.mu.Lock()
	if g.crashed == nil {
		g.crashed, g.reached = map[string]int{}, map[string]int{}
	}
	g.reached[site]++
	crash := g.crashed[site] < g.times(site)
	if crash {
		g.crashed[site]++
	}
	g.mu.Unlock()
	switch {
	case !crash:
		do()
	case g.Moment == Before:
		g.Kill()
	case g.Moment == Dropped:
	case g.Moment == Lost:
		do()
	default:
		do()
		g.Kill()
	}
	return !crash
}

// times is how often to fail at a site. The SDK repeats a call to AWS by itself, three times in all, so a broken connection reaches the agent
// only if it breaks more often.
func (g *Gate) times(site string) int {
	const sdkAttempts = 3
	if strings.HasPrefix(site, "AWS ") && (g.Moment == Lost || g.Moment == Dropped) {
		return g.Times * (sdkAttempts + 1)
	}
	return g.Times
}

// Sites returns how often each site was crashed at, and which were reached without a crash.
func (g *Gate) Sites() (crashed map[string]int, missed []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for site := range g.reached {
		if g.crashed[site] == 0 {
			missed = append(missed, site)
		}
	}
	slices.Sort(missed)
	return maps.Clone(g.crashed), missed
}

// Violations returns what Check found.
func (g *Gate) Violations() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.violations)
}

// aws puts the gate before a simulated AWS.
func (g *Gate) aws(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		action, form := awsAction(r, body)
		if !mutates(action, form) {
			next.ServeHTTP(w, r)
			return
		}
		if g.Check != nil {
			if v := g.Check(action, form); v != "" {
				g.mu.Lock()
				g.violations = append(g.violations, v)
				g.mu.Unlock()
			}
		}
		answer := httptest.NewRecorder()
		if !g.write("AWS "+action, func() { next.ServeHTTP(answer, r) }) {
			panic(http.ErrAbortHandler)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

// awsAction names the operation of a request to AWS.
func awsAction(r *http.Request, body []byte) (string, url.Values) {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return target[strings.LastIndexByte(target, '.')+1:], nil
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || form.Get("Action") == "" {
		return r.Method + " " + r.URL.Path, nil
	}
	return form.Get("Action"), form
}

func mutates(action string, form url.Values) bool {
	if form.Get("DryRun") == "true" {
		return false
	}
	return !slices.ContainsFunc([]string{"Describe", "Get", "List", "Receive", "Assume", "GET ", "PUT /latest"}, func(prefix string) bool {
		return strings.HasPrefix(action, prefix)
	})
}

// api puts the gate before an API server.
func (g *Gate) api(config *rest.Config) (http.Handler, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		// The agent has been killed; nobody is there to be told.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := apiSite(r)
		if site == "" {
			proxy.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		if !g.write(site, func() { proxy.ServeHTTP(answer, r) }) {
			panic(http.ErrAbortHandler)
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}), nil
}

// apiSite names a write to the API server; empty for a read and for what does not matter.
func apiSite(r *http.Request) string {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return ""
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	// api/v1/... or apis/<group>/<version>/..., then perhaps namespaces/<name>/.
	skip := 2
	if parts[0] == "apis" {
		skip = 3
	}
	parts = parts[min(skip, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) == 0 || slices.Contains([]string{"events", "leases", "tokenreviews", "subjectaccessreviews"}, parts[0]) {
		return ""
	}
	if len(parts) > 2 {
		return r.Method + " " + parts[0] + "/" + parts[2]
	}
	return r.Method + " " + parts[0]
}

// serve starts a server for the handler and returns its URL.
func serve(tb testing.TB, h http.Handler) string {
	server := httptest.NewServer(h)
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// kubeconfig writes a file that leads to the URL without credentials.
func kubeconfig(tb testing.TB, url string) string {
	tb.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["gate"] = &clientcmdapi.Cluster{Server: url}
	c.Contexts["gate"] = &clientcmdapi.Context{Cluster: "gate"}
	c.CurrentContext = "gate"
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		tb.Fatal(fmt.Errorf("writing %s: %w", path, err))
	}
	if _, err := os.Stat(path); err != nil {
		tb.Fatal(err)
	}
	return path
}
