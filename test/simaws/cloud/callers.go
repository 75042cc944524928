package cloud

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/policy"
)

// Caller is who makes a call.
type Caller struct {
	ARN, UserID string
	Role        string // name; empty for a user who may do everything
}

// A session is what an access key stands for.
type session struct {
	role, name string
	expires    time.Time // zero: never
}

// Credentials are what STS gives for a role.
type Credentials struct {
	Key     string
	Expires time.Time
	Caller  Caller
}

// AssumeRole makes credentials for a role. A role nobody has heard of yet is
// made, unrestricted; one that was removed is refused.
func (c *Cloud) AssumeRole(arn, name string, life time.Duration, action string) (Credentials, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	role := arn[strings.LastIndex(arn, "/")+1:]
	if c.gone[role] {
		return Credentials{}, fail("AccessDenied", "Not authorized to perform sts:%s", action)
	}
	if c.roles[role] == nil {
		c.addRole(role, now)
	}
	c.counters["session"]++
	key := "ASIA" + strings.ToUpper(digest("session", role, name, strconv.Itoa(c.counters["session"]))[:16])
	c.sessions[key] = session{role, name, now.Add(life)}
	return Credentials{Key: key, Expires: now.Add(life), Caller: c.sessionCaller(c.sessions[key])}, nil
}

// ActAs makes every call with an access key that of a role.
func (c *Cloud) ActAs(accessKey, role string) {
	now := c.lock()
	defer c.mu.Unlock()
	if c.roles[role] == nil {
		c.addRole(role, now)
	}
	c.sessions[accessKey] = session{role: role, name: accessKey}
}

// Caller tells who an access key belongs to: the session of a role, or a user
// who may do everything. An expired session is refused.
func (c *Cloud) Caller(accessKey string) (Caller, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	s, ok := c.sessions[accessKey]
	if !ok {
		return Caller{ARN: c.arn("iam", "user/simaws"), UserID: "AIDASIMAWS"}, nil
	}
	if !s.expires.IsZero() && !s.expires.After(now) {
		return Caller{}, fail("RequestExpired", "Request has expired.")
	}
	return c.sessionCaller(s), nil
}

func (c *Cloud) sessionCaller(s session) Caller {
	id := "AROASIMAWS"
	if r := c.roles[s.role]; r != nil {
		id = r.ID
	}
	return Caller{ARN: c.arn("sts", "assumed-role/"+s.role+"/"+s.name), UserID: id + ":" + s.name, Role: s.role}
}

// Demand is a permission a call needs.
type Demand struct {
	Action   string // ec2:RunInstances
	Resource string // ARN or *
	Keys     map[string][]string
	// Through is the service that asks, default the action's own: EC2 words
	// the denial of an iam:PassRole it asks for itself.
	Through string
}

// Authorize refuses a call unless all demands are allowed.
func (c *Cloud) Authorize(caller Caller, demands ...Demand) *Error {
	c.lock()
	defer c.mu.Unlock()
	return c.authorize(caller, demands)
}

func (c *Cloud) authorize(caller Caller, demands []Demand) *Error {
	for _, d := range demands {
		if err := c.permit(caller, d); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cloud) permit(caller Caller, d Demand) *Error {
	r := &policy.Request{Principal: caller.ARN, Action: d.Action, Resource: d.Resource, Context: c.conditionKeys(caller, d)}
	if caller.Role == "" {
		c.ledger.Record(r, policy.Decision{Allowed: true})
		return nil
	}
	role := c.roles[caller.Role]
	if role == nil { // removed since
		return c.refuse(caller, d, policy.Decision{Kind: policy.IdentityPolicy})
	}
	decision := c.policySet(role).Decide(r)
	role.ledger.Record(r, decision)
	if decision.Allowed {
		return nil
	}
	return c.refuse(caller, d, decision)
}

// conditionKeys are the demand's keys and those every request has.
func (c *Cloud) conditionKeys(caller Caller, d Demand) map[string][]string {
	out := map[string][]string{
		"aws:RequestedRegion": {c.opts.Region}, "aws:PrincipalArn": {caller.ARN}, "aws:PrincipalAccount": {c.opts.AccountID},
		"aws:PrincipalType": {"AssumedRole"}, "aws:userid": {caller.UserID}, "aws:SecureTransport": {"true"},
		"aws:CurrentTime": {c.opts.Clock.Now().UTC().Format(time.RFC3339)},
	}
	if strings.HasPrefix(d.Action, "ec2:") {
		out["ec2:Region"] = []string{c.opts.Region}
	}
	for k, v := range d.Keys {
		out[k] = v
	}
	return out
}

// refuse words a denial: EC2 says it encoded, the others in the clear.
func (c *Cloud) refuse(caller Caller, d Demand, decision policy.Decision) *Error {
	because := fmt.Sprintf("because no %s allows the %s action", decision.Kind, d.Action)
	if decision.Explicit {
		article := "a"
		if decision.Kind == policy.IdentityPolicy {
			article = "an"
		}
		because = fmt.Sprintf("with an explicit deny in %s %s", article, decision.Kind)
	}
	text := fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s %s", caller.ARN, d.Action, d.Resource, because)
	service, _, _ := strings.Cut(d.Action, ":")
	orElse(&d.Through, service)
	switch service = d.Through; {
	case service == "ec2":
		return fail("UnauthorizedOperation", "You are not authorized to perform this operation. %s. Encoded authorization failure message: %s",
			text, c.encode(caller, d, decision))
	case slices.Contains([]string{"iam", "sts", "sqs"}, service):
		return fail("AccessDenied", "%s", text)
	}
	return fail("AccessDeniedException", "%s", text)
}

// encode packs a denial so that DecodeAuthorizationMessage can tell it.
func (c *Cloud) encode(caller Caller, d Demand, decision policy.Decision) string {
	matched := []map[string]string{}
	for _, g := range decision.Because {
		matched = append(matched, map[string]string{"statementId": g.SID, "policy": g.Policy, "effect": "DENY"})
	}
	body, err := json.Marshal(map[string]any{
		"allowed": false, "explicitDeny": decision.Explicit, "matchedStatements": map[string]any{"items": matched},
		"context": map[string]any{
			"principal": map[string]string{"id": caller.UserID, "arn": caller.ARN}, "action": d.Action, "resource": d.Resource, "conditions": d.Keys,
		},
	})
	if err != nil {
		return "" // strings always encode
	}
	return encodedPrefix + base64.RawURLEncoding.EncodeToString(body)
}

const encodedPrefix = "simaws-"

// Decode is DecodeAuthorizationMessage.
func (c *Cloud) Decode(message string) (string, *Error) {
	text, ok := strings.CutPrefix(message, encodedPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil {
		return "", fail("InvalidAuthorizationMessageException", "Invalid encoded authorization message")
	}
	return string(raw), nil
}
