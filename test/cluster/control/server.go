package control

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
)

// Supervisor is what the HTTP interface drives.
type Supervisor interface {
	// Status returns the state of the sandbox, without its token.
	Status() *Sandbox
	// Do performs a verb on a component. It wraps ErrUnknown for a component that the sandbox does not have.
	Do(ctx context.Context, verb Verb, component string) (Component, error)
	// Shutdown starts to end the sandbox and does not wait.
	Shutdown()
}

// ErrUnknown says that the sandbox has no such component, or that there is no such verb.
var ErrUnknown = errors.New("unknown")

// Handler serves s to those who know the token.
func Handler(s Supervisor, token string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.Status()) })
	mux.HandleFunc("POST /shutdown", func(w http.ResponseWriter, _ *http.Request) {
		// The answer has to be complete before the shutdown closes the connection.
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusAccepted)
		_ = http.NewResponseController(w).Flush() // a client that went away needs no answer
		s.Shutdown()
	})
	mux.HandleFunc("POST /components/{name}/{verb}", func(w http.ResponseWriter, r *http.Request) {
		verb := Verb(r.PathValue("verb"))
		if !slices.Contains(Verbs(), verb) {
			http.Error(w, "no such verb: "+string(verb), http.StatusNotFound)
			return
		}
		c, err := s.Do(r.Context(), verb, r.PathValue("name"))
		switch {
		case errors.Is(err, ErrUnknown):
			http.Error(w, err.Error(), http.StatusNotFound)
		case err != nil:
			http.Error(w, err.Error(), http.StatusConflict)
		default:
			answer(w, c)
		}
	})
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "the token of state.json is needed", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// The status is sent by now; a client that went away needs no error.
	_ = json.NewEncoder(w).Encode(v)
}
