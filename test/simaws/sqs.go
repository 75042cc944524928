package simaws

import (
	"crypto/md5" //nolint:gosec // the checksum SQS uses
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// sqsService answers for queues.
type sqsService struct{ cloud *cloud.Cloud }

var _ service = (*sqsService)(nil)

func (s *sqsService) action(c *call) string { return target(c, "AmazonSQS") }

func (s *sqsService) serve(action string, c *call) (reply, *cloud.Error) {
	handle := map[string]func(*call) (any, *cloud.Error){
		"GetQueueUrl": s.url, "ReceiveMessage": s.receive, "DeleteMessage": s.delete, "SendMessage": s.send,
	}[action]
	if handle == nil {
		return reply{}, unknownOperation(action)
	}
	out, err := handle(c)
	if err != nil {
		return reply{}, err
	}
	return jsonReply("1.0", out)
}

// refuse also gives the code of the query protocol, as SQS does for old clients.
func (s *sqsService) refuse(_ *call, err *cloud.Error) reply {
	named := *err
	if named.Code == "QueueDoesNotExist" {
		named.Code = "com.amazonaws.sqs#QueueDoesNotExist"
	}
	r := jsonRefusal("1.0", &named, jsonStatus(err.Code))
	if err.Code == "QueueDoesNotExist" {
		r.status = http.StatusBadRequest
		r.headers["X-Amzn-Query-Error"] = "AWS.SimpleQueueService.NonExistentQueue;Sender"
	}
	return r
}

func (s *sqsService) url(c *call) (any, *cloud.Error) {
	var in struct{ QueueName, QueueOwnerAWSAccountId string }
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	if err := s.cloud.HasQueue(in.QueueName); err != nil {
		return nil, err
	}
	return map[string]string{"QueueUrl": "http://" + c.host + "/" + s.cloud.Options().AccountID + "/" + in.QueueName}, nil
}

func queueName(url string) string { return url[strings.LastIndex(url, "/")+1:] }

func (s *sqsService) receive(c *call) (any, *cloud.Error) {
	var in struct {
		QueueUrl                                                           string
		AttributeNames, MessageSystemAttributeNames, MessageAttributeNames []string
		MaxNumberOfMessages, VisibilityTimeout, WaitTimeSeconds            *int
		ReceiveRequestAttemptId                                            string
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	n, err := within(in.MaxNumberOfMessages, 1, 1, 10, "MaxNumberOfMessages")
	if err != nil {
		return nil, err
	}
	visibility, err := within(in.VisibilityTimeout, 30, 0, 43200, "VisibilityTimeout")
	if err != nil {
		return nil, err
	}
	seconds, err := within(in.WaitTimeSeconds, 0, 0, 20, "WaitTimeSeconds")
	if err != nil {
		return nil, err
	}
	messages, err := s.poll(c, queueName(in.QueueUrl), n, time.Duration(visibility)*time.Second, time.Duration(seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	list := []map[string]any{}
	for _, m := range messages {
		list = append(list, map[string]any{
			"MessageId": m.ID, "ReceiptHandle": m.Receipt, "Body": m.Body, "MD5OfBody": checksum(m.Body),
			"Attributes": map[string]string{
				"SentTimestamp": strconv.FormatInt(m.SentAt.UnixMilli(), 10), "ApproximateReceiveCount": strconv.Itoa(m.Receives),
			},
		})
	}
	return map[string]any{"Messages": list}, nil
}

func within(p *int, preset, low, high int, name string) (int, *cloud.Error) {
	if p == nil {
		return preset, nil
	}
	if *p < low || *p > high {
		return 0, apiError("InvalidParameterValue", "Value "+strconv.Itoa(*p)+" for parameter "+name+" is invalid. Reason: Must be between "+
			strconv.Itoa(low)+" and "+strconv.Itoa(high)+", if provided.")
	}
	return *p, nil
}

// pollTick is how often a long poll looks.
const pollTick = 50 * time.Millisecond

// poll waits in real time for the first messages.
func (s *sqsService) poll(c *call, name string, n int, visibility, patience time.Duration) ([]cloud.Message, *cloud.Error) {
	for end := time.Now().Add(patience); ; {
		messages, err := s.cloud.Receive(name, n, visibility)
		if err != nil || len(messages) > 0 || !time.Now().Before(end) {
			return messages, err
		}
		if !wait(c.ctx, pollTick) {
			return nil, nil
		}
	}
}

func (s *sqsService) delete(c *call) (any, *cloud.Error) {
	var in struct{ QueueUrl, ReceiptHandle string }
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	return struct{}{}, s.cloud.Delete(queueName(in.QueueUrl), in.ReceiptHandle)
}

func (s *sqsService) send(c *call) (any, *cloud.Error) {
	var in struct {
		QueueUrl, MessageBody string
		DelaySeconds          int
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	if in.MessageBody == "" {
		return nil, apiError("MissingParameter", "The request must contain the parameter MessageBody.")
	}
	if in.DelaySeconds != 0 {
		return nil, apiError("UnsupportedOperation", "simaws does not implement DelaySeconds")
	}
	id, err := s.cloud.Send(queueName(in.QueueUrl), in.MessageBody)
	if err != nil {
		return nil, err
	}
	return map[string]string{"MessageId": id, "MD5OfMessageBody": checksum(in.MessageBody)}, nil
}

func checksum(s string) string {
	sum := md5.Sum([]byte(s)) //nolint:gosec // the checksum SQS uses
	return hex.EncodeToString(sum[:])
}
