package cloud

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Message is a message of a queue.
type Message struct {
	ID, Body, Receipt string
	SentAt            time.Time
	Receives          int
}

type queue struct {
	messages  []*queued
	duplicate bool
	reverse   bool
}

type queued struct {
	Message
	visibleAt time.Time
}

func (c *Cloud) queue(name string) (*queue, *Error) {
	q := c.queues[name]
	if q == nil {
		return nil, fail("QueueDoesNotExist", "The specified queue does not exist.")
	}
	return q, nil
}

// HasQueue answers GetQueueUrl.
func (c *Cloud) HasQueue(name string) *Error {
	c.lock()
	defer c.mu.Unlock()
	_, err := c.queue(name)
	return err
}

// Send puts a message on a queue and returns its id.
func (c *Cloud) Send(name, body string) (string, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	q, err := c.queue(name)
	if err != nil {
		return "", err
	}
	return c.send(q, body, now), nil
}

func (c *Cloud) send(q *queue, body string, now time.Time) string {
	id := c.id("msg")
	m := Message{ID: id, Body: body, SentAt: now}
	q.messages = append(q.messages, &queued{Message: m})
	if q.duplicate {
		q.messages = append(q.messages, &queued{Message: m})
	}
	return id
}

// Receive takes up to n visible messages out of sight for a while.
func (c *Cloud) Receive(name string, n int, visibility time.Duration) ([]Message, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	q, err := c.queue(name)
	if err != nil {
		return nil, err
	}
	order := slices.Clone(q.messages)
	if q.reverse {
		slices.Reverse(order)
	}
	var out []Message
	for _, m := range order {
		if len(out) == n {
			break
		}
		if m.visibleAt.After(now) {
			continue
		}
		m.visibleAt = now.Add(visibility)
		m.Receives++
		m.Receipt = c.id("receipt")
		out = append(out, m.Message)
	}
	return out, nil
}

// Delete removes the message that was received last under this receipt;
// an outdated receipt succeeds without an effect, as in SQS.
func (c *Cloud) Delete(name, receipt string) *Error {
	c.lock()
	defer c.mu.Unlock()
	q, err := c.queue(name)
	if err != nil {
		return err
	}
	if len(receipt) < len("receipt-") || receipt[:len("receipt-")] != "receipt-" {
		return fail("ReceiptHandleIsInvalid", "The input receipt handle %q is not a valid receipt handle.", receipt)
	}
	q.messages = slices.DeleteFunc(q.messages, func(m *queued) bool { return m.Receipt == receipt })
	return nil
}

// Messages lists what is on a queue, visible or not.
func (c *Cloud) Messages(name string) ([]Message, *Error) {
	c.lock()
	defer c.mu.Unlock()
	q, err := c.queue(name)
	if err != nil {
		return nil, err
	}
	out := make([]Message, 0, len(q.messages))
	for _, m := range q.messages {
		out = append(out, m.Message)
	}
	return out, nil
}

// Deliver sets how badly the interruption queue behaves: every message twice,
// the newest first.
func (c *Cloud) Deliver(duplicate, reverse bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.queues[c.opts.Queue]; q != nil {
		q.duplicate, q.reverse = duplicate, reverse
	}
}

// event puts an EventBridge envelope on the interruption queue.
func (c *Cloud) event(source, kind string, now time.Time, resources []string, detail any) {
	q := c.queues[c.opts.Queue]
	if q == nil {
		return
	}
	c.counters["event"]++
	h := digest("event", c.opts.AccountID, strconv.Itoa(c.counters["event"]))
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:32]),
		"detail-type": kind, "source": source, "account": c.opts.AccountID, "region": c.opts.Region,
		"time": now.UTC().Format(time.RFC3339), "resources": resources, "detail": detail,
	})
	if err == nil {
		c.send(q, string(body), now)
	}
}

// instanceEvent puts an EC2 event about one instance on the queue.
func (c *Cloud) instanceEvent(kind string, now time.Time, id string, more map[string]string) {
	detail := map[string]string{"instance-id": id}
	for k, v := range more {
		detail[k] = v
	}
	c.event("aws.ec2", kind, now, []string{c.arn("ec2", "instance/"+id)}, detail)
}

// HealthEvent announces a scheduled change of instances through AWS Health.
func (c *Cloud) HealthEvent(service, category string, instances []string) {
	now := c.lock()
	defer c.mu.Unlock()
	type entity struct {
		Value string `json:"entityValue"`
	}
	var entities []entity
	var arns []string
	for _, id := range instances {
		entities = append(entities, entity{id})
		arns = append(arns, c.arn("ec2", "instance/"+id))
	}
	c.event("aws.health", "AWS Health Event", now, arns, map[string]any{
		"service": service, "eventTypeCategory": category, "eventTypeCode": "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED",
		"affectedEntities": entities,
	})
}
