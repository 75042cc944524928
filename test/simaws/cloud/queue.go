package cloud

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Message is a message of a queue.
type Message struct {
	ID, Body, Receipt string
	SentAt            time.Time
	FirstReceive      time.Time
	Receives          int
	Attributes        map[string]MessageAttribute
}

// MessageAttribute is an attribute a sender gave.
type MessageAttribute struct {
	DataType    string
	StringValue string
	BinaryValue []byte
}

type queue struct {
	messages  []*queued
	duplicate bool
	reverse   bool
	retention time.Duration
	createdAt time.Time
}

type queued struct {
	Message
	visibleAt time.Time
}

// queueRetention is how long the interruption queue keeps messages.
const queueRetention = 5 * time.Minute

// queue finds a queue and drops what it has kept long enough.
func (c *Cloud) queue(name string) (*queue, *Error) {
	q := c.queues[name]
	if q == nil {
		return nil, fail("QueueDoesNotExist", "The specified queue does not exist.")
	}
	old := c.opts.Clock.Now().Add(-q.retention)
	q.messages = slices.DeleteFunc(q.messages, func(m *queued) bool { return m.SentAt.Before(old) })
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
	return c.SendWith(name, body, 0, nil)
}

// SendWith also gives the message attributes and hides it for a while.
func (c *Cloud) SendWith(name, body string, delay time.Duration, attributes map[string]MessageAttribute) (string, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	q, err := c.queue(name)
	if err != nil {
		return "", err
	}
	return c.send(q, Message{Body: body, SentAt: now, Attributes: attributes}, now.Add(delay)), nil
}

func (c *Cloud) send(q *queue, m Message, visibleAt time.Time) string {
	c.counters["msg"]++
	m.ID = uuid("message " + strconv.Itoa(c.counters["msg"]))
	q.messages = append(q.messages, &queued{Message: m, visibleAt: visibleAt})
	if q.duplicate {
		q.messages = append(q.messages, &queued{Message: m, visibleAt: visibleAt})
	}
	return m.ID
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
		if m.FirstReceive.IsZero() {
			m.FirstReceive = now
		}
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
	body, err := json.Marshal(map[string]any{
		"version": "0", "id": uuid("event " + c.opts.AccountID + strconv.Itoa(c.counters["event"])),
		"detail-type": kind, "source": source, "account": c.opts.AccountID, "region": c.opts.Region,
		"time": now.UTC().Format(time.RFC3339), "resources": resources, "detail": detail,
	})
	if err == nil {
		c.send(q, Message{Body: string(body), SentAt: now}, now)
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
		State string `json:"status"`
		At    string `json:"lastUpdatedTime"`
	}
	at := now.Format(time.RFC1123)
	var entities []entity
	var arns []string
	for _, id := range instances {
		entities = append(entities, entity{id, "IMPAIRED", at})
		arns = append(arns, c.arn("ec2", "instance/"+id))
	}
	code := "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED"
	c.event("aws.health", "AWS Health Event", now, arns, map[string]any{
		"eventArn":          "arn:" + c.partition() + ":health:" + c.opts.Region + "::event/" + service + "/" + code + "/" + code + "_" + strconv.Itoa(c.counters["event"]),
		"service":           service,
		"eventTypeCategory": category,
		"eventTypeCode":     code,
		"eventScopeCode":    "ACCOUNT_SPECIFIC",
		"communicationId":   digest(at, code)[:40],
		"startTime":         at,
		"lastUpdatedTime":   at,
		"statusCode":        "upcoming",
		"eventRegion":       c.opts.Region,
		"affectedAccount":   c.opts.AccountID,
		"affectedEntities":  entities,
		"eventDescription":  []map[string]string{{"language": "en_US", "latestDescription": "EC2 has detected degradation of the underlying hardware hosting your instance."}},
	})
}

// CreateQueue is CreateQueue: an existing queue is as good.
func (c *Cloud) CreateQueue(name string, retention time.Duration) {
	now := c.lock()
	defer c.mu.Unlock()
	orElse(&retention, 4*24*time.Hour)
	if c.queues[name] == nil {
		c.queues[name] = &queue{retention: retention, createdAt: now}
	}
}

// DeleteQueue is DeleteQueue.
func (c *Cloud) DeleteQueue(name string) *Error {
	c.lock()
	defer c.mu.Unlock()
	_, err := c.queue(name)
	delete(c.queues, name)
	return err
}

// Purge is PurgeQueue.
func (c *Cloud) Purge(name string) *Error {
	c.lock()
	defer c.mu.Unlock()
	q, err := c.queue(name)
	if err == nil {
		q.messages = nil
	}
	return err
}

// Queues lists the names of the queues.
func (c *Cloud) Queues() []string {
	c.lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.queues))
}

// QueueState is what GetQueueAttributes tells.
type QueueState struct {
	Visible, InFlight, Delayed int
	Retention                  time.Duration
	CreatedAt                  time.Time
}

// Queue describes a queue.
func (c *Cloud) Queue(name string) (QueueState, *Error) {
	now := c.lock()
	defer c.mu.Unlock()
	q, err := c.queue(name)
	if err != nil {
		return QueueState{}, err
	}
	out := QueueState{Retention: q.retention, CreatedAt: q.createdAt}
	for _, m := range q.messages {
		switch {
		case !m.visibleAt.After(now):
			out.Visible++
		case m.Receives == 0:
			out.Delayed++
		default:
			out.InFlight++
		}
	}
	return out, nil
}

// ChangeVisibility is ChangeMessageVisibility.
func (c *Cloud) ChangeVisibility(name, receipt string, d time.Duration) *Error {
	now := c.lock()
	defer c.mu.Unlock()
	q, err := c.queue(name)
	if err != nil {
		return err
	}
	for _, m := range q.messages {
		if m.Receipt == receipt {
			m.visibleAt = now.Add(d)
			return nil
		}
	}
	return fail("ReceiptHandleIsInvalid", "The input receipt handle %q is not a valid receipt handle.", receipt)
}
