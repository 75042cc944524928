// Package cloud is what karp asks of a cloud: the provider interface, its requests and its kinds of errors.
package cloud

import (
	"context"
	"time"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/catalog"
	"github.com/karp-sh/karp/pkg/units"
)

// Provider launches, finds and terminates instances. All methods are safe for concurrent use.
type Provider interface {
	// Resolve turns a claim into the exact request that Launch will send. It reads, and it may create what launches share (launch
	// templates), but starts nothing. The request is what the caller records as its intent before calling Launch.
	Resolve(ctx context.Context, claim *karpv1.NodeClaim, class *awsv1.EC2NodeClass, identity Identity) (*Request, error)
	// Launch sends the request. It is idempotent by the request's token: repeating it yields the instance that exists already. An error of
	// kind *UnknownOutcome leaves open whether an instance was launched.
	Launch(ctx context.Context, request *Request) (*Instance, error)
	// Get reads one instance, bypassing caches; *NotFound if it does not exist.
	Get(ctx context.Context, id string) (*Instance, error)
	// List returns every instance that carries our cluster's tags. Complete is false when pages are missing.
	List(ctx context.Context) (Listing, error)
	// Terminate asks for the end of an instance; *NotFound once it is terminated or was never there.
	Terminate(ctx context.Context, id string) error
	// Tag adds tags to an instance.
	Tag(ctx context.Context, id string, tags map[string]string) error
}

// Catalogs gives the instance types a class can launch.
type Catalogs interface {
	// InstanceTypes returns the types of the class, with offerings, prices and present availability, ascending by name. The slice is shared: do not change.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)
	// Generation changes whenever the answer of InstanceTypes may have changed for some class (prices, availability, types).
	Generation() uint64
}

// Classes reconciles what an EC2NodeClass refers to.
type Classes interface {
	// Observe resolves subnets, security groups, images and the instance profile of the class and returns the status that follows,
	// conditions included. It may create or change the instance profile.
	Observe(ctx context.Context, class *awsv1.EC2NodeClass, now time.Time) (awsv1.EC2NodeClassStatus, error)
	// Release removes what the class owns in the cloud (its instance profiles, launch templates); done is false while something remains.
	Release(ctx context.Context, class *awsv1.EC2NodeClass) (done bool, err error)
}

// Identity ties an instance to the claim it is launched for, from its birth.
type Identity struct {
	ClusterUID string
	ClaimUID   string
	Attempt    int
}

// Request is a launch, resolved and frozen. Its JSON form is recorded in the claim's intent.
type Request struct {
	// Token is Identity.Token of the launch, at most 64 characters.
	Token string `json:"token"`
	// LaunchID is "<claim UID>/<attempt>", the value of the identity tag.
	LaunchID string `json:"launchID"`
	// CapacityType chosen for this attempt.
	CapacityType string `json:"capacityType"`
	// Payload is the provider's request in its own form; only the provider reads it.
	Payload []byte `json:"payload"`
	// Digest of the payload, for comparison and logs.
	Digest string `json:"digest"`
}

// Instance is a machine in the cloud, as far as karp cares.
type Instance struct {
	ID, ProviderID string
	Type, Zone     string
	CapacityType   string
	ImageID        string
	State          string // pending, running, stopping, stopped, shutting-down, terminated
	Launched       time.Time
	Tags           map[string]string
	SubnetID       string
	// SecurityGroups are the ids of those of the primary interface.
	SecurityGroups []string
	// ReservationID is the capacity reservation the instance runs in, PlacementGroupID its placement group; empty if none.
	ReservationID, PlacementGroupID string
	// LaunchID and Token are the identity tags, empty if absent.
	LaunchID, Token string
	// Price per hour of the offering at the time of the request; Launch fills it in, 0 if unknown.
	Price units.Money
	// Labels that the instance gives its node and claim; Annotations for the claim.
	Labels, Annotations   map[string]string
	Capacity, Allocatable units.List
}

// Gone reports whether the instance is on its way out or terminated.
func (i *Instance) Gone() bool { return i.State == "shutting-down" || i.State == "terminated" }

// Listing is the answer of List.
type Listing struct {
	Instances []Instance
	// Complete is true when all pages were read; nothing may be concluded from the absence of an instance otherwise.
	Complete bool
	At       time.Time
}
