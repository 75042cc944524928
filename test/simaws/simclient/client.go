// Package simclient steers a simulated AWS through its control API.
//
// Every method is one request; errors carry the server's words.
package simclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws"
	"github.com/karp-sh/karp/test/simaws/cloud"
	"github.com/karp-sh/karp/test/simaws/policy"
)

// Client talks to one server.
type Client struct {
	base string
	http *http.Client
}

// New makes a client of the server at a URL, e.g. http://127.0.0.1:4566.
func New(endpoint string, c *http.Client) *Client {
	if c == nil {
		c = http.DefaultClient
	}
	return &Client{base: strings.TrimSuffix(endpoint, "/") + "/_sim/", http: c}
}

func (c *Client) do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("steering simaws: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("steering simaws: %w", err)
	}
	raw, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("steering simaws: %w", err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("steering simaws: %s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(raw))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("decoding the answer of simaws: %w", err)
	}
	return nil
}

func (c *Client) post(ctx context.Context, path string, in, out any) error {
	return c.do(ctx, http.MethodPost, path, in, out)
}

func (c *Client) get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// Healthy reports nil when the server answers.
func (c *Client) Healthy(ctx context.Context) error { return c.get(ctx, "healthz", nil) }

// Instances lists all instances with how far they have booted.
func (c *Client) Instances(ctx context.Context) (out []simaws.InstanceInfo, err error) {
	err = c.get(ctx, "instances", &out)
	return out, err
}

// Subnets lists the subnets.
func (c *Client) Subnets(ctx context.Context) (out []simaws.SubnetInfo, err error) {
	err = c.get(ctx, "subnets", &out)
	return out, err
}

// Calls lists the calls after a sequence number; service and action select
// unless empty.
func (c *Client) Calls(ctx context.Context, after int, service, action string) (out []simaws.Call, err error) {
	q := url.Values{"after": {strconv.Itoa(after)}, "service": {service}, "action": {action}}
	err = c.get(ctx, "calls?"+q.Encode(), &out)
	return out, err
}

// Change changes settings.
func (c *Client) Change(ctx context.Context, s simaws.Settings) error {
	return c.post(ctx, "settings", s, nil)
}

// TakeCapacity takes capacity away.
func (c *Client) TakeCapacity(ctx context.Context, rule cloud.CapacityRule) error {
	return c.post(ctx, "capacity", rule, nil)
}

// GiveCapacity gives capacity back, all of it for three empty patterns.
func (c *Client) GiveCapacity(ctx context.Context, typ, zone, capacityType string) error {
	return c.post(ctx, "capacity/give", cloud.CapacityRule{Type: typ, Zone: zone, CapacityType: capacityType}, nil)
}

// InjectFault makes calls fail and returns the fault's id.
func (c *Client) InjectFault(ctx context.Context, f simaws.Fault) (id int, err error) {
	err = c.post(ctx, "faults", f, &id)
	return id, err
}

// ClearFaults removes one fault, or all for 0.
func (c *Client) ClearFaults(ctx context.Context, id int) error {
	return c.post(ctx, "faults/clear", map[string]int{"id": id}, nil)
}

// MovePrice moves a price.
func (c *Client) MovePrice(ctx context.Context, m simaws.PriceMove) error {
	return c.post(ctx, "prices", m, nil)
}

// Terminate ends an instance behind EC2's back.
func (c *Client) Terminate(ctx context.Context, id, reason string) error {
	return c.post(ctx, "instances/"+id+"/terminate", simaws.InstanceAct{Reason: reason}, nil)
}

// Interrupt warns a spot instance and reclaims it after the notice.
func (c *Client) Interrupt(ctx context.Context, id string, rebalance bool) error {
	return c.post(ctx, "instances/"+id+"/interrupt", simaws.InstanceAct{Rebalance: rebalance}, nil)
}

// Hide makes an instance invisible for a while.
func (c *Client) Hide(ctx context.Context, id string, d time.Duration) error {
	return c.post(ctx, "instances/"+id+"/hide", simaws.InstanceAct{For: simaws.Duration(d)}, nil)
}

// Impair sets what is wrong with an instance; nil heals it.
func (c *Client) Impair(ctx context.Context, id string, what *cloud.Impairment) error {
	return c.post(ctx, "instances/"+id+"/impair", simaws.InstanceAct{Impair: what}, nil)
}

// SetFreeAddresses leaves a subnet with n free addresses.
func (c *Client) SetFreeAddresses(ctx context.Context, subnet string, n int) error {
	return c.post(ctx, "subnets/"+subnet+"/free", map[string]int{"free": n}, nil)
}

// Send puts a message on a queue.
func (c *Client) Send(ctx context.Context, queue, body string) error {
	return c.post(ctx, "queue/"+queue, map[string]string{"body": body}, nil)
}

// Role makes a role exist, or not.
func (c *Client) Role(ctx context.Context, name string, exists bool) error {
	return c.post(ctx, "roles/"+name, map[string]bool{"gone": !exists}, nil)
}

// Give sets the policies a role has, by name; with none it may do everything.
func (c *Client) Give(ctx context.Context, role string, documents map[string]json.RawMessage) error {
	p := simaws.Policies(documents)
	return c.post(ctx, "roles/"+role+"/policies", simaws.RolePolicies{Allow: &p}, nil)
}

// ActAs makes the calls of an access key those of a role.
func (c *Client) ActAs(ctx context.Context, accessKey, role string) error {
	return c.post(ctx, "callers", map[string]string{"key": accessKey, "role": role}, nil)
}

// Ledger reports what a role used, was denied, and was granted in vain; the
// role "" stands for callers without a role.
func (c *Client) Ledger(ctx context.Context, role string) (out policy.Report, err error) {
	err = c.get(ctx, "ledger?"+url.Values{"role": {role}}.Encode(), &out)
	return out, err
}

// ResetLedger forgets what was used and denied.
func (c *Client) ResetLedger(ctx context.Context) error {
	return c.post(ctx, "ledger/reset", struct{}{}, nil)
}

// SetBuckets sets token buckets of request throttling.
func (c *Client) SetBuckets(ctx context.Context, buckets ...simaws.Bucket) error {
	return c.post(ctx, "buckets", buckets, nil)
}

// Reclaim takes instances of an interruptible reservation back.
func (c *Client) Reclaim(ctx context.Context, reservation string, count int) error {
	return c.post(ctx, "reservations/"+reservation+"/reclaim", map[string]int{"count": count}, nil)
}
