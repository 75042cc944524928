package status

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/time/rate"
)

// Limits of the endpoint.
const (
	requestsPerSecond = 5
	requestsAtOnce    = 10
	// maxAnswer is the size of the largest body, in bytes.
	maxAnswer = 20 << 20
	// readTimeout bounds the reading of a request, answerTimeout the making of an answer.
	readTimeout   = 10 * time.Second
	answerTimeout = 10 * time.Second
)

// ErrNotFound is returned by a source for an object that it does not know.
var ErrNotFound = errors.New("not found")

// InfoSource describes the agent. The server fills in Meta.Leader.
type InfoSource interface {
	StatusInfo(ctx context.Context) (Info, error)
}

// PodVerdicts knows the last decision on a pod; the error wraps ErrNotFound if there was none. The server fills in Meta.Leader.
type PodVerdicts interface {
	PodVerdict(ctx context.Context, namespace, name string) (PodVerdict, error)
}

// OfferingSource knows what can be bought, for one NodePool or, with an empty name, for all; the error wraps ErrNotFound if there is no such
// pool. The server fills in Meta.Leader.
type OfferingSource interface {
	Offerings(ctx context.Context, nodePool string) (Offerings, error)
}

// Leadership tells whether this process leads, and else who does, as far as it knows.
type Leadership interface {
	Leading() (leads bool, leader string)
}

// Server is the status endpoint.
type Server struct {
	// Info, Pods and Offerings answer; a nil one makes its path 404.
	Info      InfoSource
	Pods      PodVerdicts
	Offerings OfferingSource
	// Leadership decides who answers.
	Leadership Leadership
	// Access decides who may ask.
	Access *Access
	// Authority issues the serving certificate.
	Authority *Authority
	Log       *slog.Logger
}

// Handler returns the endpoint without TLS.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	if s.Info != nil {
		mux.HandleFunc("GET "+Prefix+"/info", s.answer(func(r *http.Request, leader string) (any, error) {
			out, err := s.Info.StatusInfo(r.Context())
			out.Leader = leader
			return out, err
		}))
	}
	if s.Pods != nil {
		mux.HandleFunc("GET "+Prefix+"/pods/{namespace}/{name}", s.answer(func(r *http.Request, leader string) (any, error) {
			out, err := s.Pods.PodVerdict(r.Context(), r.PathValue("namespace"), r.PathValue("name"))
			out.Leader = leader
			return out, err
		}))
	}
	if s.Offerings != nil {
		mux.HandleFunc("GET "+Prefix+"/offerings", s.answer(func(r *http.Request, leader string) (any, error) {
			out, err := s.Offerings.Offerings(r.Context(), r.URL.Query().Get("nodepool"))
			out.Leader = leader
			return out, err
		}))
	}
	limit := rate.NewLimiter(requestsPerSecond, requestsAtOnce)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		switch {
		case r.Header.Get(Header) == "":
			// Costs nothing, so it needs no limit.
			fail(w, http.StatusUnauthorized, Problem{Error: "header " + Header + " with a token for audience " + Audience + " is required"})
		case !limit.Allow():
			w.Header().Set("Retry-After", "1")
			fail(w, http.StatusTooManyRequests, Problem{Error: "too many requests; ask again in a second"})
		case s.admit(w, r):
			mux.ServeHTTP(w, r)
		}
	})
}

// admit checks who asks, what for, and whether this process answers. It has answered itself if it returns false.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) bool {
	code, err := s.Access.Check(r.Context(), r)
	switch {
	case err != nil:
		s.Log.Error("checking a request to the status endpoint", "error", err)
		fail(w, http.StatusServiceUnavailable, Problem{Error: "the API server could not be asked whether you may read this; try again"})
		return false
	case code == http.StatusUnauthorized:
		fail(w, code, Problem{Error: "the token is not valid for audience " + Audience})
		return false
	case code != http.StatusOK:
		fail(w, code, Problem{Error: "the token's owner may not get " + r.URL.Path + "; bind it to the ClusterRole karp-reader"})
		return false
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		fail(w, http.StatusMethodNotAllowed, Problem{Error: "the endpoint is read-only"})
		return false
	}
	if leads, leader := s.Leadership.Leading(); !leads {
		fail(w, http.StatusMisdirectedRequest, Problem{Error: "this agent does not lead; ask " + leader, Leader: leader})
		return false
	}
	return true
}

// answer turns a source into a handler.
func (s *Server) answer(source func(r *http.Request, leader string) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, leader := s.Leadership.Leading()
		out, err := source(r, leader)
		if errors.Is(err, ErrNotFound) {
			fail(w, http.StatusNotFound, Problem{Error: err.Error()})
			return
		}
		var body []byte
		if err == nil {
			body, err = json.Marshal(out)
		}
		if err == nil && len(body) > maxAnswer {
			err = fmt.Errorf("answer has %d bytes, more than %d", len(body), maxAnswer)
		}
		if err != nil {
			s.Log.Error("answering at the status endpoint", "path", r.URL.Path, "error", err)
			fail(w, http.StatusInternalServerError, Problem{Error: "the answer could not be made; the agent's log says why"})
			return
		}
		sum := sha256.Sum256(body)
		tag := `"` + hex.EncodeToString(sum[:8]) + `"`
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}
}

func fail(w http.ResponseWriter, code int, p Problem) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(p)
}

// Serve serves TLS on the listener until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadTimeout: readTimeout, WriteTimeout: readTimeout + answerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		// An empty map keeps HTTP/2 off.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		TLSConfig:    &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.Authority.Certificate, NextProtos: []string{"http/1.1"}},
		ErrorLog:     slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		<-ctx.Done()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		done <- server.Shutdown(closing)
	}()
	if err := server.ServeTLS(l, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving status: %w", err)
	}
	return <-done
}
