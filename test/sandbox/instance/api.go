package instance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/karp-sh/karp/test/sandbox/pki"
)

// apiClient makes the few requests by which the supervisor itself uses an HTTP endpoint of the sandbox.
type apiClient struct {
	base string
	http *http.Client
}

func newAPIClient(base string, ca []byte, pair pki.Pair) (*apiClient, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading client certificate: %w", err)
	}
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	// Every request has its own connection: a request on a kept one that the server of before has left fails once.
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	return &apiClient{base: base, http: &http.Client{Transport: transport, Timeout: 10 * time.Second}}, nil
}

// check returns nil if GET path answers with 200.
func (a *apiClient) check(path string) func(context.Context) error {
	return func(ctx context.Context) error { return a.do(ctx, http.MethodGet, path, "", nil) }
}

// apply makes the object at path what body says, by server-side apply.
func (a *apiClient) apply(ctx context.Context, path string, body []byte) error {
	return a.do(ctx, http.MethodPatch, path+"?fieldManager=karp-sandbox&force=true", "application/apply-patch+yaml", body)
}

func (a *apiClient) do(ctx context.Context, method, path, contentType string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(answer))
	}
	return nil
}

//go:embed objects.json
var objects []byte

// applyObjects creates what the sandbox itself needs in the cluster: the roles of kwok and simaws, and the kube-dns Service
// from which node bootstrapping takes the address of the DNS.
func (a *apiClient) applyObjects(ctx context.Context) error {
	var list []struct {
		Path   string          `json:"path"`
		Object json.RawMessage `json:"object"`
	}
	if err := json.Unmarshal(objects, &list); err != nil {
		return fmt.Errorf("reading objects.json: %w", err)
	}
	for _, o := range list {
		if err := a.apply(ctx, o.Path, o.Object); err != nil {
			return fmt.Errorf("applying an object of the sandbox: %w", err)
		}
	}
	return nil
}
