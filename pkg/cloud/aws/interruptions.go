package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	et "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	qt "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/karp-sh/karp/pkg/cloud"
)

const (
	// receiveAtOnce is the most messages of one call, receiveWait how long SQS waits for the first, hideFor how long a message that is being
	// handled is invisible.
	receiveAtOnce = 10
	receiveWait   = 20 * time.Second
	hideFor       = 20 * time.Second
	// illFor is how long a check must have failed.
	illFor = 2 * time.Minute
)

// queue is the SQS queue of news about instances.
type queue struct {
	api  *sqs.Client
	name string
	mu   sync.Mutex
	url  string
}

// address returns the URL of the queue; it is asked for once.
func (q *queue) address(ctx context.Context) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.url != "" {
		return q.url, nil
	}
	if q.name == "" {
		return "", errors.New("no interruption queue is set")
	}
	out, err := q.api.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &q.name})
	if err != nil {
		return "", fmt.Errorf("finding queue %s: %w", q.name, err)
	}
	q.url = val(out.QueueUrl)
	return q.url, nil
}

// Receive waits up to 20 s for news and reads it.
func (p *Provider) Receive(ctx context.Context) ([]cloud.Message, error) {
	url, err := p.queue.address(ctx)
	if err != nil {
		return nil, err
	}
	out, err := p.queue.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: receiveAtOnce, VisibilityTimeout: int32(hideFor / time.Second), WaitTimeSeconds: int32(receiveWait / time.Second),
		MessageSystemAttributeNames: []qt.MessageSystemAttributeName{qt.MessageSystemAttributeNameSentTimestamp}, MessageAttributeNames: []string{"All"},
	})
	if err != nil {
		return nil, fmt.Errorf("receiving from queue %s: %w", p.queue.name, err)
	}
	account := p.cluster.account()
	list := make([]cloud.Message, 0, len(out.Messages))
	for _, m := range out.Messages {
		read := parseMessage(val(m.Body), account, p.region)
		read.Receipt = val(m.ReceiptHandle)
		list = append(list, read)
	}
	return list, nil
}

// Acknowledge removes a message from the queue.
func (p *Provider) Acknowledge(ctx context.Context, m *cloud.Message) error {
	url, err := p.queue.address(ctx)
	if err != nil {
		return err
	}
	if _, err := p.queue.api.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: &m.Receipt}); err != nil {
		return fmt.Errorf("deleting a message from queue %s: %w", p.queue.name, err)
	}
	return nil
}

// account is the AWS account of the cluster, "" if unknown.
func (c *cluster) account() string {
	a, err := arn.Parse(c.knownARN())
	if err != nil {
		return ""
	}
	return a.AccountID
}

// envelope is what EventBridge puts around every event.
type envelope struct {
	Version    string          `json:"version"`
	Source     string          `json:"source"`
	DetailType string          `json:"detail-type"`
	Account    string          `json:"account"`
	Region     string          `json:"region"`
	Time       time.Time       `json:"time"`
	Detail     json.RawMessage `json:"detail"`
}

// eventDetail are the parts of the details that count, of all kinds together.
type eventDetail struct {
	InstanceID string `json:"instance-id"`
	State      string `json:"state"`
	Service    string `json:"service"`
	Category   string `json:"eventTypeCategory"`
	Affected   []struct {
		Value string `json:"entityValue"`
	} `json:"affectedEntities"`
}

// parseMessage reads the body of a message. Account and region are ours; an empty account is unknown.
func parseMessage(body, account, region string) cloud.Message {
	out := cloud.Message{Kind: cloud.NoInterruption}
	if strings.TrimSpace(body) == "" {
		return out
	}
	var e envelope
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		out.Malformed = fmt.Errorf("reading a message: %w", err)
		return out
	}
	out.Time = e.Time
	out.Foreign = e.Account != "" && account != "" && e.Account != account || e.Region != "" && e.Region != region
	read := readers(e.Version, e.Source, e.DetailType)
	if read == nil {
		return out
	}
	var d eventDetail
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		out.Malformed = fmt.Errorf("reading the detail of a message %q: %w", e.DetailType, err)
		return out
	}
	if kind, ids := read(&d); len(ids) > 0 {
		out.Kind, out.Instances = kind, ids
	}
	return out
}

// readers returns what to make of the detail of an event, nil for one that is not known here.
func readers(version, source, detailType string) func(*eventDetail) (cloud.Interruption, []string) {
	about := func(kind cloud.Interruption) func(*eventDetail) (cloud.Interruption, []string) {
		return func(d *eventDetail) (cloud.Interruption, []string) { return kind, nonEmpty(d.InstanceID) }
	}
	if version != "0" {
		return nil
	}
	switch source + "/" + detailType {
	case "aws.ec2/EC2 Spot Instance Interruption Warning":
		return about(cloud.SpotInterrupted)
	case "aws.ec2/EC2 Instance Rebalance Recommendation":
		return about(cloud.RebalanceRecommendation)
	case "aws.ec2/EC2 Capacity Reservation Instance Interruption Warning":
		return about(cloud.CapacityReservationInterrupted)
	case "aws.ec2/EC2 Instance State-change Notification":
		return stateChange
	case "aws.health/AWS Health Event":
		return healthEvent
	}
	return nil
}

func nonEmpty(ids ...string) []string {
	var out []string
	for _, id := range ids {
		if id != "" {
			out = append(out, id)
		}
	}
	return out
}

// stateChange tells of an instance that ends; other states are no news.
func stateChange(d *eventDetail) (cloud.Interruption, []string) {
	switch strings.ToLower(d.State) {
	case "stopping", "stopped":
		return cloud.InstanceStopped, nonEmpty(d.InstanceID)
	case "shutting-down", "terminated":
		return cloud.InstanceTerminated, nonEmpty(d.InstanceID)
	}
	return cloud.NoInterruption, nil
}

// healthEvent tells of changes that AWS has scheduled for instances.
func healthEvent(d *eventDetail) (cloud.Interruption, []string) {
	if d.Service != "EC2" || d.Category != "scheduledChange" {
		return cloud.NoInterruption, nil
	}
	var ids []string
	for _, a := range d.Affected {
		ids = append(ids, nonEmpty(a.Value)...)
	}
	return cloud.ScheduledChange, ids
}

// Unhealthy lists the instances whose checks fail or for which an event is planned, whoever's they are.
func (p *Provider) Unhealthy(ctx context.Context) ([]cloud.Finding, error) {
	var out []cloud.Finding
	known := sets.New[string]()
	for _, f := range []et.Filter{
		filter("instance-status.status", "impaired"), filter("system-status.status", "impaired"),
		filter("event.code", "instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"),
	} {
		pages := ec2.NewDescribeInstanceStatusPaginator(p.api.describe, &ec2.DescribeInstanceStatusInput{Filters: []et.Filter{f}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if code(err) == codeUnauthorized {
				return nil, &cloud.Unauthorized{Err: fmt.Errorf("describing instance status: %w", err)}
			}
			if err != nil {
				return nil, fmt.Errorf("describing instance status: %w", err)
			}
			for i := range page.InstanceStatuses {
				if s := &page.InstanceStatuses[i]; !known.Has(val(s.InstanceId)) {
					known.Insert(val(s.InstanceId))
					out = append(out, findings(s, p.clock.Now())...)
				}
			}
		}
	}
	return out, nil
}

// findings are what is wrong with an instance, at most one of each kind.
func findings(s *et.InstanceStatus, now time.Time) []cloud.Finding {
	id := val(s.InstanceId)
	var out []cloud.Finding
	for _, check := range []struct {
		kind    cloud.Interruption
		summary *et.InstanceStatusSummary
	}{{cloud.InstanceStatus, s.InstanceStatus}, {cloud.SystemStatus, s.SystemStatus}} {
		if check.summary == nil {
			continue
		}
		for _, d := range check.summary.Details {
			if d.Status == et.StatusTypeFailed && d.ImpairedSince != nil && now.Sub(*d.ImpairedSince) >= illFor {
				out = append(out, cloud.Finding{Instance: id, Kind: check.kind, Since: *d.ImpairedSince, Detail: string(d.Name)})
				break
			}
		}
	}
	for _, e := range s.Events {
		// EC2 keeps showing events for a week after they are over.
		if text := val(e.Description); strings.HasPrefix(text, "[Completed]") || strings.HasPrefix(text, "[Canceled]") {
			continue
		}
		return append(out, cloud.Finding{Instance: id, Kind: cloud.EventStatus, Since: val(e.NotBefore), Detail: string(e.Code)})
	}
	return out
}
