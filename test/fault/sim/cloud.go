package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/pkg/agent"
	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/constraint"
	"github.com/karp-sh/karp/pkg/units"
	"github.com/karp-sh/karp/test/fault/simkube"
)

// Machine is an instance as the cloud knows it.
type Machine struct {
	cloud.Instance
	// ends is when a machine that is shutting down is terminated.
	ends time.Time
	// hidden until then for every call.
	visible time.Time
	digest  string
}

// Cloud is one process's connection to a cloud with one kind of machine. Launches are idempotent by their token; the same token with another
// request is refused.
type Cloud struct {
	agent.Cloud // what the world does not simulate
	*Region

	// Kill ends the process that calls; needed for faults that crash.
	Kill func()
	// Dead tells that the calling process was killed.
	Dead func() bool
}

// Region is the cloud itself.
type Region struct {
	// Before decides about each call that changes something ("Launch", "Terminate", "Tag"); nil lets all pass.
	Before func(call string) simkube.Fault
	// Shutdown is how long a machine takes to end, Hidden how long a new one is not shown.
	Shutdown, Hidden time.Duration

	machines map[string]*Machine
	tokens   map[string]string
	fails    map[string][]error
	always   map[string]error
	// absent hides machines from List, Get or both until told otherwise.
	absent map[string]bool
	// Messages wait in the interruption queue, Findings are what is wrong with instances, Marked is what was told back about offerings.
	Messages []cloud.Message
	Findings []cloud.Finding
	Marked   []string
	// Incomplete listings lack pages.
	Incomplete bool
	// Partition is what a machine's partition turns out to be; empty while it is not known.
	Partition string
	Calls     map[string]int
	// Trace is told each call.
	Trace func(string)
	n     int
	// OnLaunch is told of each machine at its birth.
	OnLaunch func(*Machine)
}

// NewCloud makes an empty cloud.
func NewCloud() *Cloud {
	return &Cloud{Region: &Region{
		machines: map[string]*Machine{}, tokens: map[string]string{}, fails: map[string][]error{}, always: map[string]error{},
		absent: map[string]bool{}, Calls: map[string]int{},
	}}
}

// Connect makes another process's connection to the same cloud.
func (c *Cloud) Connect(kill func(), dead func() bool) *Cloud {
	return &Cloud{Region: c.Region, Kill: kill, Dead: dead}
}

// Fail makes the next calls fail, or all of them if times is negative.
func (c *Cloud) Fail(call string, err error, times int) {
	if times < 0 {
		c.always[call] = err
		return
	}
	for range times {
		c.fails[call] = append(c.fails[call], err)
	}
}

// Heal ends all failures.
func (c *Cloud) Heal() { c.fails, c.always = map[string][]error{}, map[string]error{} }

// begin counts a call and returns the error that is due.
func (c *Cloud) begin(call string) error {
	if c.Dead != nil && c.Dead() {
		return simkube.ErrDead
	}
	c.Calls[call]++
	if c.Trace != nil {
		c.Trace("cloud " + call)
	}
	if err := c.always[call]; err != nil {
		return err
	}
	if list := c.fails[call]; len(list) > 0 {
		c.fails[call] = list[1:]
		return list[0]
	}
	return nil
}

// effect carries out a call under the fault that is due. An error of a lost or dropped call tells nothing about its outcome.
func (c *Cloud) effect(call string, do func() error) error {
	fault := simkube.None
	if c.Before != nil {
		fault = c.Before(call)
	}
	broken := &cloud.UnknownOutcome{Err: fmt.Errorf("%s: connection reset by peer", call)}
	switch fault {
	case simkube.CrashBefore:
		c.Kill()
		return simkube.ErrDead
	case simkube.CrashAfter:
		_ = do()
		c.Kill()
		return simkube.ErrDead
	case simkube.Lost:
		_ = do()
		return broken
	case simkube.None:
		return do()
	default:
		return broken
	}
}

// settle ends machines whose time has come.
func (c *Cloud) settle() {
	for _, m := range c.machines {
		if m.State == "shutting-down" && !time.Now().Before(m.ends) {
			m.State = "terminated"
		}
	}
}

// request is what the cloud records of a launch.
type request struct{ Zone, CapacityType string }

// Resolve implements cloud.Provider.
func (c *Cloud) Resolve(_ context.Context, claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass, id cloud.Identity) (*cloud.Request, error) {
	if err := c.begin("Resolve"); err != nil {
		return nil, err
	}
	r := request{Zone: "z1", CapacityType: "spot"}
	for _, want := range claim.Spec.Requirements {
		if len(want.Values) > 0 && want.Operator == karpv1.In {
			switch want.Key {
			case "topology.kubernetes.io/zone":
				r.Zone = want.Values[0]
			case karpv1.Group + "/capacity-type":
				r.CapacityType = want.Values[0]
			}
		}
	}
	payload, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return &cloud.Request{Token: id.Token(), LaunchID: id.LaunchID(), CapacityType: r.CapacityType, Payload: payload, Digest: string(payload)}, nil
}

// Launch implements cloud.Provider.
func (c *Cloud) Launch(_ context.Context, r *cloud.Request) (*cloud.Instance, error) {
	if err := c.begin("Launch"); err != nil {
		return nil, err
	}
	var out *cloud.Instance
	err := c.effect("Launch", func() error {
		if id, ok := c.tokens[r.Token]; ok {
			if c.machines[id].digest != r.Digest {
				return &cloud.CreateFailed{Reason: cloud.ReasonIdempotentParameterMismatch, Err: fmt.Errorf("token %s was used with another request", r.Token)}
			}
			out = c.machines[id].copied()
			return nil
		}
		m, err := c.make(r)
		if err != nil {
			return err
		}
		c.tokens[r.Token] = m.ID
		out = m.copied()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (m *Machine) copied() *cloud.Instance {
	i := m.Instance
	i.Tags, i.Labels, i.Annotations = maps.Clone(i.Tags), maps.Clone(i.Labels), maps.Clone(i.Annotations)
	return &i
}

func (c *Cloud) make(r *cloud.Request) (*Machine, error) {
	var want request
	if err := json.Unmarshal(r.Payload, &want); err != nil {
		return nil, err
	}
	c.n++
	id := "i-" + strconv.Itoa(c.n)
	m := &Machine{digest: r.Digest, visible: time.Now().Add(c.Hidden), Instance: cloud.Instance{
		ID: id, ProviderID: "fake:///" + want.Zone + "/" + id, Type: "m1", Zone: want.Zone, CapacityType: want.CapacityType, ImageID: "img", State: "running",
		Launched: time.Now(), LaunchID: r.LaunchID, Token: r.Token,
		Tags: map[string]string{"karp.sh/launch-id": r.LaunchID, "karp.sh/launch-token": r.Token},
		Labels: map[string]string{
			"node.kubernetes.io/instance-type": "m1", "topology.kubernetes.io/zone": want.Zone, "karpenter.sh/capacity-type": want.CapacityType,
		},
		Capacity: capacity(), Allocatable: allocatable(),
	}}
	c.machines[id] = m
	if c.OnLaunch != nil {
		c.OnLaunch(m)
	}
	return m, nil
}

func capacity() units.List    { return units.List{"cpu": 4000, "memory": 16 << 30, "pods": 110} }
func allocatable() units.List { return units.List{"cpu": 3900, "memory": 15 << 30, "pods": 110} }

// find returns the machine if a call may see it.
func (c *Cloud) find(id string) (*Machine, error) {
	c.settle()
	m := c.machines[id]
	if m == nil || m.State == "terminated" || c.absent[id] || time.Now().Before(m.visible) {
		return nil, &cloud.NotFound{ID: id}
	}
	return m, nil
}

// Get implements cloud.Provider.
func (c *Cloud) Get(_ context.Context, id string) (*cloud.Instance, error) {
	if err := c.begin("Get"); err != nil {
		return nil, err
	}
	m, err := c.find(id)
	if err != nil {
		return nil, err
	}
	i := m.copied()
	if c.Partition != "" {
		i.Labels[awsv1.LabelPlacementGroupPartition] = c.Partition
	}
	return i, nil
}

// List implements cloud.Provider.
func (c *Cloud) List(context.Context) (cloud.Listing, error) {
	if err := c.begin("List"); err != nil {
		return cloud.Listing{}, err
	}
	out := cloud.Listing{Complete: !c.Incomplete, At: time.Now()}
	for _, id := range slices.Sorted(maps.Keys(c.machines)) {
		if m, err := c.find(id); err == nil {
			out.Instances = append(out.Instances, *m.copied())
		}
	}
	return out, nil
}

// Terminate implements cloud.Provider.
func (c *Cloud) Terminate(_ context.Context, id string) error {
	if err := c.begin("Terminate"); err != nil {
		return err
	}
	return c.effect("Terminate", func() error {
		m, err := c.find(id)
		if err != nil {
			return err
		}
		c.end(m)
		return nil
	})
}

// end begins the end of a machine.
func (c *Cloud) end(m *Machine) {
	if m.State == "shutting-down" {
		return
	}
	m.State, m.ends = "shutting-down", time.Now().Add(c.Shutdown)
	c.settle()
}

// Tag implements cloud.Provider.
func (c *Cloud) Tag(_ context.Context, id string, tags map[string]string) error {
	if err := c.begin("Tag"); err != nil {
		return err
	}
	return c.effect("Tag", func() error {
		m, err := c.find(id)
		if err != nil {
			return err
		}
		maps.Copy(m.Tags, tags)
		return nil
	})
}

// InstanceTypes implements cloud.Catalogs: one type, sold in two zones.
func (c *Cloud) InstanceTypes(context.Context, *awsv1.EC2NodeClass) ([]catalog.InstanceType, error) {
	in := func(key string, values ...string) constraint.Expr {
		return constraint.Expr{Key: key, Operator: constraint.In, Values: values}
	}
	t := catalog.InstanceType{
		Name: "m1", Capacity: capacity(), Overhead: catalog.Overhead{KubeReserved: units.List{"cpu": 100, "memory": 1 << 30}},
		Requirements: []constraint.Expr{
			in("node.kubernetes.io/instance-type", "m1"), in("kubernetes.io/arch", "amd64"), in("kubernetes.io/os", "linux"),
			in("topology.kubernetes.io/zone", "z1", "z2"), in("karpenter.sh/capacity-type", "spot", "on-demand"),
		},
	}
	for _, zone := range []string{"z1", "z2"} {
		for price, kind := range []string{"spot", "on-demand"} {
			t.Offerings = append(t.Offerings, catalog.Offering{Zone: zone, ZoneID: "id-" + zone, CapacityType: kind, Price: units.Money(1000 * (price + 1)), Available: true})
		}
	}
	return []catalog.InstanceType{t}, nil
}

// Generation implements cloud.Catalogs.
func (c *Cloud) Generation() uint64 { return 1 }

// Observe implements cloud.Classes: nothing changes.
func (c *Cloud) Observe(_ context.Context, class *awsv1.EC2NodeClass, _ time.Time) (awsv1.EC2NodeClassStatus, error) {
	return class.Status, nil
}

// Release implements cloud.Classes.
func (c *Cloud) Release(context.Context, *awsv1.EC2NodeClass) (bool, error) { return true, nil }

// Alive are the machines that are not on their way out, by id.
func (c *Cloud) Alive() []*Machine {
	c.settle()
	var out []*Machine
	for _, id := range slices.Sorted(maps.Keys(c.machines)) {
		if m := c.machines[id]; !m.Gone() {
			out = append(out, m)
		}
	}
	return out
}

// Claim is the UID of the claim the machine was launched for.
func (m *Machine) Claim() string {
	uid, _, _ := strings.Cut(m.LaunchID, "/")
	return uid
}
