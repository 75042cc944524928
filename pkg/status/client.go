package status

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Way is how the agent is reached.
type Way string

// The ways. Auto tries the agent's own URL if it runs outside the cluster, then the API server's service proxy, then a port-forward.
const (
	Auto        Way = "auto"
	Proxy       Way = "proxy"
	PortForward Way = "port-forward"
	None        Way = "none"
	// Direct is the URL that an agent outside the cluster published. It is part of Auto and cannot be chosen alone.
	Direct Way = "direct"
)

// ParseWay reads the value of the plugin's flag --agent.
func ParseWay(s string) (Way, error) {
	switch w := Way(s); w {
	case Auto, Proxy, PortForward, None:
		return w, nil
	default:
		return "", fmt.Errorf("--agent %q is not one of auto, proxy, port-forward, none", s)
	}
}

const (
	// attemptTimeout is for one try of one way.
	attemptTimeout = 1500 * time.Millisecond
	// misdirected is how often a follower's answer is tried again: the proxy picks a pod at random each time.
	misdirected   = 8
	tokenLifetime = 600 // seconds, the least the API server gives
	statusPort    = 8443
)

// ClientOptions say which agent to reach, and how.
type ClientOptions struct {
	// Config is the connection to the API server, with the user's own rights.
	Config *rest.Config
	// Lease is that of the leader election; its namespace is the agent's.
	Lease Lease
	Way   Way
}

// Attempt is one way that did not lead to an answer.
type Attempt struct {
	Way Way
	Err error
}

// Unreachable tells that no way led to the agent. It is never a reason to fail a question, only to say what was missing.
type Unreachable struct{ Attempts []Attempt }

func (e *Unreachable) Error() string {
	if len(e.Attempts) == 0 {
		return "agent: not asked"
	}
	parts := make([]string, len(e.Attempts))
	for i, a := range e.Attempts {
		parts[i] = fmt.Sprintf("%s: %v", a.Way, a.Err)
	}
	return "agent: not used (" + strings.Join(parts, "; ") + ")"
}

// Unwrap returns the causes.
func (e *Unreachable) Unwrap() []error {
	out := make([]error, len(e.Attempts))
	for i, a := range e.Attempts {
		out[i] = a.Err
	}
	return out
}

// Client asks the agent. The first question finds a way, which later ones use. It is safe for concurrent use.
type Client struct {
	o       ClientOptions
	cluster kubernetes.Interface

	mu     sync.Mutex
	found  transport
	failed *Unreachable
	token  string
	close  []func()
}

// transport does one request on one way.
type transport interface {
	way() Way
	get(ctx context.Context, path, token string) (code int, body []byte, err error)
}

// NewClient returns a client. It does not ask anything yet.
func NewClient(o ClientOptions) (*Client, error) {
	if o.Way == "" {
		o.Way = Auto
	}
	if o.Way == None {
		return &Client{o: o, failed: &Unreachable{}}, nil
	}
	cluster, err := kubernetes.NewForConfig(o.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return &Client{o: o, cluster: cluster}, nil
}

// Close ends port-forwards.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.close {
		f()
	}
	c.close, c.found = nil, nil
}

// Way returns the way that led to the agent, empty before one did.
func (c *Client) Way() Way {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found == nil {
		return ""
	}
	return c.found.way()
}

// Info asks for a description of the agent.
func (c *Client) Info(ctx context.Context) (Info, error) {
	return ask[Info](ctx, c, Prefix+"/info")
}

// Pod asks for the last decision on a pod. The error wraps ErrNotFound if the agent has made none.
func (c *Client) Pod(ctx context.Context, namespace, name string) (PodVerdict, error) {
	return ask[PodVerdict](ctx, c, Prefix+"/pods/"+url.PathEscape(namespace)+"/"+url.PathEscape(name))
}

// Offerings asks what can be bought, for one NodePool or, with an empty name, for all. The error wraps ErrNotFound if there is no such pool.
func (c *Client) Offerings(ctx context.Context, nodePool string) (Offerings, error) {
	path := Prefix + "/offerings"
	if nodePool != "" {
		path += "?nodepool=" + url.QueryEscape(nodePool)
	}
	return ask[Offerings](ctx, c, path)
}

// ask gets a path and decodes the answer. An error is *Unreachable, a failure of the agent, or wraps ErrNotFound.
func ask[T any](ctx context.Context, c *Client, path string) (T, error) {
	var out T
	body, err := c.get(ctx, path)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(body, &out); err != nil {
		return out, fmt.Errorf("reading the agent's answer: %w", err)
	}
	return out, nil
}

// get asks on the way that is known, or finds one by this question.
func (c *Client) get(ctx context.Context, path string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return nil, c.failed
	}
	if c.found != nil {
		return c.try(ctx, c.found, path)
	}
	failed := &Unreachable{}
	err := c.fetchToken(ctx)
	if apierrors.IsNotFound(err) {
		if _, missing := c.published(ctx); apierrors.IsNotFound(missing) {
			err = fmt.Errorf("no agent found: no Lease %s/%s", c.o.Lease.Namespace, c.o.Lease.Name)
		}
	}
	if err != nil {
		failed.Attempts = []Attempt{{c.o.Way, err}}
		c.failed = failed
		return nil, failed
	}
	for _, open := range c.ways(ctx) {
		t, err := open.open(ctx)
		var body []byte
		if err == nil {
			body, err = c.try(ctx, t, path)
		}
		var answered *answerError
		if err == nil || errors.Is(err, ErrNotFound) || errors.As(err, &answered) {
			c.found = t
			return body, err
		}
		failed.Attempts = append(failed.Attempts, Attempt{open.way, err})
	}
	c.failed = failed
	return nil, failed
}

// opener prepares a way.
type opener struct {
	way  Way
	open func(context.Context) (transport, error)
}

// ways lists what to try, in order.
func (c *Client) ways(ctx context.Context) []opener {
	var published published
	var publishedErr error
	if c.o.Way != Proxy {
		published, publishedErr = c.published(ctx)
	}
	proxy := opener{Proxy, func(context.Context) (transport, error) {
		return &proxied{client: c.cluster.CoreV1().RESTClient(), namespace: c.o.Lease.Namespace}, nil
	}}
	forward := opener{PortForward, func(ctx context.Context) (transport, error) {
		if publishedErr != nil {
			return nil, publishedErr
		}
		return c.forward(ctx, published)
	}}
	switch c.o.Way {
	case Proxy:
		return []opener{proxy}
	case PortForward:
		return []opener{forward}
	default: // any way that works, below
	}
	out := []opener{proxy, forward}
	if published.url != "" {
		out = append([]opener{{Direct, func(context.Context) (transport, error) { return newPinned(Direct, published.url, published.ca) }}}, out...)
	}
	return out
}

// published is what the leader's Lease says.
type published struct {
	holder, url string
	ca          []byte
}

func (c *Client) published(ctx context.Context) (published, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	lease, err := c.cluster.CoordinationV1().Leases(c.o.Lease.Namespace).Get(ctx, c.o.Lease.Name, metav1.GetOptions{})
	if err != nil {
		return published{}, fmt.Errorf("reading lease %s/%s: %w", c.o.Lease.Namespace, c.o.Lease.Name, short(err))
	}
	out := published{url: lease.Annotations[URLAnnotation], ca: []byte(lease.Annotations[CAAnnotation])}
	if lease.Spec.HolderIdentity != nil {
		out.holder = *lease.Spec.HolderIdentity
	}
	return out, nil
}

// fetchToken asks the API server for a token of the reader, so that the user's own credential never leaves for a pod.
func (c *Client) fetchToken(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	seconds := int64(tokenLifetime)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{Audience}, ExpirationSeconds: &seconds}}
	token, err := c.cluster.CoreV1().ServiceAccounts(c.o.Lease.Namespace).CreateToken(ctx, Reader, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("getting a token of serviceaccount %s/%s: %w", c.o.Lease.Namespace, Reader, short(err))
	}
	c.token = token.Status.Token
	return nil
}

// answerError is an answer of the agent that is an error.
type answerError struct {
	code int
	text string
}

func (e *answerError) Error() string { return fmt.Sprintf("the agent answered %d: %s", e.code, e.text) }

// try asks on one way. A follower's answer is tried again, since another pod may answer then.
func (c *Client) try(ctx context.Context, t transport, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	for n := 0; ; n++ {
		code, body, err := t.get(ctx, path, c.token)
		if err != nil {
			return nil, short(err)
		}
		var problem Problem
		if code != http.StatusOK {
			_ = json.Unmarshal(body, &problem)
		}
		switch {
		case code == http.StatusOK:
			return body, nil
		case code == http.StatusMisdirectedRequest && n < misdirected:
			continue
		case code == http.StatusMisdirectedRequest:
			return nil, fmt.Errorf("no answer came from the leader %s in %d attempts", problem.Leader, n+1)
		case code == http.StatusNotFound && problem.Error != "":
			return nil, fmt.Errorf("%s: %w", path, ErrNotFound)
		case problem.Error != "":
			return nil, &answerError{code, problem.Error}
		}
		return nil, fmt.Errorf("answer %d did not come from an agent", code)
	}
}

// short takes the noise out of errors of the API server: what matters is that it is forbidden or missing, and what.
func short(err error) error {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && answer.Status().Message != "" {
		return &apiError{answer}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", attemptTimeout)
	}
	return err
}

// apiError is an answer of the API server told by its message alone.
type apiError struct{ apierrors.APIStatus }

func (e *apiError) Error() string { return e.Status().Message }

// proxied goes through the API server's service proxy.
type proxied struct {
	client    rest.Interface
	namespace string
}

func (p *proxied) way() Way { return Proxy }

func (p *proxied) get(ctx context.Context, path, token string) (int, []byte, error) {
	var code int
	path, query, _ := strings.Cut(path, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, nil, err
	}
	request := p.client.Get().Namespace(p.namespace).Resource("services").Name("https:"+ServiceName+":"+PortName).SubResource("proxy").
		Suffix(path).SetHeader(Header, "Bearer "+token).MaxRetries(0)
	for name := range values {
		request = request.Param(name, values.Get(name))
	}
	body, err := request.Do(ctx).StatusCode(&code).Raw()
	var problem Problem
	if err != nil && json.Unmarshal(body, &problem) == nil && problem.Error != "" {
		// The agent's own answer.
		return code, body, nil
	}
	var said metav1.Status
	if err != nil && json.Unmarshal(body, &said) == nil && said.Message != "" {
		// The API server's: it says more than the error that client-go makes of a proxy's answer.
		return code, body, errors.New(said.Message)
	}
	return code, body, err
}

// pinned speaks TLS to the agent itself, with its published authority.
type pinned struct {
	kind   Way
	url    string
	client *http.Client
}

func newPinned(kind Way, base string, ca []byte) (*pinned, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("the lease's annotation %s holds no certificate", CAAnnotation)
	}
	return &pinned{kind: kind, url: strings.TrimSuffix(base, "/"), client: &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: ServerName},
		DisableKeepAlives: true,
	}}}, nil
}

func (p *pinned) way() Way { return p.kind }

//nolint:gosec // asking the address that the agent published is the point
func (p *pinned) get(ctx context.Context, path, token string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set(Header, "Bearer "+token)
	answer, err := p.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	return answer.StatusCode, body, err
}
