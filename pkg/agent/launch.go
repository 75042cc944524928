package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/kube"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
	"github.com/karp-sh/karp/pkg/units"
)

// launch makes sure that the claim has an instance (lifecycle rules 7). The order is what makes it safe: the resolved request is recorded on
// the claim, then sent, and its result is stored; after a crash in between, the recorded request is sent again with its token and yields the
// same instance.
func (l *claims) launch(ctx context.Context, p *pass) {
	v := p.view()
	intent, err := lifecycle.ParseIntent(p.claim.Annotations[lifecycle.IntentAnnotation])
	if err != nil {
		p.fail(err)
		return
	}
	if cond, ok := v.Conditions[lifecycle.Launched]; ok && cond.Status != lifecycle.Unknown {
		setClaim(p.claim, p.now, cond)
		if cond.Status == lifecycle.True {
			l.remember(p.claim.UID, nil)
		}
		if settled := lifecycle.Settle(v, intent.Of(v.UID)); settled != nil {
			p.claim.Annotations = annotate(p.claim.Annotations, lifecycle.IntentAnnotation, settled.String())
		}
		return
	}
	instance := l.record(p.claim.UID)
	if instance == nil {
		if instance, err = l.attempt(ctx, p, intent); err == nil {
			l.remember(p.claim.UID, instance)
		}
	}
	l.settle(ctx, p, instance, err)
}

// errRetry says that nothing went wrong with the launch; the pass just has to be repeated.
var errRetry = errors.New("repeating the pass")

// attempt resolves and records a request unless one is recorded whose outcome is open, and sends it.
func (l *claims) attempt(ctx context.Context, p *pass, recorded *lifecycle.Intent) (*cloud.Instance, error) {
	number, repeat := lifecycle.NextAttempt(recorded.Of(string(p.claim.UID)))
	var request cloud.Request
	if repeat {
		if err := json.Unmarshal(recorded.Request, &request); err != nil {
			return nil, fmt.Errorf("reading the recorded request of claim %s: %w", p.claim.Name, err)
		}
	} else {
		resolved, err := l.resolve(ctx, p.claim, number)
		if err != nil {
			return nil, err
		}
		if err := l.promise(ctx, p, resolved, number, recorded); err != nil {
			l.refuse(p, fmt.Errorf("recording the intent to launch claim %s: %w", p.claim.Name, err))
			return nil, errRetry
		}
		request = *resolved
	}
	if err := l.fence.Check(); err != nil {
		return nil, &cloud.UnknownOutcome{Err: err}
	}
	return l.cloud.Launch(ctx, &request)
}

// resolve asks the cloud for the exact request of an attempt. A class that is missing or going can't be launched from (L-029, L-030).
func (l *claims) resolve(ctx context.Context, c *karpv1.NodeClaim, number int) (*cloud.Request, error) {
	class, err := l.class(ctx, c.Spec.NodeClassRef.Name)
	if err != nil {
		return nil, err
	}
	if class == nil || class.DeletionTimestamp != nil {
		l.events.Warn(c, "FailedResolvingNodeClass", "EC2NodeClass "+c.Spec.NodeClassRef.Name+" does not exist or is being deleted")
		return nil, &cloud.NoCapacity{Detail: "EC2NodeClass " + c.Spec.NodeClassRef.Name + " does not exist or is being deleted"}
	}
	return l.cloud.Resolve(ctx, c, class, cloud.Identity{ClusterUID: l.clusterUID, ClaimUID: string(c.UID), Attempt: number})
}

// promise records the request on the claim, on condition that the claim is still the one that was read.
func (l *claims) promise(ctx context.Context, p *pass, r *cloud.Request, number int, before *lifecycle.Intent) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	intent := lifecycle.Intent{
		Kind: lifecycle.IntentLaunch, Claim: string(p.claim.UID), Attempt: number, Token: r.Token, Request: text, Digest: r.Digest,
		Deadline: p.now.Add(lifecycle.LaunchTimeout).UTC(), Epoch: l.fence.Epoch(),
	}
	if before != nil {
		intent.Decision = before.Decision
	}
	written := p.base.DeepCopy()
	written.Annotations = annotate(written.Annotations, lifecycle.IntentAnnotation, intent.String())
	if err := l.patch(ctx, written, p.base); err != nil {
		return err
	}
	p.base = written
	p.claim.ObjectMeta = *written.ObjectMeta.DeepCopy()
	return nil
}

// settle writes the outcome into the claim, or gives the claim up.
func (l *claims) settle(ctx context.Context, p *pass, instance *cloud.Instance, err error) {
	if errors.Is(err, errRetry) {
		return
	}
	if cloud.SpotRoleMissing(err) {
		l.events.Warn(p.claim, "SpotServiceLinkedRoleCreationFailed",
			"spot instances need the service-linked role AWSServiceRoleForEC2Spot, which the account lacks: create it once for the account")
	}
	outcome := outcomeOf(instance, err)
	step := lifecycle.Launch(p.view(), outcome)
	if step.Outcome == lifecycle.OutcomeFailed {
		l.failed(p)
	}
	if step.Delete != "" {
		l.abandon(ctx, p, step.Delete, err)
		return
	}
	if step.Retry {
		p.fail(fmt.Errorf("launching claim %s: %w", p.claim.Name, err))
	}
	if step.Labels != nil {
		l.adopt(p, instance, step)
	}
	setClaim(p.claim, p.now, step.Conditions...)
}

// failed notes in the intent that the attempt had no effect, so that the next one may begin.
func (l *claims) failed(p *pass) {
	intent, err := lifecycle.ParseIntent(p.claim.Annotations[lifecycle.IntentAnnotation])
	if err != nil || !intent.Of(string(p.claim.UID)).Open() {
		return
	}
	intent.Outcome, intent.Request = lifecycle.OutcomeFailed, nil
	p.claim.Annotations = annotate(p.claim.Annotations, lifecycle.IntentAnnotation, intent.String())
}

// abandon gives up a claim that cannot be launched.
func (l *claims) abandon(ctx context.Context, p *pass, reason string, cause error) {
	l.log.Error("failed launching nodeclaim", telemetry.Claim(p.claim.Name), "error", cause)
	l.giveUp(ctx, p, reason)
	if p.gone && reason == lifecycle.ReasonInsufficientCapacity {
		l.events.Warn(p.claim, "InsufficientCapacityError", lifecycle.Truncate(cause.Error()))
	}
}

// adopt writes what was launched into the claim.
func (l *claims) adopt(p *pass, i *cloud.Instance, step lifecycle.LaunchStep) {
	c := p.claim
	c.Labels, c.Annotations = step.Labels, annotate(step.Annotations, karpv1.LaunchAnnotation, launchStory(c, i))
	if step.ClearNode {
		c.Status.NodeName = ""
	}
	c.Status.ProviderID, c.Status.ImageID = i.ProviderID, i.ImageID
	// What overlays promise counts as there, or pods that need it would be planned for again and again.
	promised := l.feed.OverlayCapacity(poolLabel(c), i.Type)
	c.Status.Capacity, c.Status.Allocatable = kube.Quantities(laid(i.Capacity, promised)), kube.Quantities(laid(i.Allocatable, promised))
	if l.outcome != nil {
		l.outcome(poolLabel(c), true)
	}
	l.log.Info("launched nodeclaim", telemetry.Claim(c.Name), "provider-id", i.ProviderID, "instance-type", i.Type, "zone", i.Zone,
		"capacity-type", i.CapacityType, "allocatable", i.Allocatable)
}

// laid is a list with the amounts of another in place of its own.
func laid(base, over units.List) units.List {
	if len(over) == 0 {
		return base
	}
	out := base.Clone()
	maps.Copy(out, over)
	return out
}

// launchStory is what the annotation karp.sh/launch says: the decision the claim comes from, and what was bought at which price.
func launchStory(c *karpv1.NodeClaim, i *cloud.Instance) string {
	type price struct {
		Amount   string `json:"amount"`
		Currency string `json:"currency"`
		Per      string `json:"per"`
	}
	story := struct {
		Decision     string `json:"decision,omitempty"`
		InstanceType string `json:"instanceType"`
		Zone         string `json:"zone"`
		CapacityType string `json:"capacityType"`
		Price        *price `json:"price,omitempty"`
	}{InstanceType: i.Type, Zone: i.Zone, CapacityType: i.CapacityType}
	if intent, err := lifecycle.ParseIntent(c.Annotations[lifecycle.IntentAnnotation]); err == nil && intent != nil {
		story.Decision = intent.Decision
	}
	if i.Price > 0 {
		story.Price = &price{i.Price.Decimal(), "USD", "hour"}
	}
	text, err := json.Marshal(story)
	if err != nil {
		return "{}" // strings always encode
	}
	return string(text)
}

// outcomeOf sorts the cloud's errors into what the rules tell apart.
func outcomeOf(i *cloud.Instance, err error) lifecycle.Outcome {
	var noCapacity *cloud.NoCapacity
	var notReady *cloud.ClassNotReady
	var createFailed *cloud.CreateFailed
	var unknown *cloud.UnknownOutcome
	switch {
	case err == nil:
		return lifecycle.Outcome{Kind: lifecycle.Created, ProviderID: i.ProviderID, Labels: i.Labels, Annotations: i.Annotations}
	case errors.As(err, &noCapacity):
		return lifecycle.Outcome{Kind: lifecycle.NoCapacity, Message: err.Error()}
	case errors.As(err, &notReady):
		return lifecycle.Outcome{Kind: lifecycle.ClassNotReady, Message: err.Error()}
	case errors.As(err, &createFailed):
		return lifecycle.Outcome{Kind: lifecycle.Failed, Reason: createFailed.Reason, Message: createFailed.Err.Error()}
	case errors.As(err, &unknown):
		return lifecycle.Outcome{Kind: lifecycle.OpenOutcome, Message: unknown.Err.Error()}
	default:
		// An error of no known kind proves nothing about what happened.
		return lifecycle.Outcome{Kind: lifecycle.OpenOutcome, Message: err.Error()}
	}
}
