package simaws

import (
	"strconv"
	"strings"
	"time"

	"github.com/karp-sh/karp/test/simaws/cloud"
)

// sqsService answers for queues.
type sqsService struct{ cloud *cloud.Cloud }

var (
	_ service = (*sqsService)(nil)
	_ guarded = (*sqsService)(nil)
)

func (s *sqsService) action(c *call) string { return target(c, "AmazonSQS") }

func (s *sqsService) serve(action string, c *call) (reply, *cloud.Error) {
	handle := map[string]func(*call) (any, *cloud.Error){
		"ChangeMessageVisibility": s.changeVisibility, "CreateQueue": s.create, "DeleteMessage": s.delete, "DeleteMessageBatch": s.deleteBatch,
		"DeleteQueue": s.deleteQueue, "GetQueueAttributes": s.attributes, "GetQueueUrl": s.url, "ListQueues": s.list, "PurgeQueue": s.purge,
		"ReceiveMessage": s.receive, "SendMessage": s.send,
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
	codes := map[string][2]string{
		"QueueDoesNotExist": {"com.amazonaws.sqs#QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"},
		"AccessDenied":      {"com.amazon.coral.service#AccessDeniedException", "AccessDenied"},
	}
	r := jsonRefusal("1.0", err, jsonStatus(err.Code))
	if names, ok := codes[err.Code]; ok {
		r = jsonRefusal("1.0", &cloud.Error{Code: names[0], Message: err.Message}, jsonStatus(err.Code))
		r.headers["X-Amzn-Query-Error"] = names[1] + ";Sender"
	}
	return r
}

func (s *sqsService) address(c *call, name string) string {
	return "http://" + c.host + "/" + s.cloud.Options().AccountID + "/" + name
}

func (s *sqsService) url(c *call) (any, *cloud.Error) {
	var in struct{ QueueName, QueueOwnerAWSAccountId string }
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	if err := s.cloud.HasQueue(in.QueueName); err != nil {
		return nil, err
	}
	return map[string]string{"QueueUrl": s.address(c, in.QueueName)}, nil
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
		list = append(list, describeMessage(m, append(in.AttributeNames, in.MessageSystemAttributeNames...), in.MessageAttributeNames))
	}
	if len(list) == 0 {
		return struct{}{}, nil
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

func (s *sqsService) deleteBatch(c *call) (any, *cloud.Error) {
	var in struct {
		QueueUrl string
		Entries  []struct{ Id, ReceiptHandle string }
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	if len(in.Entries) < 1 || len(in.Entries) > 10 {
		return nil, apiError("TooManyEntriesInBatchRequest", "A batch has 1 to 10 entries.")
	}
	good, bad := []map[string]string{}, []map[string]any{}
	for _, e := range in.Entries {
		switch err := s.cloud.Delete(queueName(in.QueueUrl), e.ReceiptHandle); {
		case err == nil:
			good = append(good, map[string]string{"Id": e.Id})
		case err.Code == "QueueDoesNotExist":
			return nil, err
		default:
			bad = append(bad, map[string]any{"Id": e.Id, "Code": err.Code, "Message": err.Message, "SenderFault": true})
		}
	}
	return map[string]any{"Successful": good, "Failed": bad}, nil
}

func (s *sqsService) changeVisibility(c *call) (any, *cloud.Error) {
	var in struct {
		QueueUrl, ReceiptHandle string
		VisibilityTimeout       *int
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	seconds, err := within(in.VisibilityTimeout, 30, 0, 43200, "VisibilityTimeout")
	if err != nil {
		return nil, err
	}
	return struct{}{}, s.cloud.ChangeVisibility(queueName(in.QueueUrl), in.ReceiptHandle, time.Duration(seconds)*time.Second)
}

func (s *sqsService) send(c *call) (any, *cloud.Error) {
	var in struct {
		QueueUrl, MessageBody string
		DelaySeconds          *int
		MessageAttributes     map[string]cloud.MessageAttribute
	}
	if err := readJSON(c, &in); err != nil {
		return nil, err
	}
	if in.MessageBody == "" {
		return nil, apiError("MissingParameter", "The request must contain the parameter MessageBody.")
	}
	delay, err := within(in.DelaySeconds, 0, 0, 900, "DelaySeconds")
	if err != nil {
		return nil, err
	}
	id, err := s.cloud.SendWith(queueName(in.QueueUrl), in.MessageBody, time.Duration(delay)*time.Second, in.MessageAttributes)
	if err != nil {
		return nil, err
	}
	out := map[string]string{"MessageId": id, "MD5OfMessageBody": checksum(in.MessageBody)}
	if len(in.MessageAttributes) > 0 {
		out["MD5OfMessageAttributes"] = attributesChecksum(in.MessageAttributes)
	}
	return out, nil
}
