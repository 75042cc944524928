package cloud

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The states of an instance.
const (
	Pending      = "pending"
	Running      = "running"
	Stopping     = "stopping"
	Stopped      = "stopped"
	ShuttingDown = "shutting-down"
	Terminated   = "terminated"
)

// StateCode is the number that goes with a state.
func StateCode(state string) int {
	return map[string]int{Pending: 0, Running: 16, ShuttingDown: 32, Terminated: 48, Stopping: 64, Stopped: 80}[state]
}

// remembered is how long a terminated instance stays visible.
const remembered = time.Hour

// Interface is a network interface of an instance.
type Interface struct {
	ID, Type, PrivateIP, MAC, PublicIP string
	Description                        string
	Card, Device                       int
	Groups                             []string
	Prefixes                           int
	Secondary, IPv4Prefixes            []string
	IPv6, IPv6Prefixes                 []string
	PrimaryIPv6, DeleteOnTermination   bool
	ConnectionTracking                 *ConnectionTracking
	Tags                               Tags
}

// AttachedVolume is a volume of an instance.
type AttachedVolume struct {
	ID, Device, Type, KMSKey, Snapshot   string
	SizeGiB                              int64
	IOPS, Throughput, InitializationRate int
	Encrypted, DeleteOnTermination       bool
	AttachedAt                           time.Time
	Tags                                 Tags
}

// The states of an instance's kubelet.
const (
	BootWaiting = "waiting" // not due yet
	BootStarted = "started" // user data is being run
	BootJoined  = "joined"  // the Node exists
	BootFailed  = "failed"  // never joins; Reason says why
	BootStopped = "stopped" // the instance is going away
)

// Boot is how far an instance has come in joining the cluster.
type Boot struct {
	State    string
	Reason   string
	NodeName string
}

// Instance is one virtual machine.
type Instance struct {
	ID, Reservation, Type, ImageID, Architecture, Platform string
	Zone, ZoneID, Subnet, VPC                              string
	PrivateIP, PrivateDNS                                  string
	Lifecycle                                              string // "", spot, capacity-block, interruptible-capacity-reservation
	SpotRequest, CapacityReservation                       string
	ReservationPreference, ReservationTarget               string
	Tenancy, PlacementGroup, PlacementGroupName            string
	Partition                                              int
	Groups                                                 []string
	Interfaces                                             []Interface
	Volumes                                                []AttachedVolume
	ProfileName, ProfileARN, ProfileID                     string
	Template, Fleet, Token                                 string
	LaunchedAt                                             time.Time
	State, StateReason                                     string
	Tags                                                   Tags
	UserData                                               []byte
	Metadata                                               MetadataOptions
	Boot                                                   Boot
	PublicIP, IPv6, KeyName, RootDevice, Shutdown          string
	Monitoring, EBSOptimized, Enclave                      bool
	Cores, ThreadsPerCore                                  int
	NestedVirtualization, AMDSEVSNP                        string
	SpotTags                                               Tags

	visibleAt, runningAt, bootAt, warnAt, reclaimAt, stoppedAt, terminatedAt time.Time
	addresses                                                                []netip.Addr
	prefixes                                                                 int
}

func (i *Instance) clone() *Instance {
	copied := *i
	copied.Tags = cloneTags(i.Tags)
	copied.Groups = slices.Clone(i.Groups)
	copied.Interfaces = slices.Clone(i.Interfaces)
	copied.Volumes = slices.Clone(i.Volumes)
	return &copied
}

// Alive tells whether an instance is not on its way out.
func (i *Instance) Alive() bool {
	return i.State == Pending || i.State == Running || i.State == Stopping || i.State == Stopped
}

// CapacityType is on-demand, spot or the market of the reservation.
func (i *Instance) CapacityType() string {
	if i.Lifecycle == "" {
		return "on-demand"
	}
	return i.Lifecycle
}

// settle makes every transition that is due, in order of instance id. Until
// the next one is due, or c.wake is reset, there is nothing to do.
func (c *Cloud) settle(now time.Time) {
	if now.Before(c.wake) {
		return
	}
	c.wake = now.Add(remembered)
	c.settleReservations(now)
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		i := c.instances[id]
		c.advance(i, now)
		for _, at := range []time.Time{i.runningAt, i.bootAt, i.warnAt, i.reclaimAt, i.stoppedAt, i.terminatedAt, i.terminatedAt.Add(remembered)} {
			if at.After(now) && at.Before(c.wake) {
				c.wake = at
			}
		}
	}
}

func (c *Cloud) advance(i *Instance, now time.Time) {
	due := func(at time.Time) bool { return !at.IsZero() && !at.After(now) }
	if i.State == Pending && due(i.runningAt) {
		c.enter(i, Running, i.runningAt)
		i.bootAt = i.runningAt.Add(c.opts.BootDelay)
	}
	if i.State == Running && i.Boot.State == BootWaiting && due(i.bootAt) {
		i.Boot.State = BootStarted
		c.boots = append(c.boots, i.ID)
	}
	if i.Alive() && due(i.warnAt) {
		c.warn(i, spotWarning, i.warnAt)
		i.warnAt = time.Time{}
	}
	if i.Alive() && due(i.reclaimAt) {
		i.StateReason = "Server.SpotInstanceTermination: Instance terminated by the service"
		c.shutDown(i, i.reclaimAt)
	}
	if i.State == Stopping && due(i.stoppedAt) {
		c.enter(i, Stopped, i.stoppedAt)
	}
	if i.State == ShuttingDown && due(i.terminatedAt) {
		c.enter(i, Terminated, i.terminatedAt)
		c.release(i)
	}
	if i.State == Terminated && due(i.terminatedAt.Add(remembered)) {
		delete(c.instances, i.ID)
		delete(c.statuses, i.ID)
	}
}

func (c *Cloud) enter(i *Instance, state string, at time.Time) {
	i.State = state
	c.instanceEvent("EC2 Instance State-change Notification", at, i.ID, map[string]string{"state": state})
}

func (c *Cloud) shutDown(i *Instance, at time.Time) {
	c.enter(i, ShuttingDown, at)
	i.terminatedAt = at.Add(c.opts.ShutdownDelay)
	c.silence(i)
}

// silence ends an instance's kubelet.
func (c *Cloud) silence(i *Instance) {
	c.wake = time.Time{}
	switch i.Boot.State {
	case BootJoined:
		c.stops = append(c.stops, i.ID)
	case BootStopped:
	default:
		i.Boot.State = BootStopped
	}
}

// release gives back what the instance held.
func (c *Cloud) release(i *Instance) {
	if s := c.subnet(i.Subnet); s != nil {
		for _, a := range i.addresses {
			delete(s.used, a)
		}
		s.taken = max(0, s.taken-i.prefixes*prefixSize)
	}
	if r := c.reservations[i.CapacityReservation]; r != nil {
		c.giveBack(r)
	}
	i.addresses, i.prefixes = nil, 0
}

// prefixSize is the number of addresses of a delegated IPv4 prefix (/28).
const prefixSize = 16

func (c *Cloud) visible(id string, now time.Time) *Instance {
	i := c.instances[id]
	if i == nil || i.visibleAt.After(now) {
		return nil
	}
	return i
}

// checkInstances refuses the whole call when one id is malformed or unknown.
func (c *Cloud) checkInstances(ids []string, now time.Time) *Error {
	var missing []string
	for _, id := range ids {
		if !strings.HasPrefix(id, "i-") || len(id) < 10 {
			return fail("InvalidInstanceID.Malformed", "Invalid id: %q", id)
		}
		if c.visible(id, now) == nil {
			missing = append(missing, id)
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", missing[0])
	}
	return fail("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(missing, ", "))
}

func (i *Instance) property(name string) ([]string, bool) {
	switch name {
	case "instance-id":
		return []string{i.ID}, true
	case "instance-state-name":
		return []string{i.State}, true
	case "instance-state-code":
		return []string{strconv.Itoa(StateCode(i.State))}, true
	case "instance-type":
		return []string{i.Type}, true
	case "instance-lifecycle":
		if i.Lifecycle == "" {
			return nil, true
		}
		return []string{i.Lifecycle}, true
	case "availability-zone":
		return []string{i.Zone}, true
	case "availability-zone-id":
		return []string{i.ZoneID}, true
	case "subnet-id":
		return []string{i.Subnet}, true
	case "vpc-id":
		return []string{i.VPC}, true
	case "image-id":
		return []string{i.ImageID}, true
	case "private-dns-name":
		return []string{i.PrivateDNS}, true
	case "private-ip-address":
		return []string{i.PrivateIP}, true
	case "client-token":
		return []string{i.Token}, true
	case "reservation-id":
		return []string{i.Reservation}, true
	case "instance.group-id", "network-interface.group-id":
		return i.Groups, true
	}
	return i.moreProperties(name)
}

func (i *Instance) moreProperties(name string) ([]string, bool) {
	some := func(v string) ([]string, bool) {
		if v == "" {
			return nil, true
		}
		return []string{v}, true
	}
	switch name {
	case "iam-instance-profile.arn":
		return some(i.ProfileARN)
	case "iam-instance-profile.id":
		return some(i.ProfileID)
	case "iam-instance-profile.name":
		return some(i.ProfileName)
	case "spot-instance-request-id":
		return some(i.SpotRequest)
	case "capacity-reservation-id":
		return some(i.CapacityReservation)
	case "placement-group-name":
		return some(i.PlacementGroupName)
	case "placement-partition-number":
		return some(strconv.Itoa(i.Partition))
	case "tenancy":
		return some(i.Tenancy)
	case "architecture":
		return some(i.Architecture)
	case "platform":
		return some(i.Platform)
	case "key-name":
		return some(i.KeyName)
	case "ip-address":
		return some(i.PublicIP)
	case "root-device-type":
		return some("ebs")
	case "owner-id":
		return nil, true
	case "launch-time":
		return some(i.LaunchedAt.Format("2006-01-02T15:04:05.000Z"))
	case "metadata-options.http-tokens":
		return some(i.Metadata.Tokens)
	case "network-interface.subnet-id":
		return some(i.Subnet)
	case "block-device-mapping.volume-id":
		var ids []string
		for _, v := range i.Volumes {
			ids = append(ids, v.ID)
		}
		return ids, true
	case "network-interface.network-interface-id":
		var ids []string
		for _, n := range i.Interfaces {
			ids = append(ids, n.ID)
		}
		return ids, true
	}
	return nil, false
}

// Instances is DescribeInstances, ordered by id.
func (c *Cloud) Instances(ids []string, filters []Filter) ([]*Instance, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	if err := c.checkInstances(ids, now); err != nil {
		return nil, err
	}
	if err := check(filters, new(Instance).property); err != nil {
		return nil, err
	}
	candidates := ids
	if ids == nil {
		candidates = slices.Collect(maps.Keys(c.instances))
	}
	candidates = slices.Compact(slices.Sorted(slices.Values(candidates)))
	var out []*Instance
	for _, id := range candidates {
		i := c.visible(id, now)
		if i == nil {
			continue
		}
		ok, err := pass(filters, i.Tags, i.property)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, i.clone())
		}
	}
	return out, nil
}

// All lists every instance, hidden ones included, ordered by id.
func (c *Cloud) All() []*Instance {
	c.lock()
	defer c.mu.Unlock()
	out := make([]*Instance, 0, len(c.instances))
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		out = append(out, c.instances[id].clone())
	}
	return out
}

// StateChange is one instance's answer to TerminateInstances.
type StateChange struct{ ID, Previous, Current string }

// Terminate is TerminateInstances: all or nothing.
func (c *Cloud) Terminate(ids []string, dryRun bool) ([]StateChange, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	if err := c.checkInstances(ids, now); err != nil || dryRun {
		return nil, err
	}
	return c.change(ids, func(i *Instance) {
		if i.Alive() {
			i.StateReason = "Client.UserInitiatedShutdown: User initiated shutdown"
			c.shutDown(i, now)
		}
	}, now), nil
}

// Hide makes an instance invisible to API calls for a while.
func (c *Cloud) Hide(id string, d time.Duration) error {
	now := c.lock()
	defer c.mu.Unlock()
	i := c.instances[id]
	if i == nil {
		return fmt.Errorf("no instance %q", id)
	}
	i.visibleAt = now.Add(d)
	return nil
}

// Kill terminates an instance from outside of the API, as an operator or a
// failing host would.
func (c *Cloud) Kill(id, reason string) error {
	now := c.lock()
	defer c.mu.Unlock()
	i := c.instances[id]
	if i == nil || !i.Alive() {
		return fmt.Errorf("no instance %q that runs", id)
	}
	orElse(&reason, "Server.InternalError")
	i.StateReason = reason
	c.shutDown(i, now)
	c.settle(now)
	return nil
}

const spotWarning = "EC2 Spot Instance Interruption Warning"

// Interrupt warns that a spot instance (or one in interruptible capacity) is
// reclaimed after the notice period, and reclaims it then. With rebalance a
// recommendation comes first.
func (c *Cloud) Interrupt(id string, rebalance bool) error {
	now := c.lock()
	defer c.mu.Unlock()
	i := c.instances[id]
	if i == nil || i.State != Pending && i.State != Running {
		return fmt.Errorf("no instance %q that runs", id)
	}
	kind := spotWarning
	switch i.Lifecycle {
	case "spot":
	case "interruptible-capacity-reservation":
		kind = "EC2 Capacity Reservation Instance Interruption Warning"
	default:
		return fmt.Errorf("instance %s is neither spot nor in interruptible capacity", id)
	}
	if rebalance {
		c.instanceEvent("EC2 Instance Rebalance Recommendation", now, id, nil)
	}
	c.warn(i, kind, now)
	return nil
}

// warn announces that an instance is reclaimed, and sees to it.
func (c *Cloud) warn(i *Instance, kind string, now time.Time) {
	i.reclaimAt = now.Add(c.opts.InterruptionNotice)
	detail := map[string]string{"instance-action": "terminate"}
	if kind != spotWarning {
		detail["instance-termination-time"] = i.reclaimAt.UTC().Format(time.RFC3339)
		detail["availability-zone-id"], detail["instance-lifecycle"] = i.ZoneID, i.Lifecycle
	}
	c.instanceEvent(kind, now, i.ID, detail)
	c.wake = time.Time{}
}

// RecommendRebalance sends a rebalance recommendation alone.
func (c *Cloud) RecommendRebalance(id string) error {
	now := c.lock()
	defer c.mu.Unlock()
	if c.instances[id] == nil {
		return fmt.Errorf("no instance %q", id)
	}
	c.instanceEvent("EC2 Instance Rebalance Recommendation", now, id, nil)
	return nil
}

// TakeBoots hands out the instances whose kubelet is due to start, each once.
func (c *Cloud) TakeBoots() []*Instance {
	c.lock()
	defer c.mu.Unlock()
	return c.take(&c.boots)
}

// TakeStops hands out the instances whose kubelet is due to stop, each once.
func (c *Cloud) TakeStops() []*Instance {
	c.lock()
	defer c.mu.Unlock()
	return c.take(&c.stops)
}

func (c *Cloud) take(ids *[]string) []*Instance {
	var out []*Instance
	for _, id := range *ids {
		if i := c.instances[id]; i != nil {
			out = append(out, i.clone())
		}
	}
	*ids = nil
	return out
}

// SetBoot records how far an instance's kubelet has come. An instance that
// left in the meantime is handed to TakeStops if its kubelet joined.
func (c *Cloud) SetBoot(id string, b Boot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.instances[id]
	if i == nil {
		return
	}
	i.Boot = b
	if b.State == BootJoined && i.State != Running {
		c.stops = append(c.stops, id)
	}
}

// RoleOf returns the role an instance has; an error says why it has none.
func (c *Cloud) RoleOf(i *Instance) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.ProfileName == "" {
		return "", fmt.Errorf("the instance has no instance profile")
	}
	p := c.profiles[i.ProfileName]
	switch {
	case p == nil:
		return "", fmt.Errorf("instance profile %s does not exist", i.ProfileName)
	case p.Role == "":
		return "", fmt.Errorf("instance profile %s has no role", i.ProfileName)
	case c.roles[p.Role] == nil:
		return "", fmt.Errorf("role %s of instance profile %s does not exist", p.Role, p.Name)
	case !c.admitted(c.roles[p.Role]):
		return "", fmt.Errorf("Unauthorized: the cluster has no access entry for nodes of role %s", c.roles[p.Role].ARN) //nolint:staticcheck // as the kubelet says
	}
	return p.Role, nil
}

func decodeUserData(s string) []byte {
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil // refused when the template was made
	}
	return raw
}

// Runs tells whether an instance is pending or running.
func (c *Cloud) Runs(id string) bool {
	c.lock()
	defer c.mu.Unlock()
	i := c.instances[id]
	return i != nil && (i.State == Pending || i.State == Running)
}

// BootImage is the image an instance boots.
func (c *Cloud) BootImage(id string) (Image, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, img := range slices.Concat(c.images, c.oldImages) {
		if img.ID == id {
			return *img, nil
		}
	}
	return Image{}, fmt.Errorf("no image %q", id)
}
