package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Client speaks to the supervisor of one sandbox.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// Open returns a client for the sandbox in dir. It does not connect.
func Open(dir string) (*Client, error) {
	s, err := Load(dir)
	if err != nil {
		return nil, err
	}
	return NewClient(s), nil
}

// NewClient returns a client for a sandbox whose state file was read.
func NewClient(s *Sandbox) *Client {
	return &Client{base: s.Control, token: s.Token, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// Status asks for the state of the sandbox now.
func (c *Client) Status(ctx context.Context) (*Sandbox, error) {
	s := &Sandbox{}
	if err := c.call(ctx, http.MethodGet, "/status", s); err != nil {
		return nil, fmt.Errorf("reading status: %w", err)
	}
	return s, nil
}

// Do asks for verb on a component and returns when it is done.
func (c *Client) Do(ctx context.Context, verb Verb, component string) (Component, error) {
	out := Component{}
	path := "/components/" + url.PathEscape(component) + "/" + string(verb)
	if err := c.call(ctx, http.MethodPost, path, &out); err != nil {
		return Component{}, fmt.Errorf("%s %s: %w", verb, component, err)
	}
	return out, nil
}

// Shutdown asks the supervisor to end. It returns when the supervisor has agreed, which is before its folder is gone.
func (c *Client) Shutdown(ctx context.Context) error {
	if err := c.call(ctx, http.MethodPost, "/shutdown", nil); err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	return nil
}

func (c *Client) call(ctx context.Context, method, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return &Refusal{Status: resp.StatusCode, Message: strings.TrimSpace(string(body))}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(body, out)
}

// Refusal is an answer of the supervisor that is not success.
type Refusal struct {
	Status  int // HTTP status
	Message string
}

func (r *Refusal) Error() string { return r.Message }
