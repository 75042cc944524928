// Package cloud is the simulated AWS account: instances, launch templates,
// fleets, subnets, images, roles, queues and prices, in memory.
//
// It knows nothing of wires: package simaws puts the AWS protocols in front of
// it, and tests may use it in-process. Every method is one API call or one act
// of the test's hand; all are safe for concurrent use. Time comes from the
// clock given, and the passage of time takes effect when the cloud is next
// looked at: each method first makes the transitions that are due. The same
// calls at the same times give the same state, ids included.
package cloud

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/karp-sh/karp/pkg/catalog/ec2data"
	"github.com/karp-sh/karp/test/simaws/policy"
)

// Clock tells the time.
type Clock interface{ Now() time.Time }

// Options say what the account looks like. The zero value is usable.
type Options struct {
	Region    string   // default us-east-1
	AccountID string   // default 123456789012
	Zones     []string // suffixes of the zones with a subnet; default all of the region
	// LocalZones with a subnet beside them, e.g. us-west-2-lax-1a.
	LocalZones []string

	ClusterName          string // default "karp"
	KubernetesVersion    string // default 1.37
	OlderVersions        int    // of how many older minors there are images too; default 1, -1 for none
	ClusterEndpoint      string // of the API server; default https://cluster.invalid
	CertificateAuthority string // base64 PEM
	ServiceCIDR          string // default 10.96.0.0/12; an IPv6 block makes a cluster of IPv6
	Queue                string // name of the interruption queue; default the cluster's name
	Roles                []string
	Callers              map[string]string // role by access key; other keys belong to a user who may do everything

	PendingDelay       time.Duration // pending -> running
	StatusDelay        time.Duration // running -> status checks are made
	TemplateDelay      time.Duration // launch template made -> visible to other calls
	BootDelay          time.Duration // running -> kubelet starts
	ShutdownDelay      time.Duration // shutting-down -> terminated
	DescribeDelay      time.Duration // launched -> visible to other calls
	ProfileDelay       time.Duration // instance profile made -> visible to EC2
	DevicePluginDelay  time.Duration // node joined -> its GPUs appear
	InterruptionNotice time.Duration // spot warning -> reclaim; default 2 min

	OnDemandVCPUQuota int // vCPUs that may run on demand, of each of EC2's kinds of quotas; 0 = no limit
	SpotVCPUQuota     int // vCPUs that may run as spot, likewise

	Clock Clock // default the wall clock
}

type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

func orElse[T comparable](p *T, def T) {
	if zero := *new(T); *p == zero {
		*p = def
	}
}

func (o *Options) complete() {
	orElse(&o.Region, "us-east-1")
	orElse(&o.AccountID, "123456789012")
	orElse(&o.ClusterName, "karp")
	orElse(&o.KubernetesVersion, "1.37")
	orElse(&o.ClusterEndpoint, "https://cluster.invalid")
	orElse(&o.ServiceCIDR, "10.96.0.0/12")
	orElse(&o.Queue, o.ClusterName)
	orElse(&o.InterruptionNotice, 2*time.Minute)
	orElse(&o.OlderVersions, 1)
	if o.Roles == nil {
		o.Roles = []string{"KarpenterNodeRole-" + o.ClusterName}
	}
	if o.Clock == nil {
		o.Clock = wallClock{}
	}
}

// Cloud is one account in one region.
type Cloud struct {
	mu   sync.Mutex
	opts Options
	data *ec2data.Data
	area *ec2data.Region

	counters map[string]int

	zones     []Zone
	vpcTags   Tags
	subnets   []*Subnet
	groups    []*SecurityGroup
	images    []*Image
	oldImages []*Image             // deregistered
	templates map[string]*Template // by id
	instances map[string]*Instance
	fleets    map[string]*Fleet

	reservations map[string]*CapacityReservation
	placements   map[string]*PlacementGroup

	roles        map[string]*Role
	gone         map[string]bool // roles that were removed
	policies     map[string]*ManagedPolicy
	organization []policy.Named
	sessions     map[string]session // by access key
	access       map[string]*AccessEntry
	experiments  map[string]*Experiment
	plans        map[string]*ExperimentTemplate
	ledger       policy.Ledger // of callers without a role

	profiles map[string]*Profile
	queues   map[string]*queue
	params   map[string]*Parameter
	releases int // by the test's hand

	capacity []*CapacityRule
	onDemand map[string]int64    // moved on-demand prices by type
	spot     map[[2]string]int64 // moved spot prices by type and zone
	answers  map[string]answer   // idempotency tokens

	shifts   []ZonalShift
	statuses map[string]*Impairment
	wake     time.Time // when settle has something to do next
	boots    []string  // instances whose kubelet is due to start
	stops    []string  // instances whose kubelet is due to stop
}

// New makes an account with a VPC, one subnet per zone, two security groups,
// the EKS images of the cluster's version and a queue. Subnets and the node
// security group carry the tag karpenter.sh/discovery=<cluster>.
func New(opts Options) (*Cloud, error) {
	opts.complete()
	data, err := ec2data.Load()
	if err != nil {
		return nil, fmt.Errorf("making the simulated account: %w", err)
	}
	area, ok := data.Region(opts.Region)
	if !ok {
		return nil, fmt.Errorf("making the simulated account: region %q has no offerings; choose one of the EC2 data set, e.g. us-east-1", opts.Region)
	}
	c := &Cloud{
		opts: opts, data: data, area: area,
		counters: map[string]int{}, templates: map[string]*Template{}, instances: map[string]*Instance{},
		fleets: map[string]*Fleet{}, reservations: map[string]*CapacityReservation{}, placements: map[string]*PlacementGroup{},
		roles: map[string]*Role{}, gone: map[string]bool{}, policies: map[string]*ManagedPolicy{}, sessions: map[string]session{},
		access: map[string]*AccessEntry{}, experiments: map[string]*Experiment{}, plans: map[string]*ExperimentTemplate{},
		profiles: map[string]*Profile{},
		queues:   map[string]*queue{}, params: map[string]*Parameter{},
		onDemand: map[string]int64{}, spot: map[[2]string]int64{}, answers: map[string]answer{},
		statuses: map[string]*Impairment{},
	}
	for _, r := range opts.Roles {
		c.addRole(r, opts.Clock.Now().UTC())
	}
	for key, role := range opts.Callers {
		if c.roles[role] == nil {
			c.addRole(role, opts.Clock.Now().UTC())
		}
		c.sessions[key] = session{role: role, name: key}
	}
	c.queues[opts.Queue] = &queue{retention: queueRetention, createdAt: opts.Clock.Now().UTC()}
	if err := c.layNetwork(); err != nil {
		return nil, fmt.Errorf("making the simulated account: %w", err)
	}
	c.publishImages()
	return c, nil
}

// Options returns the options with defaults filled in.
func (c *Cloud) Options() Options {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opts
}

// Configure changes delays, quotas and the cluster's endpoint and CA of a
// running account; identity (region, account, cluster name, zones) stays.
func (c *Cloud) Configure(change func(*Options)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.opts
	change(&o)
	o.Region, o.AccountID, o.ClusterName, o.Zones, o.Clock = c.opts.Region, c.opts.AccountID, c.opts.ClusterName, c.opts.Zones, c.opts.Clock
	c.opts = o
}

// Data returns the EC2 facts the account is built on.
func (c *Cloud) Data() *ec2data.Data { return c.data }

// Area returns zones and offerings of the account's region.
func (c *Cloud) Area() *ec2data.Region { return c.area }

// lock takes the lock and makes the transitions that are due.
func (c *Cloud) lock() time.Time {
	c.mu.Lock()
	now := c.opts.Clock.Now().UTC()
	c.settle(now)
	return now
}

// id makes the next id of a kind, e.g. i-0f3c....
func (c *Cloud) id(prefix string) string {
	c.counters[prefix]++
	return prefix + "-0" + digest(c.opts.AccountID, c.opts.Region, prefix, fmt.Sprint(c.counters[prefix]))[:16]
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// arn makes an ARN of this account.
func (c *Cloud) arn(service, resource string) string {
	region := c.opts.Region
	if service == "iam" || service == "sts" {
		region = ""
	}
	account := c.opts.AccountID
	if service == "ec2" && (strings.HasPrefix(resource, "image/") || strings.HasPrefix(resource, "snapshot/")) {
		account = ""
	}
	return fmt.Sprintf("arn:%s:%s:%s:%s:%s", c.partition(), service, region, account, resource)
}

// partition is the one the region belongs to.
func (c *Cloud) partition() string {
	switch {
	case strings.HasPrefix(c.opts.Region, "cn-"):
		return "aws-cn"
	case strings.HasPrefix(c.opts.Region, "us-gov-"):
		return "aws-us-gov"
	}
	return "aws"
}

// ARN makes an ARN of this account, e.g. ARN("eks", "cluster/karp").
func (c *Cloud) ARN(service, resource string) string { return c.arn(service, resource) }

// An Error is a refusal as an AWS service words it.
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

func fail(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// answer is what a client token was answered.
type answer struct {
	params string
	value  any
}

// once answers a repeated client token as it was answered before. An empty
// token is never remembered. Failures are not remembered either: EC2 lets the
// client try again with the same token.
func once[T any](c *Cloud, action, token, params string, do func() (T, *Error)) (T, *Error) {
	if token == "" {
		return do()
	}
	key := action + " " + token
	if old, ok := c.answers[key]; ok {
		if old.params != params {
			var zero T
			return zero, fail("IdempotentParameterMismatch", "The client token %s was used before with other parameters.", token)
		}
		return old.value.(T), nil
	}
	v, err := do()
	if err == nil {
		c.answers[key] = answer{params: params, value: v}
	}
	return v, err
}

// Tags are the tags of a resource.
type Tags map[string]string

// Sorted returns key-value pairs by key.
func (t Tags) Sorted() [][2]string {
	out := make([][2]string, 0, len(t))
	for _, k := range slices.Sorted(maps.Keys(t)) {
		out = append(out, [2]string{k, t[k]})
	}
	return out
}

// Filter is a filter of a describe call: any of the values, with the
// wildcards * and ?.
type Filter struct {
	Name   string
	Values []string
}

// Matches tells whether a property with these values passes the filter.
func (f Filter) Matches(have ...string) bool {
	for _, pattern := range f.Values {
		for _, h := range have {
			if Glob(pattern, h) {
				return true
			}
		}
	}
	return false
}

// Glob matches EC2's wildcards: * any run, ? any character, \ escapes.
func Glob(pattern, s string) bool {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*':
			for j := len(s); j >= 0; j-- {
				if Glob(pattern[i+1:], s[j:]) {
					return true
				}
			}
			return false
		case '?':
			if s == "" {
				return false
			}
			s = s[1:]
			continue
		case '\\':
			if i+1 < len(pattern) {
				i++
			}
		}
		if s == "" || s[0] != pattern[i] {
			return false
		}
		s = s[1:]
	}
	return s == ""
}

// property returns the values of a filterable property, false if there is no
// such filter.
type property func(name string) ([]string, bool)

// pass applies filters to one resource; tags are handled here for all kinds.
func pass(filters []Filter, tags Tags, prop property) (bool, *Error) {
	for _, f := range filters {
		var have []string
		switch {
		case f.Name == "tag-key":
			have = slices.Collect(maps.Keys(tags))
		case len(f.Name) > 4 && f.Name[:4] == "tag:":
			if v, ok := tags[f.Name[4:]]; ok {
				have = []string{v}
			}
		default:
			var ok bool
			if have, ok = prop(f.Name); !ok {
				return false, fail("InvalidParameterValue", "The filter '%s' is invalid", f.Name)
			}
		}
		if !f.Matches(have...) {
			return false, nil
		}
	}
	return true, nil
}

// check refuses unknown filters even when there is nothing to filter.
func check(filters []Filter, prop property) *Error {
	_, err := pass(filters, nil, prop)
	if err != nil {
		return err
	}
	for _, f := range filters {
		if len(f.Values) == 0 {
			return fail("InvalidParameterValue", "The filter '%s' has no values", f.Name)
		}
		if f.Name == "tag-key" || len(f.Name) > 4 && f.Name[:4] == "tag:" {
			continue
		}
		if _, ok := prop(f.Name); !ok {
			return fail("InvalidParameterValue", "The filter '%s' is invalid", f.Name)
		}
	}
	return nil
}

// Pass applies filters to one resource with these tags and properties.
func Pass(filters []Filter, tags Tags, properties map[string]string) (bool, *Error) {
	prop := func(name string) ([]string, bool) {
		v, ok := properties[name]
		return []string{v}, ok
	}
	if err := check(filters, prop); err != nil {
		return false, err
	}
	return pass(filters, tags, prop)
}
