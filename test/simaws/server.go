// Package simaws is an AWS for one machine: a server that speaks the wire
// protocols of EC2, IAM, STS, SSM, SQS, Pricing, EKS, FIS, ARC zonal shift and
// the instance metadata service, so that unmodified AWS SDKs work against it when
// AWS_ENDPOINT_URL (and AWS_EC2_METADATA_SERVICE_ENDPOINT) name it.
//
// The account itself is package cloud; this package parses and answers, strictly:
// unknown actions and parameters are refused as AWS refuses them, and so is what
// the caller's policies do not allow. Credentials may be anything; signatures
// are not checked. Under /_sim/ tests steer the
// account, see package simclient.
package simaws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// Options say what the server offers.
type Options struct {
	// Cloud is the account. The zero value is usable.
	Cloud cloud.Options
	// Kubernetes is how to reach the API server that instances join, with
	// rights to impersonate nodes. Without it nodes do not join; everything
	// else works.
	Kubernetes *rest.Config
	// NodeAnnotations are put on every node; default kwok.x-k8s.io/node=fake,
	// which makes kwok play its kubelet.
	NodeAnnotations map[string]string
	// KubeletVersion that nodes report; default v<KubernetesVersion>.0.
	KubeletVersion string
	// Log; default discards.
	Log *slog.Logger
}

// Server is the simulated AWS. It is an http.Handler.
type Server struct {
	cloud    *cloud.Cloud
	opts     Options
	log      *slog.Logger
	calls    callLog
	faults   faults
	throttle throttle
	requests atomic.Int64
	services map[string]service
	control  http.Handler
}

var _ http.Handler = (*Server)(nil)

// New makes a server with an account of its own.
func New(opts Options) (*Server, error) {
	c, err := cloud.New(opts.Cloud)
	if err != nil {
		return nil, err
	}
	opts.Cloud = c.Options()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.NodeAnnotations == nil {
		opts.NodeAnnotations = map[string]string{"kwok.x-k8s.io/node": "fake"}
	}
	if opts.KubeletVersion == "" {
		opts.KubeletVersion = "v" + opts.Cloud.KubernetesVersion + ".0"
	}
	s := &Server{cloud: c, opts: opts, log: opts.Log}
	s.throttle.clock = opts.Cloud.Clock
	s.services = map[string]service{
		"ec2":              &ec2Service{cloud: c},
		"iam":              &iamService{cloud: c},
		"sts":              &stsService{cloud: c},
		"ssm":              &ssmService{cloud: c},
		"sqs":              &sqsService{cloud: c},
		"pricing":          &pricingService{cloud: c},
		"eks":              &eksService{cloud: c},
		"fis":              &fisService{cloud: c},
		"arc-zonal-shift":  &zonalShiftService{cloud: c},
		"metadata service": &metadataService{cloud: c},
	}
	s.control = s.controlHandler()
	return s, nil
}

// Cloud is the account, for use in-process.
func (s *Server) Cloud() *cloud.Cloud { return s.cloud }

// A call is one request to a service.
type call struct {
	id     string // request id
	host   string // as the client named the server
	method string
	path   string
	// rawPath is the path as written, where names with slashes are escaped.
	rawPath string
	query   url.Values
	header  http.Header
	body    []byte
	form    url.Values // of query-protocol services
	ctx     context.Context
	caller  cloud.Caller
}

// A reply is what a handler answers: a status, a body and its type.
type reply struct {
	status  int
	kind    string
	body    []byte
	headers map[string]string
}

// A service parses and answers the calls of one AWS service.
type service interface {
	// action names the operation of a call, "" when there is none.
	action(*call) string
	// serve answers, with an error for a refusal.
	serve(action string, c *call) (reply, *cloud.Error)
	// refuse words an error in the protocol of the service.
	refuse(c *call, err *cloud.Error) reply
}

// maxBody is more than any request of these services may have.
const maxBody = 1 << 20

// ServeHTTP dispatches on the path for the metadata service and the control
// API, and on the credential scope for everything else.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_sim/") {
		s.control.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(body) > maxBody {
		http.Error(w, "request body too large or unreadable", http.StatusRequestEntityTooLarge)
		return
	}
	c := &call{
		id: fmt.Sprintf("00000000-0000-4000-8000-%012d", s.requests.Add(1)), host: r.Host, method: r.Method, path: r.URL.Path, rawPath: r.URL.EscapedPath(),
		query: r.URL.Query(), header: r.Header, body: body, ctx: r.Context(),
	}
	name, expired := s.identify(c)
	svc := s.services[name]
	if svc == nil {
		http.Error(w, fmt.Sprintf("simaws: no service for this request (credential scope %q, path %s)", name, c.path), http.StatusNotFound)
		return
	}
	s.answer(w, c, name, svc, expired)
}

// answer runs a call through latency, throttling and injected faults.
func (s *Server) answer(w http.ResponseWriter, c *call, name string, svc service, refused *cloud.Error) {
	if !wait(c.ctx, roundTrip) {
		return
	}
	action := svc.action(c)
	entry := Call{Service: name, Action: action, Caller: c.caller.ARN, Params: params(c), At: s.opts.Cloud.Clock.Now().UTC(), RequestID: c.id}
	fault := s.faults.next(name, action)
	if fault != nil && !wait(c.ctx, fault.latency()) {
		return
	}
	var (
		out reply
		err *cloud.Error
	)
	switch {
	case fault.fires() && !fault.After:
		err = fault.err()
	case refused != nil:
		err = refused
	default:
		if err = s.throttle.refuses(name, action, c); err == nil {
			err = s.permitted(svc, action, c)
		}
		if err == nil {
			out, err = svc.serve(action, c)
		}
		if fault.fires() {
			err = fault.err()
		}
	}
	entry.Result = "ok"
	if err != nil {
		entry.Result, entry.Message = err.Code, err.Message
		out = svc.refuse(c, err)
	}
	if fault.fires() && fault.Status != 0 {
		out.status = fault.Status
	}
	entry.Injected = fault.fires()
	s.calls.add(entry)
	s.log.Debug("call", "service", name, "action", action, "result", entry.Result)
	if fault.fires() && fault.Drop {
		panic(http.ErrAbortHandler) // the documented way to cut the connection
	}
	out.write(w, c)
}

// roundTrip is the least time a call takes. The SDK closes a request's body as
// soon as the response begins; when that is before net/http has finished with
// the body, which no AWS is near enough to achieve, it cuts the connection.
const roundTrip = 2 * time.Millisecond

// wait waits in real time; false when the client has gone.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r reply) write(w http.ResponseWriter, c *call) {
	for k, v := range r.headers {
		w.Header().Set(k, v)
	}
	if r.kind != "" {
		w.Header().Set("Content-Type", r.kind)
	}
	w.Header().Set("X-Amzn-RequestId", c.id)
	w.Header().Set("Content-Length", strconv.Itoa(len(r.body)))
	if r.status == 0 {
		r.status = http.StatusOK
	}
	w.WriteHeader(r.status)
	if c.method != http.MethodHead {
		_, err := io.Copy(w, bytes.NewReader(r.body))
		if err != nil {
			return // the client is gone
		}
	}
}

// values parses the form once.
func (c *call) values() (url.Values, error) {
	if c.form != nil {
		return c.form, nil
	}
	if c.method != http.MethodPost {
		c.form = c.query
		return c.form, nil
	}
	form, err := url.ParseQuery(string(c.body))
	if err != nil {
		return nil, fmt.Errorf("parsing the form: %w", err)
	}
	c.form = form
	return form, nil
}

// Run starts and stops the kubelets of instances until ctx ends. Without
// Options.Kubernetes it only decodes user data, so that a boot that would fail
// is seen to fail.
func (s *Server) Run(ctx context.Context) error {
	r, err := s.newRunner()
	if err != nil {
		return err
	}
	tick := time.NewTicker(bootTick)
	defer tick.Stop()
	defer r.wait()
	for {
		r.step(ctx)
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil
			}
			return fmt.Errorf("running instances: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// bootTick is how often the account is asked for boots that are due.
const bootTick = 100 * time.Millisecond
