package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "github.com/karp-sh/karp/pkg/apis/karpenter/v1"
	"github.com/karp-sh/karp/pkg/cloud"
	"github.com/karp-sh/karp/pkg/lifecycle"
	"github.com/karp-sh/karp/pkg/telemetry"
)

// News is what the agent hears from the cloud about instances, and what it tells back about offerings.
type News interface {
	cloud.Interruptions
	// MarkUnavailable keeps launches away from an offering for a while; MarkReservationFull from a reservation.
	MarkUnavailable(capacityType, instanceType, zone, reason string)
	MarkReservationFull(id string)
}

// interruptions are the loops interruption and instance.status: claims whose instances are about to end or are ill are deleted at once, so that drain and
// replacement begin together (AWS rules 13).
type interruptions struct {
	*shared
	news News

	mu sync.Mutex
	// handled are messages whose effect is on the claims, for those that come twice; ill are the findings of the last poll.
	handled map[string]time.Time
	ill     map[string]bool
}

// Times of the loops (AWS rules 13.1, 13.4).
const (
	statusPeriod       = time.Minute
	statusUnauthorized = 10 * time.Minute
	receiveRetry       = time.Second
	messageWorkers     = 10
	messageMemory      = time.Hour
	reservationLabel   = "karpenter.k8s.aws/capacity-reservation-id"
)

func newInterruptions(s *shared, news News) *interruptions {
	return &interruptions{shared: s, news: news, handled: map[string]time.Time{}, ill: map[string]bool{}}
}

// Receive waits for messages once and handles them. A message is acknowledged only after the claims carry what it asks for.
func (l *interruptions) Receive(ctx context.Context) (time.Duration, error) {
	messages, err := l.news.Receive(ctx)
	if err != nil {
		return receiveRetry, fmt.Errorf("receiving from the interruption queue: %w", err)
	}
	var (
		group sync.WaitGroup
		errs  = make([]error, len(messages))
		slots = make(chan struct{}, messageWorkers)
	)
	for i := range messages {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			errs[i] = l.handle(ctx, &messages[i])
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return receiveRetry, err
	}
	return disruptAgain, nil
}

func (l *interruptions) handle(ctx context.Context, m *cloud.Message) error {
	switch {
	case m.Malformed != nil:
		l.log.Error("a message of the interruption queue cannot be read", "error", m.Malformed)
		return l.acknowledge(ctx, m)
	case m.Foreign:
		l.metrics.Interruption.Received.WithLabelValues(string(m.Kind)).Inc()
		return l.acknowledge(ctx, m)
	}
	l.metrics.Interruption.Received.WithLabelValues(string(m.Kind)).Inc()
	for _, id := range m.Instances {
		key := strings.Join([]string{id, string(m.Kind), m.Time.String()}, " ")
		if l.known(key) {
			continue
		}
		if err := l.act(ctx, id, m.Kind, ""); err != nil {
			return err
		}
		l.remember(key)
	}
	if !m.Time.IsZero() {
		l.metrics.Interruption.Age.Observe(l.clock.Since(m.Time).Seconds())
	}
	return l.acknowledge(ctx, m)
}

func (l *interruptions) acknowledge(ctx context.Context, m *cloud.Message) error {
	if err := l.news.Acknowledge(ctx, m); err != nil {
		return fmt.Errorf("acknowledging a message: %w", err)
	}
	l.metrics.Interruption.Deleted.Inc()
	return nil
}

func (l *interruptions) known(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.handled[key]
	return ok
}

func (l *interruptions) remember(key string) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, t := range l.handled {
		if now.Sub(t) > messageMemory {
			delete(l.handled, k)
		}
	}
	l.handled[key] = now
}

// Poll asks once which instances are ill, independently of the queue.
func (l *interruptions) Poll(ctx context.Context) (time.Duration, error) {
	findings, err := l.news.Unhealthy(ctx)
	var denied *cloud.Unauthorized
	if errors.As(err, &denied) {
		return statusUnauthorized, err
	}
	if err != nil {
		return statusPeriod, err
	}
	now := map[string]bool{}
	var errs []error
	for _, f := range findings {
		key := f.Instance + " " + string(f.Kind)
		if now[key] {
			continue
		}
		now[key] = true
		ours, err := l.claimsOf(ctx, f.Instance)
		if err == nil && len(ours) > 0 {
			if !l.ill[key] {
				l.metrics.Interruption.Unhealthy.WithLabelValues(string(f.Kind)).Inc()
			}
			err = l.act(ctx, f.Instance, f.Kind, f.Detail)
		}
		errs = append(errs, err)
	}
	l.ill = now
	return statusPeriod, errors.Join(errs...)
}

// claimsOf are the claims whose instance has the ID.
func (l *interruptions) claimsOf(ctx context.Context, id string) ([]karpv1.NodeClaim, error) {
	var list karpv1.NodeClaimList
	if err := l.client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing claims: %w", err)
	}
	var out []karpv1.NodeClaim
	for _, c := range managedClaims(list.Items) {
		if have, ok := instanceID(c.Status.ProviderID); ok && have == id {
			out = append(out, c)
		}
	}
	return out, nil
}

// act does what a kind of news asks for, to all claims of the instance (AWS rules 13.3).
func (l *interruptions) act(ctx context.Context, id string, kind cloud.Interruption, detail string) error {
	ours, err := l.claimsOf(ctx, id)
	if err != nil {
		return err
	}
	var errs []error
	for i := range ours {
		errs = append(errs, l.interrupt(ctx, &ours[i], kind, detail))
	}
	return errors.Join(errs...)
}

// announcement is the event of a kind of news, about claim and node; ok is false for kinds that are none.
func announcement(kind cloud.Interruption) (event, text string, ok bool) {
	switch kind {
	case cloud.SpotInterrupted:
		return "SpotInterrupted", "The spot instance will be interrupted", true
	case cloud.CapacityReservationInterrupted:
		return "CapacityReservationInstanceInterrupted", "The instance of a capacity reservation will be interrupted", true
	case cloud.ScheduledChange, cloud.EventStatus, cloud.InstanceStatus, cloud.SystemStatus:
		return "InstanceUnhealthy", "The instance is unhealthy", true
	case cloud.InstanceStopped:
		return "InstanceStopping", "The instance is stopping", true
	case cloud.InstanceTerminated:
		return "InstanceTerminating", "The instance is terminating", true
	default:
		return "", "", false
	}
}

func (l *interruptions) interrupt(ctx context.Context, c *karpv1.NodeClaim, kind cloud.Interruption, detail string) error {
	objects := []client.Object{c}
	if nodes, err := l.nodesWith(ctx, c.Status.ProviderID); err == nil {
		for i := range nodes {
			objects = append(objects, &nodes[i])
		}
	}
	if kind == cloud.RebalanceRecommendation {
		for _, o := range objects {
			l.events.Normal(o, "SpotRebalanceRecommendation", "The spot instance is at an elevated risk of interruption")
		}
		return nil
	}
	event, text, ok := announcement(kind)
	if !ok {
		return nil
	}
	if detail != "" {
		text += ": " + detail
	}
	for _, o := range objects {
		l.events.Warn(o, event, text)
	}
	switch kind {
	case cloud.SpotInterrupted:
		if zone, typ := zoneLabel(c), c.Labels[corev1.LabelInstanceTypeStable]; zone != "" && typ != "" {
			l.news.MarkUnavailable("spot", typ, zone, string(kind))
		}
	case cloud.CapacityReservationInterrupted:
		if id := c.Labels[reservationLabel]; id != "" {
			l.news.MarkReservationFull(id)
		}
	case cloud.InstanceStatus, cloud.SystemStatus:
		if err := l.hurry(ctx, c); err != nil {
			return err
		}
	default: // the others say nothing of what is sold or how the node is
	}
	return l.end(ctx, c, objects, kind)
}

// hurry lets the drain of a claim end by force at once: its instance is ill.
func (l *interruptions) hurry(ctx context.Context, c *karpv1.NodeClaim) error {
	if c.Annotations[lifecycle.DeadlineAnnotation] != "" {
		return nil
	}
	base := c.DeepCopy()
	c.Annotations = annotate(c.Annotations, lifecycle.DeadlineAnnotation, l.clock.Now().UTC().Format(time.RFC3339))
	if err := l.patch(ctx, c, base); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("setting the deadline of claim %s: %w", c.Name, err))
	}
	return nil
}

func (l *interruptions) end(ctx context.Context, c *karpv1.NodeClaim, objects []client.Object, kind cloud.Interruption) error {
	if c.DeletionTimestamp != nil {
		return nil
	}
	removed, err := l.remove(ctx, c)
	if err != nil {
		return fmt.Errorf("deleting claim %s because of %s: %w", c.Name, kind, err)
	}
	if removed {
		for _, o := range objects {
			l.events.Warn(o, "TerminatingOnInterruption", "Interruption triggered termination for the NodeClaim/Node")
		}
		l.countDisrupted(ctx, c, string(kind))
		l.log.Info("deleting interrupted nodeclaim", telemetry.Claim(c.Name), "reason", kind)
	}
	return nil
}
