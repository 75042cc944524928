package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "github.com/karp-sh/karp/pkg/apis/aws/v1"
	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// Intervals of garbage collection (lifecycle rules 1.2).
const (
	collectInterval = 2 * time.Minute
	collectEarly    = 10 * time.Second
	collectEarlyRun = 20
)

// collector is garbage collection in both directions: claims whose instance is gone and instances whose claim is gone (lifecycle rules 18).
// Both rest on two complete listings and share one limit on removals.
type collector struct {
	*shared
	verify func(launchID, token string) bool

	mu       sync.Mutex
	breaker  lifecycle.Breaker
	claims   lifecycle.Suspects
	orphans  lifecycle.Suspects
	reported map[string]bool
}

func newCollector(s *shared, verify func(launchID, token string) bool) *collector {
	return &collector{shared: s, verify: verify, reported: map[string]bool{}}
}

// singletons are the two directions as loops. That of instances is run at the early interval until so many runs have succeeded.
func (l *collector) singletons() []Singleton {
	good := 0
	return []Singleton{
		{Name: "nodeclaim.garbagecollection", Step: func(ctx context.Context) (time.Duration, error) {
			return collectInterval, l.collectClaims(ctx)
		}},
		{Name: "instance.garbagecollection", Step: func(ctx context.Context) (time.Duration, error) {
			err := l.collectInstances(ctx)
			if err == nil {
				good++
			}
			if good <= collectEarlyRun {
				return collectEarly, err
			}
			return collectInterval, err
		}},
	}
}

// collectClaims deletes registered claims whose instance two listings did not show and whose node is not Ready. Claims are read first: one
// created in between is no candidate.
func (l *collector) collectClaims(ctx context.Context) error {
	var list karpv1.NodeClaimList
	if err := l.client.List(ctx, &list); err != nil {
		return err
	}
	mine := managedClaims(list.Items)
	listing, err := l.list(ctx)
	if err != nil {
		return err
	}
	live := map[string]bool{}
	for i := range listing.Instances {
		live[listing.Instances[i].ProviderID] = !listing.Instances[i].Gone()
	}
	views, nodes, unreadable := l.views(ctx, mine, live)
	l.mu.Lock()
	confirmed := l.claims.Observe(lifecycle.MissingClaims(views, live, nodes, unreadable), l.clock.Now())
	l.mu.Unlock()
	byUID := map[string]*karpv1.NodeClaim{}
	for i := range mine {
		byUID[string(mine[i].UID)] = &mine[i]
	}
	var errs []error
	for _, uid := range confirmed {
		if !l.allowed(ctx, len(mine)) {
			break
		}
		c := byUID[uid]
		removed, err := l.remove(ctx, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("deleting claim %s: %w", c.Name, err))
			continue
		}
		if removed {
			l.spend()
			l.countDisrupted(ctx, c, lifecycle.ReasonGarbageCollected)
			l.log.Debug("garbage collecting nodeclaim with no cloudprovider representation", telemetry.Claim(c.Name), "provider-id", c.Status.ProviderID)
		}
	}
	return errors.Join(errs...)
}

// views translates claims and the nodes of those whose instance was not listed.
func (l *collector) views(ctx context.Context, mine []karpv1.NodeClaim, live map[string]bool) ([]lifecycle.Claim, map[string][]lifecycle.Node, map[string]bool) {
	views := make([]lifecycle.Claim, len(mine))
	nodes, unreadable := map[string][]lifecycle.Node{}, map[string]bool{}
	for i := range mine {
		views[i] = claimOf(&mine[i])
		id := mine[i].Status.ProviderID
		if live[id] {
			continue
		}
		at, err := l.nodesWith(ctx, id)
		if err != nil {
			unreadable[id] = true
			continue
		}
		nodes[id] = nodesOf(at)
	}
	return views, nodes, unreadable
}

// list reads all our instances; an incomplete listing is an error, because nothing may be concluded from it.
func (l *collector) list(ctx context.Context) (cloud.Listing, error) {
	listing, err := l.cloud.List(ctx)
	if err != nil {
		return listing, fmt.Errorf("listing instances: %w", err)
	}
	if !listing.Complete {
		return listing, errors.New("listing instances: pages are missing, nothing is collected")
	}
	return listing, nil
}

// collectInstances terminates instances that carry our identity and that no claim refers to. Instances are listed first: the claim of one
// launched in between is found.
func (l *collector) collectInstances(ctx context.Context) error {
	listing, err := l.list(ctx)
	if err != nil {
		return err
	}
	// Read past the cache: a claim that the cache does not show yet must not cost an instance.
	var list karpv1.NodeClaimList
	if err := l.live.List(ctx, &list); err != nil {
		return err
	}
	mine := managedClaims(list.Items)
	found := orphansOf(listing.Instances, l.cfg.AWS.ClusterName)
	now := l.clock.Now()
	remove, report := lifecycle.Orphans(found, claimedBy(mine, listing.Instances), l.verify, now)
	l.report(report)
	l.mu.Lock()
	confirmed := l.orphans.Observe(remove, now)
	l.mu.Unlock()
	byID := map[string]*cloud.Instance{}
	for i := range listing.Instances {
		byID[listing.Instances[i].ID] = &listing.Instances[i]
	}
	var errs []error
	for _, id := range confirmed {
		if !l.allowed(ctx, len(mine)) {
			break
		}
		errs = append(errs, l.terminate(ctx, byID[id]))
	}
	return errors.Join(errs...)
}

// claimedBy returns the provider IDs that claims refer to: by status, or by the launch identity while the status does not show it yet.
func claimedBy(list []karpv1.NodeClaim, instances []cloud.Instance) map[string]bool {
	claimed, uids := map[string]bool{}, map[string]bool{}
	for i := range list {
		claimed[list[i].Status.ProviderID] = true
		if list[i].Status.ProviderID == "" {
			uids[string(list[i].UID)] = true
		}
	}
	delete(claimed, "")
	for i := range instances {
		if uid := launchClaim(instances[i].LaunchID); uids[uid] {
			claimed[instances[i].ProviderID] = true
		}
	}
	return claimed
}

// orphansOf translates instances. One without our identity is Karpenter's if it carries the full set of its tags for this cluster.
func orphansOf(instances []cloud.Instance, cluster string) []lifecycle.Orphan {
	out := make([]lifecycle.Orphan, len(instances))
	for i := range instances {
		in := &instances[i]
		out[i] = lifecycle.Orphan{
			ID: in.ID, ProviderID: in.ProviderID, Launched: in.Launched, Gone: in.Gone(), LaunchID: in.LaunchID, Token: in.Token,
			Foreign: in.LaunchID == "" && in.Token == "" && karpenters(in.Tags, cluster),
		}
	}
	return out
}

// karpenters reports whether the tags are all of those that Karpenter gives an instance of the cluster.
func karpenters(tags map[string]string, cluster string) bool {
	_, pool := tags[karpv1.NodePoolLabel]
	return pool && tags[awsv1.TagEC2NodeClass] != "" && tags["kubernetes.io/cluster/"+cluster] == "owned" && tags["eks:eks-cluster-name"] == cluster
}

// report says once which instances carry our tags but a token that is not ours.
func (l *collector) report(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if !l.reported[id] {
			l.reported[id] = true
			l.log.Error("instance carries karp's tags but its launch token does not verify; it is left alone, terminate it by hand if nobody needs it", "instance", id)
		}
	}
}

// terminate ends one instance, and deletes its node if the cloud accepted.
func (l *collector) terminate(ctx context.Context, i *cloud.Instance) error {
	if err := l.fence.Check(); err != nil {
		return err
	}
	var notFound *cloud.NotFound
	err := l.cloud.Terminate(ctx, i.ID)
	switch {
	case errors.As(err, &notFound):
		return nil
	case err != nil:
		return fmt.Errorf("terminating instance %s, which no claim refers to: %w", i.ID, err)
	}
	l.spend()
	l.log.Debug("garbage collected cloudprovider instance", "provider-id", i.ProviderID)
	nodes, err := l.nodesWith(ctx, i.ProviderID)
	if err != nil {
		return err
	}
	for j := range nodes {
		if _, err := l.remove(ctx, &nodes[j]); err != nil {
			return fmt.Errorf("deleting node %s: %w", nodes[j].Name, err)
		}
		l.log.Debug("garbage collected node", telemetry.Node(nodes[j].Name), "provider-id", i.ProviderID)
	}
	return nil
}

// allowed asks the breaker. When it is open, it says so, and only a human's word on the Lease lets removals go on.
func (l *collector) allowed(ctx context.Context, total int) bool {
	now := l.clock.Now()
	l.mu.Lock()
	left := l.breaker.Left(total, now)
	l.mu.Unlock()
	if left > 0 || l.approved(ctx, now) {
		return true
	}
	l.log.Error("garbage collection has reached its limit of removals and stops; find out why so many instances or claims are without counterpart, "+
		"then allow more by the annotation on the Lease", "annotation", sweepApproved, "lease", l.cfg.LeaseNamespace()+"/"+l.cfg.LeaderElectionName)
	return false
}

// sweepApproved is the Lease's annotation that lets garbage collection go beyond its limit until an RFC 3339 time (reliability rule 5).
const sweepApproved = "karp.sh/sweep-approved-until"

// approved reads the annotation. Whatever cannot be read does not approve.
func (l *collector) approved(ctx context.Context, now time.Time) bool {
	var lease coordinationv1.Lease
	if err := l.live.Get(ctx, client.ObjectKey{Namespace: l.cfg.LeaseNamespace(), Name: l.cfg.LeaderElectionName}, &lease); err != nil {
		return false
	}
	until, err := time.Parse(time.RFC3339, lease.Annotations[sweepApproved])
	return err == nil && now.Before(until)
}

func (l *collector) spend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.breaker.Spend(l.clock.Now())
}
