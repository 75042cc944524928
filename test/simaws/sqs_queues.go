package simaws

import (
	"crypto/md5" // the checksum SQS uses
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

func (s *sqsService) create(c *call) (any, *cloud.Error) {
	var in struct {
		QueueName  string
		Attributes map[string]string
		Tags       map[string]string `json:"tags"`
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	if in.QueueName == "" || strings.HasSuffix(in.QueueName, ".fifo") {
		return nil, apiError("UnsupportedOperation", "simaws has standard queues only, with a name")
	}
	var retention time.Duration
	if text, ok := in.Attributes["MessageRetentionPeriod"]; ok {
		seconds, err := strconv.Atoi(text)
		if err != nil || seconds < 60 || seconds > 1209600 {
			return nil, apiError("InvalidAttributeValue", "Invalid value for the parameter MessageRetentionPeriod.")
		}
		retention = time.Duration(seconds) * time.Second
	}
	s.cloud.CreateQueue(in.QueueName, retention)
	return map[string]string{"QueueUrl": s.address(c, in.QueueName)}, nil
}

type queueInput struct{ QueueUrl string }

func (s *sqsService) deleteQueue(c *call) (any, *cloud.Error) {
	var in queueInput
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	return struct{}{}, s.cloud.DeleteQueue(queueName(in.QueueUrl))
}

func (s *sqsService) purge(c *call) (any, *cloud.Error) {
	var in queueInput
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	return struct{}{}, s.cloud.Purge(queueName(in.QueueUrl))
}

func (s *sqsService) list(c *call) (any, *cloud.Error) {
	var in struct {
		QueueNamePrefix, NextToken string
		MaxResults                 *int
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(s.cloud.Queues(), func(n string) bool { return !strings.HasPrefix(n, in.QueueNamePrefix) })
	part, next, err := page(names, paging{in.MaxResults, in.NextToken}, pageLimits{1, 1000, 1000, false}, func(n string) string { return n })
	if err != nil {
		return nil, err
	}
	urls := []string{}
	for _, n := range part {
		urls = append(urls, s.address(c, n))
	}
	out := map[string]any{"QueueUrls": urls}
	if next != "" {
		out["NextToken"] = next
	}
	return out, nil
}

func (s *sqsService) attributes(c *call) (any, *cloud.Error) {
	var in struct {
		QueueUrl       string
		AttributeNames []string
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	q, err := s.cloud.Queue(queueName(in.QueueUrl))
	if err != nil {
		return nil, err
	}
	all := map[string]string{
		"QueueArn": s.cloud.ARN("sqs", queueName(in.QueueUrl)), "ApproximateNumberOfMessages": strconv.Itoa(q.Visible),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(q.InFlight), "ApproximateNumberOfMessagesDelayed": strconv.Itoa(q.Delayed),
		"MessageRetentionPeriod": strconv.Itoa(int(q.Retention.Seconds())), "VisibilityTimeout": "30", "DelaySeconds": "0",
		"CreatedTimestamp": strconv.FormatInt(q.CreatedAt.Unix(), 10), "SqsManagedSseEnabled": "true", "MaximumMessageSize": "1048576",
	}
	return map[string]any{"Attributes": selected(all, in.AttributeNames)}, nil
}

// selected picks the attributes asked for; All is all.
func selected(all map[string]string, names []string) map[string]string {
	out := map[string]string{}
	for k, v := range all {
		if slices.Contains(names, "All") || slices.Contains(names, k) {
			out[k] = v
		}
	}
	return out
}

// describeMessage tells of a message what was asked for.
func describeMessage(m cloud.Message, system, attributes []string) map[string]any {
	out := map[string]any{"MessageId": m.ID, "ReceiptHandle": m.Receipt, "Body": m.Body, "MD5OfBody": checksum(m.Body)}
	all := map[string]string{
		"SentTimestamp": strconv.FormatInt(m.SentAt.UnixMilli(), 10), "ApproximateReceiveCount": strconv.Itoa(m.Receives),
		"ApproximateFirstReceiveTimestamp": strconv.FormatInt(m.FirstReceive.UnixMilli(), 10), "SenderId": "AIDAEVENTS",
	}
	if picked := selected(all, system); len(picked) > 0 {
		out["Attributes"] = picked
	}
	wanted := maps.Clone(m.Attributes)
	maps.DeleteFunc(wanted, func(k string, _ cloud.MessageAttribute) bool {
		return !slices.ContainsFunc(attributes, func(n string) bool {
			return n == "All" || n == ".*" || n == k || strings.HasSuffix(n, ".*") && strings.HasPrefix(k, strings.TrimSuffix(n, "*"))
		})
	})
	if len(wanted) > 0 {
		out["MessageAttributes"], out["MD5OfMessageAttributes"] = wanted, attributesChecksum(wanted)
	}
	return out
}

func checksum(s string) string {
	sum := md5.Sum([]byte(s)) // the checksum SQS uses
	return hex.EncodeToString(sum[:])
}

// attributesChecksum is SQS's digest of message attributes: by name, the
// lengths and bytes of name, type and value.
// Source: SQS developer guide, "Calculating the MD5 message digest for message attributes".
func attributesChecksum(list map[string]cloud.MessageAttribute) string {
	var b []byte
	put := func(v []byte) { b = append(binary.BigEndian.AppendUint32(b, uint32(len(v))), v...) }
	for _, name := range slices.Sorted(maps.Keys(list)) {
		a := list[name]
		put([]byte(name))
		put([]byte(a.DataType))
		if strings.HasPrefix(a.DataType, "Binary") {
			b = append(b, 2)
			put(a.BinaryValue)
			continue
		}
		b = append(b, 1)
		put([]byte(a.StringValue))
	}
	sum := md5.Sum(b) // the checksum SQS uses
	return hex.EncodeToString(sum[:])
}
